/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <ncurses.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "screen.h"

struct screen {
	SCREEN *terminal;
};

struct screen *screen_open(void)
{
	struct screen *screen = calloc(1, sizeof(*screen));

	if (!screen)
		return NULL;
	screen->terminal = newterm(NULL, stdout, stdin);
	if (!screen->terminal) {
		free(screen);
		return NULL;
	}
	cbreak();
	noecho();
	curs_set(0);
	keypad(stdscr, TRUE);
	nodelay(stdscr, TRUE);
	return screen;
}

void screen_close(struct screen *screen)
{
	if (!screen)
		return;
	endwin();
	delscreen(screen->terminal);
	free(screen);
}

void screen_show(struct screen *screen, const char *text)
{
	(void)screen;
	erase();
	for (int row = 0; row < LINES && *text; row++) {
		size_t length = strcspn(text, "\n");
		/* The lines with capitals are heads of tables. */
		bool head = !strncmp(text, "PROGRAM ", 8) || !strncmp(text, "QPN ", 4);

		if (head)
			attron(A_REVERSE);
		mvaddnstr(row, 0, text, (int)(length < (size_t)COLS ? length : (size_t)COLS));
		if (head)
			attroff(A_REVERSE);
		text += length + (text[length] == '\n');
	}
	refresh();
}

int screen_width(const struct screen *screen)
{
	(void)screen;
	return COLS;
}

enum screen_key screen_key(struct screen *screen)
{
	switch (getch()) {
	case 'q':
	case 'Q':
		return SCREEN_QUIT;
	case ERR:
		return SCREEN_NOTHING;
	case 'p':
		return SCREEN_QPS;
	case 'h':
	case '?':
		return SCREEN_HELP;
	case 's':
	case '>':
		return SCREEN_NEXT_SORT;
	case '<':
		return SCREEN_LAST_SORT;
	case 'r':
	case 'R':
		return SCREEN_REVERSE;
	case KEY_RESIZE:
		return SCREEN_RESIZED;
	default:
		return SCREEN_OTHER;
	}
}
