/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The stories of failures as sequence diagrams: two queue pairs side by side, time downwards, with
 * what went between them and what happened at each.
 */
#ifndef SIMHCA_DIAGRAM_H
#define SIMHCA_DIAGRAM_H

#include <jansson.h>
#include <stddef.h>
#include <stdio.h>

#include "story.h"

enum diagram_format {
	DIAGRAM_TEXT,	 /* for a terminal of 80 columns */
	DIAGRAM_MERMAID, /* a block for each story; Markdown of forges draws it */
	DIAGRAM_SVG,	 /* one picture */
};

/*
 * Draws each failed work request of a report of the daemon's (admin.h) that passes the filter.
 * Returns how many there were.
 */
size_t diagram_print(FILE *out, const json_t *report, const struct filter *filter,
		     enum diagram_format format);

#endif
