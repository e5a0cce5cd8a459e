/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Who may say something to a QP: over the wire its peer's address alone, and, of a QP whose peer is
 * on the wire, nobody of this host. What comes from others, is damaged, or too much, is dropped.
 */
#include <pthread.h>

#include "cm/mad.h"
#include "device/handles.h"
#include "engine/engine.h"
#include "link/wire/inbox.h"
#include "link/wire/pace.h"
#include "link/wire/wire.h"
#include "lossy.h"
#include "transport/qp.h"
#include "transport/requester.h"
#include "wire_net.h"

#define ELSEWHERE 96 /* no device of the world: its address would be 10.1.2.99 */
#define STRANGER 97
#define FIRST_PSN 0x100
#define MTU 256

static int setup_wire(void **state)
{
	*state = world_new(&(struct world_config){ .device.wire = true });
	return 0;
}

static int setup_like_rxe(void **state)
{
	wire_net_like_rxe(true);
	setup_wire(state);
	wire_net_like_rxe(false);
	return 0;
}

#define LIKE_RXE(test) cmocka_unit_test_setup_teardown(test, setup_like_rxe, teardown)
#define ON_THE_WIRE(test) cmocka_unit_test_setup_teardown(test, setup_wire, teardown)

struct net {
	struct world *world;
	struct side *side;
	struct options options;
};

/* A side whose peer is QP 0x123 elsewhere, with a receive. */
static struct net net_to(void **state, enum ibv_qp_type type, unsigned int peer)
{
	struct net net = { .world = *state, .options = default_options(type) };

	net.options.psn = FIRST_PSN;
	net.options.path_mtu = IBV_MTU_256;
	net.side = side_new(client_new(*state, 0), &net.options);
	qp_connect(net.side->qp, peer, 0x123, &net.options);
	recv_into(net.side, 1, 0, 2048);
	return net;
}

static struct net net_new(void **state, enum ibv_qp_type type)
{
	return net_to(state, type, ELSEWHERE);
}

static struct simhca_packet a_send(const struct net *net, uint32_t psn, uint64_t length)
{
	return (struct simhca_packet){ .op = SIMHCA_PKT_SEND,
				       .transport = (enum simhca_qp_type)net->options.type,
				       .first = true,
				       .last = true,
				       .ack_req = true,
				       .dest_qpn = net->side->qp->qpn,
				       .psn = FIRST_PSN + psn,
				       .qkey = net->options.qkey,
				       .length = length };
}

static struct simhca_packet a_read(const struct net *net, uint32_t psn)
{
	struct simhca_packet packet = a_send(net, psn, 0);

	packet.op = SIMHCA_PKT_READ;
	packet.va = net->side->mr->iova;
	packet.rkey = net->side->mr->rkey;
	packet.dma_length = 64;
	return packet;
}

/* In what follows a packet is of zeros; damage: bits to turn in its last byte but the ICRC. */
static void comes_to(const struct net *net, union simhca_gid to, unsigned int from,
		     const struct simhca_packet *packet, uint8_t damage)
{
	uint8_t bytes[SIMHCA_DATAGRAM_MOST(4096)] = { 0 };
	struct simhca_wire_datagram datagram = {
		.path = { .source = device_gid(from, 0), .destination = to },
		.bytes = bytes,
		.length = simhca_bth_encode(packet, bytes),
	};

	assert_int_not_equal(datagram.length, 0);
	datagram.length += packet->length + simhca_pad(packet->length);
	simhca_icrc_put(&datagram.path, bytes, datagram.length);
	bytes[datagram.length - 1] ^= damage;
	datagram.length += SIMHCA_ICRC_BYTES;
	simhca_wire_receive(net->world->fabric, &datagram);
}

static void comes(const struct net *net, unsigned int from, const struct simhca_packet *packet,
		  uint8_t damage)
{
	comes_to(net, device_gid(0, 0), from, packet, damage);
}

static struct simhca_wire_counts counts(const struct net *net)
{
	struct simhca_wire_counts counts;

	simhca_wire_counts(net->world->fabric, &counts);
	return counts;
}

static void from_its_peer(void **state)
{
	static const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD };

	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		struct net net = net_new(state, types[i]);
		struct simhca_packet packet = a_send(&net, 0, 100);

		comes(&net, ELSEWHERE, &packet, 0);
		settle(*state);
		expect(net.side->recv_cq, 1, SUCCESS);
		assert_int_equal(counts(&net).taken, i + 1);
	}
}

static void from_a_stranger(void **state)
{
	struct net net = net_new(state, IBV_QPT_RC);
	struct simhca_packet packet = a_send(&net, 0, 100);

	comes(&net, STRANGER, &packet, 0);
	settle(*state);
	expect_none(net.side->recv_cq);
	assert_int_equal(counts(&net).unclaimed, 1);
	/* A datagram QP hears everybody who knows its Q_Key. */
	net = net_new(state, IBV_QPT_UD);
	packet = a_send(&net, 0, 100);
	comes(&net, STRANGER, &packet, 0);
	packet.qkey++;
	comes(&net, STRANGER, &packet, 0);
	settle(*state);
	expect(net.side->recv_cq, 1, SUCCESS);
	expect_none(net.side->recv_cq);
}

static void damaged(void **state)
{
	struct net net = net_new(state, IBV_QPT_RC);
	struct simhca_packet packet = a_send(&net, 0, 100);

	comes(&net, ELSEWHERE, &packet, 0x10);
	settle(*state);
	expect_none(net.side->recv_cq);
	assert_int_equal(counts(&net).refused[SIMHCA_WIRE_BAD_ICRC], 1);
	assert_int_equal(counts(&net).taken, 0);
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
	settle(*state);
	assert_int_equal(counts(&net).unclaimed, 5);
	expect_none(net.side->recv_cq);
}

/* It would count on by more PSNs than its sender. */
static void longer_than_the_mtu(void **state)
{
	struct net net = net_new(state, IBV_QPT_RC);
	struct simhca_packet packet = a_send(&net, 0, 2 * MTU);

	comes(&net, ELSEWHERE, &packet, 0);
	settle(*state);
	assert_int_equal(qp_state(net.side->qp), IBV_QPS_ERR);
	expect_why(net.side->recv_cq, 1, WR_FLUSH_ERR, FLUSHED);
	assert_true(logged(*state, simhca_reason_text(SIMHCA_REASON_PATH_MTU_DIFFERS)));
	/* A response of two MTUs is none: the read stands, until its peer is silent for too long.
	 */
	net = net_new(state, IBV_QPT_RC);
	memset(net.side->mr->addr, 0x99, 4 * MTU);
	post(net.side, .id = 2, .opcode = SIMHCA_WR_RDMA_READ, .remote_addr = 4096, .rkey = 1,
	     SGES(sge(net.side->mr, 0, 2 * MTU)));
	settle(*state);
	packet = a_send(&net, 0, 2 * MTU);
	packet.op = SIMHCA_PKT_READ_RESPONSE;
	packet.syndrome = SIMHCA_SYNDROME_ACK;
	comes(&net, ELSEWHERE, &packet, 0);
	settle(*state);
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
	assert_true(counts(&net).unclaimed > 3000);
	assert_true(counts(&net).taken > 100);
	settle(*state);
	expect(net.side->recv_cq, 1, SUCCESS);
	recv_into(net.side, 2, 0, 2048);
	comes(&net, STRANGER, &packet, 0);
	settle(*state);
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
	assert_int_equal(counts(&net).unclaimed, 1);
	qp_connect(net.side->qp, ELSEWHERE, 0x123, &net.options);
	recv_into(net.side, 2, 0, 2048);
	settle(*state);
	expect_none(net.side->recv_cq);
	comes(&net, ELSEWHERE, &packet, 0);
	settle(*state);
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
	settle(*state);
	expect_none(pair->a.recv_cq);
	assert_int_equal(counts(&net).unclaimed, 1);
	check_works(pair);
}

/* Nor does somebody of this host pass for a peer outside, whose QP number he has. */
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
	assert_int_equal(counts(&net).unclaimed, 1);
	settle(*state);
}

/* -------------------------------------------------------------------------------- in a row */

static uint64_t stat(const struct net *net, unsigned int which)
{
	uint64_t stats[SIMHCA_STATS];

	simhca_device_stats(net->world->device[0], stats);
	return stats[which];
}

/* The nth packet of a message of three, the last with immediate data. */
static void comes_part(const struct net *net, uint32_t n)
{
	struct simhca_packet packet = a_send(net, n, n == 2 ? 100 : MTU);

	packet.first = n == 0;
	packet.last = packet.ack_req = packet.has_imm = n == 2;
	packet.imm_or_rkey = packet.has_imm ? 0x1234 : 0;
	comes(net, ELSEWHERE, &packet, 0);
}

/* They wait together, and are one for the responder: of the right length, and answered once. */
static void a_message_in_a_row(void **state)
{
	static const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_UC };

	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		struct net net = net_new(state, types[i]);
		uint64_t sent = stat(&net, SIMHCA_STAT_XMIT_PACKETS);
		struct simhca_cqe cqe;

		for (uint32_t n = 0; n < 3; n++)
			comes_part(&net, n);
		settle(*state);
		cqe = expect(net.side->recv_cq, 1, SUCCESS);
		assert_int_equal(cqe.byte_len, 2 * MTU + 100);
		assert_int_equal(cqe.imm_or_rkey, 0x1234);
		assert_int_equal(responder_of(net.side->qp)->epsn, FIRST_PSN + 3);
		assert_int_equal(stat(&net, SIMHCA_STAT_XMIT_PACKETS) - sent, i == 0);
	}
}

/* A packet in the middle is of the path MTU, or it is nobody's message, in a row or not. */
static void a_wrong_length_in_a_row(void **state)
{
	static const uint64_t lengths[] = { MTU - 4, 2 * MTU };

	for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
		struct net net = net_new(state, IBV_QPT_RC);
		struct simhca_packet packet = a_send(&net, 1, lengths[i]);

		comes_part(&net, 0);
		packet.first = packet.last = false;
		comes(&net, ELSEWHERE, &packet, 0);
		comes_part(&net, 2);
		settle(*state);
		assert_true(logged(*state, simhca_reason_text(SIMHCA_REASON_PATH_MTU_DIFFERS)));
		assert_int_equal(qp_state(net.side->qp), IBV_QPS_ERR);
	}
}

/* One that came before, and behind it new ones: these are asked for again, and nothing is done
 * twice.
 */
static void a_row_that_begins_before(void **state)
{
	struct net net = net_new(state, IBV_QPT_RC);

	comes_part(&net, 0);
	settle(*state);
	for (uint32_t n = 0; n < 3; n++)
		comes_part(&net, n);
	settle(*state);
	expect_none(net.side->recv_cq);
	assert_int_equal(responder_of(net.side->qp)->epsn, FIRST_PSN + 1);
	for (uint32_t n = 1; n < 3; n++)
		comes_part(&net, n);
	settle(*state);
	expect(net.side->recv_cq, 1, SUCCESS);
	assert_int_equal(responder_of(net.side->qp)->offset, 2 * MTU + 100);
}

/* Of several acknowledgements that leave together the newest is said, also after a repeated one. */
static void one_acknowledgement(void **state)
{
	static const uint32_t psns[] = { 0, 1, 0 };
	struct net net = net_new(state, IBV_QPT_RC);
	uint64_t sent = stat(&net, SIMHCA_STAT_XMIT_PACKETS);

	recv_into(net.side, 2, 0, 2048);
	for (size_t i = 0; i < ARRAY_SIZE(psns); i++) {
		const struct simhca_packet packet = a_send(&net, psns[i], 100);

		comes(&net, ELSEWHERE, &packet, 0);
	}
	settle(*state);
	expect(net.side->recv_cq, 1, SUCCESS);
	expect(net.side->recv_cq, 2, SUCCESS);
	assert_int_equal(stat(&net, SIMHCA_STAT_XMIT_PACKETS) - sent, 1);
	assert_int_equal(wire_net_acknowledged(), FIRST_PSN + 1);
}

/* It comes first: who has room for one message alone learns that it has gone before its answer. */
static void an_acknowledgement_and_a_request(void **state)
{
	struct net net = net_new(state, IBV_QPT_RC);
	const struct simhca_packet packet = a_send(&net, 0, 100);

	comes(&net, ELSEWHERE, &packet, 0);
	send_from(net.side, 2, 0, 64);
	settle(*state);
	expect(net.side->recv_cq, 1, SUCCESS);
	assert_int_equal(wire_net_acknowledged(), FIRST_PSN);
	assert_int_equal(wire_net_runs(), 2);
	assert_int_equal(wire_net_last().op, SIMHCA_PKT_SEND);
	assert_true(wire_net_has_icrc(false));
}

/* With a request that is as short it is a run: one way through the stacks. */
static void an_acknowledgement_and_a_short_request(void **state)
{
	struct net net = net_new(state, IBV_QPT_RC);
	const struct simhca_packet packet = a_send(&net, 0, 100);

	comes(&net, ELSEWHERE, &packet, 0);
	send_from(net.side, 2, 0, 4);
	settle(*state);
	assert_int_equal(wire_net_acknowledged(), FIRST_PSN);
	assert_int_equal(wire_net_runs(), 1);
	assert_int_equal(wire_net_last().op, SIMHCA_PKT_SEND);
}

/* What was acknowledged came before. */
static void an_acknowledgement_and_a_response(void **state)
{
	struct net net = net_new(state, IBV_QPT_RC);
	struct simhca_packet packet = a_send(&net, 0, 100);

	comes(&net, ELSEWHERE, &packet, 0);
	packet = a_read(&net, 1);
	comes(&net, ELSEWHERE, &packet, 0);
	settle(*state);
	expect(net.side->recv_cq, 1, SUCCESS);
	assert_int_equal(wire_net_acknowledged(), FIRST_PSN);
	assert_int_equal(wire_net_last().op, SIMHCA_PKT_READ_RESPONSE);
}

/* ------------------------------------------------------------------------- multicast groups */

static const union simhca_gid group = { .raw = { [10] = 0xff, 0xff, 239, 1, 2, 3 } };

static int membership(struct side *side, bool member)
{
	const struct simhca_mcast_req req = { .qp = side->qp->handle, .gid = group };

	return (member ? simhca_attach_mcast : simhca_detach_mcast)(side->client->context, &req,
								    NULL);
}

/* Two members on the first device, one on the second. */
static void with_members(struct world *world, struct side *members[3])
{
	const struct options options = default_options(IBV_QPT_UD);

	for (unsigned int i = 0; i < 3; i++) {
		members[i] = side_new(client_new(world, i == 2), &options);
		qp_connect(members[i]->qp, 0, 0, &options);
		recv_into(members[i], 1, 0, 2048);
		recv_into(members[i], 2, 2048, 2048);
		assert_int_equal(membership(members[i], true), 0);
	}
}

static void a_group_comes(void **state)
{
	struct net net = { .world = *state, .options = default_options(IBV_QPT_UD) };
	union simhca_gid other = group;
	struct simhca_packet packet;
	struct side *members[3];

	with_members(*state, members);
	net.side = members[0];
	packet = a_send(&net, 0, 100);
	packet.dest_qpn = SIMHCA_MCAST_QPN;
	comes_to(&net, group, STRANGER, &packet, 0);
	settle(*state);
	for (int i = 0; i < 3; i++) {
		struct simhca_cqe cqe = expect(members[i]->recv_cq, 1, SUCCESS);

		assert_int_equal(cqe.byte_len, 100 + SIMHCA_GRH_BYTES);
	}
	assert_int_equal(counts(&net).taken, 1);
	/* Another group; no datagram for a group; one for a group that comes to an address. */
	other.raw[15]++;
	comes_to(&net, other, STRANGER, &packet, 0);
	comes(&net, STRANGER, &packet, 0);
	packet.dest_qpn = members[0]->qp->qpn;
	comes_to(&net, group, STRANGER, &packet, 0);
	settle(*state);
	assert_int_equal(counts(&net).unclaimed, 3);
	for (int i = 0; i < 3; i++)
		expect_none(members[i]->recv_cq);
}

/* To who is here by a call, and once to the network; this one brings it back, as sockets do not. */
static void a_group_is_sent_to(void **state)
{
	struct net net = { .world = *state };
	struct simhca_av av = av_to(*state, 0, 0);
	struct side *members[3];
	uint64_t sent = stat(&net, SIMHCA_STAT_XMIT_PACKETS);

	with_members(*state, members);
	av.dgid = group;
	av.is_global = 1;
	post(members[1], .id = 7, .opcode = SIMHCA_WR_SEND, SGES(sge(members[1]->mr, 8192, 100)),
	     .av = av, .dest_qpn = SIMHCA_MCAST_QPN, .qkey = 0x11111111);
	settle(*state);
	expect(members[1]->send_cq, 7, SUCCESS);
	for (int i = 0; i < 3; i++) {
		expect(members[i]->recv_cq, 1, SUCCESS);
		expect(members[i]->recv_cq, 2, SUCCESS);
	}
	assert_int_equal(counts(&net).taken, 1);
	assert_int_equal(stat(&net, SIMHCA_STAT_XMIT_PACKETS) - sent, 1);
}

/* Whoever has the sockets hears of the first member of a device and of the last. */
static void members_come_and_go(void **state)
{
	struct side *members[3];

	with_members(*state, members);
	assert_int_equal(wire_net_groups(), 2);
	assert_int_equal(membership(members[0], true), 0); /* as it is */
	assert_int_equal(membership(members[0], false), 0);
	assert_int_equal(wire_net_groups(), 2);
	assert_int_equal(membership(members[1], false), 0);
	assert_int_equal(wire_net_groups(), 1);
	assert_int_not_equal(membership(members[1], false), 0);
	assert_int_equal(0, simhca_destroy_qp(members[2]->client->context, members[2]->qp->handle,
					      NULL));
	assert_int_equal(wire_net_groups(), 0);
}

/* ----------------------------------------------------------------------------- congestion */

#define MARKED 3 /* of a traffic class; RFC 3168 */

static void comes_marked(const struct net *net, const struct simhca_packet *packet)
{
	uint8_t bytes[SIMHCA_DATAGRAM_MOST(4096)] = { 0 };
	struct simhca_wire_datagram datagram = {
		.path = { .source = device_gid(ELSEWHERE, 0), .destination = device_gid(0, 0) },
		.traffic_class = MARKED,
		.bytes = bytes,
		.length = simhca_bth_encode(packet, bytes) + packet->length,
	};

	simhca_icrc_put(&datagram.path, bytes, datagram.length);
	datagram.length += SIMHCA_ICRC_BYTES;
	simhca_wire_receive(net->world->fabric, &datagram);
}

/* Who sends is told of it, once in a while; a datagram's sender has no window. */
static void a_full_network(void **state)
{
	struct net net = net_new(state, IBV_QPT_RC);
	struct simhca_packet packet = a_send(&net, 0, 0);

	for (uint64_t id = 2; id < 5; id++)
		recv_into(net.side, id, 0, 2048);
	for (uint32_t n = 0; n < 3; n++) {
		packet.psn = FIRST_PSN + n;
		comes_marked(&net, &packet);
		settle(*state);
	}
	assert_int_equal(stat(&net, SIMHCA_STAT_ECN_MARKED), 3);
	assert_int_equal(stat(&net, SIMHCA_STAT_CNP_SENT), 1);
	advance(*state, MSEC);
	packet.psn = FIRST_PSN + 3;
	comes_marked(&net, &packet);
	settle(*state);
	assert_int_equal(stat(&net, SIMHCA_STAT_CNP_SENT), 2);
	/* Four acknowledgements, and two of those. */
	assert_int_equal(stat(&net, SIMHCA_STAT_XMIT_PACKETS), 6);

	net = net_new(state, IBV_QPT_UD);
	packet = a_send(&net, 0, 0);
	comes_marked(&net, &packet);
	settle(*state);
	expect(net.side->recv_cq, 1, SUCCESS);
	assert_int_equal(stat(&net, SIMHCA_STAT_CNP_SENT), 2);
}

/* Who is told sends less at a time, if it is his peer who says so. */
static void a_notification(void **state)
{
	static const struct {
		unsigned int from;
		uint64_t psns;
	} teller[] = { { STRANGER, 32 }, { ELSEWHERE, 16 } };

	for (size_t i = 0; i < ARRAY_SIZE(teller); i++) {
		struct net net = net_new(state, IBV_QPT_RC);
		const struct simhca_packet packet = { .op = SIMHCA_PKT_CNP,
						      .dest_qpn = net.side->qp->qpn };
		uint64_t sent = stat(&net, SIMHCA_STAT_XMIT_PACKETS);

		comes(&net, teller[i].from, &packet, 0);
		assert_int_equal(stat(&net, SIMHCA_STAT_CNP_HANDLED), i);
		post(net.side, .id = 2, .opcode = SIMHCA_WR_RDMA_WRITE, .remote_addr = 4096,
		     .rkey = 1, SGES(sge(net.side->mr, 0, 40 * MTU)));
		settle(*state);
		assert_int_equal(stat(&net, SIMHCA_STAT_XMIT_PACKETS) - sent, teller[i].psns);
	}
}

static struct simhca_congestion *congestion_of(const struct net *net)
{
	const struct qp *qp = net->side->qp;
	const struct simhca_qp *object =
		simhca_object(net->side->client->context, SIMHCA_OBJ_QP, qp->handle, NULL);

	return simhca_inbox_congestion(object->inbox);
}

static void read_mtus(const struct net *net, uint64_t id, uint32_t count)
{
	post(net->side, .id = id, .opcode = SIMHCA_WR_RDMA_READ, .remote_addr = 4096, .rkey = 1,
	     SGES(sge(net->side->mr, 0, (uint64_t)count * MTU)));
	settle(net->world);
}

/* A read asks for what may be under way, and not beyond where a larger window's part would end. */
static void a_read_asks_for_less(void **state)
{
	struct net net = net_new(state, IBV_QPT_RC);
	struct simhca_packet packet = { .op = SIMHCA_PKT_CNP, .dest_qpn = net.side->qp->qpn };

	read_mtus(&net, 2, 64);
	assert_int_equal(wire_net_last().dma_length, 32 * MTU);
	net = net_new(state, IBV_QPT_RC);
	packet.dest_qpn = net.side->qp->qpn;
	comes(&net, ELSEWHERE, &packet, 0);
	read_mtus(&net, 2, 64);
	assert_int_equal(wire_net_last().dma_length, 16 * MTU);
}

/* What comes marked is what it asked for. */
static void a_marked_response(void **state)
{
	struct net net = net_new(state, IBV_QPT_RC);
	struct simhca_packet packet = a_send(&net, 0, MTU);

	packet.op = SIMHCA_PKT_READ_RESPONSE;
	packet.syndrome = SIMHCA_SYNDROME_ACK;
	read_mtus(&net, 2, 1);
	comes_marked(&net, &packet);
	settle(*state);
	expect(net.side->send_cq, 2, SUCCESS);
	read_mtus(&net, 3, 64);
	assert_int_equal(wire_net_last().dma_length, 16 * MTU);
}

static void acknowledge(const struct net *net, uint32_t psn)
{
	struct simhca_packet packet = a_send(net, psn, 0);

	packet.op = SIMHCA_PKT_ACK;
	packet.syndrome = SIMHCA_SYNDROME_ACK;
	comes(net, ELSEWHERE, &packet, 0);
}

/* A response of one MTU, the last of its request or not. */
static void responds(const struct net *net, uint32_t psn, bool first, bool last)
{
	struct simhca_packet packet = a_send(net, psn, MTU);

	packet.op = SIMHCA_PKT_READ_RESPONSE;
	packet.syndrome = SIMHCA_SYNDROME_ACK;
	packet.first = first;
	packet.last = last;
	comes(net, ELSEWHERE, &packet, 0);
	settle(net->world);
}

/* The window has fallen a moment ago: a loss is of the same time. */
static void loss_that_is_known(const struct net *net, uint32_t psn_after)
{
	congestion_of(net)->behind = 0;
	responds(net, psn_after, false, true);
}

/*
 * Nor for more than the last time, if the window has grown since then; nor if the first time was
 * long before, when it was larger: of that nothing may have come to the peer.
 */
static void a_read_asks_again_for_the_same(void **state)
{
	for (int before = 0; before < 2; before++) {
		struct net net = net_new(state, IBV_QPT_RC);
		struct simhca_congestion *congestion = congestion_of(&net);

		congestion->window = (before ? 16 : 3) * SIMHCA_WINDOW_PSN;
		read_mtus(&net, 2, 1);
		read_mtus(&net, 3, 8);
		if (before) {
			assert_int_equal(wire_net_last().dma_length, 8 * MTU);
			congestion->window = 3 * SIMHCA_WINDOW_PSN;
			loss_that_is_known(&net, 8);
		}
		assert_int_equal(wire_net_last().psn, FIRST_PSN + 1);
		assert_int_equal(wire_net_last().dma_length, 2 * MTU);
		responds(&net, 0, true, true);
		expect(net.side->send_cq, 2, SUCCESS);
		loss_that_is_known(&net, 2);
		assert_int_equal(congestion->window, 4 * SIMHCA_WINDOW_PSN);
		assert_int_equal(wire_net_last().psn, FIRST_PSN + 1);
		assert_int_equal(wire_net_last().dma_length, 2 * MTU);
		for (uint32_t psn = 1; psn < 3; psn++)
			responds(&net, psn, psn == 1, psn == 2);
		assert_int_equal(wire_net_last().psn, FIRST_PSN + 3);
	}
}

static void write_mtus(const struct net *net, uint64_t id, uint32_t count)
{
	post(net->side, .id = id, .opcode = SIMHCA_WR_RDMA_WRITE, .remote_addr = 4096, .rkey = 1,
	     SGES(sge(net->side->mr, 0, (uint64_t)count * MTU)));
	settle(net->world);
}

/*
 * However large the window, each slice of some packets asks for an answer: if the window falls
 * after that, one comes.
 */
static void answers_are_asked_for_on_the_way(void **state)
{
	struct net net = net_new(state, IBV_QPT_RC);
	unsigned int asked;
	uint32_t psn = 0;

	for (uint32_t window = 32; window < 512; window *= 2) {
		write_mtus(&net, window, window);
		psn += window;
		acknowledge(&net, psn - 1);
		settle(*state);
		expect(net.side->send_cq, window, SUCCESS);
	}
	asked = wire_net_asked();
	write_mtus(&net, 1, 256);
	assert_int_equal(wire_net_asked() - asked, 256 / 64);
}

/* Who looks at the window does not change it: it falls once, when the requester goes on. */
static void a_look_at_the_window_leaves_it(void **state)
{
	struct net net = net_new(state, IBV_QPT_RC);
	struct simhca_packet packet = { .op = SIMHCA_PKT_CNP, .dest_qpn = net.side->qp->qpn };
	struct simhca_qp *qp =
		simhca_object(net.side->client->context, SIMHCA_OBJ_QP, net.side->qp->handle, NULL);

	comes(&net, ELSEWHERE, &packet, 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(qp->link->window_now(qp), SIMHCA_WINDOW_FIRST);
	write_mtus(&net, 2, 64);
	for (int i = 0; i < 2; i++)
		assert_int_equal(qp->link->window_now(qp), SIMHCA_WINDOW_FIRST / 2);
	/* What is under way is the smaller window. */
	assert_int_equal(requester_of(net.side->qp)->psn_send, FIRST_PSN + SIMHCA_WINDOW_FIRST / 2);
}

/* It is connected to an address of this daemon, or to another one elsewhere, while it is drained. */
static int go_to(const struct side *side, const struct options *options, unsigned int peer)
{
	struct simhca_modify_qp_req req = { .handle = side->qp->handle, .mask = SIMHCA_QP_AV };
	struct simhca_modify_qp_reply reply;

	req.attr = qp_attr_to(side->qp, peer, 0x123, options);
	return simhca_modify_qp(side->client->context, &req, &reply, NULL);
}

/* Who has left a way is no more among those that share it. */
static void a_way_is_left_for_a_local_peer(void **state)
{
	struct net net = net_new(state, IBV_QPT_RC), other = net_new(state, IBV_QPT_RC);
	struct simhca_share *share[2];

	for (int i = 0; i < 2; i++) {
		const struct side *side = i ? other.side : net.side;
		const struct simhca_qp *qp =
			simhca_object(side->client->context, SIMHCA_OBJ_QP, side->qp->handle, NULL);

		share[i] = simhca_inbox_share(qp->inbox);
	}
	write_mtus(&net, 1, 1);
	write_mtus(&other, 1, 1);
	assert_int_equal(simhca_share_count(share[1]), 2);
	assert_int_equal(qp_move(net.side->qp, IBV_QPS_SQD), 0);
	assert_int_equal(go_to(net.side, &net.options, 0), 0);
	assert_int_equal(simhca_share_count(share[1]), 1);
	assert_null(share[0]->way);
}

struct mover {
	struct net *net;
	atomic_bool stop;
};

static void *move_until_stopped(void *arg)
{
	struct mover *mover = arg;

	for (unsigned int i = 0; !atomic_load(&mover->stop); i++)
		go_to(mover->net->side, &mover->net->options, i & 1 ? STRANGER : ELSEWHERE);
	return NULL;
}

/*
 * A QP is connected to another address while an engine tells its peer of marks: it tells the one or
 * the other. (For ThreadSanitizer.)
 */
static void the_peer_changes_beside_marks(void **state)
{
	struct net net = net_new(state, IBV_QPT_RC);
	struct mover mover = { .net = &net };
	pthread_t thread;

	assert_int_equal(qp_move(net.side->qp, IBV_QPS_SQD), 0);
	settle(*state);
	assert_int_equal(pthread_create(&thread, NULL, move_until_stopped, &mover), 0);
	while (stat(&net, SIMHCA_STAT_CNP_SENT) < 100) {
		struct simhca_packet packet = a_read(&net, 0);

		comes_marked(&net, &packet);
		settle(*state);
		advance(*state, MSEC);
	}
	atomic_store(&mover.stop, true);
	pthread_join(thread, NULL);
}

/* With a quarter of a PSN as its window a packet leaves every four round trips, and not sooner. */
static void less_than_a_packet(void **state)
{
	struct net net = net_new(state, IBV_QPT_RC);
	uint64_t sent;

	write_mtus(&net, 1, 1);
	advance(*state, MSEC);
	acknowledge(&net, 0);
	settle(*state);
	congestion_of(&net)->window = SIMHCA_WINDOW_PSN / 4;
	congestion_of(&net)->enough = 0;
	write_mtus(&net, 2, 1);
	acknowledge(&net, 1);
	settle(*state);
	expect(net.side->send_cq, 1, SUCCESS);
	expect(net.side->send_cq, 2, SUCCESS);
	congestion_of(&net)->window = SIMHCA_WINDOW_PSN / 4;
	sent = stat(&net, SIMHCA_STAT_XMIT_PACKETS);
	write_mtus(&net, 3, 1);
	advance(*state, 3 * MSEC);
	assert_int_equal(stat(&net, SIMHCA_STAT_XMIT_PACKETS), sent);
	advance(*state, 2 * MSEC);
	assert_int_equal(stat(&net, SIMHCA_STAT_XMIT_PACKETS), sent + 1);
}

/* By how much of a PSN a QP has grown with a window beside another one that is under way. */
static uint32_t growth_beside(void **state, unsigned int peer_of_other)
{
	struct net net = net_new(state, IBV_QPT_RC);
	struct net other = net_to(state, IBV_QPT_RC, peer_of_other);
	uint32_t window;

	write_mtus(&net, 1, 64);
	write_mtus(&other, 1, 64);
	simhca_congestion_marked(congestion_of(&net));
	window = congestion_of(&net)->window;
	acknowledge(&net, window / SIMHCA_WINDOW_PSN - 1);
	settle(*state);
	window = congestion_of(&net)->window - window;
	for (int i = 0; i < 2; i++) {
		const struct side *side = i ? other.side : net.side;

		assert_int_equal(0,
				 simhca_destroy_qp(side->client->context, side->qp->handle, NULL));
	}
	return window;
}

/* Those with one peer as one of them would; when one of them has gone, the other by itself. */
static void those_with_one_peer_share(void **state)
{
	assert_in_range(growth_beside(state, STRANGER), SIMHCA_WINDOW_PSN - 1, SIMHCA_WINDOW_PSN);
	assert_in_range(growth_beside(state, ELSEWHERE), SIMHCA_WINDOW_PSN / 2 - 1,
			SIMHCA_WINDOW_PSN / 2);
	assert_in_range(growth_beside(state, STRANGER), SIMHCA_WINDOW_PSN - 1, SIMHCA_WINDOW_PSN);
}

/* ---------------------------------------------------------------------------- static rate */

#define PACKETS 128 /* of a message; what follows is in ns, at 2.5 Gb/s, with all headers */
#define MESSAGE_NS (PACKETS * (MTU + 58) * 8 * 2 / 5)
#define MESSAGES 40

/* Messages of a QP that has such a rate, some of which have left; nobody acknowledges them. */
static struct net at_rate(void **state, enum ibv_rate rate)
{
	struct net net = { .world = *state, .options = default_options(IBV_QPT_UC) };

	net.options.path_mtu = IBV_MTU_256;
	net.options.static_rate = (uint8_t)rate;
	net.side = side_new(client_new(*state, 0), &net.options);
	qp_connect(net.side->qp, ELSEWHERE, 0x123, &net.options);
	for (uint64_t id = 0; id < MESSAGES; id++)
		write_mtus(&net, id, PACKETS);
	return net;
}

static uint64_t messages_sent(const struct net *net)
{
	return stat(net, SIMHCA_STAT_XMIT_PACKETS) / PACKETS;
}

static void it_sends_by_its_rate(void **state)
{
	struct net net = at_rate(state, IBV_RATE_2_5_GBPS);
	uint64_t credit = SIMHCA_PACE_CREDIT_NS / MESSAGE_NS + 2, ns = 0;

	assert_in_range(messages_sent(&net), 1, credit);
	while (messages_sent(&net) < MESSAGES) {
		advance(*state, 10000);
		ns += 10000;
		assert_in_range(messages_sent(&net), ns / MESSAGE_NS, ns / MESSAGE_NS + credit);
	}
	for (uint64_t id = 0; id < MESSAGES; id++)
		expect(net.side->send_cq, id, SUCCESS);
}

static void no_rate_is_no_limit(void **state)
{
	struct net net = at_rate(state, IBV_RATE_MAX);

	assert_int_equal(messages_sent(&net), MESSAGES);
}

/* Datagrams of 4 KiB that use up the credit, the last one in part. */
#define CREDIT (SIMHCA_PACE_CREDIT_NS / ((4096 + 58) * 8 * 2 / 5) + 1)

/* A side sends so many. */
static struct simhca_av with_datagrams(struct side *side, unsigned int count)
{
	struct simhca_av av = av_to(side->world, ELSEWHERE, 0);

	av.static_rate = IBV_RATE_2_5_GBPS;
	for (uint64_t id = 0; id < count; id++) {
		post(side, .id = id, .opcode = SIMHCA_WR_SEND, SGES(sge(side->mr, 0, 4096)),
		     .av = av, .dest_qpn = 0x123);
		settle(side->world);
	}
	return av;
}

/* A datagram has its own address's; what is sent here takes no time. */
static void datagrams_go_by_their_rate(void **state)
{
	struct net net = net_new(state, IBV_QPT_UD);
	struct simhca_av av = with_datagrams(net.side, CREDIT + 10);

	assert_int_equal(stat(&net, SIMHCA_STAT_XMIT_PACKETS), CREDIT);
	advance(*state, MSEC);
	assert_int_equal(stat(&net, SIMHCA_STAT_XMIT_PACKETS), CREDIT + 10);
	for (uint64_t id = 0; id < CREDIT + 10; id++)
		expect(net.side->send_cq, id, SUCCESS);
	av.dgid = device_gid(0, 0);
	for (uint64_t id = 0; id < 2 * CREDIT; id++) {
		post(net.side, .id = id, .opcode = SIMHCA_WR_SEND, SGES(sge(net.side->mr, 0, 4096)),
		     .av = av, .dest_qpn = 0x123);
		settle(*state);
		expect(net.side->send_cq, id, SUCCESS);
	}
}

/* To a group: nobody here gets it twice, as nobody gets it before it is its time. */
static void a_group_waits_for_the_rate(void **state)
{
	struct net net = { .world = *state };
	struct side *members[3];
	struct simhca_av av;

	with_members(*state, members);
	av = with_datagrams(members[0], CREDIT);
	av.dgid = group;
	post(members[0], .id = CREDIT, .opcode = SIMHCA_WR_SEND, SGES(sge(members[0]->mr, 0, 100)),
	     .av = av, .dest_qpn = SIMHCA_MCAST_QPN, .qkey = 0x11111111);
	settle(*state);
	for (int i = 1; i < 3; i++)
		expect_none(members[i]->recv_cq);
	advance(*state, MSEC);
	for (int i = 1; i < 3; i++) {
		expect(members[i]->recv_cq, 1, SUCCESS); /* here, and the network brings it back */
		expect(members[i]->recv_cq, 2, SUCCESS);
		expect_none(members[i]->recv_cq);
	}
	assert_int_equal(stat(&net, SIMHCA_STAT_XMIT_PACKETS), CREDIT + 1);
}

/* ----------------------------------------------------------------------------- rxe's FLUSH */

/* FLUSH number n of ELSEWHERE, with a key of nobody, comes with an ICRC of one kind or the other.
 */
static void a_flush_comes(const struct net *net, uint32_t n, bool of_rxe)
{
	const struct simhca_packet packet = { .op = SIMHCA_PKT_FLUSH,
					      .transport = SIMHCA_QPT_RC,
					      .first = true,
					      .last = true,
					      .ack_req = true,
					      .dest_qpn = net->side->qp->qpn,
					      .psn = FIRST_PSN + n,
					      .flush_placement = 1 };
	uint8_t bytes[SIMHCA_DATAGRAM_MOST(0)] = { 0 };
	struct simhca_wire_datagram datagram = {
		.path = { .source = device_gid(ELSEWHERE, 0), .destination = device_gid(0, 0) },
		.bytes = bytes,
		.length = simhca_bth_encode(&packet, bytes),
	};

	(of_rxe ? simhca_icrc_put_rxe_flush : simhca_icrc_put)(&datagram.path, bytes,
							       datagram.length);
	datagram.length += SIMHCA_ICRC_BYTES;
	simhca_wire_receive(net->world->fabric, &datagram);
}

static void a_flush_goes(const struct net *net)
{
	post(net->side, .id = 2, .opcode = SIMHCA_WR_FLUSH, .remote_addr = 4096, .rkey = 1,
	     .length = 64, .placement = 1);
	settle(net->world);
}

static void a_flush(void **state)
{
	struct net net = net_new(state, IBV_QPT_RC);

	a_flush_goes(&net);
	assert_true(wire_net_has_icrc(false));
	assert_false(wire_net_has_icrc(true));
	a_flush_comes(&net, 0, true);
	assert_int_equal(counts(&net).refused[SIMHCA_WIRE_BAD_ICRC], 1);
	a_flush_comes(&net, 0, false);
	assert_int_equal(counts(&net).taken, 1);
}

/* What goes is as rxe has it; what comes may be either. Nothing else is another. */
static void a_flush_like_rxes(void **state)
{
	struct net net = net_new(state, IBV_QPT_RC);

	a_flush_goes(&net);
	assert_true(wire_net_has_icrc(true));
	assert_false(wire_net_has_icrc(false));
	a_flush_comes(&net, 0, true);
	a_flush_comes(&net, 1, false);
	assert_int_equal(counts(&net).taken, 2);
	assert_int_equal(counts(&net).refused[SIMHCA_WIRE_BAD_ICRC], 0);
	net = net_new(state, IBV_QPT_RC);
	write_mtus(&net, 2, 1);
	assert_true(wire_net_has_icrc(false));
}

/* ------------------------------------------------------------------------------- silence */

#define TIMEOUT_NS (4096ull << 10)

static struct net waiting(void **state, uint8_t retry_cnt)
{
	struct net net = { .world = *state, .options = default_options(IBV_QPT_RC) };

	net.options.psn = FIRST_PSN;
	net.options.timeout = 10;
	net.options.retry_cnt = retry_cnt;
	net.side = side_new(client_new(*state, 0), &net.options);
	qp_connect(net.side->qp, ELSEWHERE, 0x123, &net.options);
	post(net.side, .id = 2, .opcode = SIMHCA_WR_RDMA_WRITE, .remote_addr = 4096, .rkey = 1,
	     SGES(sge(net.side->mr, 0, 64)));
	settle(*state);
	return net;
}

/* A peer that may be busy is asked again after one, two, and then four time-outs each. */
static void a_silent_peer(void **state)
{
	struct net net = waiting(state, 7);

	for (int i = 0; i < 53; i++) /* halves, of 1 + 2 + 6 * 4 */
		advance(*state, TIMEOUT_NS / 2);
	expect_none(net.side->send_cq);
	advance(*state, TIMEOUT_NS);
	expect(net.side->send_cq, 2, RETRY_EXC_ERR);
}

static void acknowledges(void *arg)
{
	acknowledge(arg, 0);
}

/* The answer is at the socket and nobody has taken it from there: that is no silence. */
static void an_answer_that_waits(void **state)
{
	struct net net = waiting(state, 0);

	wire_net_poll(acknowledges, &net);
	advance(*state, 2 * TIMEOUT_NS);
	expect(net.side->send_cq, 2, SUCCESS);
}

/* Once it is known how long answers take, it asks again sooner, which is no retry. */
static void a_peer_that_was_quick(void **state)
{
	struct net net = waiting(state, 0);
	uint64_t sent;

	acknowledges(&net);
	settle(*state);
	expect(net.side->send_cq, 2, SUCCESS);
	post(net.side, .id = 3, .opcode = SIMHCA_WR_RDMA_WRITE, .remote_addr = 4096, .rkey = 1,
	     SGES(sge(net.side->mr, 0, 64)));
	settle(*state);
	sent = stat(&net, SIMHCA_STAT_XMIT_PACKETS);
	advance(*state, TIMEOUT_NS - MSEC / 10);
	assert_int_equal(stat(&net, SIMHCA_STAT_XMIT_PACKETS), sent + 1);
	assert_int_equal(stat(&net, SIMHCA_STAT_ADP_RETRANS), 1);
	assert_int_equal(stat(&net, SIMHCA_STAT_LOCAL_ACK_TIMEOUT), 0);
	/* The transport's timer is all there is from then on. */
	advance(*state, 2 * TIMEOUT_NS);
	expect(net.side->send_cq, 3, RETRY_EXC_ERR);
	assert_int_equal(stat(&net, SIMHCA_STAT_ADP_RETRANS), 1);
}

/* How long an answer took that may have been one to the first or to the second is not known. */
static void a_peer_that_was_asked_twice(void **state)
{
	struct net net = waiting(state, 7);

	advance(*state, TIMEOUT_NS + MSEC);
	assert_int_equal(stat(&net, SIMHCA_STAT_LOCAL_ACK_TIMEOUT), 1);
	acknowledge(&net, 0);
	settle(*state);
	expect(net.side->send_cq, 2, SUCCESS);
	write_mtus(&net, 3, 1);
	advance(*state, TIMEOUT_NS - MSEC / 10);
	assert_int_equal(stat(&net, SIMHCA_STAT_ADP_RETRANS), 0);
}

/* --------------------------------------------------------------- management datagrams */

static unsigned int gmps;
static struct simhca_gmp last_gmp;
static uint8_t last_mad[SIMHCA_MAD_BYTES];

static void on_gmp(void *arg, const struct simhca_gmp *gmp)
{
	gmps++;
	last_gmp = *gmp;
	memcpy(last_mad, gmp->mad, sizeof(last_mad));
}

static struct simhca_packet a_gmp(void)
{
	return (struct simhca_packet){ .op = SIMHCA_PKT_SEND,
				       .transport = SIMHCA_QPT_UD,
				       .first = true,
				       .last = true,
				       .dest_qpn = 1,
				       .src_qpn = 1,
				       .qkey = 0x80010000,
				       .length = SIMHCA_MAD_BYTES };
}

static void management_datagrams_come(void **state)
{
	struct net net = { .world = *state };
	const union simhca_gid from = device_gid(STRANGER, 0), to = device_gid(0, 0);
	struct simhca_packet packet = a_gmp();

	gmps = 0;
	simhca_device_set_gmp(net.world->device[0], on_gmp, NULL);
	comes(&net, STRANGER, &packet, 0);
	assert_int_equal(gmps, 0); /* that is another thread's */
	simhca_wire_gmps(net.world->fabric);
	assert_int_equal(gmps, 1);
	assert_memory_equal(&last_gmp.sgid, &from, sizeof(from));
	assert_memory_equal(&last_gmp.dgid, &to, sizeof(to));

	packet.qkey++;
	comes(&net, STRANGER, &packet, 0);
	packet = a_gmp();
	packet.src_qpn = 2;
	comes(&net, STRANGER, &packet, 0);
	packet = a_gmp();
	packet.length -= 4;
	comes(&net, STRANGER, &packet, 0);
	packet = a_gmp();
	packet.transport = SIMHCA_QPT_RC;
	comes(&net, STRANGER, &packet, 0);
	simhca_wire_gmps(net.world->fabric);
	assert_int_equal(gmps, 1);
	assert_int_equal(counts(&net).unclaimed, 4);
}

static void a_flood_of_management_datagrams(void **state)
{
	struct net net = { .world = *state };
	struct simhca_packet packet = a_gmp();

	gmps = 0;
	simhca_device_set_gmp(net.world->device[0], on_gmp, NULL);
	for (int i = 0; i < 5000; i++)
		comes(&net, STRANGER, &packet, 0);
	simhca_wire_gmps(net.world->fabric);
	assert_in_range(gmps, 10, 1000);
	gmps = 0;
	comes(&net, STRANGER, &packet, 0);
	simhca_wire_gmps(net.world->fabric);
	assert_int_equal(gmps, 1);
}

/* There and, by this host's own devices, back again: what is sent can be received. */
static void management_datagrams_go(void **state)
{
	struct world *world = *state;
	struct simhca_av av = { .dgid = device_gid(ELSEWHERE, 0), .is_global = 1, .port_num = 1 };
	uint8_t mad[SIMHCA_MAD_BYTES];
	struct net net = { .world = world };

	gmps = 0;
	fill(mad, sizeof(mad), 7);
	simhca_device_set_gmp(world->device[1], on_gmp, NULL);
	assert_true(simhca_device_send_gmp(world->device[0], &av, mad));
	av.dgid = device_gid(1, 0); /* at home it is a call */
	assert_true(simhca_device_send_gmp(world->device[0], &av, mad));
	assert_int_equal(gmps, 1);
	assert_memory_equal(last_mad, mad, sizeof(mad));
	settle(world);
	assert_int_equal(counts(&net).refused[SIMHCA_WIRE_BAD_ICRC], 0);
	simhca_wire_gmps(world->fabric);
	assert_int_equal(gmps, 1);
	assert_int_equal(counts(&net).taken, 1);
	/* Who is at home and does not answer is not elsewhere. */
	simhca_device_set_port(world->device[1], false);
	assert_false(simhca_device_send_gmp(world->device[0], &av, mad));
	settle(world);
	assert_int_equal(counts(&net).taken, 1);
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
		ON_THE_WIRE(a_message_in_a_row),
		ON_THE_WIRE(a_wrong_length_in_a_row),
		ON_THE_WIRE(a_row_that_begins_before),
		ON_THE_WIRE(one_acknowledgement),
		ON_THE_WIRE(an_acknowledgement_and_a_request),
		ON_THE_WIRE(an_acknowledgement_and_a_short_request),
		ON_THE_WIRE(an_acknowledgement_and_a_response),
		ON_THE_WIRE(a_group_comes),
		ON_THE_WIRE(a_group_is_sent_to),
		ON_THE_WIRE(members_come_and_go),
		ON_THE_WIRE(a_full_network),
		ON_THE_WIRE(a_notification),
		ON_THE_WIRE(answers_are_asked_for_on_the_way),
		ON_THE_WIRE(a_read_asks_for_less),
		ON_THE_WIRE(a_read_asks_again_for_the_same),
		ON_THE_WIRE(a_marked_response),
		ON_THE_WIRE(a_look_at_the_window_leaves_it),
		ON_THE_WIRE(a_way_is_left_for_a_local_peer),
		ON_THE_WIRE(the_peer_changes_beside_marks),
		ON_THE_WIRE(less_than_a_packet),
		ON_THE_WIRE(those_with_one_peer_share),
		ON_THE_WIRE(it_sends_by_its_rate),
		ON_THE_WIRE(no_rate_is_no_limit),
		ON_THE_WIRE(datagrams_go_by_their_rate),
		ON_THE_WIRE(a_group_waits_for_the_rate),
		ON_THE_WIRE(a_flush),
		LIKE_RXE(a_flush_like_rxes),
		ON_THE_WIRE(a_silent_peer),
		ON_THE_WIRE(a_peer_that_was_quick),
		ON_THE_WIRE(a_peer_that_was_asked_twice),
		ON_THE_WIRE(an_answer_that_waits),
		ON_THE_WIRE(management_datagrams_come),
		ON_THE_WIRE(a_flood_of_management_datagrams),
		ON_THE_WIRE(management_datagrams_go),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
