/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Subcommands. Each is a struct command: what it is for, and which options it takes. Parsing, --help
 * and completion are made from that, and manual pages are compared with it.
 */
#ifndef SIMHCA_COMMAND_H
#define SIMHCA_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "filter.h"

/* What a value, or a word that is no option, can be completed to. */
enum completion {
	COMPLETE_NOTHING,
	COMPLETE_WORDS, /* of a list */
	COMPLETE_FILE,
	COMPLETE_DIRECTORY,
	COMPLETE_NETDEV,
	/* these ask the daemon, if one runs */
	COMPLETE_PID,
	COMPLETE_QP,
	COMPLETE_DEVICE,
	COMPLETE_RULE,
	/* words of subcommands */
	COMPLETE_COMMAND, /* another command, with words of its own */
	COMPLETE_ERROR,	  /* explain */
	COMPLETE_INJECT,  /* inject: add, list .. and what each takes */
};

enum option_kind {
	OPTION_FLAG,   /* value: bool, which becomes true */
	OPTION_TEXT,   /* value: const char * */
	OPTION_NUMBER, /* value: long long, from 1 to 2^32 - 1 */
	OPTION_CHECK,  /* check() takes it; false after a complaint */
	OPTION_DAEMON, /* goes to the daemon that is started */
};

struct command_option {
	const char *name;
	const char *argument; /* as --help calls it; NULL: it takes none */
	const char *help;     /* NULL: it is an old name, which is shown nowhere */
	void *value;
	bool (*check)(const char *text);
	const char *words; /* of COMPLETE_WORDS, with spaces or bars between */
	enum option_kind kind;
	enum completion completion;
	char letter;	     /* 0: none */
	bool value_optional; /* "--name=value", or "--name" alone */
	const char *daemon_name;
};

/* What was asked of the daemon, as its arguments: "--mtu=4096". */
struct daemon_options {
	char **arguments; /* NULL terminated once count > 0 */
	size_t count;
};

/* The values of options that several subcommands have. */
struct asked {
	const char *runtime_dir; /* NULL: the default */
	bool json;
	struct filter filter;
	struct daemon_options daemon;
};

/* Which of these options, and which words, a subcommand takes. */
enum {
	TAKES_JSON = 1 << 0,
	TAKES_PID = 1 << 1,
	TAKES_QP = 1 << 2,
	TAKES_DEVICE = 1 << 3,
	TAKES_FILTER = TAKES_PID | TAKES_QP | TAKES_DEVICE,
	TAKES_DAEMON_OPTIONS = 1 << 4,
	TAKES_WORDS = 1 << 5,	/* between its options, and behind them */
	TAKES_COMMAND = 1 << 6, /* the first word, and all behind it, are another command */
	NEEDS_COMMAND = 1 << 7,
};

struct listing;

struct command {
	const char *name;
	const char *summary; /* of simhca --help */
	const char *usage;   /* lines of what follows the name */
	const char *about;
	const char *notes;		      /* behind the options; or NULL */
	const char *status;		      /* exit status */
	const struct command_option *options; /* its own, ended by a NULL name; or NULL */
	unsigned int takes;
	enum completion completion;		       /* of its words */
	int (*run)(struct asked *asked, char **words); /* words: ended by NULL */
	const struct listing *report;		       /* instead of run */
};

extern const struct command run_subcommand, start_subcommand, stop_subcommand, status_subcommand,
	qp_subcommand, cq_subcommand, srq_subcommand, mr_subcommand, cm_subcommand, stat_subcommand,
	top_subcommand, wire_subcommand, explain_subcommand, trace_subcommand, inject_subcommand,
	env_subcommand, cdi_subcommand;
extern const struct command *const commands[];	      /* ended by NULL */
const struct command *command_find(const char *name); /* NULL: none is called that */

/* All options that it takes, hidden ones too. */
#define COMMAND_OPTIONS_MOST 112
size_t command_options(const struct command *command,
		       struct command_option options[COMMAND_OPTIONS_MOST]);

/* The whole subcommand: argv[0] is its name. Returns the exit status. */
int command_run(const struct command *command, int argc, char **argv);
void command_help(FILE *out, const struct command *command);

/* The value of an option, from 1 to 2^32 - 1; false after a complaint. */
bool option_number(const char *option, const char *text, long long *number);

/* Prints what the last of these words, behind "simhca", can be; complete.c has the format. */
int complete(int count, char **words);

#endif
