/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What a program writes to the rings and doorbells of an EFA device: whatever it is, it costs nobody else
 * the engine. That it costs nobody a message or a byte is for simhca-liar to see (tests/liar/efa.c).
 */
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sched.h>
#include <sys/eventfd.h>

#include "core/handles.h"
#include "efa_scene.h"
#include "simhca-info.h"

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

/* --------------------------------------------------------------------------- other threads */

static struct {
	struct efa_end *end;
	atomic_bool stop;
} writer;

/* At once, as the engine reads it at the same time. */
static void write_word(const void *base, size_t bytes, uint64_t *seed)
{
	const uint32_t value = test_random(seed);

	__atomic_store_n((uint32_t *)base + test_random(seed) % (bytes / 4),
			 value % 3 ? value % 64 : value, __ATOMIC_RELAXED);
}

static void *write_on(void *arg)
{
	uint64_t seed = 1;

	for (uint32_t n = 0; !atomic_load(&writer.stop); n++) {
		struct efa_qp *qp = writer.end->qp[n % 4];

		write_word(qp->sq, EFA_ENTRIES * sizeof(*qp->sq), &seed);
		write_word(qp->rq, EFA_ENTRIES * sizeof(*qp->rq), &seed);
		write_word(qp->sq_doorbell, 4, &seed);
		write_word(qp->rq_doorbell, 4, &seed);
		simhca_engine_schedule(qp->context->engine, &qp->context->efa->task);
		if (n % 16 == 0)
			sched_yield();
	}
	return arg;
}

static void talk(struct world *world, struct efa_end *end, uint16_t number)
{
	unsigned int seen = 0;
	struct efa_cqe cqe;

	efa_post_recv(end, end->qp[1], number);
	efa_post_send(end, end->qp[0], end->qp[1], number);
	while (seen < 2) {
		efa_let_work(world, end);
		while (efa_poll(end, &cqe)) {
			assert_int_equal(cqe.req_id, number);
			assert_int_equal(cqe.status, EFA_STATUS_OK);
			seen++;
		}
	}
}

/* Rings are read, each word once, while a program writes there: ThreadSanitizer looks at that. */
static void rings_are_written_while_engines_read(void **state)
{
	struct efa_end *end = end_new(*state, 4), *honest = end_new(*state, 2);
	pthread_t thread;

	writer.end = end;
	atomic_store(&writer.stop, false);
	for (int i = 0; i < 2; i++) /* whom no lie may find */
		for (uint32_t up = SIMHCA_QPS_RESET; up <= SIMHCA_QPS_RTS; up++)
			assert_int_equal(0, efa_to_state(honest->qp[i], up, 0x5ec2e775));
	assert_int_equal(0, pthread_create(&thread, NULL, write_on, NULL));
	for (uint16_t n = 0; n < 2000; n++) {
		talk(*state, honest, n);
		for (int i = 0; i < 4; i++)
			if (atomic_load(&end->qp[i]->state) == SIMHCA_QPS_ERR)
				for (uint32_t up = SIMHCA_QPS_RESET; up <= SIMHCA_QPS_RTS; up++)
					efa_to_state(end->qp[i], up, 0);
	}
	atomic_store(&writer.stop, true);
	assert_int_equal(0, pthread_join(thread, NULL));
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

	if (world_has_wire(*state))
		skip(); /* messages complete when they are answered */
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

/* So many as fit into the CQEs' ring, until all have come; each has the number of its receive, in order. */
static void exchange(struct world *world, struct efa_end *end, uint16_t sends, uint16_t *next)
{
	struct efa_qp *qp = end->qp[0];
	uint32_t seen = 0;
	struct efa_cqe cqe;

	for (uint16_t n = 0; n < sends; n++)
		efa_post_send(end, qp, qp, n);
	while (seen < 2u * sends) {
		efa_let_work(world, end);
		for (; efa_poll(end, &cqe); seen++) {
			assert_int_equal(cqe.status, EFA_STATUS_OK);
			if (cqe.flags & EFA_CQE_RECV)
				assert_int_equal(cqe.req_id, (*next)++);
		}
	}
}

/* Queues as long as there are: full ones are not taken for empty, also where what a doorbell counts begins anew. */
static void the_longest_queues(void **state)
{
	const struct simhca_efa_qp_request request = {
		.sq_bytes = SIMHCA_EFA_SQ_WR * sizeof(struct efa_send_wqe),
		.rq_bytes = SIMHCA_EFA_RQ_WR * sizeof(struct efa_recv_desc),
		.srd = true,
		.caps = { SIMHCA_EFA_SQ_WR, SIMHCA_EFA_RQ_WR, 1, 1, 32 },
	};
	struct simhca_efa_qp_request longer = request;
	struct efa_end *end = end_of(*state, 0, SIMHCA_EFA_CQE);
	struct efa_qp *qp = efa_add_qp(end, &request);
	struct simhca_efa_qp_reply reply;
	uint16_t next = 0;
	struct simhca_why why;
	bool any_yet;

	efa_start(qp);
	for (uint32_t round = 0; round < 2; round++) /* at the second a doorbell begins anew */ {
		for (uint32_t n = 0; n < SIMHCA_EFA_RQ_WR; n++)
			efa_post_recv(end, qp, (uint16_t)(round * SIMHCA_EFA_RQ_WR + n));
		assert_int_equal(efa_recvs(qp, &any_yet), SIMHCA_EFA_RQ_WR);
		for (uint32_t n = 0; n < SIMHCA_EFA_RQ_WR; n += SIMHCA_EFA_SQ_WR)
			exchange(*state, end, SIMHCA_EFA_SQ_WR, &next);
		assert_int_equal(efa_recvs(qp, &any_yet), 0);
	}
	longer.pd = end->pd;
	longer.send_cq = longer.recv_cq = end->cq_handle;
	longer.rq_bytes *= 2;
	assert_int_equal(-EINVAL,
			 simhca_efa_create_qp(end->client->context, &longer, &reply, &why));
	longer.rq_bytes = request.rq_bytes;
	longer.caps.max_recv_wr++;
	assert_int_equal(-EINVAL,
			 simhca_efa_create_qp(end->client->context, &longer, &reply, &why));
	longer.caps.max_recv_wr--;
	longer.sq_bytes *= 2;
	assert_int_equal(-EINVAL,
			 simhca_efa_create_qp(end->client->context, &longer, &reply, &why));
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

/* The next completion that is there once the engine has worked. */
static struct efa_cqe completion(struct world *world, struct efa_end *end)
{
	struct efa_cqe cqe = { .status = 0xff };

	for (int i = 0; i < 20 && !efa_poll(end, &cqe); i++)
		efa_let_work(world, end);
	return cqe;
}

static void expect_status(struct world *world, struct efa_end *end, uint8_t flags,
			  enum efa_status status)
{
	struct efa_cqe cqe = completion(world, end);

	assert_int_equal(cqe.flags & (EFA_CQE_SEND | EFA_CQE_RECV), flags);
	assert_int_equal(cqe.status, status);
}

/* A message that is longer than the receive writes nothing, however much room is behind that. */
static void a_receive_has_its_length(void **state)
{
	struct efa_end *end = end_new(*state, 2);

	memset(end->mr->addr, 0x5a, EFA_BYTES);
	memset(end->mr->addr + EFA_BYTES, 0, EFA_BYTES);
	efa_post_recv(end, end->qp[1], 1);
	efa_recv_slot(end->qp[1], 0)->length = EFA_BYTES - 1;
	efa_post_send(end, end->qp[0], end->qp[1], 2);
	expect_status(*state, end, EFA_CQE_RECV, EFA_STATUS_LOCAL_LENGTH);
	expect_status(*state, end, EFA_CQE_SEND, EFA_STATUS_REMOTE_LENGTH);
	for (uint32_t i = 0; i < EFA_BYTES; i++)
		assert_int_equal(end->mr->addr[EFA_BYTES + i], 0);
}

/* The second QP has wide WQEs, and the first has not. */
static void data_in_wqes(void **state)
{
	struct efa_end *end = end_new(*state, 2);
	struct efa_qp *qp = end->qp[1];
	struct efa_send_wqe wqe = efa_send_of(end, end->qp[0], 1);
	const uint64_t to = end->mr->iova + EFA_BYTES;

	for (int writes = 0; writes < 2; writes++) {
		uint8_t *slot = (uint8_t *)efa_send_slot(qp, atomic_load(qp->sq_doorbell));

		memset(end->mr->addr + EFA_BYTES, 0, EFA_BYTES);
		wqe.control = EFA_WQE_FIRST | EFA_WQE_LAST | EFA_WQE_INLINE |
			      (writes ? EFA_RDMA_WRITE : EFA_SEND);
		wqe.length = EFA_INLINE_WIDE;
		wqe.rdma.remote = (struct efa_buffer){ .length = EFA_INLINE_WIDE,
						       .key = end->mr->rkey,
						       .addr_low = (uint32_t)to,
						       .addr_high = (uint32_t)(to >> 32) };
		memcpy(slot, &wqe, sizeof(wqe));
		memset(slot + (writes ? 48 : 32), 0x5a + writes, EFA_INLINE_WIDE);
		if (!writes)
			efa_post_recv(end, end->qp[0], 1);
		atomic_fetch_add(qp->sq_doorbell, 1);
		if (!writes)
			expect_status(*state, end, EFA_CQE_RECV, EFA_STATUS_OK);
		expect_status(*state, end, EFA_CQE_SEND, EFA_STATUS_OK);
		for (uint32_t i = 0; i <= EFA_INLINE_WIDE; i++)
			assert_int_equal(end->mr->addr[EFA_BYTES + i],
					 i < EFA_INLINE_WIDE ? 0x5a + writes : 0);
	}
	efa_put_send(end->qp[0], &wqe);
	expect_status(*state, end, EFA_CQE_SEND, EFA_STATUS_INVALID_OP);
}

/* The first of two QPs sends by one ring and receives by the other; each has all of its rounds. */
static void sub_cqs_have_rings(void **state)
{
	struct efa_end *end =
		efa_end_new(*state, &(struct simhca_efa_cq_request){ .entries = 4,
								     .entry_size = EFA_CQE_SHORT,
								     .sub_cqs = 2 });
	const char *rings[2];

	efa_add_qps(end, 1);
	rings[0] = end->cq->memory.base;
	rings[1] = rings[0] + 4 * EFA_CQE_SHORT;
	for (uint32_t i = 0; i < 11; i++) {
		efa_post_recv(end, end->qp[0], (uint16_t)i);
		efa_post_send(end, end->qp[0], end->qp[0], (uint16_t)(100 + i));
		for (int n = 0; n < 4; n++)
			efa_let_work(*state, end);
		for (unsigned int ring = 0; ring < 2; ring++) {
			struct efa_cqe cqe = { 0 };

			memcpy(&cqe, rings[ring] + i % 4 * EFA_CQE_SHORT, EFA_CQE_SHORT);
			assert_int_equal(cqe.req_id, ring ? i : 100 + i);
			assert_int_equal(cqe.flags & EFA_CQE_PHASE, !(i & 4));
		}
	}
}

static int setup_generation_1(void **state)
{
	*state =
		world_new(&(struct world_config){ .device = { .efa = true, .efa_generation = 1 } });
	return 0;
}

static void later_ones_have_one(void **state)
{
	struct client *client = client_new(*state, 0);
	const struct simhca_efa_cq_request request = { .entries = 4,
						       .entry_size = EFA_CQE_SHORT,
						       .sub_cqs = 2 };
	struct simhca_efa_cq_reply reply;
	struct simhca_why why;

	assert_int_equal(0, simhca_efa_open(client->context, &why));
	assert_int_equal(-EINVAL, simhca_efa_create_cq(client->context, &request, &reply, &why));
}

/* What waited before a reset is no message of the next life. */
static void a_reset_forgets_who_waits(void **state)
{
	struct efa_end *end = end_new(*state, 2);
	struct efa_cqe cqe;

	for (uint16_t n = 0; n < 5; n++)
		efa_post_send(end, end->qp[0], end->qp[1], n);
	efa_let_work(*state, end); /* no receive is there */
	assert_int_equal(end->qp[0]->waiting + end->qp[0]->flight_count, 5);
	efa_start(end->qp[0]);
	rounds(*state, 10); /* what is under way on a wire comes, as there it may */
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

/*
 * A program stands at an armed doorbell. It stores once it has a CPU: the page stays open meanwhile, however
 * long nothing has come before. A pipe is in the userfaultfd's place.
 */
static void who_stands_at_a_doorbell_has_time_to_ring(void **state)
{
	struct world *world = *state;
	struct efa_end *end = end_new(world, 1);
	struct simhca_efa *efa = end->client->context->efa;
	struct efa_watch *watch = &end->qp[0]->watch;
	struct uffd_msg message = { .event = UFFD_EVENT_PAGEFAULT,
				    .arg.pagefault.address = 7 * EFA_PAGE };
	int fds[2];

	assert_int_equal(pipe2(fds, O_NONBLOCK), 0);
	*watch = (struct efa_watch){ .state = EFA_WATCH_ARMED, .address = 7 * EFA_PAGE };
	atomic_store(&efa->userfaultfd, fds[0]);
	for (int i = 0; i < 10; i++)
		efa_let_work(world, end);
	assert_int_equal(watch->state, EFA_WATCH_ARMED);
	assert_int_equal(write(fds[1], &message, sizeof(message)), sizeof(message));
	turn(end);
	assert_int_equal(watch->state, EFA_WATCH_OPEN);
	atomic_fetch_add(&world->now, 4 * MSEC);
	turn(end);
	assert_int_equal(watch->state, EFA_WATCH_OPEN);
	atomic_fetch_add(&world->now, 2 * MSEC);
	turn(end);
	assert_int_equal(watch->state, EFA_WATCH_NONE); /* it was armed, as far as a pipe can be */
	atomic_store(&efa->userfaultfd, -1);
	close(fds[0]);
	close(fds[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(rings_are_written_while_engines_read, setup_threads,
						teardown),
		cmocka_unit_test_setup_teardown(who_posts_on_is_flushed_once, setup, teardown),
		cmocka_unit_test_setup_teardown(a_turn_ends, setup, teardown),
		cmocka_unit_test_setup_teardown(a_turn_of_refusals_ends, setup, teardown),
		cmocka_unit_test_setup_teardown(a_flush_is_a_turn, setup, teardown),
		cmocka_unit_test_setup_teardown(a_flush_raises_one_event, setup, teardown),
		cmocka_unit_test_setup_teardown(events_have_turns, setup, teardown),
		cmocka_unit_test_setup_teardown(tools_show_no_more_than_there_is, setup, teardown),
		cmocka_unit_test_setup_teardown(receives_are_counted_on, setup, teardown),
		cmocka_unit_test_setup_teardown(the_longest_queues, setup, teardown),
		cmocka_unit_test_setup_teardown(arming_has_turns, setup, teardown),
		cmocka_unit_test_setup_teardown(who_stands_at_a_doorbell_has_time_to_ring, setup,
						teardown),
		cmocka_unit_test_setup_teardown(a_receive_has_its_length, setup, teardown),
		cmocka_unit_test_setup_teardown(sub_cqs_have_rings, setup_generation_1, teardown),
		cmocka_unit_test_setup_teardown(later_ones_have_one, setup, teardown),
		cmocka_unit_test_setup_teardown(data_in_wqes, setup, teardown),
		cmocka_unit_test_setup_teardown(a_reset_forgets_who_waits, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
