/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* FLUSH of memory (IBTA vol. 1, A19): what it waits for, names, needs and refuses. */
#include "paging.h"

#define BOTH_ACCESS (SIMHCA_ACCESS_FLUSH_GLOBAL | SIMHCA_ACCESS_FLUSH_PERSISTENT)
#define FLUSH_ACCESS (ALL_ACCESS | BOTH_ACCESS)
#define BOTH (SIMHCA_FLUSH_GLOBAL | SIMHCA_FLUSH_PERSISTENT)

static struct options flush_options(void)
{
	struct options options = default_options(IBV_QPT_RC);

	options.access = options.mr_access = FLUSH_ACCESS;
	return options;
}

static struct pair *flush_pair(struct world *world)
{
	struct options options = flush_options();

	return pair_new(world, &options);
}

/* Of length bytes of b's region, or by another of its keys. */
static void flush_by(struct pair *pair, uint64_t id, uint64_t addr, uint64_t length, uint32_t rkey,
		     uint8_t placement, uint8_t selectivity)
{
	post(&pair->a, .id = id, .opcode = SIMHCA_WR_FLUSH, .remote_addr = addr, .length = length,
	     .rkey = rkey, .placement = placement, .selectivity = selectivity);
}

static void flush(struct pair *pair, uint64_t id, uint64_t offset, uint64_t length,
		  uint8_t placement)
{
	flush_by(pair, id, pair->b.mr->iova + offset, length, pair->b.mr->rkey, placement,
		 SIMHCA_FLUSH_RANGE);
}

static void flush_all(struct pair *pair, uint64_t id, uint32_t rkey, uint8_t placement)
{
	flush_by(pair, id, 0xdead, UINT64_MAX, rkey, placement, SIMHCA_FLUSH_MR);
}

/* What was written before is there when the flush has completed, whatever was asked for. */
static void writes_come_before_flushes(void **state)
{
	struct pair *pair = flush_pair(*state);

	for (uint8_t placement = 1; placement <= BOTH; placement++) {
		for (uint8_t all = 0; all < 2; all++) {
			uint32_t seed = placement * 2u + all;
			struct simhca_cqe cqe;

			fill(pair->a.mr->addr, 5000, seed);
			rdma_write(&pair->a, 100, 0, 5000, 3);
			if (all)
				flush_all(pair, seed, pair->b.mr->rkey, placement);
			else
				flush(pair, seed, 3, 5000, placement);
			expect(pair->a.send_cq, 100, SUCCESS);
			cqe = expect(pair->a.send_cq, seed, SUCCESS);
			assert_int_equal(cqe.opcode, SIMHCA_WC_FLUSH);
			assert_int_equal(cqe.byte_len, 0);
			assert_true(filled(pair->b.mr->addr + 3, 5000, seed));
		}
	}
	assert_true(all_bytes(pair->b.mr->addr, 3, 0));
	assert_true(all_bytes(pair->b.mr->addr + 5003, 64, 0));
	assert_int_equal(0, events_of(pair->b.client, pair->b.qp, IBV_EVENT_QP_ACCESS_ERR));
}

/* It takes one PSN and one message, and SGEs say nothing. */
static void it_is_one_packet(void **state)
{
	struct pair *pair = flush_pair(*state);
	uint32_t psn = requester_of(pair->a.qp)->psn_next, msn = responder_of(pair->b.qp)->msn;

	post(&pair->a, .id = 1, .opcode = SIMHCA_WR_FLUSH, .remote_addr = pair->b.mr->iova,
	     .length = pair->b.mr->length, .rkey = pair->b.mr->rkey, .placement = BOTH,
	     SGES(sge(pair->a.mr, 0, 4096)));
	expect(pair->a.send_cq, 1, SUCCESS);
	assert_int_equal(requester_of(pair->a.qp)->psn_next, psn + 1);
	assert_int_equal(responder_of(pair->b.qp)->msn, msn + 1);
	assert_true(all_bytes(pair->b.mr->addr, 4096, 0));
}

/* Of a range every byte must be the key's; of the whole region there is nothing to be wrong. */
static void ranges_are_checked(void **state)
{
	struct pair *pair = flush_pair(*state);
	const struct mr *mr = pair->b.mr;
	const struct {
		uint64_t offset, length;
		enum simhca_reason reason;
	} cases[] = {
		{ 0, 1, SIMHCA_REASON_NONE },
		{ 0, mr->length, SIMHCA_REASON_NONE },
		{ mr->length - 1, 1, SIMHCA_REASON_NONE },
		{ 7, 0, SIMHCA_REASON_NONE },
		{ -1ull, 1, SIMHCA_REASON_KEY_BELOW_START },
		{ mr->length, 1, SIMHCA_REASON_KEY_PAST_END },
		{ 0, mr->length + 1, SIMHCA_REASON_KEY_PAST_END },
		{ 0, UINT64_MAX, SIMHCA_REASON_KEY_WRAPS },
		{ mr->length + 1, 0, SIMHCA_REASON_KEY_PAST_END },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		flush(pair, i, cases[i].offset, cases[i].length, BOTH);
		if (!cases[i].reason) {
			expect(pair->a.send_cq, i, SUCCESS);
			continue;
		}
		assert_int_equal(expect(pair->a.send_cq, i, REM_ACCESS_ERR).vendor_err,
				 cases[i].reason);
		pair_reconnect(pair);
	}
}

/* Also where no byte is named: a key that is none is refused. */
static void keys_are_checked(void **state)
{
	struct pair *pair = flush_pair(*state);
	struct mr *foreign = mr_over(pair->b.client, pd_new(pair->b.client), pair->b.mr->addr, 64,
				     pair->b.mr->iova, FLUSH_ACCESS);
	const uint32_t keys[] = { 0xffffff00, pair->b.mr->rkey ^ 1, foreign->rkey };
	const enum simhca_reason reasons[] = { SIMHCA_REASON_KEY_UNKNOWN, SIMHCA_REASON_KEY_STALE,
					       SIMHCA_REASON_KEY_WRONG_PD };

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		for (uint64_t id = 0; id < 3; id++) {
			if (id == 2)
				flush_all(pair, id, keys[i], BOTH);
			else
				flush_by(pair, id, pair->b.mr->iova, id * 8, keys[i], BOTH,
					 SIMHCA_FLUSH_RANGE);
			assert_int_equal(expect(pair->a.send_cq, id, REM_ACCESS_ERR).vendor_err,
					 reasons[i]);
			pair_reconnect(pair);
		}
	}
}

/* One right for each placement, on the key (access error) and on the QP (invalid request). */
static void rights_are_checked(void **state)
{
	for (uint32_t has = 0; has <= BOTH; has++) {
		uint32_t access =
			(has & SIMHCA_FLUSH_GLOBAL ? SIMHCA_ACCESS_FLUSH_GLOBAL : 0) |
			(has & SIMHCA_FLUSH_PERSISTENT ? SIMHCA_ACCESS_FLUSH_PERSISTENT : 0);
		struct options options = flush_options();
		struct pair *key, *qp;

		options.mr_access = ALL_ACCESS | access;
		key = pair_new(*state, &options);
		options = flush_options();
		options.access = ALL_ACCESS | access;
		qp = pair_new(*state, &options);
		for (uint8_t placement = 1; placement <= BOTH; placement++) {
			bool global = placement & ~has & SIMHCA_FLUSH_GLOBAL;

			flush(key, 1, 0, 8, placement);
			flush_all(key, 2, key->b.mr->rkey, placement);
			flush(qp, 1, 0, 8, placement);
			if (!(placement & ~has)) {
				expect(key->a.send_cq, 1, SUCCESS);
				expect(key->a.send_cq, 2, SUCCESS);
				expect(qp->a.send_cq, 1, SUCCESS);
				continue;
			}
			assert_int_equal(expect(key->a.send_cq, 1, REM_ACCESS_ERR).vendor_err,
					 global ? SIMHCA_REASON_KEY_NO_FLUSH_GLOBAL
						: SIMHCA_REASON_KEY_NO_FLUSH_PERSISTENT);
			expect(key->a.send_cq, 2, WR_FLUSH_ERR);
			assert_int_equal(expect(qp->a.send_cq, 1, REM_INV_REQ_ERR).vendor_err,
					 global ? SIMHCA_REASON_QP_NO_FLUSH_GLOBAL
						: SIMHCA_REASON_QP_NO_FLUSH_PERSISTENT);
			pair_reconnect(key);
			pair_reconnect(qp);
			flush_all(key, 3, key->b.mr->rkey, placement);
			expect(key->a.send_cq, 3, REM_ACCESS_ERR);
			pair_reconnect(key);
		}
	}
}

/* A window has rights and bounds of its own; unbound it has none. */
static void windows_are_flushed(void **state)
{
	struct options options = flush_options();
	struct pair *pair;
	struct mw *mw;

	options.mr_access |= SIMHCA_ACCESS_MW_BIND;
	pair = pair_new(*state, &options);
	for (uint32_t type = 1; type <= 2; type++) {
		mw = mw_new(pair->b.client, pair->b.client->pd, type);
		flush_all(pair, 1, mw->rkey, BOTH);
		expect_why(pair->a.send_cq, 1, REM_ACCESS_ERR, MW_NOT_BOUND);
		pair_reconnect(pair);

		qp_bind(pair->b.qp, 2, mw, pair->b.mr, 64, 128,
			SIMHCA_ACCESS_REMOTE_WRITE | SIMHCA_ACCESS_FLUSH_GLOBAL);
		expect(pair->b.send_cq, 2, SUCCESS);
		flush_all(pair, 3, mw->rkey, SIMHCA_FLUSH_GLOBAL);
		expect(pair->a.send_cq, 3, SUCCESS);
		flush_by(pair, 4, pair->b.mr->iova + 64, 128, mw->rkey, SIMHCA_FLUSH_GLOBAL,
			 SIMHCA_FLUSH_RANGE);
		expect(pair->a.send_cq, 4, SUCCESS);
		flush_by(pair, 5, pair->b.mr->iova + 64, 129, mw->rkey, SIMHCA_FLUSH_GLOBAL,
			 SIMHCA_FLUSH_RANGE);
		expect_why(pair->a.send_cq, 5, REM_ACCESS_ERR, KEY_PAST_END);
		mw_gone(mw);
		pair_reconnect(pair);
	}
	mw = mw_new(pair->b.client, pair->b.client->pd, 1);
	qp_bind(pair->b.qp, 6, mw, pair->b.mr, 64, 128, SIMHCA_ACCESS_REMOTE_WRITE);
	expect(pair->b.send_cq, 6, SUCCESS);
	flush_all(pair, 7, mw->rkey, SIMHCA_FLUSH_GLOBAL);
	expect_why(pair->a.send_cq, 7, REM_ACCESS_ERR, KEY_NO_FLUSH_GLOBAL);
}

static void types_that_are_none(void **state)
{
	struct pair *pair = flush_pair(*state);
	const uint8_t types[][2] = { { 0, 0 },	  { 0, 1 }, { 4, 0 },
				     { 0x81, 0 }, { 1, 2 }, { 3, 0xff } };

	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		flush_by(pair, i, pair->b.mr->iova, 8, pair->b.mr->rkey, types[i][0], types[i][1]);
		expect_why(pair->a.send_cq, i, LOC_QP_OP_ERR, FLUSH_BAD_TYPE);
		pair_reconnect(pair);
	}
}

/* It counts against the responder's resources, as reads do; and is for reliable transports. */
static void what_flushes_need(void **state)
{
	struct options options = flush_options();
	struct pair *pair;

	options.max_rd_atomic = 0;
	pair = pair_new(*state, &options);
	flush(pair, 1, 0, 8, BOTH);
	expect_why(pair->a.send_cq, 1, LOC_QP_OP_ERR, READ_NOT_ENABLED);

	options = flush_options();
	options.max_dest_rd_atomic = 0;
	pair = pair_new(*state, &options);
	flush(pair, 1, 0, 8, BOTH);
	expect_why(pair->a.send_cq, 1, REM_INV_REQ_ERR, RESP_NO_RD_ATOMIC);

	options = default_options(IBV_QPT_UC);
	pair = pair_new(*state, &options);
	flush(pair, 1, 0, 8, BOTH);
	expect_why(pair->a.send_cq, 1, LOC_QP_OP_ERR, WQE_BAD_OPCODE);
}

/* The answer was lost, and the region has gone since: it is answered all the same (oA19-14). */
static void a_repeated_flush_is_answered(void **state)
{
	struct pair *pair = flush_pair(*state);
	struct simhca_qp_attr attr;

	flush(pair, 1, 0, 8, BOTH);
	expect(pair->a.send_cq, 1, SUCCESS);
	attr = qp_attr_to(pair->a.qp, 1, pair->b.qp->qpn, &pair->a.options);
	assert_int_equal(0, mr_gone(pair->b.mr));
	assert_int_equal(0, qp_move(pair->a.qp, IBV_QPS_RESET));
	qp_up_to(pair->a.qp, IBV_QPS_RTS, attr);
	flush(pair, 2, 0, 8, BOTH);
	expect(pair->a.send_cq, 2, SUCCESS);
	flush(pair, 3, 0, 8, BOTH);
	expect(pair->a.send_cq, 3, REM_ACCESS_ERR);
}

/* What is absent has nothing to flush. */
static void on_demand_regions_do_not_fault(void **state)
{
	struct pair *pair = flush_pair(*state);
	struct mr *mr = on_demand(pair->b.client, pages(4), 4 * PAGE,
				  FLUSH_ACCESS | SIMHCA_ACCESS_ON_DEMAND);

	flush_by(pair, 1, mr->iova, mr->length, mr->rkey, BOTH, SIMHCA_FLUSH_RANGE);
	flush_all(pair, 2, mr->rkey, BOTH);
	expect(pair->a.send_cq, 1, SUCCESS);
	expect(pair->a.send_cq, 2, SUCCESS);
	assert_int_equal(counters(mr).faults, 0);
	assert_int_equal(present(mr), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_ETHERNET(writes_come_before_flushes),
		ON_INFINIBAND(writes_come_before_flushes),
		ON_TWO_THREADS(writes_come_before_flushes),
		ON_ETHERNET(it_is_one_packet),
		ON_ETHERNET(ranges_are_checked),
		ON_ETHERNET(keys_are_checked),
		ON_ETHERNET(rights_are_checked),
		ON_ETHERNET(windows_are_flushed),
		ON_ETHERNET(types_that_are_none),
		ON_ETHERNET(what_flushes_need),
		ON_ETHERNET(a_repeated_flush_is_answered),
		ON_ETHERNET(on_demand_regions_do_not_fault),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
