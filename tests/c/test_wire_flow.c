/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The UDP port that packets leave from: routers tell flows apart by it (flow.h). */
#include "link/wire/flow.h"
#include "wire_net.h"
#include "wire_scene.h"

/* The numbers are those of Linux's rdma_get_udp_sport(), less its 0xc000. */
static void a_label_is_folded(void **state)
{
	assert_int_equal(simhca_wire_flow(1, 0x11, 0x123), 1);
	assert_int_equal(simhca_wire_flow(0xfc001, 0x11, 0x123), 0x3e);
	assert_int_equal(simhca_wire_flow(0xfffff, 0x11, 0x123), 0x3fc0);
	assert_int_equal(simhca_wire_flow(0xf00001, 0x11, 0x123), 1);
}

static void without_one_the_qps_are(void **state)
{
	assert_int_equal(simhca_wire_flow(0, 0x11, 0x123), 0x1353);
	assert_int_equal(simhca_wire_flow(0, 0xabcdef, 0x123456), 0x3c8);
	assert_int_equal(simhca_wire_flow(0, 0x123456, 0xabcdef), 0x3c8);
}

static void requests_and_answers_have_one_port(void **state)
{
	struct net net = net_new(state, IBV_QPT_RC);
	uint16_t port = WIRE_NET_PORT(simhca_wire_flow(0, net.side->qp->qpn, 0x123));
	const struct simhca_packet packet = a_send(&net, 0, 8);

	comes(&net, ELSEWHERE, &packet, 0);
	run_until_idle(*state);
	assert_int_equal(wire_net_last().op, SIMHCA_PKT_ACK);
	assert_int_equal(wire_net_source_port(), port);
	assert_true(wire_net_has_icrc(false));
	write_mtus(&net, 1, 1);
	assert_int_equal(wire_net_last().op, SIMHCA_PKT_WRITE);
	assert_int_equal(wire_net_source_port(), port);
}

static void a_qp_goes_by_its_address_label(void **state)
{
	struct net net = { .world = *state, .options = default_options(IBV_QPT_RC) };

	net.options.path_mtu = IBV_MTU_256;
	net.options.flow_label = 3;
	net.side = side_new(client_new(*state, 0), &net.options);
	qp_connect(net.side->qp, ELSEWHERE, 0x123, &net.options);
	write_mtus(&net, 1, 1);
	assert_int_equal(wire_net_source_port(), WIRE_NET_PORT(3));
}

static void a_datagram_goes_by_its_own(void **state)
{
	struct net net = net_new(state, IBV_QPT_UD);
	struct simhca_av av = av_to(net.side->world, ELSEWHERE, 0);

	for (uint32_t label = 1; label < 9; label++) {
		av.flow_label = label;
		post(net.side, .id = label, .opcode = SIMHCA_WR_SEND, SGES(sge(net.side->mr, 0, 8)),
		     .av = av, .dest_qpn = 0x123);
		run_until_idle(net.side->world);
		assert_int_equal(wire_net_source_port(), WIRE_NET_PORT(label));
		assert_true(wire_net_has_icrc(false));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_label_is_folded),
		cmocka_unit_test(without_one_the_qps_are),
		ON_THE_WIRE(requests_and_answers_have_one_port),
		ON_THE_WIRE(a_qp_goes_by_its_address_label),
		ON_THE_WIRE(a_datagram_goes_by_its_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
