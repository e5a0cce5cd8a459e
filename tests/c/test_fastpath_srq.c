/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Steps in programs whose peers' receives come from an SRQ (libsimhca/queue/srq_claim.h). */

#include "fastpath_scene.h"

#define LENGTH 100u

/*
 * A QP more of b's client and of its SRQ, connected to one of a program of its own; recv_cq: NULL for one
 * of its own.
 */
static struct pair *another_in(struct pair *pair, struct cq *recv_cq)
{
	struct pair *other = world_alloc(pair->a.world, sizeof(*other));
	struct options options = pair->b.options;

	options.srq_wr = 0;
	side_make(&other->a, client_new(pair->a.world, 0), &options, NULL);
	side_make(&other->b, pair->b.client, &options, pair->b.srq);
	if (recv_cq) {
		other->b.recv_cq = recv_cq;
		other->b.qp =
			qp_new(pair->b.client, &options, other->b.send_cq, recv_cq, pair->b.srq);
	}
	other->a.peer = &other->b;
	other->b.peer = &other->a;
	pair_connect(other);
	fastpath_offer(other->a.client);
	return other;
}

static struct pair *another(struct pair *pair)
{
	return another_in(pair, NULL);
}

static void expect_receive(struct pair *pair, uint64_t id, uint8_t status)
{
	struct simhca_cqe cqe;

	assert_true(cq_poll(pair->b.recv_cq, &cqe));
	assert_int_equal(cqe.wr_id, id);
	assert_int_equal(cqe.status, status);
	assert_int_equal(cqe.flags, SIMHCA_CQE_RECV | SIMHCA_CQE_SRQ);
}

/* ------------------------------------------------------------------------------- in turns */

/* By two programs and by the device, one after the other: each has the next receive. */
static void all_consume_in_order(void **state)
{
	struct pair *one = fastpath_pair_with_srq(*state), *two = another(one);
	struct simhca_step step_one = fastpath_attach(&one->a), step_two = fastpath_attach(&two->a);

	for (uint64_t id = 0; id < 300; id++) {
		struct pair *pair = id % 3 ? one : two;

		recv_into(&one->b, id, 0, LENGTH);
		fastpath_send(pair, LENGTH);
		if (id % 3 < 2)
			assert_true(simhca_step(pair == one ? &step_one : &step_two));
		else
			ring_doorbell(pair->a.client, pair->a.qp->doorbell);
		run_until_idle(*state);
		expect(pair->a.send_cq, 0, SUCCESS);
		expect_receive(pair, id, SIMHCA_WC_SUCCESS);
		assert_int_equal(srq_ci_of(one->b.srq), id + 1);
	}
	assert_int_equal(step_one.fastpath->messages, 100);
	assert_int_equal(step_two.fastpath->messages, 100);
	fastpath_detach(&step_one);
	fastpath_detach(&step_two);
}

/* The buffers are in the SRQ's PD, whatever the QP is in (IBTA vol. 1, 10.2.9.4). */
static void buffers_are_of_the_srqs_pd(void **state)
{
	struct pair *pair = fastpath_pair_with_srq(*state), *other;
	struct client *server = pair->b.client;
	const uint32_t pd = pd_new(server);
	struct simhca_step step;
	struct mr *mr;

	other = another(pair);
	other->b.qp = qp_new_in(server, pd, &other->b.options, other->b.send_cq, other->b.recv_cq,
				pair->b.srq);
	assert_int_equal(qp_move(other->a.qp, IBV_QPS_RESET), 0);
	pair_connect(other);
	step = fastpath_attach(&other->a);
	recv_into(&pair->b, 1, 0, LENGTH);
	fastpath_send(other, LENGTH);
	assert_true(simhca_step(&step));
	expect_receive(other, 1, SIMHCA_WC_SUCCESS);

	mr = mr_over(server, pd, pair->b.mr->addr, LENGTH, 0, SIMHCA_ACCESS_LOCAL_WRITE);
	srq_recv(pair->b.srq, 2, &(struct simhca_sge){ mr->iova, LENGTH, mr->lkey }, 1);
	fastpath_send(other, LENGTH);
	assert_false(simhca_step(&step));
	assert_int_equal(step.fastpath->handed[SIMHCA_SLOW_RECEIVE], 1);
	fastpath_detach(&step);
}

/* --------------------------------------------------------------------- left to the device */

static void no_receive(struct pair *pair)
{
	fastpath_send(pair, LENGTH);
}

static void short_receive(struct pair *pair)
{
	recv_into(&pair->b, 1, 0, LENGTH - 1);
	fastpath_send(pair, LENGTH);
}

static void full_recv_cq(struct pair *pair)
{
	recv_into(&pair->b, 1, 0, LENGTH);
	fastpath_send(pair, LENGTH);
	atomic_store(&pair->b.recv_cq->state->pi, pair->b.recv_cq->cqe);
}

static void full_send_cq(struct pair *pair)
{
	recv_into(&pair->b, 1, 0, LENGTH);
	fastpath_send(pair, LENGTH);
	atomic_store(&pair->a.send_cq->state->pi, pair->a.send_cq->cqe);
}

/* More of them than there is room for. */
static void nonsense(struct pair *pair)
{
	fastpath_send(pair, LENGTH);
	atomic_store(&pair->b.srq->state->pi, pair->b.srq->entries + 1);
}

static const struct {
	void (*arrange)(struct pair *pair);
	enum simhca_slow_reason why;
} refusals[] = {
	{ no_receive, SIMHCA_SLOW_RECEIVE }, { short_receive, SIMHCA_SLOW_RECEIVE },
	{ nonsense, SIMHCA_SLOW_RECEIVE },   { full_recv_cq, SIMHCA_SLOW_CQ },
	{ full_send_cq, SIMHCA_SLOW_CQ },
};

static void nothing_is_consumed(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(refusals); i++) {
		struct simhca_srq_mem before;
		struct simhca_step step;
		struct pair *pair;

		fastpath_setup(state);
		pair = fastpath_pair_with_srq(*state);
		step = fastpath_attach(&pair->a);
		refusals[i].arrange(pair);
		memcpy(&before, pair->b.srq->state, sizeof(before));
		assert_false(simhca_step(&step));
		assert_int_equal(step.fastpath->handed[refusals[i].why], 1);
		assert_memory_equal(&before, pair->b.srq->state, sizeof(before));
		assert_int_equal(responder_of(pair->b.qp)->have_recv, 0);
		fastpath_detach(&step);
		teardown(state);
	}
}

/* What the kernel does not copy the device does, with the receive that was consumed for it. */
static void a_copy_that_fails(void **state)
{
	struct pair *pair = fastpath_pair_with_srq(*state);
	struct simhca_step step = fastpath_attach(&pair->a);
	struct mr *mr = mr_new(pair->b.client, 4096, fastpath_options().mr_access);
	struct simhca_sge into = sge(mr, 0, LENGTH);

	((struct simhca_mpt *)mpt_of(pair->b.client, mr->lkey))->addr = 4096; /* mapped by nobody */
	srq_recv(pair->b.srq, 1, &into, 1);
	recv_into(&pair->b, 2, 0, LENGTH);
	fastpath_send(pair, LENGTH);
	assert_false(simhca_step(&step));
	assert_int_equal(step.fastpath->handed[SIMHCA_SLOW_COPY], 1);
	assert_int_equal(srq_ci_of(pair->b.srq), 1);
	assert_int_equal(responder_of(pair->b.qp)->have_recv, 1);
	((struct simhca_mpt *)mpt_of(pair->b.client, mr->lkey))->addr = (uintptr_t)mr->addr;
	ring_doorbell(pair->a.client, pair->a.qp->doorbell);
	expect(pair->a.send_cq, 0, SUCCESS);
	expect_receive(pair, 1, SIMHCA_WC_SUCCESS);
	assert_int_equal(srq_ci_of(pair->b.srq), 1);
	fastpath_detach(&step);
}

/* ---------------------------------------------------------------------- data in the CQ */

static struct simhca_step *crowd;
static struct pair *crowds;

/* Once the message has its receive, others complete there. */
static void fill_the_cq(void)
{
	if (srq_ci_of(crowds->b.srq) != 1)
		return;
	fastpath_at_store = NULL;
	for (int i = 0; i < 8; i++) {
		fastpath_send(crowds, 8);
		assert_true(simhca_step(crowd));
	}
}

/* Their room is the CQ's that wait: a message that finds it taken is placed by the device, and completes once. */
static void no_room_for_its_data(void **state)
{
	struct pair *pair = fastpath_pair_with_srq(*state),
		    *other = another_in(pair, pair->b.recv_cq);
	struct simhca_step step = fastpath_attach(&pair->a), others = fastpath_attach(&other->a);
	struct simhca_cqe cqe;
	uint32_t voids = 0, n = 0;

	crowd = &others;
	crowds = other;
	for (uint64_t id = 0; id < 10; id++)
		recv_into(&pair->b, id, id * 8, 8);
	fill(pair->a.mr->addr, 8, 1);
	fill(other->a.mr->addr, 8, 2);
	step.peer.recv_cq.data_slots = 8;
	fastpath_at_store = fill_the_cq;
	fastpath_send(pair, 8);
	assert_false(simhca_step(&step));
	assert_null(fastpath_at_store);
	assert_int_equal(step.fastpath->handed[SIMHCA_SLOW_CQ], 1);
	ring_doorbell(pair->a.client, pair->a.qp->doorbell);
	run_until_idle(*state);
	while (cq_poll(pair->b.recv_cq, &cqe)) {
		if (cqe.qpn == SIMHCA_VOID_QPN) {
			voids++;
			continue;
		}
		n++;
		assert_int_equal(cqe.wr_id, n < 9 ? n : 0);
		assert_int_equal(cqe.in_slot, n < 9 ? SIMHCA_CQE_IN_CQ : SIMHCA_CQE_IN_PLACE);
		assert_true(filled(pair->b.mr->addr + cqe.wr_id * 8, 8, n < 9 ? 2 : 1));
	}
	assert_int_equal(voids, 1);
	assert_int_equal(n, 9);
	assert_int_equal(srq_ci_of(pair->b.srq), 9);
	fastpath_detach(&step);
	fastpath_detach(&others);
}

/* ----------------------------------------------------------------------------- its changes */

static struct srq *armed;

static void arm_limit(void)
{
	if (!srq_ci_of(armed))
		return;
	fastpath_at_store = NULL;
	assert_int_equal(srq_modify(armed, SIMHCA_SRQ_LIMIT, 0, 9), 0);
}

static void the_limit_is_told_of_once(void **state)
{
	struct pair *pair = fastpath_pair_with_srq(*state);
	struct simhca_step step = fastpath_attach(&pair->a);

	for (uint64_t id = 0; id < 10; id++)
		recv_into(&pair->b, id, 0, LENGTH);
	assert_int_equal(srq_modify(pair->b.srq, SIMHCA_SRQ_LIMIT, 0, 5), 0);
	for (uint32_t left = 9; left; left--) {
		fastpath_send(pair, LENGTH);
		/* It is the device that tells. */
		assert_int_equal(simhca_step(&step), left != 4);
		assert_int_equal(fastpath_limits(pair), left < 4);
		ring_doorbell(pair->a.client, pair->a.qp->doorbell);
		run_until_idle(*state);
		assert_int_equal(fastpath_limits(pair), left <= 4);
	}
	assert_int_equal(step.fastpath->messages, 9);
	fastpath_detach(&step);
}

/* Whatever is posted before the device hears of it; but a limit that was set since is another one, if it is the same. */
static void the_limit_counts_when_the_receive_is_taken(void **state)
{
	for (int again = 0; again < 2; again++) {
		struct simhca_step step;
		struct pair *pair;

		fastpath_setup(state);
		pair = fastpath_pair_with_srq(*state);
		step = fastpath_attach(&pair->a);
		for (uint64_t id = 0; id < 5; id++)
			recv_into(&pair->b, id, 0, LENGTH);
		assert_int_equal(srq_modify(pair->b.srq, SIMHCA_SRQ_LIMIT, 0, 5), 0);
		fastpath_send(pair, LENGTH);
		assert_false(simhca_step(&step));
		for (uint64_t id = 5; id < 12; id++)
			recv_into(&pair->b, id, 0, LENGTH);
		if (again)
			assert_int_equal(srq_modify(pair->b.srq, SIMHCA_SRQ_LIMIT, 0, 5), 0);
		ring_doorbell(pair->a.client, pair->a.qp->doorbell);
		run_until_idle(*state);
		assert_int_equal(fastpath_limits(pair), !again);
		fastpath_detach(&step);
		teardown(state);
	}
}

/* What a step has noted of the peer that its QP had before says nothing of this one's SRQ. */
static void a_limit_of_another_peer(void **state)
{
	struct pair *pair = fastpath_pair_with_srq(*state);
	struct simhca_step step = fastpath_attach(&pair->a);
	uint64_t arming;

	for (uint64_t id = 0; id < 10; id++)
		recv_into(&pair->b, id, 0, LENGTH);
	assert_int_equal(srq_modify(pair->b.srq, SIMHCA_SRQ_LIMIT, 0, 5), 0);
	arming = (uint64_t)atomic_load(&pair->b.srq->state->limit) << 32;
	for (uint32_t own = 0; own < 2; own++) {
		atomic_store(&step.fastpath->srq_limit, arming | (pair->b.qp->qpn + !own));
		ring_doorbell(pair->a.client, pair->a.qp->doorbell);
		run_until_idle(*state);
		assert_int_equal(fastpath_limits(pair), own);
	}
	fastpath_detach(&step);
}

/* Armed when the receive has been consumed: the next one tells. */
static void a_limit_that_is_armed_meanwhile(void **state)
{
	struct pair *pair = fastpath_pair_with_srq(*state);
	struct simhca_step step = fastpath_attach(&pair->a);

	armed = pair->b.srq;
	for (uint64_t id = 0; id < 10; id++)
		recv_into(&pair->b, id, 0, LENGTH);
	fastpath_at_store = arm_limit;
	fastpath_send(pair, LENGTH);
	simhca_step(&step);
	assert_null(fastpath_at_store);
	fastpath_send(pair, LENGTH);
	assert_false(simhca_step(&step));
	ring_doorbell(pair->a.client, pair->a.qp->doorbell);
	run_until_idle(*state);
	assert_int_equal(fastpath_limits(pair), 1);
	fastpath_detach(&step);
}

/* The ring is another then, and the device's alone. */
static void resizing_waits_for_a_step(void **state)
{
	const struct simhca_modify_srq_req req = { .mask = SIMHCA_SRQ_MAX_WR, .max_wr = 500 };
	struct pair *pair = fastpath_pair_with_srq(*state);
	struct simhca_step step = fastpath_attach(&pair->a);
	struct simhca_modify_srq_req larger = req;
	struct simhca_attach_peer_reply attached;
	struct simhca_create_srq_reply reply;

	larger.handle = pair->b.srq->handle;
	recv_into(&pair->b, 1, 0, LENGTH);
	atomic_fetch_add(&step.fastpath->guard, 1);
	assert_int_equal(simhca_modify_srq(pair->b.client->context, &larger, &reply, NULL),
			 -EAGAIN);
	atomic_fetch_add(&step.fastpath->guard, 1);
	assert_int_equal(srq_modify(pair->b.srq, SIMHCA_SRQ_MAX_WR, 500, 0), 0);
	fastpath_send(pair, LENGTH);
	assert_false(simhca_step(&step));
	assert_int_equal(step.fastpath->handed[SIMHCA_SLOW_STATE], 1);
	assert_int_equal(fastpath_attach_with(&pair->a, &fastpath_secret, &attached), -ENOTCONN);
	ring_doorbell(pair->a.client, pair->a.qp->doorbell);
	expect(pair->a.send_cq, 0, SUCCESS);
	expect_receive(pair, 1, SIMHCA_WC_SUCCESS);
	fastpath_detach(&step);
}

/* A QP that is connected anew has consumed nothing, whatever it had before; nor has its successor.
 */
static void a_new_connection(void **state)
{
	struct pair *pair = fastpath_pair_with_srq(*state), *next;
	struct simhca_step step = fastpath_attach(&pair->a);

	for (uint64_t id = 0; id < 6; id++)
		recv_into(&pair->b, id, 0, LENGTH);
	fastpath_send(pair, LENGTH);
	assert_true(simhca_step(&step));
	expect_receive(pair, 0, SIMHCA_WC_SUCCESS);
	fastpath_detach(&step);
	pair_reconnect(pair);
	step = fastpath_attach(&pair->a);
	fastpath_send(pair, LENGTH);
	assert_true(simhca_step(&step));
	expect_receive(pair, 1, SIMHCA_WC_SUCCESS);
	fastpath_detach(&step);

	assert_int_equal(
		patiently(simhca_destroy_qp(pair->b.client->context, pair->b.qp->handle, NULL)), 0);
	next = another(pair);
	step = fastpath_attach(&next->a);
	assert_int_equal(step.peer.claimant, 1);
	/* What the device consumed for it is accounted for. */
	send_from(&next->a, 7, 0, LENGTH);
	expect(next->a.send_cq, 7, SUCCESS);
	atomic_store(&next->b.qp->state->resp_owner.holder, SIMHCA_OWNER_PROGRAM | next->a.qp->qpn);
	client_gone(next->a.client);
	assert_int_equal(next->b.qp->state->resp_owner.holder, 0);
	assert_int_equal(responder_of(next->b.qp)->have_recv, 0);
	fastpath_detach(&step);
}

/* -------------------------------------------------------------------------------- the end */

/*
 * Ends at each store. Each receive has completed, is flushed with the QP that it was consumed for,
 * or is in the SRQ still, for another, who consumes while nobody has mended that yet.
 */
static void ends_at_each_store(void **state, uint32_t length)
{
	const uint32_t sends = 3, posted = 5;
	bool killed = true, lost = false, in_cq = false;
	unsigned int store;

	for (store = 1; killed; store += STORE_STEP) {
		uint32_t arrived = 0, flushed = 0;
		struct pair *pair, *other;
		struct simhca_step step, others;
		struct simhca_cqe cqe;

		assert_true(store < MOST_STORES);
		fastpath_setup(state);
		pair = fastpath_pair_with_srq(*state);
		other = another(pair);
		step = fastpath_attach(&pair->a);
		others = fastpath_attach(&other->a);
		for (uint64_t id = 0; id < posted; id++)
			recv_into(&pair->b, id, id * length, length);
		assert_int_equal(srq_modify(pair->b.srq, SIMHCA_SRQ_LIMIT, 0, posted), 0);
		fill(pair->a.mr->addr, length, store);
		fill(other->a.mr->addr, length, store + 1);
		for (uint32_t i = 0; i < sends; i++)
			fastpath_send(pair, length);
		killed = fastpath_killed_at(&step, store);

		fastpath_send(other, length);
		assert_false(simhca_step(&others)); /* for the event */
		assert_true(cq_poll(other->b.recv_cq, &cqe));
		assert_int_equal(cqe.status, SIMHCA_WC_SUCCESS);
		in_cq |= cqe.in_slot == SIMHCA_CQE_IN_CQ;
		assert_true(filled(pair->b.mr->addr + cqe.wr_id * length, length, store + 1));
		assert_int_equal(fastpath_limits(pair), 0);
		client_gone(pair->a.client);
		assert_int_equal(fastpath_limits(pair), 1); /* nobody else has rung */
		assert_int_equal(pair->b.qp->state->resp_owner.holder, 0);
		assert_int_equal(qp_move(pair->b.qp, IBV_QPS_ERR), 0);
		run_until_idle(*state);
		for (uint64_t id = 0; cq_poll(pair->b.recv_cq, &cqe);) {
			if (cqe.qpn == SIMHCA_VOID_QPN)
				continue;
			assert_int_equal(cqe.wr_id, id++);
			assert_int_equal(flushed, 0);
			flushed += cqe.status != SIMHCA_WC_SUCCESS;
			arrived += cqe.status == SIMHCA_WC_SUCCESS;
			if (!cqe.status)
				assert_true(filled(pair->b.mr->addr + cqe.wr_id * length, length,
						   store));
		}
		assert_int_equal(srq_ci_of(pair->b.srq), arrived + flushed + 1);
		lost |= flushed;
		if (!killed)
			assert_int_equal(arrived, sends);
		fastpath_send(other, length);
		assert_true(simhca_step(&others));
		assert_true(cq_poll(other->b.recv_cq, &cqe));
		assert_int_equal(cqe.wr_id, arrived + flushed + 1);
		fastpath_detach(&step);
		fastpath_detach(&others);
		teardown(state);
	}
	assert_true(lost && store > 20);
	assert_int_equal(in_cq, length <= SIMHCA_SLOT_DATA);
}

static void killed_at_each_store(void **state)
{
	ends_at_each_store(state, SIMHCA_SLOT_DATA + 1);
}

static void killed_with_data_in_the_cq(void **state)
{
	ends_at_each_store(state, SIMHCA_SLOT_DATA);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		HERE(no_room_for_its_data),
		HERE(all_consume_in_order),
		HERE(buffers_are_of_the_srqs_pd),
		cmocka_unit_test(nothing_is_consumed),
		HERE(a_copy_that_fails),
		HERE(the_limit_is_told_of_once),
		cmocka_unit_test(the_limit_counts_when_the_receive_is_taken),
		HERE(a_limit_of_another_peer),
		HERE(a_limit_that_is_armed_meanwhile),
		HERE(resizing_waits_for_a_step),
		HERE(a_new_connection),
		cmocka_unit_test(killed_at_each_store),
		cmocka_unit_test(killed_with_data_in_the_cq),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
