/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "daemon.h"
#include "device.h"
#include "limit.h"
#include "simhca-request.h"

#define MOST 8	       /* of a process, which may try again and again */
#define LOOKED_AT 1024 /* descriptors, a third of a microsecond each */

static atomic_uint said;

static bool may_say(void)
{
	return atomic_load_explicit(&said, memory_order_relaxed) < MOST &&
	       atomic_fetch_add_explicit(&said, 1, memory_order_relaxed) < MOST;
}

static void tell(int device_fd, enum simhca_say what, const char *text)
{
	struct simhca_say_req req = { .what = what, .error = EMFILE };
	const struct iovec part = { .iov_base = &req, .iov_len = sizeof(req) };

	simhca_say_limit(req.text, sizeof(req.text), text);
	simhca_tell(&(struct simhca_request){ .device_fd = device_fd,
					      .command = SIMHCA_CMD_SAY,
					      .parts = &part,
					      .num_parts = 1 });
}

void limit_say(int device_fd, enum simhca_say what)
{
	if (may_say())
		tell(device_fd, what, "it takes a descriptor");
}

static int find_device(void)
{
	struct device_name name;

	for (int fd = 0; fd < LOOKED_AT; fd++)
		if (device_of_fd(fd, &name) && !device_is_rdma_cm(&name) && !device_is_umad(&name))
			return fd;
	return -1;
}

void limit_say_file(const char *path)
{
	const char *in_tree = strstr(path, "/tree/");
	char text[160];
	int fd = may_say() ? find_device() : -1;

	if (fd < 0)
		return;
	snprintf(text, sizeof(text), "%s cannot be opened", in_tree ? in_tree + 5 : path);
	tell(fd, SIMHCA_SAY_OPEN, text);
}
