/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * simhca, the tool. One file per subcommand (run.c, start.c, stop.c, status.c, env.c, resource.c,
 * wire.c, explain.c, trace.c, inject.c) above these:
 *
 *   command.c      the frame of subcommands: options, --help
 *   commands.c     which subcommands there are
 *   complete.c     what a word of the command line can be, for completion by shells
 *   filter.c       --pid, --qp and --device
 *   output.c       complaints, and output that fails
 *   runtime.c      which runtime directory, and what is in it
 *   report.c       subcommands that print what the daemon answers to one request
 *   table.c        tables for a terminal
 *   admin.c        one request and its answer on the daemon's control socket
 *   daemon.c       reaches the daemon of a runtime directory, starting one when none runs
 *   show.c         whether the preload library reaches a command
 *   supervisor.c   shows the device to one that it does not reach, by answering system calls
 *   environment.c  the variables that show the device to an unmodified program
 *   story.c        the daemon's report of failures, for people
 *   lint_notes.c   its notes of lint, for people
 *   capture.c      frames from the daemon, into a pcap file
 *   rules.c        rules of faults, to the daemon
 *   advice.c       what an error means, what mostly causes it, what to do
 */
#ifndef SIMHCA_TOOL_H
#define SIMHCA_TOOL_H

#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

#include "control_protocol.h"
#include "simhca-clock.h"

/* Exit statuses. Those of `run` leave the range below 125 to the command, as env(1) does. */
enum {
	EXIT_USAGE = 2,
	EXIT_TOOL_FAILED = 125,
	EXIT_NOT_EXECUTABLE = 126,
	EXIT_NOT_FOUND = 127,
	EXIT_SIGNAL_BASE = 128,
};

struct capture_wishes;
/* Runs a command as `run` does, and captures meanwhile. */
int run_traced(const char *dir, const struct capture_wishes *wishes, char **command);

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
	return (long long)(simhca_now_ns() / 1000000);
}

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
 * Sends the command and returns the answer, whose "ok" is true. NULL with errno:
 * ETIMEDOUT after ADMIN_TIMEOUT_MS, EREMOTEIO when the daemon refused (refusal, freed by the
 * caller, says why), anything else: the connection ended.
 */
json_t *admin_request(int fd, enum control_command command, char **refusal);
#define ADMIN_TIMEOUT_MS 5000
/* The daemon's report, the object that simhcad/admin/admin.h describes; NULL as above. */
json_t *admin_status(int fd, char **refusal);
/* The report of a command that needs nothing else, as CONTROL_QP; NULL as above. */
json_t *admin_report(int fd, enum control_command command, char **refusal);

/*
 * What has failed since the failure `since` (0: of all that is kept); run: only of programs that
 * this process has started, which has a lease; 0: of all. The object of "explain"; NULL as above.
 */
json_t *admin_failures(int fd, long long since, pid_t run, char **refusal);

/* What is legal and probably wrong, the object of "lint", likewise. */
json_t *admin_lint(int fd, pid_t run);

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

/* ----------------------------------------------------------------------------- daemon.c */

struct daemon_options;

/* What keeps a daemon running for us: it was reached, and started if started is set. */
struct leased_daemon {
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
enum reach daemon_reach(struct leased_daemon *daemon, const char *dir,
			const struct daemon_options *options, bool captive, int signals);
/* Copies what the daemon has logged to our stderr; closes log at its end. */
void daemon_relay(struct leased_daemon *daemon);
/* Complains, once, if the daemon has ended while we hold a lease. */
void daemon_notice_loss(struct leased_daemon *daemon);
/* Notes the end of our child if it has ended. */
void daemon_reap(struct leased_daemon *daemon);
/*
 * Gives the lease back, and waits for a captive daemon to end if it was the last one.
 * Returns false, after a complaint, if the daemon was lost, ended badly or had to be killed.
 */
bool daemon_leave(struct leased_daemon *daemon);
/* Waits until no process holds the lock of dir. False when one still does by then. */
bool daemon_wait_gone(const char *dir, int timeout_ms);
void daemon_free(struct leased_daemon *daemon);

/* ------------------------------------------------------------------------ environment.c */

struct variable {
	const char *name;
	char *value;
};
#define ENVIRONMENT_MAX 5

/* Absolute path of the directory that our own executable is in. */
const char *executable_dir(void);
/* Files of ours beside our executable, as it is built or installed; NULL after a complaint. */
char *find_preload(void);
char *find_provider_file(void);
char *find_container_file(const char *name);
/*
 * The variables for programs that are to see the device of dir, ending with a NULL name;
 * on_top: extend the values of this process's environment, else state them alone; preloads: with
 * the preload library. False after a complaint.
 */
bool environment_make(struct variable variables[ENVIRONMENT_MAX], const char *dir, bool on_top,
		      bool preloads);
void environment_free(struct variable variables[ENVIRONMENT_MAX]);
/* Undoes LD_PRELOAD in this process's environment, for the daemon that we start. */
void environment_without_preload(void);

#endif
