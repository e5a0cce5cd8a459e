/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Draining a send queue (SQD), and the event that tells of a first message (COMM_EST). */
#include "harness.h"

#define RNR_NS (640 * USEC) /* min_rnr_timer 12 */

static int drain(struct qp *qp, uint8_t notify)
{
	return qp_modify(qp, SIMHCA_QP_STATE | SIMHCA_QP_EN_SQD_ASYNC_NOTIFY,
			 (struct simhca_qp_attr){ .qp_state = IBV_QPS_SQD,
						  .en_sqd_async_notify = notify });
}

static void an_idle_queue_is_drained_at_once(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_new(*state, &options);

	check_works(pair);
	assert_int_equal(0, drain(pair->a.qp, 1));
	run_until_idle(*state);
	assert_int_equal(qp_state(pair->a.qp), IBV_QPS_SQD);
	assert_int_equal(qp_query(pair->a.qp).sq_draining, 0);
	assert_int_equal(events_of(pair->a.client, pair->a.qp, IBV_EVENT_SQ_DRAINED), 1);
}

/* What has begun is finished, what has not waits for RTS. */
static void work_under_way_is_finished_first(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_new(*state, &options);

	send_from(&pair->a, 1, 0, 64); /* waits for a receive */
	run_until_idle(*state);
	assert_int_equal(0, drain(pair->a.qp, 1));
	send_from(&pair->a, 2, 0, 64);
	run_until_idle(*state);
	assert_int_equal(qp_state(pair->a.qp), IBV_QPS_SQD);
	assert_int_equal(qp_query(pair->a.qp).sq_draining, 1);
	assert_int_equal(events_of(pair->a.client, pair->a.qp, IBV_EVENT_SQ_DRAINED), 0);

	recv_into(&pair->b, 1, 0, 64);
	recv_into(&pair->b, 2, 0, 64);
	advance(*state, RNR_NS);
	expect(pair->a.send_cq, 1, SUCCESS);
	expect(pair->b.recv_cq, 1, SUCCESS);
	assert_int_equal(qp_query(pair->a.qp).sq_draining, 0);
	assert_int_equal(events_of(pair->a.client, pair->a.qp, IBV_EVENT_SQ_DRAINED), 1);

	advance(*state, SEC);
	expect_none(pair->a.send_cq);
	expect_none(pair->b.recv_cq);
	assert_int_equal(0, qp_move(pair->a.qp, IBV_QPS_RTS));
	expect(pair->a.send_cq, 2, SUCCESS);
	expect(pair->b.recv_cq, 2, SUCCESS);
	assert_int_equal(events_of(pair->a.client, pair->a.qp, IBV_EVENT_SQ_DRAINED), 1);
}

static void no_event_unless_asked_for(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_new(*state, &options);

	assert_int_equal(0, drain(pair->a.qp, 0));
	run_until_idle(*state);
	assert_int_equal(0, qp_move(pair->a.qp, IBV_QPS_RTS));
	assert_int_equal(0, qp_move(pair->a.qp, IBV_QPS_SQD));
	run_until_idle(*state);
	assert_int_equal(events_of(pair->a.client, pair->a.qp, IBV_EVENT_SQ_DRAINED), 0);
}

/* The wish is of one move to SQD, and not of the next. */
static void each_drain_is_asked_for(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_new(*state, &options);

	for (int asked = 1; asked <= 2; asked++) {
		assert_int_equal(0, drain(pair->a.qp, 1));
		run_until_idle(*state);
		assert_int_equal(qp_query(pair->a.qp).en_sqd_async_notify, 1);
		assert_int_equal(events_of(pair->a.client, pair->a.qp, IBV_EVENT_SQ_DRAINED),
				 asked);
		assert_int_equal(0, qp_move(pair->a.qp, IBV_QPS_RTS));
		assert_int_equal(0, qp_move(pair->a.qp, IBV_QPS_SQD));
		run_until_idle(*state);
		assert_int_equal(qp_query(pair->a.qp).en_sqd_async_notify, 0);
		assert_int_equal(events_of(pair->a.client, pair->a.qp, IBV_EVENT_SQ_DRAINED),
				 asked);
		assert_int_equal(0, qp_move(pair->a.qp, IBV_QPS_RTS));
	}
	check_works(pair);
}

/* A drained sender goes on receiving and answering. */
static void the_receive_side_goes_on(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_new(*state, &options);

	assert_int_equal(0, drain(pair->b.qp, 0));
	check_works(pair);
	rdma_read(&pair->a, 1, 0, 64, 0);
	expect(pair->a.send_cq, 1, SUCCESS);
}

/* In SQD the path may change: here to another QP of the same peer. */
static void a_drained_qp_takes_other_attributes(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_new(*state, &options);
	struct simhca_qp_attr attr = qp_attr_to(pair->a.qp, 1, pair->b.qp->qpn, &options);

	assert_int_equal(0, drain(pair->a.qp, 0));
	run_until_idle(*state);
	attr.timeout = 5;
	attr.retry_cnt = 1;
	attr.rnr_retry = 0;
	attr.av.hop_limit = 3;
	assert_int_equal(0, qp_modify(pair->a.qp,
				      SIMHCA_QP_TIMEOUT | SIMHCA_QP_RETRY_CNT |
					      SIMHCA_QP_RNR_RETRY | SIMHCA_QP_AV,
				      attr));
	assert_int_equal(qp_state(pair->a.qp), IBV_QPS_SQD);
	assert_int_equal(qp_query(pair->a.qp).timeout, 5);
	assert_int_equal(0, qp_move(pair->a.qp, IBV_QPS_RTS));
	send_from(&pair->a, 1, 0, 8);
	expect_why(pair->a.send_cq, 1, RNR_RETRY_EXC_ERR, PEER_NOT_READY);
}

static void the_first_message_in_rtr_establishes(void **state)
{
	static const enum ibv_qp_type kinds[] = { IBV_QPT_RC, IBV_QPT_UC };

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		struct options options = default_options(kinds[i]);
		struct pair *pair = pair_unconnected(*state, &options);

		qp_connect(pair->a.qp, 1, pair->b.qp->qpn, &options);
		qp_up_to(pair->b.qp, IBV_QPS_RTR,
			 qp_attr_to(pair->b.qp, 0, pair->a.qp->qpn, &options));
		run_until_idle(*state);
		assert_int_equal(events_of(pair->b.client, pair->b.qp, IBV_EVENT_COMM_EST), 0);
		check_works(pair);
		assert_int_equal(events_of(pair->b.client, pair->b.qp, IBV_EVENT_COMM_EST), 1);
		check_works(pair);
		assert_int_equal(events_of(pair->b.client, pair->b.qp, IBV_EVENT_COMM_EST), 1);
		assert_int_equal(events_of(pair->a.client, pair->a.qp, IBV_EVENT_COMM_EST), 0);
	}
}

static void a_first_message_in_rts_is_no_news(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_new(*state, &options);

	check_works(pair);
	assert_int_equal(events_of(pair->b.client, pair->b.qp, IBV_EVENT_COMM_EST), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_ETHERNET(an_idle_queue_is_drained_at_once),
		ON_ETHERNET(work_under_way_is_finished_first),
		ON_ETHERNET(no_event_unless_asked_for),
		ON_ETHERNET(each_drain_is_asked_for),
		ON_ETHERNET(the_receive_side_goes_on),
		ON_ETHERNET(a_drained_qp_takes_other_attributes),
		ON_ETHERNET(the_first_message_in_rtr_establishes),
		ON_ETHERNET(a_first_message_in_rts_is_no_news),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
