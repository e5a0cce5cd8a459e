/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Who may say something to a QP: over the wire its peer's address alone, and, of a QP whose peer is
 * on the wire, nobody of this host. What comes from others, is damaged, or too much, is dropped.
 */
#include "wire_scene.h"

static void from_its_peer(void **state)
{
	static const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD };

	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		struct net net = net_new(state, types[i]);
		struct simhca_packet packet = a_send(&net, 0, 100);

		comes(&net, ELSEWHERE, &packet, 0);
		run_until_idle(*state);
		expect(net.side->recv_cq, 1, SUCCESS);
		assert_int_equal(net_counts(&net).taken, i + 1);
	}
}

static void from_a_stranger(void **state)
{
	struct net net = net_new(state, IBV_QPT_RC);
	struct simhca_packet packet = a_send(&net, 0, 100);

	comes(&net, STRANGER, &packet, 0);
	run_until_idle(*state);
	expect_none(net.side->recv_cq);
	assert_int_equal(net_counts(&net).unclaimed, 1);
	/* A datagram QP hears everybody who knows its Q_Key. */
	net = net_new(state, IBV_QPT_UD);
	packet = a_send(&net, 0, 100);
	comes(&net, STRANGER, &packet, 0);
	packet.qkey++;
	comes(&net, STRANGER, &packet, 0);
	run_until_idle(*state);
	expect(net.side->recv_cq, 1, SUCCESS);
	expect_none(net.side->recv_cq);
}

static void damaged(void **state)
{
	struct net net = net_new(state, IBV_QPT_RC);
	struct simhca_packet packet = a_send(&net, 0, 100);

	comes(&net, ELSEWHERE, &packet, 0x10);
	run_until_idle(*state);
	expect_none(net.side->recv_cq);
	assert_int_equal(net_counts(&net).refused[SIMHCA_WIRE_BAD_ICRC], 1);
	assert_int_equal(net_counts(&net).taken, 0);
}

static void for_nobody(void **state)
{
	struct net net = net_new(state, IBV_QPT_RC);
	struct simhca_packet packet = a_send(&net, 0, 0);

	packet.dest_qpn ^= 1u << SIMHCA_QPN_GENERATION_SHIFT; /* of its slot, but another number */
	comes(&net, ELSEWHERE, &packet, 0);
	packet.dest_qpn = 0;
	comes(&net, ELSEWHERE, &packet, 0);
	packet.dest_qpn = SIMHCA_QPN_MASK;
	comes(&net, ELSEWHERE, &packet, 0);
	packet.dest_qpn = net.side->qp->qpn;
	packet.transport = SIMHCA_QPT_UC; /* of another service */
	comes(&net, ELSEWHERE, &packet, 0);
	packet.transport = SIMHCA_QPT_XRC_SEND;
	comes(&net, ELSEWHERE, &packet, 0);
	run_until_idle(*state);
	assert_int_equal(net_counts(&net).unclaimed, 5);
	expect_none(net.side->recv_cq);
}

/* It would count on by more PSNs than its sender. */
static void longer_than_the_mtu(void **state)
{
	struct net net = net_new(state, IBV_QPT_RC);
	struct simhca_packet packet = a_send(&net, 0, 2 * MTU);

	comes(&net, ELSEWHERE, &packet, 0);
	run_until_idle(*state);
	assert_int_equal(qp_state(net.side->qp), IBV_QPS_ERR);
	expect_why(net.side->recv_cq, 1, WR_FLUSH_ERR, FLUSHED);
	assert_true(logged(*state, simhca_reason_text(SIMHCA_REASON_PATH_MTU_DIFFERS)));
	/* A response of two MTUs is none: the read stands, until its peer is silent for too long.
	 */
	net = net_new(state, IBV_QPT_RC);
	memset(net.side->mr->addr, 0x99, 4 * MTU);
	post(net.side, .id = 2, .opcode = SIMHCA_WR_RDMA_READ, .remote_addr = 4096, .rkey = 1,
	     SGES(sge(net.side->mr, 0, 2 * MTU)));
	run_until_idle(*state);
	packet = a_send(&net, 0, 2 * MTU);
	packet.op = SIMHCA_PKT_READ_RESPONSE;
	packet.syndrome = SIMHCA_SYNDROME_ACK;
	comes(&net, ELSEWHERE, &packet, 0);
	run_until_idle(*state);
	expect_none(net.side->send_cq);
	assert_true(all_bytes(net.side->mr->addr, 2 * MTU, 0x99));
}

/* Of a flood, an inbox keeps what it has room for; the QP goes on with the rest of its life. */
static void too_many(void **state)
{
	struct net net = net_new(state, IBV_QPT_UD);
	struct simhca_packet packet = a_send(&net, 0, 100);

	for (int i = 0; i < 5000; i++)
		comes(&net, STRANGER, &packet, 0);
	assert_true(net_counts(&net).unclaimed > 3000);
	assert_true(net_counts(&net).taken > 100);
	run_until_idle(*state);
	expect(net.side->recv_cq, 1, SUCCESS);
	recv_into(net.side, 2, 0, 2048);
	comes(&net, STRANGER, &packet, 0);
	run_until_idle(*state);
	expect(net.side->recv_cq, 2, SUCCESS);
}

/* What has come before it was reset is not for its next connection. */
static void reset_meanwhile(void **state)
{
	struct net net = net_new(state, IBV_QPT_RC);
	struct simhca_packet packet = a_send(&net, 0, 100);

	comes(&net, ELSEWHERE, &packet, 0);
	assert_int_equal(0, qp_move(net.side->qp, IBV_QPS_RESET));
	comes(&net, ELSEWHERE, &packet, 0);
	assert_int_equal(net_counts(&net).unclaimed, 1);
	qp_connect(net.side->qp, ELSEWHERE, 0x123, &net.options);
	recv_into(net.side, 2, 0, 2048);
	run_until_idle(*state);
	expect_none(net.side->recv_cq);
	comes(&net, ELSEWHERE, &packet, 0);
	run_until_idle(*state);
	expect(net.side->recv_cq, 2, SUCCESS);
}

/* Peers of this host are reached by calls, and nobody passes for them from outside. */
static void a_local_peer(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct net net = { .world = *state, .options = options };
	struct pair *pair = pair_new(*state, &options);
	struct simhca_packet packet;

	net.options.psn = options.psn - FIRST_PSN;
	net.side = &pair->a;
	packet = a_send(&net, 0, 100);
	packet.psn = options.psn;
	recv_into(&pair->a, 1, 0, 2048);
	comes(&net, 1, &packet, 0);
	run_until_idle(*state);
	expect_none(pair->a.recv_cq);
	assert_int_equal(net_counts(&net).unclaimed, 1);
	check_works(pair);
}

/* Nor does a program of this host pass for a peer outside, whose QP number it has. */
static void an_impostor_of_this_host(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct side *victim = side_new(client_new(*state, 0), &options);
	struct side *impostor = side_new(client_new(*state, 1), &options);

	options.retry_cnt = 0;
	qp_connect(victim->qp, ELSEWHERE, impostor->qp->qpn, &options);
	qp_connect(impostor->qp, 0, victim->qp->qpn, &options);
	impostor->peer = victim;
	memset(impostor->mr->addr, 0x99, 64);
	rdma_write(impostor, 1, 0, 64, 0);
	advance(*state, 10 * SEC);
	expect(impostor->send_cq, 1, RETRY_EXC_ERR);
	assert_true(all_bytes(victim->mr->addr, 64, 0));
}

/* Packets wait for a QP that goes: they go with it. */
static void destroyed_meanwhile(void **state)
{
	struct net net = net_new(state, IBV_QPT_UD);
	struct simhca_packet packet = a_send(&net, 0, 100);

	for (int i = 0; i < 10; i++)
		comes(&net, ELSEWHERE, &packet, 0);
	assert_int_equal(0,
			 simhca_destroy_qp(net.side->client->context, net.side->qp->handle, NULL));
	comes(&net, ELSEWHERE, &packet, 0);
	assert_int_equal(net_counts(&net).unclaimed, 1);
	run_until_idle(*state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_THE_WIRE(from_its_peer),
		ON_THE_WIRE(from_a_stranger),
		ON_THE_WIRE(damaged),
		ON_THE_WIRE(for_nobody),
		ON_THE_WIRE(longer_than_the_mtu),
		ON_THE_WIRE(too_many),
		ON_THE_WIRE(reset_meanwhile),
		ON_THE_WIRE(a_local_peer),
		ON_THE_WIRE(an_impostor_of_this_host),
		ON_THE_WIRE(destroyed_meanwhile),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
