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

static int send_command(int device_fd, int command, const struct iovec *parts, size_t num_parts,
			int reply_socket)
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
	struct iovec iov[1 + REQUEST_PARTS] = { { .iov_base = &hdr, .iov_len = sizeof(hdr) } };
	struct msghdr msg = {
		.msg_iov = iov,
		.msg_iovlen = 1 + num_parts,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);

	for (size_t i = 0; i < num_parts; i++) {
		iov[1 + i] = parts[i];
		hdr.length += (uint32_t)parts[i].iov_len;
	}

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

/* The answer's body and its first descriptor, if there is one: the length of the body. */
static int receive_reply(int reply_socket, void *body, size_t size, int *fd)
{
	struct simhca_reply_hdr hdr;
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(SIMHCA_CMD_MAX_FDS * sizeof(int))];
	} control;
	struct iovec iov[2] = {
		{ .iov_base = &hdr, .iov_len = sizeof(hdr) },
		{ .iov_base = body, .iov_len = size },
	};
	struct msghdr msg = {
		.msg_iov = iov,
		.msg_iovlen = 2,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	ssize_t len;

	*fd = -1;
	/* Ends with the answer, or with end of file when nobody holds the other end any more. */
	do
		len = recvmsg(reply_socket, &msg, MSG_CMSG_CLOEXEC);
	while (len < 0 && errno == EINTR);
	if (len < 0)
		return gone_or(errno);

	*fd = take_fd(&msg);
	if (len < (ssize_t)sizeof(hdr) || hdr.magic != SIMHCA_CMD_MAGIC || hdr.status > INT16_MAX)
		return -EIO;
	if (hdr.status)
		return -(int)hdr.status;
	/* A descriptor that did not arrive although the command succeeded: the table is full. */
	if (*fd < 0 && (msg.msg_flags & MSG_CTRUNC))
		return -EMFILE;
	return (int)(len - (ssize_t)sizeof(hdr));
}

static int request(int device_fd, int command, const struct iovec *parts, size_t num_parts,
		   void *body, size_t size, int *fd)
{
	int ends[2];
	int ret;

	*fd = -1;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		return -errno;
	ret = send_command(device_fd, command, parts, num_parts, ends[1]);
	close(ends[1]);
	if (!ret)
		ret = receive_reply(ends[0], body, size, fd);
	close(ends[0]);
	return ret;
}

int request_fd(int device_fd, int command)
{
	int fd, ret = request(device_fd, command, NULL, 0, NULL, 0, &fd);

	if (ret >= 0 && fd >= 0)
		return fd;
	if (fd >= 0)
		close(fd);
	return ret < 0 ? ret : -EIO;
}

int request_bytes(int device_fd, int command, const struct iovec *parts, size_t num_parts,
		  void *body, size_t size)
{
	int fd, ret = request(device_fd, command, parts, num_parts, body, size, &fd);

	if (fd >= 0)
		close(fd);
	return ret;
}
