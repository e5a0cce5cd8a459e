/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Completion queues: publishing CQEs, completion events, overrun. */
#include <errno.h>
#include <infiniband/verbs.h>

#include "cq_impl.h"
#include "core/context.h"
#include "core/fabric.h"
#include "engine/engine.h"
#include "inject/inject.h"
#include "qp.h"
#include "simhca-clock.h"
#include "simhca-device.h"
#include "simhca-verbs.h"
#include "queue/store.h"
#include "queue/cqe_reservation.h"
#include "queue/words.h"

void simhca_cq_tell_of_error(struct simhca_cq *cq, const char *why)
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

	return simhca_cq_disarm(&cq->view, arm, matches);
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

void simhca_cq_notify(const struct simhca_cq *cq)
{
	const struct simhca_ops *ops = &cq->context->device->fabric->ops;

	if (simhca_inject_is_on(cq->context->device->fabric) && is_event_lost(cq))
		return;
	if (cq->channel && ops->comp_event && !atomic_load(&cq->context->dead))
		ops->comp_event(cq->context->arg, cq->channel, cq->user_handle.element);
}

void simhca_cq_unlock(struct simhca_cq *cq, bool due)
{
	pthread_mutex_unlock(&cq->lock);
	if (due)
		simhca_cq_notify(cq);
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
	simhca_cq_unlock(cq, due);
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
	simhca_cq_unlock(cq, due);
	return 0;
}

bool simhca_cq_disarm_for_waiting(struct simhca_cq *cq)
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
	due = simhca_cq_disarm_for_waiting(cq);
	simhca_cq_unlock(cq, due);
	return 0;
}

void simhca_cq_repair(struct simhca_cq *cq, uint32_t name, uint32_t committed)
{
	bool due;

	/* The lock, as the ring may be another one soon (simhca_resize_cq). */
	pthread_mutex_lock(&cq->lock);
	simhca_cqes_recover(&cq->view, name, committed);
	due = disarm(cq, SIMHCA_ARM_BITS);
	simhca_cq_unlock(cq, due);
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
			simhca_cq_tell_of_error(cq, "was full");
		return false;
	}
	waiting = simhca_cq_occupied(&cq->view, cqe_index + 1);
	if (waiting > cq->most_waiting && waiting <= cq->view.cqe)
		cq->most_waiting = waiting;
	slot = simhca_cq_slot(&cq->view, cqe_index);
	simhca_store();
	simhca_cqe_write(slot, cqe);
	if (cq->view.stamped) {
		slot->timestamp = simhca_now_ns();
		slot->wallclock = simhca_clock_ns(CLOCK_REALTIME);
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
	simhca_cq_unlock(cq, due);
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
