/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Arming a CQ: one event an arm, for what it was armed for and nothing else. */
#include <stdatomic.h>

#include "core/handles.h"
#include "harness.h"
#include "proto/cq.h"

static void unarmed_cqs_raise_nothing(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_new(*state, &options);

	check_works(pair);
	assert_int_equal(pair->a.send_cq->events, 0);
	assert_int_equal(pair->b.recv_cq->events, 0);
}

static void one_event_for_one_arm(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_new(*state, &options);

	for (unsigned int i = 1; i <= 5; i++) {
		cq_arm(pair->a.send_cq, SIMHCA_ARM_NEXT);
		cq_arm(pair->b.recv_cq, SIMHCA_ARM_NEXT);
		check_works(pair);
		check_works(pair);
		assert_int_equal(pair->a.send_cq->events, i);
		assert_int_equal(pair->b.recv_cq->events, i);
	}
	assert_int_equal(pair->a.recv_cq->events, 0);
	assert_int_equal(pair->b.send_cq->events, 0);
}

/* Arming twice before a completion is one arm. */
static void arms_do_not_add_up(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_new(*state, &options);

	cq_arm(pair->b.recv_cq, SIMHCA_ARM_NEXT);
	cq_arm(pair->b.recv_cq, SIMHCA_ARM_NEXT);
	check_works(pair);
	check_works(pair);
	assert_int_equal(pair->b.recv_cq->events, 1);
}

/* By the specification's rule: what was there when the CQ was armed raises nothing. */
static void completions_before_the_arm_raise_nothing(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_new(*state, &options);

	rdma_write(&pair->a, 1, 0, 8, 0);
	run_until_idle(*state);
	cq_arm(pair->a.send_cq, SIMHCA_ARM_NEXT);
	run_until_idle(*state);
	assert_int_equal(pair->a.send_cq->events, 0);
	rdma_write(&pair->a, 2, 0, 8, 0);
	run_until_idle(*state);
	assert_int_equal(pair->a.send_cq->events, 1);
}

static void a_cq_without_channel_raises_nothing(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_unconnected(*state, &options);
	struct simhca_create_cq_reply reply;
	struct cq *cq = pair->a.send_cq;

	assert_int_equal(simhca_create_cq(pair->a.client->context,
					  &(struct simhca_create_cq_req){
						  .user_handle.element = (uintptr_t)cq, .cqe = 16 },
					  &reply, NULL),
			 0);
	*cq = (struct cq){
		.client = pair->a.client,
		.handle = reply.handle,
		.cqe = reply.cqe,
		.entries = reply.entries,
		.state = client_at(pair->a.client, &reply.state),
		.ring = client_at(pair->a.client, &reply.ring),
	};
	pair->a.qp = qp_new(pair->a.client, &options, cq, cq, NULL);
	pair_connect(pair);
	cq_arm(cq, SIMHCA_ARM_NEXT);
	check_works(pair);
	assert_int_equal(cq->events, 0);
}

static void send_solicited(struct pair *pair, uint64_t id, uint8_t flags)
{
	recv_into(&pair->b, id, 0, 64);
	qp_post(pair->a.qp, &(struct wr){ .id = id,
					  .opcode = SIMHCA_WR_SEND,
					  .flags = SIMHCA_WQE_SIGNALED | flags,
					  SGES(sge(pair->a.mr, 0, 8)) });
	expect(pair->a.send_cq, id, SUCCESS);
	assert_int_equal(!!(expect(pair->b.recv_cq, id, SUCCESS).flags & SIMHCA_CQE_SOLICITED),
			 !!(flags & SIMHCA_WQE_SOLICITED));
}

static void solicited_waits_for_a_solicited_message(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_new(*state, &options);

	cq_arm(pair->b.recv_cq, SIMHCA_ARM_SOLICITED);
	send_solicited(pair, 1, 0);
	send_solicited(pair, 2, 0);
	assert_int_equal(pair->b.recv_cq->events, 0);
	send_solicited(pair, 3, SIMHCA_WQE_SOLICITED);
	assert_int_equal(pair->b.recv_cq->events, 1);
	send_solicited(pair, 4, SIMHCA_WQE_SOLICITED);
	assert_int_equal(pair->b.recv_cq->events, 1);
}

/* The sender's own completion is not solicited by its own bit. */
static void a_sender_does_not_solicit_itself(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_new(*state, &options);

	cq_arm(pair->a.send_cq, SIMHCA_ARM_SOLICITED);
	send_solicited(pair, 1, SIMHCA_WQE_SOLICITED);
	assert_int_equal(pair->a.send_cq->events, 0);
}

static void an_error_counts_as_solicited(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_new(*state, &options);

	cq_arm(pair->a.send_cq, SIMHCA_ARM_SOLICITED);
	cq_arm(pair->a.recv_cq, SIMHCA_ARM_SOLICITED);
	recv_into(&pair->a, 7, 0, 8);
	post(&pair->a, .id = 1, .opcode = SIMHCA_WR_RDMA_WRITE, SGES(sge(pair->a.mr, 0, 8)),
	     .remote_addr = pair->b.mr->iova, .rkey = pair->b.mr->rkey ^ 1);
	run_until_idle(*state);
	assert_int_equal(pair->a.send_cq->events, 1);
	assert_int_equal(pair->a.recv_cq->events, 1); /* flushed */
}

/* A receive that fails says what the sender asked for, as one that succeeds. */
static void a_failed_receive_says_whether_it_was_solicited(void **state)
{
	static const uint8_t flags[] = { 0, SIMHCA_WQE_SOLICITED };

	for (unsigned int i = 0; i < ARRAY_SIZE(flags); i++) {
		struct options options = default_options(IBV_QPT_RC);
		struct pair *pair = pair_new(*state, &options);

		recv_into(&pair->b, 1, 0, 7);
		qp_post(pair->a.qp, &(struct wr){ .id = 1,
						  .opcode = SIMHCA_WR_SEND,
						  .flags = flags[i],
						  SGES(sge(pair->a.mr, 0, 8)) });
		assert_int_equal(!!(expect(pair->b.recv_cq, 1, LOC_LEN_ERR).flags &
				    SIMHCA_CQE_SOLICITED),
				 !!flags[i]);
	}
}

static void write_with_immediate_can_solicit(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_new(*state, &options);

	cq_arm(pair->b.recv_cq, SIMHCA_ARM_SOLICITED);
	recv_into(&pair->b, 1, 0, 8);
	recv_into(&pair->b, 2, 0, 8);
	for (uint64_t id = 1; id <= 2; id++) {
		qp_post(pair->a.qp, &(struct wr){ .id = id,
						  .opcode = SIMHCA_WR_RDMA_WRITE_WITH_IMM,
						  .flags = SIMHCA_WQE_SIGNALED |
							   (id == 2 ? SIMHCA_WQE_SOLICITED : 0),
						  SGES(sge(pair->a.mr, 0, 8)),
						  .remote_addr = pair->b.mr->iova,
						  .rkey = pair->b.mr->rkey });
		expect(pair->a.send_cq, id, SUCCESS);
		assert_int_equal(pair->b.recv_cq->events, id - 1);
	}
}

static void next_is_raised_by_solicited_too(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_new(*state, &options);

	cq_arm(pair->b.recv_cq, SIMHCA_ARM_NEXT);
	send_solicited(pair, 1, SIMHCA_WQE_SOLICITED);
	assert_int_equal(pair->b.recv_cq->events, 1);
}

/* The event leaves the arm count as it was and takes the bits away. */
static void the_event_clears_the_bits_only(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_new(*state, &options);
	struct cq *cq = pair->b.recv_cq;
	uint32_t armed;

	for (int i = 0; i < 10; i++) {
		cq_arm(cq, SIMHCA_ARM_NEXT);
		armed = atomic_load(&cq->state->arm);
		check_works(pair);
		assert_int_equal(atomic_load(&cq->state->arm), armed & ~(uint32_t)SIMHCA_ARM_BITS);
	}
}

/* ----------------------------------------------------------------------- event at arm */

static int setup_event_at_arm(void **state)
{
	*state = world_new(&(struct world_config){ .device = { .event_at_arm = true } });
	return 0;
}

#define ON_EVENT_AT_ARM(test) cmocka_unit_test_setup_teardown(test, setup_event_at_arm, teardown)

/* As a provider does it: arm, and tell the device. */
static void arm_and_notify(struct cq *cq, uint32_t bits)
{
	cq_arm(cq, bits);
	assert_int_equal(simhca_arm_cq(cq->client->context, cq->handle, NULL), 0);
}

static void what_is_there_raises_an_event_at_once(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_new(*state, &options);
	struct cq *cq = pair->a.send_cq;

	arm_and_notify(cq, SIMHCA_ARM_NEXT);
	assert_int_equal(cq->events, 0);
	rdma_write(&pair->a, 1, 0, 8, 0);
	run_until_idle(*state);
	assert_int_equal(cq->events, 1);
	for (unsigned int i = 2; i < 5; i++) {
		arm_and_notify(cq, SIMHCA_ARM_NEXT);
		assert_int_equal(cq->events, i);
		assert_int_equal(atomic_load(&cq->state->arm) & SIMHCA_ARM_BITS, 0);
	}
	expect(cq, 1, SUCCESS);
	arm_and_notify(cq, SIMHCA_ARM_NEXT);
	assert_int_equal(cq->events, 4);
}

/* Armed for solicited completions: only if one of those waits, wherever in the CQ. */
static void only_a_solicited_one_counts_for_a_solicited_arm(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_new(*state, &options);
	struct cq *cq = pair->b.recv_cq;

	for (uint64_t id = 1; id <= 4; id++) {
		recv_into(&pair->b, id, 0, 64);
		qp_post(pair->a.qp, &(struct wr){ .id = id,
						  .opcode = SIMHCA_WR_SEND,
						  .flags = SIMHCA_WQE_SIGNALED |
							   (id == 2 ? SIMHCA_WQE_SOLICITED : 0),
						  SGES(sge(pair->a.mr, 0, 8)) });
		expect(pair->a.send_cq, id, SUCCESS);
		arm_and_notify(cq, SIMHCA_ARM_SOLICITED);
		/* The second one itself uses up the first arm. */
		assert_int_equal(cq->events, id == 1 ? 0 : id);
	}
	expect(cq, 1, SUCCESS);
	arm_and_notify(cq, SIMHCA_ARM_SOLICITED);
	assert_int_equal(cq->events, 5);
	expect(cq, 2, SUCCESS);
	arm_and_notify(cq, SIMHCA_ARM_SOLICITED);
	assert_int_equal(cq->events, 5);
	arm_and_notify(cq, SIMHCA_ARM_NEXT);
	assert_int_equal(cq->events, 6);
}

static void other_devices_refuse_to_be_told(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_new(*state, &options);
	struct cq *cq = pair->a.send_cq;

	assert_int_equal(simhca_arm_cq(cq->client->context, cq->handle, NULL), -EINVAL);
	assert_int_equal(simhca_arm_cq(cq->client->context, 12345, NULL), -ENOENT);
}

/* ------------------------------------------------------------------------- moderation */

static int moderate(struct cq *cq, uint32_t count, uint32_t period)
{
	struct simhca_modify_cq_req req = { .handle = cq->handle,
					    .count = count,
					    .period = period };

	return simhca_modify_cq(cq->client->context, &req, NULL);
}

static void one_write(struct pair *pair)
{
	rdma_write(&pair->a, 1, 0, 8, 0);
	expect(pair->a.send_cq, 1, SUCCESS);
}

static void an_event_waits_for_the_count(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_new(*state, &options);
	struct cq *cq = pair->a.send_cq;

	assert_int_equal(moderate(cq, 3, 1000), 0);
	for (unsigned int round = 0; round < 4; round++) {
		cq_arm(cq, SIMHCA_ARM_NEXT);
		one_write(pair);
		one_write(pair);
		assert_int_equal(cq->events, round);
		one_write(pair);
		assert_int_equal(cq->events, round + 1);
		assert_int_equal(atomic_load(&cq->state->arm) & SIMHCA_ARM_BITS, 0);
		advance(*state, 5 * MSEC); /* the period is over, and nothing is held */
		assert_int_equal(cq->events, round + 1);
	}
}

static void the_period_bounds_the_wait(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_new(*state, &options);
	struct cq *cq = pair->a.send_cq;

	assert_int_equal(moderate(cq, 100, 1000), 0);
	for (unsigned int round = 0; round < 3; round++) {
		cq_arm(cq, SIMHCA_ARM_NEXT);
		advance(*state, 5 * MSEC); /* it begins with the first completion, not before */
		assert_int_equal(cq->events, round);
		one_write(pair);
		advance(*state, 600 * USEC);
		one_write(pair);
		assert_int_equal(cq->events, round);
		advance(*state, 401 * USEC); /* the second one does not begin it anew */
		assert_int_equal(cq->events, round + 1);
		advance(*state, 5 * MSEC);
		assert_int_equal(cq->events, round + 1);
	}
}

/* What comes while the CQ is not armed is no part of a batch. */
static void only_what_fits_the_arm_is_counted(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_new(*state, &options);
	struct cq *cq = pair->b.recv_cq;

	assert_int_equal(moderate(cq, 2, 1000), 0);
	send_solicited(pair, 1, SIMHCA_WQE_SOLICITED);
	send_solicited(pair, 2, SIMHCA_WQE_SOLICITED);
	advance(*state, 5 * MSEC);
	assert_int_equal(cq->events, 0);
	cq_arm(cq, SIMHCA_ARM_SOLICITED);
	send_solicited(pair, 3, 0);
	send_solicited(pair, 4, 0);
	advance(*state, 5 * MSEC);
	assert_int_equal(cq->events, 0);
	send_solicited(pair, 5, SIMHCA_WQE_SOLICITED);
	send_solicited(pair, 6, 0);
	assert_int_equal(cq->events, 0);
	send_solicited(pair, 7, SIMHCA_WQE_SOLICITED);
	assert_int_equal(cq->events, 1);
}

static void without_count_or_period_nothing_waits(void **state)
{
	static const uint32_t off[][2] = { { 0, 0 }, { 0, 100 }, { 100, 0 }, { 1, 100 } };
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_new(*state, &options);
	struct cq *cq = pair->a.send_cq;

	for (unsigned int i = 0; i < ARRAY_SIZE(off); i++) {
		assert_int_equal(moderate(cq, off[i][0], off[i][1]), 0);
		cq_arm(cq, SIMHCA_ARM_NEXT);
		one_write(pair);
		assert_int_equal(cq->events, i + 1);
	}
}

/* An event that waits by the old rule is raised. */
static void a_change_does_not_leave_an_event_behind(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_new(*state, &options);
	struct cq *cq = pair->a.send_cq;

	assert_int_equal(moderate(cq, 100, 60000), 0);
	cq_arm(cq, SIMHCA_ARM_NEXT);
	one_write(pair);
	assert_int_equal(cq->events, 0);
	assert_int_equal(moderate(cq, 0, 0), 0);
	assert_int_equal(cq->events, 1);
	advance(*state, 100 * MSEC);
	assert_int_equal(cq->events, 1);
}

static void moderation_has_limits(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_new(*state, &options);
	struct cq *cq = pair->a.send_cq;

	assert_int_equal(moderate(cq, SIMHCA_MAX_CQ_COUNT, SIMHCA_MAX_CQ_PERIOD), 0);
	assert_int_equal(moderate(cq, SIMHCA_MAX_CQ_COUNT + 1, 1), -EINVAL);
	assert_int_equal(moderate(cq, 1, SIMHCA_MAX_CQ_PERIOD + 1), -EINVAL);
	cq_arm(cq, SIMHCA_ARM_NEXT);
	one_write(pair);
	advance(*state, 65534 * USEC);
	assert_int_equal(cq->events, 0);
	advance(*state, 2 * USEC);
	assert_int_equal(cq->events, 1);
}

/* A CQ may go while an event is held back. */
static void a_cq_goes_with_a_period_under_way(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_new(*state, &options);
	struct cq *cq = pair->a.send_cq;

	assert_int_equal(moderate(cq, 100, 1000), 0);
	cq_arm(cq, SIMHCA_ARM_NEXT);
	one_write(pair);
	assert_int_equal(
		patiently(simhca_destroy_qp(pair->a.client->context, pair->a.qp->handle, NULL)), 0);
	assert_int_equal(patiently(simhca_destroy_cq(pair->a.client->context, cq->handle, NULL)),
			 0);
	advance(*state, 5 * MSEC);
	assert_int_equal(cq->events, 0);
}

/* In real time: whatever the count, each event comes, and an engine that sleeps wakes for it. */
static void the_period_ends_in_real_time(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_new(*state, &options);
	struct cq *cq = pair->a.send_cq;

	assert_int_equal(moderate(cq, 1000, 2000), 0);
	for (unsigned int round = 1; round <= 20; round++) {
		cq_arm(cq, SIMHCA_ARM_NEXT);
		one_write(pair);
		for (int i = 0; i < 100000 && cq->events < round; i++)
			test_nap(100);
		assert_int_equal(cq->events, round);
	}
}

static void write_to_itself(struct qp *qp, struct mr *mr)
{
	qp_post(qp, &(struct wr){ .id = 1,
				  .opcode = SIMHCA_WR_RDMA_WRITE,
				  .flags = SIMHCA_WQE_SIGNALED,
				  .remote_addr = mr->iova,
				  .rkey = mr->rkey,
				  SGES(sge(mr, 0, 8)) });
}

static void await_events(struct cq *cq, unsigned int count)
{
	for (int i = 0; i < 100000 && cq->events < count; i++)
		test_nap(100);
	assert_int_equal(cq->events, count);
}

/*
 * CQs whose period ends at any moment: while it is changed, while the ring moves, while the CQ is
 * destroyed. Each arm's event comes, once, and none for a CQ that has gone.
 */
static void periods_end_while_cqs_change_and_go(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct client *client = client_new(*state, 0);
	struct mr *mr = mr_new(client, 64, ALL_ACCESS);
	uint64_t seed = 4711;

	for (unsigned int round = 0; round < 100; round++) {
		struct cq *cq = cq_new(client, 16);
		struct qp *qp = qp_new(client, &options, cq, cq, NULL);
		unsigned int events;

		qp_connect(qp, 0, qp->qpn, &options);
		for (unsigned int i = 0; i < 8; i++) {
			assert_int_equal(
				moderate(cq, test_random(&seed) % 4, test_random(&seed) % 100), 0);
			cq_arm(cq, SIMHCA_ARM_NEXT);
			write_to_itself(qp, mr);
			if (test_random(&seed) % 2)
				assert_int_equal(cq_resize(cq, 8 + test_random(&seed) % 64), 0);
			if (test_random(&seed) % 2)
				assert_int_equal(moderate(cq, 5, test_random(&seed) % 50), 0);
			expect(cq, 1, SUCCESS);
			await_events(cq, i + 1);
		}
		assert_int_equal(moderate(cq, 5, 1 + test_random(&seed) % 60), 0);
		cq_arm(cq, SIMHCA_ARM_NEXT);
		write_to_itself(qp, mr);
		expect(cq, 1, SUCCESS);
		assert_int_equal(patiently(simhca_destroy_qp(client->context, qp->handle, NULL)),
				 0);
		assert_int_equal(patiently(simhca_destroy_cq(client->context, cq->handle, NULL)),
				 0);
		events = cq->events;
		assert_true(events == 8 || events == 9);
		if (round % 10 == 0)
			test_nap(200);
		assert_int_equal(cq->events, events);
	}
}

/* ------------------------------------------------ an engine that is just raising an event */

struct ending {
	atomic_bool hold, entered, go_on;
};

static void hold_the_engine(struct cq *cq, void *arg)
{
	struct ending *ending = arg;

	if (!atomic_load(&ending->hold))
		return;
	atomic_store(&ending->entered, true);
	for (int i = 0; i < 100000 && !atomic_load(&ending->go_on); i++)
		test_nap(100);
}

/* The timer is no longer in its engine's hands, and not yet done with the CQ: that has to stay. */
static void a_cq_stays_while_its_period_ends(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct client *client = client_new(*state, 0);
	struct mr *mr = mr_new(client, 64, ALL_ACCESS);
	struct ending *ending = world_alloc(*state, sizeof(*ending));
	bool shown = false;

	/* Should the period be over before the QP has gone: once more. */
	for (int round = 0; round < 50 && !shown; round++) {
		struct cq *cq = cq_new(client, 16);
		struct qp *qp = qp_new(client, &options, cq, cq, NULL);

		atomic_store(&ending->hold, false);
		atomic_store(&ending->entered, false);
		atomic_store(&ending->go_on, false);
		cq->on_event = hold_the_engine;
		cq->on_event_arg = ending;
		qp_connect(qp, 0, qp->qpn, &options);
		assert_int_equal(moderate(cq, 100, 20000), 0);
		cq_arm(cq, SIMHCA_ARM_NEXT);
		write_to_itself(qp, mr);
		expect(cq, 1, SUCCESS);
		assert_int_equal(patiently(simhca_destroy_qp(client->context, qp->handle, NULL)),
				 0);
		atomic_store(&ending->hold, true);
		await_events(cq, 1);
		for (int i = 0; i < 100 && !atomic_load(&ending->entered); i++)
			test_nap(100);
		shown = atomic_load(&ending->entered);
		if (shown)
			assert_int_equal(simhca_destroy_cq(client->context, cq->handle, NULL),
					 -EAGAIN);
		atomic_store(&ending->go_on, true);
		assert_int_equal(patiently(simhca_destroy_cq(client->context, cq->handle, NULL)),
				 0);
	}
	assert_true(shown);
}

/* An event is a system call: it is raised when the CQ's lock has been let go of. */
static void takes_the_lock(struct cq *cq, void *arg)
{
	struct simhca_cq *model =
		simhca_object(cq->client->context, SIMHCA_OBJ_CQ, cq->handle, NULL);

	if (pthread_mutex_trylock(&model->lock))
		return;
	pthread_mutex_unlock(&model->lock);
	++*(unsigned int *)arg;
}

static void events_are_raised_without_the_lock(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_new(*state, &options);
	struct cq *cq = pair->a.send_cq;
	struct simhca_modify_cq_req req = { .handle = cq->handle, .count = 2, .period = 10 };
	unsigned int events = 0;

	cq->on_event = takes_the_lock;
	cq->on_event_arg = &events;
	cq_arm(cq, SIMHCA_ARM_NEXT);
	rdma_write(&pair->a, 1, 0, 8, 0);
	expect(cq, 1, SUCCESS);
	assert_int_equal(events, 1);
	/* by the count, by the period, and as the moderation ends */
	for (int how = 0; how < 3; how++) {
		req.count = 2;
		assert_int_equal(0, simhca_modify_cq(cq->client->context, &req, NULL));
		cq_arm(cq, SIMHCA_ARM_NEXT);
		for (int i = 0; i < (how ? 1 : 2); i++) {
			rdma_write(&pair->a, 1, 0, 8, 0);
			expect(cq, 1, SUCCESS);
		}
		if (how == 1)
			advance(*state, 10 * USEC);
		req.count = 0;
		if (how == 2)
			assert_int_equal(0, simhca_modify_cq(cq->client->context, &req, NULL));
		assert_int_equal(events, 2 + how);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_ETHERNET(unarmed_cqs_raise_nothing),
		ON_ETHERNET(one_event_for_one_arm),
		ON_ETHERNET(arms_do_not_add_up),
		ON_ETHERNET(completions_before_the_arm_raise_nothing),
		ON_ETHERNET(a_cq_without_channel_raises_nothing),
		ON_ETHERNET(solicited_waits_for_a_solicited_message),
		ON_ETHERNET(a_sender_does_not_solicit_itself),
		ON_ETHERNET(an_error_counts_as_solicited),
		ON_ETHERNET(a_failed_receive_says_whether_it_was_solicited),
		ON_ETHERNET(write_with_immediate_can_solicit),
		ON_ETHERNET(next_is_raised_by_solicited_too),
		ON_ETHERNET(the_event_clears_the_bits_only),
		ON_EVENT_AT_ARM(what_is_there_raises_an_event_at_once),
		ON_EVENT_AT_ARM(only_a_solicited_one_counts_for_a_solicited_arm),
		ON_ETHERNET(other_devices_refuse_to_be_told),
		ON_ETHERNET(an_event_waits_for_the_count),
		ON_ETHERNET(the_period_bounds_the_wait),
		ON_ETHERNET(only_what_fits_the_arm_is_counted),
		ON_ETHERNET(without_count_or_period_nothing_waits),
		ON_ETHERNET(a_change_does_not_leave_an_event_behind),
		ON_ETHERNET(moderation_has_limits),
		ON_ETHERNET(a_cq_goes_with_a_period_under_way),
		ON_ETHERNET(events_are_raised_without_the_lock),
		ON_ONE_THREAD(the_period_ends_in_real_time),
		ON_TWO_THREADS(the_period_ends_in_real_time),
		ON_ONE_THREAD(periods_end_while_cqs_change_and_go),
		ON_TWO_THREADS(periods_end_while_cqs_change_and_go),
		ON_ONE_THREAD(a_cq_stays_while_its_period_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
