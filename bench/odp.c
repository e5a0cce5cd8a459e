/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What on-demand paging costs: RDMA writes of one program to itself, one at a time, into an
 * ordinary region, and into an on-demand one whose pages are present, absent, or prefetched. Prints
 * lines "name value", in microseconds of one write.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "loopback.h"

#define PAGE 4096u
#define PAGES 1024u
#define SIZE 8u
#define ROUNDS 5

struct bench {
	struct loopback loopback;
	struct ibv_mr *source;
	char *memory;
};

static char *pages(void)
{
	char *at = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			0);

	if (at == MAP_FAILED)
		die("mmap");
	return at;
}

static void open_device(struct bench *b)
{
	loopback_open(&b->loopback, 64);
	b->memory = pages();
	b->source = ibv_reg_mr(b->loopback.pd, b->memory, PAGE, IBV_ACCESS_LOCAL_WRITE);
	if (!b->source)
		die("ibv_reg_mr");
}

/* One write into each page, one after the other: us each. */
static double write_all(struct bench *b, const struct ibv_mr *mr, const char *target)
{
	double start = seconds();

	for (unsigned int i = 0; i < PAGES; i++) {
		struct ibv_sge sge = { .addr = (uintptr_t)b->memory,
				       .length = SIZE,
				       .lkey = b->source->lkey };
		struct ibv_send_wr *bad, wr = { .sg_list = &sge,
						.num_sge = 1,
						.opcode = IBV_WR_RDMA_WRITE,
						.send_flags = IBV_SEND_SIGNALED };
		struct ibv_wc wc;
		int got;

		wr.wr.rdma.remote_addr = (uintptr_t)target + i * PAGE;
		wr.wr.rdma.rkey = mr->rkey;
		if (ibv_post_send(b->loopback.qp[0], &wr, &bad))
			die("ibv_post_send");
		while (!(got = ibv_poll_cq(b->loopback.cq[0], 1, &wc)))
			;
		if (got < 0 || wc.status != IBV_WC_SUCCESS) {
			fprintf(stderr, "a write: %s\n", ibv_wc_status_str(wc.status));
			exit(1);
		}
	}
	return (seconds() - start) * 1e6 / PAGES;
}

static struct ibv_mr *reg(struct bench *b, char *at, int more)
{
	struct ibv_mr *mr = ibv_reg_mr(b->loopback.pd, at, PAGES * PAGE,
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | more);

	if (!mr)
		die("ibv_reg_mr");
	return mr;
}

int main(void)
{
	struct bench b = { 0 };
	char *ordinary = pages(), *paged = pages();
	struct ibv_mr *first, *second;

	open_device(&b);
	memset(ordinary, 1, PAGES * PAGE);
	first = reg(&b, ordinary, 0);
	second = reg(&b, paged, IBV_ACCESS_ON_DEMAND);
	for (int i = 0; i < ROUNDS; i++) {
		struct ibv_sge all = { .addr = (uintptr_t)paged,
				       .length = PAGES * PAGE,
				       .lkey = second->lkey };
		double start;

		if (madvise(paged, PAGES * PAGE, MADV_DONTNEED))
			die("madvise");
		printf("absent_us %f\n", write_all(&b, second, paged));
		/* In turns, for the machine does other things too. */
		for (int n = 0; n < 4; n++) {
			printf("ordinary_us %f\n", write_all(&b, first, ordinary));
			printf("present_us %f\n", write_all(&b, second, paged));
		}
		if (madvise(paged, PAGES * PAGE, MADV_DONTNEED))
			die("madvise");
		start = seconds();
		if (ibv_advise_mr(b.loopback.pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
				  IBV_ADVISE_MR_FLAG_FLUSH, &all, 1))
			die("ibv_advise_mr");
		printf("prefetch_us %f\n", (seconds() - start) * 1e6 / PAGES);
		printf("prefetched_us %f\n", write_all(&b, second, paged));
	}
	return 0;
}
