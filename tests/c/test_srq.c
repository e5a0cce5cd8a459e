/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Shared receive queues: sharing, the limit event, resizing, and the last WQE of a dying QP. */
#include "dma/dma.h"
#include "harness.h"

struct shared {
	struct world *world;
	struct client *server;
	struct srq *srq;
	struct mr *mr;
	struct side client[3];
	struct side server_side[3];
};

static struct shared *make(struct world *world, enum ibv_qp_type type, uint32_t max_wr,
			   uint32_t limit)
{
	struct shared *s = world_alloc(world, sizeof(*s));
	struct options options = default_options(type);

	s->world = world;
	s->server = client_new(world, 1);
	s->srq = srq_new(s->server, max_wr, 2, limit);
	s->mr = mr_new(s->server, 65536, ALL_ACCESS);
	for (size_t i = 0; i < ARRAY_SIZE(s->client); i++) {
		side_make(&s->client[i], client_new(world, 0), &options, NULL);
		side_make(&s->server_side[i], s->server, &options, s->srq);
		s->client[i].peer = &s->server_side[i];
		s->server_side[i].peer = &s->client[i];
		qp_connect(s->client[i].qp, 1, s->server_side[i].qp->qpn, &options);
		qp_connect(s->server_side[i].qp, 0, s->client[i].qp->qpn, &options);
	}
	return s;
}

static void supply(struct shared *s, uint64_t id)
{
	struct simhca_sge one = sge(s->mr, (id % 64) * 1024, 1024);

	srq_recv(s->srq, id, &one, 1);
}

static void many_qps_take_from_one_queue(void **state)
{
	static const enum ibv_qp_type kinds[] = { IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD };

	for (size_t k = 0; k < ARRAY_SIZE(kinds); k++) {
		struct shared *s = make(*state, kinds[k], 16, 0);
		uint32_t skip = kinds[k] == IBV_QPT_UD ? SIMHCA_GRH_BYTES : 0;

		assert_int_equal(s->server_side[0].qp->granted.rq_entries, 0);
		/* In the order of posting, whichever QP comes; many laps. */
		for (uint64_t id = 0; id < 200; id++) {
			struct side *side = &s->client[id * 7 % 3];
			struct simhca_cqe cqe;

			supply(s, id);
			fill(side->mr->addr, 100, (uint32_t)id);
			send_from(side, id, 0, 100);
			expect(side->send_cq, id, SUCCESS);
			cqe = expect(side->peer->recv_cq, id, SUCCESS);
			assert_true(cqe.flags & SIMHCA_CQE_SRQ);
			assert_int_equal(cqe.qpn, side->peer->qp->qpn);
			assert_int_equal(cqe.byte_len, 100 + skip);
			assert_true(
				filled(s->mr->addr + (id % 64) * 1024 + skip, 100, (uint32_t)id));
		}
	}
}

static void the_limit_event_comes_once(void **state)
{
	struct shared *s = make(*state, IBV_QPT_RC, 16, 4);
	struct simhca_query_srq_reply query;

	for (uint64_t id = 0; id < 8; id++)
		supply(s, id);
	for (uint64_t id = 0; id < 8; id++) {
		/* Of the 8, 4 are no fewer than the limit; the fifth message leaves 3. */
		assert_int_equal(events_of(s->server, s->srq, IBV_EVENT_SRQ_LIMIT_REACHED), id > 4);
		assert_int_equal(0, simhca_query_srq(s->server->context, s->srq->handle, &query,
						     NULL));
		assert_int_equal(query.limit, id > 4 ? 0 : 4);
		send_from(&s->client[0], id, 0, 10);
		expect(s->client[0].send_cq, id, SUCCESS);
	}
	assert_int_equal(events_of(s->server, s->srq, IBV_EVENT_SRQ_LIMIT_REACHED), 1);
	/* Armed again, it comes again. */
	for (uint64_t id = 0; id < 3; id++)
		supply(s, id);
	assert_int_equal(0, srq_modify(s->srq, SIMHCA_SRQ_LIMIT, 0, 2));
	send_from(&s->client[1], 1, 0, 10);
	run_until_idle(*state);
	assert_int_equal(events_of(s->server, s->srq, IBV_EVENT_SRQ_LIMIT_REACHED), 1);
	send_from(&s->client[1], 2, 0, 10);
	run_until_idle(*state);
	assert_int_equal(events_of(s->server, s->srq, IBV_EVENT_SRQ_LIMIT_REACHED), 2);
}

/* Armed when there are already fewer: at once, or with the next receive; but once. */
static void a_limit_that_is_passed_already(void **state)
{
	struct shared *s = make(*state, IBV_QPT_RC, 16, 0);

	for (uint64_t id = 0; id < 3; id++)
		supply(s, id);
	assert_int_equal(0, srq_modify(s->srq, SIMHCA_SRQ_LIMIT, 0, 10));
	send_from(&s->client[0], 1, 0, 10);
	run_until_idle(*state);
	assert_int_equal(events_of(s->server, s->srq, IBV_EVENT_SRQ_LIMIT_REACHED), 1);
}

static void resizing_keeps_what_waits(void **state)
{
	static const uint32_t sizes[] = { 64, 5, 7, 1000, 6, 16 };
	struct shared *s = make(*state, IBV_QPT_RC, 16, 0);
	uint64_t posted = 0, taken = 0;

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		while (posted - taken < 5)
			supply(s, posted++);
		assert_int_equal(0, srq_modify(s->srq, SIMHCA_SRQ_MAX_WR, sizes[i], 0));
		assert_true(s->srq->max_wr >= sizes[i]);
		for (int n = 0; n < 3; n++) {
			send_from(&s->client[n], taken, 0, 10);
			expect(s->client[n].send_cq, taken, SUCCESS);
			expect(s->server_side[n].recv_cq, taken, SUCCESS);
			taken++;
		}
	}
	assert_int_equal(-EINVAL, srq_modify(s->srq, SIMHCA_SRQ_MAX_WR, 1, 0));
	assert_int_equal(-EINVAL, srq_modify(s->srq, SIMHCA_SRQ_MAX_WR, 0, 0));
	assert_int_equal(-EINVAL, srq_modify(s->srq, SIMHCA_SRQ_MAX_WR, SIMHCA_MAX_SRQ_WR + 1, 0));
	assert_int_equal(-EINVAL, srq_modify(s->srq, SIMHCA_SRQ_LIMIT, 0, s->srq->max_wr + 1));
	assert_int_equal(-EINVAL, srq_modify(s->srq, 1u << 5, 0, 0));
}

static void queries_return_what_was_made(void **state)
{
	struct client *client = client_new(*state, 0);
	struct srq *srq = srq_new(client, 33, 5, 7);
	struct simhca_query_srq_reply query;

	assert_int_equal(0, simhca_query_srq(client->context, srq->handle, &query, NULL));
	assert_int_equal(query.max_wr, srq->max_wr);
	assert_int_equal(query.max_sge, srq->max_sge);
	assert_int_equal(query.limit, 7);
	assert_true(srq->max_wr >= 33 && srq->max_sge >= 5);
	assert_int_equal(srq->stride, simhca_recv_stride(srq->max_sge));
}

/*
 * Unreliable: a message that does not fit is dropped, and the QP goes on. Its receive cannot go
 * back to the SRQ, so it fails (IBTA vol. 1, 9.9.3, class E).
 */
static void an_unreliable_message_that_is_too_long(void **state)
{
	struct shared *s = make(*state, IBV_QPT_UC, 16, 0);

	supply(s, 1);
	supply(s, 2);
	send_from(&s->client[0], 1, 0, 1025);
	expect(s->client[0].send_cq, 1, SUCCESS);
	expect_why(s->server_side[0].recv_cq, 1, LOC_LEN_ERR, RECV_TOO_SHORT);
	send_from(&s->client[0], 2, 0, 1024);
	expect(s->server_side[0].recv_cq, 2, SUCCESS);
}

/* A QP with an SRQ that goes to error says when it will take no more from it. */
static void the_last_wqe_event_follows_the_error(void **state)
{
	static const enum ibv_qp_type kinds[] = { IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD };

	for (size_t k = 0; k < ARRAY_SIZE(kinds); k++) {
		struct shared *s = make(*state, kinds[k], 16, 0);

		for (uint64_t id = 0; id < 5; id++)
			supply(s, id);
		assert_int_equal(events_of(s->server, s->server_side[0].qp,
					   IBV_EVENT_QP_LAST_WQE_REACHED),
				 0);
		assert_int_equal(0, qp_move(s->server_side[0].qp, IBV_QPS_ERR));
		run_until_idle(*state);
		assert_int_equal(events_of(s->server, s->server_side[0].qp,
					   IBV_EVENT_QP_LAST_WQE_REACHED),
				 1);
		assert_int_equal(events_of(s->server, s->server_side[1].qp,
					   IBV_EVENT_QP_LAST_WQE_REACHED),
				 0);
		/* The queue is not flushed: the others need it. */
		expect_none(s->server_side[0].recv_cq);
		send_from(&s->client[1], 9, 0, 10);
		expect(s->server_side[1].recv_cq, 0, SUCCESS);
	}
}

/* Also when the device put it there. */
static void the_last_wqe_event_follows_a_fault(void **state)
{
	struct shared *s = make(*state, IBV_QPT_RC, 16, 0);

	supply(s, 0);
	send_from(&s->client[0], 1, 0, 1025); /* one byte too long */
	expect_why(s->client[0].send_cq, 1, REM_INV_REQ_ERR, RECV_TOO_SHORT);
	expect_why(s->server_side[0].recv_cq, 0, LOC_LEN_ERR, RECV_TOO_SHORT);
	run_until_idle(*state);
	assert_int_equal(events_of(s->server, s->server_side[0].qp, IBV_EVENT_QP_LAST_WQE_REACHED),
			 1);
	supply(s, 1);
	send_from(&s->client[1], 2, 0, 10);
	expect(s->server_side[1].recv_cq, 1, SUCCESS);
}

/* Of a message that is cut short: the SRQ has it no more, so the QP gives it back. */
static void a_receive_that_was_taken_is_flushed(void **state)
{
	struct shared *s = make(*state, IBV_QPT_RC, 16, 0);
	struct side *sender = &s->client[0], *receiver = sender->peer;
	struct mr *from = mr_new(sender->client, 2 * SIMHCA_LINK_SLICE, ALL_ACCESS);
	struct mr *to = mr_new(s->server, 2 * SIMHCA_LINK_SLICE, ALL_ACCESS);
	struct simhca_sge room = sge(to, 0, 2 * SIMHCA_LINK_SLICE), bad = sge(from, 0, 8);
	struct simhca_cqe cqe;

	bad.lkey ^= 1;
	srq_recv(s->srq, 7, &room, 1);
	post(sender, .id = 1, .opcode = SIMHCA_WR_SEND, SGES(sge(from, 0, SIMHCA_LINK_SLICE), bad));
	expect_why(sender->send_cq, 1, LOC_PROT_ERR, KEY_STALE);
	expect_none(receiver->recv_cq);
	assert_int_equal(srq_ci_of(s->srq), 1);
	assert_int_equal(0, qp_move(receiver->qp, IBV_QPS_ERR));
	cqe = expect_why(receiver->recv_cq, 7, WR_FLUSH_ERR, FLUSHED);
	assert_true(cqe.flags & SIMHCA_CQE_SRQ);
	expect_none(receiver->recv_cq);
}

static void a_qp_without_srq_has_no_such_event(void **state)
{
	struct shared *s = make(*state, IBV_QPT_RC, 16, 0);

	assert_int_equal(0, qp_move(s->client[0].qp, IBV_QPS_ERR));
	run_until_idle(*state);
	assert_int_equal(
		events_of(s->client[0].client, s->client[0].qp, IBV_EVENT_QP_LAST_WQE_REACHED), 0);
}

/* A write without immediate leaves the SRQ alone; one with takes from it. */
static void only_what_completes_a_receive_takes_one(void **state)
{
	struct shared *s = make(*state, IBV_QPT_RC, 16, 0);

	supply(s, 0);
	post(&s->client[0], .id = 1, .opcode = SIMHCA_WR_RDMA_WRITE,
	     SGES(sge(s->client[0].mr, 0, 8)), .remote_addr = s->mr->iova, .rkey = s->mr->rkey);
	expect(s->client[0].send_cq, 1, SUCCESS);
	assert_int_equal(srq_ci_of(s->srq), 0);
	post(&s->client[0], .id = 2, .opcode = SIMHCA_WR_RDMA_WRITE_WITH_IMM,
	     SGES(sge(s->client[0].mr, 0, 8)), .remote_addr = s->mr->iova, .rkey = s->mr->rkey);
	expect(s->client[0].send_cq, 2, SUCCESS);
	assert_int_equal(srq_ci_of(s->srq), 1);
	expect(s->server_side[0].recv_cq, 0, SUCCESS);
}

/* The buffers of an SRQ are checked against the SRQ's PD, which need not be the QP's. */
static void buffers_belong_to_the_srqs_pd(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_unconnected(*state, &options);
	struct client *client = pair->b.client;
	struct srq *srq = srq_new(client, 8, 2, 0);
	struct simhca_sge one = sge(pair->b.mr, 0, 64);
	uint32_t pd = pd_new(client);
	struct mr *other = mr_over(client, pd, pair->b.mr->addr, 64, pair->b.mr->iova, ALL_ACCESS);

	pair->b.qp = qp_new_in(client, pd, &options, pair->b.send_cq, pair->b.recv_cq, srq);
	pair_connect(pair);
	srq_recv(srq, 1, &one, 1);
	send_from(&pair->a, 1, 0, 64);
	expect(pair->b.recv_cq, 1, SUCCESS);
	expect(pair->a.send_cq, 1, SUCCESS);
	one = sge(other, 0, 64);
	srq_recv(srq, 2, &one, 1);
	send_from(&pair->a, 2, 0, 64);
	expect_why(pair->b.recv_cq, 2, LOC_PROT_ERR, KEY_WRONG_PD);
	expect(pair->a.send_cq, 2, REM_OP_ERR);
}

static void srqs_that_make_no_sense_are_refused(void **state)
{
	struct client *client = client_new(*state, 0);
	const struct simhca_create_srq_req good = {
		.pd = client->pd, .max_wr = 10, .max_sge = 2, .limit = 10
	};
	struct simhca_create_srq_reply reply;
	struct simhca_create_srq_req bad;

#define REFUSED(field, value)                                                                      \
	do {                                                                                       \
		bad = good;                                                                        \
		bad.field = value;                                                                 \
		assert_int_equal(-EINVAL, simhca_create_srq(client->context, &bad, &reply, NULL)); \
	} while (0)
	REFUSED(max_wr, 0);
	REFUSED(max_wr, SIMHCA_MAX_SRQ_WR + 1);
	REFUSED(max_wr, UINT32_MAX);
	REFUSED(max_sge, SIMHCA_MAX_SGE + 1);
	REFUSED(max_sge, UINT32_MAX);
#undef REFUSED
	bad = good;
	bad.pd = 999;
	assert_int_equal(-ENOENT, simhca_create_srq(client->context, &bad, &reply, NULL));
	assert_int_equal(0, simhca_create_srq(client->context, &good, &reply, NULL));
}

/* As ibv_create_srq(3) has it, and mlx5: whatever it is. */
static void a_limit_at_creation_is_ignored(void **state)
{
	static const uint32_t limits[] = { 5, 10, 11, UINT32_MAX };
	struct client *client = client_new(*state, 0);
	struct simhca_query_srq_reply query;
	struct simhca_create_srq_reply reply;

	for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
		const struct simhca_create_srq_req req = {
			.pd = client->pd, .max_wr = 10, .max_sge = 2, .limit = limits[i]
		};

		assert_int_equal(0, simhca_create_srq(client->context, &req, &reply, NULL));
		assert_int_equal(0, simhca_query_srq(client->context, reply.handle, &query, NULL));
		assert_int_equal(query.limit, 0);
	}
}

static void an_srq_in_use_is_not_destroyed(void **state)
{
	struct shared *s = make(*state, IBV_QPT_RC, 16, 0);

	assert_int_equal(-EBUSY, simhca_destroy_srq(s->server->context, s->srq->handle, NULL));
	for (size_t i = 0; i < ARRAY_SIZE(s->server_side); i++)
		assert_int_equal(0, simhca_destroy_qp(s->server->context,
						      s->server_side[i].qp->handle, NULL));
	assert_int_equal(0, simhca_destroy_srq(s->server->context, s->srq->handle, NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_ETHERNET(many_qps_take_from_one_queue),
		ON_ETHERNET(the_limit_event_comes_once),
		ON_ETHERNET(a_limit_that_is_passed_already),
		ON_ETHERNET(a_limit_at_creation_is_ignored),
		ON_ETHERNET(resizing_keeps_what_waits),
		ON_ETHERNET(queries_return_what_was_made),
		ON_ETHERNET(an_unreliable_message_that_is_too_long),
		ON_ETHERNET(the_last_wqe_event_follows_the_error),
		ON_ETHERNET(the_last_wqe_event_follows_a_fault),
		ON_ETHERNET(a_receive_that_was_taken_is_flushed),
		ON_ETHERNET(a_qp_without_srq_has_no_such_event),
		ON_ETHERNET(only_what_completes_a_receive_takes_one),
		ON_ETHERNET(buffers_belong_to_the_srqs_pd),
		ON_ETHERNET(srqs_that_make_no_sense_are_refused),
		ON_ETHERNET(an_srq_in_use_is_not_destroyed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
