/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Reaching the daemon of a runtime directory. Three things can happen at once: two tools
 * start a daemon for one directory, a daemon ends while somebody connects to it, a daemon
 * refuses its options. The daemon's lock settles the first two: whoever does not get it
 * ends, and its tool looks again who is there.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "command.h"
#include "options.h"
#include "tool.h"

#define REACH_MS 15000	/* for all attempts to find a daemon that one starts or ends */
#define READY_MS 30000	/* from a daemon's start until it is ready; valgrind is slow */
#define ENDING_MS 10000 /* from the last lease until a captive daemon is gone */
#define AGAIN_MS 10
#define LOG_PIPE_BYTES (1 << 20)
#define EARLY_LOG_MAX 65536

/* What a daemon says before it is ready: shown unless another one won the race. */
struct early_log {
	char text[EARLY_LOG_MAX];
	size_t length;
};

static void write_stderr(const char *text, size_t length)
{
	while (length) {
		ssize_t n = write(STDERR_FILENO, text, length);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return;
		text += n;
		length -= (size_t)n;
	}
}

void daemon_relay(struct leased_daemon *daemon)
{
	char text[4096];
	ssize_t n;

	if (daemon->log < 0)
		return;
	while ((n = read(daemon->log, text, sizeof(text))) > 0)
		write_stderr(text, (size_t)n);
	if (!n) {
		close(daemon->log);
		daemon->log = -1;
	}
}

void daemon_notice_loss(struct leased_daemon *daemon)
{
	struct pollfd control = { .fd = daemon->control, .events = POLLIN };

	/* The daemon says nothing unasked: what can be read is the end. */
	if (daemon->lost || daemon->control < 0 || poll(&control, 1, 0) <= 0)
		return;
	daemon->lost = true;
	complain("the daemon in %s (pid %d) has ended before its command; the device is gone",
		 daemon->dir, (int)daemon->pid);
}

void daemon_reap(struct leased_daemon *daemon)
{
	if (daemon->child && waitpid(daemon->child, &daemon->status, WNOHANG) == daemon->child)
		daemon->child = 0;
}

void daemon_free(struct leased_daemon *daemon)
{
	free(daemon->dir);
	if (daemon->control >= 0)
		close(daemon->control);
	if (daemon->log >= 0)
		close(daemon->log);
	*daemon = (struct leased_daemon)DAEMON_NONE;
}

/* ------------------------------------------------------------------------------ starting */

/* The child's side: becomes simhcad, keeping of ours only the environment. */
static void __attribute__((noreturn))
become_daemon(char **arguments, const char *beside, int ready, int log)
{
	static const int ready_as = 3;
	int null = open("/dev/null", O_RDWR);
	sigset_t none;
	int error;

	/* Out of the way of the descriptors that they are to become. */
	ready = fcntl(ready, F_DUPFD, 10);
	log = fcntl(log, F_DUPFD, 10);
	if (null < 0 || ready < 0 || log < 0) {
		complain("simhcad: cannot be started: %s (ulimit -n)", strerror(errno));
		_exit(EXIT_TOOL_FAILED);
	}
	dup2(null, STDIN_FILENO);
	dup2(null, STDOUT_FILENO);
	dup2(log, STDERR_FILENO);
	dup2(ready, ready_as);
	closefrom(ready_as + 1);

	/*
	 * A process group of its own: the terminal's ^C is for the command. But the command's
	 * session, with which it shares CPU time (Documentation/architecture.md, "Engines").
	 */
	setpgid(0, 0);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	/* We stop reading its log one day; that must not end it. */
	signal(SIGPIPE, SIG_IGN);
	environment_without_preload();

	execv(beside, arguments);
	error = errno;
	if (error == ENOENT) {
		execvp("simhcad", arguments);
		error = errno;
	}
	if (error == ENOENT)
		complain("simhcad: is neither %s nor in PATH", beside);
	else
		complain("simhcad: cannot be executed: %s", strerror(error));
	_exit(EXIT_NOT_FOUND);
}

static bool is_given(const struct daemon_options *options, const char *name)
{
	for (size_t i = 0; i < options->count; i++)
		if (!strncmp(options->arguments[i], name, strlen(name)))
			return true;
	return false;
}

/* The daemon's argument vector, and the path of the simhcad beside us. The caller frees both. */
static char **daemon_arguments(const char *dir, const struct daemon_options *options, bool captive,
			       char **beside)
{
	char **arguments = calloc(options->count + 8, sizeof(*arguments));
	size_t n = 0;

	if (!arguments || !executable_dir() ||
	    asprintf(beside, "%s/simhcad", executable_dir()) < 0) {
		free(arguments);
		return NULL;
	}
	arguments[n++] = (char *)"simhcad";
	arguments[n++] = (char *)(captive ? "--captive" : "--daemonize");
	arguments[n++] = (char *)"--runtime-dir";
	arguments[n++] = (char *)dir;
	arguments[n++] = (char *)"--ready-fd";
	arguments[n++] = (char *)"3";
	/* On the stderr of a command belongs what is wrong, not that all is well. */
	if (captive && !is_given(options, "--log-") && !is_given(options, "--config="))
		arguments[n++] = (char *)"--log-level=warning";
	for (size_t i = 0; i < options->count; i++)
		arguments[n++] = options->arguments[i];
	return arguments;
}

static int spawn(struct leased_daemon *daemon, const struct daemon_options *options, bool captive,
		 int *ready)
{
	int ready_pipe[2] = { -1, -1 }, log_pipe[2] = { -1, -1 };
	char **arguments, *beside = NULL;
	int error;

	arguments = daemon_arguments(daemon->dir, options, captive, &beside);
	if (!arguments || pipe2(ready_pipe, O_CLOEXEC) || pipe2(log_pipe, O_CLOEXEC))
		goto failed;
	/* A daemon never waits for us to read its log, stopped as we may be. */
	fcntl(log_pipe[0], F_SETFL, O_NONBLOCK);
	fcntl(log_pipe[1], F_SETFL, O_NONBLOCK);
	fcntl(log_pipe[1], F_SETPIPE_SZ, LOG_PIPE_BYTES);
	daemon->child = fork();
	if (!daemon->child)
		become_daemon(arguments, beside, ready_pipe[1], log_pipe[1]);
	if (daemon->child < 0)
		goto failed;
	close(ready_pipe[1]);
	close(log_pipe[1]);
	free(arguments);
	free(beside);
	*ready = ready_pipe[0];
	daemon->log = log_pipe[0];
	return 0;

failed:
	error = errno;
	daemon->child = 0;
	for (int i = 0; i < 2; i++) {
		if (ready_pipe[i] >= 0)
			close(ready_pipe[i]);
		if (log_pipe[i] >= 0)
			close(log_pipe[i]);
	}
	free(arguments);
	free(beside);
	complain("simhcad: cannot be started: %s", strerror(error));
	return -1;
}

static void collect(struct leased_daemon *daemon, struct early_log *early)
{
	ssize_t n;

	while (early->length < sizeof(early->text) &&
	       (n = read(daemon->log, early->text + early->length,
			 sizeof(early->text) - early->length)) > 0)
		early->length += (size_t)n;
}

static void kill_child(struct leased_daemon *daemon)
{
	if (!daemon->child)
		return;
	kill(daemon->child, SIGKILL);
	waitpid(daemon->child, &daemon->status, 0);
	daemon->child = 0;
}

enum start { START_READY, START_ENDED, START_TOO_SLOW, START_INTERRUPTED };

/*
 * Waits until the daemon says that it is ready (a byte on ready), or has ended. Its log is
 * collected, not shown. In all cases but START_READY it is gone afterwards.
 */
static enum start wait_ready(struct leased_daemon *daemon, int ready, int signals,
			     struct early_log *early)
{
	long long deadline = now_ms() + READY_MS;
	enum start result = START_TOO_SLOW;
	long long left;

	while ((left = deadline - now_ms()) > 0) {
		struct pollfd fds[] = {
			{ .fd = ready, .events = POLLIN },
			{ .fd = signals, .events = POLLIN },
			{ .fd = early->length < sizeof(early->text) ? daemon->log : -1,
			  .events = POLLIN },
		};
		char byte;

		if (poll(fds, 3, (int)left) < 0 && errno != EINTR)
			break;
		collect(daemon, early);
		if (fds[0].revents) {
			result = read(ready, &byte, 1) == 1 ? START_READY : START_ENDED;
			break;
		}
		if (fds[1].revents) {
			result = START_INTERRUPTED;
			break;
		}
		if (fds[2].revents & POLLHUP)
			usleep(1000); /* its stderr is closed: ready is about to be, too */
	}
	if (result == START_ENDED) {
		/* ready is closed by the end of the process, which is then a matter of moments. */
		for (deadline = now_ms() + 1000; daemon->child && now_ms() < deadline;) {
			daemon_reap(daemon);
			usleep(1000);
		}
		collect(daemon, early);
	}
	if (result != START_READY)
		kill_child(daemon);
	close(ready);
	return result;
}

/* ------------------------------------------------------------------- the daemon's options */

/*
 * True when a daemon that runs with the option string running is what options ask for. Asked
 * nothing, any daemon will do. The string is the daemon's own way of writing its options, so
 * the daemon's own code turns ours into one.
 */
static enum reach options_agree(const struct leased_daemon *daemon, const char *running,
				const struct daemon_options *options, bool captive)
{
	char **arguments;
	struct options parsed;
	enum reach reach = REACH_FAILED;
	int status;

	if (!options->count)
		return REACHED;
	arguments = calloc(options->count + 2, sizeof(*arguments));
	if (!arguments) {
		complain("out of memory");
		return REACH_FAILED;
	}
	arguments[0] = (char *)"simhcad";
	memcpy(arguments + 1, options->arguments, options->count * sizeof(*arguments));
	optind = 0; /* begin anew */
	opterr = 1;
	status = options_parse((int)options->count + 1, arguments, &parsed);
	free(arguments);
	if (status >= 0)
		return status == EXIT_USAGE ? REACH_BAD_OPTIONS : REACH_FAILED;
	if (!strcmp(parsed.normalised, running))
		reach = REACHED;
	else
		complain("the daemon that runs in %s (pid %d) has the options %s, and these were "
			 "asked "
			 "for: %s; use %s--runtime-dir for another daemon, or end that one with "
			 "simhca stop",
			 daemon->dir, (int)daemon->pid, running, parsed.normalised,
			 captive ? "--private or " : "");
	options_free(&parsed);
	return reach;
}

/* ------------------------------------------------------------------------------- reaching */

enum lease { LEASE_TAKEN, LEASE_NOBODY, LEASE_AGAIN, LEASE_FAILED, LEASE_BAD_OPTIONS };

/* Gives the connection up. */
static enum lease no_lease(struct leased_daemon *daemon, enum lease lease)
{
	close(daemon->control);
	daemon->control = -1;
	return lease;
}

/* One attempt at a lease from whoever listens. */
static enum lease take_lease(struct leased_daemon *daemon, const struct daemon_options *options,
			     bool captive)
{
	enum reach reach = REACHED;
	char *refusal = NULL;
	const char *running;
	json_t *answer;

	daemon->control = admin_connect(daemon->dir);
	if (daemon->control < 0) {
		if (admin_nobody(errno))
			return LEASE_NOBODY;
		complain("the daemon in %s cannot be reached: %s", daemon->dir, strerror(errno));
		return LEASE_FAILED;
	}
	daemon->pid = admin_peer(daemon->control);
	answer = admin_request(daemon->control, CONTROL_LEASE, &refusal);
	if (answer) {
		/*
		 * A daemon whose last lease went in the same moment may have given us one on its
		 * way out: it serves no second request then.
		 */
		json_decref(answer);
		answer = admin_request(daemon->control, CONTROL_LEASE, &refusal);
	}
	if (!answer && errno == ETIMEDOUT) {
		complain("the daemon in %s (pid %d) does not answer within %d s", daemon->dir,
			 (int)daemon->pid, ADMIN_TIMEOUT_MS / 1000);
		return no_lease(daemon, LEASE_FAILED);
	}
	if (!answer && refusal) {
		complain("the daemon in %s (pid %d) refused: %s", daemon->dir, (int)daemon->pid,
			 refusal);
		free(refusal);
		return no_lease(daemon, LEASE_FAILED);
	}
	if (!answer) /* It closed the connection: it is about to end. */
		return no_lease(daemon, LEASE_AGAIN);

	daemon->pid = (pid_t)json_integer_value(json_object_get(answer, "pid"));
	running = json_string_value(json_object_get(answer, "options"));
	if (!daemon->started)
		reach = options_agree(daemon, running ? running : "", options, captive);
	json_decref(answer);
	if (reach == REACHED)
		return LEASE_TAKEN;
	return no_lease(daemon, reach == REACH_BAD_OPTIONS ? LEASE_BAD_OPTIONS : LEASE_FAILED);
}

/* Whether some process holds the daemon's lock: one that starts, or one that ends. */
static bool lock_is_held(const char *dir)
{
	bool held = false;
	char *path;
	int fd;

	if (asprintf(&path, "%s/lock", dir) < 0)
		return false;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	free(path);
	if (fd >= 0) {
		held = flock(fd, LOCK_SH | LOCK_NB) && errno == EWOULDBLOCK;
		close(fd);
	}
	return held;
}

/* Why the daemon that has ended was never ready. */
static void explain_end(const struct leased_daemon *daemon, const struct early_log *early)
{
	write_stderr(early->text, early->length);
	if (WIFSIGNALED(daemon->status))
		complain("simhcad: died of signal %d (%s) before it was ready",
			 WTERMSIG(daemon->status), strsignal(WTERMSIG(daemon->status)));
	else if (!early->length)
		complain("simhcad: ended with status %d before it was ready",
			 WEXITSTATUS(daemon->status));
}

/*
 * Starts a daemon and waits for it. *again: it did not get the lock, or that is possible and
 * may_retry is set; nothing was complained about then.
 */
static enum reach start(struct leased_daemon *daemon, const struct daemon_options *options,
			bool captive, int signals, bool may_retry, bool *again)
{
	struct early_log *early = calloc(1, sizeof(*early));
	enum reach reach = REACH_FAILED;
	int ready;

	*again = false;
	if (!early || spawn(daemon, options, captive, &ready)) {
		free(early);
		return REACH_FAILED;
	}
	switch (wait_ready(daemon, ready, signals, early)) {
	case START_READY:
		daemon->started = true;
		reach = REACHED;
		write_stderr(early->text, early->length);
		break;
	case START_INTERRUPTED:
		reach = REACH_INTERRUPTED;
		break;
	case START_TOO_SLOW:
		write_stderr(early->text, early->length);
		complain("simhcad: was not ready within %d s", READY_MS / 1000);
		break;
	case START_ENDED:
		if (WIFEXITED(daemon->status) && WEXITSTATUS(daemon->status) == EXIT_USAGE)
			reach = REACH_BAD_OPTIONS;
		else
			*again = may_retry || lock_is_held(daemon->dir);
		if (!*again)
			explain_end(daemon, early);
		break;
	}
	if (reach != REACHED) {
		close(daemon->log);
		daemon->log = -1;
	}
	free(early);
	return reach;
}

enum reach daemon_reach(struct leased_daemon *daemon, const char *dir,
			const struct daemon_options *options, bool captive, int signals)
{
	struct pollfd interrupted = { .fd = signals, .events = POLLIN };
	long long deadline = now_ms() + REACH_MS;
	/*
	 * Whoever tests the lock holds it for an instant, and a daemon that starts in that instant
	 * fails: its first failure is not believed.
	 */
	bool may_retry = true;

	*daemon = (struct leased_daemon)DAEMON_NONE;
	daemon->dir = strdup(dir);
	if (!daemon->dir) {
		complain("out of memory");
		return REACH_FAILED;
	}
	do {
		enum reach reach;
		bool again;

		switch (take_lease(daemon, options, captive)) {
		case LEASE_TAKEN:
			return REACHED;
		case LEASE_FAILED:
			return REACH_FAILED;
		case LEASE_BAD_OPTIONS:
			return REACH_BAD_OPTIONS;
		case LEASE_NOBODY:
			daemon_reap(daemon);
			if (daemon->started) {
				complain("simhcad: was ready, and is gone");
				return REACH_FAILED;
			}
			/* The lock's holder is on its way; starting another one would be in vain.
			 */
			if (lock_is_held(dir))
				break;
			reach = start(daemon, options, captive, signals, may_retry, &again);
			if (reach == REACHED)
				continue;
			if (!again)
				return reach;
			may_retry = false;
			break;
		case LEASE_AGAIN:
			break;
		}
		if (poll(&interrupted, 1, AGAIN_MS) > 0)
			return REACH_INTERRUPTED;
	} while (now_ms() < deadline);
	complain("the daemon in %s: neither answers nor ends; simhca stop --runtime-dir %s ends it",
		 dir, dir);
	return REACH_FAILED;
}

/* -------------------------------------------------------------------------------- leaving */

/* Sleeps until the daemon's log has something to say, or a short time. */
static void relay_or_sleep(struct leased_daemon *daemon)
{
	struct pollfd log = { .fd = daemon->log, .events = POLLIN };

	poll(&log, 1, AGAIN_MS);
	daemon_relay(daemon);
}

bool daemon_wait_gone(const char *dir, int timeout_ms)
{
	long long deadline = now_ms() + timeout_ms;

	/* Not its pid: a daemon that nobody has waited for yet still has one. */
	while (lock_is_held(dir)) {
		if (now_ms() >= deadline)
			return false;
		usleep(AGAIN_MS * 1000);
	}
	return true;
}

/* Somebody else's lease, or no captive daemon at all; not one that lingers on its way out. */
static bool goes_on(const char *dir)
{
	int fd = admin_connect(dir);
	json_t *status = NULL;
	bool stays;

	if (fd >= 0) {
		status = admin_status(fd, NULL);
		close(fd);
	}
	stays = status && (!json_is_true(json_object_get(status, "captive")) ||
			   json_integer_value(json_object_get(status, "leases")) > 0);
	json_decref(status);
	return stays;
}

/* Gives the lease back, and waits until the daemon has noticed. */
static void return_lease(struct leased_daemon *daemon, long long deadline)
{
	struct pollfd control = { .fd = daemon->control, .events = POLLIN };

	shutdown(daemon->control, SHUT_WR);
	while (!poll(&control, 1, AGAIN_MS) && now_ms() < deadline)
		daemon_relay(daemon);
	close(daemon->control);
	daemon->control = -1;
}

static bool ended_well(const struct leased_daemon *daemon)
{
	if (WIFEXITED(daemon->status) && !WEXITSTATUS(daemon->status))
		return true;
	if (WIFSIGNALED(daemon->status))
		complain("simhcad: died of signal %d (%s)", WTERMSIG(daemon->status),
			 strsignal(WTERMSIG(daemon->status)));
	else
		complain("simhcad: ended with status %d", WEXITSTATUS(daemon->status));
	return false;
}

bool daemon_leave(struct leased_daemon *daemon)
{
	long long deadline = now_ms() + ENDING_MS;

	daemon_notice_loss(daemon);
	if (daemon->control >= 0)
		return_lease(daemon, deadline);
	daemon_reap(daemon);
	if ((!daemon->started || daemon->child) && goes_on(daemon->dir)) {
		daemon_relay(daemon);
		return !daemon->lost;
	}
	if (!daemon->started) {
		daemon_wait_gone(daemon->dir, ENDING_MS);
		return !daemon->lost;
	}
	while (daemon->child && now_ms() < deadline) {
		relay_or_sleep(daemon);
		daemon_reap(daemon);
	}
	daemon_relay(daemon);
	if (daemon->child) {
		complain(
			"simhcad: pid %d has not ended within %d s of its last program; killing it",
			(int)daemon->child, ENDING_MS / 1000);
		kill_child(daemon);
		return false;
	}
	return ended_well(daemon) && !daemon->lost;
}
