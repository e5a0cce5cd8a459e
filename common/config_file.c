/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <ctype.h>
#include <errno.h>
#include <ini.h>
#include <stdio.h>
#include <string.h>

#include "config_file.h"

struct parse {
	struct layer *layer;
	/* About the first bad line, which ini_parse_stream() counts. */
	char error[2 * OPTIONS_TEXT];
	FILE *file;
	int read;     /* lines */
	int too_long; /* the number of the line that was; 0: none */
};

/* fgets() for inih. A line that does not fit its buffer ends the file, and is named. */
static char *next_line(char *text, int size, void *stream)
{
	struct parse *parse = stream;
	char *line = parse->too_long ? NULL : fgets(text, size, parse->file);

	if (!line)
		return NULL;
	parse->read++;
	if (!strchr(text, '\n') && !feof(parse->file)) {
		parse->too_long = parse->read;
		snprintf(parse->error, sizeof(parse->error), "a line has at most %d bytes",
			 size - 2);
	}
	return line;
}

static int handle_line(void *user, const char *section, const char *name, const char *value)
{
	struct parse *parse = user;
	const char *device = NULL;
	char reason[OPTIONS_TEXT];

	if (parse->error[0])
		return 0;
	if (!strncmp(section, "device", 6) && isspace((unsigned char)section[6])) {
		device = section + 6;
		device += strspn(device, " \t");
	} else if (section[0]) {
		snprintf(parse->error, sizeof(parse->error),
			 "[%.64s]: the only sections are [device NAME]", section);
		return 0;
	}
	if (!layer_set(parse->layer, device, name, value, reason))
		return 1;
	snprintf(parse->error, sizeof(parse->error), "%.64s = %.64s: %s", name, value, reason);
	return 0;
}

int config_file_load(const char *path, struct layer *layer)
{
	struct parse parse = { .layer = layer, .file = fopen(path, "re") };
	int line;

	if (!parse.file) {
		if (errno == ENOENT)
			return -ENOENT;
		fprintf(stderr, "simhcad: %s: %m\n", path);
		return -1;
	}
	errno = 0;
	line = ini_parse_stream(next_line, &parse, handle_line, &parse);
	if (ferror(parse.file)) {
		fprintf(stderr, "simhcad: %s: %m\n", path);
		line = -1;
	} else if (line || parse.too_long) {
		fprintf(stderr, "simhcad: %s:%d: %s\n", path,
			parse.too_long ? parse.too_long : line,
			parse.error[0]
				? parse.error
				: "neither a comment, nor [device NAME], nor option = value");
		line = -1;
	}
	fclose(parse.file);
	return line;
}
