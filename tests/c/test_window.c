/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Several messages and packets under way: what a requester sends, and sends again, when chosen
 * packets are lost (IBTA vol. 1, 9.7.5, 9.7.6, 10.8.3.3).
 */
#include "core/fabric.h"
#include "lossy.h"
#include "proto/link.h"
#include "packet/packet.h"

#define TIMEOUT (68 * MSEC) /* 4.096 us * 2^14, and a little */
#define DEPTH SIMHCA_MAX_RD_ATOMIC
#define FIRST_PSN 0xfffffcu /* all of it where PSNs wrap */

/* Loses what it is told to, and counts what was sent. */
struct net {
	struct world *world;
	struct pair *pair;
	struct lossy how;
	unsigned int op;    /* of the packets to lose */
	uint32_t from;	    /* the n-th after FIRST_PSN ... */
	unsigned int count; /* so many of them, one of a PSN each */
	uint32_t step;	    /* and this many PSNs apart at least */
	unsigned int sent[SIMHCA_PKT_ATOMIC_ACK + 1];
	uint32_t last_psn[SIMHCA_PKT_ATOMIC_ACK + 1]; /* after FIRST_PSN, of what was sent last */
};

static bool loses(void *arg, unsigned int op, uint32_t psn)
{
	struct net *net = arg;
	uint32_t place = (psn - FIRST_PSN) & 0xffffff;

	net->sent[op]++;
	net->last_psn[op] = place;
	if (op != net->op || !net->count || place < net->from)
		return false;
	net->count--;
	net->from += net->step;
	return true;
}

static struct net *net_with(void **state, struct options options)
{
	struct net *net = world_alloc(*state, sizeof(*net));

	net->world = *state;
	net->how.loses = loses;
	net->how.arg = net;
	lossy_use(*state, &net->how);
	options.psn = FIRST_PSN;
	options.path_mtu = IBV_MTU_256;
	options.timeout = 14;
	net->pair = pair_new(*state, &options);
	fill(net->pair->a.mr->addr, 16384, 1);
	fill(net->pair->b.mr->addr + 16384, 16384, 2);
	return net;
}

static struct net *net_of(void **state, uint8_t max_rd_atomic)
{
	struct options options = default_options(IBV_QPT_RC);

	options.max_rd_atomic = max_rd_atomic;
	return net_with(state, options);
}

static void lose(struct net *net, unsigned int op, uint32_t from, unsigned int count)
{
	net->op = op;
	net->from = from;
	net->count = count;
}

static uint64_t stat(const struct net *net, unsigned int device, unsigned int which)
{
	uint64_t stats[SIMHCA_STATS];

	simhca_device_stats(net->world->device[device], stats);
	return stats[which];
}

static void writes(struct net *net, uint64_t count, uint32_t length)
{
	for (uint64_t id = 0; id < count; id++)
		rdma_write(&net->pair->a, id, id * length, length, id * length);
	run_until_idle(net->world);
}

static void expect_writes(struct net *net, uint64_t count, uint32_t length)
{
	for (uint64_t id = 0; id < count; id++)
		expect(net->pair->a.send_cq, id, SUCCESS);
	expect_none(net->pair->a.send_cq);
	assert_memory_equal(net->pair->b.mr->addr, net->pair->a.mr->addr, count * length);
	assert_int_equal(responder_of(net->pair->b.qp)->msn, count);
}

static void an_acknowledgement_stands_for_all_before(void **state)
{
	struct net *net = net_of(state, 4);

	lose(net, SIMHCA_PKT_ACK, 0, 9);
	writes(net, 10, 100);
	expect_writes(net, 10, 100);
	assert_int_equal(net->sent[SIMHCA_PKT_WRITE], 10);
	assert_int_equal(stat(net, 0, SIMHCA_STAT_LOCAL_ACK_TIMEOUT), 0);
}

/* All from there on is sent again, at once; the packets behind the gap bring no further NAK. */
static void a_gap_is_told_once(void **state)
{
	struct net *net = net_of(state, 4);

	lose(net, SIMHCA_PKT_WRITE, 2, 1);
	writes(net, 8, 100);
	expect_writes(net, 8, 100);
	assert_int_equal(net->sent[SIMHCA_PKT_WRITE], 8 + 6);
	assert_int_equal(stat(net, 0, SIMHCA_STAT_PACKET_SEQ_ERR), 1);
	assert_int_equal(stat(net, 1, SIMHCA_STAT_OUT_OF_SEQUENCE), 5);
	assert_int_equal(stat(net, 1, SIMHCA_STAT_DUPLICATE_REQUEST), 0);
}

/* In the middle of a message, too, whose middle packets name no address. */
static void a_gap_in_a_message(void **state)
{
	struct net *net = net_of(state, 4);

	lose(net, SIMHCA_PKT_WRITE, 5, 1);
	writes(net, 1, 2500);
	expect_writes(net, 1, 2500);
	assert_int_equal(net->sent[SIMHCA_PKT_WRITE], 10 + 5);
}

/* Each gap that is told of costs a retry; what is acknowledged gives them back. */
static void a_gap_costs_a_retry(void **state)
{
	for (uint8_t retries = 0; retries < 2; retries++) {
		struct options options = default_options(IBV_QPT_RC);
		struct net *net;

		options.retry_cnt = retries;
		net = net_with(state, options);
		lose(net, SIMHCA_PKT_WRITE, 2, 2);
		net->step = net->world->fabric->link->window;
		writes(net, 1, 16384);
		if (retries)
			expect_writes(net, 1, 16384);
		else
			expect_why(net->pair->a.send_cq, 0, RETRY_EXC_ERR, PSN_SEQUENCE);
		assert_int_equal(net->count, retries ? 0 : 1);
		assert_int_equal(stat(net, 0, SIMHCA_STAT_LOCAL_ACK_TIMEOUT), 0);
		lossy_end();
	}
}

/* If that is lost as well nobody tells: the timer has to. */
static void what_is_lost_twice_needs_the_timer(void **state)
{
	struct net *net = net_of(state, 4);

	lose(net, SIMHCA_PKT_WRITE, 7, 2);
	writes(net, 8, 100);
	expect(net->pair->a.send_cq, 0, SUCCESS);
	advance(net->world, TIMEOUT);
	advance(net->world, TIMEOUT);
	for (uint64_t id = 1; id < 8; id++)
		expect(net->pair->a.send_cq, id, SUCCESS);
	assert_int_equal(stat(net, 0, SIMHCA_STAT_LOCAL_ACK_TIMEOUT), 2);
}

/* With several under way all that is not acknowledged goes again, and is not done again. */
static void a_time_out_goes_back_to_the_oldest(void **state)
{
	struct net *net = net_of(state, 4);

	lose(net, SIMHCA_PKT_ACK, 3, 3);
	writes(net, 6, 100);
	for (uint64_t id = 0; id < 3; id++)
		expect(net->pair->a.send_cq, id, SUCCESS);
	expect_none(net->pair->a.send_cq);
	advance(net->world, TIMEOUT);
	for (uint64_t id = 3; id < 6; id++)
		expect(net->pair->a.send_cq, id, SUCCESS);
	assert_int_equal(net->sent[SIMHCA_PKT_WRITE], 6 + 3);
	assert_int_equal(stat(net, 1, SIMHCA_STAT_DUPLICATE_REQUEST), 3);
	assert_int_equal(responder_of(net->pair->b.qp)->msn, 6);
}

/* A later response shows that one is missing: the rest is asked for, not the whole. */
static void a_read_goes_on_from_the_missing_response(void **state)
{
	struct net *net = net_of(state, 4);

	lose(net, SIMHCA_PKT_READ_RESPONSE, 4, 1);
	rdma_read(&net->pair->a, 1, 0, 2500, 16384);
	expect(net->pair->a.send_cq, 1, SUCCESS);
	assert_memory_equal(net->pair->a.mr->addr, net->pair->b.mr->addr + 16384, 2500);
	assert_int_equal(net->sent[SIMHCA_PKT_READ], 2);
	assert_int_equal(net->last_psn[SIMHCA_PKT_READ], 4);
	assert_int_equal(responder_of(net->pair->b.qp)->msn, 1);
}

/* So does the acknowledgement of what came after the read. */
static void an_acknowledgement_is_no_answer_to_a_read(void **state)
{
	struct net *net = net_of(state, 4);

	lose(net, SIMHCA_PKT_READ_RESPONSE, 0, 1);
	rdma_read(&net->pair->a, 1, 0, 100, 16384);
	rdma_write(&net->pair->a, 2, 200, 100, 0);
	expect(net->pair->a.send_cq, 1, SUCCESS);
	expect(net->pair->a.send_cq, 2, SUCCESS);
	assert_memory_equal(net->pair->a.mr->addr, net->pair->b.mr->addr + 16384, 100);
	assert_int_equal(net->sent[SIMHCA_PKT_READ], 2);
}

/* As many as may be under way. */
static void an_atomic_is_done_once(void **state)
{
	struct net *net = net_of(state, DEPTH);
	uint64_t *counter = (uint64_t *)net->pair->b.mr->addr;

	lose(net, SIMHCA_PKT_ATOMIC_ACK, 0, DEPTH);
	for (uint64_t id = 0; id < DEPTH; id++)
		post(&net->pair->a, .id = id, .opcode = SIMHCA_WR_ATOMIC_FETCH_AND_ADD,
		     .compare_add = 1, SGES(sge(net->pair->a.mr, id * 8, 8)),
		     .remote_addr = net->pair->b.mr->iova, .rkey = net->pair->b.mr->rkey);
	run_until_idle(net->world);
	expect_none(net->pair->a.send_cq);
	advance(net->world, TIMEOUT);
	for (uint64_t id = 0; id < DEPTH; id++) {
		expect(net->pair->a.send_cq, id, SUCCESS);
		assert_int_equal(((uint64_t *)net->pair->a.mr->addr)[id], id);
	}
	assert_int_equal(*counter, DEPTH);
}

static void no_more_reads_than_max_rd_atomic(void **state)
{
	struct net *net = net_of(state, 2);

	lose(net, SIMHCA_PKT_READ_RESPONSE, 0, 2);
	for (uint64_t id = 0; id < 5; id++)
		rdma_read(&net->pair->a, id, id * 100, 100, 16384);
	run_until_idle(net->world);
	assert_int_equal(net->sent[SIMHCA_PKT_READ], 2);
	advance(net->world, TIMEOUT);
	for (uint64_t id = 0; id < 5; id++)
		expect(net->pair->a.send_cq, id, SUCCESS);
}

/* A fence waits for reads; what has none overtakes them on the way to the peer's memory. */
static void a_fence_waits_for_reads(void **state)
{
	for (int fenced = 0; fenced < 2; fenced++) {
		struct net *net = net_of(state, 4);
		struct side *a = &net->pair->a, *b = &net->pair->b;

		lose(net, SIMHCA_PKT_READ_RESPONSE, 0, 1);
		rdma_read(a, 1, 0, 100, 16384);
		post(a, .id = 2, .opcode = SIMHCA_WR_SEND, SGES(sge(a->mr, 200, 100)),
		     .also = fenced ? SIMHCA_WQE_FENCE : 0);
		recv_into(b, 3, 0, 100);
		run_until_idle(net->world);
		if (fenced)
			expect_none(b->recv_cq);
		else
			expect(b->recv_cq, 3, SUCCESS);
		advance(net->world, TIMEOUT);
		expect(a->send_cq, 1, SUCCESS);
		expect(a->send_cq, 2, SUCCESS);
		if (fenced)
			expect(b->recv_cq, 3, SUCCESS);
		lossy_end();
	}
}

/* A requester that may not send on until somebody answers asks for an answer in time. */
static void long_messages_are_acknowledged_on_the_way(void **state)
{
	struct net *net = net_of(state, 4);

	writes(net, 1, 16384);
	expect_writes(net, 1, 16384);
	assert_int_equal(net->sent[SIMHCA_PKT_WRITE], 64);
	assert_in_range(net->sent[SIMHCA_PKT_ACK], 4, 16);
	assert_int_equal(stat(net, 0, SIMHCA_STAT_LOCAL_ACK_TIMEOUT), 0);
}

/* Nobody answers: as much is under way as the link takes, and no packet more. */
static void no_more_packets_than_the_window(void **state)
{
	struct net *net = net_of(state, 4);

	lose(net, SIMHCA_PKT_WRITE, 0, 64);
	writes(net, 1, 16384);
	assert_int_equal(net->sent[SIMHCA_PKT_WRITE], net->world->fabric->link->window);
}

/*
 * What is behind the message that found no receive is out of sequence: that neither ends the wait
 * nor costs a retry.
 */
static void a_sequence_nak_does_not_end_an_rnr_wait(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct side *a, *b;
	struct net *net;

	options.retry_cnt = 0;
	net = net_with(state, options);
	a = &net->pair->a;
	b = &net->pair->b;
	send_from(a, 1, 0, 100);
	rdma_write(a, 2, 200, 100, 1000);
	run_until_idle(net->world);
	assert_int_equal(stat(net, 0, SIMHCA_STAT_RNR_NAK_RETRY), 1);
	assert_int_equal(stat(net, 0, SIMHCA_STAT_PACKET_SEQ_ERR), 1);
	assert_int_equal(net->sent[SIMHCA_PKT_SEND], 1);
	recv_into(b, 3, 0, 100);
	advance(net->world, SEC);
	expect(a->send_cq, 1, SUCCESS);
	expect(a->send_cq, 2, SUCCESS);
	expect(b->recv_cq, 3, SUCCESS);
	assert_int_equal(net->sent[SIMHCA_PKT_SEND], 2);
}

/* Of a message that fails half-way: the next one goes on where that has stopped. */
static void what_was_not_sent_takes_no_psns(void **state)
{
	struct options options = default_options(IBV_QPT_UC);
	struct simhca_qp_attr attr = { .qp_state = IBV_QPS_RTS };
	struct net *net = net_with(state, options);
	struct side *a = &net->pair->a;
	struct simhca_sge bad = sge(a->mr, 256, 512);

	bad.lkey ^= 1;
	post(a, .id = 1, .opcode = SIMHCA_WR_RDMA_WRITE, SGES(sge(a->mr, 0, 256), bad),
	     .remote_addr = net->pair->b.mr->iova, .rkey = net->pair->b.mr->rkey);
	expect(a->send_cq, 1, LOC_PROT_ERR);
	run_until_idle(net->world);
	assert_int_equal(qp_state(a->qp), IBV_QPS_SQE);
	assert_int_equal(0, qp_modify(a->qp, SIMHCA_QP_STATE, attr));
	rdma_write(a, 2, 0, 100, 0);
	expect(a->send_cq, 2, SUCCESS);
	assert_int_equal(net->sent[SIMHCA_PKT_WRITE], 2);
	assert_int_equal(net->last_psn[SIMHCA_PKT_WRITE], 1);
}

/* The WQE is read again for each packet: if it says something else by then its QP fails. */
static void a_wqe_that_changes_under_way(void **state)
{
	struct net *net = net_of(state, 4);
	struct side *a = &net->pair->a;
	struct simhca_send_wqe *wqe = (struct simhca_send_wqe *)a->qp->sq;

	lose(net, SIMHCA_PKT_WRITE, 0, 1);
	rdma_write(a, 1, 0, 100, 0);
	run_until_idle(net->world);
	wqe->opcode = SIMHCA_WR_RDMA_READ;
	advance(net->world, TIMEOUT);
	assert_int_equal(qp_state(a->qp), IBV_QPS_ERR);
	assert_int_equal(events_of(a->client, a->qp, IBV_EVENT_QP_FATAL), 1);
	assert_int_equal(net->sent[SIMHCA_PKT_READ], 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_ETHERNET(an_acknowledgement_stands_for_all_before),
		ON_ETHERNET(a_gap_is_told_once),
		ON_ETHERNET(a_gap_in_a_message),
		ON_ETHERNET(a_gap_costs_a_retry),
		ON_ETHERNET(what_is_lost_twice_needs_the_timer),
		ON_ETHERNET(a_time_out_goes_back_to_the_oldest),
		ON_ETHERNET(a_read_goes_on_from_the_missing_response),
		ON_ETHERNET(an_acknowledgement_is_no_answer_to_a_read),
		ON_ETHERNET(an_atomic_is_done_once),
		ON_ETHERNET(no_more_reads_than_max_rd_atomic),
		ON_ETHERNET(a_fence_waits_for_reads),
		ON_ETHERNET(long_messages_are_acknowledged_on_the_way),
		ON_ETHERNET(no_more_packets_than_the_window),
		ON_ETHERNET(a_sequence_nak_does_not_end_an_rnr_wait),
		ON_ETHERNET(what_was_not_sent_takes_no_psns),
		ON_ETHERNET(a_wqe_that_changes_under_way),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
