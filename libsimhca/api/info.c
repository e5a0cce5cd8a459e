/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What tools show of objects. */
#include "core/context.h"
#include "core/handles.h"
#include "efa/efa.h"
#include "link/deliver.h"
#include "memory/key.h"
#include "memory/mr.h"
#include "paging/fault.h"
#include "paging/watch.h"
#include "simhca-info.h"
#include "simhca-verbs.h"
#include "proto/attach.h"
#include "proto/qp.h"
#include "queue/words.h"
#include "proto/wqe.h"

#define HANDLES_AT_ONCE 256

static void *next_object(const struct simhca_context *context, enum simhca_object_type type,
			 uint32_t *handle)
{
	const struct simhca_handles *handles = &context->handles[type];

	for (; *handle < handles->room; (*handle)++)
		if (handles->slot[*handle])
			return handles->slot[*handle];
	return NULL;
}

bool simhca_context_carried(const struct simhca_context *context, uint32_t *handle,
			    uint32_t *carried)
{
	const struct simhca_handles *handles = &context->handles[SIMHCA_OBJ_QP];

	for (unsigned int i = 0; i < HANDLES_AT_ONCE; i++, (*handle)++) {
		const struct simhca_qp *qp;

		if (*handle >= handles->room)
			return false;
		qp = handles->slot[*handle];
		*carried += qp && atomic_load(&qp->fastpath.attached) &&
			    atomic_load(&qp->qpc->fastpath_epoch);
	}
	return true;
}

/* What a client has posted and nobody has taken; it may say anything. */
static uint32_t queued(uint32_t pi, uint32_t ci, uint32_t most)
{
	uint32_t count = pi - ci;

	return count < most ? count : most;
}

static uint32_t queued_to(const struct simhca_srq_view *queue, uint32_t most)
{
	uint32_t ci, waiting;

	return simhca_srq_waiting(queue, &ci, &waiting) && waiting < most ? waiting : most;
}

/* Whether another handle of this XRC_RECV QP is the one that shows it: the oldest. */
static bool is_further(const struct simhca_qp *qp, const struct simhca_context *context,
		       uint32_t handle)
{
	const struct simhca_qp_open *open = qp->xrc.opens;

	if (!open)
		return false;
	while (open->next)
		open = open->next;
	return open->context != context || open->handle != handle;
}

/* As it was committed last; clients can write it. */
static void progress(const struct simhca_qp *qp, struct simhca_qp_info *info)
{
	const struct simhca_qp_mem *mem = qp->mem;
	struct simhca_requester req;
	struct simhca_responder resp;

	if (!qp->context || !mem)
		return;
	simhca_progress_show_requester(mem, &req);
	info->sends = queued(simhca_progress_sq_pi(mem), req.oldest, qp->sq_entries);
	info->wait = req.wait;
	simhca_progress_show_responder(mem, &resp);
	info->handled = resp.msn;
	info->recvs = qp->rq_view.mem
			      ? queued_to(&qp->rq_view, qp->rq_entries)
			      : queued(simhca_progress_rq_pi(mem), resp.rq_ci, qp->rq_entries);
}

static const struct simhca_device *peer_device(const struct simhca_qp *qp)
{
	const bool is_connected = qp->type == SIMHCA_QPT_RC || qp->type == SIMHCA_QPT_XRC_SEND;
	const struct simhca_qp *peer =
		is_connected && !qp->link->remote ? simhca_link_peer(qp) : NULL;

	return peer ? peer->device : NULL;
}

bool simhca_next_qp(const struct simhca_context *context, uint32_t *handle,
		    struct simhca_qp_info *info)
{
	const struct simhca_qp *qp;

	if (context->efa) {
		void *efa_qp = next_object(context, SIMHCA_OBJ_EFA_QP, handle);

		if (efa_qp)
			simhca_efa_qp_info(efa_qp, info);
		return efa_qp;
	}
	qp = next_object(context, SIMHCA_OBJ_QP, handle);
	if (!qp)
		return false;
	*info = (struct simhca_qp_info){
		.qpn = qp->qpn,
		.type = qp->type,
		.state = simhca_qp_state(qp),
		.pd = qp->qpc->pd,
		.unknown_access = simhca_unknown_access(qp->qpc->access),
		.dest_qpn = qp->qpc->dest_qpn,
		.rq_psn = qp->qpc->rq_psn,
		.sq_psn = qp->qpc->sq_psn,
		.port = qp->qpc->port_num,
		.srqn = qp->srq ? qp->srq->srqn : 0,
		.further = is_further(qp, context, *handle),
		.fast_path = qp->fastpath.steps.mem,
	};
	simhca_usage_sum(qp->usage, &info->usage);
	simhca_fastpath_usage(qp, &info->usage);
	info->max_send_wr = qp->qpc->max_send_wr;
	info->most_unsignaled =
		atomic_load_explicit(&qp->usage->most_unsignaled, memory_order_relaxed);
	info->too_early = atomic_load_explicit(&qp->usage->too_early, memory_order_relaxed);
	progress(qp, info);
	if (info->wait != SIMHCA_WAIT_NOTHING)
		info->peer_device = peer_device(qp);
	if (info->fast_path) {
		const struct simhca_fastpath *mem = qp->fastpath.steps.mem;

		info->by_fast_path = atomic_load_explicit(&mem->messages, memory_order_relaxed);
		info->events_raised =
			atomic_load_explicit(&mem->events_raised, memory_order_relaxed);
		for (int i = 0; i < SIMHCA_SLOW_REASONS; i++)
			info->handed[i] =
				atomic_load_explicit(&mem->handed[i], memory_order_relaxed);
	}
	for (int i = 0; i < SIMHCA_OWN_ACCESSES; i++) {
		info->faults[i] = atomic_load_explicit(&qp->faults.count[i], memory_order_relaxed);
		info->fault_pending[i] = simhca_fault_under_way(&qp->faults, i);
	}
	return true;
}

#define QPS_LOOKED_AT 64u
#define CQS_LOOKED_AT 64u

/*
 * Whether the QP has sent, all of that has completed, and the last of it was a plain RDMA WRITE, a
 * read or an atomic, of which its peer learns nothing.
 */
static bool has_accessed(const struct simhca_qp *qp, struct simhca_send *send)
{
	struct simhca_requester req;

	if (!simhca_qp_sends_in(qp, SIMHCA_QPS_RTS))
		return false;
	simhca_progress_show_requester(qp->mem, &req);
	/* The slot before the next WQE still has the last one, as nothing was posted since. */
	return req.oldest && simhca_progress_sq_pi(qp->mem) == req.oldest &&
	       simhca_sq_load(qp, req.oldest - 1, send) == SIMHCA_REASON_NONE &&
	       simhca_op_has(send->wqe.opcode, SIMHCA_OP_REMOTE) &&
	       !simhca_op_has(send->wqe.opcode, SIMHCA_OP_RECEIVE);
}

static uint32_t receives_of_srq(struct simhca_srq *srq)
{
	uint32_t posted;

	pthread_mutex_lock(&srq->lock); /* held for moments */
	posted = queued_to(&srq->view, srq->max_wr);
	pthread_mutex_unlock(&srq->lock);
	return posted;
}

static uint32_t receives_of(const struct simhca_qp *qp)
{
	struct simhca_qp_info info = { 0 };

	if (qp->srq)
		return receives_of_srq(qp->srq);
	progress(qp, &info);
	return info.recvs;
}

/* owner: who has opened the device, and should post receives. */
static void name_peer(const struct simhca_qp *peer, const struct simhca_context *owner,
		      struct simhca_in_vain *in_vain)
{
	in_vain->peer_qpn = peer->qpn;
	in_vain->peer_pid = owner->pid;
	memcpy(in_vain->peer_name, owner->name, sizeof(in_vain->peer_name));
}

/* Of a send that has the whole of the queue's past behind it: which it is. */
static bool name_send(const struct simhca_qp *qp, uint32_t index, enum simhca_in_vain_why why,
		      struct simhca_in_vain *in_vain, struct simhca_send *send)
{
	if (simhca_sq_load(qp, index, send) != SIMHCA_REASON_NONE)
		return false;
	*in_vain = (struct simhca_in_vain){
		.why = why,
		.qpn = qp->qpn,
		.cq = qp->send_cq->number,
		.handled = index,
		.wr_id = send->wqe.wr_id,
		.length = send->length,
		.opcode = send->wqe.opcode,
	};
	return true;
}

/* Its oldest request waits for a receive of the peer's, however long that takes. */
static bool has_no_receive(const struct simhca_qp *qp, struct simhca_in_vain *in_vain)
{
	const bool xrc = qp->type == SIMHCA_QPT_XRC_SEND;
	const struct simhca_qp *peer;
	struct simhca_requester req;
	struct simhca_send send;
	struct simhca_srq *srq;

	if ((qp->type != SIMHCA_QPT_RC && !xrc) || qp->qpc->rnr_retry != 7 ||
	    !simhca_qp_sends_in(qp, SIMHCA_QPS_RTS) ||
	    !atomic_load_explicit(&qp->usage->rnr_naks, memory_order_relaxed))
		return false;
	simhca_progress_show_requester(qp->mem, &req);
	if (simhca_progress_sq_pi(qp->mem) == req.oldest)
		return false;
	peer = simhca_link_peer(qp);
	if (!peer || peer->type != (xrc ? SIMHCA_QPT_XRC_RECV : qp->type) ||
	    !name_send(qp, req.oldest, SIMHCA_NO_RECEIVE, in_vain, &send))
		return false;
	srq = xrc ? simhca_xrc_srq(peer->device, send.wqe.srqn) : peer->srq;
	if ((xrc && !srq) || (!srq && !peer->context) ||
	    (srq ? receives_of_srq(srq) : receives_of(peer)))
		return false;
	name_peer(peer, srq ? srq->context : peer->context, in_vain);
	in_vain->peer_srqn = xrc ? srq->srqn : 0;
	in_vain->limit_spent = srq && srq->limit_spent;
	in_vain->dropped = srq ? 0 : peer->dropped_receives;
	return simhca_op_has(in_vain->opcode, SIMHCA_OP_RECEIVE);
}

/* A request is posted, which the QP begins when it is in RTS again. */
static bool waits_in_sqd(const struct simhca_qp *qp, struct simhca_in_vain *in_vain)
{
	struct simhca_requester req;
	struct simhca_send send;

	if (!simhca_qp_sends_in(qp, SIMHCA_QPS_SQD))
		return false;
	simhca_progress_show_requester(qp->mem, &req);
	return simhca_progress_sq_pi(qp->mem) != req.oldest + req.count &&
	       name_send(qp, req.oldest + req.count, SIMHCA_IN_SQD, in_vain, &send);
}

/* Whether something of the QP's that is posted completes at that CQ. */
static bool has_posted_to(const struct simhca_qp *qp, uint32_t cq)
{
	struct simhca_qp_info info = { 0 };

	progress(qp, &info);
	return (info.sends && qp->send_cq && qp->send_cq->number == cq) ||
	       (simhca_recv_cq(qp, qp->srq) && simhca_recv_cq(qp, qp->srq)->number == cq &&
		receives_of(qp));
}

/* Nothing that is posted completes at that CQ, as far as is looked. */
static bool gets_no_completion(const struct simhca_context *context, uint32_t cq)
{
	for (uint32_t handle = 0, n = 0; n < QPS_LOOKED_AT; handle++, n++) {
		const struct simhca_qp *qp = next_object(context, SIMHCA_OBJ_QP, &handle);

		if (!qp)
			return true;
		if (has_posted_to(qp, cq))
			return false;
	}
	return false;
}

/* It has posted nothing since it went to RESET, which dropped what had not completed. */
static bool has_dropped_sends(const struct simhca_context *context, const struct simhca_qp *qp,
			      struct simhca_in_vain *in_vain)
{
	if (!qp->dropped_sends || simhca_progress_sq_pi(qp->mem) ||
	    !gets_no_completion(context, qp->send_cq->number))
		return false;
	*in_vain = (struct simhca_in_vain){
		.why = SIMHCA_SENDS_DROPPED,
		.qpn = qp->qpn,
		.cq = qp->send_cq->number,
		.dropped = qp->dropped_sends,
	};
	return true;
}

/* A QP that could be used, and has nothing posted; nor has another one that completes there. */
static bool has_nothing_posted(const struct simhca_context *context, const struct simhca_qp *qp,
			       struct simhca_in_vain *in_vain)
{
	const uint32_t state = simhca_qp_state(qp);
	struct simhca_qp_info info = { 0 };

	if (!qp->mem || !qp->send_cq || !qp->recv_cq || qp->type == SIMHCA_QPT_RAW_PACKET ||
	    (state != SIMHCA_QPS_RTR && state != SIMHCA_QPS_RTS && !qp->dropped_receives) ||
	    !gets_no_completion(context, qp->recv_cq->number))
		return false;
	progress(qp, &info);
	*in_vain = (struct simhca_in_vain){
		.why = SIMHCA_NOTHING_POSTED,
		.qpn = qp->qpn,
		.cq = qp->recv_cq->number,
		.handled = info.handled,
		.dropped = qp->dropped_receives,
	};
	return true;
}

/* Its last send gave no completion, and nothing that is posted will give one there. */
static bool was_not_signaled(const struct simhca_context *context, const struct simhca_qp *qp,
			     struct simhca_in_vain *in_vain)
{
	struct simhca_requester req;
	struct simhca_send send;

	if (!simhca_qp_sends_in(qp, SIMHCA_QPS_RTS))
		return false;
	simhca_progress_show_requester(qp->mem, &req);
	return req.oldest && simhca_progress_sq_pi(qp->mem) == req.oldest &&
	       name_send(qp, req.oldest - 1, SIMHCA_NOT_SIGNALED, in_vain, &send) &&
	       !(send.wqe.flags & SIMHCA_WQE_SIGNALED) && gets_no_completion(context, in_vain->cq);
}

static bool gets_no_message(const struct simhca_qp *qp, struct simhca_in_vain *in_vain)
{
	struct simhca_qp_info info = { 0 };
	const struct simhca_qp *peer;
	struct simhca_send send;
	bool orphaned, accessed;

	if (qp->type != SIMHCA_QPT_RC && qp->type != SIMHCA_QPT_UC)
		return false;
	peer = simhca_link_peer(qp);
	if (!peer || peer->type != qp->type)
		return false;
	orphaned = atomic_load_explicit(&peer->context->orphaned, memory_order_relaxed);
	accessed = !orphaned && has_accessed(peer, &send);
	progress(qp, &info);
	if (info.sends || (!orphaned && !accessed))
		return false;
	*in_vain = (struct simhca_in_vain){
		.why = orphaned ? SIMHCA_PEER_ORPHANED : SIMHCA_PLAIN_WRITE,
		.qpn = qp->qpn,
		.cq = simhca_recv_cq(qp, qp->srq)->number,
		.receives = qp->srq ? receives_of_srq(qp->srq) : info.recvs,
		.handled = info.handled,
		.wr_id = accessed ? send.wqe.wr_id : 0,
		.length = accessed ? send.length : 0,
		.opcode = accessed ? send.wqe.opcode : 0,
	};
	name_peer(peer, peer->context, in_vain);
	/* Who has no receives does not wait for a message. A write it may well wait for. */
	return accessed || in_vain->receives;
}

/* Whether it waits for messages of a QP that is not there, or that has failed. */
static bool has_no_peer(const struct simhca_qp *qp, bool *in_error)
{
	uint32_t state = simhca_qp_state(qp);
	const struct simhca_qp *peer;

	if ((qp->type != SIMHCA_QPT_RC && qp->type != SIMHCA_QPT_UC) || qp->link->remote ||
	    (state != SIMHCA_QPS_RTR && state != SIMHCA_QPS_RTS))
		return false;
	peer = simhca_link_find(qp->device, &qp->qpc->av, qp->qpc->dest_qpn);
	*in_error = peer && simhca_qp_state(peer) == SIMHCA_QPS_ERR;
	return !peer || *in_error;
}

/* Likewise, and nothing else that is posted completes where its receives do. */
static bool waits_for_nobody(const struct simhca_context *context, const struct simhca_qp *qp,
			     struct simhca_in_vain *in_vain)
{
	bool in_error, of_other;
	const uint32_t receives = has_no_peer(qp, &in_error) ? receives_of(qp) : 0;
	struct simhca_qp_info info = { 0 };
	const struct simhca_qp *other;

	if (!receives)
		return false;
	progress(qp, &info);
	*in_vain = (struct simhca_in_vain){
		.why = in_error ? SIMHCA_PEER_IN_ERROR : SIMHCA_NO_PEER,
		.qpn = qp->qpn,
		.cq = simhca_recv_cq(qp, qp->srq)->number,
		.receives = receives,
		.handled = info.handled,
		.peer_qpn = qp->qpc->dest_qpn,
	};
	for (uint32_t handle = 0, n = 0; n < QPS_LOOKED_AT; handle++, n++) {
		other = next_object(context, SIMHCA_OBJ_QP, &handle);
		if (!other)
			return true;
		if (has_posted_to(other, in_vain->cq) && !has_no_peer(other, &of_other))
			return false;
	}
	return false;
}

/* What was found of that CQ; NULL: nothing. */
static struct simhca_in_vain *found_of(struct simhca_in_vain *found, uint32_t count, uint32_t cq)
{
	for (uint32_t i = 0; i < count; i++)
		if (found[i].cq == cq)
			return &found[i];
	return NULL;
}

/* CQs of which nothing else was found; of several QPs, one that had something posted. */
static uint32_t find_nothing_posted(const struct simhca_context *context,
				    struct simhca_in_vain *found, uint32_t count, uint32_t room)
{
	for (uint32_t handle = 0, n = 0; n < QPS_LOOKED_AT && count < room; handle++, n++) {
		const struct simhca_qp *qp = next_object(context, SIMHCA_OBJ_QP, &handle);
		struct simhca_in_vain *before, one;

		if (!qp)
			break;
		if (qp->context != context || !has_nothing_posted(context, qp, &one))
			continue;
		before = found_of(found, count, one.cq);
		if (!before)
			found[count++] = one;
		else if (before->why == SIMHCA_NOTHING_POSTED && one.dropped)
			*before = one;
	}
	return count;
}

/* CQs that had a QP which was destroyed before all of its sends' completions were polled. */
static uint32_t find_destroyed(const struct simhca_context *context, struct simhca_in_vain *found,
			       uint32_t count, uint32_t room)
{
	for (uint32_t handle = 0, n = 0; n < CQS_LOOKED_AT && count < room; handle++, n++) {
		const struct simhca_cq *cq = next_object(context, SIMHCA_OBJ_CQ, &handle);

		if (!cq)
			break;
		if (cq->dropped.sends && gets_no_completion(context, cq->number))
			found[count++] = (struct simhca_in_vain){
				.why = SIMHCA_QP_DESTROYED,
				.qpn = cq->dropped.qpn,
				.cq = cq->number,
				.dropped = cq->dropped.sends,
			};
	}
	return count;
}

uint32_t simhca_find_in_vain(struct simhca_context *context, struct simhca_in_vain *found,
			     uint32_t room)
{
	uint32_t count = 0;

	for (uint32_t handle = 0, n = 0; n < QPS_LOOKED_AT && count < room; handle++, n++) {
		const struct simhca_qp *qp = next_object(context, SIMHCA_OBJ_QP, &handle);

		if (!qp)
			break;
		if (qp->context != context)
			continue;
		count += gets_no_message(qp, &found[count]) ||
			 waits_for_nobody(context, qp, &found[count]);
		if (count < room)
			count += has_no_receive(qp, &found[count]) ||
				 waits_in_sqd(qp, &found[count]) ||
				 has_dropped_sends(context, qp, &found[count]) ||
				 was_not_signaled(context, qp, &found[count]);
	}
	count = find_destroyed(context, found, count, room);
	return find_nothing_posted(context, found, count, room);
}

uint64_t simhca_context_registered(const struct simhca_context *context)
{
	return context->registered;
}

void simhca_context_past(const struct simhca_context *context, struct simhca_usage_sum *sum)
{
	*sum = context->past;
}

bool simhca_context_posted(const struct simhca_context *context, uint32_t qpn, uint32_t srqn,
			   uint32_t *posted)
{
	const struct simhca_qp *qp = simhca_qp_numbered(context->device, qpn);
	const struct simhca_srq *srq;

	if (!qp)
		return false;
	if (qp->type == SIMHCA_QPT_XRC_RECV) {
		srq = simhca_xrc_srq(context->device, srqn);
		if (!srq || srq->context != context)
			return false;
		*posted = simhca_srq_posted(&srq->view);
		return true;
	}
	if (qp->context != context)
		return false;
	*posted = simhca_posted_receives(qp);
	return true;
}

void *simhca_qp_arg(const struct simhca_device *device, uint32_t qpn)
{
	const struct simhca_qp *qp = simhca_qp_numbered(device, qpn);

	if (!qp || qp->type == SIMHCA_QPT_XRC_RECV)
		return NULL;
	return qp->context->arg;
}

/* On-chip memory and files are mapped by the device itself, and are nobody's. */
static pid_t owner_of(const struct simhca_key *region)
{
	if (region->home)
		return region->home->pid;
	return region->dm_users || region->of_file ? 0 : region->mm->pid;
}

bool simhca_next_mr(struct simhca_context *context, uint32_t *handle, struct simhca_mr_info *info)
{
	const struct simhca_key *region = next_object(context, SIMHCA_OBJ_MR, handle);
	const struct simhca_watch *watch;

	if (!region)
		return false;
	watch = region->watch;
	*info = (struct simhca_mr_info){
		.number = region->index,
		.key = region->mpt->key,
		.pd = region->mpt->pd,
		.used = atomic_load_explicit(&region->used, memory_order_relaxed),
		.stale = watch ? atomic_load_explicit(&watch->used, memory_order_relaxed) : 0,
		.pid = (uint32_t)owner_of(region),
		.mappable = region->file.owner,
	};
	simhca_query_mr(context, *handle, &info->attr, NULL);
	return true;
}

bool simhca_next_pd(const struct simhca_context *context, uint32_t *handle,
		    struct simhca_pd_info *info)
{
	const struct simhca_pd *pd = next_object(context, SIMHCA_OBJ_PD, handle);

	if (!pd)
		return false;
	*info = (struct simhca_pd_info){ .number = pd->number, .users = simhca_pd_users(pd) };
	return true;
}

#define CQES_SHOWN 64 /* of a CQ, that are looked at */

/* Whether one of the oldest completions that wait is of a receive. */
static bool holds_receive(const struct simhca_cq_view *cq, uint32_t waiting)
{
	uint32_t first = simhca_cq_consumer(cq);

	for (uint32_t i = 0; i < waiting && i < CQES_SHOWN; i++) {
		struct simhca_cqe cqe;

		simhca_words_get(&cqe, simhca_cq_slot(cq, first + i), sizeof(cqe));
		if (cqe.flags & SIMHCA_CQE_RECV)
			return true;
	}
	return false;
}

bool simhca_next_cq(const struct simhca_context *context, uint32_t *handle,
		    struct simhca_cq_info *info)
{
	uint32_t waiting, arm;
	struct simhca_cq *cq;

	if (context->efa) {
		void *efa_cq = next_object(context, SIMHCA_OBJ_EFA_CQ, handle);

		if (efa_cq)
			simhca_efa_cq_info(efa_cq, info);
		return efa_cq;
	}
	cq = next_object(context, SIMHCA_OBJ_CQ, handle);
	if (!cq)
		return false;
	pthread_mutex_lock(&cq->lock); /* held for moments */
	waiting = simhca_cq_occupied(&cq->view, simhca_cq_producer(&cq->view));
	arm = atomic_load_explicit(&cq->view.mem->arm, memory_order_relaxed);
	*info = (struct simhca_cq_info){
		.number = cq->number,
		.cqe = cq->view.cqe,
		.users = cq->users,
		.waiting = waiting < cq->view.cqe ? waiting : cq->view.cqe,
		.most_waiting = cq->most_waiting,
		.most_feeds = cq->most_feeds,
		.polled = simhca_cq_consumer(&cq->view),
		.empty_polls =
			atomic_load_explicit(&cq->view.mem->empty_polls, memory_order_relaxed),
		.arm = arm & SIMHCA_ARM_BITS,
		.was_armed = arm != 0,
		.holds_receive = waiting && holds_receive(&cq->view, waiting),
		.overrun = cq->overrun,
		.channel = cq->channel,
	};
	pthread_mutex_unlock(&cq->lock);
	return true;
}

bool simhca_next_srq(const struct simhca_context *context, uint32_t *handle,
		     struct simhca_srq_info *info)
{
	struct simhca_srq *srq = next_object(context, SIMHCA_OBJ_SRQ, handle);
	uint32_t posted;

	if (!srq)
		return false;
	pthread_mutex_lock(&srq->lock); /* held for moments */
	posted = queued_to(&srq->view, srq->max_wr);
	*info = (struct simhca_srq_info){
		.number = srq->srqn,
		.type = srq->type,
		.pd = srq->pd->number,
		.cq = srq->cq ? srq->cq->number : 0,
		.max_wr = srq->max_wr,
		.posted = posted,
		.limit = srq->limit,
		.unused_limit = srq->unused_limit,
		.users = srq->users,
	};
	pthread_mutex_unlock(&srq->lock);
	return true;
}

uint32_t simhca_srq_qps(const struct simhca_context *context, uint32_t handle, uint32_t *qpn,
			uint32_t room)
{
	const struct simhca_srq *srq = simhca_handle_get(&context->handles[SIMHCA_OBJ_SRQ], handle);
	uint32_t found = 0;

	if (!srq)
		return 0;
	if (room > srq->users)
		room = srq->users;
	for (uint32_t i = 0; found < room; i++) {
		const struct simhca_qp *qp = next_object(context, SIMHCA_OBJ_QP, &i);

		if (!qp)
			break;
		if (qp->srq == srq)
			qpn[found++] = qp->qpn;
	}
	return found;
}
