/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* A peer that does not answer, or not in time. */
#include "wire_net.h"
#include "wire_scene.h"

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
	run_until_idle(*state);
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
	run_until_idle(*state);
	expect(net.side->send_cq, 2, SUCCESS);
	post(net.side, .id = 3, .opcode = SIMHCA_WR_RDMA_WRITE, .remote_addr = 4096, .rkey = 1,
	     SGES(sge(net.side->mr, 0, 64)));
	run_until_idle(*state);
	sent = net_stat(&net, SIMHCA_STAT_XMIT_PACKETS);
	advance(*state, TIMEOUT_NS - MSEC / 10);
	assert_int_equal(net_stat(&net, SIMHCA_STAT_XMIT_PACKETS), sent + 1);
	assert_int_equal(net_stat(&net, SIMHCA_STAT_ADP_RETRANS), 1);
	assert_int_equal(net_stat(&net, SIMHCA_STAT_LOCAL_ACK_TIMEOUT), 0);
	/* The transport's timer is all there is from then on. */
	advance(*state, 2 * TIMEOUT_NS);
	expect(net.side->send_cq, 3, RETRY_EXC_ERR);
	assert_int_equal(net_stat(&net, SIMHCA_STAT_ADP_RETRANS), 1);
}

/* How long an answer took that may have been one to the first or to the second is guessed, and it asks later. */
static void a_peer_that_was_asked_twice(void **state)
{
	struct net net = waiting(state, 7);

	advance(*state, TIMEOUT_NS + MSEC);
	assert_int_equal(net_stat(&net, SIMHCA_STAT_LOCAL_ACK_TIMEOUT), 1);
	advance(*state, 2 * MSEC);
	acknowledge(&net, 0);
	run_until_idle(*state);
	expect(net.side->send_cq, 2, SUCCESS);
	write_mtus(&net, 3, 1);
	advance(*state, TIMEOUT_NS - MSEC / 10);
	assert_int_equal(net_stat(&net, SIMHCA_STAT_ADP_RETRANS), 0);
}

/* What answers a probe: nothing; the duplicate of what has arrived; a NAK, as a PSN was left out. */
enum answer { NO_ANSWER, OF_DUPLICATE, OF_GAP };

static void answers(const struct net *net, enum answer answer)
{
	struct simhca_packet packet = a_send(net, 0, 0);

	packet.op = SIMHCA_PKT_ACK;
	packet.syndrome = answer == OF_GAP ? SIMHCA_SYNDROME_NAK_PSN : SIMHCA_SYNDROME_ACK;
	if (answer != NO_ANSWER)
		comes(net, ELSEWHERE, &packet, 0);
	run_until_idle(net->world);
}

static struct net begun_or_not(void **state, bool begun)
{
	struct net net = { .world = *state, .options = default_options(IBV_QPT_RC) };

	net.options.psn = FIRST_PSN;
	net.options.timeout = 10;
	net.options.path_mtu = IBV_MTU_256;
	net.side = side_new(client_new(*state, 0), &net.options);
	qp_connect(net.side->qp, ELSEWHERE, 0x123, &net.options);
	if (begun) {
		write_mtus(&net, 2, 1);
		acknowledge(&net, 0);
		run_until_idle(*state);
		expect(net.side->send_cq, 2, SUCCESS);
	}
	return net;
}

/* Two writes of so many bytes, which have no answer. Returns how many packets they are. */
static uint64_t write_twice(const struct net *net, uint64_t length)
{
	uint64_t sent = net_stat(net, SIMHCA_STAT_XMIT_PACKETS);

	for (uint64_t id = 3; id < 5; id++)
		post(net->side, .id = id, .opcode = SIMHCA_WR_RDMA_WRITE, .remote_addr = 4096,
		     .rkey = 1, SGES(sge(net->side->mr, 0, length)));
	run_until_idle(net->world);
	return net_stat(net, SIMHCA_STAT_XMIT_PACKETS) - sent;
}

/* They are repeated in pairs, the window being two PSNs. False: time is over, or they end. */
static bool is_probed(const struct net *net, struct simhca_cqe *cqe)
{
	for (int i = 0; i < 200 && !cq_poll(net->side->send_cq, cqe); i++) {
		uint64_t before = net_stat(net, SIMHCA_STAT_XMIT_PACKETS);

		advance(net->world, TIMEOUT_NS / 2);
		if ((net_stat(net, SIMHCA_STAT_XMIT_PACKETS) - before) % 2)
			return true;
	}
	return false;
}

/* Who answers short packets and no full ones is behind a link with a smaller MTU. */
static void a_hole_for_full_packets(void **state)
{
	static const struct {
		bool begun;
		uint64_t length;
		enum answer answer;
		bool probed;
		enum simhca_reason reason;
	} cases[] = {
		{ true, 2 * MTU, OF_DUPLICATE, true, SIMHCA_REASON_WIRE_PATH_MTU },
		{ false, 2 * MTU, OF_GAP, true, SIMHCA_REASON_WIRE_PATH_MTU },
		{ true, 2 * MTU, NO_ANSWER, true, SIMHCA_REASON_NO_RESPONSE },
		{ true, 64, OF_DUPLICATE, false, SIMHCA_REASON_NO_RESPONSE },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct net net = begun_or_not(state, cases[i].begun);
		struct simhca_cqe cqe = { 0 };
		bool probed = false;

		write_twice(&net, cases[i].length);
		while (is_probed(&net, &cqe)) {
			probed = true;
			answers(&net, cases[i].answer);
		}
		assert_int_equal(probed, cases[i].probed);
		assert_int_equal(cqe.status, IBV_WC_RETRY_EXC_ERR);
		assert_int_equal(cqe.vendor_err, cases[i].reason);
	}
}

/* What arrives after all is no hole. */
static void full_packets_that_arrive(void **state)
{
	struct net net = begun_or_not(state, true);
	uint32_t packets = (uint32_t)write_twice(&net, 2 * MTU);
	struct simhca_wire_traffic traffic;
	struct simhca_cqe cqe;

	assert_true(is_probed(&net, &cqe));
	answers(&net, OF_DUPLICATE);
	assert_true(simhca_wire_traffic(net.side->client->context, net.side->qp->handle, &traffic));
	assert_true(traffic.hole);
	acknowledge(&net, packets);
	run_until_idle(*state);
	expect(net.side->send_cq, 3, SUCCESS);
	assert_true(simhca_wire_traffic(net.side->client->context, net.side->qp->handle, &traffic));
	assert_false(traffic.hole);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_THE_WIRE(a_silent_peer),	      ON_THE_WIRE(an_answer_that_waits),
		ON_THE_WIRE(a_peer_that_was_quick),   ON_THE_WIRE(a_peer_that_was_asked_twice),
		ON_THE_WIRE(a_hole_for_full_packets), ON_THE_WIRE(full_packets_that_arrive),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
