/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>

#include "cq.h"
#include "core/fabric.h"
#include "engine/engine.h"
#include "qp.h"
#include "renew.h"
#include "simhca-device.h"
#include "simhca-verbs.h"
#include "srq.h"

/* ------------------------------------------------------------------------------- who has it */

static void hand_out(struct simhca_shared *shared)
{
	shared->handed_out = true;
	shared->peers++;
}

void simhca_hand_out(struct simhca_qp *qp)
{
	if (qp->fastpath.handed_out)
		return;
	qp->fastpath.handed_out = true;
	hand_out(&qp->recv_cq->shared);
	if (qp->srq)
		hand_out(&qp->srq->shared);
}

void simhca_hand_back(struct simhca_qp *qp)
{
	if (!qp->fastpath.handed_out)
		return;
	qp->fastpath.handed_out = false;
	qp->recv_cq->shared.peers--;
	if (qp->srq)
		qp->srq->shared.peers--;
}

static bool is_to_be_renewed(const struct simhca_shared *shared, bool one_less)
{
	struct simhca_shared then = *shared;

	if (one_less)
		then.peers--;
	return simhca_is_to_be_renewed(&then);
}

uint32_t simhca_queues_to_renew(const struct simhca_qp *qp, bool as_if_gone)
{
	const bool less = as_if_gone && qp->fastpath.handed_out;
	uint32_t queues = 0;

	if (qp->send_cq &&
	    is_to_be_renewed(&qp->send_cq->shared, less && qp->send_cq == qp->recv_cq))
		queues |= SIMHCA_RENEW_SEND_CQ;
	if (qp->recv_cq && is_to_be_renewed(&qp->recv_cq->shared, less))
		queues |= SIMHCA_RENEW_RECV_CQ;
	if (qp->srq && is_to_be_renewed(&qp->srq->shared, less))
		queues |= SIMHCA_RENEW_SRQ;
	return queues;
}

/* -------------------------------------------------------------------------------- commands */

struct queue {
	struct simhca_cq *cq; /* or NULL: it is an SRQ */
	struct simhca_srq *srq;
	struct simhca_shared *shared;
	uint32_t segment; /* that its state lies in */
};

static int find(struct simhca_context *context, const struct simhca_queue_req *req,
		struct queue *queue, struct simhca_why *why)
{
	*queue = (struct queue){ 0 };
	if (req->kind == SIMHCA_QUEUE_CQ) {
		queue->cq = simhca_object(context, SIMHCA_OBJ_CQ, req->handle, why);
		if (!queue->cq)
			return -ENOENT;
		queue->shared = &queue->cq->shared;
		queue->segment = queue->cq->mem_ref.segment;
		return 0;
	}
	if (req->kind != SIMHCA_QUEUE_SRQ)
		return simhca_why(why, EINVAL, "kind of queue = %u: 0 or 1", req->kind);
	queue->srq = simhca_object(context, SIMHCA_OBJ_SRQ, req->handle, why);
	if (!queue->srq)
		return -ENOENT;
	queue->shared = &queue->srq->shared;
	queue->segment = queue->srq->mem_ref.segment;
	return 0;
}

/* No program begins a step with the queue. */
static void end_fastpath(struct simhca_context *context, const struct queue *queue)
{
	for (uint32_t slot = 0; slot < atomic_load(&context->doorbell_slots); slot++) {
		struct simhca_task *task = atomic_load(&context->doorbell[slot]);
		struct simhca_qp *qp = task ? simhca_qp_of(task) : NULL;

		if (qp && (queue->cq ? qp->send_cq == queue->cq || qp->recv_cq == queue->cq
				     : qp->srq == queue->srq))
			simhca_fastpath_end(qp);
	}
}

int simhca_renew_queue(struct simhca_context *context, const struct simhca_queue_req *req,
		       struct simhca_renew_queue_reply *reply, int *fd, struct simhca_why *why)
{
	struct queue queue;
	int ret = find(context, req, &queue, why);

	if (ret)
		return ret;
	if (!simhca_is_to_be_renewed(queue.shared))
		return simhca_why(why, EINVAL,
				  "nobody has this queue's memory who has no use for it");
	end_fastpath(context, &queue);
	if (!simhca_fabric_synchronize(context->device->fabric, context->id))
		return simhca_why(why, EBUSY, "a step of this program's is under way");
	if (!queue.shared->spare.base) {
		ret = simhca_context_make_spare(context, queue.segment, &queue.shared->spare, why);
		if (ret)
			return ret;
		if (queue.cq)
			simhca_cq_renew(queue.cq);
	}
	reply->size = queue.shared->spare.size;
	*fd = queue.shared->spare.fd;
	return 0;
}

int simhca_move_queue(struct simhca_context *context, const struct simhca_queue_req *req,
		      struct simhca_why *why)
{
	struct queue queue;
	int ret = find(context, req, &queue, why);

	if (ret)
		return ret;
	if (!queue.shared->spare.base)
		return simhca_why(why, EINVAL, "this queue was given no other memory");
	ret = queue.cq ? simhca_cq_move(queue.cq, why) : simhca_srq_move(queue.srq, why);
	if (!ret)
		queue.shared->handed_out = false;
	return ret;
}
