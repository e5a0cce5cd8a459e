/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * LOCAL_INV, SEND_WITH_INV and RDMA_READ_WITH_INV: who may invalidate what, and that a completed
 * invalidation is final: no access with the key starts, and none is under way.
 */
#include <stdatomic.h>

#include "harness.h"
#include "memory/key.h"
#include "memory/mw.h"

enum { PAGE = 4096 };
#define IOVA 0x600000000000ull
#define REMOTE (ALL_ACCESS & ~SIMHCA_ACCESS_LOCAL_WRITE)

/* b has a fast-register region and a type 2 window, valid both. */
struct setting {
	struct pair *pair;
	struct side *a, *b;
	uint64_t *pages;
	uint8_t *memory;
	struct mr *fast;
	struct mw *mw;
};

static void validate(struct setting *s)
{
	qp_fast_reg(s->b->qp, 80, s->fast, s->pages, 1, IOVA, PAGE, ALL_ACCESS);
	expect(s->b->send_cq, 80, SUCCESS);
	qp_bind(s->b->qp, 81, s->mw, s->b->mr, 0, PAGE, REMOTE);
	expect(s->b->send_cq, 81, SUCCESS);
}

static struct setting make_on(struct world *world, const struct options *options)
{
	struct setting s = { 0 };
	struct client *client;

	s.pair = pair_new(world, options);
	s.a = &s.pair->a;
	s.b = &s.pair->b;
	client = s.b->client;
	s.memory = (uint8_t *)(((uintptr_t)world_alloc(world, 2 * PAGE) + PAGE - 1) &
			       ~(uintptr_t)(PAGE - 1));
	s.pages = world_alloc(world, sizeof(*s.pages));
	s.pages[0] = (uintptr_t)s.memory;
	s.fast = fast_mr_new(client, client->pd, 1);
	s.mw = mw_new(client, client->pd, 2);
	validate(&s);
	return s;
}

static struct setting make(struct world *world, enum ibv_qp_type type)
{
	struct options options = default_options(type);

	options.mr_access |= SIMHCA_ACCESS_MW_BIND;
	return make_on(world, &options);
}

static bool valid(const struct setting *s, uint32_t key)
{
	return mpt_of(s->b->client, key)->valid;
}

static void send_with_inv(struct side *side, uint64_t id, uint32_t length, uint32_t key)
{
	post(side, .id = id, .opcode = SIMHCA_WR_SEND_WITH_INV, .imm = key,
	     SGES(sge(side->mr, 0, length)));
}

static void local_invalidation(void **state)
{
	static const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_UC };

	for (size_t t = 0; t < ARRAY_SIZE(types); t++) {
		struct setting s = make(*state, types[t]);

		qp_local_inv(s.b->qp, 1, s.fast->lkey);
		assert_int_equal(expect(s.b->send_cq, 1, SUCCESS).opcode, SIMHCA_WC_LOCAL_INV);
		qp_local_inv(s.b->qp, 2, s.mw->rkey);
		expect(s.b->send_cq, 2, SUCCESS);
		assert_false(valid(&s, s.fast->lkey) || valid(&s, s.mw->rkey));
		validate(&s); /* free is free: both work again */
	}
}

/* What is free, or not to be invalidated, is an error, and nothing changes. */
static void local_invalidations_that_are_refused(void **state)
{
	struct setting s = make(*state, IBV_QPT_RC);
	struct client *client = s.b->client, *stranger = client_new(*state, 1);
	struct mw *one = mw_new(client, client->pd, 1), *bound = mw_new(client, client->pd, 1);
	struct {
		uint32_t key;
		enum simhca_reason reason;
	} bad[] = {
		{ 0, SIMHCA_REASON_KEY_UNKNOWN },
		{ 0xffffffff, SIMHCA_REASON_KEY_UNKNOWN },
		{ s.fast->lkey ^ 1, SIMHCA_REASON_KEY_STALE },
		{ s.mw->rkey ^ 1, SIMHCA_REASON_KEY_STALE },
		{ s.b->mr->lkey, SIMHCA_REASON_INV_NOT_ALLOWED },
		{ one->rkey, SIMHCA_REASON_INV_NOT_ALLOWED },
		{ 0, SIMHCA_REASON_INV_NOT_ALLOWED }, /* bound, below */
		{ fast_mr_new(client, client->pd, 1)->lkey, SIMHCA_REASON_MR_NOT_VALID },
		{ mw_new(client, client->pd, 2)->rkey, SIMHCA_REASON_MW_NOT_BOUND },
		{ mw_new(client, pd_new(client), 2)->rkey, SIMHCA_REASON_KEY_WRONG_PD },
		{ fast_mr_new(stranger, stranger->pd, 1)->lkey, SIMHCA_REASON_KEY_WRONG_PD },
	};

	qp_bind(s.b->qp, 1, bound, s.b->mr, 0, 64, REMOTE);
	expect(s.b->send_cq, 1, SUCCESS);
	bad[6].key = bound->rkey;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		qp_local_inv(s.b->qp, i, bad[i].key);
		expect_(s.b->send_cq, i, IBV_WC_MW_BIND_ERR, bad[i].reason, __FILE__, __LINE__);
		assert_int_equal(qp_state(s.b->qp), IBV_QPS_ERR);
		assert_true(valid(&s, s.fast->lkey) && valid(&s, s.mw->rkey));
		assert_true(valid(&s, bound->rkey));
		/* A reset would free the window. */
		qp_local_inv(s.b->qp, 70, s.fast->lkey);
		expect_why(s.b->send_cq, 70, WR_FLUSH_ERR, FLUSHED);
		pair_reconnect(s.pair);
		qp_local_inv(s.b->qp, 70, s.fast->lkey);
		expect(s.b->send_cq, 70, SUCCESS);
		validate(&s);
	}
}

/* The receive says which key; it comes with the data, and afterwards the key is void. */
static void sends_that_invalidate(void **state)
{
	static const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_UC };

	for (size_t t = 0; t < ARRAY_SIZE(types); t++) {
		struct setting s = make(*state, types[t]);

		for (int window = 0; window < 2; window++) {
			uint32_t key = window ? s.mw->rkey : s.fast->rkey;
			struct simhca_cqe cqe;

			fill(s.a->mr->addr, 3000, 6);
			recv_into(s.b, 5, 8192, 3000);
			send_with_inv(s.a, 4, 3000, key);
			assert_int_equal(expect(s.a->send_cq, 4, SUCCESS).opcode, SIMHCA_WC_SEND);
			cqe = expect(s.b->recv_cq, 5, SUCCESS);
			assert_int_equal(cqe.flags & (SIMHCA_CQE_INV | SIMHCA_CQE_IMM),
					 SIMHCA_CQE_INV);
			assert_int_equal(cqe.imm_or_rkey, key);
			assert_int_equal(cqe.byte_len, 3000);
			assert_true(filled(s.b->mr->addr + 8192, 3000, 6));
			assert_false(valid(&s, key));
			/* A plain one says nothing of the kind. */
			recv_into(s.b, 5, 8192, 3000);
			send_from(s.a, 4, 0, 3000);
			expect(s.a->send_cq, 4, SUCCESS);
			assert_int_equal(expect(s.b->recv_cq, 5, SUCCESS).flags & SIMHCA_CQE_INV,
					 0);
		}
		validate(&s);
	}
}

/* Of many packets, the last one invalidates; and the buffer may be what becomes invalid. */
static void the_buffer_of_the_message_itself(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	const uint32_t length = 1 << 20;
	struct pair *pair;
	uint64_t *pages;
	struct mr *mr;
	uint8_t *memory;

	options.buffer = length;
	pair = pair_new(*state, &options);
	memory = (uint8_t *)(((uintptr_t)world_alloc(*state, length + PAGE) + PAGE - 1) &
			     ~(uintptr_t)(PAGE - 1));
	pages = world_alloc(*state, length / PAGE * sizeof(*pages));
	for (uint32_t i = 0; i < length / PAGE; i++)
		pages[i] = (uintptr_t)memory + i * PAGE;
	mr = fast_mr_new(pair->b.client, pair->b.client->pd, length / PAGE);
	qp_fast_reg(pair->b.qp, 1, mr, pages, length / PAGE, IOVA, length, ALL_ACCESS);
	expect(pair->b.send_cq, 1, SUCCESS);
	post_recv(&pair->b, 2, sge(mr, 0, length));
	fill(pair->a.mr->addr, length, 3);
	send_with_inv(&pair->a, 3, length, mr->rkey);
	expect(pair->a.send_cq, 3, SUCCESS);
	assert_int_equal(expect(pair->b.recv_cq, 2, SUCCESS).byte_len, length);
	assert_true(filled(memory, length, 3));
	assert_false(mpt_of(pair->b.client, mr->lkey)->valid);
}

/* Sender and receiver in one context, and the data come from what is invalidated. */
static void the_source_of_the_message_itself(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct setting s;

	options.same_context = true;
	options.mr_access |= SIMHCA_ACCESS_MW_BIND;
	s = make_on(*state, &options);
	memset(s.memory, 0x47, 64);
	recv_into(s.b, 2, 0, 64);
	post(s.a, .id = 1, .opcode = SIMHCA_WR_SEND_WITH_INV, .imm = s.fast->rkey,
	     SGES(sge(s.fast, 0, 64)));
	expect(s.a->send_cq, 1, SUCCESS);
	expect(s.b->recv_cq, 2, SUCCESS);
	assert_true(all_bytes(s.b->mr->addr, 64, 0x47));
	assert_false(valid(&s, s.fast->rkey));
}

/*
 * The message arrives and is acknowledged; then the receiver's QP fails, by the receive, which does
 * not say that something was invalidated (IBTA vol. 1, 9.9.3, class J).
 */
static void sends_whose_key_is_wrong(void **state)
{
	static const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_UC };

	for (size_t t = 0; t < ARRAY_SIZE(types); t++) {
		struct setting s = make(*state, types[t]);
		struct simhca_cqe cqe;

		fill(s.a->mr->addr, 64, 6);
		recv_into(s.b, 5, 8192, 64);
		forget_events(s.b->client);
		forget_log(*state);
		send_with_inv(s.a, 4, 64, s.fast->rkey ^ 1);
		for (int i = 0; i < 50 && t == 0; i++)
			advance(*state, SEC);
		/* Nobody answers; who does not wait for an answer has sent it. */
		if (t == 0)
			expect_(s.a->send_cq, 4, IBV_WC_RETRY_EXC_ERR,
				((struct world *)*state)->tick ? SIMHCA_REASON_NO_RESPONSE
							       : SIMHCA_REASON_KEY_STALE,
				__FILE__, __LINE__);
		else
			expect(s.a->send_cq, 4, SUCCESS);
		cqe = expect_why(s.b->recv_cq, 5, LOC_ACCESS_ERR, KEY_STALE);
		assert_int_equal(cqe.flags & SIMHCA_CQE_INV, 0);
		assert_int_equal(cqe.byte_len, 0);
		assert_true(filled(s.b->mr->addr + 8192, 64, 6));
		assert_int_equal(logged(*state, "cannot invalidate key"), 1);
		assert_int_equal(events_of(s.b->client, s.b->qp, IBV_EVENT_QP_ACCESS_ERR), 0);
		assert_int_equal(qp_state(s.a->qp), t == 0 ? IBV_QPS_ERR : IBV_QPS_RTS);
		assert_int_equal(qp_state(s.b->qp), IBV_QPS_ERR);
		assert_true(valid(&s, s.fast->rkey));
	}
}

/* A message that finds no receive request invalidates nothing until it finds one. */
static void a_receiver_that_is_not_ready(void **state)
{
	struct setting s = make(*state, IBV_QPT_RC);

	send_with_inv(s.a, 4, 64, s.fast->rkey);
	run_until_idle(*state);
	expect_none(s.a->send_cq);
	assert_true(valid(&s, s.fast->rkey));
	recv_into(s.b, 5, 0, 64);
	advance(*state, 700 * MSEC);
	expect(s.a->send_cq, 4, SUCCESS);
	expect(s.b->recv_cq, 5, SUCCESS);
	assert_false(valid(&s, s.fast->rkey));
}

/* ----------------------------------------------------------------------- READ_WITH_INV */

static void read_with_inv(struct setting *s, uint64_t id, uint32_t length, uint32_t key)
{
	post(s->b, .id = id, .opcode = SIMHCA_WR_RDMA_READ_WITH_INV, .imm = key,
	     SGES(sge(s->fast, 0, length)), .remote_addr = s->a->mr->iova, .rkey = s->a->mr->rkey);
}

static void reads_that_invalidate(void **state)
{
	struct setting s = make(*state, IBV_QPT_RC);

	for (uint32_t i = 0; i < 10; i++) {
		fill(s.a->mr->addr, PAGE, i);
		read_with_inv(&s, 1, PAGE, s.fast->lkey);
		/* In the same queue: over the same memory, with another key. */
		qp_fast_reg(s.b->qp, 2, s.fast, s.pages, 1, IOVA, PAGE, ALL_ACCESS);
		assert_int_equal(expect(s.b->send_cq, 1, SUCCESS).opcode, SIMHCA_WC_RDMA_READ);
		expect(s.b->send_cq, 2, SUCCESS);
		assert_true(filled(s.memory, PAGE, i));
	}
}

/* It is known beforehand that it would fail: nothing is read. */
static void reads_whose_key_is_wrong(void **state)
{
	struct setting s = make(*state, IBV_QPT_RC);
	struct {
		uint32_t key;
		enum simhca_reason reason;
	} bad[] = {
		{ s.fast->lkey ^ 1, SIMHCA_REASON_KEY_STALE },
		{ s.b->mr->lkey, SIMHCA_REASON_INV_NOT_ALLOWED },
		{ 0, SIMHCA_REASON_KEY_UNKNOWN },
	};

	fill(s.a->mr->addr, PAGE, 1);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		read_with_inv(&s, i, PAGE, bad[i].key);
		expect_(s.b->send_cq, i, IBV_WC_MW_BIND_ERR, bad[i].reason, __FILE__, __LINE__);
		assert_true(all_bytes(s.memory, PAGE, 0));
		assert_true(valid(&s, s.fast->lkey));
		pair_reconnect(s.pair);
	}
}

static void a_read_that_fails_invalidates_nothing(void **state)
{
	struct setting s = make(*state, IBV_QPT_RC);

	post(s.b, .id = 1, .opcode = SIMHCA_WR_RDMA_READ_WITH_INV, .imm = s.fast->lkey,
	     SGES(sge(s.fast, 0, 64)), .remote_addr = s.a->mr->iova - 1, .rkey = s.a->mr->rkey);
	expect_why(s.b->send_cq, 1, REM_ACCESS_ERR, KEY_BELOW_START);
	assert_true(valid(&s, s.fast->lkey));
}

static void reads_that_invalidate_are_for_rc(void **state)
{
	struct setting s = make(*state, IBV_QPT_UC);

	read_with_inv(&s, 1, 64, s.fast->lkey);
	expect_why(s.b->send_cq, 1, LOC_QP_OP_ERR, WQE_BAD_OPCODE);
}

/* --------------------------------------------------------------------------- finality */

/* An access by the key, as an engine has it under way. */
static struct simhca_worker *begin_access(struct setting *s, uint32_t key, uint64_t va)
{
	struct simhca_worker *engine = world_alloc(s->a->world, sizeof(*engine));
	struct simhca_key_use use = {
		.worker = engine,
		.device = s->b->world->device[s->b->client->device_index],
		.pd = mpt_of(s->b->client, key)->pd,
		.qpn = s->b->qp->qpn,
		.access = SIMHCA_ACCESS_REMOTE_WRITE,
		.remote = true,
	};
	struct simhca_sgl sgl;

	sgl.count = 0;
	assert_int_equal(SIMHCA_REASON_NONE, simhca_translate(&use, key, va, 8, &sgl));
	return engine;
}

static void local_invalidation_waits_for_accesses(void **state)
{
	struct setting s = make(*state, IBV_QPT_RC);

	for (int window = 0; window < 2; window++) {
		uint32_t key = window ? s.mw->rkey : s.fast->rkey;
		struct simhca_worker *engine = begin_access(&s, key, window ? s.b->mr->iova : IOVA);

		qp_local_inv(s.b->qp, 1, key);
		send_from(s.b, 2, 0, 64); /* and what comes after it in the queue */
		recv_into(s.a, 3, 0, 64);
		advance(*state, 20 * MSEC);
		advance(*state, 2 * SEC);
		assert_false(valid(&s, key)); /* nothing starts any more */
		expect_none(s.b->send_cq);
		expect_none(s.a->recv_cq);
		simhca_key_release(engine, 0);
		advance(*state, 10 * MSEC);
		expect(s.b->send_cq, 1, SUCCESS);
		expect(s.b->send_cq, 2, SUCCESS);
		expect(s.a->recv_cq, 3, SUCCESS);
	}
}

static void reads_wait_for_accesses(void **state)
{
	struct setting s = make(*state, IBV_QPT_RC);
	struct simhca_worker *engine = begin_access(&s, s.fast->rkey, IOVA);

	fill(s.a->mr->addr, PAGE, 5);
	read_with_inv(&s, 1, PAGE, s.fast->lkey);
	advance(*state, MSEC);
	expect_none(s.b->send_cq);
	assert_false(valid(&s, s.fast->lkey));
	simhca_key_release(engine, 0);
	advance(*state, MSEC);
	expect(s.b->send_cq, 1, SUCCESS);
	assert_true(filled(s.memory, PAGE, 5));
}

static void sends_wait_for_accesses(void **state)
{
	struct setting s = make(*state, IBV_QPT_RC);
	struct simhca_worker *engine = begin_access(&s, s.mw->rkey, s.b->mr->iova);

	recv_into(s.b, 2, 8192, 64);
	send_with_inv(s.a, 1, 64, s.mw->rkey);
	for (int i = 0; i < 5; i++)
		advance(*state, 50 * USEC);
	expect_none(s.a->send_cq);
	expect_none(s.b->recv_cq);
	assert_false(valid(&s, s.mw->rkey));
	simhca_key_release(engine, 0);
	advance(*state, MSEC);
	expect(s.a->send_cq, 1, SUCCESS);
	assert_int_equal(expect(s.b->recv_cq, 2, SUCCESS).imm_or_rkey, s.mw->rkey);
	/* The next message is a message of its own. */
	check_works(s.pair);
	recv_into(s.b, 2, 8192, 64);
	send_with_inv(s.a, 1, 64, s.fast->rkey);
	expect(s.a->send_cq, 1, SUCCESS);
	assert_int_equal(expect(s.b->recv_cq, 2, SUCCESS).imm_or_rkey, s.fast->rkey);
}

/* However long it takes, the sender sees what it sees of a peer that does not answer. */
static void sends_do_not_wait_for_ever(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct simhca_worker *engine;
	struct setting s;

	options.mr_access |= SIMHCA_ACCESS_MW_BIND;
	options.retry_cnt = 1;
	s = make_on(*state, &options);
	engine = begin_access(&s, s.mw->rkey, s.b->mr->iova);
	recv_into(s.b, 2, 8192, 64);
	send_with_inv(s.a, 1, 64, s.mw->rkey);
	for (int i = 0; i < 3000; i++)
		advance(*state, MSEC);
	expect_why(s.a->send_cq, 1, RETRY_EXC_ERR, NO_RESPONSE);
	expect_none(s.b->recv_cq);
	simhca_key_release(engine, 0);
}

/* On UC such a message is lost, and does not make the next one be taken for it. */
static void unreliable_sends_are_lost(void **state)
{
	struct setting s = make(*state, IBV_QPT_UC);
	struct simhca_worker *engine = begin_access(&s, s.mw->rkey, s.b->mr->iova);

	recv_into(s.b, 2, 8192, 64);
	send_with_inv(s.a, 1, 64, s.mw->rkey);
	for (int i = 0; i < 1000; i++)
		advance(*state, 50 * USEC);
	expect(s.a->send_cq, 1, SUCCESS);
	expect_none(s.b->recv_cq);
	simhca_key_release(engine, 0);
	memset(s.a->mr->addr, 0x31, 64);
	send_with_inv(s.a, 3, 64, s.fast->rkey);
	expect(s.a->send_cq, 3, SUCCESS);
	assert_int_equal(expect(s.b->recv_cq, 2, SUCCESS).imm_or_rkey, s.fast->rkey);
	assert_true(all_bytes(s.b->mr->addr + 8192, 64, 0x31));
}

/* An invalidation that waits ends with its QP; the key stays void, and the window free. */
static void an_invalidation_that_is_flushed(void **state)
{
	struct setting s = make(*state, IBV_QPT_RC);
	struct simhca_worker *engine = begin_access(&s, s.mw->rkey, s.b->mr->iova);

	qp_local_inv(s.b->qp, 1, s.mw->rkey);
	run_until_idle(*state);
	assert_int_equal(0, qp_move(s.b->qp, IBV_QPS_ERR));
	expect_why(s.b->send_cq, 1, WR_FLUSH_ERR, FLUSHED);
	pair_reconnect(s.pair);
	simhca_key_release(engine, 0);
	qp_local_inv(s.b->qp, 2, s.fast->lkey);
	expect(s.b->send_cq, 2, SUCCESS);
	validate(&s);
}

/* --------------------------------------------------------------- engine threads, real time */

/*
 * A peer writes by a key while its owner takes the key back. Once that has completed the memory
 * must not change: the owner marks it and looks again. The peer's next write is refused, which
 * brings down the QP that refuses it: so the owner uses another one, unless only that one may.
 */
struct writer {
	struct side *side;
	_Atomic uint32_t *rkey;
	uint64_t addr;
	atomic_bool *stop;
	unsigned int writes, refused;
	pthread_t thread;
};

static void *writer_thread(void *arg)
{
	struct writer *writer = arg;
	struct side *side = writer->side;

	memset(side->mr->addr, 0xee, PAGE);
	while (!atomic_load(writer->stop)) {
		struct simhca_cqe cqe;

		post(side, .id = 1, .opcode = SIMHCA_WR_RDMA_WRITE, SGES(sge(side->mr, 0, PAGE)),
		     .remote_addr = writer->addr, .rkey = atomic_load(writer->rkey));
		if (!cq_wait(side->send_cq, &cqe))
			break;
		if (cqe.status == IBV_WC_SUCCESS) {
			writer->writes++;
		} else {
			writer->refused++;
			break;
		}
	}
	return NULL;
}

enum kind { REGION, WINDOW_1, WINDOW_2 };

static void final_under_load(void **state, enum kind kind)
{
	struct options options = default_options(IBV_QPT_RC);
	unsigned int writes = 0, refused = 0, completed = 0;

	need_wake_ups();
	options.mr_access |= SIMHCA_ACCESS_MW_BIND;
	for (uint32_t round = 0; round < 60; round++) {
		struct setting s = make_on(*state, &options);
		uint8_t *memory = kind == REGION ? s.memory : s.b->mr->addr;
		struct mw *one = mw_new(s.b->client, s.b->client->pd, 1);
		struct side *taker = s.b;
		atomic_bool stop = false;
		_Atomic uint32_t rkey = s.mw->rkey;
		struct writer writer = { .side = s.a,
					 .rkey = &rkey,
					 .addr = kind == REGION ? IOVA : s.b->mr->iova,
					 .stop = &stop };
		struct simhca_cqe cqe;
		bool got, same;

		if (kind != WINDOW_2) {
			taker = side_new(s.b->client, &options);
			qp_connect(taker->qp, 0, s.a->qp->qpn, &options);
		}
		if (kind == WINDOW_1) {
			qp_bind(taker->qp, 1, one, s.b->mr, 0, PAGE, REMOTE);
			expect(taker->send_cq, 1, SUCCESS);
			atomic_store(&rkey, one->rkey);
		} else if (kind == REGION) {
			atomic_store(&rkey, s.fast->rkey);
		}
		assert_int_equal(0, pthread_create(&writer.thread, NULL, writer_thread, &writer));
		test_nap(round * 37 % 500);
		if (kind == WINDOW_1)
			qp_bind(taker->qp, 1, one, NULL, 0, 0, 0);
		else
			qp_local_inv(taker->qp, 1, rkey);
		got = cq_wait(taker->send_cq, &cqe);
		memset(memory, 0x11, PAGE);
		test_nap(200);
		same = all_bytes(memory, PAGE, 0x11);
		atomic_store(&stop, true);
		pthread_join(writer.thread, NULL);

		assert_true(got);
		if (cqe.status == IBV_WC_SUCCESS) {
			assert_true(same);
			completed++;
		} else {
			assert_int_equal(kind, WINDOW_2);
			assert_int_equal(cqe.status, IBV_WC_WR_FLUSH_ERR);
		}
		writes += writer.writes;
		refused += writer.refused;
		client_gone(s.b->client);
		client_gone(s.a->client);
	}
	assert_true(writes > 0 && refused > 0 && completed > 0);
}

static void regions_are_final_under_load(void **state)
{
	final_under_load(state, REGION);
}

static void windows_of_type_1_are_final_under_load(void **state)
{
	final_under_load(state, WINDOW_1);
}

static void windows_of_type_2_are_final_under_load(void **state)
{
	final_under_load(state, WINDOW_2);
}

/*
 * An access has found the window valid, and waits for its lock: then it is not any more. Should the
 * engine not have come that far it finds no more than that.
 */
static void a_window_is_judged_under_its_lock(void **state)
{
	struct setting s = make(*state, IBV_QPT_RC);
	struct world *world = *state;
	struct simhca_key *window =
		simhca_key_of(world->device[s.b->client->device_index], s.mw->rkey);

	pthread_mutex_lock(&window->lock);
	post(s.a, .id = 1, .opcode = SIMHCA_WR_RDMA_WRITE, SGES(sge(s.a->mr, 0, 8)),
	     .remote_addr = s.b->mr->iova, .rkey = s.mw->rkey);
	test_nap(20000);
	simhca_mw_unbind(window);
	pthread_mutex_unlock(&window->lock);
	expect_why(s.a->send_cq, 1, REM_ACCESS_ERR, MW_NOT_BOUND);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_ETHERNET(local_invalidation),
		ON_ETHERNET(local_invalidations_that_are_refused),
		ON_ETHERNET(sends_that_invalidate),
		ON_ETHERNET(the_buffer_of_the_message_itself),
		ON_ETHERNET(the_source_of_the_message_itself),
		ON_ETHERNET(sends_whose_key_is_wrong),
		ON_INFINIBAND(sends_whose_key_is_wrong),
		ON_ETHERNET(a_receiver_that_is_not_ready),
		ON_ETHERNET(reads_that_invalidate),
		ON_ETHERNET(reads_whose_key_is_wrong),
		ON_ETHERNET(a_read_that_fails_invalidates_nothing),
		ON_ETHERNET(reads_that_invalidate_are_for_rc),
		ON_ETHERNET(local_invalidation_waits_for_accesses),
		ON_ETHERNET(reads_wait_for_accesses),
		ON_ETHERNET(sends_wait_for_accesses),
		ON_ETHERNET(sends_do_not_wait_for_ever),
		ON_ETHERNET(unreliable_sends_are_lost),
		ON_ETHERNET(an_invalidation_that_is_flushed),
		ON_ONE_THREAD(a_window_is_judged_under_its_lock),
		ON_TWO_THREADS(regions_are_final_under_load),
		ON_TWO_THREADS(windows_of_type_1_are_final_under_load),
		ON_TWO_THREADS(windows_of_type_2_are_final_under_load),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
