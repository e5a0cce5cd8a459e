/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A program whose device ends. Before each poll it writes what an attached peer can write, into the
 * memory of a queue whose receives several programs consume.
 *
 *	flushed_lies own|srq
 *
 *	own	a UD QP's: its responder is where none can be, and has a receive
 *	srq	an SRQ's: more was posted
 *
 * Says "ready", and when the device has gone and each receive was flushed once "done".
 */
#include <stdatomic.h>
#include <stdint.h>

#include "../programs/helper.h"
#include "simhca-abi.h"

#define DEPTH 16u
#define PSN 0x5a5a5au /* by which the QP's memory is found, */
#define LIMIT 13u     /* and the SRQ's */
#define LENGTH 4096u
#define MORE 1000 /* polls after the last receive */

static bool is_the_qps(const void *at)
{
	const struct simhca_qp_mem *mem = at;

	return mem->req[atomic_load(&mem->req_owner.generation) & 1].psn_next == PSN;
}

static bool is_the_srqs(const void *at)
{
	const struct simhca_srq_mem *mem = at;

	return mem->pi == DEPTH && (mem->limit & SIMHCA_SRQ_LIMIT_MASK) == LIMIT && !mem->head;
}

static void *search(bool (*is_it)(const void *at), size_t size)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	uintptr_t at, end;
	char line[512];

	CHECK(maps);
	while (fgets(line, sizeof(line), maps)) {
		if (!strstr(line, " rw-s ") || sscanf(line, "%lx-%lx", &at, &end) != 2)
			continue;
		for (; at + size <= end; at += 64) {
			if (is_it((const void *)at)) {
				fclose(maps);
				return (void *)at;
			}
		}
	}
	CHECK(!"it is there");
	return NULL;
}

static void lie_of_responder(void *at)
{
	struct simhca_qp_mem *mem = at;
	struct simhca_recv_wqe *half_done = (void *)(mem + 1);

	half_done->wr_id = 0xbad;
	for (int i = 0; i < 2; i++) {
		mem->resp[i].epsn = UINT32_MAX;
		mem->resp[i].have_recv = 1;
	}
}

static void lie_of_srq(void *at)
{
	struct simhca_srq_mem *mem = at;

	atomic_store(&mem->pi, (uint32_t)atomic_load(&mem->head) + DEPTH);
}

static struct ibv_srq *make_srq(struct ibv_pd *pd)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = DEPTH, .max_sge = 1 } };
	struct ibv_srq *srq = ibv_create_srq(pd, &attr);

	CHECK(srq);
	return srq;
}

int main(int argc, char **argv)
{
	const bool has_srq = argc == 2 && !strcmp(argv[1], "srq");
	struct ibv_srq_attr limit = { .srq_limit = LIMIT };
	struct ibv_context *context = open_device();
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_cq *cq = ibv_create_cq(context, 64, NULL, NULL, 0);
	struct ibv_mr *mr = ibv_reg_mr(pd, calloc(1, LENGTH), LENGTH, FULL_ACCESS);
	struct ibv_srq *srq = has_srq ? make_srq(pd) : NULL;
	struct ibv_qp *qp = make_qp_with(pd, cq, has_srq ? IBV_QPT_RC : IBV_QPT_UD, srq);
	uint32_t flushed = 0;
	struct ibv_wc wc;
	void *mem;

	CHECK(mr);
	start_qp_from(qp, qp->qp_num, 8, 3, PSN);
	for (uint64_t id = 0; id < DEPTH; id++) {
		struct ibv_sge sge = { (uintptr_t)mr->addr, 64, mr->lkey };
		struct ibv_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 }, *bad;

		CHECK(!(srq ? ibv_post_srq_recv(srq, &wr, &bad) : ibv_post_recv(qp, &wr, &bad)));
	}
	if (srq) {
		CHECK(!ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT));
		mem = search(is_the_srqs, sizeof(struct simhca_srq_mem));
	} else {
		mem = search(is_the_qps, sizeof(struct simhca_qp_mem));
	}
	printf("ready\n");
	fflush(stdout);
	for (int more = 0; more < MORE;) {
		if (srq)
			lie_of_srq(mem);
		else
			lie_of_responder(mem);
		if (ibv_poll_cq(cq, 1, &wc) < 1) {
			more += flushed == DEPTH;
			continue;
		}
		CHECK(wc.status == IBV_WC_WR_FLUSH_ERR && wc.qp_num == qp->qp_num);
		CHECK(wc.wr_id == flushed++ && flushed <= DEPTH);
	}
	printf("done\n");
	fflush(stdout);
	return 0;
}
