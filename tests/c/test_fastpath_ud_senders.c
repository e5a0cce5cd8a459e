/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Several programs whose datagrams one QP receives: none waits for another, or has what is another's. */
#include <pthread.h>
#include <sched.h>

#include "fastpath_ud.h"

static struct pair *midway;

static struct simhca_step *others_step;
static struct side *others_side;

/* In the middle of another's step. */
static void the_other_sends(void)
{
	void (*const hook)(void) = fastpath_at_store;

	fastpath_at_store = NULL;
	ud_receive(midway, 0);
	ud_send(others_side, LENGTH);
	assert_true(fastpath_run(others_step));
	others_side->send_cq->state->ci = others_side->send_cq->ci =
		others_side->send_cq->state->pi;
	fastpath_at_store = hook;
}

static unsigned int times, stop_after;

static void stop_once(void)
{
	if (++times == stop_after)
		the_other_sends();
}

/* Between any two stores of the one the other is done at once: no turn is held against it. */
static void who_is_stopped_is_in_nobodys_way(void **state)
{
	bool stopped = true;

	for (stop_after = 1; stopped; stop_after++) {
		struct simhca_step step, other;
		unsigned int received = 0;
		struct simhca_cqe cqe;

		fastpath_setup(state);
		midway = ud_pair(*state);
		others_side = ud_another(midway);
		step = fastpath_attach(&midway->a);
		other = fastpath_attach(others_side);
		others_step = &other;
		ud_receive(midway, 1);
		ud_send(&midway->a, LENGTH);
		times = 0;
		fastpath_at_store = stop_once;
		assert_true(fastpath_run(&step));
		fastpath_at_store = NULL;
		stopped = times >= stop_after;
		while (fastpath_next_cqe(midway->b.recv_cq, &cqe)) {
			assert_int_equal(cqe.status, SIMHCA_WC_SUCCESS);
			received++;
		}
		assert_int_equal(received, 1 + stopped);
		fastpath_detach(&step);
		fastpath_detach(&other);
		teardown(state);
	}
	assert_true(stop_after > 20);
}

/* A program that sleeps until an event tells it of completions. */
static struct {
	struct cq *cq;
	int ends[2];
	uint32_t arm;
	unsigned int events, polled, asked; /* asked: polled completions that ask for an event */
} sleeper;

static void sleeper_polls(void)
{
	struct simhca_cqe cqe;

	while (fastpath_next_cqe(sleeper.cq, &cqe)) {
		sleeper.polled++;
		sleeper.asked += (cqe.flags & SIMHCA_CQE_SOLICITED) != 0;
	}
}

static void sleeper_arms(void)
{
	cq_arm(sleeper.cq, sleeper.arm);
	sleeper_polls();
}

static void sleeper_reads_events(void)
{
	unsigned int events = fastpath_read_channel(sleeper.ends, sleeper.cq) + fastpath_raised;

	fastpath_raised = 0;
	if (!events)
		return;
	assert_int_equal(1, events);
	sleeper_polls();
	/* What one tells of may have been polled before: it was armed after the CQE was there. */
	assert_in_range(++sleeper.events, 1, sleeper.polled);
	sleeper_arms();
}

static bool by_device;

/* In the middle of another's step: a message that asks for an event. */
static void the_other_asks_for_an_event(void)
{
	struct simhca_sge from = sge(others_side->mr, 0, LENGTH);
	struct wr wr = ud_wr(others_side, others_side->peer);

	if (++times != stop_after)
		return;
	fastpath_at_store = NULL;
	wr.flags |= SIMHCA_WQE_SOLICITED;
	wr.sges = &from;
	wr.num_sge = 1;
	qp_put(others_side->qp, &wr);
	if (by_device)
		ud_ring(others_side);
	else
		assert_true(fastpath_run(others_step));
	sleeper_reads_events();
}

/*
 * Between any two stores of the one the other completes at once, and may be held up by the CQE that the
 * one has reserved. An event tells of what can be polled; and of what asks for one there is an event.
 */
static void an_event_tells_of_what_can_be_polled(void **state)
{
	static const uint32_t arms[] = { SIMHCA_ARM_NEXT, SIMHCA_ARM_SOLICITED };

	for (int way = 0; way < 4; way++) {
		bool stopped = true;

		by_device = way % 2;
		for (stop_after = 1; stopped; stop_after++) {
			struct simhca_step step, other;

			fastpath_setup(state);
			midway = ud_pair(*state);
			others_side = ud_another(midway);
			step = fastpath_attach(&midway->a);
			other = fastpath_attach(others_side);
			others_step = &other;
			sleeper.cq = midway->b.recv_cq;
			sleeper.cq->on_event = fastpath_count_event;
			sleeper.arm = arms[way / 2];
			sleeper.events = sleeper.polled = sleeper.asked = fastpath_raised = 0;
			fastpath_open_channel(&step.peer.recv_notify, sleeper.cq, sleeper.ends);
			other.peer.recv_notify = step.peer.recv_notify;
			ud_receive(midway, 0);
			ud_receive(midway, 1);
			sleeper_arms();
			ud_send(&midway->a, LENGTH);
			times = 0;
			fastpath_at_store = the_other_asks_for_an_event;
			assert_true(fastpath_run(&step));
			fastpath_at_store = NULL;
			stopped = times >= stop_after;
			sleeper_reads_events();
			assert_int_equal(sleeper.asked, stopped);
			if (sleeper.arm == SIMHCA_ARM_NEXT)
				assert_int_equal(sleeper.polled, 1 + stopped);
			fastpath_close_channel(sleeper.ends);
			fastpath_detach(&step);
			fastpath_detach(&other);
			teardown(state);
		}
		assert_true(stop_after > 20);
	}
}

#define SENDERS 3u
#define EACH 3000u

static atomic_uint senders_left;

struct sender {
	struct side *side;
	struct simhca_step step;
};

static void *send_many(void *arg)
{
	struct sender *sender = arg;
	struct side *side = sender->side;
	struct simhca_cqe cqe;

	for (uint32_t sent = 0; sent < EACH; sent++) {
		*(uint64_t *)side->mr->addr = (uint64_t)side->qp->qpn << 32 | sent;
		ud_send(side, 8);
		while (!fastpath_run(&sender->step))
			sched_yield();
		while (!cq_poll(side->send_cq, &cqe))
			sched_yield();
		assert_int_equal(cqe.status, SIMHCA_WC_SUCCESS);
	}
	atomic_fetch_sub(&senders_left, 1);
	return NULL;
}

/* Of each the datagrams come in their order, and each is whole. */
static void several_at_once(void **state)
{
	struct pair *pair = ud_pair(*state);
	struct sender sender[SENDERS] = { { .side = &pair->a },
					  { .side = ud_another(pair) },
					  { .side = ud_another(pair) } };
	uint32_t from[SENDERS] = { 0 }, posted = 0, received = 0;
	pthread_t thread[SENDERS];
	struct simhca_cqe cqe;

	/*
	 * What is claimed is read before: if another has it by then it may be posted to meanwhile,
	 * and what was read is thrown away, which ThreadSanitizer cannot know.
	 */
	if (UNDER_TSAN)
		skip();
	while (posted < 64)
		ud_receive(pair, posted++);
	atomic_store(&senders_left, SENDERS);
	for (uint32_t i = 0; i < SENDERS; i++)
		sender[i].step = fastpath_attach(sender[i].side);
	for (uint32_t i = 0; i < SENDERS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, send_many, &sender[i]), 0);
	while (received < SENDERS * EACH) {
		uint64_t data;
		uint32_t i = 0;

		if (!fastpath_next_cqe(pair->b.recv_cq, &cqe)) {
			sched_yield();
			continue;
		}
		assert_int_equal(cqe.status, SIMHCA_WC_SUCCESS);
		memcpy(&data, pair->b.mr->addr + cqe.wr_id * BUFFER + SIMHCA_GRH_BYTES, 8);
		while (i < SENDERS && sender[i].side->qp->qpn != cqe.src_qpn)
			i++;
		assert_true(i < SENDERS);
		assert_int_equal(data, (uint64_t)cqe.src_qpn << 32 | from[i]++);
		ud_receive(pair, cqe.wr_id);
		received++;
	}
	for (uint32_t i = 0; i < SENDERS; i++) {
		pthread_join(thread[i], NULL);
		fastpath_detach(&sender[i].step);
	}
	assert_int_equal(atomic_load(&senders_left), 0);
	expect_none(pair->b.recv_cq);
}

/* For each claim there is one receive at most, and for what is said of others none. */
static void a_sender_that_lies(void **state)
{
	struct pair *pair = ud_pair(*state);
	struct pair *strangers = ud_pair(*state);
	struct simhca_step step = fastpath_attach(&pair->a);
	struct simhca_cqe cqe;
	uint32_t flushed = 0;

	ud_receive(pair, 0);
	ud_receive(pair, 1);
	ud_send(&pair->a, LENGTH);
	assert_true(fastpath_run(&step));
	expect(pair->b.recv_cq, 0, SUCCESS);
	expect(pair->a.send_cq, 0, SUCCESS);
	for (uint32_t i = 0; i < 10; i++) {
		step.fastpath->index = requester_of(pair->a.qp)->oldest;
		step.fastpath->before = 1000 + i;
		step.fastpath->dest = i % 2 ? pair->b.qp->qpn : strangers->b.qp->qpn;
		ud_ring(&pair->a);
		assert_int_equal(step.fastpath->dest, 0);
	}
	step.fastpath->dest = 0xffffffff;
	ud_ring(&pair->a);
	assert_int_equal(step.fastpath->dest, 0);
	check_works(strangers);
	assert_int_equal(qp_move(pair->b.qp, IBV_QPS_ERR), 0);
	run_until_idle(*state);
	while (fastpath_next_cqe(pair->b.recv_cq, &cqe)) {
		assert_int_equal(cqe.status, SIMHCA_WC_WR_FLUSH_ERR);
		flushed++;
	}
	assert_int_equal(flushed, 2);
	fastpath_detach(&step);
}

/* What it leaves claimed is the QP's, up to what the queue holds: more cannot have been posted. */
static void a_sender_that_claims_for_ever(void **state)
{
	struct pair *pair = ud_pair(*state);
	struct simhca_step step = fastpath_attach(&pair->a);

	for (uint32_t i = 0; i <= pair->b.qp->granted.rq_entries; i++) {
		assert_int_equal(qp_state(pair->b.qp), IBV_QPS_RTS);
		atomic_store(&pair->b.qp->claims->head,
			     (uint64_t)step.peer.claimant << 32 | (1000 + i));
		step.fastpath->index = requester_of(pair->a.qp)->oldest;
		step.fastpath->before = 0;
		step.fastpath->dest = pair->b.qp->qpn;
		ud_ring(&pair->a);
	}
	assert_int_equal(qp_state(pair->b.qp), IBV_QPS_ERR);
	fastpath_detach(&step);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_is_stopped_is_in_nobodys_way),
		cmocka_unit_test(an_event_tells_of_what_can_be_polled),
		HERE(several_at_once),
		HERE(a_sender_that_lies),
		HERE(a_sender_that_claims_for_ever),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
