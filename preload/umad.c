/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * MADs of programs: what they write and register goes to the daemon as requests, what they read lies
 * in the connection as they are to have it (simhca-abi-umad.h).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "request.h"
#include "simhca-abi.h"
#include "simhca-abi-umad.h"
#include "umad.h"

#define MAD_BYTES 256u /* of the first of several, too */

/* 0 or -errno. *id: what an answer brings. */
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
	int ret = request_result(simhca_request(&request, &answer), &answer);

	return ret < 0 ? ret : 0;
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

union registration {
	struct ib_user_mad_reg_req first;
	struct ib_user_mad_reg_req2 second;
	uint32_t id; /* either begins with it */
};

static int register_agent(struct caller *caller, int fd, unsigned long request, void *arg)
{
	bool is_second = (uint32_t)request == IB_USER_MAD_REGISTER_AGENT2;
	size_t size = is_second ? sizeof(struct ib_user_mad_reg_req2)
				: sizeof(struct ib_user_mad_reg_req);
	union registration req;
	int ret = caller_read(caller, &req, arg, size);

	if (ret)
		return ret;
	/* Whoever asks for what there is not learns what there is. */
	if (is_second && (req.second.flags & ~(uint32_t)IB_USER_MAD_REG_FLAGS_CAP)) {
		req.second.flags = IB_USER_MAD_REG_FLAGS_CAP;
		ret = caller_write(caller, arg, &req, size);
		return ret ? ret : -EINVAL;
	}
	ret = ask(fd, is_second ? SIMHCA_UMAD_REGISTER2 : SIMHCA_UMAD_REGISTER, &req, size,
		  &req.id);
	return ret ? ret : caller_write(caller, arg, &req, sizeof(req.id));
}

int umad_ioctl(struct caller *caller, int fd, unsigned long request, void *arg)
{
	uint32_t id;
	int ret;

	if ((uint32_t)request == IB_USER_MAD_ENABLE_PKEY)
		return ask(fd, SIMHCA_UMAD_ENABLE_PKEY, NULL, 0, &id);
	if (!arg)
		return -EFAULT;
	if ((uint32_t)request != IB_USER_MAD_UNREGISTER_AGENT)
		return register_agent(caller, fd, request, arg);
	ret = caller_read(caller, &id, arg, sizeof(id));
	return ret ? ret : ask(fd, SIMHCA_UMAD_UNREGISTER, &id, sizeof(id), &id);
}

ssize_t umad_write(struct caller *caller, int fd, const void *buf, size_t size)
{
	void *copy = NULL;
	uint32_t id;
	int ret = 0;

	if (size > SIMHCA_UMAD_MAX_WRITE)
		return -EMSGSIZE;
	if (caller_is_other(caller)) {
		copy = malloc(size ? size : 1);
		ret = copy ? caller_read(caller, copy, buf, size) : -ENOMEM;
	}
	if (!ret)
		ret = ask(fd, SIMHCA_UMAD_WRITE, copy ? copy : buf, size, &id);
	free(copy);
	return ret ? ret : (ssize_t)size;
}

/* In this process the kernel writes it, and waits for it where the descriptor says so. */
static ssize_t take(int fd, void *buf, size_t size, int flags)
{
	ssize_t length = recv(fd, buf, size, flags);

	return length < 0 ? -errno : length;
}

/* It stays there for the next one to read if it can not be written. */
static ssize_t take_for(struct caller *caller, int fd, void *buf, size_t size)
{
	void *copy = malloc(size);
	ssize_t length = copy ? take(fd, copy, size, MSG_PEEK | MSG_DONTWAIT) : -ENOMEM;
	int ret = length > 0 ? caller_write(caller, buf, copy, (size_t)length) : 0;

	if (length >= 0 && !ret)
		recv(fd, copy, size, MSG_DONTWAIT);
	free(copy);
	return ret ? ret : length;
}

/*
 * A buffer that is too small takes nothing away. Of a message of several MADs that does not fit the
 * first is shown, whose RMPP header says how long it is.
 */
static ssize_t show_first(struct caller *caller, int fd, void *buf, size_t size, size_t length)
{
	size_t first = sizeof(struct ib_user_mad_hdr) + MAD_BYTES;
	char bytes[sizeof(struct ib_user_mad_hdr) + MAD_BYTES];
	ssize_t ret;

	if (length <= first || size < first)
		return -EINVAL;
	ret = take(fd, bytes, sizeof(bytes), MSG_PEEK | MSG_DONTWAIT);
	if (ret > 0)
		ret = caller_write(caller, buf, bytes, (size_t)ret);
	return ret < 0 ? ret : -ENOSPC;
}

ssize_t umad_read(struct caller *caller, int fd, void *buf, size_t size)
{
	bool is_other = caller_is_other(caller);
	char byte;
	ssize_t length =
		take(fd, &byte, sizeof(byte), MSG_PEEK | MSG_TRUNC | (is_other ? MSG_DONTWAIT : 0));

	if (!length || length == -ECONNRESET)
		return -EIO; /* the daemon has gone */
	if (length < 0)
		return length;
	if (size < (size_t)length)
		return show_first(caller, fd, buf, size, (size_t)length);
	return is_other ? take_for(caller, fd, buf, (size_t)length) : take(fd, buf, size, 0);
}
