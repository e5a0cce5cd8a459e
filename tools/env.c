/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* simhca env: the variables of `simhca run`, for those who set them on their own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool.h"

static const char help[] =
	"Usage: simhca env [OPTION]...\n"
	"\n"
	"Prints the variables that show the device to a program, in a shell for example:\n"
	"\n"
	"  simhca start && eval \"$(simhca env)\"\n"
	"\n"
	"  --format FORMAT           sh (default): export commands for a shell\n"
	"                            docker: ENV instructions for a Dockerfile; these leave\n"
	"                            out what the present environment has in the variables\n"
	"                            json: one object\n" HELP_COMMON "\n"
	"Exit status: 0; 1 if the variables cannot be told; 2 for wrong options.\n";

/* One shell word. */
static void print_sh(const struct variable *variable)
{
	printf("export %s='", variable->name);
	for (const char *c = variable->value; *c; c++) {
		if (*c == '\'')
			fputs("'\\''", stdout);
		else
			putchar(*c);
	}
	puts("'");
}

static void print_docker(const struct variable *variable)
{
	printf("ENV %s=\"", variable->name);
	for (const char *c = variable->value; *c; c++) {
		if (strchr("\"\\$", *c))
			putchar('\\');
		putchar(*c);
	}
	puts("\"");
}

static void print_json(const struct variable *variables)
{
	json_t *object = json_object();

	for (int i = 0; variables[i].name; i++)
		json_object_set_new(object, variables[i].name, json_string(variables[i].value));
	json_dumpf(object, stdout, JSON_INDENT(2));
	putchar('\n');
	json_decref(object);
}

int env_main(int argc, char **argv)
{
	static const struct option table[] = {
		OPTIONS_COMMON,
		{ "format", required_argument, NULL, OPT_FORMAT },
		{ 0 },
	};
	const char *given = NULL, *format = "sh";
	struct variable variables[ENVIRONMENT_MAX];
	enum option_code code;
	bool docker, made;
	char *dir;
	int index;

	while ((code = next_option(argc, argv, table, &index)) != OPT_END) {
		switch (code) {
		case OPT_HELP:
			fputs(help, stdout);
			return EXIT_SUCCESS;
		case OPT_RUNTIME_DIR:
			given = optarg;
			break;
		case OPT_FORMAT:
			format = optarg;
			break;
		default:
			return EXIT_USAGE;
		}
	}
	if (!no_more_words(argc, argv))
		return EXIT_USAGE;
	docker = !strcmp(format, "docker");
	if (!docker && strcmp(format, "sh") && strcmp(format, "json")) {
		complain("--format %s: must be sh, docker or json", format);
		return EXIT_USAGE;
	}

	dir = runtime_dir(given);
	if (!dir)
		return EXIT_FAILURE;
	made = environment_make(variables, dir, !docker);
	free(dir);
	if (!made)
		return EXIT_FAILURE;
	if (!strcmp(format, "json"))
		print_json(variables);
	else
		for (int i = 0; variables[i].name; i++)
			(docker ? print_docker : print_sh)(&variables[i]);
	environment_free(variables);
	return flush_output() ? EXIT_SUCCESS : EXIT_FAILURE;
}
