/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Opens a context while the lock of its own address space is held for writing, for good.
 *
 *	lock_holder FILE DEVICE
 *
 * FILE is of a file system that does not answer (slow_fs.c): a page of it that is being read stays
 * locked, and mapping the file anew, opened with O_SYNC, waits for that page with the lock held.
 * DEVICE is the device's socket. Prints "done" before it asks for the context; from then on only
 * what needs no memory is called.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "simhca-abi.h"

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: not true: %s (%s)\n", __FILE__, __LINE__,          \
				#condition, strerror(errno));                                      \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

static int slow, slow_direct;
static volatile char *page;

static void *read_page(void *arg)
{
	(void)*page;
	return NULL;
}

static void *map_again(void *arg)
{
	return mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, slow_direct, 0);
}

int main(int argc, char **argv)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct simhca_cmd_hdr hdr = {
		.magic = SIMHCA_CMD_MAGIC,
		.version = SIMHCA_ABI_VERSION,
		.command = SIMHCA_CMD_OPEN_CONTEXT,
		.length = sizeof(hdr),
	};
	struct iovec iov = { .iov_base = &hdr, .iov_len = sizeof(hdr) };
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);
	pthread_t threads[2];
	int device, answer[2];

	CHECK(argc == 3);
	slow = open(argv[1], O_RDONLY);
	slow_direct = open(argv[1], O_RDONLY | O_SYNC);
	CHECK(slow >= 0 && slow_direct >= 0);
	page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, slow, 0);
	CHECK(page != MAP_FAILED);
	device = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	strncpy(address.sun_path, argv[2], sizeof(address.sun_path) - 1);
	CHECK(!connect(device, (struct sockaddr *)&address, sizeof(address)));
	CHECK(!socketpair(AF_UNIX, SOCK_SEQPACKET, 0, answer));
	cmsg->cmsg_level = SOL_SOCKET;
	cmsg->cmsg_type = SCM_RIGHTS;
	cmsg->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(cmsg), &answer[1], sizeof(int));

	CHECK(!pthread_create(&threads[0], NULL, read_page, NULL));
	usleep(200000);
	CHECK(!pthread_create(&threads[1], NULL, map_again, NULL));
	usleep(200000);
	/* Not by stdio, which may want memory: there is none any more. */
	CHECK(write(STDOUT_FILENO, "done\n", 5) == 5);
	CHECK(sendmsg(device, &msg, 0) > 0);
	pause();
	return 0;
}
