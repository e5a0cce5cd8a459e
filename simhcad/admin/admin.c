/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utlist.h>

#include "admin.h"
#include "base/log.h"
#include "base/monotonic.h"
#include "base/share.h"
#include "control_protocol.h"
#include "diagnosis/explain.h"
#include "diagnosis/inject.h"
#include "diagnosis/lint.h"
#include "diagnosis/trace.h"
#include "failures/failures.h"
#include "loop/datagram.h"
#include "rdma_cm/cma_report.h"
#include "resources.h"
#include "session/daemon.h"
#include "session/session.h"
#include "status.h"
#include "wire/wire.h"

#define REQUEST_BYTES 1024
#define TEXT(number) TEXT_OF(number)
#define TEXT_OF(number) #number
#define UNREAD_BYTES 8192  /* of answers that wait for a client, as SO_SNDBUF counts */
#define FIRST_LEASE_S 10.0 /* how long a captive daemon waits for a user */
#define LINGER_S 2.0	   /* how long it stays for programs that its last user has left running */
#define LINGER_LOOK_S 0.01

struct connection {
	struct turn turn; /* first */
	struct admin *admin;
	int fd;
	struct owner owner;
	ev_io io;
	int watched; /* EV_READ: for requests, EV_WRITE: until it reads answers, 0: a report is made */
	bool lease;
	struct report *report; /* that it waits for */
	struct connection *prev, *next;
};

struct admin {
	struct daemon *daemon;
	struct listener listener;
	struct connection *connections;
	unsigned int num_connections;
	struct tally of_program; /* how many connections each has */
	ev_timer first_lease;
	ev_timer linger;
	double linger_until;
	bool ending;
};

/* ------------------------------------------------------------------------------- answering */

static json_t *refusal(const char *text)
{
	return json_pack("{s:b, s:s}", "ok", 0, "error", text);
}

static void send_text(int socket, const char *text, size_t length, int fd)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { .bytes = { 0 } };
	struct iovec iov = { .iov_base = (void *)text, .iov_len = length };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (fd >= 0) {
		struct cmsghdr *cmsg;

		msg.msg_control = control.bytes;
		msg.msg_controllen = sizeof(control.bytes);
		cmsg = CMSG_FIRSTHDR(&msg);
		cmsg->cmsg_level = SOL_SOCKET;
		cmsg->cmsg_type = SCM_RIGHTS;
		cmsg->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(cmsg), &fd, sizeof(fd));
	}
	if (sendmsg(socket, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		log_debug("control: an answer could not be sent: %m");
}

/* Takes the answer. */
static void answer(struct connection *connection, json_t *json, int fd)
{
	char *text = NULL;

	if (json && !json_object_set_new(json, "version", json_integer(CONTROL_VERSION)))
		text = json_dumps(json, JSON_COMPACT);
	if (text)
		send_text(connection->fd, text, strlen(text), fd);
	free(text);
	json_decref(json);
}

/* 0: for nothing. */
static void watch(struct connection *connection, int events)
{
	struct ev_loop *loop = connection->admin->daemon->loop;

	if (connection->watched == events)
		return;
	connection->watched = events;
	ev_io_stop(loop, &connection->io);
	ev_io_set(&connection->io, connection->fd, events);
	if (events)
		ev_io_start(loop, &connection->io);
}

static void connection_close(struct connection *connection);

static void on_lease(struct connection *connection, const json_t *request)
{
	struct admin *admin = connection->admin;

	if (admin->ending) {
		answer(connection, refusal("this daemon is ending: start another"), -1);
		return;
	}
	if (!connection->lease) {
		connection->lease = true;
		program_lease(&admin->daemon->programs, connection->owner.process);
		ev_timer_stop(admin->daemon->loop, &admin->first_lease);
	}
	answer(connection,
	       json_pack("{s:b, s:I, s:s}", "ok", 1, "pid", (json_int_t)getpid(), "options",
			 admin->daemon->options->normalised),
	       -1);
}

/* What can be larger than a datagram. fd: of a memfd that it is in, or a negative errno. */
static void answer_with_file(struct connection *connection, int fd)
{
	if (fd < 0) {
		answer(connection, refusal(strerror(-fd)), -1);
		return;
	}
	answer(connection, json_pack("{s:b, s:b}", "ok", 1, "memfd", 1), fd);
	close(fd);
}

static void on_report(void *arg, int fd)
{
	struct connection *connection = arg;

	connection->report = NULL;
	answer_with_file(connection, fd);
	watch(connection, EV_READ);
}

static bool is_there(void *arg)
{
	struct connection *connection = arg;

	if (!datagram_has_hung_up(connection->fd))
		return true;
	connection_close(connection);
	return false;
}

/* Until it is answered, nothing further is read: answers come in the order of the requests. */
static void make_report(struct connection *connection, const struct report_kind *kind,
			const json_t *request)
{
	const struct report_question question = {
		.since = (uint64_t)json_integer_value(json_object_get(request, "since")),
		.run = (pid_t)json_integer_value(json_object_get(request, "run")),
	};
	const struct report_client client = { .is_there = is_there,
					      .done = on_report,
					      .arg = connection };

	connection->report =
		report_begin(&connection->admin->daemon->reports, kind, &question, &client);
	if (connection->report)
		watch(connection, 0);
	else
		answer(connection, refusal(strerror(ENOMEM)), -1);
}

static void on_trace(struct connection *connection, const json_t *request)
{
	struct daemon *daemon = connection->admin->daemon;
	int fd = tracers_add(daemon->tracers, daemon->fabric,
			     (uint32_t)json_integer_value(json_object_get(request, "most_bytes")));

	if (fd == -EUSERS)
		answer(connection, refusal("there are as many traces as there may be"), -1);
	else if (fd < 0)
		answer(connection, refusal(strerror(-fd)), -1);
	else
		answer(connection, json_pack("{s:b}", "ok", 1), fd);
	if (fd >= 0)
		close(fd);
}

static void on_inject(struct connection *connection, const json_t *request)
{
	struct injector *injector = connection->admin->daemon->injector;
	const char *rule = json_string_value(json_object_get(request, "add"));
	const json_t *number = json_object_get(request, "clear");
	char error[512];
	uint32_t added;

	if (rule) {
		if (!injector_add(injector, rule, connection->lease ? connection : NULL,
				  connection->lease ? connection->owner.process : 0, &added, error,
				  sizeof(error)))
			answer(connection, refusal(error), -1);
		else
			answer(connection,
			       json_pack("{s:b, s:I}", "ok", 1, "number", (json_int_t)added), -1);
	} else if (number) {
		if (injector_remove(injector, (uint32_t)json_integer_value(number)))
			answer(connection, json_pack("{s:b}", "ok", 1), -1);
		else
			answer(connection, refusal("there is no rule of this number"), -1);
	} else {
		make_report(connection, &injector_report, request);
	}
}

static void on_stop(struct connection *connection, const json_t *request)
{
	log_info("told to stop");
	answer(connection, json_pack("{s:b}", "ok", 1), -1);
	ev_break(connection->admin->daemon->loop, EVBREAK_ALL);
}

/* What answers a command: a function, or a report. */
static const struct {
	void (*serve)(struct connection *connection, const json_t *request);
	const struct report_kind *report;
} commands[CONTROL_COUNT] = {
	[CONTROL_LEASE] = { .serve = on_lease },
	[CONTROL_STATUS] = { .report = &status_report },
	[CONTROL_QP] = { .report = &qp_report },
	[CONTROL_CQ] = { .report = &cq_report },
	[CONTROL_SRQ] = { .report = &srq_report },
	[CONTROL_WIRE_HOSTS] = { .report = &wire_host_report },
	[CONTROL_MR] = { .report = &mr_report },
	[CONTROL_CM] = { .report = &cma_report },
	[CONTROL_WIRE] = { .report = &wire_report },
	[CONTROL_EXPLAIN] = { .report = &explain_report },
	[CONTROL_LINT] = { .report = &lint_report },
	[CONTROL_TRACE] = { .serve = on_trace },
	[CONTROL_INJECT] = { .serve = on_inject },
	[CONTROL_STOP] = { .serve = on_stop },
};

/* Why a request is not served; NULL: it is, and command is which. */
static json_t *why_refused(const json_t *request, enum control_command *command)
{
	const char *name = json_string_value(json_object_get(request, "cmd"));
	const json_t *version = json_object_get(request, "version");
	char text[512];
	int length;

	if (!name)
		return refusal("not a request: should be {\"cmd\": \"..\"}");
	if (version && json_integer_value(version) != CONTROL_VERSION) {
		snprintf(text, sizeof(text),
			 "this daemon speaks version %d of the protocol: use tools of its release",
			 CONTROL_VERSION);
		return refusal(text);
	}
	for (*command = 0; *command < CONTROL_COUNT; (*command)++)
		if (!strcmp(control_names[*command], name))
			return NULL;
	length = snprintf(text, sizeof(text), "the commands are");
	for (int i = 0; i < CONTROL_COUNT; i++)
		length += snprintf(text + length, sizeof(text) - (size_t)length, "%s %s",
				   i ? "," : "", control_names[i]);
	return refusal(text);
}

static void serve(struct connection *connection, const char *text, size_t length)
{
	json_t *request = json_loadb(text, length, 0, NULL);
	enum control_command command = CONTROL_COUNT;
	json_t *refused = why_refused(request, &command);

	if (refused)
		answer(connection, refused, -1);
	else if (commands[command].report)
		make_report(connection, commands[command].report, request);
	else
		commands[command].serve(connection, request);
	json_decref(request);
}

/* ------------------------------------------------------------------------------ connections */

static bool is_in_use(const struct daemon *daemon)
{
	for (unsigned int i = 0; i < daemon->num_devices; i++)
		if (daemon->devices[i].sessions)
			return true;
	return cma_in_use(daemon->cma);
}

/*
 * The command of the last `simhca run` has ended; programs that it started in the background may be
 * at their last completion, and get a moment to close the device.
 */
static void linger(struct admin *admin)
{
	struct ev_loop *loop = admin->daemon->loop;

	if (admin->daemon->programs.leases) {
		ev_timer_stop(loop, &admin->linger);
		return;
	}
	if (is_in_use(admin->daemon) && monotonic_s() < admin->linger_until) {
		if (!ev_is_active(&admin->linger))
			ev_timer_start(loop, &admin->linger);
		return;
	}
	log_debug("the last lease is gone");
	admin->ending = true;
	ev_break(loop, EVBREAK_ALL);
}

static void on_linger(struct ev_loop *loop, ev_timer *timer, int events)
{
	linger(timer->data);
}

static void connection_close(struct connection *connection)
{
	struct admin *admin = connection->admin;
	struct daemon *daemon = admin->daemon;

	DL_DELETE(admin->connections, connection);
	admin->num_connections--;
	tally_sub(&admin->of_program, connection->owner.program);
	turns_leave(&daemon->turns, &connection->turn);
	if (connection->report)
		report_cancel(connection->report);
	ev_io_stop(daemon->loop, &connection->io);
	datagram_close(connection->fd, daemon->releaser, &connection->owner);
	injector_owner_gone(daemon->injector, connection);
	if (connection->lease) {
		program_lease_ends(&daemon->programs, connection->owner.process);
		failures_end_run(daemon->failures, connection->owner.process);
	}
	if (connection->lease && !daemon->programs.leases && daemon->options->daemon.captive) {
		admin->linger_until = monotonic_s() + LINGER_S;
		linger(admin);
	}
	free(connection);
}

/* Whether another answer fits into the socket, beside those that the client has not read yet. */
static bool has_room(const struct connection *connection)
{
	struct pollfd poll_fd = { .fd = connection->fd, .events = POLLOUT };

	return poll(&poll_fd, 1, 0) == 1 && poll_fd.revents & POLLOUT;
}

/*
 * Serves one request, and may free the connection. Tools ask seldom, so it leaves what remains of the turn (until)
 * to others.
 */
static void serve_one(struct turn *turn, uint64_t until)
{
	struct connection *connection = (struct connection *)turn;
	char text[REQUEST_BYTES];
	struct iovec iov = { .iov_base = text, .iov_len = sizeof(text) };
	struct sender sender;
	unsigned int num_fds;
	bool truncated;
	ssize_t length;

	if (!has_room(connection) && !datagram_has_hung_up(connection->fd)) {
		watch(connection, EV_WRITE);
		return;
	}
	length = datagram_receive(connection->fd, connection->admin->daemon->releaser,
				  &connection->owner, &iov, 1, &sender, NULL, 0, &num_fds,
				  &truncated);
	if (length == -EAGAIN)
		return;
	if (length < 0 || (!length && !sender.known) || datagram_has_hung_up(connection->fd))
		connection_close(connection);
	else if (truncated)
		answer(connection, refusal("a request has at most " TEXT(REQUEST_BYTES) " bytes"),
		       -1);
	else
		serve(connection, text, (size_t)length);
}

/* A request has come, or there is room for an answer: the request is read when it is the connection's turn. */
static void on_event(struct ev_loop *loop, ev_io *io, int events)
{
	struct connection *connection = io->data;

	watch(connection, EV_READ);
	turns_take(&connection->admin->daemon->turns, &connection->turn);
}

/* Why there may be no further connection of this owner; NULL: there may. */
static const char *why_not(const struct admin *admin, const struct owner *owner)
{
	unsigned int most = share_descriptors();

	if (admin->num_connections >= most)
		return "the daemon has as many connections of tools as it may have";
	if (tally_get(&admin->of_program, owner->program) >= most / 2)
		return "this program has as many connections of tools as it may have";
	return NULL;
}

static void on_connection(void *arg, int fd)
{
	struct admin *admin = arg;
	struct owner owner = program_peer(&admin->daemon->programs, fd);
	const char *refused = why_not(admin, &owner);
	struct connection *connection = calloc(1, sizeof(*connection));
	int unread = UNREAD_BYTES;

	if (!connection) {
		datagram_close(fd, admin->daemon->releaser, &owner);
		return;
	}
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &unread, sizeof(unread));
	connection->turn.serve = serve_one;
	connection->admin = admin;
	connection->fd = fd;
	connection->owner = owner;
	if (refused) {
		answer(connection, refusal(refused), -1);
		datagram_close(fd, admin->daemon->releaser, &owner);
		free(connection);
		return;
	}
	ev_io_init(&connection->io, on_event, fd, 0);
	connection->io.data = connection;
	watch(connection, EV_READ);
	DL_APPEND(admin->connections, connection);
	admin->num_connections++;
	tally_add(&admin->of_program, owner.program);
}

static void on_no_lease(struct ev_loop *loop, ev_timer *timer, int events)
{
	log_warning("--captive: nobody has come within %.0f s", FIRST_LEASE_S);
	ev_break(loop, EVBREAK_ALL);
}

struct admin *admin_open(struct daemon *daemon)
{
	struct admin *admin = calloc(1, sizeof(*admin));
	char path[PATH_MAX + 16];

	if (!admin) {
		log_error("out of memory");
		return NULL;
	}
	admin->daemon = daemon;
	ev_timer_init(&admin->first_lease, on_no_lease, FIRST_LEASE_S, 0);
	ev_timer_init(&admin->linger, on_linger, LINGER_LOOK_S, LINGER_LOOK_S);
	admin->linger.data = admin;
	snprintf(path, sizeof(path), "%s/control", daemon->rundir.path);
	if (listener_open(&admin->listener, &daemon->turns, path, on_connection, admin)) {
		free(admin);
		return NULL;
	}
	if (daemon->options->daemon.captive)
		ev_timer_start(daemon->loop, &admin->first_lease);
	return admin;
}

void admin_close(struct admin *admin)
{
	if (!admin)
		return;
	listener_close(&admin->listener);
	ev_timer_stop(admin->daemon->loop, &admin->first_lease);
	admin->ending = true;
	while (admin->connections)
		connection_close(admin->connections);
	ev_timer_stop(admin->daemon->loop, &admin->linger);
	free(admin);
}
