/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <unistd.h>

#include "simhca-request.h"
#include "request.h"

/* The length of the answer's body, or a negative errno; *fd: -1 if none came. */
static int command_to(int device_fd, int command, const struct iovec *parts, size_t num_parts,
		      void *body, size_t size, int *fd)
{
	const struct simhca_request request = {
		.device_fd = device_fd,
		.command = command,
		.parts = parts,
		.num_parts = num_parts,
		.body = body,
		.size = size,
		.reply_fds = fd,
		.max_reply_fds = 1,
	};
	struct simhca_answer answer;
	int err;

	*fd = -1;
	err = simhca_request(&request, &answer);
	/* A device whose driver has gone answers EIO, and so does one whose daemon has. */
	if (err)
		return err == ENOTCONN || err == EPROTO ? -EIO : -err;
	if (answer.hdr.status)
		return -(int)answer.hdr.status;
	/* The table of descriptors is full. */
	if (*fd < 0 && answer.fds_lost)
		return -EMFILE;
	return (int)answer.size;
}

int request_fd(int device_fd, int command)
{
	int fd, ret = command_to(device_fd, command, NULL, 0, NULL, 0, &fd);

	if (ret >= 0 && fd >= 0)
		return fd;
	if (fd >= 0)
		close(fd);
	return ret < 0 ? ret : -EIO;
}

int request_bytes(int device_fd, int command, const struct iovec *parts, size_t num_parts,
		  void *body, size_t size)
{
	int fd, ret = command_to(device_fd, command, parts, num_parts, body, size, &fd);

	if (fd >= 0)
		close(fd);
	return ret;
}
