/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Completion queues: publishing CQEs, completion events, resize, overrun. */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cq.h"
#include "core/context.h"
#include "core/fabric.h"
#include "core/lock.h"
#include "engine/engine.h"
#include "inject/inject.h"
#include "qp.h"
#include "simhca-device.h"
#include "simhca-verbs.h"
#include "queue/store.h"
#include "queue/cqe_reservation.h"
#include "queue/words.h"

#define MOVED_AT_A_TIME 8192 /* CQEs, while pushers wait and the main thread does nothing else */
/*
 * Entries of a CQ into which programs complete. When one of them has ended, the CQE that it
 * reserved is looked for among all CQEs that wait, as the CQ's owner says: a millisecond at most.
 */
#define MOST_FOR_FAST_PATH (1u << 18)

static uint64_t clock_now(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/*
 * The CQ lost a CQE: it is dead, and so are its QPs (IBTA vol. 1, 11.6.3.2 CQ error). Without its
 * lock, by who found out.
 */
static void tell_of_error(struct simhca_cq *cq, const char *why)
{
	struct simhca_context *context = cq->context;

	simhca_log(context->device->fabric, SIMHCA_LOG_WARNING,
		   "context %u: a CQ of %u entries %s: CQ error, its QPs go to ERR", context->id,
		   cq->view.cqe, why);
	simhca_async_event(context, cq->user_handle, cq->number, IBV_EVENT_CQ_ERR);
	for (uint32_t slot = 0; slot < atomic_load(&context->doorbell_slots); slot++) {
		struct simhca_task *task = atomic_load(&context->doorbell[slot]);
		struct simhca_qp *qp = task ? simhca_qp_of(task) : NULL;

		if (qp && (qp->send_cq == cq || simhca_recv_cq(qp, qp->srq) == cq))
			simhca_qp_fail(qp, SIMHCA_QPS_ERR);
	}
}

/* ------------------------------------------------------------------------------ events */

/*
 * A CQ is armed in mem->arm, by the client. The protocol, and why no wake-up is lost, is told in
 * providers/simhca/cq.c; tests/promela/arm.pml is a model of it. What is ours:
 *
 *	D1  pi, the CQE's fields, seq		(release: the client reads seq first, acquire)
 *	D2  full barrier			(against the client's, between arming and looking)
 *	D3  read arm, and whether the CQE is held up by one before it (simhca_cqes_match())
 *	D4  exchange the value read for one with the same count and no bits; then raise the event
 *
 * D4 is done by one thread at a time (cq->lock), against clients that arm meanwhile. It succeeds
 * on the very arm that D3 saw, or D3 is done again: an arm is used up once, and never unseen. The
 * client's memory is that of a stranger: it can arm without end, which costs it events of its own.
 */

/* Whether the CQ was armed for such a CQE; if so the arming is used up. */
static bool disarm(struct simhca_cq *cq, uint32_t matches)
{
	uint32_t arm = atomic_load_explicit(&cq->view.mem->arm, memory_order_seq_cst);

	while (arm & matches) {
		/* A client that arms again meanwhile wins: its new arming is looked at afresh. */
		if (atomic_compare_exchange_weak(&cq->view.mem->arm, &arm, arm & ~SIMHCA_ARM_BITS))
			return true;
	}
	return false;
}

/* Whether a rule of faults has the CQ's event lost. */
static bool is_event_lost(const struct simhca_cq *cq)
{
	const struct simhca_inject_hit hit = { .point = SIMHCA_AT_EVENT,
					       .device = cq->context->device,
					       .context = cq->context,
					       .opcode = -1 };
	struct simhca_inject_outcome outcome;

	return cq->channel && simhca_inject_decide(cq->context->device->fabric, &hit, &outcome) &&
	       outcome.no_event;
}

/* Raises the event that is due. Without the CQ's lock, as it is a system call. */
void simhca_cq_notify(const struct simhca_cq *cq)
{
	const struct simhca_ops *ops = &cq->context->device->fabric->ops;

	if (simhca_inject_is_on(cq->context->device->fabric) && is_event_lost(cq))
		return;
	if (cq->channel && ops->comp_event && !atomic_load(&cq->context->dead))
		ops->comp_event(cq->context->arg, cq->channel, cq->user_handle.element);
}

/* The event that was held back. What the CQ is armed for by now does not matter. */
static bool disarm_moderated(struct simhca_cq *cq)
{
	cq->moderated = 0;
	return disarm(cq, SIMHCA_ARM_BITS);
}

static void period_is_over(struct simhca_engine *engine, struct simhca_timer *timer)
{
	struct simhca_cq *cq =
		(struct simhca_cq *)((char *)timer - offsetof(struct simhca_cq, timer));

	bool due;

	(void)engine;
	pthread_mutex_lock(&cq->lock);
	due = cq->moderated && disarm_moderated(cq);
	pthread_mutex_unlock(&cq->lock);
	if (due)
		simhca_cq_notify(cq);
}

/*
 * Moderation: the event waits for more completions, or for the end of the period that the first of
 * them began. The CQ stays armed until then, so what the client sees is a slow D4. Had the timer
 * been taken by an engine when the count is reached, it finds nothing moderated, or tells of the
 * next batch too early: the period is a bound.
 */
static bool moderate(struct simhca_cq *cq, uint32_t matches)
{
	struct simhca_engine *engine = cq->context->engine;

	if (!(atomic_load_explicit(&cq->view.mem->arm, memory_order_seq_cst) & matches))
		return false;
	if (++cq->moderated >= cq->mod_count) {
		simhca_engine_stop_timer(engine, &cq->timer);
		return disarm_moderated(cq);
	}
	if (cq->moderated > 1)
		return false;
	cq->timed = true;
	cq->timer.expired = period_is_over;
	return !simhca_engine_start_timer(engine, &cq->timer, cq->mod_period_us * 1000ull) &&
	       disarm_moderated(cq);
}

/* Whether an event is due. Moderated CQs are the device's alone, so nothing is held up there. */
static bool notify(struct simhca_cq *cq, const struct simhca_cqe *cqe, uint32_t cqe_index)
{
	uint32_t matches = simhca_cqe_matches(cqe);

	if (matches & SIMHCA_ARM_SOLICITED)
		cq->solicited = (uint64_t)cqe_index + 1;
	if (cq->mod_count)
		return moderate(cq, matches);
	return (atomic_load_explicit(&cq->view.mem->arm, memory_order_relaxed) & SIMHCA_ARM_BITS) &&
	       disarm(cq, simhca_cqes_match(&cq->view, cqe_index, matches));
}

int simhca_modify_cq(struct simhca_context *context, const struct simhca_modify_cq_req *req,
		     struct simhca_why *why)
{
	struct simhca_cq *cq = simhca_object(context, SIMHCA_OBJ_CQ, req->handle, why);
	bool due = false;

	if (!cq)
		return -ENOENT;
	if (req->count > SIMHCA_MAX_CQ_COUNT || req->period > SIMHCA_MAX_CQ_PERIOD)
		return simhca_why(why, EINVAL, "moderation by %u completions, %u us: up to %u, %u",
				  req->count, req->period, SIMHCA_MAX_CQ_COUNT,
				  SIMHCA_MAX_CQ_PERIOD);
	/* Before the CQ's lock, as it takes the fabric's; none is attached before we are done. */
	if (req->period && req->count)
		simhca_steps_end(context->device->fabric, context->id);
	pthread_mutex_lock(&cq->lock);
	cq->mod_count = req->period ? req->count : 0;
	cq->mod_period_us = req->period;
	/* An event that waits does not wait by the old rule, nor without a bound. */
	if (cq->moderated) {
		simhca_engine_stop_timer(context->engine, &cq->timer);
		due = disarm_moderated(cq);
	}
	pthread_mutex_unlock(&cq->lock);
	if (due)
		simhca_cq_notify(cq);
	return 0;
}

/* Whether an event is due, as the CQ is armed for what waits in it. Under its lock. */
static bool disarm_for_waiting(struct simhca_cq *cq)
{
	uint32_t pi = simhca_cq_producer(&cq->view);
	uint32_t waiting = simhca_cq_occupied(&cq->view, pi);
	uint32_t matches = waiting ? SIMHCA_ARM_NEXT : SIMHCA_ARM_NONE;

	if (cq->solicited && pi - (uint32_t)cq->solicited < waiting)
		matches |= SIMHCA_ARM_SOLICITED;
	return disarm(cq, matches);
}

int simhca_arm_cq(struct simhca_context *context, uint32_t handle, struct simhca_why *why)
{
	struct simhca_cq *cq = simhca_object(context, SIMHCA_OBJ_CQ, handle, why);
	bool due;

	if (!cq)
		return -ENOENT;
	if (!context->device->config.event_at_arm)
		return simhca_why(why, EINVAL, "this device raises no event when a CQ is armed");
	pthread_mutex_lock(&cq->lock);
	due = disarm_for_waiting(cq);
	pthread_mutex_unlock(&cq->lock);
	if (due)
		simhca_cq_notify(cq);
	return 0;
}

void simhca_cq_repair(struct simhca_cq *cq, uint32_t name, uint32_t committed)
{
	bool due;

	/* The lock, as the ring may be another one soon (simhca_resize_cq). */
	pthread_mutex_lock(&cq->lock);
	simhca_cqes_recover(&cq->view, name, committed);
	due = disarm(cq, SIMHCA_ARM_BITS);
	pthread_mutex_unlock(&cq->lock);
	if (due)
		simhca_cq_notify(cq);
}

/* -------------------------------------------------------------------------------- CQEs */

bool simhca_cq_push_commit(struct simhca_cq *cq, const struct simhca_cqe *cqe, struct simhca_qp *qp,
			   void (*commit)(struct simhca_qp *qp, uint32_t cqe_index))
{
	struct simhca_cqe *slot;
	uint32_t cqe_index, waiting;
	bool due;

	pthread_mutex_lock(&cq->lock);
	if (cq->overrun || !simhca_cqe_reserve(&cq->view, SIMHCA_OWNER_DEVICE, &cqe_index)) {
		due = !cq->overrun;
		cq->overrun = true;
		atomic_store_explicit(&cq->view.mem->overrun, 1, memory_order_release);
		pthread_mutex_unlock(&cq->lock);
		if (due)
			tell_of_error(cq, "was full");
		return false;
	}
	waiting = simhca_cq_occupied(&cq->view, cqe_index + 1);
	if (waiting > cq->most_waiting && waiting <= cq->view.cqe)
		cq->most_waiting = waiting;
	slot = simhca_cq_slot(&cq->view, cqe_index);
	simhca_store();
	simhca_cqe_write(slot, cqe);
	if (cq->view.stamped) {
		slot->timestamp = clock_now(CLOCK_MONOTONIC);
		slot->wallclock = clock_now(CLOCK_REALTIME);
	}
	if (commit)
		commit(qp, cqe_index);
	simhca_cqe_publish(&cq->view, cqe_index);
	/*
	 * D2. Full barrier between publishing the CQE and reading arm; the client has one between
	 * storing arm and looking for CQEs. So a client that arms and finds the queue empty is
	 * seen here: no completion falls between the two.
	 */
	atomic_thread_fence(memory_order_seq_cst);
	due = notify(cq, cqe, cqe_index);
	pthread_mutex_unlock(&cq->lock);
	if (due)
		simhca_cq_notify(cq);
	return true;
}

bool simhca_cq_push(struct simhca_cq *cq, const struct simhca_cqe *cqe)
{
	return simhca_cq_push_commit(cq, cqe, NULL, NULL);
}

#define CQES_COUNTED 64 /* of those that wait */

uint32_t simhca_cq_sends_of(struct simhca_cq *cq, uint32_t qpn)
{
	uint32_t first, end, count = 0;

	pthread_mutex_lock(&cq->lock);
	first = simhca_cq_consumer(&cq->view);
	end = simhca_cq_producer(&cq->view);
	for (uint32_t i = first; i != end && i - first < CQES_COUNTED; i++) {
		struct simhca_cqe cqe;

		simhca_words_get(&cqe, simhca_cq_slot(&cq->view, i), sizeof(cqe));
		count += cqe.qpn == qpn && !(cqe.flags & SIMHCA_CQE_RECV);
	}
	pthread_mutex_unlock(&cq->lock);
	return count;
}

static uint64_t ring_bytes(uint32_t entries)
{
	return (uint64_t)entries * sizeof(struct simhca_cqe);
}

static uint64_t data_bytes(const struct simhca_cq *cq)
{
	return (uint64_t)cq->view.data_slots * SIMHCA_CQ_DATA;
}

/* Data may stay there if peers have the CQ, and nobody writes over what was not read. */
static uint32_t data_slots(const struct simhca_cq *cq)
{
	if (!cq->context->device->config.slot_data || cq->view.stamped || cq->view.overruns)
		return 0;
	return cq->view.entries < SIMHCA_CQ_DATA_SLOTS ? cq->view.entries : SIMHCA_CQ_DATA_SLOTS;
}

/* Its state, its ring and the data, in one segment. 0 or -errno. */
static int alloc(struct simhca_cq *cq, struct simhca_why *why)
{
	struct simhca_context *context = cq->context;
	const uint64_t bytes = ring_bytes(cq->view.entries);
	uint32_t segment;
	int ret;

	cq->shared.is_whole = cq->view.entries <= MOST_FOR_FAST_PATH;
	cq->view.data_slots = data_slots(cq);
	ret = simhca_context_place(
		context, sizeof(*cq->view.mem) + bytes + data_bytes(cq) + 3 * SIMHCA_CONTEXT_UNIT,
		cq->shared.is_whole, &cq->shared.segment, &segment, why);
	if (ret)
		return ret;
	cq->view.mem =
		simhca_context_alloc_in(context, segment, sizeof(*cq->view.mem), &cq->mem_ref);
	if (!cq->view.mem)
		return -ENOMEM;
	memset(cq->view.mem, 0, sizeof(*cq->view.mem));
	cq->view.ring = simhca_context_alloc_in(context, segment, bytes, &cq->ring_ref);
	if (!cq->view.ring)
		return -ENOMEM;
	if (!cq->shared.segment) /* no peer has it */
		cq->view.data_slots = 0;
	if (!cq->view.data_slots)
		return 0;
	cq->view.data = simhca_context_alloc_in(context, segment, data_bytes(cq), &cq->data_ref);
	return cq->view.data ? 0 : -ENOMEM;
}

static void fill_reply(const struct simhca_cq *cq, uint32_t handle,
		       struct simhca_create_cq_reply *reply)
{
	reply->handle = handle;
	reply->cqe = cq->view.cqe;
	reply->entries = cq->view.entries;
	reply->state = cq->mem_ref;
	reply->ring = cq->ring_ref;
	reply->data = cq->data_ref;
	reply->data_slots = cq->view.data_slots;
}

static int check_cqe(const struct simhca_context *context, uint32_t cqe, struct simhca_why *why)
{
	if (!cqe || cqe > context->device->config.max_cqe)
		return simhca_why(why, EINVAL, "cqe = %d: 1 to %u", (int)cqe,
				  context->device->config.max_cqe);
	return 0;
}

int simhca_create_cq(struct simhca_context *context, const struct simhca_create_cq_req *req,
		     struct simhca_create_cq_reply *reply, struct simhca_why *why)
{
	struct simhca_cq *cq;
	int ret = check_cqe(context, req->cqe, why);

	if (ret)
		return ret;
	if (req->comp_vector >= SIMHCA_COMP_VECTORS)
		return simhca_why(why, EINVAL, "comp_vector = %d: 0 to %u", (int)req->comp_vector,
				  SIMHCA_COMP_VECTORS - 1);
	if (req->flags & ~(uint32_t)(SIMHCA_CQ_TIMESTAMP | SIMHCA_CQ_IGNORE_OVERRUN))
		return simhca_why(why, EINVAL, "CQ flags 0x%x are not known", req->flags);
	cq = calloc(1, sizeof(*cq));
	if (!cq)
		return simhca_why(why, ENOMEM, "out of memory");
	cq->context = context;
	cq->view.cqe = req->cqe;
	cq->view.entries = simhca_ring_entries(req->cqe);
	cq->view.stamped = req->flags & SIMHCA_CQ_TIMESTAMP;
	cq->view.overruns = req->flags & SIMHCA_CQ_IGNORE_OVERRUN;
	cq->user_handle = req->user_handle;
	cq->channel = req->channel;
	ret = alloc(cq, why);
	if (ret)
		goto fail;
	ret = simhca_object_add(context, SIMHCA_OBJ_CQ, cq, &reply->handle, why);
	if (ret)
		goto fail;
	cq->number = simhca_number_alloc(&context->device->cqns);
	simhca_mutex_init(&cq->lock, SIMHCA_LOCK_CQ);
	fill_reply(cq, reply->handle, reply);
	return 0;
fail:
	if (cq->view.data)
		simhca_context_free(context, &cq->data_ref, data_bytes(cq));
	if (cq->view.ring)
		simhca_context_free(context, &cq->ring_ref, ring_bytes(cq->view.entries));
	if (cq->view.mem)
		simhca_context_free(context, &cq->mem_ref, sizeof(*cq->view.mem));
	free(cq);
	return ret;
}

static void leave(struct simhca_cq *cq, const struct simhca_mem_ref *ref, uint32_t entries)
{
	cq->rest = (struct simhca_rest){ .ref = *ref, .bytes = ring_bytes(entries) };
}

static void stop_moving(struct simhca_cq *cq)
{
	if (cq->move.ring)
		leave(cq, &cq->move.ring_ref, cq->move.entries);
	cq->move.ring = NULL;
}

static int start_moving(struct simhca_cq *cq, uint32_t cqe, struct simhca_why *why)
{
	struct simhca_cq_move *move = &cq->move;

	*move = (struct simhca_cq_move){ .entries = simhca_ring_entries(cqe), .cqe = cqe };
	move->ring =
		simhca_context_alloc(cq->context, ring_bytes(move->entries), &move->ring_ref, why);
	if (!move->ring)
		return -ENOMEM;
	move->next = simhca_cq_consumer(&cq->view);
	simhca_cq_fresh_ring(move->ring, move->entries, simhca_cq_producer(&cq->view));
	return 0;
}

static void copy_cqe(const struct simhca_cqe *from, struct simhca_cqe *to)
{
	struct simhca_cqe cqe;

	simhca_words_get(&cqe, from, sizeof(cqe));
	simhca_words_put(to, &cqe, sizeof(cqe));
}

/* Under the CQ's lock. 0: all of them are there. */
static int move_some(struct simhca_cq *cq, struct simhca_why *why)
{
	struct simhca_cq_move *move = &cq->move;
	uint32_t pi = simhca_cq_producer(&cq->view), ci = simhca_cq_consumer(&cq->view), end;

	if (cq->overrun)
		return simhca_why(why, EINVAL, "the CQ is in error: a completion found no room");
	if (!simhca_gate_move(pi, ci, cq->view.entries, move->cqe, MOVED_AT_A_TIME, &move->next,
			      &end))
		return simhca_why(why, EINVAL, "cqe = %u: the CQ holds %u completions", move->cqe,
				  pi - ci);
	/* Both indices are a client's, who can move them for ever. */
	if (move->copied > 2ull * SIMHCA_MAX_CQE)
		return simhca_why(why, EBUSY, "more completions come than can be moved");
	move->copied += end - move->next;
	for (; move->next != end; move->next++)
		copy_cqe(simhca_cq_slot(&cq->view, move->next),
			 &move->ring[move->next & (move->entries - 1)]);
	return end == pi ? 0 : -ERESTART;
}

/* Under the CQ's lock: the new ring counts from now on. */
static void use_new_ring(struct simhca_cq *cq)
{
	leave(cq, &cq->ring_ref, cq->view.entries);
	cq->view.ring = cq->move.ring;
	cq->ring_ref = cq->move.ring_ref;
	cq->view.entries = cq->move.entries;
	cq->view.cqe = cq->move.cqe;
	cq->move.ring = NULL;
	cq->moved = true;
}

int simhca_resize_cq(struct simhca_context *context, const struct simhca_resize_cq_req *req,
		     struct simhca_create_cq_reply *reply, struct simhca_why *why)
{
	struct simhca_cq *cq = simhca_object(context, SIMHCA_OBJ_CQ, req->handle, why);
	int ret;

	if (!cq)
		return -ENOENT;
	ret = check_cqe(context, req->cqe, why);
	if (ret)
		return ret;
	if (req->cqe < req->outstanding)
		return simhca_why(why, EINVAL,
				  "cqe = %u: %u completions are in the CQ or may still come",
				  req->cqe, req->outstanding);
	ret = simhca_context_give_back(cq->context, &cq->rest);
	if (ret)
		return ret;
	if (cq->moved && cq->view.cqe == req->cqe)
		goto moved;
	/* No program has the new ring, and nobody writes to the old one any more. */
	cq->shared.segment = 0;
	cq->shared.is_whole = false;
	simhca_steps_end(context->device->fabric, context->id);
	if (!simhca_fabric_synchronize(context->device->fabric, context->id))
		return -EAGAIN;
	if (cq->move.ring && cq->move.cqe != req->cqe) { /* that was given up, or is another's */
		stop_moving(cq);
		return -ERESTART;
	}
	if (!cq->move.ring)
		ret = start_moving(cq, req->cqe, why);
	if (ret)
		return ret;
	pthread_mutex_lock(&cq->lock);
	ret = move_some(cq, why);
	if (!ret)
		use_new_ring(cq);
	pthread_mutex_unlock(&cq->lock);
	if (ret == -ERESTART)
		return ret;
	stop_moving(cq);
	/* Of what failed the rest is given back with the next try, or with the CQ. */
	if (simhca_context_give_back(cq->context, &cq->rest) && !ret)
		return -ERESTART;
	if (ret)
		return ret;
moved:
	cq->moved = false;
	fill_reply(cq, req->handle, reply);
	reply->renew = simhca_is_to_be_renewed(&cq->shared);
	return 0;
}

/* ------------------------------------------------------------------------- other memory */

/*
 * The client maps the new memory before the device works there. Arms come without the client's lock,
 * so some are in the one and some in the other:
 *
 *	the client				the device
 *	R1 maps the new memory			D3 looks at the old one meanwhile
 *	A1 arms in whatever is mapped		R2 pi is in the new memory, with the CQEs
 *						R3 full barrier
 *						R4 an arm that is left in the old one is taken over
 *						R5 if it is armed and CQEs wait: an event, as by D4
 *
 * After R1 nobody arms in the old memory, and R2 to R5 come after R1. So each arm is either seen by D3
 * there, or by R5; and who arms after R5 finds pi, by A3. An event may be one for CQEs that were there
 * before the CQ was armed, which does no harm. An arm that is 0 is none that the client has made there.
 */

/* As it will be. A ring that it was resized to is another's memory, and stays. */
static struct simhca_cq_view renewed(const struct simhca_cq *cq)
{
	struct simhca_cq_view view = cq->view;

	view.mem = (struct simhca_cq_mem *)(cq->shared.spare.base + cq->mem_ref.offset);
	if (cq->shared.segment)
		view.ring = (struct simhca_cqe *)(cq->shared.spare.base + cq->ring_ref.offset);
	if (view.data)
		view.data = (char *)(cq->shared.spare.base + cq->data_ref.offset);
	return view;
}

void simhca_cq_renew(struct simhca_cq *cq)
{
	const struct simhca_cq_view to = renewed(cq);
	const struct simhca_cq_mem *from = cq->view.mem;

	pthread_mutex_lock(&cq->lock);
	cq->renewal.begun = false;
	simhca_cq_go_on(&to, simhca_cq_producer(&cq->view));
	atomic_store(&to.mem->overrun, cq->overrun);
	atomic_store(&to.mem->events_raised, atomic_load(&from->events_raised));
	pthread_mutex_unlock(&cq->lock);
}

/* Who would publish a CQE has published it: any other is void. */
static void renew_cqe(const struct simhca_cqe *from, struct simhca_cqe *to, uint32_t index)
{
	copy_cqe(from, to);
	if (atomic_load_explicit(&to->seq, memory_order_relaxed) == index + 1)
		return;
	to->qpn = SIMHCA_VOID_QPN;
	atomic_store_explicit(&to->seq, index + 1, memory_order_release);
}

/* Copies the data of messages that wait in the CQ for who polls; CQEs up to `end` have been copied. */
static void copy_data(const struct simhca_cq *cq, const struct simhca_cq_view *to, uint32_t end)
{
	uint64_t data[SIMHCA_CQ_DATA / sizeof(uint64_t)];

	for (uint32_t i = cq->renewal.ci; i != end && i - cq->renewal.ci < cq->view.data_slots;
	     i++) {
		if (simhca_cq_slot(to, i)->in_slot != SIMHCA_CQE_IN_CQ)
			continue;
		simhca_words_get(data, simhca_cq_data(&cq->view, i), sizeof(data));
		simhca_words_put(simhca_cq_data(to, i), data, sizeof(data));
	}
}

/* A part of what waits; true: that was all. */
static bool copy_waiting(struct simhca_cq *cq, const struct simhca_cq_view *to)
{
	const bool has_ring = cq->shared.segment;
	uint32_t pi = simhca_cq_producer(&cq->view), end;
	bool all;

	if (!cq->renewal.begun) {
		cq->renewal.begun = true;
		cq->renewal.ci = cq->renewal.next = simhca_cq_consumer(to);
		if (has_ring)
			simhca_cq_fresh_ring(to->ring, to->entries, cq->renewal.ci);
	}
	all = simhca_gate_renew(pi, cq->renewal.ci, cq->view.cqe,
				has_ring ? MOVED_AT_A_TIME : UINT32_MAX, cq->renewal.next, &end);
	for (; has_ring && cq->renewal.next != end; cq->renewal.next++)
		renew_cqe(simhca_cq_slot(&cq->view, cq->renewal.next),
			  simhca_cq_slot(to, cq->renewal.next), cq->renewal.next);
	cq->renewal.next = end;
	return all;
}

/* R4. */
static void take_over_arm(struct simhca_cq *cq, uint32_t old)
{
	_Atomic uint32_t *arm = &cq->view.mem->arm;
	uint32_t now = atomic_load(arm), bits, both;

	do {
		bits = now & SIMHCA_ARM_BITS;
		if ((old & SIMHCA_ARM_BITS) > bits)
			bits = old & SIMHCA_ARM_BITS;
		both = !now ? old : (now & ~(uint32_t)SIMHCA_ARM_BITS) | bits;
	} while (!atomic_compare_exchange_weak(arm, &now, both));
}

int simhca_cq_move(struct simhca_cq *cq, struct simhca_why *why)
{
	const struct simhca_cq_view to = renewed(cq);
	bool due = false;
	uint32_t arm;
	int ret = 0;

	pthread_mutex_lock(&cq->lock);
	if (!copy_waiting(cq, &to)) {
		pthread_mutex_unlock(&cq->lock);
		return -ERESTART;
	}
	copy_data(cq, &to, cq->renewal.next);
	simhca_cq_go_on(&to, cq->renewal.next); /* R2 */
	atomic_store(&to.mem->overrun, cq->overrun);
	arm = atomic_load(&cq->view.mem->arm);
	ret = simhca_context_use_spare(cq->context, cq->mem_ref.segment, &cq->shared.spare);
	if (ret) {
		cq->overrun = true;
		atomic_store(&to.mem->overrun, 1);
	} else {
		atomic_thread_fence(memory_order_seq_cst); /* R3 */
		take_over_arm(cq, arm);
		due = disarm_for_waiting(cq);
	}
	pthread_mutex_unlock(&cq->lock);
	if (due)
		simhca_cq_notify(cq);
	if (ret) {
		tell_of_error(cq, "has no memory any more");
		return simhca_why(why, -ret, "memory for a CQ: %s", strerror(-ret));
	}
	return 0;
}

int simhca_cq_identity(struct simhca_context *context, uint32_t handle,
		       struct simhca_identity *identity, struct simhca_why *why)
{
	struct simhca_cq *cq = simhca_object(context, SIMHCA_OBJ_CQ, handle, why);

	if (!cq)
		return -ENOENT;
	*identity = (struct simhca_identity){
		.user_handle = cq->user_handle,
		.channel = cq->channel,
		/* relaxed: none is added any more, if nothing uses the CQ. */
		.events_raised =
			atomic_load_explicit(&cq->view.mem->events_raised, memory_order_relaxed),
	};
	return 0;
}

int simhca_destroy_cq(struct simhca_context *context, uint32_t handle, struct simhca_why *why)
{
	struct simhca_cq *cq = simhca_object(context, SIMHCA_OBJ_CQ, handle, why);

	if (!cq)
		return -ENOENT;
	if (cq->users)
		return simhca_why(why, EBUSY, "%u queues of QPs still use this CQ", cq->users);
	if (cq->timed) {
		/* Nothing is added any more, so nothing starts the timer; it may be expiring. */
		simhca_engine_stop_timer(context->engine, &cq->timer);
		if (!simhca_fabric_synchronize(context->device->fabric, context->id))
			return -EAGAIN;
	}
	if (simhca_context_give_back(cq->context, &cq->rest))
		return -ERESTART;
	stop_moving(cq);
	if (simhca_context_give_back(cq->context, &cq->rest) ||
	    !simhca_context_wipe(context, &cq->ring_ref, ring_bytes(cq->view.entries), &cq->wiped))
		return -ERESTART;
	simhca_object_remove(context, SIMHCA_OBJ_CQ, handle);
	simhca_number_release(&context->device->cqns, cq->number);
	simhca_context_drop_spare(context, &cq->shared.spare);
	simhca_context_free(context, &cq->ring_ref, ring_bytes(cq->view.entries));
	if (cq->view.data)
		simhca_context_free(context, &cq->data_ref, data_bytes(cq));
	simhca_context_free(context, &cq->mem_ref, sizeof(*cq->view.mem));
	pthread_mutex_destroy(&cq->lock);
	free(cq);
	return 0;
}
