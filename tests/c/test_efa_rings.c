/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What a program writes to the rings and doorbells of an EFA device: whatever it is, it costs nobody else
 * a message, a byte or the engine.
 */
#include <sys/eventfd.h>

#include "core/handles.h"
#include "efa_scene.h"
#include "simhca-info.h"

#define LIES 20000
#define HONEST 'h'
#define LIAR 'l'
#define WATCHED 1000u
#define MANY 200u

static int setup(void **state)
{
	*state = world_new(&(struct world_config){ .device = { .efa = true } });
	return 0;
}

static struct efa_end *end_of(struct world *world, unsigned int qps, uint32_t cq_entries)
{
	struct efa_end *end = efa_end_new(
		world, &(struct simhca_efa_cq_request){ .entries = cq_entries, .entry_size = 16 });

	efa_add_qps(end, qps);
	return end;
}

static struct efa_end *end_new(struct world *world, unsigned int qps)
{
	return end_of(world, qps, EFA_CQ_ENTRIES);
}

/* One turn of the engine; how many completions came of it. */
static uint32_t turn(struct efa_end *end)
{
	struct simhca_efa *efa = end->client->context->efa;
	struct simhca_worker *worker = &end->client->context->engine->by_hand;
	const uint32_t before = end->cq->pi;

	simhca_guard_enter(&worker->guard);
	efa_work(worker, &efa->task);
	simhca_guard_leave(&worker->guard);
	return end->cq->pi - before;
}

static int setup_threads(void **state)
{
	*state = world_new(&(struct world_config){ .threads = 2, .device = { .efa = true } });
	return 0;
}

/* --------------------------------------------------------------------------- lies in rings */

static void lie_at(void *where, size_t size, uint64_t *seed)
{
	static const uint64_t some[] = { 0,	 1,	 2,	     3,		 0xffff,     0x8000,
					 0x7fff, 0xfff0, UINT32_MAX, UINT64_MAX, EFA_ENTRIES };
	const size_t width = (size_t)1 << test_random(seed) % 4, at = test_random(seed) % size;
	uint64_t value = test_random(seed) % 3 ? some[test_random(seed) % ARRAY_SIZE(some)]
					       : test_random(seed);

	memcpy((char *)where + at / width * width, &value, width);
}

/* Posts what makes sense, and then lies about some of it. */
static void lie(struct efa_end *liar, const struct efa_end *honest, uint64_t *seed)
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
			lie_at(efa_recv_slot(qp, test_random(seed)), sizeof(struct efa_recv_desc),
			       seed);
			break;
		case 3:
			lie_at(liar->cq->memory.base, EFA_CQ_ENTRIES * 16, seed);
			break;
		default:
			lie_at(efa_send_slot(qp, test_random(seed)), sizeof(struct efa_send_wqe),
			       seed);
		}
}

/* Between its last two: who knows the number of a QP may send there, and take its receives. */
static void honest_message(struct world *world, struct efa_end *honest, uint16_t number)
{
	struct efa_qp *from = honest->qp[honest->qps - 2], *to = honest->qp[honest->qps - 1];
	unsigned int seen = 0;
	struct efa_cqe cqe;

	memset(honest->mr->addr, HONEST, EFA_BYTES);
	memset(honest->mr->addr + EFA_BYTES, 0, EFA_BYTES);
	efa_post_recv(honest, to, number);
	efa_post_send(honest, from, to, number);
	for (int i = 0; i < (world->threaded ? 1000000 : 100) && seen < 2; i++) {
		efa_let_work(world, honest);
		while (efa_poll(honest, &cqe)) {
			assert_int_equal(cqe.req_id, number);
			assert_int_equal(cqe.status, EFA_STATUS_OK);
			assert_int_equal(cqe.qpn, (cqe.flags & EFA_CQE_RECV ? to : from)->qpn);
			seen++;
		}
	}
	assert_int_equal(seen, 2);
	for (unsigned int i = 0; i < EFA_BYTES; i++)
		assert_int_equal(honest->mr->addr[EFA_BYTES + i], HONEST);
}

static void lies_are_the_liars_loss(void **state)
{
	struct world *world = *state;
	struct efa_end *liar = end_new(world, 4), *honest = end_new(world, 2);
	uint64_t seed = 1;

	for (int i = 0; i < LIES / (UNDER_TSAN ? 20 : UNDER_ASAN ? 2 : 1); i++) {
		lie(liar, honest, &seed);
		efa_let_work(world, liar);
		honest_message(world, honest, (uint16_t)i);
		assert_null(memchr(liar->mr->addr, HONEST, 2 * EFA_BYTES));
		for (int n = 0; n < 4; n++)
			if (i % 8 == 7 || atomic_load(&liar->qp[n]->state) == SIMHCA_QPS_ERR)
				efa_start(liar->qp[n]);
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
	       { true, EFA_ENTRIES },
	       { true, 0x7fff },
	       { true, 0x8000 },
	       { false, 0 },
	       { false, 1 },
	       { false, 2 },
	       { false, 3 },
	       { false, EFA_ENTRIES },
	       { false, EFA_BYTES },
	       { false, EFA_BYTES + 1 },
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
	char *const where[] = { (char *)efa_send_slot(qp, sq), (char *)efa_recv_slot(qp, rq),
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

static void revive(struct efa_end *liar)
{
	for (int n = 0; n < 4; n++)
		if (atomic_load(&liar->qp[n]->state) == SIMHCA_QPS_ERR)
			efa_start(liar->qp[n]);
}

/* All fields, two at a time, with all values of both; of one number of the pairs each. */
static void all_pairs_of_lies(void **state)
{
	const unsigned int every = UNDER_TSAN ? 101 : UNDER_ASAN ? 5 : 1;
	struct world *world = *state;
	struct efa_end *liar = end_new(world, 4), *honest = end_new(world, 47);
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
				efa_let_work(world, liar);
				revive(liar);
				if (n % 64 == 0)
					efa_start(qp);
				if (n % (16 * every) == 0)
					honest_message(world, honest, (uint16_t)n);
			}
	assert_null(memchr(liar->mr->addr, HONEST, 2 * EFA_BYTES));
}

static struct {
	struct efa_end *liar;
	const struct efa_end *honest;
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
	struct efa_end *liar = end_new(world, 4), *honest = end_new(world, 47);
	struct timespec now;
	pthread_t thread;
	time_t until;

	for (int n = 0; n < 4; n++)
		for (uint16_t i = 0; i < EFA_ENTRIES; i++) {
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
		efa_start(liar->qp[n]);
	assert_true(atomic_load(&liar_thread.lies) > 100);
	assert_null(memchr(liar->mr->addr, HONEST, 2 * EFA_BYTES));
}

/* ------------------------------------------------------------------- how long it may take */

/*
 * A program that posts on while it is flushed: its doorbell is where the CQE of each receive is written,
 * whose number says that there is one more.
 */
static void who_posts_on_is_flushed_once(void **state)
{
	struct efa_end *end = end_of(*state, 1, 1);
	struct efa_qp *qp = end->qp[0];
	uint32_t before;

	for (uint16_t i = 0; i < EFA_ENTRIES; i++)
		efa_post_recv(end, qp, (uint16_t)(i + 1 + EFA_ENTRIES));
	qp->rq_doorbell = (void *)end->cq->memory.base;
	atomic_store(qp->rq_doorbell, EFA_ENTRIES);
	before = end->cq->pi;
	assert_int_equal(0, efa_to_state(qp, SIMHCA_QPS_ERR, 0));
	assert_int_equal(end->cq->pi - before, EFA_ENTRIES);
}

/* Many QPs with much to do leave the engine after as much as one. */
static void a_turn_ends(void **state)
{
	struct efa_end *end = end_new(*state, 64);

	for (unsigned int i = 0; i < 64; i++)
		for (uint16_t n = 0; n < EFA_ENTRIES; n++) {
			efa_post_recv(end, end->qp[i], n);
			efa_post_send(end, end->qp[i], end->qp[i], n);
		}
	for (uint32_t sent = 0, now; sent < 2 * 64 * EFA_ENTRIES; sent += now) {
		now = turn(end);
		assert_in_range(now, 1, 2 * 64);
	}
}

/* So do those with work requests that are refused, of each of which the daemon hears. */
static void a_turn_of_refusals_ends(void **state)
{
	struct efa_end *end = end_new(*state, 64);

	for (unsigned int i = 0; i < 64; i++)
		for (uint16_t n = 0; n < EFA_ENTRIES; n++) {
			struct efa_send_wqe wqe = efa_send_of(end, end->qp[i], n);

			wqe.control = 7;
			efa_put_send(end->qp[i], &wqe);
		}
	for (uint32_t refused = 0, now; refused < 64 * EFA_ENTRIES; refused += now) {
		now = turn(end);
		assert_in_range(now, 1, 64);
	}
}

/* Rings that make no sense are flushed one in a turn, as each can have tens of thousands of entries. */
static void a_flush_is_a_turn(void **state)
{
	struct efa_end *end = end_new(*state, 64);

	for (unsigned int i = 0; i < 64; i++) {
		for (uint16_t n = 0; n < EFA_ENTRIES; n++)
			efa_post_recv(end, end->qp[i], n);
		atomic_store(end->qp[i]->sq_doorbell, 0x8000);
	}
	for (uint32_t i = 0; i < 64; i++)
		assert_int_equal(turn(end), EFA_ENTRIES);
	assert_int_equal(turn(end), 0);
}

/*
 * A flush raises one event, also of a program that arms for each completion anew: its doorbell is where
 * the CQEs are written, which say that there is one more, and that the last event has been taken.
 */
static void a_flush_raises_one_event(void **state)
{
	struct cq events = { 0 };
	const struct simhca_efa_cq_request request = {
		.entries = 1, .entry_size = 16, .channel = 1, .user_handle = (uintptr_t)&events
	};
	struct efa_end *end = efa_end_new(*state, &request);

	efa_add_qps(end, 1);
	end->cq->doorbell = (void *)end->cq->memory.base;
	for (uint16_t i = 0; i < EFA_ENTRIES; i++) {
		struct efa_send_wqe wqe = efa_send_of(end, end->qp[0], (uint16_t)(i + 100));

		wqe.control = i % 2 ? 2 : 4;
		efa_put_send(end->qp[0], &wqe);
	}
	assert_int_equal(0, efa_to_state(end->qp[0], SIMHCA_QPS_ERR, 0));
	assert_int_equal(end->cq->pi, EFA_ENTRIES);
	assert_int_equal(atomic_load(&events.events), 1);
}

/* A program with many CQs that are armed again and again: events have turns as well. */
static void events_have_turns(void **state)
{
	struct cq events = { 0 };
	const struct simhca_efa_cq_request request = {
		.entries = 1, .entry_size = 16, .channel = 1, .user_handle = (uintptr_t)&events
	};
	struct efa_end *end = end_new(*state, 1);
	struct simhca_context *context = end->client->context;
	struct simhca_efa_cq_reply reply;
	struct simhca_why why;

	for (uint32_t i = 0; i < MANY; i++) {
		struct efa_cq *cq;

		assert_int_equal(0, simhca_efa_create_cq(context, &request, &reply, &why));
		cq = simhca_object(context, SIMHCA_OBJ_EFA_CQ, reply.handle, NULL);
		cq->pi = 1;
		atomic_store((_Atomic uint32_t *)cq->doorbell, EFA_CQ_DOORBELL_ARM);
	}
	for (uint32_t raised = 0, before = 0; raised < MANY; before = raised) {
		turn(end);
		raised = atomic_load(&events.events);
		assert_in_range(raised - before, 1, 64);
	}
}

/* What tools show is what there can be, whatever a program says that it has posted or polled. */
static void tools_show_no_more_than_there_is(void **state)
{
	const struct simhca_efa_cq_request request = { .entries = 4,
						       .entry_size = 16,
						       .channel = 1 };
	struct efa_end *end = efa_end_new(*state, &request);
	struct simhca_cq_info cq;
	struct simhca_qp_info qp;

	efa_add_qps(end, 1);
	atomic_store(end->qp[0]->rq_doorbell, 0xffff);
	simhca_efa_qp_info(end->qp[0], &qp);
	assert_int_equal(qp.recvs, EFA_ENTRIES);
	end->cq->pi = 100;
	atomic_store((_Atomic uint32_t *)end->cq->doorbell, 0x8000);
	simhca_efa_cq_info(end->cq, &cq);
	assert_int_equal(cq.waiting, 4);
	assert_int_equal(cq.polled, 96);
}

/* After 65,536 receives a queue was not empty from the start. */
static void receives_are_counted_on(void **state)
{
	struct efa_end *end = end_new(*state, 1);
	struct efa_qp *qp = end->qp[0];
	bool any_yet;

	qp->rq_ci = UINT16_MAX;
	atomic_store(qp->rq_doorbell, UINT16_MAX);
	efa_post_recv(end, qp, 1);
	efa_post_send(end, qp, qp, 1);
	efa_let_work(*state, end);
	assert_int_equal(efa_recvs(qp, &any_yet), 0);
	assert_true(any_yet);
	assert_int_equal(qp->rq_ci, UINT16_MAX + 1);
}

/* Pages with doorbells are armed by system calls: some in each turn, however many a program has told of. */
static void arming_has_turns(void **state)
{
	const struct simhca_efa_cq_request request = { .entries = 1,
						       .entry_size = 16,
						       .channel = 1 };
	struct efa_end *end = end_new(*state, 1);
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
	struct efa_end *end = end_new(*state, 2);
	struct efa_cqe cqe;

	for (uint16_t n = 0; n < 5; n++)
		efa_post_send(end, end->qp[0], end->qp[1], n);
	efa_let_work(*state, end); /* no receive is there */
	assert_int_equal(end->qp[0]->waiting, 5);
	efa_start(end->qp[0]);
	for (uint16_t n = 0; n < EFA_ENTRIES; n++)
		efa_post_recv(end, end->qp[1], n);
	efa_post_send(end, end->qp[0], end->qp[1], 77);
	simhca_engine_schedule(end->client->context->engine, &end->client->context->efa->task);
	world_poll(*state); /* before it would have been time for those */
	for (int i = 0; i < 10; i++)
		efa_let_work(*state, end);
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
		cmocka_unit_test_setup_teardown(a_turn_of_refusals_ends, setup, teardown),
		cmocka_unit_test_setup_teardown(a_flush_is_a_turn, setup, teardown),
		cmocka_unit_test_setup_teardown(a_flush_raises_one_event, setup, teardown),
		cmocka_unit_test_setup_teardown(events_have_turns, setup, teardown),
		cmocka_unit_test_setup_teardown(tools_show_no_more_than_there_is, setup, teardown),
		cmocka_unit_test_setup_teardown(receives_are_counted_on, setup, teardown),
		cmocka_unit_test_setup_teardown(arming_has_turns, setup, teardown),
		cmocka_unit_test_setup_teardown(a_reset_forgets_who_waits, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
