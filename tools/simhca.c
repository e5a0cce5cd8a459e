/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The tool's entry: finds the subcommand. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "closest.h"
#include "tool.h"

static const char help[] =
	"Usage: simhca SUBCOMMAND [OPTION]...\n"
	"\n"
	"Gives programs that use libibverbs an RDMA device in software.\n"
	"\n"
	"  run -- COMMAND   run COMMAND with the device, starting a daemon for it when none runs\n"
	"  start            start a daemon that stays\n"
	"  stop             stop it\n"
	"  status           show devices, and the programs that have them open\n"
	"  qp               show their queue pairs\n"
	"  cq               show their completion queues\n"
	"  srq              show their shared receive queues\n"
	"  mr               show their memory regions\n"
	"  cm               show who listens and who is connected by rdma_cm\n"
	"  stat             show what programs have done so far; for Prometheus, too\n"
	"  top              show what they do, and who waits for whom\n"
	"  wire             show what goes to and comes from other hosts\n"
	"  explain          tell what has failed, and why; what an error means\n"
	"  trace            capture packets, for Wireshark\n"
	"  inject           make faults, to see what programs do then\n"
	"  env              print the variables that `run` sets\n"
	"\n"
	"simhca SUBCOMMAND --help, or simhca help SUBCOMMAND, has the options; simhca help\n"
	"exit-status, environment and files tell of these; simhca --version of the version.\n";

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
	  "failed. `start` and `stop` fail with 1 when the daemon does not start, or does not\n"
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

static const struct subcommand {
	const char *name;
	int (*main)(int argc, char **argv);
} subcommands[] = {
	{ "run", run_main },	   { "start", start_main },	{ "stop", stop_main },
	{ "status", status_main }, { "env", env_main },		{ "qp", qp_main },
	{ "cq", cq_main },	   { "srq", srq_main },		{ "mr", mr_main },
	{ "cm", cm_main },	   { "stat", stat_main },	{ "top", top_main },
	{ "wire", wire_main },	   { "explain", explain_main }, { "trace", trace_main },
	{ "inject", inject_main },
};

#define LIST 256

/* "run, start and stop" */
static const char *list_subcommands(char list[LIST], const char *last)
{
	size_t count = sizeof(subcommands) / sizeof(subcommands[0]);
	int length = 0;

	for (size_t i = 0; i < count; i++) {
		const char *before = !i ? "" : i < count - 1 ? ", " : last;

		length += snprintf(list + length, LIST - (size_t)length, "%s%s", before,
				   subcommands[i].name);
	}
	return list;
}

static const struct subcommand *find_subcommand(const char *name)
{
	for (size_t i = 0; i < sizeof(subcommands) / sizeof(subcommands[0]); i++)
		if (!strcmp(name, subcommands[i].name))
			return &subcommands[i];
	return NULL;
}

static int help_on(char *word)
{
	const struct subcommand *subcommand = find_subcommand(word);
	char option[] = "--help";
	char *argv[] = { word, option, NULL };

	if (subcommand)
		return subcommand->main(2, argv);
	for (size_t i = 0; i < sizeof(topics) / sizeof(topics[0]); i++)
		if (!strcmp(word, topics[i].name)) {
			fputs(topics[i].text, stdout);
			return EXIT_SUCCESS;
		}
	complain("help %s: must be a subcommand, exit-status, environment or files", word);
	return EXIT_USAGE;
}

static int run_tool(int argc, char **argv)
{
	char list[LIST];
	const char *word = argc > 1 ? argv[1] : NULL;
	struct closest closest = closest_to(word);
	const struct subcommand *subcommand;

	if (!word) {
		complain("a subcommand is missing: %s", list_subcommands(list, " or "));
		return EXIT_USAGE;
	}
	if (!strcmp(word, "help") && argc > 2)
		return help_on(argv[2]);
	if (!strcmp(word, "--help") || !strcmp(word, "-h") || !strcmp(word, "help")) {
		fputs(help, stdout);
		return EXIT_SUCCESS;
	}
	if (!strcmp(word, "--version") || !strcmp(word, "-V")) {
		puts("simhca " SIMHCA_VERSION);
		return EXIT_SUCCESS;
	}
	subcommand = find_subcommand(word);
	if (subcommand) {
		set_subcommand(word);
		return subcommand->main(argc - 1, argv + 1);
	}
	for (size_t i = 0; i < sizeof(subcommands) / sizeof(subcommands[0]); i++)
		closest_try(&closest, subcommands[i].name);
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
