/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <stdlib.h>
#include <string.h>

#include "cq.h"
#include "core/context.h"
#include "core/lock.h"
#include "engine/engine.h"
#include "queue/progress.h"
#include "qp.h"
#include "recover.h"

struct simhca_abandoned_receive {
	struct simhca_abandoned_receive *next;
	struct simhca_recv recv;
};

/* ------------------------------------------------------------------------- whose they are */

static void drop(struct simhca_abandoned *left)
{
	struct simhca_abandoned_receive *one;

	while ((one = left->oldest)) {
		left->oldest = one->next;
		free(one);
	}
	left->end = &left->oldest;
	atomic_store_explicit(&left->count, 0, memory_order_relaxed);
}

void simhca_abandoned_init(struct simhca_abandoned *left)
{
	simhca_mutex_init(&left->lock, SIMHCA_LOCK_LEFT);
	left->end = &left->oldest;
	left->claimants[0] = 1ull << (SIMHCA_CLAIMANT_DEVICE - 1);
}

void simhca_abandoned_free(struct simhca_abandoned *left)
{
	drop(left);
	pthread_mutex_destroy(&left->lock);
}

void simhca_abandoned_reset(struct simhca_abandoned *left)
{
	pthread_mutex_lock(&left->lock);
	drop(left);
	left->life++;
	pthread_mutex_unlock(&left->lock);
}

bool simhca_abandoned_consume(struct simhca_abandoned *left, char *copy)
{
	struct simhca_abandoned_receive *one;

	/* relaxed: who adds one has the QP looked at afterwards. */
	if (!atomic_load_explicit(&left->count, memory_order_relaxed))
		return false;
	pthread_mutex_lock(&left->lock);
	one = left->oldest;
	if (one) {
		left->oldest = one->next;
		if (!left->oldest)
			left->end = &left->oldest;
		atomic_fetch_sub(&left->count, 1);
	}
	pthread_mutex_unlock(&left->lock);
	if (!one)
		return false;
	simhca_recv_save(copy, &one->recv);
	free(one);
	return true;
}

/* How many receives the queue holds at most. An SRQ may be resized at any time. */
static uint32_t entries_of(struct simhca_qp *qp)
{
	uint32_t entries;

	if (!qp->srq)
		return qp->rq_view.entries;
	pthread_mutex_lock(&qp->srq->lock);
	entries = qp->srq->view.entries;
	pthread_mutex_unlock(&qp->srq->lock);
	return entries;
}

/* As the program copied it before it claimed it; of a queue that has been reset it says nothing. */
static bool add(struct simhca_qp *qp, uint32_t life, const struct simhca_fastpath *mem)
{
	struct simhca_abandoned_receive *one = malloc(sizeof(*one));
	const struct simhca_srq_view *queue = simhca_claimed_from(qp);
	bool is_one = one && atomic_load(&qp->left.count) < entries_of(qp) &&
		      simhca_recv_load((const char *)mem->recv, queue->max_sge, &one->recv);

	pthread_mutex_lock(&qp->left.lock);
	if (is_one && qp->left.life == life) {
		one->next = NULL;
		*qp->left.end = one;
		qp->left.end = &one->next;
		atomic_fetch_add(&qp->left.count, 1);
		one = NULL;
	}
	pthread_mutex_unlock(&qp->left.lock);
	free(one);
	return is_one;
}

/* ------------------------------------------------------------------------ who has left them */

static void recover_with(struct simhca_qp *qp, struct simhca_qp *dest,
			 const struct simhca_steps_with *with)
{
	struct simhca_fastpath *mem = qp->fastpath.steps.mem;
	uint32_t claim = simhca_srq_claimed(simhca_claimed_from(dest), with->claimant);
	struct simhca_requester req;
	bool committed;

	simhca_progress_show_requester(qp->mem, &req);
	committed = req.oldest != atomic_load_explicit(&mem->index, memory_order_relaxed);
	/*
	 * The one CQE that a program which has ended can have reserved there is of this message.
	 * One that lives has published its own, and could have this done again and again.
	 */
	if (atomic_load(&qp->context->dead))
		simhca_cq_repair(dest->recv_cq, SIMHCA_OWNER_PROGRAM | qp->qpn,
				 committed ? req.recv_cqe_index : 0);
	if (committed || claim == atomic_load_explicit(&mem->before, memory_order_relaxed) ||
	    !simhca_steps_recover(qp->device->fabric, &qp->fastpath.steps, dest->qpn, claim))
		return;
	if (!add(dest, with->life, mem))
		simhca_qp_corrupt(dest);
	/* If it has failed it is to be flushed. */
	simhca_engine_schedule(dest->context->engine, &dest->task);
}

static void recover(struct simhca_qp *qp, struct simhca_qp *dest)
{
	struct simhca_steps_with with;

	if (simhca_steps_find(qp->device->fabric, &qp->fastpath.steps, dest->qpn, &with))
		recover_with(qp, dest, &with);
}

void simhca_qp_recover(struct simhca_qp *qp)
{
	struct simhca_fastpath *mem = qp->fastpath.steps.mem;
	struct simhca_qp *dest;
	uint32_t qpn;

	if (qp->type != SIMHCA_QPT_UD || !mem)
		return;
	/* acquire: what else the step has said was there before. */
	qpn = atomic_load_explicit(&mem->dest, memory_order_acquire);
	if (__builtin_expect(!qpn, 1))
		return;
	dest = simhca_qp_numbered(qp->device, qpn);
	if (dest)
		recover(qp, dest);
	/* release: a message that begins finds it recovered. */
	atomic_store_explicit(&mem->dest, 0, memory_order_release);
}

bool simhca_qp_recover_at(struct simhca_qp *qp, struct simhca_qp *dest)
{
	if (atomic_load_explicit(&qp->fastpath.steps.mem->dest, memory_order_acquire) != dest->qpn)
		return true;
	/* Nobody has it for longer than a message takes. The owner word is still the program's. */
	if (!simhca_side_try_lock(&qp->req_lock, false))
		return false;
	recover(qp, dest);
	if (simhca_side_unlock(&qp->req_lock))
		simhca_engine_schedule(qp->context->engine, &qp->task);
	return true;
}
