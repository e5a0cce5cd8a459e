/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * An honest program beside the attack: opens the device, registers, connects, writes, looks at what
 * arrived, counts by an atomic, closes, again and again. It ends when its standard input does, and prints how many
 * rounds there were and how long the worst one took. With an argument its region is on-demand.
 */
#include "../programs/helper.h"

#define LENGTH (64u << 10)

static void write_and_look(struct ibv_qp *qp, struct ibv_cq *cq, struct ibv_mr *mr, uint8_t pattern)
{
	uint8_t *memory = mr->addr;
	struct ibv_sge sge = { .addr = (uintptr_t)memory, .length = LENGTH / 2, .lkey = mr->lkey };
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.sg_list = &sge,
		.num_sge = 1,
		.wr.rdma = { .remote_addr = (uintptr_t)memory + LENGTH / 2, .rkey = mr->rkey },
	}, *bad;
	struct ibv_wc wc;

	memset(memory, pattern, LENGTH / 2);
	memset(memory + LENGTH / 2, ~pattern, LENGTH / 2);
	CHECK(!ibv_post_send(qp, &wr, &bad));
	wc = poll_one(cq);
	CHECK(wc.status == IBV_WC_SUCCESS);
	CHECK(!memcmp(memory, memory + LENGTH / 2, LENGTH / 2));
}

/* In the last word, whose value goes to the first. */
static void count(struct ibv_qp *qp, struct ibv_cq *cq, struct ibv_mr *mr)
{
	uint64_t *words = mr->addr, before = words[LENGTH / 8 - 1];
	struct ibv_sge sge = { .addr = (uintptr_t)words, .length = 8, .lkey = mr->lkey };
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
		.send_flags = IBV_SEND_SIGNALED,
		.sg_list = &sge,
		.num_sge = 1,
		.wr.atomic = { .remote_addr = (uintptr_t)&words[LENGTH / 8 - 1],
			       .compare_add = 1,
			       .rkey = mr->rkey },
	}, *bad;
	struct ibv_wc wc;

	CHECK(!ibv_post_send(qp, &wr, &bad));
	wc = poll_one(cq);
	CHECK(wc.status == IBV_WC_SUCCESS);
	CHECK(words[0] == before && words[LENGTH / 8 - 1] == before + 1);
}

static void round_trip(uint8_t *memory, int access, uint8_t pattern)
{
	struct ibv_context *context = open_device();
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, LENGTH, FULL_ACCESS | access);
	struct ibv_qp *a, *b;

	CHECK(pd && cq && mr);
	a = make_qp(pd, cq, IBV_QPT_RC);
	b = make_qp(pd, cq, IBV_QPT_RC);
	start_qp_within(a, b->qp_num, 14, 7);
	start_qp_within(b, a->qp_num, 14, 7);
	write_and_look(a, cq, mr, pattern);
	count(a, cq, mr);
	CHECK(!ibv_destroy_qp(a) && !ibv_destroy_qp(b));
	CHECK(!ibv_dereg_mr(mr) && !ibv_destroy_cq(cq) && !ibv_dealloc_pd(pd));
	CHECK(!ibv_close_device(context));
}

int main(int argc, char **argv)
{
	struct pollfd end = { .fd = STDIN_FILENO, .events = POLLIN };
	uint8_t *memory = aligned_alloc(4096, LENGTH);
	double worst = 0;
	int rounds = 0;

	CHECK(memory);
	do {
		double began = now(), took;

		round_trip(memory, argc > 1 ? IBV_ACCESS_ON_DEMAND : 0, (uint8_t)rounds);
		took = now() - began;
		worst = took > worst ? took : worst;
		if (!rounds++) {
			printf("here\n");
			fflush(stdout);
		}
	} while (!poll(&end, 1, 10));
	printf("%d %.6f\n", rounds, worst);
	free(memory);
	return 0;
}
