/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Packets that a peer of this device's kind would not send, or not now: what a responder says of
 * each (IBTA vol. 1, 9.7.4, 9.7.5), and a requester that takes no answer for one that is none.
 */
#include "lossy.h"
#include "packet/packet.h"
#include "xrc_scene.h"

#define MTU 1024u
#define FIRST_PSN 0xffffffu

struct net {
	struct world *world;
	struct pair *pair;
	struct lossy how;
	bool deaf;		       /* nothing arrives but what is forged */
	struct simhca_packet answer;   /* the latest that was sent to a */
	unsigned int answers, repeats; /* so many; and requests of a */
};

static bool loses(void *arg, unsigned int op, uint32_t psn)
{
	const struct net *net = arg;

	(void)op;
	(void)psn;
	return net->deaf;
}

static void sees(void *arg, const struct simhca_packet *packet, unsigned int copies, bool late)
{
	struct net *net = arg;

	(void)copies;
	(void)late;
	if (!simhca_is_response(packet->op)) {
		net->repeats++;
		return;
	}
	net->answer = *packet;
	net->answers++;
}

static struct net *net_new(void **state)
{
	struct net *net = world_alloc(*state, sizeof(*net));
	struct options options = default_options(IBV_QPT_RC);

	net->world = *state;
	net->how.loses = loses;
	net->how.tells = sees;
	net->how.arg = net;
	lossy_use(*state, &net->how);
	options.psn = FIRST_PSN;
	options.path_mtu = IBV_MTU_1024;
	net->pair = pair_new(*state, &options);
	return net;
}

/* A request to b, of the PSN that is so many after the first. */
static struct simhca_packet request(const struct net *net, enum simhca_packet_op op, uint32_t place,
				    uint64_t length)
{
	return (struct simhca_packet){
		.op = op,
		.psn = (FIRST_PSN + place) & SIMHCA_PSN_MASK,
		.length = length,
		.dma_length = length,
		.va = net->pair->b.mr->iova,
		.rkey = net->pair->b.mr->rkey,
		.first = true,
		.last = true,
		.ack_req = true,
	};
}

static void forge(struct net *net, struct qp *to, struct simhca_packet packet)
{
	net->answers = 0;
	lossy_forge(to, &packet);
	run_until_idle(net->world);
}

static void sends_part(struct net *net, enum simhca_packet_op op, uint32_t place, uint64_t length,
		       bool first, bool last)
{
	struct simhca_packet packet = request(net, op, place, length);

	packet.first = first;
	packet.last = last;
	if (!last)
		packet.dma_length = 2 * MTU;
	forge(net, net->pair->b.qp, packet);
}

static void check_answer(const struct net *net, uint8_t syndrome, uint32_t place, uint32_t msn)
{
	assert_int_equal(net->answers, 1);
	assert_int_equal(net->answer.syndrome, syndrome);
	assert_int_equal(net->answer.psn, (FIRST_PSN + place) & SIMHCA_PSN_MASK);
	assert_int_equal(net->answer.msn, msn);
}

/* Each as the last of a few packets; the ones before it are good. */
static void what_is_out_of_order_is_an_invalid_request(void **state)
{
	static const struct {
		struct {
			enum simhca_packet_op op;
			uint64_t length;
			bool first, last;
		} packet[2];
	} cases[] = {
		{ { { SIMHCA_PKT_SEND, MTU, false, false } } },
		{ { { SIMHCA_PKT_SEND, 10, false, true } } },
		{ { { SIMHCA_PKT_WRITE, MTU, false, false } } },
		{ { { SIMHCA_PKT_SEND, MTU, true, false },
		    { SIMHCA_PKT_SEND, MTU, true, false } } },
		{ { { SIMHCA_PKT_SEND, MTU, true, false }, { SIMHCA_PKT_SEND, 8, true, true } } },
		{ { { SIMHCA_PKT_SEND, MTU, true, false }, { SIMHCA_PKT_WRITE, 8, false, true } } },
		{ { { SIMHCA_PKT_WRITE, MTU, true, false }, { SIMHCA_PKT_SEND, 8, false, true } } },
		{ { { SIMHCA_PKT_SEND, MTU, true, false }, { SIMHCA_PKT_READ, 8, true, true } } },
		{ { { SIMHCA_PKT_SEND, MTU, true, false },
		    { SIMHCA_PKT_FETCH_ADD, 0, true, true } } },
		/* lengths: only the last one's is free, and it is not empty */
		{ { { SIMHCA_PKT_SEND, 100, true, false } } },
		{ { { SIMHCA_PKT_SEND, 0, true, false } } },
		{ { { SIMHCA_PKT_SEND, MTU, true, false },
		    { SIMHCA_PKT_SEND, 100, false, false } } },
		{ { { SIMHCA_PKT_SEND, MTU, true, false }, { SIMHCA_PKT_SEND, 0, false, true } } },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct net *net = net_new(state);
		uint32_t n = 0;

		recv_into(&net->pair->b, 1, 0, 4096);
		for (; n < 2 && (!n || cases[i].packet[n].first || cases[i].packet[n].last ||
				 cases[i].packet[n].length);
		     n++) {
			if (n)
				assert_int_equal(net->answer.syndrome, SIMHCA_SYNDROME_ACK);
			sends_part(net, cases[i].packet[n].op, n, cases[i].packet[n].length,
				   cases[i].packet[n].first, cases[i].packet[n].last);
		}
		check_answer(net, SIMHCA_SYNDROME_NAK_INVALID, n - 1, 0);
		assert_int_equal(qp_state(net->pair->b.qp), IBV_QPS_ERR);
		lossy_end();
	}
}

/* The length in the RETH: that of all the packets, and no more than a message may have. */
static void lengths_that_are_not_true(void **state)
{
	static const struct {
		enum simhca_packet_op op;
		uint64_t length, says;
		bool last;
	} cases[] = {
		{ SIMHCA_PKT_WRITE, 100, 99, true },
		{ SIMHCA_PKT_WRITE, 100, 101, true },
		{ SIMHCA_PKT_WRITE, MTU, MTU, false },
		{ SIMHCA_PKT_WRITE, MTU, SIMHCA_MAX_MSG_SIZE + 1, false },
		{ SIMHCA_PKT_READ, 0, SIMHCA_MAX_MSG_SIZE + 1, true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct net *net = net_new(state);
		struct simhca_packet packet = request(net, cases[i].op, 0, cases[i].length);

		packet.dma_length = cases[i].says;
		packet.last = cases[i].last;
		forge(net, net->pair->b.qp, packet);
		assert_int_equal(net->answer.syndrome, SIMHCA_SYNDROME_NAK_INVALID);
		assert_int_equal(qp_state(net->pair->b.qp), IBV_QPS_ERR);
		lossy_end();
	}
}

/* One NAK for a gap, of the PSN that is missing; another one for the next gap. */
static void one_nak_for_a_gap(void **state)
{
	struct net *net = net_new(state);

	for (uint32_t gap = 0; gap < 3; gap++) {
		forge(net, net->pair->b.qp, request(net, SIMHCA_PKT_WRITE, gap + 2, 8));
		check_answer(net, SIMHCA_SYNDROME_NAK_PSN, gap, gap);
		forge(net, net->pair->b.qp, request(net, SIMHCA_PKT_WRITE, gap + 3, 8));
		assert_int_equal(net->answers, 0);
		forge(net, net->pair->b.qp, request(net, SIMHCA_PKT_WRITE, gap, 8));
		check_answer(net, SIMHCA_SYNDROME_ACK, gap, gap + 1);
	}
}

/* What nobody asked an answer for gets none, but is done; MSN counts messages that are complete. */
static void answers_and_message_numbers(void **state)
{
	struct net *net = net_new(state);
	struct qp *b = net->pair->b.qp;
	struct simhca_packet quiet = request(net, SIMHCA_PKT_WRITE, 0, 8);

	quiet.ack_req = false;
	forge(net, b, quiet);
	assert_int_equal(net->answers, 0);
	forge(net, b, request(net, SIMHCA_PKT_WRITE, 1, 8));
	check_answer(net, SIMHCA_SYNDROME_ACK, 1, 2);
	/* again: the same, and the numbers of today */
	forge(net, b, request(net, SIMHCA_PKT_WRITE, 0, 8));
	check_answer(net, SIMHCA_SYNDROME_ACK, 0, 2);
	/* no receive: the NAK is for this PSN, and the message does not count */
	forge(net, b, request(net, SIMHCA_PKT_SEND, 2, 8));
	check_answer(net, SIMHCA_SYNDROME_RNR_NAK | net->pair->b.options.min_rnr_timer, 2, 2);
	recv_into(&net->pair->b, 1, 0, 4096);
	/* the first packet of a message is acknowledged, the message is not counted yet */
	sends_part(net, SIMHCA_PKT_SEND, 2, MTU, true, false);
	check_answer(net, SIMHCA_SYNDROME_ACK, 2, 2);
	sends_part(net, SIMHCA_PKT_SEND, 3, 8, false, true);
	check_answer(net, SIMHCA_SYNDROME_ACK, 3, 3);
	/* a read is complete when its response begins, and takes a PSN for each packet of it */
	forge(net, b,
	      (struct simhca_packet){ .op = SIMHCA_PKT_READ,
				      .psn = (FIRST_PSN + 4) & SIMHCA_PSN_MASK,
				      .first = true,
				      .last = true,
				      .va = net->pair->b.mr->iova,
				      .rkey = net->pair->b.mr->rkey,
				      .dma_length = MTU });
	check_answer(net, SIMHCA_SYNDROME_ACK, 4, 4);
	assert_int_equal(net->answer.op, SIMHCA_PKT_READ_RESPONSE);
}

/* What ends outside of the region begins nowhere, though its first packets would fit. */
static void a_bad_range_moves_nothing(void **state)
{
	for (int read = 0; read < 2; read++) {
		struct net *net = net_new(state);
		struct side *a = &net->pair->a, *from = read ? &net->pair->b : a;
		struct side *to = read ? a : &net->pair->b;
		uint64_t at = net->pair->b.mr->length - MTU - 10;

		fill(from->mr->addr, from->mr->length, 1);
		if (read)
			rdma_read(a, 1, 0, 2 * MTU, at);
		else
			rdma_write(a, 1, 0, 2 * MTU, at);
		expect_why(a->send_cq, 1, REM_ACCESS_ERR, KEY_PAST_END);
		assert_true(all_bytes(to->mr->addr, to->mr->length, 0));
		lossy_end();
	}
}

/* The PSN of an atomic that is done, with another one: that one was never asked for. */
static void another_atomic_of_the_same_psn(void **state)
{
	struct net *net = net_new(state);
	struct qp *b = net->pair->b.qp;

	forge(net, b, request(net, SIMHCA_PKT_FETCH_ADD, 0, 0));
	check_answer(net, SIMHCA_SYNDROME_ACK, 0, 1);
	forge(net, b, request(net, SIMHCA_PKT_COMPARE_SWAP, 0, 0));
	assert_int_equal(net->answers, 0);
	forge(net, b, request(net, SIMHCA_PKT_FETCH_ADD, 0, 0));
	check_answer(net, SIMHCA_SYNDROME_ACK, 0, 1);
}

/*
 * A target refuses a packet that does not go on with its message, whose SRQ has gone with the
 * receive: nothing completes, but both ends fail as ever.
 */
static void a_target_whose_srq_has_gone_refuses(void **state)
{
	struct options options = default_options(IBV_QPT_XRC_RECV);
	struct simhca_packet packet = {
		.op = SIMHCA_PKT_SEND, .length = MTU, .dma_length = 2 * MTU, .first = true
	};
	struct server *to;
	struct scene *s;

	lossy_use(*state, NULL);
	options.path_mtu = IBV_MTU_1024;
	s = make_with(*state, &options);
	to = &s->server[1];
	supply(to, 1);
	packet.psn = options.psn;
	packet.srqn = to->srq->srqn;
	lossy_forge(s->server[0].target, &packet);
	run_until_idle(s->world);
	assert_int_equal(srq_ci_of(to->srq), 1);
	assert_int_equal(0,
			 patiently(simhca_destroy_srq(to->client->context, to->srq->handle, NULL)));
	packet.psn++;
	lossy_forge(s->server[0].target, &packet);
	run_until_idle(s->world);
	assert_int_equal(qp_state(s->server[0].target), IBV_QPS_ERR);
	expect_none(to->cq);
}

/* The packets of a message are all for one SRQ. */
static void a_message_for_two_srqs_is_refused(void **state)
{
	struct options options = default_options(IBV_QPT_XRC_RECV);
	struct simhca_packet packet = {
		.op = SIMHCA_PKT_SEND, .length = MTU, .dma_length = 2 * MTU, .first = true
	};
	struct scene *s;

	lossy_use(*state, NULL);
	options.path_mtu = IBV_MTU_1024;
	s = make_with(*state, &options);
	supply(&s->server[0], 1);
	supply(&s->server[1], 2);
	packet.psn = options.psn;
	packet.srqn = s->server[0].srq->srqn;
	lossy_forge(s->server[0].target, &packet);
	packet.psn++;
	packet.srqn = s->server[1].srq->srqn;
	packet.first = false;
	packet.last = true;
	lossy_forge(s->server[0].target, &packet);
	run_until_idle(s->world);
	assert_int_equal(qp_state(s->server[0].target), IBV_QPS_ERR);
	expect(s->server[0].cq, 1, REM_INV_REQ_ERR);
	expect_none(s->server[1].cq);
}

/* ------------------------------------------------------------------------- the requester */

static struct simhca_packet answer(enum simhca_packet_op op, uint32_t place, uint64_t length)
{
	return (struct simhca_packet){
		.op = op,
		.psn = (FIRST_PSN + place) & SIMHCA_PSN_MASK,
		.length = length,
		.first = true,
		.last = true,
		.syndrome = SIMHCA_SYNDROME_ACK,
	};
}

/* Nothing completes, and nothing fails, by what answers nothing that is under way. */
static void answers_to_nothing(void **state)
{
	struct net *net = net_new(state);
	struct side *a = &net->pair->a;
	struct simhca_packet stranger = answer(SIMHCA_PKT_ACK, 2, 0),
			     reserved = answer(SIMHCA_PKT_ACK, 2, 0),
			     early = answer(SIMHCA_PKT_ACK, 4, 0);

	rdma_write(a, 1, 0, 8, 0);
	expect(a->send_cq, 1, SUCCESS);
	net->deaf = true;
	rdma_write(a, 2, 0, 8, 0);   /* PSN 1 */
	rdma_read(a, 3, 0, 2500, 0); /* 2 to 4 */
	run_until_idle(net->world);
	stranger.src_qpn = net->pair->b.qp->qpn + 1;
	reserved.syndrome = 0x80;
	early.syndrome = SIMHCA_SYNDROME_NAK_ACCESS;
	forge(net, a->qp, answer(SIMHCA_PKT_ACK, 0, 0));	   /* old */
	forge(net, a->qp, answer(SIMHCA_PKT_ACK, 5, 0));	   /* of what was not sent */
	forge(net, a->qp, answer(SIMHCA_PKT_READ_RESPONSE, 1, 8)); /* of a write */
	forge(net, a->qp, answer(SIMHCA_PKT_ATOMIC_ACK, 1, 0));
	early.psn = (FIRST_PSN + 5) & SIMHCA_PSN_MASK;
	forge(net, a->qp, early);
	early.psn = FIRST_PSN;
	forge(net, a->qp, early);
	stranger.psn = (FIRST_PSN + 1) & SIMHCA_PSN_MASK;
	forge(net, a->qp, stranger);
	expect_none(a->send_cq);
	/* by the read's first response the write is done; of the read it must be the right one */
	reserved.psn = (FIRST_PSN + 1) & SIMHCA_PSN_MASK;
	forge(net, a->qp, reserved);
	expect_none(a->send_cq);
	forge(net, a->qp, answer(SIMHCA_PKT_READ_RESPONSE, 2, 2501)); /* too long */
	expect(a->send_cq, 2, SUCCESS);
	forge(net, a->qp, answer(SIMHCA_PKT_READ_RESPONSE, 2, 100)); /* not full */
	forge(net, a->qp, answer(SIMHCA_PKT_READ_RESPONSE, 2, 0));
	forge(net, a->qp, answer(SIMHCA_PKT_ATOMIC_ACK, 2, 0));
	expect_none(a->send_cq);
	forge(net, a->qp, answer(SIMHCA_PKT_READ_RESPONSE, 2, 2 * MTU));
	forge(net, a->qp, answer(SIMHCA_PKT_READ_RESPONSE, 4, 2500 - 2 * MTU));
	expect(a->send_cq, 3, SUCCESS);
	assert_int_equal(qp_state(a->qp), IBV_QPS_RTS);
}

/* An acknowledgement is no answer to a read, whatever its PSN: the data are asked for again. */
static void an_acknowledged_read_is_not_complete(void **state)
{
	struct net *net = net_new(state);
	struct side *a = &net->pair->a;

	net->deaf = true;
	rdma_read(a, 1, 0, 8, 0);
	run_until_idle(net->world);
	assert_int_equal(net->repeats, 1);
	forge(net, a->qp, answer(SIMHCA_PKT_ACK, 0, 0));
	expect_none(a->send_cq);
	assert_int_equal(net->repeats, 2);
}

/* As many reads are under way as max_rd_atomic allows, and no more. */
static void reads_under_way_have_a_limit(void **state)
{
	struct net *net = net_new(state);
	struct side *a = &net->pair->a;
	uint32_t limit = a->options.max_rd_atomic;

	net->deaf = true;
	for (uint32_t i = 0; i < limit + 3; i++)
		rdma_read(a, i, 0, 8, 0);
	run_until_idle(net->world);
	assert_int_equal(net->repeats, limit);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_ETHERNET(what_is_out_of_order_is_an_invalid_request),
		ON_ETHERNET(lengths_that_are_not_true),
		ON_ETHERNET(one_nak_for_a_gap),
		ON_ETHERNET(answers_and_message_numbers),
		ON_ETHERNET(a_bad_range_moves_nothing),
		ON_ETHERNET(another_atomic_of_the_same_psn),
		ON_ETHERNET(a_target_whose_srq_has_gone_refuses),
		ON_ETHERNET(a_message_for_two_srqs_is_refused),
		ON_ETHERNET(answers_to_nothing),
		ON_ETHERNET(an_acknowledged_read_is_not_complete),
		ON_ETHERNET(reads_under_way_have_a_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
