/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Remote rights: an operation needs its right on the responder's QP and on the region. */
#include "harness.h"

struct operation {
	uint8_t opcode;
	uint32_t right;
	enum simhca_reason mr_reason, qp_reason;
};
static const struct operation operations[] = {
	{ SIMHCA_WR_RDMA_WRITE, SIMHCA_ACCESS_REMOTE_WRITE, SIMHCA_REASON_MR_NO_REMOTE_WRITE,
	  SIMHCA_REASON_QP_NO_REMOTE_WRITE },
	{ SIMHCA_WR_RDMA_WRITE_WITH_IMM, SIMHCA_ACCESS_REMOTE_WRITE,
	  SIMHCA_REASON_MR_NO_REMOTE_WRITE, SIMHCA_REASON_QP_NO_REMOTE_WRITE },
	{ SIMHCA_WR_RDMA_READ, SIMHCA_ACCESS_REMOTE_READ, SIMHCA_REASON_MR_NO_REMOTE_READ,
	  SIMHCA_REASON_QP_NO_REMOTE_READ },
	{ SIMHCA_WR_ATOMIC_CMP_AND_SWP, SIMHCA_ACCESS_REMOTE_ATOMIC,
	  SIMHCA_REASON_MR_NO_REMOTE_ATOMIC, SIMHCA_REASON_QP_NO_REMOTE_ATOMIC },
	{ SIMHCA_WR_ATOMIC_FETCH_AND_ADD, SIMHCA_ACCESS_REMOTE_ATOMIC,
	  SIMHCA_REASON_MR_NO_REMOTE_ATOMIC, SIMHCA_REASON_QP_NO_REMOTE_ATOMIC },
};

#define REMOTE                                                                                     \
	(SIMHCA_ACCESS_REMOTE_WRITE | SIMHCA_ACCESS_REMOTE_READ | SIMHCA_ACCESS_REMOTE_ATOMIC)

static void attempt(struct pair *pair, const struct operation *op)
{
	memset(pair->a.mr->addr, 0x77, 64);
	memset(pair->b.mr->addr, 0x33, 64);
	if (op->opcode == SIMHCA_WR_RDMA_WRITE_WITH_IMM)
		recv_into(&pair->b, 50, 1024, 64);
	post(&pair->a, .id = 1, .opcode = op->opcode, SGES(sge(pair->a.mr, 0, 8)),
	     .remote_addr = pair->b.mr->iova, .rkey = pair->b.mr->rkey, .compare_add = 1);
}

static void check_untouched(struct pair *pair)
{
	assert_true(all_bytes(pair->a.mr->addr, 64, 0x77));
	assert_true(all_bytes(pair->b.mr->addr, 64, 0x33));
	assert_int_equal(qp_state(pair->a.qp), IBV_QPS_ERR);
	assert_int_equal(qp_state(pair->b.qp), IBV_QPS_ERR);
}

static void each_right_is_needed_on_the_region(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(operations); i++) {
		const struct operation *op = &operations[i];
		struct options options = default_options(IBV_QPT_RC);
		struct pair *pair;

		options.mr_access = SIMHCA_ACCESS_LOCAL_WRITE | (REMOTE & ~op->right);
		pair = pair_new(*state, &options);
		attempt(pair, op);
		expect_(pair->a.send_cq, 1, IBV_WC_REM_ACCESS_ERR, op->mr_reason, __FILE__,
			__LINE__);
		check_untouched(pair);
		if (op->opcode != SIMHCA_WR_RDMA_WRITE_WITH_IMM)
			assert_int_equal(
				events_of(pair->b.client, pair->b.qp, IBV_EVENT_QP_ACCESS_ERR), 1);
		assert_int_equal(events_of(pair->a.client, pair->a.qp, IBV_EVENT_QP_ACCESS_ERR), 0);
	}
}

static void each_right_is_needed_on_the_qp(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(operations); i++) {
		const struct operation *op = &operations[i];
		struct options options = default_options(IBV_QPT_RC);
		struct pair *pair;

		options.access = REMOTE & ~op->right;
		pair = pair_new(*state, &options);
		attempt(pair, op);
		expect_(pair->a.send_cq, 1, IBV_WC_REM_INV_REQ_ERR, op->qp_reason, __FILE__,
			__LINE__);
		check_untouched(pair);
		if (op->opcode != SIMHCA_WR_RDMA_WRITE_WITH_IMM)
			assert_int_equal(
				events_of(pair->b.client, pair->b.qp, IBV_EVENT_QP_REQ_ERR), 1);
	}
}

static void only_the_one_right_is_needed(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(operations); i++) {
		const struct operation *op = &operations[i];
		struct options options = default_options(IBV_QPT_RC);
		struct pair *pair;

		options.access = op->right;
		options.mr_access = SIMHCA_ACCESS_LOCAL_WRITE | op->right;
		pair = pair_new(*state, &options);
		attempt(pair, op);
		expect(pair->a.send_cq, 1, SUCCESS);
	}
}

/* Rights may be taken away, and given back, while the QP is in RTS. */
static void rights_follow_modify_qp(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_new(*state, &options);

	assert_int_equal(0, qp_modify(pair->b.qp, SIMHCA_QP_ACCESS_FLAGS,
				      (struct simhca_qp_attr){ .qp_access_flags = 0 }));
	rdma_write(&pair->a, 1, 0, 64, 0);
	expect_why(pair->a.send_cq, 1, REM_INV_REQ_ERR, QP_NO_REMOTE_WRITE);
	pair_reconnect(pair);
	assert_int_equal(0, qp_modify(pair->b.qp, SIMHCA_QP_ACCESS_FLAGS,
				      (struct simhca_qp_attr){ .qp_access_flags = 0 }));
	assert_int_equal(0, qp_modify(pair->b.qp, SIMHCA_QP_ACCESS_FLAGS,
				      (struct simhca_qp_attr){
					      .qp_access_flags = SIMHCA_ACCESS_REMOTE_WRITE }));
	rdma_write(&pair->a, 2, 0, 64, 0);
	expect(pair->a.send_cq, 2, SUCCESS);
}

/* UC drops what it may not do, silently at the sender, and the responder's QP stays usable. */
static void uc_writes_without_right_are_lost(void **state)
{
	for (int on_qp = 0; on_qp < 2; on_qp++) {
		struct options options = default_options(IBV_QPT_UC);
		struct pair *pair;

		if (on_qp)
			options.access = 0;
		else
			options.mr_access = SIMHCA_ACCESS_LOCAL_WRITE;
		pair = pair_new(*state, &options);
		memset(pair->a.mr->addr, 0x77, 64);
		rdma_write(&pair->a, 1, 0, 64, 0);
		expect(pair->a.send_cq, 1, SUCCESS);
		assert_true(all_bytes(pair->b.mr->addr, 64, 0));
		assert_int_equal(qp_state(pair->a.qp), IBV_QPS_RTS);
		assert_int_equal(qp_state(pair->b.qp), IBV_QPS_RTS);
		assert_int_equal(pair->b.client->num_events, 0);
	}
}

/* A peer's rights on its own QP and buffer do not matter for what it does to others. */
static void the_requesters_rights_do_not_matter(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_unconnected(*state, &options);

	pair->a.options.access = 0;
	pair->a.mr = mr_new(pair->a.client, 4096, SIMHCA_ACCESS_LOCAL_WRITE);
	pair_connect(pair);
	rdma_write(&pair->a, 1, 0, 64, 0);
	rdma_read(&pair->a, 2, 0, 64, 0);
	expect(pair->a.send_cq, 1, SUCCESS);
	expect(pair->a.send_cq, 2, SUCCESS);
}

/* Only the QP that the peer names as its destination may send to it. */
static void a_qp_listens_to_its_peer_alone(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_new(*state, &options);
	struct side *intruder;

	options.retry_cnt = 0;
	intruder = side_new(client_new(*state, 0), &options);
	qp_connect(intruder->qp, 1, pair->b.qp->qpn, &options);
	intruder->peer = &pair->b;
	memset(intruder->mr->addr, 0x99, 64);
	rdma_write(intruder, 1, 0, 64, 0);
	advance(*state, 10 * SEC);
	expect(intruder->send_cq, 1, RETRY_EXC_ERR);
	assert_true(all_bytes(pair->b.mr->addr, 64, 0));
	check_works(pair);
}

/*
 * The NAK brings the QP down as responder, and still tells it, as requester, what was wrong; unless
 * it is on its way, and comes to a QP that has been flushed.
 */
static void a_qp_that_talks_to_itself_hears_its_nak(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct side *side = side_new(client_new(*state, 0), &options);

	qp_connect(side->qp, 0, side->qp->qpn, &options);
	post(side, .id = 1, .opcode = SIMHCA_WR_RDMA_WRITE, SGES(sge(side->mr, 0, 8)),
	     .remote_addr = side->mr->iova, .rkey = side->mr->rkey ^ 1);
	if (side->world->tick)
		expect_why(side->send_cq, 1, WR_FLUSH_ERR, FLUSHED);
	else
		expect_why(side->send_cq, 1, REM_ACCESS_ERR, KEY_STALE);
	assert_int_equal(qp_state(side->qp), IBV_QPS_ERR);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_ETHERNET(each_right_is_needed_on_the_region),
		ON_ETHERNET(each_right_is_needed_on_the_qp),
		ON_ETHERNET(only_the_one_right_is_needed),
		ON_ETHERNET(rights_follow_modify_qp),
		ON_ETHERNET(uc_writes_without_right_are_lost),
		ON_ETHERNET(the_requesters_rights_do_not_matter),
		ON_ETHERNET(a_qp_listens_to_its_peer_alone),
		ON_ETHERNET(a_qp_that_talks_to_itself_hears_its_nak),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
