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
#include <sys/mman.h>

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
	uint8_t *memory;
	struct ibv_pd *pd;
	pid_t pid;

	CHECK(argc == 2);
	memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(memory != MAP_FAILED);
	pd = start_writer(&pid);
	for (int i = atoi(argv[1]); i > 0; i--)
		one_round(pd, memory);
	end_writer(pid);
	return 0;
}
