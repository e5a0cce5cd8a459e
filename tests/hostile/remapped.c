/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A program that deregisters memory and uses its addresses for something else at once, while a peer
 * writes there:
 *
 *	remapped N
 *
 * N times. What it has there afterwards nobody changes, whoever carries the writes. The peer's QP
 * is UC, on which a key that is gone loses the message and nothing else.
 */
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "steady_writer.h"

static void map_anew(uint8_t *memory)
{
	CHECK(mmap(memory, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
		   -1, 0) == memory);
}

static void one_round(struct ibv_pd *pd, uint8_t *memory)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, BYTES, FULL_ACCESS);
	uint64_t until = now_ns() + MOST_SECONDS * 1000000000ull;

	CHECK(mr);
	atomic_store(&shared->va, (uintptr_t)memory);
	atomic_store(&shared->rkey, mr->rkey);
	while (!any_written(memory))
		CHECK(now_ns() < until);
	CHECK(!ibv_dereg_mr(mr));
	map_anew(memory);
	until = now_ns() + LOOK_NS;
	while (now_ns() < until)
		CHECK(!any_written(memory));
}

int main(int argc, char **argv)
{
	struct ibv_context *context;
	struct ibv_cq *cq;
	struct ibv_pd *pd;
	uint8_t *memory;
	pid_t pid;

	CHECK(argc == 2);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(shared != MAP_FAILED && memory != MAP_FAILED);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		write_on_and_on();
	}
	context = open_device();
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	CHECK(pd && cq);
	connect_to(0, context, pd, cq);
	for (int i = atoi(argv[1]); i > 0; i--)
		one_round(pd, memory);
	puts("done");
	fflush(stdout);
	getchar(); /* who looks at the QPs */
	kill(pid, SIGKILL);
	CHECK(waitpid(pid, NULL, 0) == pid);
	return 0;
}
