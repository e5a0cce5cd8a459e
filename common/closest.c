/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "closest.h"

#define LONGEST 40 /* of words that are compared */

static bool same(char a, char b)
{
	return tolower((unsigned char)a) == tolower((unsigned char)b);
}

/* Letters that were added, left out, changed, or exchanged with the next one. */
static size_t distance(const char *a, size_t a_length, const char *b, size_t b_length)
{
	size_t rows[3][LONGEST + 1];

	for (size_t j = 0; j <= b_length; j++)
		rows[0][j] = j;
	for (size_t i = 1; i <= a_length; i++) {
		size_t *row = rows[i % 3];
		const size_t *above = rows[(i - 1) % 3], *before = rows[(i + 1) % 3];

		row[0] = i;
		for (size_t j = 1; j <= b_length; j++) {
			row[j] = above[j - 1] + !same(a[i - 1], b[j - 1]);
			if (above[j] + 1 < row[j])
				row[j] = above[j] + 1;
			if (row[j - 1] + 1 < row[j])
				row[j] = row[j - 1] + 1;
			if (i > 1 && j > 1 && same(a[i - 1], b[j - 2]) &&
			    same(a[i - 2], b[j - 1]) && before[j - 2] + 1 < row[j])
				row[j] = before[j - 2] + 1;
		}
	}
	return rows[a_length % 3][b_length];
}

void closest_try(struct closest *closest, const char *known)
{
	size_t length = strlen(closest->word), known_length = strlen(known), found;

	if (!length || length > LONGEST || known_length > LONGEST)
		return;
	found = distance(closest->word, length, known, known_length);
	/* One letter in three may be wrong. */
	if (found * 3 > known_length || (closest->best && found >= closest->distance))
		return;
	closest->best = known;
	closest->distance = found;
}
