/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A program that lies about its QP's progress, and whose lies are consistent: each field is within
 * its range, and they agree with one another as far as neighbours are compared. Its QP fails, at
 * once, and nothing is read or written that is not the program's.
 */
#include <endian.h>
#include <infiniband/tm_types.h>

#include "lossy.h"
#include "paging.h"
#include "queue/gate.h"
#include "packet/packet.h"

#define TAGS 4

/* One pair of QPs that lies, and one that behaves. */
struct lies {
	struct world *world;
	struct pair *good, *bad;
};

static struct lies lies_with(struct world *world, const struct options *options)
{
	const struct options honest = default_options(IBV_QPT_RC);
	struct lies lies = { .world = world };

	lies.bad = pair_new(world, options);
	lies.good = pair_new(world, &honest);
	check_works(lies.good);
	return lies;
}

static void check_fatal(struct lies *lies, struct side *side)
{
	assert_int_equal(qp_state(side->qp), IBV_QPS_ERR);
	assert_int_equal(events_of(side->client, side->qp, IBV_EVENT_QP_FATAL), 1);
	check_works(lies->good);
	assert_int_equal(qp_state(lies->good->a.qp), IBV_QPS_RTS);
	assert_int_equal(qp_state(lies->good->b.qp), IBV_QPS_RTS);
}

static void say_flight(struct qp *qp, uint32_t opcode, uint32_t first, uint32_t last)
{
	const struct simhca_flight flight = { first, last, opcode };

	for (int i = 0; i < SIMHCA_MAX_FLIGHTS; i++)
		atomic_store(&qp->state->flight[i], simhca_word_of_flight(&flight));
}

/* Writes the requester's progress, whichever copy counts, and has the device look. */
static void say(struct side *side, const struct simhca_requester *req)
{
	side->qp->state->req[0] = side->qp->state->req[1] = *req;
	others_had_turns(side->qp);
	ring_doorbell(side->client, side->qp->doorbell);
	run_until_idle(side->client->world);
}

/*
 * first, una, send, sent and next are in order, each compared with the one before in 24 bits, but
 * all the way from first to next is more than once round. What is to be sent lies that many packets
 * behind the 64 bytes of the message.
 */
static void a_packet_behind_its_message(void **state)
{
	static const uint32_t behind[] = { 2, 3, 16, 1024, 0x10000, 0x7fffff };
	static const char bytes[64] = "inline";
	struct options options = default_options(IBV_QPT_RC);
	const uint32_t psn = options.psn;

	options.buffer = 1 << 20;
	for (size_t i = 0; i < ARRAY_SIZE(behind); i++) {
		struct lies lies = lies_with(*state, &options);
		struct side *a = &lies.bad->a, *b = &lies.bad->b;
		struct simhca_requester req;

		post(a, .id = 1, .opcode = SIMHCA_WR_SEND, .inline_data = bytes,
		     .inline_len = sizeof(bytes));
		rounds(lies.world, 3); /* no receive is posted yet */
		req = *requester_of(a->qp);
		assert_int_equal(req.count, 1);
		req.psn_una = req.psn_send = simhca_psn_add(psn, behind[i]);
		req.psn_sent = simhca_psn_add(req.psn_send, 0x7fffff);
		req.wait = SIMHCA_WAIT_NOTHING;
		/* The receiver takes the packet for one that it expects. */
		for (int n = 0; n < 2; n++) {
			b->qp->state->resp[n].epsn = req.psn_send;
			b->qp->state->resp[n].in_message = 1;
		}
		others_had_turns(b->qp);
		recv_into(b, 1, 0, 1 << 20);
		say(a, &req);
		check_fatal(&lies, a);
		for (uint32_t at = 0; at < options.buffer; at++)
			assert_int_equal(b->mr->addr[at], 0);
	}
}

static struct options no_send_queue(void)
{
	struct options options = default_options(IBV_QPT_RC);

	options.max_send_wr = options.max_send_sge = options.max_inline = 0;
	return options;
}

/*
 * Of a write of four packets the receiver says that it has had one, and a message's most bytes with it: one more
 * would have the sum grow with each lie.
 */
static void a_message_longer_than_any(void **state)
{
	const struct options options = default_options(IBV_QPT_RC);
	const uint32_t mtu = 128u << options.path_mtu, psn = options.psn;
	const uint32_t middle = simhca_psn_add(psn, 1), end = simhca_psn_add(psn, 4);
	struct lies lies = lies_with(*state, &options);
	struct side *a = &lies.bad->a, *b = &lies.bad->b;
	const struct simhca_sge from = { .addr = a->mr->iova,
					 .length = 4 * mtu,
					 .lkey = a->mr->lkey };

	qp_put(a->qp, &(struct wr){ .id = 1,
				    .opcode = SIMHCA_WR_RDMA_WRITE,
				    .flags = SIMHCA_WQE_SIGNALED,
				    .sges = &from,
				    .num_sge = 1,
				    .remote_addr = b->mr->iova,
				    .rkey = b->mr->rkey });
	say_flight(a->qp, SIMHCA_WR_RDMA_WRITE, psn, simhca_psn_add(psn, 3));
	for (int n = 0; n < 2; n++)
		b->qp->state->resp[n] =
			(struct simhca_responder){ .epsn = middle,
						   .in_message = 1,
						   .write = 1,
						   .va = b->mr->iova + mtu,
						   .rkey = b->mr->rkey,
						   .left = 3 * mtu,
						   .offset = SIMHCA_MAX_MSG_SIZE - 1 };
	others_had_turns(b->qp);
	say(a, &(struct simhca_requester){ .count = 1,
					   .psn_una = middle,
					   .psn_send = middle,
					   .psn_sent = middle,
					   .psn_next = end });
	expect_why(a->send_cq, 1, REM_INV_REQ_ERR, MSG_TOO_LONG);
	assert_int_equal(qp_state(b->qp), IBV_QPS_ERR);
	check_works(lies.good);
}

/* A QP that has no send queue has a message under way. */
static void a_message_of_no_queue(void **state)
{
	const struct options options = no_send_queue();
	const uint32_t psn = options.psn;
	struct lies lies = lies_with(*state, &options);

	say_flight(lies.bad->a.qp, SIMHCA_WR_SEND, psn, psn);
	say(&lies.bad->a, &(struct simhca_requester){ .count = 1,
						      .psn_una = psn,
						      .psn_send = psn,
						      .psn_sent = psn,
						      .psn_next = simhca_psn_add(psn, 1) });
	check_fatal(&lies, &lies.bad->a);
}

/* It waits for an answer to no message, for which its last try was the last one. */
static void an_answer_to_no_message(void **state)
{
	const struct options options = no_send_queue();
	struct lies lies = lies_with(*state, &options);
	struct side *a = &lies.bad->a;

	say(a, &(struct simhca_requester){ .psn_next = options.psn, .wait = SIMHCA_WAIT_ANSWER });
	/* Nobody waits for the answer to no message. */
	assert_int_equal(qp_state(a->qp), IBV_QPS_RTS);
	expect_none(a->send_cq);
	check_works(lies.good);
}

/* A message waits for pages, and the producer index goes back to it. */
static void a_producer_index_back_at_what_waits(void **state)
{
	const struct options options = default_options(IBV_QPT_RC);
	struct lies lies = lies_with(*state, &options);
	struct side *a = &lies.bad->a;

	a->mr = on_demand(a->client, pages(1), PAGE, ODP);
	rdma_write(a, 1, 0, 64, 0);
	run_until_idle(lies.world); /* nobody brings the page in */
	assert_int_equal(requester_of(a->qp)->wait, SIMHCA_WAIT_FAULT);
	atomic_store(&a->qp->state->sq_pi, requester_of(a->qp)->oldest);
	qp_ring(a->qp);
	run_until_idle(lies.world);
	check_fatal(&lies, a);
}

/* The receiver says that the message has a receive, and has no queue for any. */
static void a_receive_of_no_queue(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct lies lies;

	options.max_recv_wr = options.max_recv_sge = 0;
	lies = lies_with(*state, &options);
	for (int n = 0; n < 2; n++)
		lies.bad->b.qp->state->resp[n] =
			(struct simhca_responder){ .epsn = options.psn, .have_recv = 1 };
	others_had_turns(lies.bad->b.qp);
	send_from(&lies.bad->a, 1, 0, 64);
	run_until_idle(lies.world);
	check_fatal(&lies, &lies.bad->b);
}

/* ------------------------------------------------------------------------------ rendezvous */

/*
 * A rendezvous's data are on their way when the receiver's program says that nothing is. What the
 * device knew of the fetch is void then: the next send is a send, and the fetch begins again.
 */
static void a_fetch_that_is_denied(void **state)
{
	const struct options options = default_options(IBV_QPT_RC);
	struct world *world = *state;
	struct client *server = client_new(world, 1);
	struct cq *cq = cq_new(server, 64);
	struct srq *srq = tm_srq_new(server, cq, 32, TAGS);
	struct simhca_srq_op_req add = { .srq = srq->handle,
					 .opcode = SIMHCA_SRQ_TAG_ADD,
					 .recv_wr_id = 5,
					 .tag = 7,
					 .mask = UINT64_MAX,
					 .num_sge = 1 };
	const struct ibv_tmh tmh = { .opcode = IBV_TMH_RNDV, .tag = htobe64(7) };
	struct simhca_handle entry;
	struct simhca_requester req;
	uint8_t request[32];
	struct ibv_rvh rvh;
	struct side a, b;
	struct mr *data;

	side_make(&a, client_new(world, 0), &options, NULL);
	side_make(&b, server, &options, srq);
	a.peer = &b;
	b.peer = &a;
	qp_connect(a.qp, 1, b.qp->qpn, &options);
	qp_connect(b.qp, 0, a.qp->qpn, &options);
	add.sge[0] = sge(b.mr, 0, 1000);
	assert_int_equal(0, simhca_srq_op(server->context, &add, &entry, NULL));
	data = on_demand(a.client, pages(1), PAGE, ODP);
	rvh = (struct ibv_rvh){ .va = htobe64((uintptr_t)data->addr),
				.rkey = htobe32(data->rkey),
				.len = htobe32(1000) };
	memcpy(request, &tmh, sizeof(tmh));
	memcpy(request + 16, &rvh, sizeof(rvh));
	post(&a, .id = 1, .opcode = SIMHCA_WR_SEND, .inline_data = request,
	     .inline_len = sizeof(request));
	run_until_idle(world); /* nobody brings the page in */
	req = *requester_of(b.qp);
	assert_int_equal(req.count, 1);
	assert_int_equal(req.wait, SIMHCA_WAIT_PEER);
	req.count = req.alone = 0;
	req.wait = SIMHCA_WAIT_NOTHING;
	req.psn_next = req.psn_una;
	b.qp->state->req[0] = b.qp->state->req[1] = req;
	others_had_turns(b.qp);
	assert_int_equal(0, qp_move(b.qp, IBV_QPS_SQD));
	run_until_idle(world);
	/* None can be fetched: the list is emptied when the queue goes on. */
	assert_int_equal(0, qp_modify(b.qp, SIMHCA_QP_MAX_QP_RD_ATOMIC,
				      (struct simhca_qp_attr){ .max_rd_atomic = 0 }));
	assert_int_equal(0, qp_move(b.qp, IBV_QPS_RTS));
	recv_into(&a, 8, 0, 64);
	recv_into(&a, 9, 0, 64);
	send_from(&b, 2, 0, 64);
	advance(world, SEC);
	expect(b.send_cq, 2, SUCCESS);
	assert_int_equal(qp_state(b.qp), IBV_QPS_RTS);
}

/* ---------------------------------------------------------------------- while it is acknowledged */

/* What both messages under way are is changed as the first acknowledgement leaves. */
static bool change_messages(void *arg, unsigned int op, uint32_t psn)
{
	struct qp *qp = arg;

	(void)psn;
	if (op == SIMHCA_PKT_ACK)
		for (uint32_t i = 0; i < qp->granted.sq_entries; i++)
			((struct simhca_send_wqe *)(qp->sq + i * qp->granted.sq_stride))->opcode =
				SIMHCA_WR_RDMA_READ;
	return false;
}

static void a_message_that_changes_before_its_answer(void **state)
{
	const struct options options = default_options(IBV_QPT_RC);
	struct lossy lossy = { .seed = 1 };
	struct lies lies;

	lossy_use(*state, &lossy);
	lies = lies_with(*state, &options);
	for (uint32_t i = 0; i < 2; i++) {
		recv_into(&lies.bad->b, i, 0, 64);
		qp_put(lies.bad->a.qp, &(struct wr){ .id = i,
						     .opcode = SIMHCA_WR_SEND,
						     .flags = SIMHCA_WQE_SIGNALED,
						     .inline_data = "x",
						     .inline_len = 1 });
	}
	lossy.loses = change_messages;
	lossy.arg = lies.bad->a.qp;
	qp_ring(lies.bad->a.qp);
	run_until_idle(lies.world);
	lossy.loses = NULL;
	check_fatal(&lies, &lies.bad->a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_ETHERNET(a_packet_behind_its_message),
		ON_ETHERNET(a_message_longer_than_any),
		ON_ETHERNET(a_message_of_no_queue),
		ON_ETHERNET(an_answer_to_no_message),
		ON_ETHERNET(a_producer_index_back_at_what_waits),
		ON_ETHERNET(a_receive_of_no_queue),
		ON_ETHERNET(a_fetch_that_is_denied),
		ON_ETHERNET(a_message_that_changes_before_its_answer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
