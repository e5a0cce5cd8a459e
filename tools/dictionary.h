/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The dictionary of `simhca explain ERROR`. */
#ifndef SIMHCA_DICTIONARY_H
#define SIMHCA_DICTIONARY_H

#include <jansson.h>
#include <stdbool.h>

/*
 * Adds to the list what an error means: a completion's status, a reason (vendor_err), an asynchronous
 * event, an event of rdma_cm or an errno, by name or number, or a line that a program has printed of
 * it. A number is each of these that it can be. False: it is none, and nothing was added.
 */
bool dictionary_define(const char *word, json_t *list);
/* As text. */
void dictionary_print(const json_t *list);

/* Each name that is known. */
void dictionary_names(void (*take)(void *arg, const char *name), void *arg);

/* The names that the word is a part of, as text; false: there are none. */
bool dictionary_holding(const char *word, char *text, size_t size);

/* The name that the word is closest to; NULL: it is close to none. */
const char *dictionary_closest(const char *word);

#endif
