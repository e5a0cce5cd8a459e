/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Completions in software. When the device is gone, every work request that it has not completed
 * is completed here as flushed, once, so that a program which waits for them ends in an orderly
 * way. Those that wait in an SRQ as well, which no flush of one QP touches: a device that is gone
 * is the end of all its QPs, and a program that polls for receives has nothing else to go by.
 */
#include <string.h>

#include "provider.h"
#include "queue/opcode.h"
#include "queue/progress.h"
#include "queue/srq_claim.h"

static void fill_cqe(struct simhca_cqe *cqe, uint32_t qpn, uint64_t wr_id, uint8_t opcode)
{
	memset(cqe, 0, sizeof(*cqe));
	cqe->wr_id = wr_id;
	cqe->qpn = qpn;
	cqe->opcode = opcode;
	cqe->status = SIMHCA_WC_WR_FLUSH_ERR;
	cqe->vendor_err = SIMHCA_REASON_DEVICE_GONE;
}

static bool flush_send(const struct shca_qp *qp, struct simhca_cqe *cqe)
{
	uint32_t tail = atomic_load_explicit(&qp->sq.tail, memory_order_relaxed);
	const struct simhca_send_wqe *wqe;

	if (!shca_sq_pending(qp))
		return false;
	wqe = shca_sq_wqe(&qp->sq, tail);
	fill_cqe(cqe, qp->vqp.qp.qp_num, wqe->wr_id, simhca_opcode(wqe->opcode)->wc);
	cqe->wqe_index = tail;
	return true;
}

/*
 * The device's index of a queue that it consumed from is ours now: whoever moves it has the WQE. A
 * peer that does nothing but move it keeps nobody here: the next poll tries again.
 */
static const struct simhca_recv_wqe *claim(const struct shca_rq *rq, struct simhca_srq_mem *mem)
{
	const struct simhca_srq_view queue = { .mem = mem, .entries = rq->max_wr };
	uint64_t head;

	for (uint32_t tries = 0; tries <= rq->max_wr; tries++) {
		if (simhca_srq_look(&queue, &head))
			return NULL;
		if (simhca_srq_claim(&queue, head, 0))
			return shca_rq_wqe(rq, simhca_srq_ci(head));
	}
	return NULL;
}

/* What the device had consumed and has not completed; so is the responder's state. */
static const struct simhca_recv_wqe *half_done(struct shca_qp *qp)
{
	const struct simhca_srq_view queue = { .mem = qp->claims };
	uint32_t claimed = simhca_srq_claimed(&queue, SIMHCA_CLAIMANT_DEVICE);
	uint32_t generation = simhca_progress_responder_generation(qp->mem);
	struct simhca_responder resp;

	if (!simhca_progress_responder(qp->mem, generation, qp->rq.max_wr, true, &resp) ||
	    (!resp.have_recv && resp.claim == claimed))
		return NULL;
	resp.have_recv = 0;
	resp.claim = claimed;
	simhca_progress_put_responder(qp->mem, generation, &resp);
	return (const struct simhca_recv_wqe *)(qp->mem + 1);
}

/* A queue that is the device's alone it consumes in the order in which receives complete. */
static const struct simhca_recv_wqe *next_recv(struct shca_qp *qp)
{
	const struct simhca_recv_wqe *wqe;

	if (!qp->claims)
		return shca_rq_wqe(&qp->rq,
				   atomic_load_explicit(&qp->rq.tail, memory_order_relaxed));
	wqe = half_done(qp);
	return wqe ? wqe : claim(&qp->rq, qp->claims);
}

static bool flush_recv(struct shca_qp *qp, struct simhca_cqe *cqe)
{
	const struct simhca_recv_wqe *wqe;

	if (qp->srq || !shca_rq_pending(qp))
		return false;
	wqe = next_recv(qp);
	if (!wqe)
		return false;
	fill_cqe(cqe, qp->vqp.qp.qp_num, wqe->wr_id, SIMHCA_WC_RECV);
	cqe->flags = SIMHCA_CQE_RECV;
	cqe->wqe_index = wqe->record;
	return true;
}

static bool flush_srq(struct shca_srq *srq, uint32_t qpn, struct simhca_cqe *cqe)
{
	const struct simhca_recv_wqe *wqe;

	/* A peer can say that more was posted. */
	if (!shca_srq_pending(srq))
		return false;
	wqe = claim(&srq->rq, srq->mem);
	if (!wqe)
		return false;
	fill_cqe(cqe, qpn, wqe->wr_id, SIMHCA_WC_RECV);
	cqe->flags = SIMHCA_CQE_RECV | SIMHCA_CQE_SRQ | (srq->vsrq.cq ? SIMHCA_CQE_SRQ_CQ : 0);
	cqe->wqe_index = srq->vsrq.cq ? srq->vsrq.srq_num : wqe->record;
	return true;
}

/* An SRQ with a CQ of its own completes there, whichever QP uses it. */
static bool completes_with_qp(const struct shca_srq *srq)
{
	return srq && !srq->vsrq.cq;
}

static bool flush_receiver(struct shca_qp *qp, struct simhca_cqe *cqe)
{
	return flush_recv(qp, cqe) ||
	       (completes_with_qp(qp->srq) && flush_srq(qp->srq, qp->vqp.qp.qp_num, cqe));
}

/* Make the completion of one outstanding work request of this CQ, which the caller can retire. */
bool shca_flush_one(struct shca_cq *cq, struct simhca_cqe *cqe)
{
	struct shca_chain *link;

	SHCA_CHAIN_FOREACH(link, &cq->senders)
	if (flush_send(shca_sender(link), cqe))
		return true;
	SHCA_CHAIN_FOREACH(link, &cq->receivers)
	if (flush_receiver(shca_receiver(link), cqe))
		return true;
	SHCA_CHAIN_FOREACH(link, &cq->srqs)
	if (flush_srq(shca_completing_srq(link), 0, cqe)) /* of no QP in particular */
		return true;
	return false;
}
