/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Events of CQs whose completions the fast path publishes. */
#include <sys/socket.h>

#include "fastpath_scene.h"

static struct cq *late;
static uint32_t late_pi;

/* Arms it when the next CQE of it is reserved, after the step has looked. */
static void arm_in_step(void)
{
	if (late->state->pi == late_pi)
		return;
	cq_arm(late, SIMHCA_ARM_NEXT);
	fastpath_at_store = NULL;
}

/* So many messages, for each of which the peer's CQ is armed. */
static void carry_armed(struct pair *pair, struct simhca_step *step, unsigned int count)
{
	struct simhca_cqe cqe;

	for (unsigned int i = 0; i < count; i++) {
		cq_arm(pair->b.recv_cq, SIMHCA_ARM_NEXT);
		recv_into(&pair->b, 1, 0, 8);
		fastpath_send(pair, 8);
		assert_false(simhca_step(step));
		while (cq_poll(pair->b.recv_cq, &cqe) || cq_poll(pair->a.send_cq, &cqe))
			;
	}
}

/* The device raises the events of completions that a program publishes, or the program does so itself. */
static void who_sleeps_is_woken(struct world *world, bool by_fast_path)
{
	struct pair *pair = fastpath_rc_pair(world, false);
	struct simhca_step step = fastpath_attach(&pair->a);
	int send_ends[2] = { -1, -1 }, recv_ends[2] = { -1, -1 };
	struct {
		uint32_t arm;
		uint8_t flags;
		unsigned int events;
	} rows[] = {
		{ SIMHCA_ARM_NONE, 0, 0 },
		{ SIMHCA_ARM_NEXT, 0, 1 },
		{ SIMHCA_ARM_SOLICITED, 0, 0 },
		{ SIMHCA_ARM_SOLICITED, SIMHCA_WQE_SOLICITED, 1 },
	};

	pair->b.recv_cq->on_event = pair->a.send_cq->on_event = fastpath_count_event;
	if (by_fast_path) {
		fastpath_open_channel(&step.send_notify, pair->a.send_cq, send_ends);
		fastpath_open_channel(&step.peer.recv_notify, pair->b.recv_cq, recv_ends);
	}
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct simhca_sge from = sge(pair->a.mr, 0, 8);

		fastpath_raised = 0;
		cq_arm(pair->b.recv_cq, rows[i].arm);
		recv_into(&pair->b, 1, 0, 8);
		qp_put(pair->a.qp, &(struct wr){ .opcode = SIMHCA_WR_SEND,
						 .flags = rows[i].flags,
						 .sges = &from,
						 .num_sge = 1 });
		assert_int_equal(simhca_step(&step), by_fast_path || !rows[i].events);
		ring_doorbell(pair->a.client, pair->a.qp->doorbell);
		run_until_idle(world);
		fastpath_raised += fastpath_read_channel(recv_ends, pair->b.recv_cq);
		assert_int_equal(fastpath_raised, rows[i].events);
	}
	assert_int_equal(step.fastpath->handed[SIMHCA_SLOW_EVENT], by_fast_path ? 0 : 2);
	assert_int_equal(step.fastpath->events_raised, by_fast_path ? 2 : 0);
	cq_arm(pair->a.send_cq, SIMHCA_ARM_NEXT);
	fastpath_write(pair, 8, pair->b.mr);
	assert_int_equal(simhca_step(&step), by_fast_path);
	assert_int_equal(step.fastpath->handed[SIMHCA_SLOW_EVENT], by_fast_path ? 0 : 3);
	ring_doorbell(pair->a.client, pair->a.qp->doorbell);
	run_until_idle(world);
	assert_int_equal(fastpath_read_channel(send_ends, pair->a.send_cq), by_fast_path);

	for (int i = 0; i < 2; i++) {
		fastpath_raised = 0;
		late = i ? pair->a.send_cq : pair->b.recv_cq;
		recv_into(&pair->b, 1, 0, 8);
		fastpath_send(pair, 8);
		late_pi = late->state->pi;
		fastpath_at_store = arm_in_step;
		assert_int_equal(simhca_step(&step), by_fast_path);
		assert_null(fastpath_at_store);
		assert_int_equal(late->state->arm & SIMHCA_ARM_BITS, 0);
		cq_arm(late, SIMHCA_ARM_NEXT); /* the next one's event, not this one's */
		ring_doorbell(pair->a.client, pair->a.qp->doorbell);
		run_until_idle(world);
		assert_int_equal(fastpath_raised +
					 fastpath_read_channel(i ? send_ends : recv_ends, late),
				 1);
		assert_int_equal(late->state->arm & SIMHCA_ARM_BITS, SIMHCA_ARM_NEXT);
		atomic_store(&late->state->arm, 0);
	}
	assert_int_equal(step.fastpath->handed[SIMHCA_SLOW_EVENT], by_fast_path ? 0 : 5);
	assert_int_equal(step.fastpath->events_raised, by_fast_path ? 5 : 0);
	assert_int_equal(pair->b.recv_cq->state->events_raised, by_fast_path ? 3 : 0);
	assert_int_equal(pair->a.send_cq->state->events_raised, by_fast_path ? 2 : 0);
	assert_int_equal(step.fastpath->messages, ARRAY_SIZE(rows) + 3);
	if (by_fast_path) {
		fastpath_fill_channel(recv_ends);
		close(send_ends[1]);
		cq_arm(pair->a.send_cq, SIMHCA_ARM_NEXT);
	}

	/* Many of them, before the device hears the bell. */
	fastpath_raised = 0;
	carry_armed(pair, &step, 200);
	assert_int_equal(fastpath_raised, 0);
	ring_doorbell(pair->a.client, pair->a.qp->doorbell);
	run_until_idle(world);
	assert_int_equal(fastpath_raised, 200 + by_fast_path);

	/* Its program has the completions, and destroys the QP before that. */
	fastpath_raised = 0;
	carry_armed(pair, &step, 200);
	assert_int_equal(fastpath_raised, 0);
	assert_int_equal(
		patiently(simhca_destroy_qp(pair->a.client->context, pair->a.qp->handle, NULL)), 0);
	assert_int_equal(fastpath_raised, 200);
	fastpath_detach(&step);
	/* What found no room does not count, and neither did what nobody reads. */
	assert_int_equal(pair->b.recv_cq->state->events_raised, by_fast_path ? 3 : 0);
	assert_int_equal(pair->a.send_cq->state->events_raised, by_fast_path ? 2 : 0);
	assert_int_equal(fastpath_read_channel(recv_ends, pair->b.recv_cq), 0);
	close(send_ends[0]);
	fastpath_close_channel(recv_ends);
}

/* The peer can answer as soon as it is woken, and the answer's event comes after the message's. */
static void own_event_comes_first(void **state)
{
	struct world *world = *state;
	struct pair *pair = fastpath_rc_pair(world, false);
	struct simhca_step step = fastpath_attach(&pair->a);
	uint64_t records[2];
	int ends[2];

	fastpath_open_channel(&step.send_notify, pair->a.send_cq, ends);
	step.peer.recv_notify =
		(struct simhca_notify){ .fd = ends[0], .record = (uintptr_t)pair->b.recv_cq };
	cq_arm(pair->a.send_cq, SIMHCA_ARM_NEXT);
	cq_arm(pair->b.recv_cq, SIMHCA_ARM_NEXT);
	recv_into(&pair->b, 1, 0, 8);
	fastpath_send(pair, 8);
	assert_true(simhca_step(&step));
	assert_int_equal(recv(ends[1], records, sizeof(records), MSG_DONTWAIT), sizeof(records));
	assert_ptr_equal(records[0], pair->a.send_cq);
	assert_ptr_equal(records[1], pair->b.recv_cq);
	fastpath_close_channel(ends);
	fastpath_detach(&step);
}

static void who_sleeps_is_woken_by_the_device(void **state)
{
	who_sleeps_is_woken(*state, false);
}

static void who_sleeps_is_woken_by_the_fast_path(void **state)
{
	who_sleeps_is_woken(*state, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		HERE(who_sleeps_is_woken_by_the_device),
		HERE(who_sleeps_is_woken_by_the_fast_path),
		HERE(own_event_comes_first),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
