/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What programs on the fast path leave to the device: events that are due, and, when one has ended
 * in the middle of a step, what that step was at.
 */
#include <stddef.h>

#include "attach_impl.h"
#include "core/context.h"
#include "core/fabric.h"
#include "cq.h"
#include "engine/engine.h"
#include "link.h"
#include "owner.h"
#include "simhca-attach.h"
#include "srq.h"

#define EVENTS_AT_ONCE 64u     /* until others have the engine */
#define MOST_EVENTS (1u << 16) /* that are believed to be due */

/* ------------------------------------------------------------------------- events that are due */

/* How many are left: a client that lies makes work for itself. */
static uint32_t raise_events(_Atomic uint32_t *due, struct simhca_cq *cq)
{
	uint32_t events, now;

	if (!atomic_load_explicit(due, memory_order_relaxed))
		return 0;
	events = atomic_exchange(due, 0);
	if (!cq)
		return 0;
	if (events > MOST_EVENTS)
		events = MOST_EVENTS;
	now = events < EVENTS_AT_ONCE ? events : EVENTS_AT_ONCE;
	for (uint32_t i = 0; i < now; i++)
		simhca_cq_notify(cq);
	if (events > now)
		atomic_fetch_add(due, events - now);
	return events - now;
}

/* Who is attached, and of whom its program says that events are due; or NULL. */
static struct simhca_qp *told_of(struct simhca_qp *qp, uint32_t qpn)
{
	struct simhca_steps_with with;
	struct simhca_qp *peer;

	if (qp->type != SIMHCA_QPT_UD) {
		peer = qp->link->peer ? qp->link->peer(qp) : NULL;
		return peer && peer->qpc->dest_qpn == qp->qpn ? peer : NULL;
	}
	peer = simhca_qp_numbered(qp->device, qpn);
	return peer && simhca_steps_find(qp->device->fabric, &qp->fastpath.steps, qpn, &with)
		       ? peer
		       : NULL;
}

/* Of the SRQ that its receives come from, if it has one. seen: the arming that a step has found reached, or 0. */
static void check_limit(const struct simhca_qp *peer, uint32_t seen)
{
	if (peer && peer->srq)
		simhca_srq_check_limit(peer->srq, seen);
}

/* How many are left. */
static uint32_t raise_all(struct simhca_qp *qp)
{
	struct simhca_fastpath *mem = qp->fastpath.steps.mem;
	uint32_t left = 0, qpn;
	struct simhca_qp *peer;
	uint64_t limit;

	if (atomic_load_explicit(&mem->srq_limit, memory_order_relaxed)) {
		limit = atomic_exchange(&mem->srq_limit, 0);
		peer = told_of(qp, (uint32_t)limit);
		/* It may be of another peer, that the QP had before. */
		if (peer && peer->qpn == (uint32_t)limit)
			check_limit(peer, (uint32_t)(limit >> 32));
	}
	/* The peer's first: it may sleep, and who rang does not. acquire: whose they are. */
	if (atomic_load_explicit(&mem->recv_events, memory_order_acquire)) {
		qpn = atomic_load_explicit(&mem->event_peer, memory_order_relaxed);
		peer = told_of(qp, qpn);
		left = raise_events(&mem->recv_events, peer ? peer->recv_cq : NULL);
	}
	return left + raise_events(&mem->send_events, qp->send_cq);
}

bool simhca_fastpath_rang(struct simhca_qp *qp)
{
	struct simhca_fastpath *mem = qp->fastpath.steps.mem;
	uint32_t left;

	if (!atomic_load_explicit(&qp->fastpath.attached, memory_order_relaxed))
		return false;
	/*
	 * A datagram says whom they are for: none is under way while the device holds the
	 * requester.
	 */
	if (qp->type != SIMHCA_QPT_UD ||
	    !atomic_load_explicit(&mem->recv_events, memory_order_relaxed))
		return raise_all(qp);
	if (!simhca_qp_begin(qp)) /* who has it has the QP looked at again */
		return false;
	left = raise_all(qp);
	simhca_qp_end(qp);
	return left;
}

/* It ended while it raised one: that is there, or not. */
static void notify_again(_Atomic uint32_t *notifying, _Atomic uint32_t *due)
{
	if (atomic_exchange(notifying, 0))
		atomic_fetch_add(due, 1);
}

/* ----------------------------------------------------------------------------------- the end */

/* What was consumed, and for no message that is committed, is for the next one. */
static void take_over_claim(struct simhca_qp *qp)
{
	if (!simhca_responder_acquire(qp))
		return;
	if (simhca_responder_has_claim(qp)) {
		qp->resp.claim = simhca_srq_claimed(&qp->srq->view, qp->claimant);
		qp->resp.have_recv = true;
	}
	simhca_responder_release(qp);
}

/*
 * The program has ended, and its requester with it: in the middle of a step the peer's responder
 * either has the message or has not, and a CQE of a message that it has is published.
 */
static bool recover_peer(const struct simhca_qp *qp, struct simhca_qp *peer)
{
	uint32_t name = SIMHCA_OWNER_PROGRAM | qp->qpn, holder;

	if (atomic_load(&peer->fastpath.whose) != qp->qpn)
		return true;
	holder = atomic_load_explicit(&peer->mem->resp_owner.holder, memory_order_acquire);
	if ((holder & ~SIMHCA_OWNER_WANTED) != name)
		return true;
	if (!simhca_side_try_lock(&peer->resp_lock, false))
		return false;
	simhca_cq_repair(peer->recv_cq, name, simhca_responder_last_cqe(peer));
	atomic_compare_exchange_strong(&peer->mem->resp_owner.holder, &holder, 0);
	if (peer->claimant)
		take_over_claim(peer);
	simhca_side_unlock(&peer->resp_lock);
	simhca_engine_schedule(peer->context->engine, &peer->task);
	return true;
}

/* It sends to nobody any more. */
static void leave_destinations(const struct simhca_qp *qp)
{
	const struct simhca_steps *steps = &qp->fastpath.steps;

	for (uint32_t i = 0; i < steps->num_with; i++) {
		struct simhca_qp *peer = simhca_qp_numbered(qp->device, steps->with[i].qpn);

		/* Of one that goes itself it is forgotten afterwards. */
		if (!peer)
			continue;
		/* It may have ended before it could say so. */
		check_limit(peer, 0);
		simhca_claimant_remove(simhca_fastpath_claimants(peer), steps->with[i].claimant);
	}
}

/* It ended in the middle of a step, with a peer that is connected to it. */
static bool leave_peer(struct simhca_qp *qp)
{
	struct simhca_qp *peer = qp->link->peer ? qp->link->peer(qp) : NULL;

	if (!peer || !atomic_load(&qp->context->dead))
		return true;
	if (!recover_peer(qp, peer))
		return false;
	check_limit(told_of(qp, peer->qpn), 0);
	return true;
}

bool simhca_fastpath_recover(struct simhca_qp *qp)
{
	struct simhca_fabric *fabric = qp->device->fabric;
	struct simhca_steps *steps = NULL;
	struct simhca_qp *sender;

	while ((steps = simhca_steps_next_ended(fabric, steps, qp->context->id))) {
		sender = (struct simhca_qp *)((char *)steps -
					      offsetof(struct simhca_qp, fastpath.steps));
		if (!(qp->type == SIMHCA_QPT_UD ? simhca_qp_recover_at(sender, qp)
						: recover_peer(sender, qp)))
			return false;
	}
	return true;
}

void simhca_fastpath_forget(struct simhca_qp *qp)
{
	struct simhca_steps_with was;
	uint32_t sender;

	while (simhca_steps_forget(qp->device->fabric, qp->qpn, &was, &sender)) {
		simhca_claimant_remove(simhca_fastpath_claimants(qp), was.claimant);
		simhca_fastpath_remove_writers(qp->device->fabric, &was, sender);
	}
}

bool simhca_fastpath_detach(struct simhca_qp *qp)
{
	struct simhca_fastpath *mem = qp->fastpath.steps.mem;

	if (!atomic_load(&qp->fastpath.attached))
		return true;
	simhca_qp_recover(qp);
	if (qp->type != SIMHCA_QPT_UD && !leave_peer(qp))
		return false;
	notify_again(&mem->recv_notifying, &mem->recv_events);
	notify_again(&mem->send_notifying, &mem->send_events);
	/* Its program saw the completion at once, and need not have waited for the doorbell. */
	if (raise_all(qp))
		return false;
	simhca_steps_remove(qp->device->fabric, &qp->fastpath.steps);
	if (qp->type == SIMHCA_QPT_UD)
		leave_destinations(qp);
	for (uint32_t i = 0; i < qp->fastpath.steps.num_with; i++)
		simhca_fastpath_remove_writers(qp->device->fabric, &qp->fastpath.steps.with[i],
					       qp->qpn);
	return true;
}

void simhca_fastpath_gone(struct simhca_context *context)
{
	const struct simhca_steps *steps;

	pthread_rwlock_rdlock(&context->device->fabric->lock);
	for (steps = context->device->fabric->steps; steps; steps = steps->next) {
		const uint32_t name = SIMHCA_OWNER_PROGRAM | steps->qpc->qpn;

		for (uint32_t i = 0; steps->context == context && i < steps->num_with; i++) {
			simhca_exclusive_let_go(&steps->with[i].writer, name);
			simhca_exclusive_let_go(&steps->with[i].peer_writer, name);
		}
	}
	pthread_rwlock_unlock(&context->device->fabric->lock);
}

bool simhca_fastpath_stop(struct simhca_fabric *fabric)
{
	simhca_steps_end(fabric, 0);
	return simhca_steps_are_over(fabric);
}
