/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Rules for `simhca inject` from a capture: what was lost there, or found no receive, is so again.
 */
#ifndef SIMHCA_REPLAY_H
#define SIMHCA_REPLAY_H

#include <stdbool.h>
#include <stdio.h>

/* One rule in a line. False after a complaint: no packets of RoCE v2 were found. */
bool replay_rules(const char *file, FILE *out);

#endif
