/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Each option of simhcad: its name, its type, where its value is kept, and its text. */
#ifndef SIMHCAD_OPTION_TABLE_H
#define SIMHCAD_OPTION_TABLE_H

#include <stdio.h>

#include "options.h"

enum option_type {
	TYPE_FLAG,
	TYPE_NUMBER,
	TYPE_CHOICE,
	TYPE_STRING,
	TYPE_GUID,
	TYPE_NAME,
	TYPE_DEVICES
};

enum option_scope {
	SCOPE_DEVICE = 1 << 0,	/* may differ between devices */
	SCOPE_NO_FILE = 1 << 1, /* makes sense on the command line only */
	SCOPE_RUN = 1 << 2,	/* of this run: no part of the daemon's identity */
	SCOPE_STARTER = 1 << 3, /* `simhca run` and `start` see to it themselves */
};

struct choice {
	const char *name;
	uint32_t value;
};

struct option_desc {
	const char *name;
	const char *old_name; /* which is taken as well, and shown nowhere; or NULL */
	const char *argument; /* as --help calls it; NULL: none */
	enum option_type type;
	unsigned int scope;
	size_t offset;		      /* in struct settings */
	uint32_t min, max;	      /* TYPE_NUMBER */
	const struct choice *choices; /* TYPE_CHOICE, ended by a NULL name */
	const char *initial;	      /* the default, as text; NULL: 0 */
	const char *help;
};

/* --device is no row of the table, as it has options itself. */
#define OPTION_DEVICE_ARGUMENT "NAME,OPTION=VALUE,.."
#define OPTION_DEVICE_HELP "options of one device; it is added if --devices does not name it"

#define OPTION_MOST 64 /* as many as struct settings has bits to say which were given */
extern const struct option_desc option_table[];
extern const size_t option_count;

/* NULL: there is none of this name. */
const struct option_desc *option_find(const char *name);
void *option_field(struct settings *settings, const struct option_desc *desc);
bool option_has_string(const struct option_desc *desc);

/* -1 and a text like "must be on or off" when the value is not accepted. */
int option_set(struct settings *settings, const struct option_desc *desc, const char *value,
	       char error[OPTIONS_TEXT]);
/* The value as one would give it; empty: there is none. */
void option_print(const struct settings *settings, const struct option_desc *desc,
		  char text[OPTIONS_TEXT]);

/* A paragraph of --help: an option and its argument, and what it does, wrapped. */
void option_print_help(FILE *out, const char *option, const char *help);

int option_check_device_name(const char *name, size_t length, char error[OPTIONS_TEXT]);
/* Says why in error, and returns -1. */
__attribute__((format(printf, 2, 3))) int option_refuse(char error[OPTIONS_TEXT],
							const char *format, ...);

#endif
