/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Rules of faults as they are written: Documentation/faults.md has the language. */
#ifndef SIMHCA_INJECT_RULE_H
#define SIMHCA_INJECT_RULE_H

#include <stdbool.h>

#include "simhca-inject.h"

/* One rule. False: error, a line without its end, says what is wrong with it. */
bool inject_rule_parse(const char *text, struct simhca_rule *rule, char *error, size_t size);
/* The words that a rule can begin with, with commas between. */
const char *inject_rule_actions(void);
/*
 * Offers what the last word of the beginning of a rule can be, "" being a word; a value goes with its
 * key, as "opcode=SEND". What is known to a running daemon only is not among it.
 */
void inject_rule_complete(const char *text, void (*offer)(void *arg, const char *word), void *arg);

#endif
