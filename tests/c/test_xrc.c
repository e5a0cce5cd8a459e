/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Extended reliable connections (IBTA vol. 1, annex A14): QPs of two halves, and SRQs that each
 * request names.
 */
#include "xrc_scene.h"

/* ------------------------------------------------------------------------------ making them */

static void what_does_not_fit_together(void **state)
{
	struct client *client = client_new(*state, 0);
	uint32_t xrcd = xrcd_open(client, -1);
	struct cq *cq = cq_new(client, 4);
	struct srq *xrc = xrc_srq_new(client, xrcd, cq, 4), *basic = srq_new(client, 4, 1, 0);
	struct simhca_create_srq_req srq = { .type = SIMHCA_SRQT_XRC,
					     .xrcd = xrcd,
					     .cq = cq->handle,
					     .pd = client->pd,
					     .max_wr = 4 };
	struct simhca_create_qp_req qp = {
		.type = SIMHCA_QPT_RC,
		.pd = client->pd,
		.send_cq = cq->handle,
		.recv_cq = cq->handle,
		.srq = xrc->handle,
		.has_srq = 1,
		.max_send_wr = 4,
	};
	struct simhca_create_srq_reply srq_reply;
	struct simhca_create_qp_reply qp_reply;

	assert_int_not_equal(xrc->srqn, basic->srqn);
	/* An XRC SRQ is for targets, not for a QP of its own. */
	assert_int_equal(-EINVAL, simhca_create_qp(client->context, &qp, &qp_reply, NULL));
	/* An initiator receives nothing, and needs no CQ for it. */
	qp.type = SIMHCA_QPT_XRC_SEND;
	qp.recv_cq = 77;
	qp.srq = basic->handle;
	assert_int_equal(-EINVAL, simhca_create_qp(client->context, &qp, &qp_reply, NULL));
	qp.has_srq = 0;
	assert_int_equal(0, simhca_create_qp(client->context, &qp, &qp_reply, NULL));
	assert_int_equal(qp_reply.rq_entries, 0);
	qp.max_recv_wr = 1;
	assert_int_equal(-EINVAL, simhca_create_qp(client->context, &qp, &qp_reply, NULL));
	qp.max_recv_wr = 0;
	qp.max_recv_sge = 1;
	assert_int_equal(-EINVAL, simhca_create_qp(client->context, &qp, &qp_reply, NULL));
	/* A target needs a domain, and an XRC SRQ a domain and a CQ. */
	qp = (struct simhca_create_qp_req){ .type = SIMHCA_QPT_XRC_RECV, .xrcd = xrcd + 1 };
	assert_int_equal(-ENOENT, simhca_create_qp(client->context, &qp, &qp_reply, NULL));
	srq.xrcd++;
	assert_int_equal(-ENOENT, simhca_create_srq(client->context, &srq, &srq_reply, NULL));
	srq.xrcd--;
	srq.cq++;
	assert_int_equal(-ENOENT, simhca_create_srq(client->context, &srq, &srq_reply, NULL));
	srq.type = 7;
	assert_int_equal(-EOPNOTSUPP, simhca_create_srq(client->context, &srq, &srq_reply, NULL));
}

/* Each transition with what it needs; with one of these missing; with one that is no QP's of it. */
static void attributes_of_each_half(void **state)
{
	static const enum ibv_qp_type types[] = { IBV_QPT_XRC_SEND, IBV_QPT_XRC_RECV };

	for (size_t t = 0; t < ARRAY_SIZE(types); t++) {
		struct scene *s = make(*state);
		struct qp *qp = types[t] == IBV_QPT_XRC_SEND ? s->qp : s->server[1].target;
		struct simhca_qp_attr attr = qp_attr_to(qp, 1, 5, &s->options), got;
		const uint32_t masks[] = { init_mask(types[t]), rtr_mask(types[t]),
					   rts_mask(types[t]) };

		assert_int_equal(0, qp_move(qp, IBV_QPS_RESET));
		for (size_t i = 0; i < ARRAY_SIZE(masks); i++) {
			attr.qp_state = (uint32_t)i + 1;
			for (uint32_t bit = 2; bit < 1u << 21; bit <<= 1) {
				uint32_t mask = masks[i] ^ bit;

				if ((masks[i] & bit) || bit == SIMHCA_QP_QKEY ||
				    bit == SIMHCA_QP_CAP || bit == SIMHCA_QP_EN_SQD_ASYNC_NOTIFY)
					assert_int_equal(-EINVAL, qp_modify(qp, mask, attr));
			}
			assert_int_equal(0, qp_modify(qp, masks[i], attr));
		}
		got = qp_query(qp);
		assert_int_equal(got.dest_qp_num, 5);
		assert_int_equal(got.path_mtu, s->options.path_mtu);
		assert_int_equal(got.timeout, s->options.timeout);
		assert_int_equal(got.qp_access_flags, s->options.access);
		if (types[t] == IBV_QPT_XRC_SEND) {
			assert_int_equal(got.retry_cnt, s->options.retry_cnt);
			assert_int_equal(got.max_rd_atomic, s->options.max_rd_atomic);
		} else {
			assert_int_equal(got.min_rnr_timer, s->options.min_rnr_timer);
			assert_int_equal(got.max_dest_rd_atomic, s->options.max_dest_rd_atomic);
		}
		/* What is about the other half is taken on the way to RTS, and says nothing. */
		assert_int_equal(0, qp_move(qp, IBV_QPS_RESET));
		for (size_t i = 0; i < ARRAY_SIZE(masks); i++) {
			static const uint32_t rc[] = { 0,
						       SIMHCA_QP_MAX_DEST_RD_ATOMIC |
							       SIMHCA_QP_MIN_RNR_TIMER,
						       SIMHCA_QP_RETRY_CNT | SIMHCA_QP_RNR_RETRY |
							       SIMHCA_QP_MAX_QP_RD_ATOMIC };

			attr.qp_state = (uint32_t)i + 1;
			assert_int_equal(0, qp_modify(qp, masks[i] | rc[i], attr));
		}
	}
}

/* A target has no send queue: it is drained as soon as somebody asks. */
static void a_target_drains_at_once(void **state)
{
	struct scene *s = make(*state);
	struct server *server = &s->server[1];

	assert_int_equal(0,
			 qp_modify(server->target, SIMHCA_QP_STATE | SIMHCA_QP_EN_SQD_ASYNC_NOTIFY,
				   (struct simhca_qp_attr){ .qp_state = IBV_QPS_SQD,
							    .en_sqd_async_notify = 1 }));
	assert_int_equal(events_of(server->client, server->target, IBV_EVENT_SQ_DRAINED), 1);
	assert_int_equal(qp_query(server->target).sq_draining, 0);
	check_arrives(s, server, 1);
}

/* -------------------------------------------------------------------------------- messages */

static void a_request_names_the_srq(void **state)
{
	struct scene *s = make(*state);

	for (uint64_t id = 0; id < 100; id++)
		check_arrives(s, &s->server[id * 7 % 3 % 2], id);
	expect_none(s->server[0].cq);
	expect_none(s->server[1].cq);
}

static void every_operation(void **state)
{
	struct scene *s = make(*state);
	struct server *to = &s->server[1];
	const uint32_t srqn = to->srq->srqn, rkey = to->mr->rkey;
	const uint64_t remote = (uintptr_t)to->mr->addr;
	uint64_t *word = (uint64_t *)(void *)(to->mr->addr + 40000);
	uint64_t *local = (uint64_t *)(void *)(s->mr->addr + 40000);
	struct simhca_cqe cqe;

	fill(s->mr->addr, 20000, 1);
	supply(to, 1);
	xrc_post(s, .id = 1, .opcode = SIMHCA_WR_SEND_WITH_IMM, .imm = 0x1234, .srqn = srqn,
		 SGES(sge(s->mr, 0, 1000)));
	expect(s->cq, 1, SUCCESS);
	cqe = expect(to->cq, 1, SUCCESS);
	assert_int_equal(cqe.imm_or_rkey, 0x1234);
	assert_true(cqe.flags & SIMHCA_CQE_IMM);
	assert_true(filled(to->mr->addr + 1024, 1000, 1));

	xrc_post(s, .id = 2, .opcode = SIMHCA_WR_RDMA_WRITE, .srqn = srqn, .rkey = rkey,
		 .remote_addr = remote + 10000, SGES(sge(s->mr, 0, 20000)));
	expect(s->cq, 2, SUCCESS);
	assert_true(filled(to->mr->addr + 10000, 20000, 1));

	supply(to, 3);
	xrc_post(s, .id = 3, .opcode = SIMHCA_WR_RDMA_WRITE_WITH_IMM, .imm = 9, .srqn = srqn,
		 .rkey = rkey, .remote_addr = remote + 5000, SGES(sge(s->mr, 0, 3000)));
	expect(s->cq, 3, SUCCESS);
	cqe = expect(to->cq, 3, SUCCESS);
	assert_int_equal(cqe.opcode, SIMHCA_WC_RECV_RDMA_WITH_IMM);
	assert_int_equal(cqe.byte_len, 3000);
	assert_int_equal(cqe.wqe_index, srqn);

	memset(s->mr->addr, 0, 20000);
	xrc_post(s, .id = 4, .opcode = SIMHCA_WR_RDMA_READ, .srqn = srqn, .rkey = rkey,
		 .remote_addr = remote + 10000, SGES(sge(s->mr, 0, 20000)));
	expect(s->cq, 4, SUCCESS);
	assert_true(filled(s->mr->addr, 20000, 1));

	*word = 5;
	xrc_post(s, .id = 5, .opcode = SIMHCA_WR_ATOMIC_FETCH_AND_ADD, .srqn = srqn, .rkey = rkey,
		 .remote_addr = (uintptr_t)word, .compare_add = 7, SGES(sge(s->mr, 40000, 8)));
	expect(s->cq, 5, SUCCESS);
	assert_int_equal(*local, 5);
	xrc_post(s, .id = 6, .opcode = SIMHCA_WR_ATOMIC_CMP_AND_SWP, .srqn = srqn, .rkey = rkey,
		 .remote_addr = (uintptr_t)word, .compare_add = 12, .swap = 99,
		 SGES(sge(s->mr, 40000, 8)));
	expect(s->cq, 6, SUCCESS);
	assert_int_equal(*local, 12);
	assert_int_equal(*word, 99);

	supply(to, 7);
	xrc_post(s, .id = 7, .opcode = SIMHCA_WR_SEND, .srqn = srqn, .inline_data = "inline",
		 .inline_len = 6);
	expect(s->cq, 7, SUCCESS);
	expect(to->cq, 7, SUCCESS);
	assert_memory_equal(to->mr->addr + 7 * 1024, "inline", 6);
	expect_none(s->server[0].cq);
}

/* Annex A14: XRC's keys are of the PD of the SRQ that the request names, not of a QP's. */
static void keys_are_of_the_srqs_pd(void **state)
{
	static const struct {
		uint8_t opcode;
		uint32_t length;
	} one_sided[] = {
		{ SIMHCA_WR_RDMA_WRITE, 100 },
		{ SIMHCA_WR_RDMA_READ, 100 },
		{ SIMHCA_WR_ATOMIC_FETCH_AND_ADD, 8 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(one_sided); i++) {
		struct scene *s = make(*state);
		struct server *owner = &s->server[i % 2], *other = &s->server[(i + 1) % 2];
		struct wr wr = {
			.id = 1,
			.flags = SIMHCA_WQE_SIGNALED,
			.opcode = one_sided[i].opcode,
			.rkey = owner->mr->rkey,
			.remote_addr = (uintptr_t)owner->mr->addr,
			.srqn = owner->srq->srqn,
			SGES(sge(s->mr, 0, one_sided[i].length)),
		};

		qp_post(s->qp, &wr);
		expect(s->cq, 1, SUCCESS);
		wr.srqn = other->srq->srqn;
		qp_post(s->qp, &wr);
		expect_why(s->cq, 1, REM_ACCESS_ERR, KEY_WRONG_PD);
		check_refused(s, IBV_EVENT_QP_ACCESS_ERR);
	}
}

/* The key that a send invalidates is looked for in that PD as well. */
static void a_send_may_invalidate(void **state)
{
	struct scene *s = make(*state);
	struct server *to = &s->server[1];
	struct options rc = default_options(IBV_QPT_RC);
	struct mr *region = fast_mr_new(to->client, to->client->pd, 1);
	struct cq *cq = cq_new(to->client, 4);
	struct qp *local = qp_new(to->client, &rc, cq, cq, NULL);
	uint64_t page = (uintptr_t)aligned_alloc(4096, 4096);
	struct simhca_cqe cqe;

	qp_connect(local, 1, local->qpn, &rc);
	qp_fast_reg(local, 1, region, &page, 1, page, 4096, ALL_ACCESS);
	qp_ring(local);
	expect(cq, 1, SUCCESS);
	for (int i = 0; i < 2; i++) {
		supply(to, 2);
		xrc_post(s, .id = 2, .opcode = SIMHCA_WR_SEND_WITH_INV, .imm = region->rkey,
			 .srqn = to->srq->srqn);
		if (i)
			break;
		expect(s->cq, 2, SUCCESS);
		cqe = expect(to->cq, 2, SUCCESS);
		assert_true(cqe.flags & SIMHCA_CQE_INV);
		assert_int_equal(cqe.imm_or_rkey, region->rkey);
	}
	for (int i = 0; i < 20; i++)
		advance(*state, SEC);
	expect(s->cq, 2, RETRY_EXC_ERR);
	expect_why(to->cq, 2, LOC_ACCESS_ERR, MR_NOT_VALID);
	free((void *)(uintptr_t)page);
}

static void the_target_grants_the_rights(void **state)
{
	struct options options = default_options(IBV_QPT_XRC_RECV);
	struct scene *s;

	options.access = SIMHCA_ACCESS_REMOTE_READ;
	s = make_with(*state, &options);
	xrc_post(s, .id = 1, .opcode = SIMHCA_WR_RDMA_WRITE, .srqn = s->server[0].srq->srqn,
		 .rkey = s->server[0].mr->rkey, .remote_addr = (uintptr_t)s->server[0].mr->addr,
		 SGES(sge(s->mr, 0, 8)));
	expect_why(s->cq, 1, REM_INV_REQ_ERR, QP_NO_REMOTE_WRITE);
	check_refused(s, IBV_EVENT_QP_REQ_ERR);
}

/* A sender waits for one SRQ while the other, of the same connection, has receives. */
static void an_empty_srq_means_wait(void **state)
{
	struct scene *s = make(*state);

	supply(&s->server[0], 9);
	send_to(s, 1, s->server[1].srq->srqn);
	expect_none(s->cq);
	supply(&s->server[1], 2);
	advance(*state, 10 * MSEC);
	expect(s->cq, 1, SUCCESS);
	expect(s->server[1].cq, 2, SUCCESS);
	expect_none(s->server[0].cq);
}

static void an_srq_gives_its_limit_event(void **state)
{
	struct scene *s = make(*state);
	struct server *to = &s->server[1];

	supply(to, 1);
	supply(to, 2);
	assert_int_equal(0, srq_modify(to->srq, SIMHCA_SRQ_LIMIT, 0, 2));
	send_to(s, 1, to->srq->srqn);
	expect(s->cq, 1, SUCCESS);
	assert_int_equal(events_of(to->client, to->srq, IBV_EVENT_SRQ_LIMIT_REACHED), 1);
}

/* ------------------------------------------------------------------------------------ errors */

static void a_number_that_is_no_xrc_srqs(void **state)
{
	for (int i = 0; i < 4; i++) {
		struct scene *s = make(*state);
		struct server *to = &s->server[0];
		uint32_t srqn = to->srq->srqn;

		switch (i) {
		case 0: /* nobody's */
			srqn = 0x7ffff;
			break;
		case 1: /* another generation of the slot */
			srqn ^= 1u << 20;
			break;
		case 2: /* an ordinary SRQ's */
			srqn = srq_new(to->client, 4, 1, 0)->srqn;
			break;
		case 3: /* one that was */
			assert_int_equal(0, patiently(simhca_destroy_srq(to->client->context,
									 to->srq->handle, NULL)));
			break;
		}
		send_to(s, 1, srqn);
		expect_why(s->cq, 1, REM_ACCESS_ERR, XRC_NO_SRQ);
		check_refused(s, IBV_EVENT_QP_ACCESS_ERR);
	}
}

static void an_srq_of_another_domain(void **state)
{
	struct scene *s = make(*state);
	struct client *stranger = client_new(*state, 1);
	struct cq *cq = cq_new(stranger, 4);
	struct srq *srq = xrc_srq_new(stranger, xrcd_open(stranger, -1), cq, 4);
	struct mr *mr = mr_new(stranger, 1024, ALL_ACCESS);
	struct simhca_sge one = sge(mr, 0, 1024);

	srq_recv(srq, 1, &one, 1);
	send_to(s, 1, srq->srqn);
	expect_why(s->cq, 1, REM_ACCESS_ERR, XRC_OTHER_DOMAIN);
	check_refused(s, IBV_EVENT_QP_ACCESS_ERR);
	assert_true(all_bytes(mr->addr, 1024, 0));
	expect_none(cq);
}

static void a_bad_receive_fails_at_the_srqs_owner(void **state)
{
	struct scene *s = make(*state);
	struct server *to = &s->server[1];
	struct simhca_sge bad = sge(to->mr, 0, 50);

	srq_recv(to->srq, 5, &bad, 1); /* shorter than the message */
	send_to(s, 1, to->srq->srqn);
	expect_why(s->cq, 1, REM_INV_REQ_ERR, RECV_TOO_SHORT);
	expect_why(to->cq, 5, LOC_LEN_ERR, RECV_TOO_SHORT);
	expect_none(s->server[0].cq);
}

/* Who writes nonsense into an SRQ hears of it; the connection it shares ends, as with any error. */
static void an_srq_that_makes_no_sense(void **state)
{
	struct scene *s = make(*state);
	struct server *to = &s->server[1];

	atomic_store(&to->srq->state->pi, 0xdeadbeef);
	send_to(s, 1, to->srq->srqn);
	expect_why(s->cq, 1, REM_OP_ERR, RING_CORRUPT);
	assert_int_equal(events_of(to->client, to->srq, IBV_EVENT_SRQ_ERR), 1);
	assert_int_equal(events_of(s->server[0].client, s->server[0].srq, IBV_EVENT_SRQ_ERR), 0);
}

/* A CQ that was full is dead: what came to its SRQ would complete nowhere. */
static void an_srq_whose_cq_is_dead(void **state)
{
	struct scene *s = make(*state);
	struct server *to = &s->server[1];
	struct cq *small = cq_new(to->client, 1);
	struct srq *srq = xrc_srq_new(to->client, to->xrcd, small, 8);
	struct simhca_sge one = sge(to->mr, 0, 1024);

	for (uint64_t id = 0; id < 4; id++)
		srq_recv(srq, id, &one, 1);
	send_to(s, 0, srq->srqn);
	expect(s->cq, 0, SUCCESS);
	/* The message whose completion is lost, and each that comes after it: no receive is for it.
	 */
	for (uint64_t id = 1; id < 3; id++) {
		send_to(s, id, srq->srqn);
		expect_why(s->cq, id, REM_OP_ERR, XRC_CQ_ERROR);
		assert_int_equal(srq_ci_of(srq), 2);
		check_refused(s, IBV_EVENT_QP_REQ_ERR);
		assert_int_equal(events_of(to->client, small, IBV_EVENT_CQ_ERR), id == 1);
		reconnect(s);
		for (int i = 0; i < 2; i++)
			forget_events(s->server[i].client);
	}
	check_arrives(s, to, 1); /* by another SRQ and CQ */
}

/* An initiator and an RC QP, each connected to the wrong kind; a target and a third QP. */
static void halves_do_not_mix(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct scene *s = make(*state);
	struct qp *target = s->server[0].target;
	struct qp *rc, *initiator;

	options.timeout = 8;
	rc = qp_new(s->client, &options, s->cq, s->cq, NULL);
	options.type = IBV_QPT_XRC_SEND;
	initiator = qp_new(s->client, &options, s->cq, s->cq, NULL);
	for (int i = 0; i < 3; i++) {
		struct qp *from = i == 0 ? rc : initiator;
		struct qp *to = i == 1 ? rc : target;

		assert_int_equal(0, qp_move(from, IBV_QPS_RESET));
		assert_int_equal(0, qp_move(to, IBV_QPS_RESET));
		options.type = from->type;
		qp_connect(from, to == target ? 1 : 0, to->qpn, &options);
		/* The last target listens to another initiator than this. */
		qp_connect(to, 0, i == 2 ? s->qp->qpn : from->qpn, &options);
		supply(&s->server[0], 1);
		qp_recv(rc, 1, NULL, 0);
		qp_post(from, &(struct wr){ .id = 8,
					    .flags = SIMHCA_WQE_SIGNALED,
					    .opcode = SIMHCA_WR_SEND,
					    .srqn = s->server[0].srq->srqn });
		for (int n = 0; n < 20; n++)
			advance(*state, 10 * MSEC);
		expect_why(s->cq, 8, RETRY_EXC_ERR, NO_RESPONSE);
		expect_none(s->server[0].cq);
		if (i == 0)
			expect_why(s->cq, 1, WR_FLUSH_ERR, FLUSHED);
		expect_none(s->cq);
	}
}

int main(void)
{
#define ON_BOTH(test) ON_ETHERNET(test), ON_INFINIBAND(test)
	const struct CMUnitTest tests[] = {
		ON_ETHERNET(what_does_not_fit_together),
		ON_ETHERNET(attributes_of_each_half),
		ON_ETHERNET(a_target_drains_at_once),
		ON_BOTH(a_request_names_the_srq),
		ON_BOTH(every_operation),
		ON_BOTH(keys_are_of_the_srqs_pd),
		ON_BOTH(a_send_may_invalidate),
		ON_BOTH(the_target_grants_the_rights),
		ON_BOTH(an_empty_srq_means_wait),
		ON_BOTH(an_srq_gives_its_limit_event),
		ON_BOTH(a_number_that_is_no_xrc_srqs),
		ON_BOTH(an_srq_of_another_domain),
		ON_BOTH(a_bad_receive_fails_at_the_srqs_owner),
		ON_BOTH(an_srq_that_makes_no_sense),
		ON_BOTH(an_srq_whose_cq_is_dead),
		ON_BOTH(halves_do_not_mix),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
