/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Port statistics: what each kind of packet, answer and failure adds to which number, and no more.
 */
#include "harness.h"

struct stats {
	uint64_t of[SIMHCA_STATS];
};

static struct stats stats_of(struct world *world, unsigned int device)
{
	struct stats stats;

	simhca_device_stats(world->device[device], stats.of);
	return stats;
}

/* What a device has counted since; the number of pairs (stat, value) that must be all there is. */
static void counted_(struct world *world, unsigned int device, const struct stats *since,
		     const uint64_t (*expected)[2], size_t count, int line)
{
	struct stats now = stats_of(world, device);

	for (unsigned int stat = 0; stat < SIMHCA_STATS; stat++) {
		uint64_t wanted = 0;

		for (size_t i = 0; i < count; i++)
			if (expected[i][0] == stat)
				wanted = expected[i][1];
		if (now.of[stat] - since->of[stat] != wanted)
			print_error("line %d, device %u: stat %u is %llu\n", line, device, stat,
				    (unsigned long long)(now.of[stat] - since->of[stat]));
		assert_int_equal(now.of[stat] - since->of[stat], wanted);
	}
}
#define counted(world, device, since, ...)                                                         \
	counted_(world, device, since, (const uint64_t[][2]){ __VA_ARGS__ },                       \
		 ARRAY_SIZE(((const uint64_t[][2]){ __VA_ARGS__ })), __LINE__)
#define S(name, value)                                                                             \
	{                                                                                          \
		SIMHCA_STAT_##name, value                                                          \
	}

/* BTH and ICRC; with AETH an acknowledgement. */
#define PACKET 16
#define ACK (PACKET + 4)

static struct pair *pair_of(void **state, enum ibv_qp_type type)
{
	struct options options = default_options(type);

	return pair_new(*state, &options);
}

/*
 * 10,001 bytes in packets of the path MTU, the last one padded. Who may not send without end asks
 * for an acknowledgement on the way.
 */
static void a_write_and_its_acknowledgement(void **state)
{
	struct pair *pair = pair_of(state, IBV_QPT_RC);
	struct stats a = stats_of(*state, 0), b = stats_of(*state, 1);
	uint64_t mtu = 128ull << pair->a.options.path_mtu, packets = (10001 + mtu - 1) / mtu;
	uint64_t bytes = packets * PACKET + 10004 + 16, acks = pair->a.world->tick ? 2 : 1;

	rdma_write(&pair->a, 1, 0, 10001, 0);
	expect(pair->a.send_cq, 1, SUCCESS);
	counted(*state, 0, &a, S(XMIT_BYTES, bytes), S(XMIT_PACKETS, packets),
		S(RCV_BYTES, acks * ACK), S(RCV_PACKETS, acks));
	counted(*state, 1, &b, S(RCV_BYTES, bytes), S(RCV_PACKETS, packets),
		S(XMIT_BYTES, acks * ACK), S(XMIT_PACKETS, acks), S(RX_WRITE, 1));
}

/* The data come with the response. */
static void a_read_and_its_response(void **state)
{
	struct pair *pair = pair_of(state, IBV_QPT_RC);
	struct stats a = stats_of(*state, 0), b = stats_of(*state, 1);

	rdma_read(&pair->a, 1, 0, 100, 0);
	expect(pair->a.send_cq, 1, SUCCESS);
	counted(*state, 0, &a, S(XMIT_BYTES, PACKET + 16), S(XMIT_PACKETS, 1),
		S(RCV_BYTES, ACK + 100), S(RCV_PACKETS, 1));
	counted(*state, 1, &b, S(RCV_BYTES, PACKET + 16), S(RCV_PACKETS, 1),
		S(XMIT_BYTES, ACK + 100), S(XMIT_PACKETS, 1), S(RX_READ, 1));
}

static void an_atomic(void **state)
{
	struct pair *pair = pair_of(state, IBV_QPT_RC);
	struct stats a = stats_of(*state, 0), b = stats_of(*state, 1);

	post(&pair->a, .id = 1, .opcode = SIMHCA_WR_ATOMIC_FETCH_AND_ADD, .compare_add = 1,
	     SGES(sge(pair->a.mr, 0, 8)), .remote_addr = pair->b.mr->iova,
	     .rkey = pair->b.mr->rkey);
	expect(pair->a.send_cq, 1, SUCCESS);
	counted(*state, 0, &a, S(XMIT_BYTES, PACKET + 28), S(XMIT_PACKETS, 1),
		S(RCV_BYTES, ACK + 8), S(RCV_PACKETS, 1));
	counted(*state, 1, &b, S(RCV_BYTES, PACKET + 28), S(RCV_PACKETS, 1), S(XMIT_BYTES, ACK + 8),
		S(XMIT_PACKETS, 1), S(RX_ATOMIC, 1));
}

/* FETH and RETH, and an answer without data. */
static void a_flush(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct stats a, b;
	struct pair *pair;

	options.access |= SIMHCA_ACCESS_FLUSH_GLOBAL;
	options.mr_access |= SIMHCA_ACCESS_FLUSH_GLOBAL;
	pair = pair_new(*state, &options);
	a = stats_of(*state, 0);
	b = stats_of(*state, 1);
	post(&pair->a, .id = 1, .opcode = SIMHCA_WR_FLUSH, .remote_addr = pair->b.mr->iova,
	     .length = 4096, .rkey = pair->b.mr->rkey, .placement = SIMHCA_FLUSH_GLOBAL);
	expect(pair->a.send_cq, 1, SUCCESS);
	counted(*state, 0, &a, S(XMIT_BYTES, PACKET + 20), S(XMIT_PACKETS, 1), S(RCV_BYTES, ACK),
		S(RCV_PACKETS, 1));
	counted(*state, 1, &b, S(RCV_BYTES, PACKET + 20), S(RCV_PACKETS, 1), S(XMIT_BYTES, ACK),
		S(XMIT_PACKETS, 1));
}

/* Nobody acknowledges a datagram; and one that finds no receive is lost at the receiver. */
static void datagrams(void **state)
{
	struct pair *pair = pair_of(state, IBV_QPT_UD);
	struct stats a = stats_of(*state, 0), b = stats_of(*state, 1);
	uint64_t bytes = PACKET + 8 + 100;

	recv_into(&pair->b, 2, 0, 200);
	send_from(&pair->a, 1, 0, 100);
	expect(pair->a.send_cq, 1, SUCCESS);
	expect(pair->b.recv_cq, 2, SUCCESS);
	counted(*state, 0, &a, S(XMIT_BYTES, bytes), S(XMIT_PACKETS, 1));
	counted(*state, 1, &b, S(RCV_BYTES, bytes), S(RCV_PACKETS, 1));
	send_from(&pair->a, 1, 0, 100);
	expect(pair->a.send_cq, 1, SUCCESS);
	run_until_idle(*state);
	counted(*state, 0, &a, S(XMIT_BYTES, 2 * bytes), S(XMIT_PACKETS, 2));
	counted(*state, 1, &b, S(RCV_BYTES, 2 * bytes), S(RCV_PACKETS, 2), S(OUT_OF_BUFFER, 1));
}

/* Each attempt is a packet, and each refusal. */
static void a_receiver_that_is_not_ready(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair;
	struct stats a, b;

	options.rnr_retry = 2;
	options.min_rnr_timer = 1;
	pair = pair_new(*state, &options);
	a = stats_of(*state, 0);
	b = stats_of(*state, 1);
	send_from(&pair->a, 1, 0, 8);
	qp_local_inv(pair->a.qp, 2, 0); /* begins when nothing else is under way */
	for (int i = 0; i < 4; i++)
		advance(*state, 10 * USEC);
	expect(pair->a.send_cq, 1, RNR_RETRY_EXC_ERR);
	expect(pair->a.send_cq, 2, WR_FLUSH_ERR);
	counted(*state, 0, &a, S(XMIT_BYTES, 3 * (PACKET + 8)), S(XMIT_PACKETS, 3),
		S(RCV_BYTES, 3 * ACK), S(RCV_PACKETS, 3), S(RNR_NAK_RETRY, 3), S(REQ_CQE_ERROR, 1),
		S(REQ_CQE_FLUSH, 1));
	counted(*state, 1, &b, S(RCV_BYTES, 3 * (PACKET + 8)), S(RCV_PACKETS, 3),
		S(XMIT_BYTES, 3 * ACK), S(XMIT_PACKETS, 3), S(OUT_OF_BUFFER, 3));
}

/* A peer that is gone: time-outs, of which the last one is the end. */
static void a_peer_that_is_gone(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair;
	struct stats a;

	options.timeout = 1;
	options.retry_cnt = 3;
	pair = pair_new(*state, &options);
	assert_int_equal(qp_move(pair->b.qp, IBV_QPS_RESET), 0);
	a = stats_of(*state, 0);
	send_from(&pair->a, 1, 0, 8);
	for (int i = 0; i < 6; i++)
		advance(*state, 10 * USEC);
	expect(pair->a.send_cq, 1, RETRY_EXC_ERR);
	counted(*state, 0, &a, S(XMIT_BYTES, 4 * (PACKET + 8)), S(XMIT_PACKETS, 4),
		S(LOCAL_ACK_TIMEOUT, 4), S(REQ_CQE_ERROR, 1));
}

/* A wrong key: both sides count it, as requester and as responder. */
static void a_refused_access(void **state)
{
	struct pair *pair = pair_of(state, IBV_QPT_RC);
	struct stats a = stats_of(*state, 0), b = stats_of(*state, 1);

	recv_into(&pair->b, 9, 0, 8);
	post(&pair->a, .id = 1, .opcode = SIMHCA_WR_RDMA_WRITE, SGES(sge(pair->a.mr, 0, 8)),
	     .remote_addr = pair->b.mr->iova, .rkey = 0xdead00);
	expect(pair->a.send_cq, 1, REM_ACCESS_ERR);
	expect(pair->b.recv_cq, 9, WR_FLUSH_ERR);
	counted(*state, 0, &a, S(XMIT_BYTES, PACKET + 16 + 8), S(XMIT_PACKETS, 1),
		S(RCV_BYTES, ACK), S(RCV_PACKETS, 1), S(REQ_REMOTE_ACCESS, 1), S(REQ_CQE_ERROR, 1));
	counted(*state, 1, &b, S(RCV_BYTES, PACKET + 16 + 8), S(RCV_PACKETS, 1), S(XMIT_BYTES, ACK),
		S(XMIT_PACKETS, 1), S(RESP_REMOTE_ACCESS, 1), S(RESP_CQE_FLUSH, 1));
}

/* A message that is longer than the receive for it. */
static void a_receive_that_is_too_short(void **state)
{
	struct pair *pair = pair_of(state, IBV_QPT_RC);
	struct stats a = stats_of(*state, 0), b = stats_of(*state, 1);

	recv_into(&pair->b, 9, 0, 4);
	send_from(&pair->a, 1, 0, 8);
	expect(pair->a.send_cq, 1, REM_INV_REQ_ERR);
	expect(pair->b.recv_cq, 9, LOC_LEN_ERR);
	counted(*state, 0, &a, S(XMIT_BYTES, PACKET + 8), S(XMIT_PACKETS, 1), S(RCV_BYTES, ACK),
		S(RCV_PACKETS, 1), S(REQ_REMOTE_INVALID, 1), S(REQ_CQE_ERROR, 1));
	counted(*state, 1, &b, S(RCV_BYTES, PACKET + 8), S(RCV_PACKETS, 1), S(XMIT_BYTES, ACK),
		S(XMIT_PACKETS, 1), S(RESP_CQE_ERROR, 1), S(RESP_LOCAL_LENGTH, 1));
}

/* A gap, which the responder finds, and what came before. */
static void packets_out_of_sequence(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_new(*state, &options);
	struct stats a = stats_of(*state, 0), b = stats_of(*state, 1);

	requester_of(pair->a.qp)->psn_next += 5; /* as if five packets had been lost, for good */
	others_had_turns(pair->a.qp);
	rdma_write(&pair->a, 1, 0, 8, 0);
	run_until_idle(*state);
	assert_int_equal(stats_of(*state, 0).of[SIMHCA_STAT_PACKET_SEQ_ERR] -
				 a.of[SIMHCA_STAT_PACKET_SEQ_ERR],
			 1);
	assert_true(stats_of(*state, 1).of[SIMHCA_STAT_OUT_OF_SEQUENCE] >
		    b.of[SIMHCA_STAT_OUT_OF_SEQUENCE]);
	assert_int_equal(stats_of(*state, 1).of[SIMHCA_STAT_DUPLICATE_REQUEST],
			 b.of[SIMHCA_STAT_DUPLICATE_REQUEST]);

	pair = pair_new(*state, &options);
	rdma_write(&pair->a, 2, 0, 8, 0);
	expect(pair->a.send_cq, 2, SUCCESS);
	requester_of(pair->a.qp)->psn_next -= 1;
	others_had_turns(pair->a.qp);
	rdma_write(&pair->a, 2, 0, 8, 0);
	expect(pair->a.send_cq, 2, SUCCESS);
	assert_int_equal(stats_of(*state, 1).of[SIMHCA_STAT_DUPLICATE_REQUEST] -
				 b.of[SIMHCA_STAT_DUPLICATE_REQUEST],
			 1);
}

/* Nothing goes through a port that is down. */
static void a_port_that_is_down(void **state)
{
	struct world *world = *state;
	struct pair *pair = pair_of(state, IBV_QPT_UD);
	struct stats a = stats_of(world, 0);

	simhca_device_set_port(world->device[0], false);
	simhca_device_set_port(world->device[0], false);
	send_from(&pair->a, 1, 0, 8);
	expect(pair->a.send_cq, 1, SUCCESS);
	counted(world, 0, &a, S(LINK_DOWNED, 1), S(XMIT_DISCARDS, 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_ETHERNET(a_write_and_its_acknowledgement),
		ON_ETHERNET(a_read_and_its_response),
		ON_ETHERNET(an_atomic),
		ON_ETHERNET(a_flush),
		ON_ETHERNET(datagrams),
		ON_ETHERNET(a_receiver_that_is_not_ready),
		ON_ETHERNET(a_peer_that_is_gone),
		ON_ETHERNET(a_refused_access),
		ON_ETHERNET(a_receive_that_is_too_short),
		ON_ETHERNET(packets_out_of_sequence),
		ON_ETHERNET(a_port_that_is_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
