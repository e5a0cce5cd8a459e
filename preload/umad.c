/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * MADs of programs: what they write and register goes to the daemon as requests, what they read lies
 * in the connection as they are to have it (simhca-abi-umad.h).
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "request.h"
#include "simhca-abi.h"
#include "simhca-abi-umad.h"
#include "umad.h"

#define MAD_BYTES 256u /* of the first of several, too */

/* -1 and errno, or 0. *id: what an answer brings. */
static int ask(int fd, int command, const void *bytes, size_t size, uint32_t *id)
{
	const struct iovec part = { (void *)(uintptr_t)bytes, size };
	const struct simhca_request request = {
		.device_fd = fd,
		.command = command,
		.parts = &part,
		.num_parts = 1,
		.body = id,
		.size = sizeof(*id),
		.keep = true,
	};
	struct simhca_answer answer;
	int saved = errno;
	int ret = request_result(simhca_request(&request, &answer), &answer);

	errno = ret < 0 ? -ret : saved;
	return ret < 0 ? -1 : 0;
}

bool umad_is_ioctl(unsigned long request)
{
	switch ((uint32_t)request) {
	case IB_USER_MAD_REGISTER_AGENT:
	case IB_USER_MAD_UNREGISTER_AGENT:
	case IB_USER_MAD_ENABLE_PKEY:
	case IB_USER_MAD_REGISTER_AGENT2:
		return true;
	default:
		return false;
	}
}

static int register2(int fd, struct ib_user_mad_reg_req2 *req, uint32_t *id)
{
	/* Whoever asks for what there is not learns what there is. */
	if (req->flags & ~(uint32_t)IB_USER_MAD_REG_FLAGS_CAP) {
		req->flags = IB_USER_MAD_REG_FLAGS_CAP;
		errno = EINVAL;
		return -1;
	}
	return ask(fd, SIMHCA_UMAD_REGISTER2, req, sizeof(*req), id);
}

int umad_ioctl(int fd, unsigned long request, void *arg)
{
	uint32_t id;
	int ret;

	if ((uint32_t)request == IB_USER_MAD_ENABLE_PKEY)
		return ask(fd, SIMHCA_UMAD_ENABLE_PKEY, NULL, 0, &id);
	if (!arg) {
		errno = EFAULT;
		return -1;
	}
	if ((uint32_t)request == IB_USER_MAD_UNREGISTER_AGENT)
		return ask(fd, SIMHCA_UMAD_UNREGISTER, arg, sizeof(id), &id);
	ret = (uint32_t)request == IB_USER_MAD_REGISTER_AGENT
		      ? ask(fd, SIMHCA_UMAD_REGISTER, arg, sizeof(struct ib_user_mad_reg_req), &id)
		      : register2(fd, arg, &id);
	/* Either begins with it. */
	if (!ret)
		memcpy(arg, &id, sizeof(id));
	return ret;
}

ssize_t umad_write(int fd, const void *buf, size_t size)
{
	uint32_t id;

	if (size > SIMHCA_UMAD_MAX_WRITE) {
		errno = EMSGSIZE;
		return -1;
	}
	return ask(fd, SIMHCA_UMAD_WRITE, buf, size, &id) ? -1 : (ssize_t)size;
}

/*
 * A buffer that is too small takes nothing away. Of a message of several MADs that does not fit the
 * first is shown, whose RMPP header says how long it is.
 */
static int check_room(int fd, void *buf, size_t size, size_t length)
{
	size_t first = sizeof(struct ib_user_mad_hdr) + MAD_BYTES;

	if (size >= length)
		return 0;
	if (length <= first || size < first)
		return EINVAL;
	return recv(fd, buf, size, MSG_PEEK | MSG_DONTWAIT) < 0 ? errno : ENOSPC;
}

ssize_t umad_read(int fd, void *buf, size_t size)
{
	char byte;
	ssize_t length = recv(fd, &byte, sizeof(byte), MSG_PEEK | MSG_TRUNC);
	int err = 0;

	if (!length || (length < 0 && errno == ECONNRESET))
		err = EIO; /* the daemon has gone */
	else if (length > 0)
		err = check_room(fd, buf, size, (size_t)length);
	if (err)
		errno = err;
	return err || length < 0 ? -1 : recv(fd, buf, size, 0);
}
