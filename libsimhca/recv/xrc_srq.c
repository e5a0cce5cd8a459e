/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * XRC SRQs, as the source of receives of XRC_RECV QPs: each request names the one that it is for
 * (IBTA vol. 1, annex A14).
 */
#include <infiniband/verbs.h>

#include "core/context.h"
#include "core/fabric.h"
#include "simhca-device.h"
#include "proto/cq.h"
#include "proto/flush.h"
#include "packet/packet.h"
#include "proto/qp.h"
#include "proto/srq.h"
#include "proto/owner.h"
#include "xrc.h"

/*
 * The packets of a message are all for one SRQ: if a later one says otherwise it is refused. What
 * is repeated stands for itself.
 */
static const struct simhca_context *find(struct simhca_qp *qp, const struct simhca_packet *packet)
{
	uint32_t srqn = packet ? packet->srqn : qp->resp.read.srqn;

	if (packet && packet->psn == qp->resp.epsn) {
		if (!qp->resp.in_message && !qp->resp.have_recv)
			qp->resp.srqn = srqn;
		srqn = qp->resp.srqn;
	}
	qp->responder.srq = simhca_xrc_srq(qp->device, srqn);
	if (!qp->responder.srq)
		return NULL;
	qp->responder.key_pd = qp->responder.srq->pd->number;
	return qp->responder.srq->context;
}

static enum simhca_reason admit(struct simhca_qp *qp, const struct simhca_packet *packet,
				bool repeated, enum simhca_syndrome *nak)
{
	const struct simhca_srq *srq = qp->responder.srq;

	if (!repeated && packet->srqn != qp->resp.srqn) {
		*nak = SIMHCA_SYNDROME_NAK_INVALID;
		return SIMHCA_REASON_OPCODE_SEQUENCE;
	}
	if (!srq) {
		if (!repeated) /* a receive went with the SRQ that it was consumed from */
			qp->resp.have_recv = false;
		return SIMHCA_REASON_XRC_NO_SRQ;
	}
	if (srq->domain->xrcd != qp->xrc.domain)
		return SIMHCA_REASON_XRC_OTHER_DOMAIN;
	if (atomic_load_explicit(&srq->cq->view.mem->overrun, memory_order_relaxed)) {
		*nak = SIMHCA_SYNDROME_NAK_OPERATIONAL;
		return SIMHCA_REASON_XRC_CQ_ERROR;
	}
	return SIMHCA_REASON_NONE;
}

/* It is the SRQ that may be broken, and so its owner's. */
static enum simhca_consume consume(struct simhca_worker *worker, struct simhca_qp *qp,
				   const struct simhca_packet *packet)
{
	struct simhca_srq *srq = qp->responder.srq;
	enum simhca_consume result = simhca_srq_consume(srq, qp);

	(void)worker;
	(void)packet;
	if (result != SIMHCA_CONSUME_CORRUPT)
		return result;
	simhca_async_event(srq->context, srq->user_handle, srq->srqn, IBV_EVENT_SRQ_ERR);
	return SIMHCA_CONSUME_BROKEN;
}

static bool complete(struct simhca_qp *qp, struct simhca_cqe *cqe)
{
	const struct simhca_srq *srq = qp->responder.srq;

	if (!srq) /* the receive went with it */
		return true;
	cqe->flags |= SIMHCA_CQE_SRQ | SIMHCA_CQE_SRQ_CQ;
	cqe->wqe_index = srq->srqn;
	return simhca_cq_push_commit(srq->cq, cqe, qp, simhca_responder_commit_cqe);
}

static void flush(struct simhca_qp *qp)
{
	struct simhca_srq *found = qp->responder.srq;

	/* From a control function there is no step that has looked it up. */
	if (!found && qp->resp.have_recv)
		qp->responder.srq = simhca_xrc_srq(qp->device, qp->resp.srqn);
	if (qp->responder.srq)
		simhca_flush_receive(qp);
	qp->responder.srq = found;
	qp->resp.in_message = qp->resp.have_recv = false;
	if (qp->last_wqe_event_due) {
		qp->last_wqe_event_due = false;
		simhca_qp_event(qp, IBV_EVENT_QP_LAST_WQE_REACHED);
	}
}

const struct simhca_recv_source simhca_xrc_receives = {
	.consume = consume,
	.complete = complete,
	.find = find,
	.admit = admit,
	.flush = flush,
	.no_room = SIMHCA_REASON_XRC_CQ_ERROR,
};

static int init(struct simhca_srq *srq, const struct simhca_create_srq_req *req,
		struct simhca_why *why)
{
	srq->domain = simhca_object(srq->context, SIMHCA_OBJ_XRCD, req->xrcd, why);
	if (!srq->domain)
		return -ENOENT;
	srq->cq = simhca_object(srq->context, SIMHCA_OBJ_CQ, req->cq, why);
	return srq->cq ? 0 : -ENOENT;
}

static void publish(struct simhca_srq *srq)
{
	srq->domain->users++;
	atomic_store(&srq->context->device->srqs[SIMHCA_SRQN_SLOT(srq->srqn)], srq);
}

static int withdraw(struct simhca_srq *srq)
{
	struct simhca_device *device = srq->context->device;

	atomic_store(&device->srqs[SIMHCA_SRQN_SLOT(srq->srqn)], NULL);
	if (!simhca_fabric_synchronize(device->fabric, srq->context->id))
		return -EAGAIN;
	srq->domain->users--;
	return 0;
}

const struct simhca_srq_kind simhca_xrc_srqs = {
	.source = NULL, /* no QP but XRC_RECV ones has receives of it */
	.init = init,
	.publish = publish,
	.withdraw = withdraw,
};
