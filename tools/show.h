/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* How a command is shown the device: by the preload library, or by answering its system calls. */
#ifndef SIMHCA_SHOW_H
#define SIMHCA_SHOW_H

#include <stdbool.h>

enum show {
	SHOW_AUTO,    /* preload, and seccomp too for a program that preloading does not reach */
	SHOW_PRELOAD, /* LD_PRELOAD alone */
	SHOW_SECCOMP, /* system calls alone, for the command and all that it starts */
};

/* False, after a complaint: there is no such way. */
bool show_parse(const char *text, enum show *show);

/* Why LD_PRELOAD does not reach a program. */
struct show_obstacle {
	const char *text; /* follows "it is"; NULL: it does, or nobody can say */
	/* To answer its system calls takes its rights from it: SHOW_AUTO leaves it alone. */
	bool has_rights;
	bool is_hopeless; /* neither way does */
};

/* Of the program that execvp(command) would start. */
struct show_obstacle show_obstacle(const char *command);

#endif
