/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A peer that has no receive (IBTA vol. 1, 9.7.5.2.8): packets behind the one that found none are not
 * lost, and what is said of them costs no retry.
 */
#include "wire_net.h"
#include "wire_scene.h"

#define RNR_CODE 14 /* 1 ms (table 45) */

static void nak_comes(const struct net *net, uint32_t psn, uint8_t syndrome)
{
	struct simhca_packet packet = a_send(net, psn, 0);

	packet.op = SIMHCA_PKT_ACK;
	packet.syndrome = syndrome;
	comes(net, ELSEWHERE, &packet, 0);
	run_until_idle(net->world);
}

/* This device and Linux's rxe tell of a gap there, sooner or later: a QP that may not retry does not end by it. */
static void a_nak_of_what_is_behind_is_no_loss(void **state)
{
	for (int late = 0; late < 2; late++) {
		struct net net = { .world = *state, .options = default_options(IBV_QPT_RC) };

		net.options.psn = FIRST_PSN;
		net.options.retry_cnt = 0;
		net.options.timeout = 20;
		net.side = side_new(client_new(*state, 0), &net.options);
		qp_connect(net.side->qp, ELSEWHERE, 0x123, &net.options);
		for (uint64_t id = 1; id < 4; id++)
			send_from(net.side, id, 0, 64);
		run_until_idle(*state);
		nak_comes(&net, 0, SIMHCA_SYNDROME_RNR_NAK | RNR_CODE);
		if (late)
			advance(*state, MSEC);
		nak_comes(&net, 0, SIMHCA_SYNDROME_NAK_PSN);
		if (!late)
			advance(*state, MSEC);
		assert_int_equal(wire_net_last().psn, FIRST_PSN + 2);
		acknowledge(&net, 2);
		run_until_idle(*state);
		for (uint64_t id = 1; id < 4; id++)
			expect(net.side->send_cq, id, SUCCESS);
	}
}

/*
 * One that has no receive for long, on a way that loses packets: each time that it says so ends a row of
 * silences, of which retry_cnt is the most.
 */
static void a_peer_that_answers_is_not_silent(void **state)
{
	struct net net = { .world = *state, .options = default_options(IBV_QPT_RC) };

	net.options.psn = FIRST_PSN;
	net.options.retry_cnt = 1;
	net.options.timeout = 10;
	net.side = side_new(client_new(*state, 0), &net.options);
	qp_connect(net.side->qp, ELSEWHERE, 0x123, &net.options);
	send_from(net.side, 1, 0, 64);
	run_until_idle(*state);
	for (int i = 0; i < 10; i++) {
		uint64_t silences = net_stat(&net, SIMHCA_STAT_LOCAL_ACK_TIMEOUT);

		while (net_stat(&net, SIMHCA_STAT_LOCAL_ACK_TIMEOUT) == silences)
			advance(*state, MSEC);
		nak_comes(&net, 0, SIMHCA_SYNDROME_RNR_NAK | RNR_CODE);
		expect_none(net.side->send_cq);
		advance(*state, 2 * MSEC);
	}
	acknowledge(&net, 0);
	run_until_idle(*state);
	expect(net.side->send_cq, 1, SUCCESS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_THE_WIRE(a_nak_of_what_is_behind_is_no_loss),
		ON_THE_WIRE(a_peer_that_answers_is_not_silent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
