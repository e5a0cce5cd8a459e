/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* A QP in error gives back every work request, in order, and takes no other. */
#include "harness.h"

static const enum ibv_qp_type transports[] = { IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD };

static void receives_are_flushed_in_order(void **state)
{
	for (size_t t = 0; t < ARRAY_SIZE(transports); t++) {
		struct options options = default_options(transports[t]);
		struct pair *pair = pair_new(*state, &options);

		for (uint64_t id = 0; id < 20; id++)
			recv_into(&pair->a, id, 0, 64);
		assert_int_equal(0, qp_move(pair->a.qp, IBV_QPS_ERR));
		for (uint64_t id = 0; id < 20; id++) {
			struct simhca_cqe cqe =
				expect_why(pair->a.recv_cq, id, WR_FLUSH_ERR, FLUSHED);

			assert_true(cqe.flags & SIMHCA_CQE_RECV);
			assert_int_equal(cqe.qpn, pair->a.qp->qpn);
		}
		expect_none(pair->a.recv_cq);
	}
}

/* Sends that wait (here for a receiver that is not ready) are flushed, unsignaled ones too. */
static void waiting_sends_are_flushed_in_order(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_new(*state, &options);

	for (uint64_t id = 0; id < 20; id++)
		qp_post(pair->a.qp, &(struct wr){ .id = id,
						  .opcode = SIMHCA_WR_SEND,
						  .flags = id % 3 ? 0 : SIMHCA_WQE_SIGNALED,
						  SGES(sge(pair->a.mr, 0, 64)) });
	run_until_idle(*state);
	expect_none(pair->a.send_cq);
	assert_int_equal(0, qp_move(pair->a.qp, IBV_QPS_ERR));
	for (uint64_t id = 0; id < 20; id++)
		expect_why(pair->a.send_cq, id, WR_FLUSH_ERR, FLUSHED);
	expect_none(pair->a.send_cq);
	/* Its time-out and RNR timers are gone with it. */
	recv_into(&pair->b, 1, 0, 64);
	advance(*state, 100 * SEC);
	expect_none(pair->a.send_cq);
	expect_none(pair->b.recv_cq);
}

/* Sends posted before RTS never started; they come back as well. */
static void sends_of_an_early_state_are_flushed(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_unconnected(*state, &options);

	qp_up_to(pair->a.qp, IBV_QPS_RTR, qp_attr_to(pair->a.qp, 1, pair->b.qp->qpn, &options));
	send_from(&pair->a, 1, 0, 64);
	recv_into(&pair->a, 2, 0, 64);
	run_until_idle(*state);
	assert_int_equal(0, qp_move(pair->a.qp, IBV_QPS_ERR));
	expect_why(pair->a.send_cq, 1, WR_FLUSH_ERR, FLUSHED);
	expect_why(pair->a.recv_cq, 2, WR_FLUSH_ERR, FLUSHED);
}

static void requests_posted_in_error_are_flushed(void **state)
{
	for (size_t t = 0; t < ARRAY_SIZE(transports); t++) {
		struct options options = default_options(transports[t]);
		struct pair *pair = pair_new(*state, &options);

		assert_int_equal(0, qp_move(pair->a.qp, IBV_QPS_ERR));
		run_until_idle(*state);
		for (uint64_t id = 0; id < 200; id++) {
			recv_into(&pair->a, id, 0, 64);
			expect_why(pair->a.recv_cq, id, WR_FLUSH_ERR, FLUSHED);
			send_from(&pair->a, id, 0, 64);
			expect_why(pair->a.send_cq, id, WR_FLUSH_ERR, FLUSHED);
		}
	}
}

/* The failing request first with its status, then the rest flushed; those before it succeeded. */
static void the_failing_request_comes_first(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_new(*state, &options);

	for (uint64_t id = 0; id < 10; id++) {
		struct simhca_sge one = sge(pair->a.mr, 0, 8);

		if (id == 4)
			one.lkey ^= 1;
		qp_put(pair->a.qp,
		       &(struct wr){ .id = id,
				     .opcode = SIMHCA_WR_RDMA_WRITE,
				     .flags = id == 1 || id > 3 ? 0 : SIMHCA_WQE_SIGNALED,
				     .sges = &one,
				     .num_sge = 1,
				     .remote_addr = pair->b.mr->iova,
				     .rkey = pair->b.mr->rkey });
	}
	qp_ring(pair->a.qp);
	expect(pair->a.send_cq, 0, SUCCESS);
	expect(pair->a.send_cq, 2, SUCCESS);
	expect(pair->a.send_cq, 3, SUCCESS);
	expect_why(pair->a.send_cq, 4, LOC_PROT_ERR, KEY_STALE);
	for (uint64_t id = 5; id < 10; id++)
		expect_why(pair->a.send_cq, id, WR_FLUSH_ERR, FLUSHED);
	assert_int_equal(qp_state(pair->a.qp), IBV_QPS_ERR);
	assert_int_equal(qp_state(pair->b.qp), IBV_QPS_RTS);
}

/* In SQE the send queue is flushed, and the receive queue goes on. */
static void sqe_flushes_sends_only(void **state)
{
	for (size_t t = 1; t < ARRAY_SIZE(transports); t++) {
		struct options options = default_options(transports[t]);
		struct pair *pair = pair_new(*state, &options);
		struct simhca_sge bad = sge(pair->a.mr, 0, 8);
		struct wr wr = { .id = 1,
				 .opcode = SIMHCA_WR_SEND,
				 .sges = &bad,
				 .num_sge = 1,
				 .av = av_to(*state, 1, 0),
				 .dest_qpn = pair->b.qp->qpn,
				 .qkey = 0x11111111 };

		bad.lkey = 0;
		recv_into(&pair->a, 5, 0, 64);
		qp_put(pair->a.qp, &wr);
		wr.id = 2;
		qp_post(pair->a.qp, &wr);
		expect_why(pair->a.send_cq, 1, LOC_PROT_ERR, KEY_UNKNOWN);
		expect_why(pair->a.send_cq, 2, WR_FLUSH_ERR, FLUSHED);
		assert_int_equal(qp_state(pair->a.qp), IBV_QPS_SQE);
		expect_none(pair->a.recv_cq);
	}
}

/* A message under way when the receiver fails: one error there, and the sender hears of it. */
static void a_receiver_moved_to_error_fails_its_peer(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_new(*state, &options);

	recv_into(&pair->b, 1, 0, 64);
	assert_int_equal(0, qp_move(pair->b.qp, IBV_QPS_ERR));
	expect_why(pair->b.recv_cq, 1, WR_FLUSH_ERR, FLUSHED);
	send_from(&pair->a, 2, 0, 64);
	for (int i = 0; i < 8; i++)
		advance(*state, 4 * (4096ull << 14)); /* over a wire it asks less often */
	expect_why(pair->a.send_cq, 2, RETRY_EXC_ERR, NO_RESPONSE);
}

static void moving_to_error_twice_flushes_once(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_new(*state, &options);

	recv_into(&pair->a, 1, 0, 64);
	assert_int_equal(0, qp_move(pair->a.qp, IBV_QPS_ERR));
	assert_int_equal(0, qp_move(pair->a.qp, IBV_QPS_ERR));
	expect_why(pair->a.recv_cq, 1, WR_FLUSH_ERR, FLUSHED);
	assert_int_equal(0, qp_move(pair->a.qp, IBV_QPS_ERR));
	expect_none(pair->a.recv_cq);
	/* Asked for by the program: nothing to tell it. */
	assert_int_equal(events_of(pair->a.client, pair->a.qp, IBV_EVENT_QP_FATAL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_ETHERNET(receives_are_flushed_in_order),
		ON_ETHERNET(waiting_sends_are_flushed_in_order),
		ON_ETHERNET(sends_of_an_early_state_are_flushed),
		ON_ETHERNET(requests_posted_in_error_are_flushed),
		ON_ETHERNET(the_failing_request_comes_first),
		ON_ETHERNET(sqe_flushes_sends_only),
		ON_ETHERNET(a_receiver_moved_to_error_fails_its_peer),
		ON_ETHERNET(moving_to_error_twice_flushes_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
