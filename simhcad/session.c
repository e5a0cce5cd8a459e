/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utlist.h>

#include "daemon.h"
#include "log.h"
#include "session.h"

#define REQUESTS 16 /* of one session, before others get their turn */
#define REPLY_BODY (SIMHCA_CMD_MAX_BYTES - sizeof(struct simhca_reply_hdr))
#define REQUEST_BODY (SIMHCA_CMD_MAX_BYTES - sizeof(struct simhca_cmd_hdr))

/* A datagram as it came in: what it says is not to be trusted, who sent it is. */
struct datagram {
	struct simhca_cmd_hdr hdr;
	_Alignas(16) unsigned char body[REQUEST_BODY];
	ssize_t length;
	bool truncated;	  /* it was longer */
	bool from_client; /* false: the end of the connection */
	pid_t pid;
	uid_t uid;
	int fds[1 + SIMHCA_CMD_MAX_FDS];
	unsigned int num_fds;
};

/* A command that found an engine at work on its object. */
struct deferred {
	struct datagram datagram;
	ev_tstamp since;
	struct deferred *prev, *next;
};

#define RETRY_INTERVAL 0.001 /* seconds */
#define RETRY_SECONDS 10.0   /* until such a command fails */
#define CLOSING_INTERVAL 0.05
#define FINAL_SECONDS 2.0

/* ----------------------------------------------------------------------------- receiving */

static void take_control(struct msghdr *msg, struct datagram *datagram)
{
	for (struct cmsghdr *cmsg = CMSG_FIRSTHDR(msg); cmsg; cmsg = CMSG_NXTHDR(msg, cmsg)) {
		size_t count = (cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (cmsg->cmsg_level != SOL_SOCKET)
			continue;
		if (cmsg->cmsg_type == SCM_CREDENTIALS) {
			struct ucred sender;

			memcpy(&sender, CMSG_DATA(cmsg), sizeof(sender));
			datagram->pid = sender.pid;
			datagram->uid = sender.uid;
			datagram->from_client = true;
		}
		if (cmsg->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < count; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(cmsg) + i * sizeof(int), sizeof(fd));
			if (datagram->num_fds < 1 + SIMHCA_CMD_MAX_FDS)
				datagram->fds[datagram->num_fds++] = fd;
			else
				close(fd);
		}
	}
}

/* 0, or -errno. */
static int receive(int fd, struct datagram *datagram)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(struct ucred)) +
			   CMSG_SPACE((1 + SIMHCA_CMD_MAX_FDS) * sizeof(int))];
	} control;
	struct iovec iov[2] = {
		{ .iov_base = &datagram->hdr, .iov_len = sizeof(datagram->hdr) },
		{ .iov_base = datagram->body, .iov_len = sizeof(datagram->body) },
	};
	struct msghdr msg = {
		.msg_iov = iov,
		.msg_iovlen = 2,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};

	memset(datagram, 0, sizeof(*datagram));
	do
		datagram->length = recvmsg(fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	while (datagram->length < 0 && errno == EINTR);
	if (datagram->length < 0)
		return -errno;
	datagram->truncated = msg.msg_flags & MSG_TRUNC;
	take_control(&msg, datagram);
	return 0;
}

/* ------------------------------------------------------------------------------- answering */

static void send_reply(int fd, int status, size_t body_size, const struct reply *reply,
		       const struct simhca_why *why)
{
	struct simhca_reply_hdr hdr = {
		.magic = SIMHCA_CMD_MAGIC,
		.status = (uint32_t)-status,
		.length = (uint32_t)(sizeof(hdr) + (status ? 0 : body_size)),
	};
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(SIMHCA_CMD_MAX_FDS * sizeof(int))];
	} control;
	struct iovec iov[2] = {
		{ .iov_base = &hdr, .iov_len = sizeof(hdr) },
		{ .iov_base = reply->body, .iov_len = status ? 0 : body_size },
	};
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 2 };

	if (status)
		memcpy(hdr.message, why->text, sizeof(hdr.message));
	if (!status && reply->num_fds) {
		struct cmsghdr *cmsg;

		memset(&control, 0, sizeof(control));
		msg.msg_control = control.bytes;
		msg.msg_controllen = CMSG_SPACE(reply->num_fds * sizeof(int));
		cmsg = CMSG_FIRSTHDR(&msg);
		cmsg->cmsg_level = SOL_SOCKET;
		cmsg->cmsg_type = SCM_RIGHTS;
		cmsg->cmsg_len = CMSG_LEN(reply->num_fds * sizeof(int));
		memcpy(CMSG_DATA(cmsg), reply->fds, reply->num_fds * sizeof(int));
	}
	/* Who does not take the answer has no other claim to it. */
	if (sendmsg(fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		log_debug("an answer could not be sent: %m");
}

/* What can be wrong with a request before anybody looks at what it asks for. */
static int check(const struct session *session, const struct datagram *datagram,
		 const struct command **command, struct simhca_why *why)
{
	const struct simhca_cmd_hdr *hdr = &datagram->hdr;
	size_t length = (size_t)datagram->length;

	if (datagram->truncated)
		return simhca_why(why, EMSGSIZE, "a command has at most %u bytes",
				  SIMHCA_CMD_MAX_BYTES);
	if (length < sizeof(*hdr) || hdr->magic != SIMHCA_CMD_MAGIC || hdr->length != length)
		return simhca_why(why, EPROTO, "not a command: bad header or length");
	if (hdr->version != SIMHCA_ABI_VERSION)
		return simhca_why(why, EPROTONOSUPPORT,
				  "simhcad " SIMHCA_VERSION " speaks version %u of the ABI and the "
				  "provider version %u: install both from one release",
				  SIMHCA_ABI_VERSION, hdr->version);
	*command = command_find(hdr->command);
	if (!*command)
		return simhca_why(why, EOPNOTSUPP, "there is no command %u", hdr->command);
	if (length != sizeof(*hdr) + (*command)->request_size)
		return simhca_why(why, EINVAL, "%s: the request has %zu bytes and should have %zu",
				  (*command)->name, length - sizeof(*hdr),
				  (*command)->request_size);
	if (datagram->num_fds < 1 + (*command)->fds)
		return simhca_why(why, EINVAL, "%s: the request lacks %u descriptors",
				  (*command)->name, 1 + (*command)->fds - datagram->num_fds);
	/* Before that there is nothing that the others could work on. */
	if (!session->context && hdr->command != SIMHCA_CMD_OPEN_CONTEXT)
		return simhca_why(why, EINVAL, "%s: the context has to be opened first",
				  (*command)->name);
	return 0;
}

/* Carries a request out and answers it; false: it is to be tried again, and holds its descriptors.
 */
static bool serve(struct session *session, struct datagram *datagram, double age)
{
	_Alignas(16) unsigned char body[REPLY_BODY] = { 0 };
	struct reply reply = { .body = body };
	struct request request = {
		.body = datagram->body,
		.age = age,
		.pid = datagram->pid,
		.uid = datagram->uid,
	};
	const struct command *command = NULL;
	struct simhca_why why = { "" };
	int status = check(session, datagram, &command, &why);

	/* The first descriptor is for the answer, the others go to the handler. */
	for (unsigned int i = 1; i < datagram->num_fds; i++)
		request.fds[request.num_fds++] = datagram->fds[i];
	if (!status)
		status = command->handler(session, &request, &reply, &why);
	if (status == -EAGAIN && age <= RETRY_SECONDS)
		return false;
	if (status == -EAGAIN)
		status = simhca_why(&why, EBUSY,
				    "%s: the device is still at work in a client's "
				    "memory that does not answer",
				    command->name);
	if (status)
		log_debug("%s: context %d, process %d: %s: %s (%s)", session->device->options->name,
			  session->context ? (int)simhca_context_id(session->context) : -1,
			  (int)datagram->pid, command ? command->name : "command", why.text,
			  strerror(-status));
	if (datagram->num_fds) {
		send_reply(datagram->fds[0], status, command ? command->reply_size : 0, &reply,
			   &why);
		close(datagram->fds[0]);
	}
	for (unsigned int i = 0; i < request.num_fds; i++)
		if (request.fds[i] >= 0)
			close(request.fds[i]);
	for (unsigned int i = 0; i < reply.num_fds; i++)
		if (reply.close_fd[i])
			close(reply.fds[i]);
	return true;
}

/* ------------------------------------------------------------------------ trying again later */

static void defer(struct session *session, const struct datagram *datagram)
{
	struct ev_loop *loop = session->device->daemon->loop;
	struct deferred *deferred = malloc(sizeof(*deferred));

	if (!deferred) {
		for (unsigned int i = 0; i < datagram->num_fds; i++)
			close(datagram->fds[i]); /* the client sees the end of its answer socket */
		return;
	}
	deferred->datagram = *datagram;
	deferred->since = ev_now(loop);
	DL_APPEND(session->deferred, deferred);
	if (!ev_is_active(&session->retry)) {
		ev_timer_set(&session->retry, RETRY_INTERVAL, RETRY_INTERVAL);
		ev_timer_start(loop, &session->retry);
	}
}

static void drop_deferred(struct session *session, struct deferred *deferred)
{
	DL_DELETE(session->deferred, deferred);
	free(deferred);
}

static void on_retry(struct ev_loop *loop, ev_timer *timer, int events)
{
	struct session *session = timer->data;
	struct deferred *deferred, *next;

	if (session->closing) {
		session_close(session, false);
		return;
	}
	DL_FOREACH_SAFE (session->deferred, deferred, next) {
		if (serve(session, &deferred->datagram, ev_now(loop) - deferred->since))
			drop_deferred(session, deferred);
	}
	if (!session->deferred)
		ev_timer_stop(loop, timer);
}

static void on_readable(struct ev_loop *loop, ev_io *io, int events)
{
	struct session *session = io->data;
	struct datagram datagram;

	for (int i = 0; i < REQUESTS; i++) {
		int ret = receive(session->fd, &datagram);

		if (ret == -EAGAIN)
			return;
		/* An empty datagram has a sender, the end of the connection has none. */
		if (ret || (!datagram.length && !datagram.from_client)) {
			session_close(session, false);
			return;
		}
		if (!serve(session, &datagram, 0))
			defer(session, &datagram);
	}
}

/* ------------------------------------------------------------------------------------ life */

void session_open(struct device *device, int fd)
{
	struct session *session = calloc(1, sizeof(*session));

	if (!session) {
		log_error("%s: no memory for a connection", device->options->name);
		close(fd);
		return;
	}
	session->device = device;
	session->fd = fd;
	event_set_init(&session->events, &device->daemon->wakeup);
	ev_io_init(&session->io, on_readable, fd, EV_READ);
	/* Before the end of a process: peers of one that has died shall see it fall silent. */
	ev_set_priority(&session->io, 1);
	session->io.data = session;
	ev_timer_init(&session->retry, on_retry, 0, 0);
	session->retry.data = session;
	ev_io_start(device->daemon->loop, &session->io);
	DL_APPEND(device->sessions, session);
}

/* The client is gone: nothing more is taken from it, and nothing answered. */
static void stop_serving(struct session *session)
{
	struct daemon *daemon = session->device->daemon;
	struct process_use *use;

	session->closing = true;
	if (session->context)
		log_debug("%s: context %u, process %d (%s): closed", session->device->options->name,
			  simhca_context_id(session->context), (int)session->pid, session->comm);
	while (session->deferred) {
		struct datagram *datagram = &session->deferred->datagram;

		for (unsigned int i = 0; i < datagram->num_fds; i++)
			close(datagram->fds[i]);
		drop_deferred(session, session->deferred);
	}
	ev_io_stop(daemon->loop, &session->io);
	close(session->fd);
	/* An engine of its own may be waiting for the client: it shall stop that at once. */
	DL_FOREACH (session->processes, use)
		simhca_mm_gone(use->mm);
	process_release(&daemon->processes, &session->processes);
}

void session_close(struct session *session, bool final)
{
	struct daemon *daemon = session->device->daemon;
	ev_tstamp until = ev_time() + FINAL_SECONDS;
	bool gone;

	if (!session->closing)
		stop_serving(session);
	do
		gone = simhca_context_destroy(session->context);
	while (!gone && final && ev_time() < until);
	if (!gone && !final) {
		if (!ev_is_active(&session->retry)) {
			ev_timer_set(&session->retry, CLOSING_INTERVAL, CLOSING_INTERVAL);
			ev_timer_start(daemon->loop, &session->retry);
		}
		return;
	}
	ev_timer_stop(daemon->loop, &session->retry);
	DL_DELETE(session->device->sessions, session);
	if (!gone) { /* an engine still uses it: the end of the process will free it */
		daemon->engines.abandoned = true;
		return;
	}
	if (session->own_engine)
		engine_stop(session->own_engine);
	event_set_destroy(&session->events);
	free(session);
}
