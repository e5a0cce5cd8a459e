/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What completes in a CQ: QPs, work queues and SRQs come and go, and their completions with them. */
#include "objects.h"
#include "queues.h"
#include "verbs.h"

/* A QP has both CQs, a WQ one to receive, an RSS QP none. */
static struct shca_cq *send_cq_of(const struct shca_qp *qp)
{
	return qp->vqp.qp.send_cq ? to_scq(qp->vqp.qp.send_cq) : NULL;
}

/* NULL also for an XRC_SEND QP, whatever CQ its creator named. */
static struct shca_cq *recv_cq_of(const struct shca_qp *qp)
{
	if (!qp->vqp.qp.recv_cq || qp->vqp.qp.qp_type == IBV_QPT_XRC_SEND)
		return NULL;
	return to_scq(qp->vqp.qp.recv_cq);
}

/* To change what uses it. */
static void lock_users(struct shca_cq *cq)
{
	struct shca_chain *const lists[] = { &cq->senders, &cq->receivers, &cq->srqs };

	shca_cq_lock(cq);
	shca_chains_inherit(&cq->lists_of, lists, 3);
}

void shca_cq_attach_qp(struct shca_qp *qp)
{
	struct shca_cq *send_cq = send_cq_of(qp), *recv_cq = recv_cq_of(qp);

	shca_qp_table_set_send_cq(qp, send_cq);
	shca_qp_table_set_recv_cq(qp, recv_cq);
	if (send_cq) {
		lock_users(send_cq);
		shca_chain_add(&send_cq->senders, &qp->send_link);
		shca_cq_unlock(send_cq);
	}
	if (recv_cq) {
		lock_users(recv_cq);
		shca_chain_add(&recv_cq->receivers, &qp->recv_link);
		shca_cq_unlock(recv_cq);
	}
}

/* Consumes the void CQEs at the front at once, so that they take no room from others. */
static void skip_void_cqes(struct shca_cq *cq)
{
	struct simhca_cqe *cqe;
	uint32_t count;

	SHCA_CQ_FOREACH(cq, cqe, count)
	if (cqe->qpn != SIMHCA_VOID_QPN)
		break;
	cq->ci += count;
	shca_cq_publish_ci(cq);
}

/* Make the CQEs of this QP void. The device writes no more of them. */
static void void_cqes(struct shca_cq *cq, struct shca_qp *qp)
{
	struct simhca_cqe *cqe;
	uint32_t i;

	SHCA_CQ_FOREACH(cq, cqe, i)
	{
		if (cqe->qpn != qp->vqp.qp.qp_num)
			continue;
		if (qp->srq && (cqe->flags & SIMHCA_CQE_SRQ)) {
			shca_rq_forget_record(&qp->srq->rq, cqe->wqe_index);
			shca_srq_release(qp->srq);
		}
		cqe->qpn = SIMHCA_VOID_QPN;
	}
	skip_void_cqes(cq);
}

/* After this no poll sees the QP any more. */
void shca_cq_detach_qp(struct shca_qp *qp)
{
	struct shca_cq *send_cq = send_cq_of(qp), *recv_cq = recv_cq_of(qp);

	if (send_cq) {
		lock_users(send_cq);
		void_cqes(send_cq, qp);
		shca_chain_remove(&qp->send_link);
		shca_qp_table_set_send_cq(qp, NULL);
		shca_cq_unlock(send_cq);
	}
	if (recv_cq) {
		lock_users(recv_cq);
		if (recv_cq != send_cq)
			void_cqes(recv_cq, qp);
		shca_chain_remove(&qp->recv_link);
		shca_qp_table_set_recv_cq(qp, NULL);
		shca_cq_unlock(recv_cq);
	}
}

/*
 * The QP starts over: its completions are gone and its rings are empty from index 0. Each tail
 * belongs to the poller of its CQ.
 */
void shca_cq_reset_qp(struct shca_qp *qp)
{
	struct shca_cq *send_cq = send_cq_of(qp), *recv_cq = recv_cq_of(qp);

	if (send_cq) {
		shca_cq_lock(send_cq);
		void_cqes(send_cq, qp);
		shca_page_lists_return(&qp->sq, 0, qp->sq.mask + 1);
		atomic_store_explicit(&qp->sq.posted, 0, memory_order_relaxed);
		atomic_store_explicit(&qp->sq.tail, 0, memory_order_release);
		shca_cq_unlock(send_cq);
	}
	if (recv_cq) {
		shca_cq_lock(recv_cq);
		if (recv_cq != send_cq)
			void_cqes(recv_cq, qp);
		atomic_store_explicit(&qp->rq.posted, 0, memory_order_relaxed);
		atomic_store_explicit(&qp->rq.tail, 0, memory_order_release);
		shca_cq_unlock(recv_cq);
	}
}

void shca_cq_attach_srq(struct shca_cq *cq, struct shca_srq *srq)
{
	lock_users(cq);
	shca_chain_add(&cq->srqs, &srq->cq_link);
	shca_cq_unlock(cq);
}

/* An SRQ that completes here goes, and its completions with it; their QPs may be others'. */
void shca_cq_detach_srq(struct shca_cq *cq, struct shca_srq *srq)
{
	struct simhca_cqe *cqe;
	uint32_t i;

	lock_users(cq);
	SHCA_CQ_FOREACH(cq, cqe, i)
	if ((cqe->flags & SIMHCA_CQE_SRQ_CQ) && shca_cq_srq(cq, cqe) == srq)
		cqe->qpn = SIMHCA_VOID_QPN;
	skip_void_cqes(cq);
	shca_chain_remove(&srq->cq_link);
	shca_cq_unlock(cq);
}
