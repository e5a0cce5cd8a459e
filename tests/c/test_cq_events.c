/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Arming a CQ: one event an arm, for what it was armed for and nothing else. */
#include "harness.h"

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
	settle(*state);
	cq_arm(pair->a.send_cq, SIMHCA_ARM_NEXT);
	settle(*state);
	assert_int_equal(pair->a.send_cq->events, 0);
	rdma_write(&pair->a, 2, 0, 8, 0);
	settle(*state);
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
						  .user_handle = (uintptr_t)cq, .cqe = 16 },
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
	settle(*state);
	assert_int_equal(pair->a.send_cq->events, 1);
	assert_int_equal(pair->a.recv_cq->events, 1); /* flushed */
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
		ON_ETHERNET(write_with_immediate_can_solicit),
		ON_ETHERNET(next_is_raised_by_solicited_too),
		ON_ETHERNET(the_event_clears_the_bits_only),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
