/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Packets that come, or leave, together: those of a message are one, and one acknowledgement is enough. */
#include "wire_net.h"
#include "wire_scene.h"

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
		uint64_t sent = net_stat(&net, SIMHCA_STAT_XMIT_PACKETS);
		struct simhca_cqe cqe;

		for (uint32_t n = 0; n < 3; n++)
			comes_part(&net, n);
		run_until_idle(*state);
		cqe = expect(net.side->recv_cq, 1, SUCCESS);
		assert_int_equal(cqe.byte_len, 2 * MTU + 100);
		assert_int_equal(cqe.imm_or_rkey, 0x1234);
		assert_int_equal(responder_of(net.side->qp)->epsn, FIRST_PSN + 3);
		assert_int_equal(net_stat(&net, SIMHCA_STAT_XMIT_PACKETS) - sent, i == 0);
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
		run_until_idle(*state);
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
	run_until_idle(*state);
	for (uint32_t n = 0; n < 3; n++)
		comes_part(&net, n);
	run_until_idle(*state);
	expect_none(net.side->recv_cq);
	assert_int_equal(responder_of(net.side->qp)->epsn, FIRST_PSN + 1);
	for (uint32_t n = 1; n < 3; n++)
		comes_part(&net, n);
	run_until_idle(*state);
	expect(net.side->recv_cq, 1, SUCCESS);
	assert_int_equal(responder_of(net.side->qp)->offset, 2 * MTU + 100);
}

/* Of several acknowledgements that leave together the newest is said, also after a repeated one. */
static void one_acknowledgement(void **state)
{
	static const uint32_t psns[] = { 0, 1, 0 };
	struct net net = net_new(state, IBV_QPT_RC);
	uint64_t sent = net_stat(&net, SIMHCA_STAT_XMIT_PACKETS);

	recv_into(net.side, 2, 0, 2048);
	for (size_t i = 0; i < ARRAY_SIZE(psns); i++) {
		const struct simhca_packet packet = a_send(&net, psns[i], 100);

		comes(&net, ELSEWHERE, &packet, 0);
	}
	run_until_idle(*state);
	expect(net.side->recv_cq, 1, SUCCESS);
	expect(net.side->recv_cq, 2, SUCCESS);
	assert_int_equal(net_stat(&net, SIMHCA_STAT_XMIT_PACKETS) - sent, 1);
	assert_int_equal(wire_net_acknowledged(), FIRST_PSN + 1);
}

/* It comes first: who has room for one message alone learns that it has gone before its answer. */
static void an_acknowledgement_and_a_request(void **state)
{
	struct net net = net_new(state, IBV_QPT_RC);
	const struct simhca_packet packet = a_send(&net, 0, 100);

	comes(&net, ELSEWHERE, &packet, 0);
	send_from(net.side, 2, 0, 64);
	run_until_idle(*state);
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
	run_until_idle(*state);
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
	run_until_idle(*state);
	expect(net.side->recv_cq, 1, SUCCESS);
	assert_int_equal(wire_net_acknowledged(), FIRST_PSN);
	assert_int_equal(wire_net_last().op, SIMHCA_PKT_READ_RESPONSE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_THE_WIRE(a_message_in_a_row),
		ON_THE_WIRE(a_wrong_length_in_a_row),
		ON_THE_WIRE(a_row_that_begins_before),
		ON_THE_WIRE(one_acknowledgement),
		ON_THE_WIRE(an_acknowledgement_and_a_request),
		ON_THE_WIRE(an_acknowledgement_and_a_short_request),
		ON_THE_WIRE(an_acknowledgement_and_a_response),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
