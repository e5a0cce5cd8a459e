/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What is sent to a group comes by the wire to all of its members here, and goes out once. */
#include "wire_net.h"
#include "wire_scene.h"

static void a_group_comes(void **state)
{
	struct net net = { .world = *state, .options = default_options(IBV_QPT_UD) };
	union simhca_gid other = wire_group;
	struct simhca_packet packet;
	struct side *members[3];

	with_members(*state, members);
	net.side = members[0];
	packet = a_send(&net, 0, 100);
	packet.dest_qpn = SIMHCA_MCAST_QPN;
	comes_to(&net, wire_group, STRANGER, &packet, 0);
	run_until_idle(*state);
	for (int i = 0; i < 3; i++) {
		struct simhca_cqe cqe = expect(members[i]->recv_cq, 1, SUCCESS);

		assert_int_equal(cqe.byte_len, 100 + SIMHCA_GRH_BYTES);
	}
	assert_int_equal(net_counts(&net).taken, 1);
	/* Another wire_group; no datagram for a wire_group; one for a group that comes to an address. */
	other.raw[15]++;
	comes_to(&net, other, STRANGER, &packet, 0);
	comes(&net, STRANGER, &packet, 0);
	packet.dest_qpn = members[0]->qp->qpn;
	comes_to(&net, wire_group, STRANGER, &packet, 0);
	run_until_idle(*state);
	assert_int_equal(net_counts(&net).unclaimed, 3);
	for (int i = 0; i < 3; i++)
		expect_none(members[i]->recv_cq);
}

/* To who is here by a call, and once to the network; this one brings it back, as sockets do not. */
static void a_group_is_sent_to(void **state)
{
	struct net net = { .world = *state };
	struct simhca_av av = av_to(*state, 0, 0);
	struct side *members[3];
	uint64_t sent = net_stat(&net, SIMHCA_STAT_XMIT_PACKETS);

	with_members(*state, members);
	av.dgid = wire_group;
	av.is_global = 1;
	post(members[1], .id = 7, .opcode = SIMHCA_WR_SEND, SGES(sge(members[1]->mr, 8192, 100)),
	     .av = av, .dest_qpn = SIMHCA_MCAST_QPN, .qkey = 0x11111111);
	run_until_idle(*state);
	expect(members[1]->send_cq, 7, SUCCESS);
	for (int i = 0; i < 3; i++) {
		expect(members[i]->recv_cq, 1, SUCCESS);
		expect(members[i]->recv_cq, 2, SUCCESS);
	}
	assert_int_equal(net_counts(&net).taken, 1);
	assert_int_equal(net_stat(&net, SIMHCA_STAT_XMIT_PACKETS) - sent, 1);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_THE_WIRE(a_group_comes),
		ON_THE_WIRE(a_group_is_sent_to),
		ON_THE_WIRE(members_come_and_go),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
