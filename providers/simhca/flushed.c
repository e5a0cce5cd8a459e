/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Completions in software. When the device is gone, every work request that it has not completed
 * is completed here as flushed, once, so that a program which waits for them ends in an orderly
 * way. Those that wait in an SRQ as well, which no flush of one QP touches: a device that is gone
 * is the end of all its QPs, and a program that polls for receives has nothing else to go by.
 */
#include <string.h>

#include "provider.h"

static const uint8_t completion_of[] = {
	[SIMHCA_WR_RDMA_WRITE] = SIMHCA_WC_RDMA_WRITE,
	[SIMHCA_WR_RDMA_WRITE_WITH_IMM] = SIMHCA_WC_RDMA_WRITE,
	[SIMHCA_WR_SEND] = SIMHCA_WC_SEND,
	[SIMHCA_WR_SEND_WITH_IMM] = SIMHCA_WC_SEND,
	[SIMHCA_WR_RDMA_READ] = SIMHCA_WC_RDMA_READ,
	[SIMHCA_WR_ATOMIC_CMP_AND_SWP] = SIMHCA_WC_COMP_SWAP,
	[SIMHCA_WR_ATOMIC_FETCH_AND_ADD] = SIMHCA_WC_FETCH_ADD,
	[SIMHCA_WR_LOCAL_INV] = SIMHCA_WC_LOCAL_INV,
	[SIMHCA_WR_BIND_MW] = SIMHCA_WC_BIND_MW,
	[SIMHCA_WR_SEND_WITH_INV] = SIMHCA_WC_SEND,
	[SIMHCA_WR_FLUSH] = SIMHCA_WC_FLUSH,
	[SIMHCA_WR_ATOMIC_WRITE] = SIMHCA_WC_ATOMIC_WRITE,
	[SIMHCA_WR_FAST_REG] = SIMHCA_WC_FAST_REG,
	[SIMHCA_WR_RDMA_READ_WITH_INV] = SIMHCA_WC_RDMA_READ,
};

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
	fill_cqe(cqe, qp->vqp.qp.qp_num, wqe->wr_id,
		 completion_of[wqe->opcode % sizeof(completion_of)]);
	cqe->wqe_index = tail;
	return true;
}

static bool flush_recv(const struct shca_qp *qp, struct simhca_cqe *cqe)
{
	uint32_t tail = atomic_load_explicit(&qp->rq.tail, memory_order_relaxed);

	if (qp->srq || !shca_rq_pending(qp))
		return false;
	fill_cqe(cqe, qp->vqp.qp.qp_num, shca_rq_wqe(&qp->rq, tail)->wr_id, SIMHCA_WC_RECV);
	cqe->flags = SIMHCA_CQE_RECV;
	return true;
}

/* The device's index of the SRQ is ours now: whoever moves it has the WQE. */
static bool flush_srq(struct shca_srq *srq, uint32_t qpn, struct simhca_cqe *cqe)
{
	uint64_t head = atomic_load(&srq->mem->head);
	uint32_t ci, pending;

	do {
		ci = (uint32_t)head;
		pending = atomic_load_explicit(&srq->mem->pi, memory_order_acquire) - ci;
		if (!pending || pending > srq->rq.max_wr)
			return false;
	} while (!atomic_compare_exchange_weak(&srq->mem->head, &head, ci + 1));
	fill_cqe(cqe, qpn, shca_rq_wqe(&srq->rq, ci)->wr_id, SIMHCA_WC_RECV);
	cqe->flags = SIMHCA_CQE_RECV | SIMHCA_CQE_SRQ | (srq->vsrq.cq ? SIMHCA_CQE_SRQ_CQ : 0);
	cqe->wqe_index = srq->vsrq.srq_num;
	return true;
}

/* An SRQ with a CQ of its own completes there, whichever QP uses it. */
static bool completes_with_qp(const struct shca_srq *srq)
{
	return srq && !srq->vsrq.cq;
}

/* Make the completion of one outstanding work request of this CQ; the caller retires it. */
bool shca_flush_one(struct shca_cq *cq, struct simhca_cqe *cqe)
{
	struct shca_srq *srq;
	struct shca_qp *qp;

	for (qp = LIST_FIRST(&cq->senders); qp; qp = LIST_NEXT(qp, send_link))
		if (flush_send(qp, cqe))
			return true;
	for (qp = LIST_FIRST(&cq->receivers); qp; qp = LIST_NEXT(qp, recv_link))
		if (flush_recv(qp, cqe) ||
		    (completes_with_qp(qp->srq) && flush_srq(qp->srq, qp->vqp.qp.qp_num, cqe)))
			return true;
	for (srq = LIST_FIRST(&cq->srqs); srq; srq = LIST_NEXT(srq, cq_link))
		if (flush_srq(srq, 0, cqe)) /* of no QP in particular */
			return true;
	return false;
}
