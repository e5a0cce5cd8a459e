/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A process with an on-demand region and a QP. odp_owner MODE: tells QPN, rkey and address as
 * binary, reads those of its peer, says "r" when it is connected, and then
 *
 *   passive   does nothing
 *   sends     writes from pages that it drops each time to the peer's memory, a number that grows
 *   drops     drops, replaces and forks its pages without end, also while the kernel reads from
 *             them and writes to them
 *   unserved  has memory under a userfaultfd that nobody serves: until it reads "a"
 *   waits     the same, and a thread of its own is in read(), into the first page
 *
 * It ends with its standard input.
 */
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "helper.h"

#define PAGE 4096u
#define PAGES 64u
#define LENGTH (PAGES * PAGE)
#define NO_USERFAULTFD 77 /* the exit status by which the test skips */

struct place {
	uint32_t qpn;
	uint32_t rkey;
	uint64_t addr;
};

static char *memory;
static int text[2]; /* a pipe */

static void say(const void *data, size_t length)
{
	CHECK(write(STDOUT_FILENO, data, length) == (ssize_t)length);
}

/* Over the memory; -1 if the kernel gives none that holds up its own accesses, too. */
static int make_unserved(void)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register range = { .range = { (uintptr_t)memory, LENGTH },
					 .mode = UFFDIO_REGISTER_MODE_MISSING };
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);

	if (fd < 0)
		return -1;
	CHECK(!ioctl(fd, UFFDIO_API, &api));
	CHECK(!ioctl(fd, UFFDIO_REGISTER, &range));
	return fd;
}

static void serve(int fd)
{
	struct uffdio_zeropage zero = { .range = { (uintptr_t)memory, LENGTH } };

	CHECK(!ioctl(fd, UFFDIO_ZEROPAGE, &zero));
}

/* The kernel faults the page in for this thread, which waits in the system call meanwhile. */
static void *read_into_first_page(void *arg)
{
	CHECK(read(text[0], memory, 8) == 8);
	return arg;
}

static void *end_with_stdin(void *arg)
{
	char byte;

	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	exit(0);
	return arg;
}

static void send_for_ever(struct ibv_qp *qp, struct ibv_mr *mr, const struct place *peer)
{
	for (uint64_t number = 1;; number++) {
		char *at = memory + number % PAGES * PAGE;
		struct ibv_sge sge = { .addr = (uintptr_t)at, .length = 8, .lkey = mr->lkey };
		struct ibv_send_wr wr = { .sg_list = &sge,
					  .num_sge = 1,
					  .opcode = IBV_WR_RDMA_WRITE,
					  .send_flags = IBV_SEND_SIGNALED,
					  .wr.rdma = { .remote_addr = peer->addr,
						       .rkey = peer->rkey } };

		CHECK(!madvise(at, PAGE, MADV_DONTNEED));
		memcpy(at, &number, 8);
		CHECK(!post_send(qp, &wr));
		poll_success(qp->send_cq);
	}
}

static void drop_for_ever(void)
{
	for (unsigned int number = 1;; number++) {
		char *at = memory + number % PAGES * PAGE;
		pid_t child;

		/* In the faulting system call: the kernel reads from a page, or writes to one. */
		if (number % 2)
			CHECK(write(text[1], at, 8) == 8);
		else
			CHECK(read(text[0], at, 8) == 8);
		if (number % 3 == 0)
			CHECK(!madvise(at, PAGE, MADV_DONTNEED));
		if (number % 3 == 1)
			CHECK(mmap(at, PAGE, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == at);
		if (number % 50 == 0) {
			child = fork();
			if (!child)
				_exit(0);
			CHECK(waitpid(child, NULL, 0) == child);
		}
	}
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "passive";
	bool waits = !strcmp(mode, "waits");
	struct ibv_context *context;
	struct place mine, peer;
	pthread_t thread;
	struct ibv_pd *pd;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	int fd = -1;
	char byte;

	memory = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(memory != MAP_FAILED);
	CHECK(!pipe(text));
	if (waits || !strcmp(mode, "unserved")) {
		fd = make_unserved();
		if (fd < 0)
			return NO_USERFAULTFD;
	}
	context = open_device();
	pd = ibv_alloc_pd(context);
	CHECK(pd);
	mr = ibv_reg_mr(pd, memory, LENGTH, FULL_ACCESS | IBV_ACCESS_ON_DEMAND);
	CHECK(mr);
	qp = make_qp(pd, ibv_create_cq(context, 16, NULL, NULL, 0), IBV_QPT_RC);
	mine = (struct place){ qp->qp_num, mr->rkey, (uintptr_t)memory };
	say(&mine, sizeof(mine));
	CHECK(read(STDIN_FILENO, &peer, sizeof(peer)) == sizeof(peer));
	start_qp(qp, peer.qpn);
	if (waits) {
		CHECK(!pthread_create(&thread, NULL, read_into_first_page, NULL));
		CHECK(write(text[1], "by read\n", 8) == 8);
	}
	say("r", 1);
	if (fd < 0)
		CHECK(!pthread_create(&thread, NULL, end_with_stdin, NULL));
	if (!strcmp(mode, "sends"))
		send_for_ever(qp, mr, &peer);
	if (!strcmp(mode, "drops"))
		drop_for_ever();
	while (fd >= 0 && read(STDIN_FILENO, &byte, 1) > 0) {
		serve(fd);
		if (waits)
			CHECK(!pthread_join(thread, NULL));
		say("s", 1);
	}
	if (fd < 0)
		pause();
	return 0;
}
