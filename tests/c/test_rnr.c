/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* A receiver that is not ready: RNR NAK, its timer, and how often the requester tries again. */
#include "harness.h"

/* IBTA vol. 1, table 45: the time coded by each value, in units of 10 us. */
static const uint32_t table[32] = { 65536, 1,	 2,    3,     4,     6,	    8,	   12,
				    16,	   24,	 32,   48,    64,    96,    128,   192,
				    256,   384,	 512,  768,   1024,  1536,  2048,  3072,
				    4096,  6144, 8192, 12288, 16384, 24576, 32768, 49152 };

static uint64_t timer_ns(unsigned int code)
{
	return table[code] * 10 * USEC;
}

static struct pair *pair_with(struct world *world, uint8_t rnr_retry, uint8_t min_rnr_timer)
{
	struct options options = default_options(IBV_QPT_RC);

	options.rnr_retry = rnr_retry;
	options.min_rnr_timer = min_rnr_timer;
	return pair_new(world, &options);
}

/* The time that the responder asks for passes before the request is sent again, for all 32 codes.
 */
static void the_requester_waits_as_long_as_told(void **state)
{
	for (unsigned int code = 0; code < 32; code++) {
		struct pair *pair = pair_with(*state, 7, (uint8_t)code);

		fill(pair->a.mr->addr, 100, code);
		send_from(&pair->a, 1, 0, 100);
		run_until_idle(*state);
		recv_into(&pair->b, 2, 0, 100);
		expect_none(pair->b.recv_cq);
		advance(*state, timer_ns(code) - 1);
		expect_none(pair->b.recv_cq);
		expect_none(pair->a.send_cq);
		advance(*state, 1);
		expect(pair->a.send_cq, 1, SUCCESS);
		expect(pair->b.recv_cq, 2, SUCCESS);
		assert_true(filled(pair->b.mr->addr, 100, code));
	}
}

/* It is the responder's timer that counts, not the requester's own. */
static void the_responders_timer_counts(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_unconnected(*state, &options);

	pair->a.options.min_rnr_timer = 1;
	pair->b.options.min_rnr_timer = 20;
	pair_connect(pair);
	send_from(&pair->a, 1, 0, 100);
	run_until_idle(*state);
	recv_into(&pair->b, 2, 0, 100);
	advance(*state, timer_ns(20) - 1);
	expect_none(pair->a.send_cq);
	advance(*state, 1);
	expect(pair->a.send_cq, 1, SUCCESS);
}

static void it_gives_up_after_its_retries(void **state)
{
	for (uint8_t retries = 0; retries < 7; retries++) {
		struct pair *pair = pair_with(*state, retries, 14);

		recv_into(&pair->a, 9, 0, 8);
		send_from(&pair->a, 1, 0, 100);
		send_from(&pair->a, 2, 0, 100);
		run_until_idle(*state);
		for (unsigned int i = 0; i < retries; i++) {
			expect_none(pair->a.send_cq);
			advance(*state, timer_ns(14) - 1);
			expect_none(pair->a.send_cq);
			advance(*state, 1);
		}
		expect_why(pair->a.send_cq, 1, RNR_RETRY_EXC_ERR, PEER_NOT_READY);
		expect_why(pair->a.send_cq, 2, WR_FLUSH_ERR, FLUSHED);
		expect_why(pair->a.recv_cq, 9, WR_FLUSH_ERR, FLUSHED);
		assert_int_equal(qp_state(pair->a.qp), IBV_QPS_ERR);
		/* The responder did nothing wrong. */
		assert_int_equal(qp_state(pair->b.qp), IBV_QPS_RTS);
	}
}

static void seven_means_for_ever(void **state)
{
	struct pair *pair = pair_with(*state, 7, 14);

	send_from(&pair->a, 1, 0, 100);
	for (int i = 0; i < 10000; i++)
		advance(*state, timer_ns(14));
	expect_none(pair->a.send_cq);
	assert_int_equal(qp_state(pair->a.qp), IBV_QPS_RTS);
	recv_into(&pair->b, 2, 0, 100);
	advance(*state, timer_ns(14));
	expect(pair->a.send_cq, 1, SUCCESS);
	expect(pair->b.recv_cq, 2, SUCCESS);
}

/* The count starts again with every message that gets through. */
static void progress_restores_the_retries(void **state)
{
	struct pair *pair = pair_with(*state, 2, 14);

	/* The others are under way meanwhile, if the link lets them be. */
	for (uint64_t id = 0; id < 10; id++)
		send_from(&pair->a, id, 0, 100);
	for (uint64_t id = 0; id < 10; id++) {
		run_until_idle(*state);
		advance(*state, timer_ns(14));
		recv_into(&pair->b, id, 0, 100);
		advance(*state, timer_ns(14));
		expect(pair->a.send_cq, id, SUCCESS);
		expect(pair->b.recv_cq, id, SUCCESS);
	}
}

/* No transport retry is spent on a receiver that answers, if only to say that it is not ready. */
static void rnr_does_not_spend_transport_retries(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair;

	options.retry_cnt = 0;
	options.timeout = 1; /* shorter than the RNR timer */
	options.min_rnr_timer = 20;
	pair = pair_new(*state, &options);
	send_from(&pair->a, 1, 0, 100);
	for (int i = 0; i < 20; i++)
		advance(*state, timer_ns(20));
	expect_none(pair->a.send_cq);
	recv_into(&pair->b, 1, 0, 100);
	advance(*state, timer_ns(20));
	expect(pair->a.send_cq, 1, SUCCESS);
}

static void writes_with_immediate_need_a_receive(void **state)
{
	struct pair *pair = pair_with(*state, 1, 14);

	post(&pair->a, .id = 1, .opcode = SIMHCA_WR_RDMA_WRITE_WITH_IMM,
	     SGES(sge(pair->a.mr, 0, 100)), .remote_addr = pair->b.mr->iova,
	     .rkey = pair->b.mr->rkey);
	run_until_idle(*state);
	expect_none(pair->a.send_cq);
	advance(*state, timer_ns(14));
	expect_why(pair->a.send_cq, 1, RNR_RETRY_EXC_ERR, PEER_NOT_READY);
}

/* What needs no receive request is not held up for want of one, nor overtakes one that is. */
static void others_neither_wait_nor_overtake(void **state)
{
	struct pair *pair = pair_with(*state, 7, 14);

	fill(pair->a.mr->addr, 64, 1);
	rdma_write(&pair->a, 1, 0, 64, 4096);
	expect(pair->a.send_cq, 1, SUCCESS);
	send_from(&pair->a, 2, 0, 64);
	rdma_write(&pair->a, 3, 0, 64, 8192);
	run_until_idle(*state);
	expect_none(pair->a.send_cq);
	assert_true(all_bytes(pair->b.mr->addr + 8192, 64, 0));
	recv_into(&pair->b, 2, 0, 64);
	advance(*state, timer_ns(14));
	expect(pair->a.send_cq, 2, SUCCESS);
	expect(pair->a.send_cq, 3, SUCCESS);
	assert_true(filled(pair->b.mr->addr + 8192, 64, 1));
}

static void an_srq_can_be_empty_too(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_unconnected(*state, &options);
	struct client *client = pair->b.client;
	struct srq *srq = srq_new(client, 8, 2, 0);
	struct simhca_sge one = sge(pair->b.mr, 0, 64);

	pair->b.qp = qp_new(client, &options, pair->b.send_cq, pair->b.recv_cq, srq);
	pair_connect(pair);
	send_from(&pair->a, 1, 0, 64);
	run_until_idle(*state);
	expect_none(pair->a.send_cq);
	srq_recv(srq, 5, &one, 1);
	advance(*state, timer_ns(options.min_rnr_timer));
	expect(pair->a.send_cq, 1, SUCCESS);
	expect(pair->b.recv_cq, 5, SUCCESS);
}

/* Many messages, a receiver that always lags: each arrives once and in order. */
static void a_lagging_receiver_gets_everything_in_order(void **state)
{
	struct pair *pair = pair_with(*state, 7, 1);
	uint64_t sent = 0, received = 0, seed = 5;

	while (received < 300) {
		while (sent < 300 && sent - received < 20) {
			*(uint64_t *)(pair->a.mr->addr + (sent % 32) * 8) = sent;
			send_from(&pair->a, sent, (sent % 32) * 8, 8);
			sent++;
		}
		if (test_random(&seed) % 2)
			advance(*state, 10 * USEC);
		recv_into(&pair->b, received, 0, 8);
		advance(*state, 10 * USEC);
		expect(pair->b.recv_cq, received, SUCCESS);
		expect(pair->a.send_cq, received, SUCCESS);
		assert_int_equal(*(uint64_t *)pair->b.mr->addr, received);
		received++;
	}
	expect_none(pair->b.recv_cq);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_ETHERNET(the_requester_waits_as_long_as_told),
		ON_ETHERNET(the_responders_timer_counts),
		ON_ETHERNET(it_gives_up_after_its_retries),
		ON_ETHERNET(seven_means_for_ever),
		ON_ETHERNET(progress_restores_the_retries),
		ON_ETHERNET(rnr_does_not_spend_transport_retries),
		ON_ETHERNET(writes_with_immediate_need_a_receive),
		ON_ETHERNET(others_neither_wait_nor_overtake),
		ON_ETHERNET(an_srq_can_be_empty_too),
		ON_ETHERNET(a_lagging_receiver_gets_everything_in_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
