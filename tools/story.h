/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The daemon's report of failures (simhcad/admin/admin.h, "explain"), told to people. */
#ifndef SIMHCA_STORY_H
#define SIMHCA_STORY_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "filter.h"

/* A wr_id as programs have it: they count with it, or put pointers there. */
const char *story_wr_id(const json_t *failure, char text[24]);
/* "app[123]", whose it is. */
void story_print_who(FILE *out, const json_t *failure);
/* Of a request that was refused: its sender is not told so, for its service is unreliable. */
bool story_is_unreliable(const json_t *failure);
/* Whether this failure of the list begins a story that passes; those that follow from it do not. */
bool story_is_told(const json_t *list, const json_t *failure, const struct filter *filter);
/* Each failure with its consequences, newest last. How many there were. */
size_t story_print(FILE *out, const json_t *report, const struct filter *filter);
/* Notes of "lint", of one process or all (0). How many there were. */
size_t story_print_lint(FILE *out, const json_t *report, long long pid);
/* "app[123] RDMA_WRITE wr_id 0x3e8: the access ends 1 byte after the region"; of the first one. */
bool story_first(const json_t *report, char *line, size_t size);
/* "app[123] slept, and would not wake up: .."; of the first one. */
bool story_first_sleep(const json_t *report, char *line, size_t size);

#endif
