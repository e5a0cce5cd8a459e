/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The ICRC of a FLUSH: the one of the specification, and that of Linux's rxe. */
#include "wire_net.h"
#include "wire_scene.h"

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
	run_until_idle(net->world);
}

static void a_flush(void **state)
{
	struct net net = net_new(state, IBV_QPT_RC);

	a_flush_goes(&net);
	assert_true(wire_net_has_icrc(false));
	assert_false(wire_net_has_icrc(true));
	a_flush_comes(&net, 0, true);
	assert_int_equal(net_counts(&net).refused[SIMHCA_WIRE_BAD_ICRC], 1);
	a_flush_comes(&net, 0, false);
	assert_int_equal(net_counts(&net).taken, 1);
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
	assert_int_equal(net_counts(&net).taken, 2);
	assert_int_equal(net_counts(&net).refused[SIMHCA_WIRE_BAD_ICRC], 0);
	net = net_new(state, IBV_QPT_RC);
	write_mtus(&net, 2, 1);
	assert_true(wire_net_has_icrc(false));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_THE_WIRE(a_flush),
		LIKE_RXE(a_flush_like_rxes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
