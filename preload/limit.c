/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon.h"
#include "device.h"
#include "limit.h"
#include "simhca-calls.h"
#include "simhca-request.h"

#define MOST 8	       /* of a process, which may try again and again */
#define LOOKED_AT 1024 /* descriptors, a third of a microsecond each */
#define CLOSED 4       /* descriptors of the other table */
#define STACK 65536    /* bytes */

static atomic_uint said;

static bool may_say(void)
{
	return atomic_load_explicit(&said, memory_order_relaxed) < MOST &&
	       atomic_fetch_add_explicit(&said, 1, memory_order_relaxed) < MOST;
}

static void send_off(int device_fd, struct simhca_say_req *req)
{
	const struct iovec part = { .iov_base = req, .iov_len = sizeof(*req) };

	simhca_tell(&(struct simhca_request){ .device_fd = device_fd,
					      .command = SIMHCA_CMD_SAY,
					      .parts = &part,
					      .num_parts = 1 });
}

static void tell(int device_fd, enum simhca_say what, const char *text)
{
	struct simhca_say_req req = { .what = what, .error = EMFILE };

	simhca_say_limit(req.text, sizeof(req.text), text);
	send_off(device_fd, &req);
}

void limit_say_refused(int device_fd, enum simhca_say what, int error, const char *text)
{
	struct simhca_say_req req = { .what = what, .error = (uint32_t)error };
	const int saved = errno;

	if (!may_say())
		return;
	snprintf(req.text, sizeof(req.text), "%s", text);
	send_off(device_fd, &req);
	errno = saved;
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

static int tell_with_other_table(void *arg)
{
	int fd;

	for (fd = 0; fd < CLOSED; fd++)
		simhca_call_close(fd);
	fd = daemon_connect("dev/infiniband/uverbs0", SOCK_CLOEXEC);
	if (fd >= 0)
		tell(fd, SIMHCA_SAY_OPEN, arg);
	return 0;
}

/* Which ends a program that clones in a way that it does not know. */
static bool is_under_valgrind(void)
{
	const char *preloaded = getenv("LD_PRELOAD");

	return preloaded && strstr(preloaded, "vgpreload");
}

/*
 * Who has no device open has no descriptor for it either. Descriptors are a thread's, if it was made so:
 * one with a copy of the table closes some there, which stay open here. Until it has ended its maker
 * does not go on, and no signal comes to it, so it can use the maker's errno.
 */
static void tell_without_device(char *text)
{
	static _Alignas(16) char stack[STACK];
	static atomic_flag busy = ATOMIC_FLAG_INIT;
	const int flags =
		CLONE_VM | CLONE_FS | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_VFORK;
	sigset_t all, before;

	if (is_under_valgrind() || atomic_flag_test_and_set(&busy))
		return;
	sigfillset(&all);
	if (!sigprocmask(SIG_BLOCK, &all, &before)) {
		clone(tell_with_other_table, stack + sizeof(stack), flags, text);
		sigprocmask(SIG_SETMASK, &before, NULL);
	}
	atomic_flag_clear(&busy);
}

void limit_say_file(const char *path)
{
	const char *in_tree = strstr(path, "/tree/");
	const int saved = errno;
	char text[160];
	int fd;

	if (!may_say())
		return;
	snprintf(text, sizeof(text), "%s cannot be opened", in_tree ? in_tree + 5 : path);
	fd = find_device();
	if (fd >= 0)
		tell(fd, SIMHCA_SAY_OPEN, text);
	else
		tell_without_device(text);
	errno = saved;
}
