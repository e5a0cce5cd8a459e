/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "request.h"
#include "simhca-abi.h"

/* A device whose driver has gone answers EIO, and so does one whose daemon has. */
static int gone_or(int error)
{
	return error == EPIPE || error == ECONNRESET || error == ENOTCONN ? -EIO : -error;
}

static int send_command(int device_fd, int command, int reply_socket)
{
	struct simhca_cmd_hdr hdr = {
		.magic = SIMHCA_CMD_MAGIC,
		.version = SIMHCA_ABI_VERSION,
		.command = (uint16_t)command,
		.length = sizeof(hdr),
	};
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	struct iovec iov = { .iov_base = &hdr, .iov_len = sizeof(hdr) };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);

	cmsg->cmsg_level = SOL_SOCKET;
	cmsg->cmsg_type = SCM_RIGHTS;
	cmsg->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(cmsg), &reply_socket, sizeof(int));

	while (sendmsg(device_fd, &msg, MSG_NOSIGNAL) < 0) {
		struct pollfd room = { .fd = device_fd, .events = POLLOUT };

		/* The program may have made the device non-blocking; commands are not. */
		if (errno == EAGAIN)
			poll(&room, 1, -1);
		else if (errno != EINTR)
			return gone_or(errno);
	}
	return 0;
}

/*
 * Take the first descriptor of the answer and close what else came with it. -1: there was none.
 */
static int take_fd(struct msghdr *msg)
{
	int taken = -1;

	for (struct cmsghdr *cmsg = CMSG_FIRSTHDR(msg); cmsg; cmsg = CMSG_NXTHDR(msg, cmsg)) {
		size_t count = (cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (cmsg->cmsg_level != SOL_SOCKET || cmsg->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < count; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(cmsg) + i * sizeof(int), sizeof(int));
			if (taken < 0)
				taken = fd;
			else
				close(fd);
		}
	}
	return taken;
}

static int receive_reply(int reply_socket)
{
	struct simhca_reply_hdr hdr;
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(SIMHCA_CMD_MAX_FDS * sizeof(int))];
	} control;
	struct iovec iov = { .iov_base = &hdr, .iov_len = sizeof(hdr) };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	ssize_t len;
	int fd;

	/* Ends with the answer, or with end of file when nobody holds the other end any more. */
	do
		len = recvmsg(reply_socket, &msg, MSG_CMSG_CLOEXEC);
	while (len < 0 && errno == EINTR);
	if (len < 0)
		return gone_or(errno);

	fd = take_fd(&msg);
	if (len == sizeof(hdr) && hdr.magic == SIMHCA_CMD_MAGIC && !hdr.status && fd >= 0)
		return fd;
	if (fd >= 0)
		close(fd);
	/* A descriptor that did not arrive although the command succeeded: the table is full. */
	if (len == sizeof(hdr) && hdr.magic == SIMHCA_CMD_MAGIC && !hdr.status)
		return msg.msg_flags & MSG_CTRUNC ? -EMFILE : -EIO;
	if (len == sizeof(hdr) && hdr.magic == SIMHCA_CMD_MAGIC && hdr.status <= INT16_MAX)
		return -(int)hdr.status;
	return -EIO;
}

int request_fd(int device_fd, int command)
{
	int ends[2];
	int ret;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		return -errno;
	ret = send_command(device_fd, command, ends[1]);
	close(ends[1]);
	if (!ret)
		ret = receive_reply(ends[0]);
	close(ends[0]);
	return ret;
}
