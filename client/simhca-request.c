/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <linux/sockios.h>

#include "simhca-calls.h"
#include "simhca-clock.h"
#include "simhca-request.h"
#include "simhca-slot.h"
#include "simhca-sockets.h"
#include "simhca-spin.h"

#define LOOKS 100   /* for an answer, half a microsecond each */
#define LIMIT_S 20  /* seconds, for a socket that other threads use */
#define TOLD_MS 100 /* until what is told has been read */
#define LOOK_MS 100 /* until it is seen whether device_fd is still the connection */
#define AGAIN 4	    /* how often a command is sent again at most */

static struct simhca_spin spin;

/* Room for the descriptors of one datagram, aligned for struct cmsghdr. */
union fd_buffer {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(SIMHCA_CMD_MAX_FDS * sizeof(int))];
};

/* The program may have closed it, and have something else by its number. */
static bool is_connection(const struct simhca_request *request)
{
	return !request->connection || simhca_connection(request->device_fd) == request->connection;
}

/* 0, or errno: EBADF, if device_fd is no longer the connection. */
static int wait_for(const struct simhca_request *request, struct pollfd *pfd, nfds_t count)
{
	int ready;

	for (;;) {
		ready = simhca_call_poll(pfd, count, request->connection ? LOOK_MS : -1);
		if (ready > 0)
			return 0;
		if (ready < 0 && errno != EINTR)
			return errno;
		if (!ready && !is_connection(request))
			return EBADF;
	}
}

static int gone_or(int error)
{
	return error == EPIPE || error == ECONNRESET || error == ECONNREFUSED ? ENOTCONN : error;
}

static void put_fds(const struct simhca_request *request, int answer_fd, struct msghdr *msg,
		    union fd_buffer *control)
{
	unsigned int answers = answer_fd >= 0 ? 1 : 0;
	size_t fd_bytes = (answers + request->num_fds) * sizeof(int);
	struct cmsghdr *cmsg;

	if (!fd_bytes)
		return;
	memset(control, 0, sizeof(*control));
	msg->msg_control = control->bytes;
	msg->msg_controllen = CMSG_SPACE(fd_bytes);
	cmsg = CMSG_FIRSTHDR(msg);
	cmsg->cmsg_level = SOL_SOCKET;
	cmsg->cmsg_type = SCM_RIGHTS;
	cmsg->cmsg_len = CMSG_LEN(fd_bytes);
	if (answers)
		memcpy(CMSG_DATA(cmsg), &answer_fd, sizeof(int));
	if (request->num_fds)
		memcpy(CMSG_DATA(cmsg) + answers * sizeof(int), request->fds,
		       request->num_fds * sizeof(int));
}

/* The socket for the answer goes in front of the descriptors; -1: the daemon has it. */
static int send_request(const struct simhca_request *request, int answer_fd, uint32_t number)
{
	const bool may_wait = number != SIMHCA_CMD_ANSWER_NOWHERE;
	struct simhca_cmd_hdr hdr = {
		.magic = SIMHCA_CMD_MAGIC,
		.version = SIMHCA_ABI_VERSION,
		.command = (uint16_t)request->command,
		.length = sizeof(hdr),
		.answer = number,
	};
	struct iovec iov[1 + SIMHCA_REQUEST_PARTS] = { { .iov_base = &hdr,
							 .iov_len = sizeof(hdr) } };
	union fd_buffer control;
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 1 + request->num_parts };
	struct pollfd room = { .fd = request->device_fd, .events = POLLOUT };
	int err;

	for (size_t i = 0; i < request->num_parts; i++) {
		iov[1 + i] = request->parts[i];
		hdr.length += (uint32_t)request->parts[i].iov_len;
	}
	put_fds(request, answer_fd, &msg, &control);
	while (simhca_call_sendmsg(request->device_fd, &msg,
				   MSG_NOSIGNAL | (may_wait ? 0 : MSG_DONTWAIT)) < 0) {
		/* The program may have made the device non-blocking; commands are not. */
		if (errno == EINTR)
			continue;
		err = gone_or(errno);
		if (errno != EAGAIN || !may_wait)
			return is_connection(request) ? err : EBADF;
		err = wait_for(request, &room, 1);
		if (err)
			return err;
	}
	return 0;
}

/*
 * Wait for the answer or for the end of the connection. The end of fd alone would not do: a child
 * forked in this very moment by another thread holds a copy of the socket's other end.
 */
static int wait_for_answer(const struct simhca_request *request, int fd)
{
	struct pollfd pfd[2] = {
		{ .fd = fd, .events = POLLIN },
		{ .fd = request->device_fd, .events = 0 },
	};

	return wait_for(request, pfd, 2);
}

static void take_fds(const struct simhca_request *request, struct msghdr *msg,
		     struct simhca_answer *answer)
{
	for (struct cmsghdr *cmsg = CMSG_FIRSTHDR(msg); cmsg; cmsg = CMSG_NXTHDR(msg, cmsg)) {
		size_t count = (cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (cmsg->cmsg_level != SOL_SOCKET || cmsg->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < count; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(cmsg) + i * sizeof(int), sizeof(int));
			if (answer->num_fds < request->max_reply_fds)
				request->reply_fds[answer->num_fds++] = fd;
			else
				simhca_call_close(fd);
		}
	}
}

/* What simhca_call_recvmsg() says; -1 and EAGAIN: not yet. */
static ssize_t look_for_answer(int fd, struct msghdr *msg, unsigned int times)
{
	ssize_t bytes;

	do
		bytes = simhca_call_recvmsg(fd, msg, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	while (bytes < 0 && (errno == EINTR || (errno == EAGAIN && --times)));
	return bytes;
}

static int receive_answer(const struct simhca_request *request, int fd,
			  struct simhca_answer *answer)
{
	struct iovec iov[2] = {
		{ .iov_base = &answer->hdr, .iov_len = sizeof(answer->hdr) },
		{ .iov_base = request->body, .iov_len = request->size },
	};
	union fd_buffer control;
	struct msghdr msg = {
		.msg_iov = iov,
		.msg_iovlen = 2,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	ssize_t bytes = -1;
	int err;

	memset(&control, 0, sizeof(control));
	memset(answer, 0, sizeof(*answer));
	if (simhca_spin_wanted(&spin)) {
		bytes = look_for_answer(fd, &msg, LOOKS);
		simhca_spin_done(&spin, bytes > 0);
	}
	if (bytes < 0) {
		err = wait_for_answer(request, fd);
		if (err)
			return err;
		bytes = look_for_answer(fd, &msg, 1);
	}
	if (bytes <= 0)
		return ENOTCONN; /* the connection has ended, and with it the hope for an answer */
	take_fds(request, &msg, answer);
	if ((size_t)bytes >= sizeof(answer->hdr) && answer->hdr.magic == SIMHCA_CMD_MAGIC &&
	    answer->hdr.status <= INT16_MAX) {
		answer->hdr.message[sizeof(answer->hdr.message) - 1] = '\0';
		answer->size = (size_t)bytes - sizeof(answer->hdr);
		answer->fds_lost = msg.msg_flags & MSG_CTRUNC;
		return 0;
	}
	while (answer->num_fds)
		simhca_call_close(request->reply_fds[--answer->num_fds]);
	return EPROTO;
}

/*
 * Sends the request by a socket whose other end the daemon keeps, and gives the socket back for the
 * next one.
 */
static int request_on(struct simhca_socket *socket, const struct simhca_request *request,
		      struct simhca_answer *answer)
{
	int err = send_request(request, -1, socket->number);

	if (!err)
		err = receive_answer(request, socket->fd, answer);
	/* An answer might still come, which would be taken for another's. */
	if (err)
		simhca_socket_drop(socket);
	else
		simhca_socket_put(socket);
	return err;
}

/* With a socket of its own, which is kept if there is a connection to keep it for, and a place. */
static int request_anew(const struct simhca_request *request, struct simhca_answer *answer,
			uint64_t connection, const int *ends)
{
	struct simhca_socket *place = connection ? simhca_socket_place() : NULL;
	int err;

	err = send_request(request, ends[1],
			   place ? SIMHCA_CMD_ANSWER_KEEP : SIMHCA_CMD_ANSWER_COMES);
	/* From here on only the daemon holds the other end: when it closes it, we see the end. */
	simhca_call_close(ends[1]);
	if (!err)
		err = receive_answer(request, ends[0], answer);
	if (place && !err && answer->hdr.kept)
		simhca_socket_keep(place, connection, ends[0], answer->hdr.kept);
	else
		simhca_call_close(ends[0]);
	if (place && (err || !answer->hdr.kept))
		simhca_socket_drop(place);
	return err;
}

/* In a slot of memory that the daemon shares. */
static int request_in_slot(const struct simhca_request *request, struct simhca_answer *answer)
{
	int err;

	answer->num_fds = 0;
	answer->fds_lost = false;
	simhca_slot_begin(request->slot);
	err = send_request(request, -1, SIMHCA_CMD_ANSWER_SLOT | request->slot_number);
	if (err)
		simhca_slot_end(request->slot);
	else
		err = simhca_slot_wait(request->slot, request->device_fd, request->connection);
	return err ? err
		   : simhca_slot_read(request->slot, &answer->hdr, request->body, request->size,
				      &answer->size);
}

static time_t seconds(void)
{
	return (time_t)(simhca_now_ns() / 1000000000u);
}

static int request_within_limits(const struct simhca_request *request, struct simhca_answer *answer)
{
	uint64_t connection = request->keep ? simhca_connection(request->device_fd) : 0;
	struct simhca_socket *socket;
	int ends[2], error;
	uint32_t seen;
	time_t end = 0;

	if (connection && request->connection && connection != request->connection)
		return EBADF;
	for (;;) {
		seen = simhca_sockets_put_back();
		socket = connection ? simhca_socket_find(connection) : NULL;
		if (socket)
			return request_on(socket, request, answer);
		if (!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
			return request_anew(request, answer, connection, ends);
		error = errno;
		if (!end)
			end = seconds() + LIMIT_S;
		if ((error != EMFILE && error != ENFILE) || !connection || seconds() > end ||
		    !simhca_sockets_wait(connection, seen))
			return error;
	}
}

static int ask(const struct simhca_request *request, struct simhca_answer *answer)
{
	return request->slot ? request_in_slot(request, answer)
			     : request_within_limits(request, answer);
}

/* Leaves errno as it is: a program finds there what the call before has left, also librdmacm. */
int simhca_request(const struct simhca_request *request, struct simhca_answer *answer)
{
	int saved = errno;
	int err = ask(request, answer);

	for (int i = 0; i < AGAIN && !err && answer->hdr.status == SIMHCA_CMD_SAY_AGAIN; i++) {
		while (answer->num_fds)
			simhca_call_close(request->reply_fds[--answer->num_fds]);
		err = ask(request, answer);
	}

	errno = saved;
	return err;
}

void simhca_tell(const struct simhca_request *request)
{
	int saved = errno;
	bool sent = !send_request(request, -1, SIMHCA_CMD_ANSWER_NOWHERE);
	int unread;

	for (int ms = 0; sent && ms < TOLD_MS; ms++) {
		if (ioctl(request->device_fd, SIOCOUTQ, &unread) || !unread)
			break;
		simhca_call_poll(NULL, 0, 1);
	}
	errno = saved;
}

void simhca_say_limit(char *text, size_t size, const char *what)
{
	struct rlimit limit = { 0 };
	int saved = errno;

	getrlimit(RLIMIT_NOFILE, &limit);
	snprintf(text, size,
		 "%s: the program has as many descriptors open as it may, %llu (ulimit -n)", what,
		 (unsigned long long)limit.rlim_cur);
	errno = saved;
}

void simhca_request_forget(int device_fd)
{
	uint64_t connection = simhca_connection(device_fd);

	if (connection)
		simhca_sockets_forget(connection);
}
