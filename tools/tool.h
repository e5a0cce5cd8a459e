/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * simhca, the tool. One file per subcommand (run.c, start.c, stop.c, status.c, env.c, resource.c,
 * wire.c, explain.c, trace.c, inject.c) above twelve helpers:
 *
 *   output.c       complaints, and output that fails
 *   options.c      what the subcommands have in common on the command line
 *   runtime.c      which runtime directory, and what is in it
 *   report.c       subcommands that print what the daemon answers to one request
 *   table.c        tables for a terminal
 *   admin.c        one request and its answer on the daemon's control socket
 *   daemon.c       reaches the daemon of a runtime directory, starting one when none runs
 *   environment.c  the variables that show the device to an unmodified program
 *   story.c        the daemon's report of failures, for people
 *   capture.c      frames from the daemon, into a pcap file
 *   rules.c        rules of faults, to the daemon
 *   advice.c       what an error means, what mostly causes it, what to do
 */
#ifndef SIMHCA_TOOL_H
#define SIMHCA_TOOL_H

#include <getopt.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <time.h>

/* Exit statuses. Those of `run` leave the range below 125 to the command, as env(1) does. */
enum {
	EXIT_USAGE = 2,
	EXIT_TOOL_FAILED = 125,
	EXIT_NOT_EXECUTABLE = 126,
	EXIT_NOT_FOUND = 127,
	EXIT_SIGNAL_BASE = 128,
};

int run_main(int argc, char **argv);
int start_main(int argc, char **argv);
int stop_main(int argc, char **argv);
int status_main(int argc, char **argv);
int env_main(int argc, char **argv);
int qp_main(int argc, char **argv);
int cq_main(int argc, char **argv);
int srq_main(int argc, char **argv);
int mr_main(int argc, char **argv);
int cm_main(int argc, char **argv);
int wire_main(int argc, char **argv);
int explain_main(int argc, char **argv);
int trace_main(int argc, char **argv);
struct capture_wishes;
/* Runs a command as `run` does, and captures meanwhile. */
int run_traced(const char *dir, const struct capture_wishes *wishes, char **command);
int stat_main(int argc, char **argv);
int top_main(int argc, char **argv);
int inject_main(int argc, char **argv);

/* One line on stderr: "simhca SUBCOMMAND: ...". */
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
void set_subcommand(const char *name); /* before the first complaint */

/* False: what was printed has not arrived, which has been complained about. */
bool flush_output(void);

/* The tool itself ignores SIGXFSZ, and a write() fails instead; a command gets what we got. */
void let_file_size_fail_writes(void);
void let_file_size_end_us(void);

/* CLOCK_MONOTONIC */
static inline long long now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

/* ------------------------------------------------------------------------------ options */

enum option_code {
	OPT_END = -1,
	/* that have a letter, too */
	OPT_BATCH = 'b',
	OPT_DELAY = 'd',
	OPT_TIMES = 'n',
	OPT_REVERSE = 'r',
	OPT_SORT = 's',
	OPT_EXTENDED = 'x',
	OPT_USAGE_ERROR = 256, /* has been complained about */
	OPT_HELP,
	OPT_RUNTIME_DIR,
	OPT_PRIVATE,
	OPT_JSON,
	OPT_FORMAT,
	OPT_PID,
	OPT_QP,
	OPT_FOLLOW,
	OPT_DIAGRAM,
	OPT_MERMAID,
	OPT_SVG,
	OPT_WRITE,
	OPT_COUNT,
	OPT_SNAPLEN,
	OPT_EXPLAIN,
	OPT_TRACE,
	OPT_LINT,
	OPT_OPCODE,
	OPT_FILE_SIZE,
	OPT_FILES,
	OPT_PROMETHEUS,
	OPT_QPS,
	OPT_HISTOGRAM,
	OPT_INJECT,
	OPT_DAEMON,	/* one of the options that go to the daemon */
	OPT_DAEMON_ANY, /* --daemon-option NAME=VALUE */
};

/* What was asked of the daemon, as its arguments: "--mtu=4096". */
struct daemon_options {
	char **arguments; /* NULL terminated once count > 0 */
	size_t count;
};

/* Entries of a struct option table. */
#define OPTIONS_COMMON                                                                             \
	{ "help", no_argument, NULL, OPT_HELP },                                                   \
	{                                                                                          \
		"runtime-dir", required_argument, NULL, OPT_RUNTIME_DIR                            \
	}
#define OPTIONS_DAEMON                                                                             \
	{ "link-layer", required_argument, NULL, OPT_DAEMON },                                     \
		{ "interface", required_argument, NULL, OPT_DAEMON },                              \
		{ "devices", required_argument, NULL, OPT_DAEMON },                                \
		{ "device", required_argument, NULL, OPT_DAEMON },                                 \
		{ "mtu", required_argument, NULL, OPT_DAEMON },                                    \
		{ "mw-type-2a", no_argument, NULL, OPT_DAEMON },                                   \
		{ "engines", required_argument, NULL, OPT_DAEMON },                                \
		{ "memory", required_argument, NULL, OPT_DAEMON },                                 \
		{ "fault-latency", required_argument, NULL, OPT_DAEMON },                          \
		{ "config", required_argument, NULL, OPT_DAEMON },                                 \
		{ "log", required_argument, NULL, OPT_DAEMON },                                    \
		{ "log-level", required_argument, NULL, OPT_DAEMON },                              \
	{                                                                                          \
		"daemon-option", required_argument, NULL, OPT_DAEMON_ANY                           \
	}

/* Their help. */
#define HELP_COMMON                                                                                \
	"  --runtime-dir DIR         where the daemon meets its programs; default\n"               \
	"                            $SIMHCA_RUNTIME_DIR, $XDG_RUNTIME_DIR/simhca, /run/simhca\n"  \
	"                            or /tmp/simhca-UID, the first that can be used\n"             \
	"  --help                    this text\n"
#define HELP_DAEMON                                                                                \
	"Options for a daemon that is started (one that runs already must have the same):\n"       \
	"  --link-layer LAYER        ethernet (RoCE v2) or ib (InfiniBand)\n"                      \
	"  --interface IFNAME        network interface whose addresses become GIDs\n"              \
	"  --devices N               number of devices\n"                                          \
	"  --mtu N                   of the port, in bytes: 256, 512, 1024, 2048 or 4096\n"        \
	"  --mw-type-2a              memory windows of type 2 are of type 2A instead of 2B\n"      \
	"  --engines N               threads that move data\n"                                     \
	"  --memory MODE             how the device reaches the memory of programs\n"              \
	"  --fault-latency US        how much longer each page fault of on-demand memory takes\n"  \
	"  --config FILE             read options from FILE\n"                                     \
	"  --log FILE                write the log to FILE; otherwise it goes to stderr\n"         \
	"  --log-level LEVEL         error, warning, info or debug\n"                              \
	"  --daemon-option NAME=VALUE  any other option of simhcad(8)\n"

/*
 * The next option of argv, complaining about unknown options, and options without their
 * value. Options end at the first word that is none. index receives the table's index.
 */
enum option_code next_option(int argc, char **argv, const struct option *table, int *index);
/* The value of an option, from 1 to 2^32 - 1; false after a complaint. */
bool option_number(const char *option, const char *text, long long *number);
/* Returns false after a complaint when words are left over. */
bool no_more_words(int argc, char **argv);
/* Adds an OPT_DAEMON (value NULL: it takes none) or OPT_DAEMON_ANY; false after a complaint. */
bool daemon_options_add(struct daemon_options *options, const struct option *option,
			const char *value);
void daemon_options_free(struct daemon_options *options);

/* ---------------------------------------------------------------------------- runtime.c */

/*
 * The absolute path of the runtime directory, which need not exist: given (may be NULL), or
 * the first default that can be used. NULL after a complaint. The caller frees it.
 */
char *runtime_dir(const char *given);
/*
 * A fresh one that nobody else uses. NULL after a complaint. Until this process ends it has the
 * lock by which a later one knows what was left behind; what others left is removed now.
 */
char *runtime_dir_private(void);
/* Deletes it with all that is in it. */
void runtime_dir_remove(const char *dir);

/* ------------------------------------------------------------------------------ admin.c */

/* A connection to the daemon of dir; or -1 with errno: ENOENT, ECONNREFUSED: none runs. */
int admin_connect(const char *dir);
/* The same; -1 after a complaint. */
int admin_reach(const char *dir);
/* True when errno from admin_connect() means that no daemon listens. */
bool admin_nobody(int error);
/* The daemon's pid, as far as the kernel knows it; 0 if it is not visible from here. */
pid_t admin_peer(int fd);
/*
 * Sends {"cmd": command} and returns the answer, whose "ok" is true. NULL with errno:
 * ETIMEDOUT after ADMIN_TIMEOUT_MS, EREMOTEIO when the daemon refused (refusal, freed by the
 * caller, says why), anything else: the connection ended. memfd, if not NULL, receives the
 * descriptor that came along, or -1.
 */
json_t *admin_request(int fd, const char *command, int *memfd, char **refusal);
#define ADMIN_TIMEOUT_MS 5000
/* The daemon's report, the object that simhcad/admin/admin.h describes; NULL as above. */
json_t *admin_status(int fd, char **refusal);
/* What "qp", "cq", "srq", "mr" or "cm" returns, an array; NULL as above. */
json_t *admin_report(int fd, const char *command, char **refusal);

/*
 * What has failed since the failure `since` (0: of all that is kept); run: only of programs that
 * this process has started, which has a lease; 0: of all. The object of "explain"; NULL as above.
 */
json_t *admin_failures(int fd, long long since, pid_t run, char **refusal);

/* What is legal and probably wrong, the object of "lint", likewise. */
json_t *admin_lint(int fd, pid_t run, char **refusal);

/*
 * The frames that links carry from now on, at most so many bytes of each (0: all): *frames is a
 * socket (common/trace_frame.h). NULL as above.
 */
json_t *admin_trace(int fd, long long most_bytes, int *frames, char **refusal);

/*
 * Adds a rule of faults; or, if it is NULL, ends that of this number, or all (0). What admin.h says
 * of "inject"; NULL as above.
 */
json_t *admin_inject(int fd, const char *rule, long long number, char **refusal);

/* ----------------------------------------------------------------------------- report.c */

/* A column of a report that is a list of objects. */
enum report_kind {
	REPORT_TEXT,
	REPORT_NUMBER,
	REPORT_BOOL,	/* yes or no */
	REPORT_QPN,	/* as verbs programs print it; none if it is 0 */
	REPORT_KEY,	/* of a region, likewise hexadecimal */
	REPORT_FLAGS,	/* hexadecimal */
	REPORT_NUMBERS, /* an object of numbers: those that are not 0, as name=number */
};
struct report_column {
	const char *head, *key; /* NULL ends a table of them */
	enum report_kind kind;
	bool extended; /* with --extended only */
};
struct report {
	const char *help;
	json_t *(*ask)(int fd,
		       char **refusal); /* as admin_status(); NULL: admin_report() of command */
	const char *command;
	void (*print)(const json_t *answer); /* without --json */
	const struct report_column *columns; /* instead of print: a row for each object */
};
/* The whole subcommand; returns its exit status. */
int report_main(int argc, char **argv, const struct report *report);
/* A member of an answer; "-" if it is missing or empty. */
const char *report_text(const json_t *object, const char *key);
long long report_number(const json_t *object, const char *key);

/* ----------------------------------------------------------------------------- daemon.c */

/* A daemon that was reached, and started if started is set. */
struct daemon {
	char *dir;
	int control; /* the connection that holds our lease; -1: none */
	pid_t pid;   /* as the daemon says, for messages */
	pid_t child; /* the daemon if it is our child and has not been waited for, else 0 */
	int status;  /* of the child once it has ended, as waitpid() gives it */
	int log;     /* what the child writes to its stderr; -1: not our child */
	bool started;
	bool lost; /* it ended while we held the lease, which has been complained about */
};
#define DAEMON_NONE                                                                                \
	{                                                                                          \
		.control = -1, .log = -1                                                           \
	}

enum reach { REACHED, REACH_FAILED, REACH_BAD_OPTIONS, REACH_INTERRUPTED };

/*
 * Takes a lease at the daemon of dir; when none runs, starts one with options. signals (a
 * signalfd, or -1) becoming readable ends the attempt. Failures have been complained about.
 */
enum reach daemon_reach(struct daemon *daemon, const char *dir,
			const struct daemon_options *options, bool captive, int signals);
/* Copies what the daemon has logged to our stderr; closes log at its end. */
void daemon_relay(struct daemon *daemon);
/* Complains, once, if the daemon has ended while we hold a lease. */
void daemon_notice_loss(struct daemon *daemon);
/* Notes the end of our child if it has ended. */
void daemon_reap(struct daemon *daemon);
/*
 * Gives the lease back, and waits for a captive daemon to end if it was the last one.
 * Returns false, after a complaint, if the daemon was lost, ended badly or had to be killed.
 */
bool daemon_leave(struct daemon *daemon);
/* Waits until no process holds the lock of dir. False when one still does by then. */
bool daemon_wait_gone(const char *dir, int timeout_ms);
void daemon_free(struct daemon *daemon);

/* ------------------------------------------------------------------------ environment.c */

struct variable {
	const char *name;
	char *value;
};
#define ENVIRONMENT_MAX 5

/* Absolute path of the directory that our own executable is in. */
const char *executable_dir(void);
/*
 * The variables for programs that are to see the device of dir, ending with a NULL name;
 * on_top: extend the values of this process's environment, else state them alone.
 * False after a complaint.
 */
bool environment_make(struct variable variables[ENVIRONMENT_MAX], const char *dir, bool on_top);
void environment_free(struct variable variables[ENVIRONMENT_MAX]);
/* Undoes LD_PRELOAD in this process's environment, for the daemon that we start. */
void environment_without_preload(void);

#endif
