/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Tag matching: messages whose data the device fetches. */
#include "tag_scene.h"

static void check_fin(struct scene *s, uint64_t id, uint64_t offset, uint64_t tag)
{
	struct simhca_cqe cqe = expect(s->a.recv_cq, id, SUCCESS);
	struct ibv_tmh fin;

	memcpy(&fin, s->a.mr->addr + offset, sizeof(fin));
	assert_int_equal(cqe.byte_len, sizeof(fin));
	assert_int_equal(fin.opcode, IBV_TMH_FIN);
	assert_int_equal(be32toh(fin.app_ctx), APP_CTX);
	assert_int_equal(be64toh(fin.tag), tag);
}

static void a_rendezvous_fetches_its_data(void **state)
{
	static const uint32_t lengths[] = { 1, 0, 5000, 700000 };
	struct options options = default_options(IBV_QPT_RC);
	struct scene *s;

	options.buffer = 1 << 20;
	s = make_with(*state, &options);
	for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
		uint64_t tag = 0x9000000000000000 + i;
		struct simhca_cqe cqe;

		fill(s->a.mr->addr + 4096, lengths[i], (uint32_t)i);
		memset(s->b.mr->addr, 0, lengths[i] + 1);
		add(s, 5, tag, UINT64_MAX, 0, 800000);
		recv_into(&s->a, 8, 1024, 64);
		send_rndv(s, 1, tag, 4096, lengths[i], s->a.mr->rkey);
		expect(s->a.send_cq, 1, SUCCESS);
		cqe = check_cqe(s, 5, SIMHCA_WC_TM_RECV, MATCH);
		check_match(&cqe, tag);
		cqe = check_cqe(s, 5, SIMHCA_WC_TM_RECV, DATA_VALID);
		assert_int_equal(cqe.byte_len, lengths[i]);
		check_fin(s, 8, 1024, tag);
		assert_true(filled(s->b.mr->addr, lengths[i], (uint32_t)i));
		assert_int_equal(s->b.mr->addr[lengths[i]], 0);
		expect_none(s->b.send_cq);
	}
}

/* One for which there is no tag is the program's to fetch: it has the headers. */
static void an_unexpected_rendezvous(void **state)
{
	struct scene *s = make(*state);
	struct simhca_cqe cqe;

	supply(s, 1, 0);
	send_rndv(s, 1, 5, 4096, 100, s->a.mr->rkey);
	expect(s->a.send_cq, 1, SUCCESS);
	cqe = check_cqe(s, 1, SIMHCA_WC_TM_RECV, 0);
	assert_int_equal(cqe.byte_len, SIMHCA_MAX_RNDV_HEADER);
	assert_memory_equal(s->b.mr->addr, s->a.mr->addr, SIMHCA_MAX_RNDV_HEADER);
	expect_none(s->a.recv_cq);
	add(s, 2, 6, UINT64_MAX, 0, 100); /* and it counts */
	supply(s, 3, 0);
	send_tagged(s, 2, IBV_TMH_EAGER, 6, 8);
	check_unexpected(s, 3, 0, 6, 8);
}

/* In the order in which they came; the QP's own work requests go on between them. */
static void several_at_once(void **state)
{
	struct scene *s = make(*state);

	for (uint64_t i = 0; i < 6; i++) {
		add(s, i, i, UINT64_MAX, i * 1000, 1000);
		recv_into(&s->a, 20, 1024 + i * 64, 64);
		fill(s->a.mr->addr + 8192 + i * 1000, 1000, (uint32_t)i);
	}
	for (uint64_t i = 0; i < 6; i++) {
		const struct ibv_tmh tmh = { .opcode = IBV_TMH_RNDV,
					     .app_ctx = htobe32(APP_CTX),
					     .tag = htobe64(i) };
		const struct ibv_rvh rvh = { .va = htobe64((uintptr_t)s->a.mr->addr + 8192 +
							   i * 1000),
					     .rkey = htobe32(s->a.mr->rkey),
					     .len = htobe32(1000) };
		uint8_t request[32];

		memcpy(request, &tmh, sizeof(tmh));
		memcpy(request + 16, &rvh, sizeof(rvh));
		qp_put(s->a.qp, &(struct wr){ .id = i,
					      .opcode = SIMHCA_WR_SEND,
					      .inline_data = request,
					      .inline_len = 32 });
		qp_put(s->b.qp, &(struct wr){ .id = 40 + i,
					      .flags = SIMHCA_WQE_SIGNALED,
					      .opcode = SIMHCA_WR_RDMA_WRITE,
					      .remote_addr = (uintptr_t)s->a.mr->addr + 40000,
					      .rkey = s->a.mr->rkey,
					      .inline_data = "x",
					      .inline_len = 1 });
	}
	qp_ring(s->a.qp);
	qp_ring(s->b.qp);
	run_until_idle(*state);
	for (uint64_t i = 0, matched = 0, valid = 0; i < 12; i++) {
		struct simhca_cqe cqe;

		assert_true(cq_wait(s->cq, &cqe));
		assert_int_equal(cqe.status, 0);
		assert_int_equal(cqe.wr_id, cqe.tm_flags == MATCH ? matched++ : valid++);
		assert_true(valid <= matched);
	}
	for (uint64_t i = 0; i < 6; i++) {
		check_fin(s, 20, 1024 + i * 64, i);
		expect(s->b.send_cq, 40 + i, SUCCESS);
		assert_true(filled(s->b.mr->addr + i * 1000, 1000, (uint32_t)i));
	}
}

/* What cannot be read is not asked for, and no FIN is sent; the connection is unharmed. */
static void what_cannot_be_fetched(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct scene *s = make(*state);
	struct simhca_cqe cqe;

	add(s, 1, 5, UINT64_MAX, 0, 99);
	send_rndv(s, 1, 5, 4096, 100, s->a.mr->rkey);
	check_cqe(s, 1, SIMHCA_WC_TM_RECV, MATCH);
	cqe = expect_why(s->cq, 1, TM_RNDV_INCOMPLETE, RECV_TOO_SHORT);
	assert_int_equal(cqe.opcode, SIMHCA_WC_TM_RECV);
	add(s, 2, 6, UINT64_MAX, 0, 100);
	send_tagged(s, 2, IBV_TMH_EAGER, 6, 8);
	check_cqe(s, 2, SIMHCA_WC_TM_RECV, MATCH | DATA_VALID);

	options.max_rd_atomic = 0;
	s = make_with(*state, &options);
	add(s, 1, 5, UINT64_MAX, 0, 200);
	send_rndv(s, 1, 5, 4096, 100, s->a.mr->rkey);
	check_cqe(s, 1, SIMHCA_WC_TM_RECV, MATCH);
	expect_why(s->cq, 1, TM_RNDV_INCOMPLETE, READ_NOT_ENABLED);
	assert_int_equal(qp_state(s->b.qp), IBV_QPS_RTS);
}

static void a_read_that_is_refused(void **state)
{
	struct scene *s = make(*state);

	add(s, 1, 5, UINT64_MAX, 0, 200);
	add(s, 2, 6, UINT64_MAX, 0, 200);
	send_rndv(s, 1, 5, 4096, 100, s->a.mr->rkey + 1);
	check_cqe(s, 1, SIMHCA_WC_TM_RECV, MATCH);
	expect_why(s->cq, 1, TM_RNDV_INCOMPLETE, KEY_STALE);
	assert_int_equal(qp_state(s->b.qp), IBV_QPS_ERR);
	assert_int_equal(qp_state(s->a.qp), IBV_QPS_ERR);
	expect_none(s->cq); /* the list is the SRQ's, whatever becomes of a QP */
}

/* The end of one waits for the peer's receive; behind it are others when the QP fails. */
static void what_waits_is_flushed(void **state)
{
	struct scene *s = make(*state);

	for (uint64_t i = 0; i < 3; i++) {
		add(s, i, i, UINT64_MAX, 0, 200);
		send_rndv(s, 9, i, 4096, 100, s->a.mr->rkey);
		expect(s->a.send_cq, 9, SUCCESS);
		check_cqe(s, i, SIMHCA_WC_TM_RECV, MATCH);
		if (!i)
			check_cqe(s, i, SIMHCA_WC_TM_RECV, DATA_VALID);
	}
	expect_none(s->cq);
	recv_into(&s->a, 7, 1024, 64);
	advance(*state, 10 * MSEC);
	check_fin(s, 7, 1024, 0);
	check_cqe(s, 1, SIMHCA_WC_TM_RECV, DATA_VALID);
	assert_int_equal(0, qp_move(s->b.qp, IBV_QPS_ERR));
	expect_why(s->cq, 2, WR_FLUSH_ERR, FLUSHED); /* of 1 all was said but to the peer */
	expect_none(s->cq);
	assert_int_equal(events_of(s->b.client, s->b.qp, IBV_EVENT_QP_LAST_WQE_REACHED), 1);
}

static int try_to_add(struct scene *s, uint64_t tag)
{
	return op(s,
		  (struct simhca_srq_op_req){ .opcode = SIMHCA_SRQ_TAG_ADD,
					      .recv_wr_id = tag,
					      .tag = tag,
					      .mask = UINT64_MAX,
					      .num_sge = 1,
					      .sge = { sge(s->b.mr, 0, 200) } },
		  NULL);
}

/* How many tags can be posted, and match, before one of them is refused; at most that many. */
static uint32_t matches(struct scene *s, uint64_t first, uint32_t most)
{
	uint32_t count = 0;
	int error = 0;

	while (count < most && !(error = try_to_add(s, first + count))) {
		send_rndv(s, 9, first + count, 4096, 100, s->a.mr->rkey);
		expect(s->a.send_cq, 9, SUCCESS);
		check_cqe(s, first + count++, SIMHCA_WC_TM_RECV, MATCH);
	}
	assert_int_equal(error, count < most ? -ENOMEM : 0);
	return count;
}

/*
 * The peer takes no FIN, so nothing further is fetched. What has matched counts in the list until
 * its data are there: no more of it waits than the list has room for, and all of the list can be
 * used again afterwards, whether the data came or not.
 */
static void what_waits_counts_in_the_list(void **state)
{
	enum { FETCHED, FLUSHED, RESET, ENDS };

	for (int end = 0; end < ENDS; end++) {
		struct scene *s = make(*state);

		assert_int_equal(matches(s, 0, 1), 1);
		check_cqe(s, 0, SIMHCA_WC_TM_RECV, DATA_VALID);
		assert_int_equal(matches(s, 1, 4 * TAGS), TAGS);
		if (end == FETCHED) {
			for (uint64_t i = 0; i <= TAGS; i++)
				recv_into(&s->a, 20, 1024 + i * 64, 64);
			advance(*state, 10 * MSEC);
			for (uint64_t i = 0; i <= TAGS; i++)
				check_fin(s, 20, 1024 + i * 64, i);
		} else {
			assert_int_equal(0, qp_move(s->b.qp,
						    end == FLUSHED ? IBV_QPS_ERR : IBV_QPS_RESET));
		}
		for (uint64_t i = 1; i <= TAGS && end == FETCHED; i++)
			check_cqe(s, i, SIMHCA_WC_TM_RECV, DATA_VALID);
		for (uint64_t i = 1; i <= TAGS && end == FLUSHED; i++)
			expect_why(s->cq, i, WR_FLUSH_ERR, FLUSHED);
		expect_none(s->cq);
		for (uint64_t i = 0; i < TAGS; i++)
			assert_int_equal(try_to_add(s, 100 + i), 0);
		assert_int_equal(try_to_add(s, 200), -ENOMEM);
	}
}

/* FIN that does not arrive: no completion is left to say so. */
static void an_end_that_fails(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct scene *s;

	options.rnr_retry = 1;
	s = make_with(*state, &options);
	add(s, 1, 1, UINT64_MAX, 0, 200);
	send_rndv(s, 9, 1, 4096, 100, s->a.mr->rkey);
	check_cqe(s, 1, SIMHCA_WC_TM_RECV, MATCH);
	check_cqe(s, 1, SIMHCA_WC_TM_RECV, DATA_VALID);
	advance(*state, 10 * MSEC);
	advance(*state, 10 * MSEC);
	assert_int_equal(qp_state(s->b.qp), IBV_QPS_ERR);
	assert_int_equal(events_of(s->b.client, s->b.qp, IBV_EVENT_QP_FATAL), 1);
	expect_none(s->cq);
}

/* Reset, or gone, with a rendezvous on the way: nothing of it is heard again. */
static void a_qp_that_goes(void **state)
{
	for (int destroy = 0; destroy < 2; destroy++) {
		struct scene *s = make(*state);

		for (uint64_t i = 0; i < 2; i++) {
			add(s, i, i, UINT64_MAX, 0, 200);
			send_rndv(s, 9, i, 4096, 100, s->a.mr->rkey);
			check_cqe(s, i, SIMHCA_WC_TM_RECV, MATCH);
			if (!i)
				check_cqe(s, i, SIMHCA_WC_TM_RECV, DATA_VALID);
		}
		if (destroy)
			assert_int_equal(0, patiently(simhca_destroy_qp(s->b.client->context,
									s->b.qp->handle, NULL)));
		else
			assert_int_equal(0, qp_move(s->b.qp, IBV_QPS_RESET));
		recv_into(&s->a, 7, 1024, 64);
		advance(*state, 10 * MSEC);
		expect_none(s->cq);
		expect_none(s->a.recv_cq);
	}
}

/* Tagged buffers are of the SRQ's PD, whichever the QP has. */
static void buffers_are_of_the_srqs_pd(void **state)
{
	struct scene *s = make(*state);
	struct client *client = s->b.client;
	struct cq *cq = cq_new(client, 8);
	struct qp *qp = qp_new_in(client, pd_new(client), &s->options, cq, cq, s->srq);

	assert_int_equal(0, qp_move(s->a.qp, IBV_QPS_RESET));
	qp_connect(s->a.qp, 1, qp->qpn, &s->options);
	qp_connect(qp, 0, s->a.qp->qpn, &s->options);
	add(s, 1, 1, UINT64_MAX, 0, 200);
	send_tagged(s, 1, IBV_TMH_EAGER, 1, 100);
	check_cqe(s, 1, SIMHCA_WC_TM_RECV, MATCH | DATA_VALID);
	add(s, 2, 2, UINT64_MAX, 0, 200);
	recv_into(&s->a, 7, 1024, 64);
	send_rndv(s, 2, 2, 4096, 100, s->a.mr->rkey);
	check_cqe(s, 2, SIMHCA_WC_TM_RECV, MATCH);
	check_cqe(s, 2, SIMHCA_WC_TM_RECV, DATA_VALID);
	check_fin(s, 7, 1024, 2);
}

int main(void)
{
#define ON_BOTH(test) ON_ETHERNET(test), ON_INFINIBAND(test)
	const struct CMUnitTest tests[] = {
		ON_BOTH(a_rendezvous_fetches_its_data),
		ON_BOTH(an_unexpected_rendezvous),
		ON_BOTH(several_at_once),
		ON_BOTH(what_cannot_be_fetched),
		ON_BOTH(a_read_that_is_refused),
		ON_BOTH(what_waits_is_flushed),
		ON_BOTH(what_waits_counts_in_the_list),
		ON_BOTH(an_end_that_fails),
		ON_BOTH(a_qp_that_goes),
		ON_BOTH(buffers_are_of_the_srqs_pd),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
