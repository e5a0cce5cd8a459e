/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The static rate of an address: how fast a QP sends there (pace.h), all headers counted. */
#include "link/wire/pace.h"
#include "wire_scene.h"

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
	return net_stat(net, SIMHCA_STAT_XMIT_PACKETS) / PACKETS;
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
		run_until_idle(side->world);
	}
	return av;
}

/* A datagram has its own address's; what is sent here takes no time. */
static void datagrams_go_by_their_rate(void **state)
{
	struct net net = net_new(state, IBV_QPT_UD);
	struct simhca_av av = with_datagrams(net.side, CREDIT + 10);

	assert_int_equal(net_stat(&net, SIMHCA_STAT_XMIT_PACKETS), CREDIT);
	advance(*state, MSEC);
	assert_int_equal(net_stat(&net, SIMHCA_STAT_XMIT_PACKETS), CREDIT + 10);
	for (uint64_t id = 0; id < CREDIT + 10; id++)
		expect(net.side->send_cq, id, SUCCESS);
	av.dgid = device_gid(0, 0);
	for (uint64_t id = 0; id < 2 * CREDIT; id++) {
		post(net.side, .id = id, .opcode = SIMHCA_WR_SEND, SGES(sge(net.side->mr, 0, 4096)),
		     .av = av, .dest_qpn = 0x123);
		run_until_idle(*state);
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
	av.dgid = wire_group;
	post(members[0], .id = CREDIT, .opcode = SIMHCA_WR_SEND, SGES(sge(members[0]->mr, 0, 100)),
	     .av = av, .dest_qpn = SIMHCA_MCAST_QPN, .qkey = 0x11111111);
	run_until_idle(*state);
	for (int i = 1; i < 3; i++)
		expect_none(members[i]->recv_cq);
	advance(*state, MSEC);
	for (int i = 1; i < 3; i++) {
		expect(members[i]->recv_cq, 1, SUCCESS); /* here, and the network brings it back */
		expect(members[i]->recv_cq, 2, SUCCESS);
		expect_none(members[i]->recv_cq);
	}
	assert_int_equal(net_stat(&net, SIMHCA_STAT_XMIT_PACKETS), CREDIT + 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_THE_WIRE(it_sends_by_its_rate),
		ON_THE_WIRE(no_rate_is_no_limit),
		ON_THE_WIRE(datagrams_go_by_their_rate),
		ON_THE_WIRE(a_group_waits_for_the_rate),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
