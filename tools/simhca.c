/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The tool's entry: finds the subcommand. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "closest.h"
#include "command.h"
#include "tool.h"

static const struct topic {
	const char *name, *text;
} topics[] = {
	{ "exit-status",
	  "0    it was done; what was asked for could be told\n"
	  "1    no daemon runs, it has ended, or a file cannot be written\n"
	  "2    options or words that are wrong: a line on stderr names them\n"
	  "\n"
	  "`run`, and `trace` with a command, exit as the command does; 128+N if signal N ended\n"
	  "it; 127 if it was not found, 126 if it could not be executed, 125 if simhca itself\n"
	  "failed, wrong options included. `start` and `stop` fail with 1 when the daemon does not "
	  "start, or does not\n"
	  "end.\n" },
	{ "environment",
	  "SIMHCA_RUNTIME_DIR   the runtime directory, as --runtime-dir\n"
	  "SIMHCA_EXPLAIN       `run`: 1 tells all that failed, 0 nothing; a line otherwise\n"
	  "SIMHCA_PRELOAD_FIRST `run`: a library that goes before ours in LD_PRELOAD\n"
	  "\n"
	  "`simhca env` prints what `run` sets for a command.\n" },
	{ "files",
	  "The runtime directory is --runtime-dir, or SIMHCA_RUNTIME_DIR, or\n"
	  "$XDG_RUNTIME_DIR/simhca, or /run/simhca if we may write there, or /tmp/simhca-UID.\n"
	  "Programs that use one directory are on one fabric. In it are the daemon's sockets, its\n"
	  "lock, and the files that programs see as /sys and /dev.\n" },
};

static const char help_head[] = "Usage: simhca SUBCOMMAND [OPTION]...\n"
				"\n"
				"Gives programs that use libibverbs an RDMA device in software.\n"
				"\n";
static const char help_tail[] =
	"\n"
	"simhca SUBCOMMAND --help, or simhca help SUBCOMMAND, has the options; simhca help\n"
	"exit-status, environment and files tell of these; simhca --version of the version.\n";

static void print_help(FILE *out)
{
	fputs(help_head, out);
	for (const struct command *const *command = commands; *command; command++)
		fprintf(out, "  %-16s %s\n",
			(*command)->takes & NEEDS_COMMAND ? "run -- COMMAND" : (*command)->name,
			(*command)->summary);
	fputs(help_tail, out);
}

#define LIST 256

/* "run, start and stop" */
static const char *list_subcommands(char list[LIST], const char *last)
{
	int length = 0;

	for (const struct command *const *command = commands; *command; command++) {
		const char *before = command == commands ? "" : command[1] ? ", " : last;

		length += snprintf(list + length, LIST - (size_t)length, "%s%s", before,
				   (*command)->name);
	}
	return list;
}

static int help_on(const char *word)
{
	const struct command *command = command_find(word);

	if (command) {
		command_help(stdout, command);
		return EXIT_SUCCESS;
	}
	for (size_t i = 0; i < sizeof(topics) / sizeof(topics[0]); i++)
		if (!strcmp(word, topics[i].name)) {
			fputs(topics[i].text, stdout);
			return EXIT_SUCCESS;
		}
	complain("help %s: must be a subcommand, exit-status, environment or files", word);
	return EXIT_USAGE;
}

/*
 * -j and --runtime-dir may stand before the subcommand, as options of ip(8) and docker do: they are moved
 * behind it.
 */
static void move_options_behind(int argc, char **argv)
{
	int first = 1;

	while (first < argc) {
		if (!strcmp(argv[first], "--runtime-dir"))
			first += 2;
		else if (!strcmp(argv[first], "-j") || !strcmp(argv[first], "--json") ||
			 !strncmp(argv[first], "--runtime-dir=", strlen("--runtime-dir=")))
			first++;
		else
			break;
	}
	if (first < argc && command_find(argv[first])) {
		char *subcommand = argv[first];

		memmove(argv + 2, argv + 1, (size_t)(first - 1) * sizeof(*argv));
		argv[1] = subcommand;
	}
}

static int run_tool(int argc, char **argv)
{
	char list[LIST];
	const char *word;
	struct closest closest;
	const struct command *command;

	if (argc < 2) {
		print_help(stderr);
		return EXIT_USAGE;
	}
	move_options_behind(argc, argv);
	word = argv[1];
	closest = closest_to(word);
	if (!strcmp(word, "help") && argc > 2)
		return help_on(argv[2]);
	if (!strcmp(word, "--help") || !strcmp(word, "-h") || !strcmp(word, "help")) {
		print_help(stdout);
		return EXIT_SUCCESS;
	}
	if (!strcmp(word, "--version") || !strcmp(word, "-V") || !strcmp(word, "version")) {
		puts("simhca " SIMHCA_VERSION);
		return EXIT_SUCCESS;
	}
	if (!strcmp(word, "complete"))
		return complete(argc - 2, argv + 2);
	command = command_find(word);
	if (command) {
		set_subcommand(word);
		return command_run(command, argc - 1, argv + 1);
	}
	for (const struct command *const *known = commands; *known; known++)
		closest_try(&closest, (*known)->name);
	if (closest.best) {
		complain("%s: no such subcommand; did you mean %s?", word, closest.best);
		return EXIT_USAGE;
	}
	complain("%s: no such %s; %s are", word,
		 word[0] == '-' ? "option; --help, --version and the subcommands" : "subcommand",
		 list_subcommands(list, " and "));
	return EXIT_USAGE;
}

int main(int argc, char **argv)
{
	int status;

	let_file_size_fail_writes();
	status = run_tool(argc, argv);
	return flush_output() || status ? status : EXIT_FAILURE;
}
