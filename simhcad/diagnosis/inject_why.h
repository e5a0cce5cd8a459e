/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Why a rule of faults has not fired. */
#ifndef SIMHCAD_INJECT_WHY_H
#define SIMHCAD_INJECT_WHY_H

#include "simhca-inject.h"

#include <stddef.h>

struct simhca_rule;

/* "" if it has fired, or no more is known than how often it was met. */
void inject_why(const struct simhca_rule *rule, char *text, size_t size);

#endif
