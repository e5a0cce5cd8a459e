/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>

#include "simhca-calls.h"
#include "simhca-request.h"
#include "limit.h"
#include "request.h"

int request_result(int err, const struct simhca_answer *answer)
{
	/* A device whose driver has gone answers EIO, and so does one whose daemon has. */
	if (err)
		return err == ENOTCONN || err == EPROTO ? -EIO : -err;
	return answer->hdr.status ? -(int)answer->hdr.status : (int)answer->size;
}

int request_fd(int device_fd, int command, enum simhca_say what)
{
	int fd = -1;
	const struct simhca_request request = {
		.device_fd = device_fd,
		.command = command,
		.reply_fds = &fd,
		.max_reply_fds = 1,
	};
	struct simhca_answer answer;
	int err = simhca_request(&request, &answer);
	int ret = request_result(err, &answer);

	if (ret >= 0 && fd >= 0)
		return fd;
	if (fd >= 0)
		simhca_call_close(fd);
	/* Lost: the table of descriptors is full. */
	if (!err && ret >= 0)
		err = answer.fds_lost ? EMFILE : EIO;
	if (err == EMFILE)
		limit_say(device_fd, what);
	return ret < 0 ? ret : -err;
}
