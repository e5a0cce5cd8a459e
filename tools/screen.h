/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The terminal of `simhca top`: a page of text, and keys. ncurses, which each Debian system has for
 * its shell; what notcurses can do besides is of no use to a table, and it brings many libraries.
 */
#ifndef SIMHCA_SCREEN_H
#define SIMHCA_SCREEN_H

struct screen;

/* NULL: the terminal is not known. */
struct screen *screen_open(void);
void screen_close(struct screen *screen); /* may be NULL */

/* What does not fit is cut off. */
void screen_show(struct screen *screen, const char *text);
int screen_width(const struct screen *screen); /* in columns; changes with the terminal */

/*
 * Of a key that was pressed (OTHER: one without a meaning), or of what else the terminal says:
 * NOTHING, with something to be read, is its end.
 */
enum screen_key {
	SCREEN_OTHER,
	SCREEN_RESIZED,
	SCREEN_QUIT,
	SCREEN_QPS,
	SCREEN_HELP,
	SCREEN_NEXT_SORT,
	SCREEN_LAST_SORT,
	SCREEN_REVERSE,
	SCREEN_NOTHING,
};
enum screen_key screen_key(struct screen *screen);

#endif
