/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "table.h"

struct table {
	const struct table_column *columns;
	size_t count;
	char **cells; /* row by row */
	size_t used, room;
	bool failed; /* a cell is missing */
};

struct table *table_new(const struct table_column *columns, size_t count)
{
	struct table *table = calloc(1, sizeof(*table));

	if (table)
		*table = (struct table){ .columns = columns, .count = count };
	return table;
}

void table_free(struct table *table)
{
	if (!table)
		return;
	for (size_t i = 0; i < table->used; i++)
		free(table->cells[i]);
	free(table->cells);
	free(table);
}

void table_add(struct table *table, const char *format, ...)
{
	char *text = NULL, **grown;
	va_list args;

	if (table->used == table->room) {
		table->room = table->room ? 2 * table->room : 16 * table->count;
		grown = reallocarray(table->cells, table->room, sizeof(*grown));
		if (!grown) {
			table->room = table->used;
			table->failed = true;
			return;
		}
		table->cells = grown;
	}
	va_start(args, format);
	if (vasprintf(&text, format, args) < 0)
		text = NULL;
	va_end(args);
	table->failed = table->failed || !text;
	table->cells[table->used++] = text;
}

static const char *cell(const struct table *table, size_t row, size_t column)
{
	const char *text = table->cells[row * table->count + column];

	return text && *text ? text : "-";
}

static size_t rows(const struct table *table)
{
	return table->used / table->count;
}

/* What each column takes, with the gap before it. */
static void measure(const struct table *table, int widths[])
{
	for (size_t i = 0; i < table->count; i++) {
		size_t most = strlen(table->columns[i].head);

		for (size_t row = 0; row < rows(table); row++)
			if (strlen(cell(table, row, i)) > most)
				most = strlen(cell(table, row, i));
		widths[i] = (int)most;
	}
}

static bool says_nothing(const struct table *table, size_t column)
{
	for (size_t row = 0; row < rows(table); row++)
		if (strcmp(cell(table, row, column), "0") && strcmp(cell(table, row, column), "-"))
			return false;
	return true;
}

/* Of those that are there. */
static int total(const struct table *table, const int widths[], int gap)
{
	int sum = -gap;

	for (size_t i = 0; i < table->count; i++)
		if (widths[i])
			sum += widths[i] + gap;
	return sum;
}

/* The column to leave out next; the count: none may be. */
static size_t dispensable(const struct table *table, const int widths[])
{
	size_t found = table->count;
	bool found_nothing = false;

	for (size_t i = 0; i < table->count; i++) {
		bool nothing = says_nothing(table, i);

		if (!widths[i] || !table->columns[i].rank)
			continue;
		if (found == table->count || nothing > found_nothing ||
		    (nothing == found_nothing &&
		     table->columns[i].rank > table->columns[found].rank)) {
			found = i;
			found_nothing = nothing;
		}
	}
	return found;
}

/* Has widths (0: left out) and the gap, which is returned, such that the table fits. */
static int fit(const struct table *table, int widths[], int width)
{
	int gap = 2;
	size_t i;

	if (!width)
		return gap;
	if (total(table, widths, gap) > width)
		gap = 1;
	while (total(table, widths, gap) > width && (i = dispensable(table, widths)) < table->count)
		widths[i] = 0;
	for (i = 0; i < table->count; i++) {
		int left = widths[i] - (total(table, widths, gap) - width);

		if (table->columns[i].cut && widths[i] && left < widths[i])
			widths[i] = left > 1 ? left : 1;
	}
	return gap;
}

static bool print_row(FILE *out, const struct table *table, const int widths[], int gap,
		      const char *(*text)(const struct table *table, size_t row, size_t column),
		      size_t row)
{
	int blanks = 0; /* before the next text; none are written at the end of a line */

	for (size_t i = 0; i < table->count; i++) {
		const char *word = text(table, row, i);
		int length = (int)strlen(word);

		if (!widths[i])
			continue;
		length = length < widths[i] ? length : widths[i];
		if (table->columns[i].right)
			blanks += widths[i] - length;
		if (length)
			fprintf(out, "%*s%.*s", blanks, "", length, word);
		blanks = (length ? 0 : blanks) + gap +
			 (table->columns[i].right ? 0 : widths[i] - length);
	}
	return fputc('\n', out) != EOF;
}

static const char *head(const struct table *table, size_t row, size_t column)
{
	(void)row;
	return table->columns[column].head;
}

bool table_print(FILE *out, const struct table *table, int width)
{
	int *widths = calloc(table->count, sizeof(*widths));
	int gap;

	if (!widths || table->failed) {
		free(widths);
		return false;
	}
	measure(table, widths);
	gap = fit(table, widths, width);
	print_row(out, table, widths, gap, head, 0);
	for (size_t row = 0; row < rows(table); row++)
		print_row(out, table, widths, gap, cell, row);
	free(widths);
	return true;
}

int table_width(FILE *out)
{
	struct winsize size;

	return !ioctl(fileno(out), TIOCGWINSZ, &size) ? size.ws_col : 0;
}
