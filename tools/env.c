/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* simhca env: the variables of `simhca run`, for those who set them on their own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "report.h"
#include "tool.h"

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

/* For $GITHUB_ENV, and docker run --env-file: all of a line is the value. */
static void print_line(const struct variable *variable)
{
	printf("%s=%s\n", variable->name, variable->value);
}

static void print_object(const struct variable *variables)
{
	json_t *object = json_object();

	for (int i = 0; variables[i].name; i++)
		json_object_set_new(object, variables[i].name, json_string(variables[i].value));
	print_json(object);
	json_decref(object);
}

static const char *format = "sh";

static int env(struct asked *asked, char **words)
{
	struct variable variables[ENVIRONMENT_MAX];
	bool docker, lines, made;
	char *dir;

	if (asked->json)
		format = "json";
	docker = !strcmp(format, "docker");
	lines = !strcmp(format, "env-file");
	if (!docker && !lines && strcmp(format, "sh") && strcmp(format, "json")) {
		complain("--format %s: must be sh, docker, env-file or json", format);
		return EXIT_USAGE;
	}
	dir = runtime_dir(asked->runtime_dir);
	if (!dir)
		return EXIT_FAILURE;
	made = environment_make(variables, dir, !docker, true);
	free(dir);
	if (!made)
		return EXIT_FAILURE;
	if (!strcmp(format, "json"))
		print_object(variables);
	else
		for (int i = 0; variables[i].name; i++)
			(docker ? print_docker : lines ? print_line : print_sh)(&variables[i]);
	environment_free(variables);
	return flush_output() ? EXIT_SUCCESS : EXIT_FAILURE;
}

static const struct command_option options[] = {
	{ "format", "FORMAT",
	  "sh (default): export commands for a shell; docker: ENV instructions for a Dockerfile, "
	  "which leave out what the present environment has in the variables; env-file: lines for "
	  "$GITHUB_ENV or docker run --env-file; json: one object",
	  .kind = OPTION_TEXT, .value = &format, .completion = COMPLETE_WORDS,
	  .words = "sh docker env-file json" },
	{ 0 },
};

const struct command env_subcommand = {
	.name = "env",
	.summary = "print the variables that `run` sets",
	.usage = "[OPTION]...",
	.about = "Prints the variables that show the device to a program, in a shell for example:\n"
		 "\n"
		 "  simhca start && eval \"$(simhca env)\"\n",
	.status = "0; 1 if the variables cannot be told; 2 for wrong options.",
	.options = options,
	.takes = TAKES_JSON,
	.run = env,
};
