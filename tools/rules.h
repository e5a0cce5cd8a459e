/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Rules of faults, from command lines and files, to the daemon. */
#ifndef SIMHCA_RULES_H
#define SIMHCA_RULES_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct rules {
	char **text;
	size_t count;
};

/*
 * What was given: the name of a file that has a rule in each line (or none, or a comment after #),
 * or a rule. False after a complaint.
 */
bool rules_take(struct rules *rules, const char *given);
void rules_free(struct rules *rules);
/* False after a complaint: the daemon has not taken all. */
bool rules_send(const struct rules *rules, int control);
/* Why a rule of the daemon's list has not fired; "": it has, or that is not known. */
const char *rules_why(const json_t *rule);
/* On stderr: those of this process's lease that nothing has met, and those that never fired. */
void rules_report(int control);

#endif
