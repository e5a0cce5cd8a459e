/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Others fill a CQ in the middle of a step, before each of its stores. Then the device carries the message,
 * and it comes once, whatever the step had done of it.
 */
#include "fastpath_scene.h"

#define LENGTH 100u
#define BUFFER (SIMHCA_GRH_BYTES + LENGTH)

static struct {
	struct cq *cq;
	unsigned int store, at; /* it is full before that one; 0: it was not reached */
	uint32_t producer;
} full;

static void fill_it(void)
{
	if (++full.store != full.at)
		return;
	full.producer = atomic_exchange(&full.cq->state->pi, full.cq->cqe);
	full.at = 0;
}

/* The completion of this ID, and no other but void ones. */
static void completes_once(struct cq *cq, uint64_t id)
{
	struct simhca_cqe cqe;

	assert_true(fastpath_next_cqe(cq, &cqe));
	assert_int_equal(cqe.wr_id, id);
	assert_int_equal(cqe.status, SIMHCA_WC_SUCCESS);
	assert_false(fastpath_next_cqe(cq, &cqe));
}

static void put_send(struct side *side)
{
	struct simhca_sge from = sge(side->mr, 0, LENGTH);

	qp_put(side->qp, &(struct wr){ .id = 3,
				       .opcode = SIMHCA_WR_SEND,
				       .flags = SIGNALED,
				       .sges = &from,
				       .num_sge = 1,
				       .av = av_to(side->world, 0, side->options.gid_index),
				       .dest_qpn = side->peer->qp->qpn,
				       .qkey = side->peer->options.qkey });
}

/* Returns whether it was full before the step ended, and *left: the device had something to do. */
static bool is_full_at(struct world *world, const struct options *options, bool of_sender,
		       unsigned int at, bool *left)
{
	struct pair *pair = fastpath_pair(world, options);
	struct simhca_step step;
	uint32_t taken;

	run_until_idle(world);
	step = fastpath_attach(&pair->a);
	fill(pair->a.mr->addr, LENGTH, at);
	recv_into(&pair->b, 1, 0, BUFFER);
	recv_into(&pair->b, 2, BUFFER, BUFFER);
	put_send(&pair->a);
	full.cq = of_sender ? pair->a.send_cq : pair->b.recv_cq;
	full.store = 0;
	full.at = at;
	fastpath_at_store = fill_it;
	*left = !fastpath_run(&step);
	fastpath_at_store = NULL;
	if (!full.at)
		atomic_store(&full.cq->state->pi, full.producer);
	ring_doorbell(pair->a.client, pair->a.qp->doorbell);
	run_until_idle(world);
	completes_once(pair->b.recv_cq, 1);
	completes_once(pair->a.send_cq, 3);
	assert_true(filled(pair->b.mr->addr + (options->type == IBV_QPT_UD ? SIMHCA_GRH_BYTES : 0),
			   LENGTH, at));
	taken = pair->b.srq ? srq_ci_of(pair->b.srq) : rq_ci_of(pair->b.qp);
	assert_int_equal(taken, 1);
	assert_int_equal(step.fastpath->dest, 0);
	fastpath_detach(&step);
	return !full.at;
}

static void at_each_store(void **state, enum ibv_qp_type type, uint32_t srq_wr, uint32_t cqe)
{
	for (int of_sender = cqe; of_sender < 2; of_sender++) {
		bool was_full = true, left, ever_left = false, ever_whole = false;

		for (unsigned int at = 1; was_full; at++) {
			struct options options = fastpath_options();

			assert_true(at < MOST_STORES);
			fastpath_setup(state);
			options.type = type;
			options.srq_wr = srq_wr;
			if (cqe)
				options.cqe = cqe;
			was_full = is_full_at(*state, &options, of_sender, at, &left);
			ever_left |= left;
			ever_whole |= was_full && !left;
			teardown(state);
		}
		assert_true(ever_left && ever_whole);
	}
}

static void on_rc(void **state)
{
	at_each_store(state, IBV_QPT_RC, 0, 0);
}

/* Nothing takes room in the peer's CQ, which has just enough, because there is none in the sender's. */
static void with_cqs_of_one(void **state)
{
	at_each_store(state, IBV_QPT_RC, 0, 1);
	at_each_store(state, IBV_QPT_RC, 128, 1);
}

static void on_uc(void **state)
{
	at_each_store(state, IBV_QPT_UC, 0, 0);
}

static void on_ud(void **state)
{
	at_each_store(state, IBV_QPT_UD, 0, 0);
}

static void with_an_srq(void **state)
{
	at_each_store(state, IBV_QPT_RC, 128, 0);
	at_each_store(state, IBV_QPT_UD, 128, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(on_rc), cmocka_unit_test(with_cqs_of_one), cmocka_unit_test(on_uc),
		cmocka_unit_test(on_ud), cmocka_unit_test(with_an_srq),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
