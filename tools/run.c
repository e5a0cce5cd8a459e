/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * simhca run: a command with the device, and a daemon that lives as long as its commands.
 *
 * The command runs in our process group, so that the terminal treats it as if we were not
 * there: ^C and ^Z reach it directly. Signals sent to us alone are passed on. Its end is our
 * end, with its status; what it leaves running is not waited for (left_behind.h).
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "capture.h"
#include "command.h"
#include "left_behind.h"
#include "rules.h"
#include "show.h"
#include "story.h"
#include "supervisor.h"
#include "report.h"
#include "tool.h"

static const int passed_on[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2 };

#define LINT_MS 2000	   /* that programs may take which the command has left behind */
#define LINT_LOOK_US 10000 /* between two looks */

struct run {
	struct leased_daemon daemon;
	int signals;	   /* signalfd of those passed on, and SIGCHLD */
	sigset_t old_mask; /* what we were started with, for the command */
	struct sigaction old_pipe;
	bool capture_failed;
	struct capture *capture; /* NULL: none */
	struct show_obstacle obstacle;
	struct supervisor *supervisor; /* NULL: none */
	pid_t command;		       /* 0: ended */
	int status;		       /* then its wait status */
};

struct run_options {
	enum show show;
	bool explain, lint;
	struct capture_wishes capture; /* file NULL: none is wanted */
	struct rules rules;
};

static bool catch_signals(struct run *run)
{
	struct sigaction ignore = { .sa_handler = SIG_IGN };
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	for (size_t i = 0; i < sizeof(passed_on) / sizeof(passed_on[0]); i++)
		sigaddset(&set, passed_on[i]);
	sigprocmask(SIG_BLOCK, &set, &run->old_mask);
	/* The daemon's log goes through us; a reader that has gone must not end us. */
	sigaction(SIGPIPE, &ignore, &run->old_pipe);
	/* Inherited as ignored, children would vanish without a status. */
	signal(SIGCHLD, SIG_DFL);
	/* While the daemon starts only its pipes matter: SIGCHLD joins later. */
	sigdelset(&set, SIGCHLD);
	run->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (run->signals < 0)
		complain("signalfd: %s", strerror(errno));
	return run->signals >= 0;
}

static void catch_children(struct run *run)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	for (size_t i = 0; i < sizeof(passed_on) / sizeof(passed_on[0]); i++)
		sigaddset(&set, passed_on[i]);
	signalfd(run->signals, &set, 0);
}

/* The child's side. */
static void supervise_us(const struct run *run)
{
	int error = run->supervisor ? supervisor_enter(run->supervisor) : 0;

	if (!error)
		return;
	complain("--show seccomp: %s%s", strerror(-error),
		 error == -EBUSY
			 ? ": system calls are answered already, by another simhca run or a "
			   "container's runtime; only one can; use --show preload"
			 : "; use --show preload");
	_exit(EXIT_TOOL_FAILED);
}

/* The child's side; errno of a failed execution goes to report. */
static void __attribute__((noreturn))
become_command(const struct run *run, char **command, const struct variable *variables,
	       pid_t parent, int report)
{
	int error;

	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		raise(SIGKILL); /* we were too late to learn of its end */
	for (int i = 0; variables[i].name; i++)
		setenv(variables[i].name, variables[i].value, 1);
	sigaction(SIGPIPE, &run->old_pipe, NULL);
	let_file_size_end_us();
	supervise_us(run);
	sigprocmask(SIG_SETMASK, &run->old_mask, NULL);
	execvp(command[0], command);
	error = errno;
	if (write(report, &error, sizeof(error)) < 0)
		error = EIO;
	_exit(EXIT_TOOL_FAILED);
}

/* Starts the command: 0, or the exit status that says why not, after a complaint. */
static int start_command(struct run *run, char **command, const struct variable *variables)
{
	pid_t self = getpid();
	int report[2], error = 0;

	if (pipe2(report, O_CLOEXEC)) {
		complain("pipe: %s", strerror(errno));
		return EXIT_TOOL_FAILED;
	}
	run->command = fork();
	if (!run->command)
		become_command(run, command, variables, self, report[1]);
	close(report[1]);
	if (run->command > 0 && run->supervisor)
		error = supervisor_start(run->supervisor);
	if (error)
		complain("--show seccomp: %s", strerror(-error));
	error = 0;
	if (run->command < 0) {
		run->command = 0;
		complain("fork: %s", strerror(errno));
		close(report[0]);
		return EXIT_TOOL_FAILED;
	}
	if (read(report[0], &error, sizeof(error)) != sizeof(error))
		error = 0;
	close(report[0]);
	if (!error)
		return 0;
	waitpid(run->command, NULL, 0);
	run->command = 0;
	complain("%s: %s", command[0], error == ENOENT ? "command not found" : strerror(error));
	return error == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE;
}

static void pass_on_signals(struct run *run)
{
	struct signalfd_siginfo info;

	while (read(run->signals, &info, sizeof(info)) == sizeof(info)) {
		/* From the terminal: went to the whole process group, the command included. */
		bool from_terminal = info.ssi_code == SI_KERNEL;

		if (info.ssi_signo != SIGCHLD && !from_terminal && run->command)
			kill(run->command, (int)info.ssi_signo);
	}
}

/* What was captured is worth a line; that it is not whole, a complaint, and an exit status. */
static void end_capture(struct run *run)
{
	if (run->capture && !capture_close(run->capture))
		run->capture_failed = true;
	run->capture = NULL;
}

static void wait_for_command(struct run *run)
{
	while (run->command) {
		struct leased_daemon *daemon = &run->daemon;
		struct pollfd fds[] = {
			{ .fd = run->signals, .events = POLLIN },
			{ .fd = daemon->log, .events = POLLIN },
			{ .fd = daemon->lost ? -1 : daemon->control, .events = POLLIN },
			{ .fd = run->capture ? capture_fd(run->capture) : -1, .events = POLLIN },
		};

		poll(fds, 4, -1);
		if (fds[3].revents && !capture_take(run->capture))
			end_capture(run);
		daemon_relay(daemon);
		pass_on_signals(run);
		if (waitpid(run->command, &run->status, WNOHANG) == run->command)
			run->command = 0;
		daemon_reap(daemon);
		left_behind_reap(run->command, daemon->child);
		daemon_notice_loss(daemon);
	}
}

/* How much is said of what failed: SIMHCA_EXPLAIN. */
enum saying { SAY_NOTHING, SAY_A_LINE, SAY_ALL };

static enum saying saying(bool asked)
{
	const char *value = getenv("SIMHCA_EXPLAIN");

	if (asked)
		return SAY_ALL;
	if (!value || !*value)
		return SAY_A_LINE;
	return strcmp(value, "0") ? SAY_ALL : SAY_NOTHING;
}

/* In one piece, as what several commands tell on one terminal is read by one person. */
static void print_story(const json_t *report)
{
	const struct filter all = { 0 };
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		return;
	story_print(out, report, &all);
	if (!fclose(out))
		fwrite(text, 1, size, stderr); /* unbuffered: one write() */
	free(text);
}

/* What failed of the command's, or slept, on stderr; nothing if nothing did. */
static void explain(const struct run *run, bool asked)
{
	enum saying how = saying(asked);
	long long failed;
	json_t *report;
	char first[512];

	if (how == SAY_NOTHING || run->daemon.lost)
		return;
	report = admin_failures(run->daemon.control, 0, getpid(), NULL);
	failed = report ? report_number(report, "failed_work_requests") : 0;
	if (how == SAY_ALL)
		print_story(report);
	else if (failed && story_first(report, first, sizeof(first)))
		complain("%lld work request%s failed (first: %s); SIMHCA_EXPLAIN=1 tells more",
			 failed, failed == 1 ? "" : "s", first);
	else if (story_first_sleep(report, first, sizeof(first)))
		complain("%s; SIMHCA_EXPLAIN=1 tells more", first);
	json_decref(report);
}

/* What was legal and probably wrong, of the command's; when the daemon has seen its end. */
static void lint(const struct run *run)
{
	long long until = now_ms() + LINT_MS;
	json_t *report;

	if (run->daemon.lost)
		return;
	while ((report = admin_lint(run->daemon.control, getpid())) &&
	       report_number(report, "live") && now_ms() < until) {
		json_decref(report);
		usleep(LINT_LOOK_US);
	}
	story_print_lint(stderr, report, 0);
	json_decref(report);
}

/* Everything between a leased daemon and the exit status. */
static int run_command(struct run *run, char **command, const char *dir, enum show show)
{
	struct variable variables[ENVIRONMENT_MAX];
	int status;

	run->obstacle = show_obstacle(command[0]);
	if (show == SHOW_SECCOMP || (show == SHOW_AUTO && run->obstacle.text &&
				     !run->obstacle.has_rights && !run->obstacle.is_hopeless)) {
		run->supervisor = supervisor_new(dir);
		if (!run->supervisor)
			return EXIT_TOOL_FAILED;
	}
	if (!environment_make(variables, dir, true, show != SHOW_SECCOMP))
		return EXIT_TOOL_FAILED;
	catch_children(run);
	left_behind_adopt();
	status = start_command(run, command, variables);
	environment_free(variables);
	if (status)
		return status;
	wait_for_command(run);
	return WIFSIGNALED(run->status) ? EXIT_SIGNAL_BASE + WTERMSIG(run->status)
					: WEXITSTATUS(run->status);
}

/* That the command found no device to open, where that can be known. */
static void tell_unseen(const struct run *run, const char *command,
			const struct supervised_tally *tally)
{
	if (run->obstacle.is_hopeless)
		complain("%s: nothing shows it the device, as it is %s", command,
			 run->obstacle.text);
	else if (tally->looked && !tally->opened)
		complain("%s looked for RDMA devices, and nobody opened one", command);
	else if (run->obstacle.text && !run->supervisor)
		complain("%s: LD_PRELOAD does not show it the device, as it is %s; --show seccomp "
			 "does",
			 command, run->obstacle.text);
}

static int interrupted(struct run *run)
{
	struct signalfd_siginfo info = { .ssi_signo = SIGTERM };

	if (read(run->signals, &info, sizeof(info)) < 0)
		info.ssi_signo = SIGTERM;
	return EXIT_SIGNAL_BASE + (int)info.ssi_signo;
}

/* What the provider is to do otherwise, in the command's programs; a user's own wish counts. */
static void tell_provider(const struct run_options *asked)
{
	if (asked->lint) { /* what the program does by itself the daemon does not see */
		setenv("SIMHCA_FAST_PATH", "off", 1);
		setenv("SIMHCA_LINT", "on", 0);
		setenv("SIMHCA_POISON_WC", "on", 0);
	}
	/* The device, not a poll, finds that a receive's buffer is gone; then there is a story. */
	if (asked->lint || saying(asked->explain) == SAY_ALL)
		setenv("SIMHCA_SCATTER_TO_CQE", "off", 0);
}

static int run_in(const char *dir, const struct daemon_options *options,
		  const struct run_options *asked, char **command)
{
	struct run run = { .daemon = DAEMON_NONE };
	struct supervised_tally tally = { 0 };
	int status = EXIT_TOOL_FAILED;

	if (!catch_signals(&run))
		return EXIT_TOOL_FAILED;
	switch (daemon_reach(&run.daemon, dir, options, true, run.signals)) {
	case REACHED:
		if (asked->capture.file) {
			run.capture = capture_open(run.daemon.control, &asked->capture);
			if (!run.capture)
				break;
		}
		if (!rules_send(&asked->rules, run.daemon.control)) {
			end_capture(&run);
			break;
		}
		tell_provider(asked);
		status = run_command(&run, command, dir, asked->show);
		end_capture(&run);
		if (asked->rules.count && !run.daemon.lost)
			rules_report(run.daemon.control);
		explain(&run, asked->explain);
		if (asked->lint)
			lint(&run);
		if (saying(false) != SAY_NOTHING)
			left_behind_tell(&run.daemon);
		if (run.supervisor)
			supervisor_end(run.supervisor, &tally);
		if (saying(false) != SAY_NOTHING)
			tell_unseen(&run, command[0], &tally);
		break;
	case REACH_INTERRUPTED:
		status = interrupted(&run);
		break;
	case REACH_BAD_OPTIONS:
	case REACH_FAILED:
		break;
	}
	if (run.daemon.control >= 0 && !daemon_leave(&run.daemon) && !status)
		status = EXIT_TOOL_FAILED;
	if (run.capture_failed && !status)
		status = EXIT_TOOL_FAILED;
	daemon_free(&run.daemon);
	close(run.signals);
	return status;
}

int run_traced(const char *dir, const struct capture_wishes *wishes, char **command)
{
	const struct daemon_options options = { 0 };
	const struct run_options asked = { .capture = *wishes };

	return run_in(dir, &options, &asked, command);
}

/* ---------------------------------------------------------------------------- the subcommand */

static struct run_options wanted;
static bool is_private;

static bool take_rule(const char *text)
{
	return rules_take(&wanted.rules, text);
}

static bool take_show(const char *text)
{
	return show_parse(text, &wanted.show);
}

static int run(struct asked *asked, char **words)
{
	int status = EXIT_TOOL_FAILED;
	char *dir = NULL;

	if (is_private && asked->runtime_dir)
		complain("--runtime-dir %s: --private makes a directory of its own; give one of "
			 "the two",
			 asked->runtime_dir);
	else
		dir = is_private ? runtime_dir_private() : runtime_dir(asked->runtime_dir);
	if (dir)
		status = run_in(dir, &asked->daemon, &wanted, words);
	if (dir && is_private)
		runtime_dir_remove(dir);
	free(dir);
	rules_free(&wanted.rules);
	return status;
}

static const struct command_option options[] = {
	{ "private", .value = &is_private,
	  .help = "a daemon and runtime directory that no other command joins" },
	{ "show", "auto|preload|seccomp",
	  "how COMMAND sees the device: by LD_PRELOAD, or by system calls that simhca answers; "
	  "auto "
	  "takes the latter too for a program that LD_PRELOAD does not reach, as a static one",
	  .kind = OPTION_CHECK, .check = take_show, .completion = COMPLETE_WORDS,
	  .words = "auto preload seccomp" },
	{ "explain", .value = &wanted.explain,
	  .help = "at the end, tell on stderr what failed, as `simhca explain` does" },
	{ "lint", .value = &wanted.lint,
	  .help = "at the end, tell what was legal and probably wrong" },
	{ "inject", "RULE|FILE",
	  "make faults meanwhile, as `simhca inject add`; more than once for more",
	  .kind = OPTION_CHECK, .check = take_rule, .completion = COMPLETE_RULE },
	{ "trace", "FILE", "capture all packets meanwhile, as `simhca trace --write FILE`",
	  .kind = OPTION_TEXT, .value = &wanted.capture.file, .completion = COMPLETE_FILE },
	{ 0 },
};

const struct command run_subcommand = {
	.name = "run",
	.summary = "run COMMAND with the device, starting a daemon for it when none runs",
	.usage = "[OPTION]... [--] COMMAND [ARGUMENT]...",
	.about = "Runs COMMAND with an RDMA device. When no daemon runs in the runtime directory, "
		 "one is\n"
		 "started, and ends with the last command that uses it: a server and a client "
		 "under two\n"
		 "`simhca run` meet on the same device.\n",
	.notes =
		"If work requests of COMMAND have failed, or it slept and would not wake up, one "
		"line\n"
		"at the end says so, on stderr.\n"
		"SIMHCA_EXPLAIN=1 in the environment is --explain, SIMHCA_EXPLAIN=0 keeps silent.\n"
		"\n"
		"Environment: SIMHCA_PRELOAD_FIRST names a library that goes before all others in\n"
		"LD_PRELOAD, as the runtime of AddressSanitizer must when simhca was built with "
		"it.\n",
	.status = "that of COMMAND; 128+N if signal N ended it; 127 if it was not found; 126 if\n"
		  "it could not be executed; 125 if simhca itself failed, for wrong options too.",
	.options = options,
	.takes = TAKES_DAEMON_OPTIONS | TAKES_COMMAND | NEEDS_COMMAND,
	.completion = COMPLETE_COMMAND,
	.run = run,
};
