/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <utlist.h>

#include "admin.h"
#include "cma_report.h"
#include "daemon.h"
#include "datagram.h"
#include "failures.h"
#include "gid_table.h"
#include "inject.h"
#include "lint.h"
#include "log.h"
#include "mixups.h"
#include "resources.h"
#include "session.h"
#include "trace.h"
#include "wire.h"

#define REQUEST_BYTES 1024
#define TURN_NS 2000000u   /* of one connection, before others get their turn */
#define FIRST_LEASE_S 10.0 /* how long a captive daemon waits for a user */
#define LINGER_S 2.0	   /* how long it stays for programs that its last user has left running */
#define LINGER_LOOK_S 0.01

struct connection {
	struct admin *admin;
	int fd;
	struct owner owner;
	ev_io io;
	bool lease;
	struct report *report; /* that it waits for */
	struct connection *prev, *next;
};

struct admin {
	struct daemon *daemon;
	struct listener listener;
	struct connection *connections;
	unsigned int leases;
	ev_timer first_lease;
	ev_timer linger;
	ev_tstamp linger_until;
	bool ending;
};

/* ---------------------------------------------------------------------------------- status */

static json_t *counts_json(const struct simhca_counts *counts)
{
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "pds",
			 (json_int_t)counts->pds, "mrs", (json_int_t)counts->mrs, "mws",
			 (json_int_t)counts->mws, "cqs", (json_int_t)counts->cqs, "qps",
			 (json_int_t)counts->qps, "carried", (json_int_t)counts->carried, "srqs",
			 (json_int_t)counts->srqs, "ahs", (json_int_t)counts->ahs, "xrcds",
			 (json_int_t)counts->xrcds, "dms", (json_int_t)counts->dms, "dm_bytes",
			 (json_int_t)counts->dm_bytes, "wqs", (json_int_t)counts->wqs, "flows",
			 (json_int_t)counts->flows);
}

static void add_counts(struct simhca_counts *sum, const struct simhca_counts *counts)
{
	sum->pds += counts->pds;
	sum->mrs += counts->mrs;
	sum->mws += counts->mws;
	sum->cqs += counts->cqs;
	sum->qps += counts->qps;
	sum->carried += counts->carried;
	sum->srqs += counts->srqs;
	sum->ahs += counts->ahs;
	sum->xrcds += counts->xrcds;
	sum->dms += counts->dms;
	sum->dm_bytes += counts->dm_bytes;
	sum->wqs += counts->wqs;
	sum->flows += counts->flows;
}

static json_t *contexts_json(const struct device *device, struct simhca_counts *sum)
{
	json_t *array = json_array();
	const struct session *session;

	memset(sum, 0, sizeof(*sum));
	DL_FOREACH (device->sessions, session) {
		struct simhca_counts counts;
		struct simhca_usage_sum past;

		if (!session->context)
			continue;
		simhca_context_counts(session->context, &counts);
		add_counts(sum, &counts);
		simhca_context_past(session->context, &past);
		json_array_append_new(
			array, json_pack("{s:I, s:I, s:s, s:s, s:o, s:o}", "id",
					 (json_int_t)simhca_context_id(session->context), "pid",
					 (json_int_t)session->pid, "comm", session->comm, "memory",
					 session->own_engine ? "agent" : "process_vm", "counts",
					 counts_json(&counts), "past", usage_json(&past)));
	}
	return array;
}

static json_t *gids_json(const struct device *device)
{
	json_t *array = json_array();
	size_t used = 0;

	for (size_t i = 0; i < SIMHCA_GID_ENTRIES; i++) {
		char text[GID_TEXT] = "";

		if (!gid_is_empty(&device->gids[i].gid)) {
			gid_print(&device->gids[i].gid, text);
			used = i + 1;
		}
		json_array_append_new(array, json_string(text));
	}
	while (json_array_size(array) > used)
		json_array_remove(array, json_array_size(array) - 1);
	return array;
}

static json_t *device_json(const struct device *device)
{
	const struct simhca_devmem *memory = simhca_device_memory(device->model);
	uint64_t guid = be64toh(memory->attr.node_guid);
	const struct settings *settings = &device->options->settings;
	struct simhca_counts sum;
	json_t *contexts = contexts_json(device, &sum);
	char guid_text[24];

	snprintf(guid_text, sizeof(guid_text), "%04x:%04x:%04x:%04x", (unsigned int)(guid >> 48),
		 (unsigned int)(guid >> 32 & 0xffff), (unsigned int)(guid >> 16 & 0xffff),
		 (unsigned int)(guid & 0xffff));
	return json_pack("{s:s, s:s, s:s, s:s, s:I, s:s, s:o, s:I, s:o, s:o}", "name",
			 device->options->name, "link_layer",
			 settings->infiniband ? "InfiniBand" : "Ethernet", "netdev",
			 settings->netdev, "state", device->up ? "ACTIVE" : "DOWN", "mtu",
			 (json_int_t)settings->mtu, "node_guid", guid_text, "gids",
			 gids_json(device), "contexts", (json_int_t)json_array_size(contexts),
			 "counts", counts_json(&sum), "context", contexts);
}

/* Those of the pool, and of contexts that have one of their own. */
static json_t *engines_json(const struct daemon *daemon)
{
	json_t *array = json_array();

	for (unsigned int i = 0; i < daemon->engines.count; i++)
		json_array_append_new(array,
				      json_pack("{s:I, s:f}", "engine", (json_int_t)i, "cpu_s",
						engine_cpu(daemon->engines.pool[i])));
	return array;
}

static json_t *status_json(const struct admin *admin)
{
	const struct daemon *daemon = admin->daemon;
	json_t *devices = json_array();
	json_t *wire = daemon->wire ? wire_report(daemon->wire) : json_null();

	for (unsigned int i = 0; i < daemon->num_devices; i++)
		json_array_append_new(devices, device_json(&daemon->devices[i]));
	return json_pack("{s:b, s:s, s:I, s:I, s:s, s:s, s:b, s:I, s:o, s:o, s:o, s:o}", "ok", 1,
			 "version", SIMHCA_VERSION, "pid", (json_int_t)getpid(), "uptime_s",
			 (json_int_t)(ev_now(daemon->loop) - daemon->started), "runtime_dir",
			 daemon->rundir.path, "options", daemon->options->normalised, "captive",
			 (int)daemon->options->daemon.captive, "leases", (json_int_t)admin->leases,
			 "devices", devices, "engines", engines_json(daemon), "rdma_cm",
			 cma_report_counts(daemon->cma), "wire", wire);
}

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
	char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;

	if (text)
		send_text(connection->fd, text, strlen(text), fd);
	free(text);
	json_decref(json);
}

/* json's text in a memfd, or -errno. */
static int in_memory(const json_t *json)
{
	char *text = json_dumps(json, JSON_COMPACT);
	size_t length, at = 0;
	int fd;

	if (!text)
		return -ENOMEM;
	fd = memfd_create("simhca-status", MFD_CLOEXEC);
	length = strlen(text);
	while (fd >= 0 && at < length) {
		ssize_t written = write(fd, text + at, length - at);

		if (written < 0) {
			close(fd);
			fd = -1;
		} else {
			at += (size_t)written;
		}
	}
	free(text);
	/* Its offset is the receiver's, too. */
	if (fd >= 0)
		lseek(fd, 0, SEEK_SET);
	return fd < 0 ? -errno : fd;
}

static void on_lease(struct connection *connection, const json_t *request)
{
	struct admin *admin = connection->admin;

	if (admin->ending) {
		answer(connection, refusal("this daemon is ending: start another"), -1);
		return;
	}
	if (!connection->lease) {
		connection->lease = true;
		admin->leases++;
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

/* Takes the JSON. */
static void send_json(struct connection *connection, json_t *json)
{
	answer_with_file(connection, json ? in_memory(json) : -ENOMEM);
	json_decref(json);
}

static void on_status(struct connection *connection, const json_t *request)
{
	send_json(connection, status_json(connection->admin));
}

static void on_report(void *arg, int fd)
{
	struct connection *connection = arg;

	connection->report = NULL;
	answer_with_file(connection, fd);
}

static void make_report(struct connection *connection, report_next *next,
			report_next_of_daemon *next_of_daemon)
{
	if (connection->report) {
		answer(connection, refusal("the report before this one is not ready"), -1);
		return;
	}
	connection->report = report_begin(&connection->admin->daemon->reports, next, next_of_daemon,
					  on_report, connection);
	if (!connection->report)
		answer(connection, refusal(strerror(ENOMEM)), -1);
}

static void on_qp(struct connection *connection, const json_t *request)
{
	make_report(connection, resources_next_qp, NULL);
}

static void on_cq(struct connection *connection, const json_t *request)
{
	make_report(connection, resources_next_cq, NULL);
}

static void on_srq(struct connection *connection, const json_t *request)
{
	make_report(connection, resources_next_srq, NULL);
}

static void on_mr(struct connection *connection, const json_t *request)
{
	make_report(connection, resources_next_mr, NULL);
}

static json_t *next_cm_id(const struct daemon *daemon, uint32_t *handle)
{
	return cma_report_next(daemon->cma, handle);
}

static void on_cm(struct connection *connection, const json_t *request)
{
	make_report(connection, NULL, next_cm_id);
}

/* Of queues that had no receive: how many were posted to them later, if they still are there. */
static void add_receives_since(const struct daemon *daemon, const json_t *failures)
{
	for (size_t i = 0; i < json_array_size(failures); i++) {
		const json_t *failure = json_array_get(failures, i);
		json_t *queue = json_object_get(failure, "queue");
		const struct session *session;
		uint32_t posted,
			then = (uint32_t)json_integer_value(json_object_get(queue, "posted"));

		if (!queue)
			continue;
		session = session_of(
			daemon, (uint32_t)json_integer_value(json_object_get(queue, "context")));
		if (session && simhca_context_posted(session->context,
						     (uint32_t)json_integer_value(
							     json_object_get(failure, "peer_qpn")),
						     &posted))
			json_object_set_new(queue, "posted_since", json_integer(posted - then));
	}
}

static void on_explain(struct connection *connection, const json_t *request)
{
	struct daemon *daemon = connection->admin->daemon;
	json_t *report;

	mixups_find(daemon);
	report = failures_json(daemon->failures,
			       (uint64_t)json_integer_value(json_object_get(request, "since")),
			       (pid_t)json_integer_value(json_object_get(request, "run")));

	add_receives_since(daemon, json_object_get(report, "failures"));
	send_json(connection, report);
}

static void on_lint(struct connection *connection, const json_t *request)
{
	struct daemon *daemon = connection->admin->daemon;

	send_json(connection,
		  lint_json(daemon, (pid_t)json_integer_value(json_object_get(request, "run"))));
}

static void on_wire(struct connection *connection, const json_t *request)
{
	send_json(connection, wire_report(connection->admin->daemon->wire));
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
		send_json(connection, injector_json(injector));
	}
}

static void on_stop(struct connection *connection, const json_t *request)
{
	log_info("told to stop");
	answer(connection, json_pack("{s:b}", "ok", 1), -1);
	ev_break(connection->admin->daemon->loop, EVBREAK_ALL);
}

static void serve(struct connection *connection, const char *text, size_t length)
{
	static const struct {
		const char *name;
		void (*serve)(struct connection *connection, const json_t *request);
	} commands[] = { { "lease", on_lease }, { "status", on_status }, { "qp", on_qp },
			 { "cq", on_cq },	{ "srq", on_srq },	 { "mr", on_mr },
			 { "cm", on_cm },	{ "wire", on_wire },	 { "explain", on_explain },
			 { "lint", on_lint },	{ "trace", on_trace },	 { "inject", on_inject },
			 { "stop", on_stop } };
	json_t *request = json_loadb(text, length, 0, NULL);
	const char *name = json_string_value(json_object_get(request, "cmd"));
	size_t i = 0;

	if (!name && json_is_true(json_object_get(request, "lease")))
		name = "lease";
	while (name && i < sizeof(commands) / sizeof(commands[0]) && strcmp(commands[i].name, name))
		i++;
	if (!name)
		answer(connection, refusal("not a request: should be {\"cmd\": \"..\"}"), -1);
	else if (i == sizeof(commands) / sizeof(commands[0]))
		answer(connection,
		       refusal("the commands are lease, status, qp, cq, srq, mr, cm, wire, "
			       "explain, lint, trace, inject and stop"),
		       -1);
	else
		commands[i].serve(connection, request);
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

	if (admin->leases) {
		ev_timer_stop(loop, &admin->linger);
		return;
	}
	if (is_in_use(admin->daemon) && ev_now(loop) < admin->linger_until) {
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

	DL_DELETE(admin->connections, connection);
	if (connection->report)
		report_cancel(connection->report);
	ev_io_stop(admin->daemon->loop, &connection->io);
	datagram_close(connection->fd, admin->daemon->releaser, &connection->owner);
	injector_owner_gone(admin->daemon->injector, connection);
	if (connection->lease)
		failures_end_run(admin->daemon->failures, connection->owner.process);
	if (connection->lease && !--admin->leases && admin->daemon->options->daemon.captive) {
		admin->linger_until = ev_now(admin->daemon->loop) + LINGER_S;
		linger(admin);
	}
	free(connection);
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void on_readable(struct ev_loop *loop, ev_io *io, int events)
{
	struct connection *connection = io->data;
	uint64_t until = now_ns() + TURN_NS;
	char text[REQUEST_BYTES];

	do {
		struct iovec iov = { .iov_base = text, .iov_len = sizeof(text) };
		struct sender sender;
		unsigned int num_fds;
		bool truncated;
		ssize_t length =
			datagram_receive(connection->fd, connection->admin->daemon->releaser,
					 &connection->owner, &iov, 1, &sender, NULL, 0, &num_fds,
					 &truncated);

		if (length == -EAGAIN)
			return;
		if (length < 0 || (!length && !sender.known) ||
		    datagram_has_hung_up(connection->fd)) {
			connection_close(connection);
			return;
		}
		serve(connection, text, (size_t)length);
	} while (now_ns() < until);
}

static void on_connection(void *arg, int fd)
{
	struct admin *admin = arg;
	struct owner owner = program_peer(&admin->daemon->programs, fd);
	struct connection *connection = calloc(1, sizeof(*connection));

	if (!connection) {
		datagram_close(fd, admin->daemon->releaser, &owner);
		return;
	}
	connection->admin = admin;
	connection->fd = fd;
	connection->owner = owner;
	ev_io_init(&connection->io, on_readable, fd, EV_READ);
	connection->io.data = connection;
	ev_io_start(admin->daemon->loop, &connection->io);
	DL_APPEND(admin->connections, connection);
}

static void on_no_lease(struct ev_loop *loop, ev_timer *timer, int events)
{
	log_warning("--captive: nobody has come within %.0f s", FIRST_LEASE_S);
	ev_break(loop, EVBREAK_ALL);
}

pid_t admin_run_of(const struct admin *admin, pid_t process)
{
	const struct connection *connection;

	DL_FOREACH (admin->connections, connection)
		if (connection->lease && connection->owner.process &&
		    program_descends(process, connection->owner.process))
			return connection->owner.process;
	return 0;
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
	if (listener_open(&admin->listener, daemon->loop, path, on_connection, admin)) {
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
