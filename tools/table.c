/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include <libsmartcols.h>

#include "table.h"

#define GAP "  " /* between two columns */

/* What leaving out columns needs to know of one; libsmartcols has the cells. */
struct width {
	int most;
	bool has_content; /* a cell is neither "0" nor "-" */
	bool left_out;
};

struct table {
	const struct table_column *columns;
	size_t count;
	struct libscols_table *text;
	struct libscols_line *row; /* the last one */
	size_t used;		   /* cells of it */
	struct width *widths;
	bool failed; /* a cell is missing */
};

static bool add_columns(struct table *table)
{
	for (size_t i = 0; i < table->count; i++) {
		const struct table_column *column = &table->columns[i];
		int flags =
			(column->right ? SCOLS_FL_RIGHT : 0) | (column->cut ? SCOLS_FL_TRUNC : 0);

		if (!scols_table_new_column(table->text, column->head, 0, flags))
			return false;
		table->widths[i].most = (int)strlen(column->head);
	}
	return true;
}

struct table *table_new(const struct table_column *columns, size_t count)
{
	struct table *table = calloc(1, sizeof(*table));

	if (!table)
		return NULL;
	*table = (struct table){ .columns = columns,
				 .count = count,
				 .text = scols_new_table(),
				 .widths = calloc(count, sizeof(*table->widths)) };
	if (table->text && table->widths && add_columns(table))
		return table;
	table_free(table);
	return NULL;
}

void table_free(struct table *table)
{
	if (!table)
		return;
	scols_unref_table(table->text);
	free(table->widths);
	free(table);
}

static void add_cell(struct table *table, char *text)
{
	struct width *width;

	if (!table->row || table->used == table->count) {
		table->row = scols_table_new_line(table->text, NULL);
		table->used = 0;
	}
	if (!table->row || scols_line_refer_data(table->row, table->used, text)) {
		table->failed = true;
		free(text);
		return;
	}
	width = &table->widths[table->used++];
	if ((int)strlen(text) > width->most)
		width->most = (int)strlen(text);
	width->has_content |= strcmp(text, "0") && strcmp(text, "-");
}

void table_add(struct table *table, const char *format, ...)
{
	char *text = NULL;
	va_list args;

	va_start(args, format);
	if (vasprintf(&text, format, args) < 0)
		text = NULL;
	va_end(args);
	if (text && !*text) {
		free(text);
		text = strdup("-");
	}
	if (text)
		add_cell(table, text);
	else
		table->failed = true;
}

/* Of the columns that are there. */
static int total(const struct table *table, int gap)
{
	int sum = -gap;

	for (size_t i = 0; i < table->count; i++)
		if (!table->widths[i].left_out)
			sum += table->widths[i].most + gap;
	return sum;
}

/* The column to leave out next; the count: none may be. */
static size_t dispensable(const struct table *table)
{
	size_t found = table->count;

	for (size_t i = 0; i < table->count; i++) {
		const struct width *this = &table->widths[i], *best = &table->widths[found];

		if (this->left_out || !table->columns[i].rank)
			continue;
		if (found == table->count || this->has_content < best->has_content ||
		    (this->has_content == best->has_content &&
		     table->columns[i].rank > table->columns[found].rank))
			found = i;
	}
	return found;
}

/* The gap by which it fits, and columns left out if need be. */
static const char *fit(struct table *table, int width)
{
	const char *gap = GAP;
	size_t i;

	if (total(table, (int)strlen(gap)) > width)
		gap++;
	while (total(table, (int)strlen(gap)) > width && (i = dispensable(table)) < table->count) {
		table->widths[i].left_out = true;
		scols_column_set_flags(scols_table_get_column(table->text, i), SCOLS_FL_HIDDEN);
	}
	return gap;
}

/* libsmartcols prints nothing of a table without rows. */
static bool print_heads(FILE *out, const struct table *table, const char *gap)
{
	const char *before = "";

	for (size_t i = 0; i < table->count; i++)
		if (!table->widths[i].left_out) {
			fprintf(out, "%s%s", before, table->columns[i].head);
			before = gap;
		}
	return fputc('\n', out) != EOF;
}

bool table_print(FILE *out, struct table *table, int width)
{
	const char *gap = width ? fit(table, width) : GAP;

	if (table->failed)
		return false;
	if (!table->row)
		return print_heads(out, table, gap);
	scols_table_set_stream(table->text, out);
	scols_table_set_column_separator(table->text, gap);
	scols_table_enable_minout(table->text, 1); /* no blanks at the end of a line */
	scols_table_enable_noencoding(table->text, 1);
	scols_table_set_termforce(table->text,
				  width ? SCOLS_TERMFORCE_ALWAYS : SCOLS_TERMFORCE_NEVER);
	if (width)
		scols_table_set_termwidth(table->text, (size_t)width);
	return !scols_print_table(table->text);
}

int table_width(FILE *out)
{
	struct winsize size;

	return !ioctl(fileno(out), TIOCGWINSZ, &size) ? size.ws_col : 0;
}
