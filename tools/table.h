/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Tables as text, by libsmartcols: a row of heads, and rows of cells in columns that are as wide as what is
 * in them, two spaces apart at most. Where that is too wide for a terminal, columns are left out by their rank.
 */
#ifndef SIMHCA_TABLE_H
#define SIMHCA_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct table_column {
	const char *head;
	bool right; /* aligned to the right, as numbers are */
	/*
	 * When the table is too wide, columns whose cells are all "0" or "-" are left out first, and
	 * then others, of the highest rank first. Rank 0 stays.
	 */
	unsigned int rank;
	bool cut; /* its cells lose their ends when leaving out columns was not enough; one at most */
};

struct table;

/* NULL: out of memory. columns stay the caller's, and have to outlive the table. */
struct table *table_new(const struct table_column *columns, size_t count);
void table_free(struct table *table); /* may be NULL */

/* The next cell, from left to right and then in the next row. Empty ones are shown as "-". */
void table_add(struct table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Once, in `width` columns of a terminal (0: as many as it takes). False: a cell had no memory. */
bool table_print(FILE *out, struct table *table, int width);

/* The columns of the terminal that `out` is; 0: it is none. */
int table_width(FILE *out);

#endif
