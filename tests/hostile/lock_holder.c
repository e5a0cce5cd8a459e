/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Opens a context, or registers memory, while the lock of its own address space is held for
 * writing, for good.
 *
 *	lock_holder FILE DEVICE open|register
 *
 * FILE is of a file system that does not answer (slow_fs.c), DEVICE the device's socket. Prints
 *"done" before it asks for that; from then on only what needs no memory is called. Prints
 *"registered" when that has been answered.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "hold_lock.h"
#include "simhca-abi.h"

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: not true: %s (%s)\n", __FILE__, __LINE__,          \
				#condition, strerror(errno));                                      \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

static int device, answer;

static void ask(enum simhca_cmd command, const void *request, size_t size)
{
	struct simhca_cmd_hdr hdr = {
		.magic = SIMHCA_CMD_MAGIC,
		.version = SIMHCA_ABI_VERSION,
		.command = (uint16_t)command,
		.length = (uint32_t)(sizeof(hdr) + size),
	};
	struct iovec iov[2] = {
		{ .iov_base = &hdr, .iov_len = sizeof(hdr) },
		{ .iov_base = (void *)(uintptr_t)request, .iov_len = size },
	};
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	struct msghdr msg = {
		.msg_iov = iov,
		.msg_iovlen = 2,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);
	int ends[2];

	CHECK(!socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends));
	cmsg->cmsg_level = SOL_SOCKET;
	cmsg->cmsg_type = SCM_RIGHTS;
	cmsg->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(cmsg), &ends[1], sizeof(int));
	CHECK(sendmsg(device, &msg, 0) > 0);
	close(ends[1]);
	answer = ends[0];
}

/* What was asked for, size bytes of it. */
static void get(void *reply, size_t size)
{
	struct simhca_reply_hdr hdr;
	struct iovec iov[2] = {
		{ .iov_base = &hdr, .iov_len = sizeof(hdr) },
		{ .iov_base = reply, .iov_len = size },
	};
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 2 };

	CHECK(recvmsg(answer, &msg, 0) >= (ssize_t)sizeof(hdr));
	CHECK(!hdr.status);
	close(answer);
}

int main(int argc, char **argv)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct simhca_reg_mr_req reg = { .length = 4096, .iova = 4096 };
	struct simhca_reg_mr_reply region;
	struct simhca_handle pd;
	struct slow_file slow;
	char done[] = "done\n", registered[] = "registered\n";
	bool registers;
	void *target;

	CHECK(argc == 4);
	/* What the kernel takes back comes again under the lock only. Where we may not, we hope. */
	(void)!mlockall(MCL_CURRENT);
	registers = !strcmp(argv[3], "register");
	target = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(target != MAP_FAILED && slow_file_open(&slow, argv[1], target));
	device = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	strncpy(address.sun_path, argv[2], sizeof(address.sun_path) - 1);
	CHECK(!connect(device, (struct sockaddr *)&address, sizeof(address)));
	if (registers) {
		ask(SIMHCA_CMD_OPEN_CONTEXT, NULL, 0);
		get(NULL, 0);
		ask(SIMHCA_CMD_ALLOC_PD, NULL, 0);
		get(&pd, sizeof(pd));
		reg.pd = pd.handle;
		reg.addr = (uintptr_t)target;
		/* Once before: a page that is not there when the lock is held may never come. */
		ask(SIMHCA_CMD_REG_MR, &reg, sizeof(reg));
		get(&region, sizeof(region));
	}

	CHECK(write(STDOUT_FILENO, done, 0) == 0);
	CHECK(hold_lock(&slow));
	/* Not by stdio, which may want memory: there is none any more. */
	CHECK(write(STDOUT_FILENO, done, 5) == 5);
	if (registers) {
		ask(SIMHCA_CMD_REG_MR, &reg, sizeof(reg));
		get(&region, sizeof(region));
		CHECK(write(STDOUT_FILENO, registered, 11) == 11);
	} else {
		ask(SIMHCA_CMD_OPEN_CONTEXT, NULL, 0);
	}
	pause();
	return 0;
}
