/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <ctype.h>
#include <errno.h>
#include <ini.h>
#include <stdio.h>
#include <string.h>

#include "config_file.h"

struct parse {
	struct layer *layer;
	char error[2 * OPTIONS_TEXT]; /* about the first bad line, which ini_parse_file() counts */
};

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
	if (!layer_set(parse->layer, device, name, value, true, reason))
		return 1;
	snprintf(parse->error, sizeof(parse->error), "%.64s = %.64s: %s", name, value, reason);
	return 0;
}

int config_file_load(const char *path, struct layer *layer)
{
	struct parse parse = { .layer = layer };
	FILE *file = fopen(path, "re");
	int line;

	if (!file) {
		if (errno == ENOENT)
			return -ENOENT;
		fprintf(stderr, "simhcad: %s: %m\n", path);
		return -1;
	}
	line = ini_parse_file(file, handle_line, &parse);
	fclose(file);
	if (!line)
		return 0;
	if (line < 0)
		fprintf(stderr, "simhcad: %s: out of memory\n", path);
	else
		fprintf(stderr, "simhcad: %s:%d: %s\n", path, line,
			parse.error[0]
				? parse.error
				: "neither a comment, nor [device NAME], nor option = value");
	return -1;
}
