/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What on-demand paging costs: RDMA writes of one program to itself, one at a time, into an
 * ordinary region, and into an on-demand one whose pages are present, absent, or prefetched. Prints
 * lines "name value", in microseconds of one write.
 */
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define PAGE 4096u
#define PAGES 1024u
#define SIZE 8u
#define ROUNDS 5

struct bench {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp[2];
	struct ibv_mr *source;
	char *memory;
};

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static double now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static char *pages(void)
{
	char *at = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			0);

	if (at == MAP_FAILED)
		fail("mmap");
	return at;
}

static void connect_to(struct bench *b, struct ibv_qp *qp, uint32_t peer)
{
	struct ibv_port_attr port;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
				    .port_num = 1,
				    .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };

	if (ibv_query_port(b->context, 1, &port) ||
	    ibv_modify_qp(qp, &attr,
			  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
		fail("INIT");
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR,
				     .path_mtu = port.active_mtu,
				     .dest_qp_num = peer,
				     .max_dest_rd_atomic = 1,
				     .min_rnr_timer = 1,
				     .ah_attr = { .dlid = port.lid, .port_num = 1 } };
	if (port.link_layer == IBV_LINK_LAYER_ETHERNET) {
		attr.ah_attr.is_global = 1;
		attr.ah_attr.grh.hop_limit = 1;
		if (ibv_query_gid(b->context, 1, 0, &attr.ah_attr.grh.dgid))
			fail("ibv_query_gid");
	}
	if (ibv_modify_qp(qp, &attr,
			  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
		fail("RTR");
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7
	};
	if (ibv_modify_qp(qp, &attr,
			  IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				  IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC))
		fail("RTS");
}

static void open_device(struct bench *b)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 16, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 }
	};

	if (!list || !list[0])
		fail("ibv_get_device_list");
	b->context = ibv_open_device(list[0]);
	b->pd = b->context ? ibv_alloc_pd(b->context) : NULL;
	b->cq = b->pd ? ibv_create_cq(b->context, 64, NULL, NULL, 0) : NULL;
	attr.send_cq = attr.recv_cq = b->cq;
	for (int i = 0; i < 2; i++)
		b->qp[i] = b->cq ? ibv_create_qp(b->pd, &attr) : NULL;
	if (!b->qp[0] || !b->qp[1])
		fail("a device with a QP");
	for (int i = 0; i < 2; i++)
		connect_to(b, b->qp[i], b->qp[!i]->qp_num);
	b->memory = pages();
	b->source = ibv_reg_mr(b->pd, b->memory, PAGE, IBV_ACCESS_LOCAL_WRITE);
	if (!b->source)
		fail("ibv_reg_mr");
}

/* One write into each page, one after the other: us each. */
static double write_all(struct bench *b, const struct ibv_mr *mr, const char *target)
{
	double start = now_us();

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
		if (ibv_post_send(b->qp[0], &wr, &bad))
			fail("ibv_post_send");
		while (!(got = ibv_poll_cq(b->cq, 1, &wc)))
			;
		if (got < 0 || wc.status != IBV_WC_SUCCESS) {
			fprintf(stderr, "a write: %s\n", ibv_wc_status_str(wc.status));
			exit(1);
		}
	}
	return (now_us() - start) / PAGES;
}

static struct ibv_mr *reg(struct bench *b, char *at, int more)
{
	struct ibv_mr *mr = ibv_reg_mr(b->pd, at, PAGES * PAGE,
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | more);

	if (!mr)
		fail("ibv_reg_mr");
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
			fail("madvise");
		printf("absent_us %f\n", write_all(&b, second, paged));
		/* In turns, for the machine does other things too. */
		for (int n = 0; n < 4; n++) {
			printf("ordinary_us %f\n", write_all(&b, first, ordinary));
			printf("present_us %f\n", write_all(&b, second, paged));
		}
		if (madvise(paged, PAGES * PAGE, MADV_DONTNEED))
			fail("madvise");
		start = now_us();
		if (ibv_advise_mr(b.pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
				  IBV_ADVISE_MR_FLAG_FLUSH, &all, 1))
			fail("ibv_advise_mr");
		printf("prefetch_us %f\n", (now_us() - start) / PAGES);
		printf("prefetched_us %f\n", write_all(&b, second, paged));
	}
	return 0;
}
