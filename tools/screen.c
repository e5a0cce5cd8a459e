/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <ncurses.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "screen.h"

struct screen {
	SCREEN *terminal;
	char *text; /* shown last, for a terminal that changes its size */
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
	free(screen->text);
	free(screen);
}

static void draw(const char *text)
{
	erase();
	for (int row = 0; row < LINES && *text; row++) {
		size_t length = strcspn(text, "\n");
		/* The lines with capitals are heads of tables. */
		bool head = !strncmp(text, "PROGRAM ", 8) || !strncmp(text, "QUEUE PAIR ", 11);

		if (head)
			attron(A_REVERSE);
		mvaddnstr(row, 0, text, (int)(length < (size_t)COLS ? length : (size_t)COLS));
		if (head)
			attroff(A_REVERSE);
		text += length + (text[length] == '\n');
	}
	refresh();
}

void screen_show(struct screen *screen, const char *text)
{
	free(screen->text);
	screen->text = strdup(text);
	draw(text);
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
	case KEY_RESIZE:
		if (screen->text)
			draw(screen->text);
		return SCREEN_OTHER;
	default:
		return SCREEN_OTHER;
	}
}
