/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The fast path beside the device: owner words that the other has, and what waits for a step to end. */

#include "fastpath_scene.h"

static void the_device_waits_for_a_turn(void **state)
{
	struct world *world = *state;
	struct pair *pair = fastpath_rc_pair(world, false);
	struct simhca_step step = fastpath_attach(&pair->a);
	uint32_t name = SIMHCA_OWNER_PROGRAM | pair->a.qp->qpn;
	struct simhca_cqe cqe;

	atomic_store(&pair->b.qp->state->resp_owner.holder, name);
	rdma_write(&pair->a, 1, 0, 8, 0);
	run_until_idle(world);
	assert_false(cq_poll(pair->a.send_cq, &cqe));
	assert_int_equal(qp_state(pair->a.qp), IBV_QPS_RTS);
	atomic_store(&pair->b.qp->state->resp_owner.holder, 0);
	advance(world, 1 * MSEC);
	assert_true(cq_poll(pair->a.send_cq, &cqe) && !cqe.status);

	/* The requester's: the program finds that it is wanted, and rings. */
	atomic_store(&pair->a.qp->state->req_owner.holder, name);
	rdma_write(&pair->a, 2, 0, 8, 0);
	run_until_idle(world);
	assert_int_equal(pair->a.qp->state->req_owner.holder, name | SIMHCA_OWNER_WANTED);
	assert_false(cq_poll(pair->a.send_cq, &cqe));
	atomic_store(&pair->a.qp->state->req_owner.holder, 0);
	ring_doorbell(pair->a.client, pair->a.qp->doorbell);
	run_until_idle(world);
	assert_true(cq_poll(pair->a.send_cq, &cqe) && !cqe.status);

	/* Of nobody's that is attached it is nonsense. */
	atomic_store(&pair->a.qp->state->req_owner.holder, name + 1);
	rdma_write(&pair->a, 3, 0, 8, 0);
	run_until_idle(world);
	assert_int_equal(qp_state(pair->a.qp), IBV_QPS_ERR);
	fastpath_detach(&step);
}

static void put_sends(struct pair *pair, uint64_t first, uint64_t count)
{
	const struct simhca_sge from = sge(pair->a.mr, 0, 100);

	for (uint64_t id = first; id < first + count; id++)
		qp_put(pair->a.qp, &(struct wr){ .id = id,
						 .opcode = SIMHCA_WR_SEND,
						 .flags = SIGNALED,
						 .sges = &from,
						 .num_sge = 1 });
	ring_doorbell(pair->a.client, pair->a.qp->doorbell);
}

static uint32_t sent(const struct pair *pair)
{
	return pair->a.send_cq->state->pi;
}

/* A receive is missing, and while the device waits for it the program posts on. */
static void behind_a_missing_receive(struct pair *pair, struct simhca_step *step, uint64_t first)
{
	uint32_t before = sent(pair);

	put_sends(pair, first, 1);
	assert_false(simhca_step(step));
	run_until_idle(pair->a.world);
	put_sends(pair, first + 1, 10);
	assert_false(simhca_step(step));
	for (uint64_t id = first; id < first + 11; id++)
		recv_into(&pair->b, id, 0, 100);
	for (int i = 0; i < 10000 && sent(pair) == before; i++)
		advance(pair->a.world, 5000);
}

/* A program that posts again and again would be the device's for ever. */
static void the_rest_is_left_to_the_program(void **state)
{
	struct world *world = *state;
	struct pair *pair = fastpath_rc_pair(world, false);
	struct simhca_step step = fastpath_attach(&pair->a);

	behind_a_missing_receive(pair, &step, 0);
	assert_int_equal(sent(pair), 1);
	assert_int_equal(step.fastpath->left, 1);
	assert_true(simhca_step(&step));
	assert_int_equal(sent(pair), 11);
	assert_int_equal(step.fastpath->messages, 10);
	/* And what it cannot do then is the device's at once. */
	put_sends(pair, 11, 1);
	assert_false(simhca_step(&step));
	recv_into(&pair->b, 11, 0, 100);
	run_until_idle(world);
	assert_int_equal(sent(pair), 12);
	fastpath_detach(&step);
}

/* What no step can do is not left to one. */
static void a_flush_is_not_left_to_the_program(void **state)
{
	struct world *world = *state;
	struct pair *pair = fastpath_rc_pair(world, false);
	struct simhca_step step = fastpath_attach(&pair->a);

	put_sends(pair, 0, 1);
	assert_false(simhca_step(&step));
	run_until_idle(world);
	qp_put(pair->a.qp, &(struct wr){ .opcode = SIMHCA_WR_FLUSH, .flags = SIGNALED });
	ring_doorbell(pair->a.client, pair->a.qp->doorbell);
	assert_false(simhca_step(&step));
	recv_into(&pair->b, 0, 0, 100);
	for (int i = 0; i < 10000 && !sent(pair); i++)
		advance(world, 5000);
	assert_int_equal(sent(pair), 2);
	assert_int_equal(step.fastpath->left, 0);
	fastpath_detach(&step);
}

/* One that does not come has lost a moment, and less often the next time. */
static void the_program_does_not_come(void **state)
{
	struct world *world = *state;
	struct pair *pair = fastpath_rc_pair(world, false);
	struct simhca_step step = fastpath_attach(&pair->a);

	for (uint32_t n = 0; n < 2; n++) {
		behind_a_missing_receive(pair, &step, 11 * n);
		assert_int_equal(sent(pair), 11 * n + 1);
		advance(world, 10000);
		assert_int_equal(sent(pair), 11 * n + 1);
		advance(world, 15000);
		assert_int_equal(sent(pair), 11 * n + 11);
	}
	behind_a_missing_receive(pair, &step, 22);
	assert_int_equal(sent(pair), 33);
	fastpath_detach(&step);
}

#define LONG_MESSAGE (1u << 20) /* bytes: more than the device does at one go */

/*
 * The device has three while the program posts on: it does one, and leaves the others to it. However few they
 * are, it was worth it, so it does so each time.
 */
static void two_of_three_are_left(struct world *world, void (*rdma)(struct side *, uint64_t,
								    uint64_t, uint32_t, uint64_t))
{
	struct options options = fastpath_options();
	struct simhca_step step;
	struct pair *pair;

	options.buffer = LONG_MESSAGE;
	pair = fastpath_pair(world, &options);
	step = fastpath_attach(&pair->a);
	for (int round = 0; round < 4; round++) {
		uint32_t before = sent(pair);

		for (uint64_t id = 0; id < 3; id++)
			rdma(&pair->a, id, 0, LONG_MESSAGE, 0);
		step.fastpath->wants = 1;
		for (int i = 0; i < 10000 && sent(pair) == before; i++)
			advance(world, 1000);
		assert_int_equal(sent(pair), before + 1);
		assert_int_equal(step.fastpath->left, 1);
		assert_true(simhca_step(&step));
		assert_int_equal(sent(pair), before + 3);
	}
	fastpath_detach(&step);
}

static void long_messages_are_left_to_the_program(void **state)
{
	two_of_three_are_left(*state, rdma_write);
}

/* Nor are reads begun that would follow the one under way without a gap. */
static void reads_are_left_to_the_program(void **state)
{
	two_of_three_are_left(*state, rdma_read);
}

static int dereg(const struct mr *mr)
{
	return simhca_dereg_mr(mr->client->context, mr->handle, NULL);
}

static int resize(const struct cq *cq)
{
	const struct simhca_resize_cq_req req = { .handle = cq->handle, .cqe = 2 * cq->cqe };
	struct simhca_create_cq_reply reply;

	return simhca_resize_cq(cq->client->context, &req, &reply, NULL);
}

static void deregistration_waits_for_a_step(void **state)
{
	struct world *world = *state;
	struct pair *pair = fastpath_rc_pair(world, false),
		    *stranger = fastpath_rc_pair(world, false);
	struct simhca_step step = fastpath_attach(&pair->a);

	atomic_fetch_add(&step.fastpath->guard, 1);
	assert_int_equal(dereg(pair->b.mr), -EAGAIN);
	assert_int_equal(dereg(stranger->b.mr), 0);
	assert_int_equal(resize(pair->b.recv_cq), -EAGAIN);
	atomic_fetch_add(&step.fastpath->guard, 1);
	assert_int_equal(dereg(pair->b.mr), 0);
	assert_int_equal(resize(pair->b.recv_cq), 0);
	/* Who has ended is in no step any more. */
	pair = fastpath_rc_pair(world, false);
	step = fastpath_attach(&pair->a);
	atomic_fetch_add(&step.fastpath->guard, 1);
	client_gone(pair->a.client);
	assert_int_equal(dereg(pair->b.mr), 0);
}

/* What the device changes in two halves no program writes to in between. */
static void an_atomic_waits_for_steps(void **state)
{
	struct world *world = *state;
	struct pair *pair = fastpath_rc_pair(world, false), *other = fastpath_rc_pair(world, false);
	struct simhca_step step = fastpath_attach(&pair->a);
	struct mr *mr = mr_new(pair->b.client, 4096, ALL_ACCESS);
	uint64_t *word = (void *)(uintptr_t)mr->addr;
	bool early, late_enough;
	struct simhca_cqe cqe;

	/* Memory that grants atomics is like any other, while there are none. */
	fastpath_write(pair, 8, mr);
	assert_true(simhca_step(&step));
	assert_true(cq_poll(pair->a.send_cq, &cqe));
	*word = 5;

	atomic_fetch_add(&step.fastpath->guard, 1);
	fastpath_put_fetch_and_add(&other->a, mr_new(other->b.client, 4096, ALL_ACCESS));
	ring_doorbell(other->a.client, other->a.qp->doorbell);
	run_until_idle(world);
	advance(world, 1 * MSEC);
	early = cq_poll(other->a.send_cq, &cqe);
	atomic_fetch_add(&step.fastpath->guard,
			 2); /* that one has ended, and the next has looked */
	advance(world, 1 * MSEC);
	late_enough = cq_poll(other->a.send_cq, &cqe);
	atomic_fetch_add(&step.fastpath->guard, 1);
	assert_false(early);
	assert_true(late_enough && !cqe.status);

	/* That step was the last one that writes without looking. */
	fastpath_write(pair, 8, mr);
	assert_false(simhca_step(&step));
	assert_int_equal(step.fastpath->handed[SIMHCA_SLOW_STATE], 1);
	assert_int_equal(*word, 5);
	ring_doorbell(pair->a.client, pair->a.qp->doorbell);
	run_until_idle(world);
	assert_true(cq_poll(pair->a.send_cq, &cqe) && !cqe.status);
	fastpath_detach(&step);
}

/* What a QP that can send from now on has posted by then is the device's; what comes later is, if it is rung for. */
static void a_qp_that_can_send(void **state)
{
	struct world *world = *state;
	struct pair *pair = fastpath_rc_pair(world, false);
	const struct options options = fastpath_options();
	const struct simhca_sge from = sge(pair->a.mr, 0, 8);
	const struct wr write = { .opcode = SIMHCA_WR_RDMA_WRITE,
				  .flags = SIGNALED,
				  .sges = &from,
				  .num_sge = 1,
				  .remote_addr = pair->a.mr->iova + 8,
				  .rkey = pair->a.mr->rkey };

	for (int early = 0; early < 2; early++) {
		struct qp *qp =
			qp_new(pair->a.client, &options, pair->a.send_cq, pair->a.recv_cq, NULL);
		struct simhca_qp_attr attr = qp_attr_to(qp, 0, qp->qpn, &options);
		struct simhca_cqe cqe;

		qp_up_to(qp, IBV_QPS_RTR, attr);
		run_until_idle(world);
		if (early)
			qp_put(qp, &write);
		attr.qp_state = IBV_QPS_RTS;
		assert_int_equal(0, qp_modify(qp, rts_mask(qp->type), attr));
		if (!early)
			qp_put(qp, &write);
		run_until_idle(world);
		assert_int_equal(cq_poll(pair->a.send_cq, &cqe), early);
		qp_ring(qp);
		run_until_idle(world);
		assert_int_equal(cq_poll(pair->a.send_cq, &cqe), !early);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		HERE(the_device_waits_for_a_turn),
		HERE(the_rest_is_left_to_the_program),
		HERE(a_flush_is_not_left_to_the_program),
		HERE(the_program_does_not_come),
		HERE(long_messages_are_left_to_the_program),
		HERE(reads_are_left_to_the_program),
		HERE(deregistration_waits_for_a_step),
		HERE(an_atomic_waits_for_steps),
		HERE(a_qp_that_can_send),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
