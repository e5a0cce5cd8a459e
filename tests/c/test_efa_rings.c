/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What a program writes to the rings and doorbells of an EFA device: whatever it is, it costs nobody else
 * a message, a byte or the engine.
 */
#include <sys/eventfd.h>
#include <sys/mman.h>

#include "core/handles.h"
#include "efa/objects.h"
#include "harness.h"

#define ENTRIES 8u
#define CQ_ENTRIES 64u
#define BYTES 512u /* of a message; a buffer has twice as many */
#define LIES 20000
#define HONEST 'h'
#define LIAR 'l'
#define WATCHED 1000u

/* A program with QPs that all complete in one CQ, and send to one another. */
struct end {
	struct client *client;
	struct efa_cq *cq;
	struct efa_qp *qp[64];
	struct mr *mr;
	unsigned int qps;
	uint32_t pd, cq_handle, ci;
	uint16_t ah;
};

static struct efa_qp *add_qp(struct end *end, unsigned int number, bool srd)
{
	const struct simhca_efa_qp_request request = {
		.pd = end->pd,
		.send_cq = end->cq_handle,
		.recv_cq = end->cq_handle,
		.sq_bytes = ENTRIES * sizeof(struct efa_send_wqe),
		.rq_bytes = ENTRIES * sizeof(struct efa_recv_desc),
		.srd = srd,
		.caps = { ENTRIES, ENTRIES, 2, 2, 32 },
	};
	struct simhca_efa_qp_reply reply;
	struct simhca_why why;

	assert_int_equal(0, simhca_efa_create_qp(end->client->context, &request, &reply, &why));
	end->qp[number] =
		simhca_object(end->client->context, SIMHCA_OBJ_EFA_QP, reply.handle, NULL);
	assert_non_null(end->qp[number]);
	return end->qp[number];
}

static int to_state(struct efa_qp *qp, uint32_t state)
{
	const struct simhca_efa_qp_attr attr = { .state = state, .port = 1, .rnr_retry = 7 };
	uint32_t mask = SIMHCA_QP_STATE;
	struct simhca_why why;

	if (state == SIMHCA_QPS_INIT)
		mask |= SIMHCA_QP_PKEY_INDEX | SIMHCA_QP_PORT | SIMHCA_QP_QKEY;
	if (state == SIMHCA_QPS_RTS)
		mask |= SIMHCA_QP_SQ_PSN;
	return patiently(simhca_efa_modify_qp(qp->context, qp->handle, mask, &attr, &why));
}

static void start(struct efa_qp *qp)
{
	static const uint32_t up[] = { SIMHCA_QPS_RESET, SIMHCA_QPS_INIT, SIMHCA_QPS_RTR,
				       SIMHCA_QPS_RTS };

	for (unsigned int i = 0; i < ARRAY_SIZE(up); i++)
		assert_int_equal(0, to_state(qp, up[i]));
}

static struct end *end_of(struct world *world, unsigned int qps, uint32_t cq_entries)
{
	const struct simhca_efa_cq_request request = { .entries = cq_entries, .entry_size = 16 };
	struct end *end = world_alloc(world, sizeof(*end));
	struct simhca_efa_cq_reply reply;
	union simhca_gid gid;
	struct simhca_why why;
	uint32_t ah;

	end->client = client_new(world, 0);
	end->pd = end->client->pd;
	assert_int_equal(0, simhca_efa_open(end->client->context, &why));
	assert_int_equal(0, simhca_efa_create_cq(end->client->context, &request, &reply, &why));
	end->cq_handle = reply.handle;
	end->cq = simhca_object(end->client->context, SIMHCA_OBJ_EFA_CQ, reply.handle, NULL);
	end->mr = mr_new(end->client, 2 * BYTES, ALL_ACCESS);
	gid = simhca_gids_get(&world->device[0]->gids, 0);
	assert_int_equal(0, simhca_efa_create_ah(end->client->context, end->pd, &gid, &ah, &end->ah,
						 &why));
	end->qps = qps;
	for (unsigned int i = 0; i < qps; i++)
		start(add_qp(end, i, i % 4 != 3));
	return end;
}

static struct end *end_new(struct world *world, unsigned int qps)
{
	return end_of(world, qps, CQ_ENTRIES);
}

/* The rings and doorbells are const where the device only reads them. */
static struct efa_send_wqe *send_slot(const struct efa_qp *qp, uint32_t index)
{
	return (struct efa_send_wqe *)&qp->sq[index % ENTRIES];
}

static struct efa_recv_desc *recv_slot(const struct efa_qp *qp, uint32_t index)
{
	return (struct efa_recv_desc *)&qp->rq[index % ENTRIES];
}

static void efa_post_send(struct end *end, struct efa_qp *qp, const struct efa_qp *to, uint16_t id)
{
	struct efa_send_wqe *wqe = send_slot(qp, atomic_load(qp->sq_doorbell));

	*wqe = (struct efa_send_wqe){ .req_id = id,
				      .control = EFA_WQE_FIRST | EFA_WQE_LAST | EFA_SEND,
				      .dest_qpn = (uint16_t)to->qpn,
				      .length = 1,
				      .ah = end->ah };
	wqe->buffer[0] = (struct efa_buffer){ .length = BYTES,
					      .key = end->mr->lkey,
					      .addr_low = (uint32_t)end->mr->iova,
					      .addr_high = (uint32_t)(end->mr->iova >> 32) };
	atomic_fetch_add(qp->sq_doorbell, 1);
}

static void efa_post_recv(struct end *end, struct efa_qp *qp, uint16_t id)
{
	uint64_t addr = end->mr->iova + BYTES;

	*recv_slot(qp, atomic_load(qp->rq_doorbell)) =
		(struct efa_recv_desc){ .addr_low = (uint32_t)addr,
					.addr_high = (uint32_t)(addr >> 32),
					.req_id = id,
					.length = BYTES,
					.key_flags =
						EFA_RECV_FIRST | EFA_RECV_LAST | end->mr->lkey };
	atomic_fetch_add(qp->rq_doorbell, 1);
}

static bool efa_poll(struct end *end, struct efa_cqe *cqe)
{
	const uint8_t *slot = (const uint8_t *)end->cq->memory.base +
			      (size_t)(end->ci % CQ_ENTRIES) * end->cq->entry_size;
	bool found;

	pthread_mutex_lock(&end->cq->lock);
	found = end->ci != end->cq->pi;
	if (found)
		memcpy(cqe, slot, EFA_CQE_SHORT);
	pthread_mutex_unlock(&end->cq->lock);
	end->ci += found;
	return found;
}

/* Its own clock is as far as the engine wants to sleep. */
static void let_work(struct world *world, struct end *end)
{
	simhca_engine_schedule(end->client->context->engine, &end->client->context->efa->task);
	if (world->threaded) {
		sched_yield();
		return;
	}
	for (int i = 0; i < 4; i++) {
		atomic_fetch_add(&world->now, MSEC);
		world_poll(world);
	}
}

static int setup(void **state)
{
	*state = world_new(&(struct world_config){ .device = { .efa = true } });
	return 0;
}

static int setup_threads(void **state)
{
	*state = world_new(&(struct world_config){ .threads = 2, .device = { .efa = true } });
	return 0;
}

/* --------------------------------------------------------------------------- lies in rings */

static void lie_at(void *where, size_t size, uint64_t *seed)
{
	static const uint64_t some[] = { 0,	 1,	 2,	     3,		 0xffff, 0x8000,
					 0x7fff, 0xfff0, UINT32_MAX, UINT64_MAX, ENTRIES };
	const size_t width = (size_t)1 << test_random(seed) % 4, at = test_random(seed) % size;
	uint64_t value = test_random(seed) % 3 ? some[test_random(seed) % ARRAY_SIZE(some)]
					       : test_random(seed);

	memcpy((char *)where + at / width * width, &value, width);
}

/* Posts what makes sense, and then lies about some of it. */
static void lie(struct end *liar, const struct end *honest, uint64_t *seed)
{
	struct efa_qp *qp = liar->qp[test_random(seed) % 4];
	const struct efa_qp *to =
		test_random(seed) % 4 ? liar->qp[test_random(seed) % 4] : honest->qp[0];

	efa_post_recv(liar, qp, (uint16_t)test_random(seed));
	efa_post_send(liar, qp, to, (uint16_t)test_random(seed));
	for (uint32_t n = test_random(seed) % 4; n; n--)
		switch (test_random(seed) % 5) {
		case 0:
			lie_at(qp->sq_doorbell, 4, seed);
			break;
		case 1:
			lie_at(qp->rq_doorbell, 4, seed);
			break;
		case 2:
			lie_at(recv_slot(qp, test_random(seed)), sizeof(struct efa_recv_desc),
			       seed);
			break;
		case 3:
			lie_at(liar->cq->memory.base, CQ_ENTRIES * 16, seed);
			break;
		default:
			lie_at(send_slot(qp, test_random(seed)), sizeof(struct efa_send_wqe), seed);
		}
}

/* Between its last two: who knows the number of a QP may send there, and take its receives. */
static void honest_message(struct world *world, struct end *honest, uint16_t number)
{
	struct efa_qp *from = honest->qp[honest->qps - 2], *to = honest->qp[honest->qps - 1];
	unsigned int seen = 0;
	struct efa_cqe cqe;

	memset(honest->mr->addr, HONEST, BYTES);
	memset(honest->mr->addr + BYTES, 0, BYTES);
	efa_post_recv(honest, to, number);
	efa_post_send(honest, from, to, number);
	for (int i = 0; i < (world->threaded ? 1000000 : 100) && seen < 2; i++) {
		let_work(world, honest);
		while (efa_poll(honest, &cqe)) {
			assert_int_equal(cqe.req_id, number);
			assert_int_equal(cqe.status, EFA_STATUS_OK);
			assert_int_equal(cqe.qpn, (cqe.flags & EFA_CQE_RECV ? to : from)->qpn);
			seen++;
		}
	}
	assert_int_equal(seen, 2);
	for (unsigned int i = 0; i < BYTES; i++)
		assert_int_equal(honest->mr->addr[BYTES + i], HONEST);
}

static void lies_are_the_liars_loss(void **state)
{
	struct world *world = *state;
	struct end *liar = end_new(world, 4), *honest = end_new(world, 2);
	uint64_t seed = 1;

	for (int i = 0; i < LIES / (UNDER_TSAN ? 20 : UNDER_ASAN ? 2 : 1); i++) {
		lie(liar, honest, &seed);
		let_work(world, liar);
		honest_message(world, honest, (uint16_t)i);
		assert_null(memchr(liar->mr->addr, HONEST, 2 * BYTES));
		for (int n = 0; n < 4; n++)
			if (i % 8 == 7 || atomic_load(&liar->qp[n]->state) == SIMHCA_QPS_ERR)
				start(liar->qp[n]);
	}
}

/* ------------------------------------------------------------------- all pairs of fields */

/* A number that the program writes, in the newest entry of a ring, or a doorbell. */
static const struct field {
	enum { SQ, RQ, SQ_DOORBELL, RQ_DOORBELL } where;
	size_t at, bytes;
} fields[] = {
#define FIELD(ring, type, name)                                                                    \
	{                                                                                          \
		ring, offsetof(type, name), sizeof(((type *)0)->name)                              \
	}
	FIELD(SQ, struct efa_send_wqe, req_id),
	FIELD(SQ, struct efa_send_wqe, control),
	FIELD(SQ, struct efa_send_wqe, dest_qpn),
	FIELD(SQ, struct efa_send_wqe, length),
	FIELD(SQ, struct efa_send_wqe, imm),
	FIELD(SQ, struct efa_send_wqe, ah),
	FIELD(SQ, struct efa_send_wqe, qkey),
	FIELD(SQ, struct efa_send_wqe, buffer[0].length),
	FIELD(SQ, struct efa_send_wqe, buffer[0].key),
	FIELD(SQ, struct efa_send_wqe, buffer[0].addr_low),
	FIELD(SQ, struct efa_send_wqe, buffer[0].addr_high),
	FIELD(SQ, struct efa_send_wqe, buffer[1].length),
	FIELD(SQ, struct efa_send_wqe, buffer[1].key),
	FIELD(SQ, struct efa_send_wqe, buffer[1].addr_low),
	FIELD(SQ, struct efa_send_wqe, buffer[1].addr_high),
	FIELD(RQ, struct efa_recv_desc, addr_low),
	FIELD(RQ, struct efa_recv_desc, addr_high),
	FIELD(RQ, struct efa_recv_desc, req_id),
	FIELD(RQ, struct efa_recv_desc, length),
	FIELD(RQ, struct efa_recv_desc, key_flags),
	{ SQ_DOORBELL, 0, 4 },
	{ RQ_DOORBELL, 0, 4 },
#undef FIELD
};

/* What it is otherwise, boundaries beside that, those of sizes and of 16 and 32 bits, and flags. */
static const struct {
	bool is_change; /* of what it is */
	uint64_t value;
} values[] = { { true, 1 },
	       { true, UINT64_MAX },
	       { true, ENTRIES },
	       { true, 0x7fff },
	       { true, 0x8000 },
	       { false, 0 },
	       { false, 1 },
	       { false, 2 },
	       { false, 3 },
	       { false, ENTRIES },
	       { false, BYTES },
	       { false, BYTES + 1 },
	       { false, 8928 },
	       { false, 8929 },
	       { false, 0x7fff },
	       { false, 0xffff },
	       { false, 1 << 30 },
	       { false, INT32_MAX },
	       { false, 1u << 31 },
	       { false, UINT32_MAX },
	       { false, EFA_WQE_FIRST | EFA_WQE_LAST | EFA_RDMA_WRITE },
	       { false, EFA_WQE_FIRST | EFA_WQE_LAST | EFA_RDMA_READ },
	       { false, EFA_WQE_FIRST | EFA_WQE_LAST | EFA_WQE_INLINE } };

static void lie_in(const struct efa_qp *qp, const struct field *field, unsigned int value)
{
	uint32_t sq = atomic_load(qp->sq_doorbell) - 1, rq = atomic_load(qp->rq_doorbell) - 1;
	char *const where[] = { (char *)send_slot(qp, sq), (char *)recv_slot(qp, rq),
				(char *)qp->sq_doorbell, (char *)qp->rq_doorbell };
	void *at = where[field->where] + field->at;
	uint64_t change = values[value].value;

	/* At once, as the engine reads it at the same time. */
	if (field->bytes == 2 && values[value].is_change)
		__atomic_fetch_add((uint16_t *)at, (uint16_t)change, __ATOMIC_RELAXED);
	else if (field->bytes == 2)
		__atomic_store_n((uint16_t *)at, (uint16_t)change, __ATOMIC_RELAXED);
	else if (values[value].is_change)
		__atomic_fetch_add((uint32_t *)at, (uint32_t)change, __ATOMIC_RELAXED);
	else
		__atomic_store_n((uint32_t *)at, (uint32_t)change, __ATOMIC_RELAXED);
}

static void revive(struct end *liar)
{
	for (int n = 0; n < 4; n++)
		if (atomic_load(&liar->qp[n]->state) == SIMHCA_QPS_ERR)
			start(liar->qp[n]);
}

/* All fields, two at a time, with all values of both; of one number of the pairs each. */
static void all_pairs_of_lies(void **state)
{
	const unsigned int every = UNDER_TSAN ? 101 : UNDER_ASAN ? 5 : 1;
	struct world *world = *state;
	struct end *liar = end_new(world, 4), *honest = end_new(world, 47);
	unsigned int n = 0;

	for (unsigned int a = 0; a < ARRAY_SIZE(fields); a++)
		for (unsigned int b = a + 1; b < ARRAY_SIZE(fields); b++)
			for (unsigned int v = 0; v < ARRAY_SIZE(values) * ARRAY_SIZE(values); v++) {
				struct efa_qp *qp = liar->qp[n++ % 4];

				if (n % every)
					continue;
				efa_post_recv(liar, qp, (uint16_t)n);
				efa_post_send(liar, qp, n % 3 ? qp : honest->qp[0], (uint16_t)n);
				lie_in(qp, &fields[a], v % ARRAY_SIZE(values));
				lie_in(qp, &fields[b], v / ARRAY_SIZE(values));
				let_work(world, liar);
				revive(liar);
				if (n % 64 == 0)
					start(qp);
				if (n % (16 * every) == 0)
					honest_message(world, honest, (uint16_t)n);
			}
	assert_null(memchr(liar->mr->addr, HONEST, 2 * BYTES));
}

static struct {
	struct end *liar;
	const struct end *honest;
	atomic_bool stop;
	_Atomic uint32_t lies;
} liar_thread;

static void *lie_on(void *arg)
{
	uint64_t seed = 1;

	for (uint32_t n = 0; !atomic_load(&liar_thread.stop); n++) {
		struct efa_qp *qp = liar_thread.liar->qp[n % 4];

		for (uint32_t lies = 1 + test_random(&seed) % 3; lies; lies--) {
			const struct field *field =
				&fields[test_random(&seed) % ARRAY_SIZE(fields)];
			const unsigned int value = test_random(&seed) % ARRAY_SIZE(values);

			/* Step by step it would come to the number of any QP. */
			if (field->where != SQ ||
			    field->at != offsetof(struct efa_send_wqe, dest_qpn) ||
			    !values[value].is_change)
				lie_in(qp, field, value);
		}
		simhca_engine_schedule(qp->context->engine, &qp->context->efa->task);
		atomic_fetch_add(&liar_thread.lies, 1);
		if (n % 16 == 0)
			sched_yield();
	}
	return arg;
}

/* Another thread goes on lying while engines work, and messages of others come. */
static void lies_while_engines_run(void **state)
{
	struct world *world = *state;
	struct end *liar = end_new(world, 4), *honest = end_new(world, 47);
	struct timespec now;
	pthread_t thread;
	time_t until;

	for (int n = 0; n < 4; n++)
		for (uint16_t i = 0; i < ENTRIES; i++) {
			efa_post_recv(liar, liar->qp[n], i);
			efa_post_send(liar, liar->qp[n], n % 2 ? liar->qp[n] : honest->qp[0], i);
		}
	liar_thread.liar = liar;
	liar_thread.honest = honest;
	atomic_store(&liar_thread.stop, false);
	assert_int_equal(0, pthread_create(&thread, NULL, lie_on, NULL));
	clock_gettime(CLOCK_MONOTONIC, &now);
	until = now.tv_sec + 3;
	for (uint16_t n = 0; now.tv_sec < until; n++) {
		honest_message(world, honest, n);
		revive(liar);
		clock_gettime(CLOCK_MONOTONIC, &now);
	}
	atomic_store(&liar_thread.stop, true);
	assert_int_equal(0, pthread_join(thread, NULL));
	for (int n = 0; n < 4; n++)
		start(liar->qp[n]);
	assert_true(atomic_load(&liar_thread.lies) > 100);
	assert_null(memchr(liar->mr->addr, HONEST, 2 * BYTES));
}

/* ------------------------------------------------------------------- how long it may take */

/*
 * A program that posts on while it is flushed: its doorbell is where the CQE of each receive is written,
 * whose number says that there is one more.
 */
static void who_posts_on_is_flushed_once(void **state)
{
	struct end *end = end_of(*state, 1, 1);
	struct efa_qp *qp = end->qp[0];
	uint32_t before;

	for (uint16_t i = 0; i < ENTRIES; i++)
		efa_post_recv(end, qp, (uint16_t)(i + 1 + ENTRIES));
	qp->rq_doorbell = (void *)end->cq->memory.base;
	atomic_store(qp->rq_doorbell, ENTRIES);
	before = end->cq->pi;
	assert_int_equal(0, to_state(qp, SIMHCA_QPS_ERR));
	assert_int_equal(end->cq->pi - before, ENTRIES);
}

/* Many QPs with much to do leave the engine after as much as one. */
static void a_turn_ends(void **state)
{
	struct end *end = end_new(*state, 64);
	struct simhca_efa *efa = end->client->context->efa;
	struct simhca_worker *worker = &end->client->context->engine->by_hand;
	uint32_t before, sent = 0;

	for (unsigned int i = 0; i < 64; i++)
		for (uint16_t n = 0; n < ENTRIES; n++) {
			efa_post_recv(end, end->qp[i], n);
			efa_post_send(end, end->qp[i], end->qp[i], n);
		}
	while (sent < 2 * 64 * ENTRIES) {
		before = end->cq->pi;
		simhca_guard_enter(&worker->guard);
		efa_work(worker, &efa->task);
		simhca_guard_leave(&worker->guard);
		assert_in_range(end->cq->pi - before, 1, 2 * 64);
		sent += end->cq->pi - before;
	}
}

/* Pages with doorbells are armed by system calls: some in each turn, however many a program has told of. */
static void arming_has_turns(void **state)
{
	const struct simhca_efa_cq_request request = { .entries = 1,
						       .entry_size = 16,
						       .channel = 1 };
	struct end *end = end_new(*state, 1);
	struct simhca_context *context = end->client->context;
	struct simhca_efa *efa = context->efa;
	struct simhca_worker *worker = &context->engine->by_hand;
	struct simhca_efa_cq_reply reply;
	struct efa_cq *cq[WATCHED];
	uint32_t before = WATCHED, left;
	bool more = true;
	struct simhca_why why;

	/* No userfaultfd: none can be armed, which takes as many calls. */
	atomic_store(&efa->userfaultfd, eventfd(0, EFD_NONBLOCK));
	for (uint32_t i = 0; i < WATCHED; i++) {
		assert_int_equal(0, simhca_efa_create_cq(context, &request, &reply, &why));
		assert_int_equal(0, simhca_efa_watch(context, reply.doorbell_key,
						     (uint64_t)(i + 1) * EFA_PAGE, -1, &why));
		cq[i] = simhca_object(context, SIMHCA_OBJ_EFA_CQ, reply.handle, NULL);
		assert_int_equal(cq[i]->watch.state, EFA_WATCH_NEW);
	}
	for (; before; before = left) {
		simhca_guard_enter(&worker->guard);
		efa_doorbells_arm(worker, efa, &more);
		simhca_guard_leave(&worker->guard);
		left = 0;
		for (uint32_t i = 0; i < WATCHED; i++)
			left += cq[i]->watch.state == EFA_WATCH_NEW;
		assert_in_range(before - left, 1, 256);
		assert_int_equal(more, before - left == 256);
	}
}

/* What waited before a reset is no message of the next life. */
static void a_reset_forgets_who_waits(void **state)
{
	struct end *end = end_new(*state, 2);
	struct efa_cqe cqe;

	for (uint16_t n = 0; n < 5; n++)
		efa_post_send(end, end->qp[0], end->qp[1], n);
	let_work(*state, end); /* no receive is there */
	assert_int_equal(end->qp[0]->waiting, 5);
	start(end->qp[0]);
	for (uint16_t n = 0; n < ENTRIES; n++)
		efa_post_recv(end, end->qp[1], n);
	efa_post_send(end, end->qp[0], end->qp[1], 77);
	simhca_engine_schedule(end->client->context->engine, &end->client->context->efa->task);
	world_poll(*state); /* before it would have been time for those */
	for (int i = 0; i < 10; i++)
		let_work(*state, end);
	for (unsigned int seen = 0; seen < 2; seen++) {
		assert_true(efa_poll(end, &cqe));
		assert_int_equal(cqe.req_id, cqe.flags & EFA_CQE_RECV ? 0 : 77);
	}
	assert_false(efa_poll(end, &cqe));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(lies_are_the_liars_loss, setup, teardown),
		cmocka_unit_test_setup_teardown(all_pairs_of_lies, setup, teardown),
		cmocka_unit_test_setup_teardown(lies_while_engines_run, setup_threads, teardown),
		cmocka_unit_test_setup_teardown(who_posts_on_is_flushed_once, setup, teardown),
		cmocka_unit_test_setup_teardown(a_turn_ends, setup, teardown),
		cmocka_unit_test_setup_teardown(arming_has_turns, setup, teardown),
		cmocka_unit_test_setup_teardown(a_reset_forgets_who_waits, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
