/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Nobody answers: time-outs of 4.096 us * 2^timeout, retry_cnt of them and one, then an error. */
#include <byteswap.h>

#include "harness.h"

static uint64_t timeout_ns(unsigned int code)
{
	return 4096ull << code;
}

/* A sender whose peer's QPN does not exist. */
static struct side *lonely(struct world *world, uint8_t timeout, uint8_t retry_cnt)
{
	struct options options = default_options(IBV_QPT_RC);
	struct side *side;

	options.timeout = timeout;
	options.retry_cnt = retry_cnt;
	side = side_new(client_new(world, 0), &options);
	qp_connect(side->qp, 1, 0x00fff0, &options);
	return side;
}

static void it_fails_after_all_time_outs_and_not_before(void **state)
{
	static const uint8_t codes[] = { 1, 2, 8, 14, 18, 21, 31 };

	for (size_t i = 0; i < ARRAY_SIZE(codes); i++) {
		for (uint8_t retries = 0; retries <= 7; retries++) {
			struct side *side = lonely(*state, codes[i], retries);

			send_from(side, 1, 0, 8);
			send_from(side, 2, 0, 8);
			recv_into(side, 3, 0, 8);
			run_until_idle(*state);
			for (unsigned int n = 0; n <= retries; n++) {
				expect_none(side->send_cq);
				advance(*state, timeout_ns(codes[i]) - 1);
				expect_none(side->send_cq);
				advance(*state, 1);
			}
			expect_why(side->send_cq, 1, RETRY_EXC_ERR, NO_RESPONSE);
			expect_why(side->send_cq, 2, WR_FLUSH_ERR, FLUSHED);
			expect_why(side->recv_cq, 3, WR_FLUSH_ERR, FLUSHED);
			assert_int_equal(qp_state(side->qp), IBV_QPS_ERR);
		}
	}
}

/* As on hardware; but the log says so, once. */
static void timeout_zero_waits_for_ever(void **state)
{
	struct side *side = lonely(*state, 0, 0);

	send_from(side, 1, 0, 8);
	for (int i = 0; i < 100; i++)
		advance(*state, 3600 * SEC);
	expect_none(side->send_cq);
	assert_int_equal(qp_state(side->qp), IBV_QPS_RTS);
	assert_int_equal(logged(*state, "the peer has no such QP; its timeout is 0"), 1);
}

/* Long before the first time-out is over it is told that nobody answers; and the time-outs are as long as ever. */
static void a_long_time_out_is_told_of(void **state)
{
	static const struct {
		uint8_t code;
		bool told;
	} rows[] = { { 20, false }, { 21, true }, { 31, true } };

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const uint64_t whole = timeout_ns(rows[i].code);
		struct side *side = lonely(*state, rows[i].code, 1);

		send_from(side, 1, 0, 8);
		advance(*state, 4 * SEC - 1);
		assert_int_equal(logged(*state, "the peer has no such QP"), i);
		advance(*state, 1);
		assert_int_equal(logged(*state, "the peer has no such QP"), i + rows[i].told);
		advance(*state, whole - 4 * SEC);
		advance(*state, whole - 1);
		expect_none(side->send_cq);
		advance(*state, 1);
		expect_why(side->send_cq, 1, RETRY_EXC_ERR, NO_RESPONSE);
		assert_int_equal(logged(*state, "the peer has no such QP"), i + 1);
	}
}

/* The same of a peer that was there and has failed: nothing ends the wait but the program. */
static void timeout_zero_and_a_peer_in_error(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair;

	options.timeout = 0;
	pair = pair_new(*state, &options);
	check_works(pair);
	assert_int_equal(0, qp_move(pair->b.qp, IBV_QPS_ERR));
	for (uint64_t id = 1; id <= 3; id++)
		send_from(&pair->a, id, 0, 8);
	advance(*state, 3600 * SEC);
	expect_none(pair->a.send_cq);
	assert_int_equal(logged(*state, "the peer's QP is in ERR; its timeout is 0"), 1);
	assert_int_equal(0, qp_move(pair->a.qp, IBV_QPS_ERR));
	expect_why(pair->a.send_cq, 1, WR_FLUSH_ERR, FLUSHED);
}

/* Lets every time-out of a default QP pass. */
static void wait_it_out(struct world *world)
{
	for (int i = 0; i < 8; i++)
		advance(world, timeout_ns(14));
}

static void every_operation_fails_this_way(void **state)
{
	static const uint8_t opcodes[] = { SIMHCA_WR_SEND,
					   SIMHCA_WR_SEND_WITH_IMM,
					   SIMHCA_WR_RDMA_WRITE,
					   SIMHCA_WR_RDMA_WRITE_WITH_IMM,
					   SIMHCA_WR_RDMA_READ,
					   SIMHCA_WR_ATOMIC_CMP_AND_SWP,
					   SIMHCA_WR_ATOMIC_FETCH_AND_ADD };

	for (size_t i = 0; i < ARRAY_SIZE(opcodes); i++) {
		struct side *side = lonely(*state, 14, 7);

		post(side, .id = i, .opcode = opcodes[i], SGES(sge(side->mr, 0, 8)),
		     .remote_addr = 0x1000, .rkey = 5);
		wait_it_out(*state);
		expect_why(side->send_cq, i, RETRY_EXC_ERR, NO_RESPONSE);
	}
}

/* Why nobody answers: the ways a peer can be absent. */
enum absence {
	NO_SUCH_QPN,
	NO_SUCH_PORT,
	PEER_RESET,
	PEER_INIT,
	PEER_ERR,
	PEER_DESTROYED,
	PEER_CONTEXT_GONE,
	PEER_OF_ANOTHER_TYPE,
	PEER_OF_SOMEBODY_ELSE,
	PORT_DOWN,
	ABSENCES,
};

/* To the program; the log says what it is, at the first time-out. */
static void every_absent_peer_looks_alike(void **state)
{
	static const char *const told[ABSENCES] = {
		[NO_SUCH_QPN] = "the peer has no such QP",
		[NO_SUCH_PORT] = "no port has this address",
		[PEER_RESET] = "the peer's QP is not in RTR or RTS yet",
		[PEER_INIT] = "the peer's QP is not in RTR or RTS yet",
		[PEER_ERR] = "the peer's QP is in ERR",
		[PEER_DESTROYED] = "the peer has no such QP",
		[PEER_CONTEXT_GONE] = "the peer has no such QP",
		[PEER_OF_ANOTHER_TYPE] = "the peer's QP is of another type",
		[PEER_OF_SOMEBODY_ELSE] = "the peer's QP is connected to another one",
		[PORT_DOWN] = "a port is down",
	};
	struct world *world = *state;

	for (int absence = 0; absence < ABSENCES; absence++) {
		struct options options = default_options(IBV_QPT_RC), other = options;
		struct pair *pair = pair_unconnected(world, &options);
		struct side *a = &pair->a, *b = &pair->b;
		struct simhca_qp_attr attr;

		if (absence == PEER_OF_ANOTHER_TYPE) {
			other.type = IBV_QPT_UC;
			b->qp = qp_new(b->client, &other, b->send_cq, b->recv_cq, NULL);
			other.qkey = 0;
			b->options = other;
		}
		attr = qp_attr_to(a->qp, 1, b->qp->qpn, &options);
		if (absence == NO_SUCH_QPN)
			attr.dest_qp_num = b->qp->qpn ^ 0x800000; /* the slot, of another time */
		if (absence == NO_SUCH_PORT) {
			if (world->infiniband)
				attr.av.dlid = 0x4444;
			else
				attr.av.dgid.raw[15] = 0x99;
		}
		forget_log(world);
		qp_up_to(a->qp, IBV_QPS_RTS, attr);
		/* Whatever else is missing may still come. */
		assert_int_equal(logged(world, "is connected to"), absence == NO_SUCH_PORT);
		attr = qp_attr_to(b->qp, 0, a->qp->qpn, &b->options);
		if (absence == PEER_OF_SOMEBODY_ELSE)
			attr.dest_qp_num = 0x123;
		if (absence == PEER_INIT)
			qp_up_to(b->qp, IBV_QPS_INIT, attr);
		else if (absence != PEER_RESET)
			qp_up_to(b->qp, IBV_QPS_RTS, attr);
		if (absence != PEER_RESET)
			recv_into(b, 7, 0, 64);
		if (absence == PEER_ERR)
			assert_int_equal(0, qp_move(b->qp, IBV_QPS_ERR));
		if (absence == PEER_DESTROYED)
			assert_int_equal(0, simhca_destroy_qp(b->client->context, b->qp->handle,
							      NULL));
		if (absence == PEER_CONTEXT_GONE)
			client_gone(b->client);
		if (absence == PORT_DOWN)
			simhca_device_set_port(world->device[1], false);

		memset(a->mr->addr, 0x66, 64);
		send_from(a, 1, 0, 64);
		run_until_idle(world);
		expect_none(a->send_cq);
		assert_int_equal(logged(world, "has no answer from"), 0);
		for (int i = 0; i < 8; i++) {
			expect_none(a->send_cq);
			advance(world, timeout_ns(14));
			assert_int_equal(logged(world, "has no answer from"), 1);
		}
		assert_int_equal(logged(world, told[absence]), absence == NO_SUCH_PORT ? 2 : 1);
		expect_why(a->send_cq, 1, RETRY_EXC_ERR, NO_RESPONSE);
		assert_true(all_bytes(b->mr->addr, 64, 0));
		if (absence == PORT_DOWN)
			simhca_device_set_port(world->device[1], true);
	}
}

/* Whoever sends without acknowledgement has no time-outs: it hears of it when it is connected. */
static void uc_towards_an_address_of_nobody(void **state)
{
	struct options options = default_options(IBV_QPT_UC);
	struct pair *pair = pair_unconnected(*state, &options);
	struct simhca_qp_attr attr = qp_attr_to(pair->a.qp, 1, pair->b.qp->qpn, &options);

	attr.av.dlid = 0x3333;
	attr.av.dgid.raw[15] = 0x99;
	qp_up_to(pair->a.qp, IBV_QPS_RTS, attr);
	assert_int_equal(logged(*state, "is connected to"), 1);
	assert_int_equal(logged(*state, "no port has this address"), 1);
}

/* A LID of no port that was not exchanged, or was converted once too often, is named as that. */
static void towards_a_lid_of_nobody(void **state)
{
	struct options options = default_options(IBV_QPT_UC);
	struct pair *pair = pair_unconnected(*state, &options);
	struct simhca_qp_attr attr = qp_attr_to(pair->a.qp, 1, pair->b.qp->qpn, &options);

	attr.av.dlid = bswap_16(attr.av.dlid);
	qp_up_to(pair->a.qp, IBV_QPS_RTS, attr);
	assert_int_equal(
		logged(*state, "no port has this LID, and with its bytes reversed one has it"), 1);
	attr.av.dlid = 0;
	qp_up_to(pair->b.qp, IBV_QPS_RTS, attr);
	assert_int_equal(logged(*state, "dlid is 0: it was not set, or not exchanged yet"), 1);
}

/* A peer that comes back in time is none the worse for it. */
static void a_late_peer_is_reached_by_a_retry(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_unconnected(*state, &options);

	qp_connect(pair->a.qp, 1, pair->b.qp->qpn, &options);
	fill(pair->a.mr->addr, 64, 8);
	send_from(&pair->a, 1, 0, 64);
	for (int i = 0; i < 6; i++)
		advance(*state, timeout_ns(14));
	qp_connect(pair->b.qp, 0, pair->a.qp->qpn, &options);
	recv_into(&pair->b, 2, 0, 64);
	expect_none(pair->a.send_cq);
	advance(*state, timeout_ns(14));
	expect(pair->a.send_cq, 1, SUCCESS);
	expect(pair->b.recv_cq, 2, SUCCESS);
	assert_true(filled(pair->b.mr->addr, 64, 8));
}

static void a_port_that_comes_back_is_reached(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_new(*state, &options);
	struct world *world = *state;

	simhca_device_set_port(world->device[0], false);
	recv_into(&pair->b, 1, 0, 64);
	send_from(&pair->a, 1, 0, 64);
	advance(*state, timeout_ns(14));
	expect_none(pair->a.send_cq);
	simhca_device_set_port(world->device[0], true);
	advance(*state, timeout_ns(14));
	expect(pair->a.send_cq, 1, SUCCESS);
}

/* The count starts again with every message that is answered. */
static void progress_restores_the_retries(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair;
	struct world *world = *state;

	options.retry_cnt = 2;
	pair = pair_new(*state, &options);
	for (uint64_t id = 0; id < 10; id++) {
		simhca_device_set_port(world->device[1], false);
		rdma_write(&pair->a, id, 0, 64, 0);
		advance(*state, timeout_ns(14));
		simhca_device_set_port(world->device[1], true);
		expect_none(pair->a.send_cq);
		advance(*state, timeout_ns(14));
		expect(pair->a.send_cq, id, SUCCESS);
	}
}

/* UC and UD do not wait for anybody. */
static void unreliable_senders_do_not_notice(void **state)
{
	static const enum ibv_qp_type kinds[] = { IBV_QPT_UC, IBV_QPT_UD };

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		struct options options = default_options(kinds[i]);
		struct pair *pair = pair_new(*state, &options);

		assert_int_equal(0, simhca_destroy_qp(pair->b.client->context, pair->b.qp->handle,
						      NULL));
		send_from(&pair->a, 1, 0, 64);
		expect(pair->a.send_cq, 1, SUCCESS);
		assert_int_equal(qp_state(pair->a.qp), IBV_QPS_RTS);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_ETHERNET(it_fails_after_all_time_outs_and_not_before),
		ON_ETHERNET(timeout_zero_waits_for_ever),
		ON_ETHERNET(a_long_time_out_is_told_of),
		ON_ETHERNET(timeout_zero_and_a_peer_in_error),
		ON_INFINIBAND(timeout_zero_and_a_peer_in_error),
		ON_ETHERNET(uc_towards_an_address_of_nobody),
		ON_INFINIBAND(uc_towards_an_address_of_nobody),
		ON_INFINIBAND(towards_a_lid_of_nobody),
		ON_ETHERNET(every_operation_fails_this_way),
		ON_ETHERNET(every_absent_peer_looks_alike),
		ON_INFINIBAND(every_absent_peer_looks_alike),
		ON_ETHERNET(a_late_peer_is_reached_by_a_retry),
		ON_ETHERNET(a_port_that_comes_back_is_reached),
		ON_ETHERNET(progress_restores_the_retries),
		ON_ETHERNET(unreliable_senders_do_not_notice),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
