/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Posting of work request lists. The ibv_wr_*() interface is in wr_ex.c. */
#include "say.h"
#include "wqe.h"

static int push_inline(const struct shca_sq *sq, struct simhca_send_wqe *wqe,
		       const struct ibv_send_wr *wr)
{
	uint32_t used = 0;
	int i, err;

	for (i = 0; i < wr->num_sge; i++) {
		err = shca_wqe_add_inline(sq, wqe, &used,
					  (const void *)(uintptr_t)wr->sg_list[i].addr,
					  wr->sg_list[i].length);
		if (err)
			return err;
	}
	return shca_wqe_end_inline(wqe, used);
}

/* A work request that moves no data: its SGEs, if any, say nothing. */
static int push_no_data(struct shca_sq *sq, const struct ibv_send_wr *wr)
{
	if (wr->send_flags & IBV_SEND_INLINE)
		return EINVAL;
	sq->head++;
	return 0;
}

static int push_bind(struct shca_qp *qp, struct simhca_send_wqe *wqe, const struct ibv_send_wr *wr)
{
	struct ibv_mw *mw = wr->bind_mw.mw;
	int err = shca_check_bind(qp, mw, IBV_MW_TYPE_2, &wr->bind_mw.bind_info);

	if (err)
		return err;
	shca_wqe_set_bind(wqe, mw, wr->bind_mw.rkey, &wr->bind_mw.bind_info);
	err = push_no_data(&qp->sq, wr);
	if (!err)
		mw->rkey = simhca_key_bound(mw->rkey, wr->bind_mw.rkey);
	return err;
}

/* The data of a work request: its SGEs, or what these have. */
static int push_data(struct shca_qp *qp, struct simhca_send_wqe *wqe, const struct ibv_send_wr *wr)
{
	struct shca_sq *sq = &qp->sq;
	int err;

	if (qp->lint && wr->sg_list && !wr->num_sge)
		shca_lint_no_sge(qp, wr);
	if (qp->lint && (wr->send_flags & IBV_SEND_INLINE))
		for (int i = 0; i < wr->num_sge; i++)
			shca_lint_inline(qp, wr->wr_id, (void *)(uintptr_t)wr->sg_list[i].addr,
					 wr->sg_list[i].length);
	if (wr->send_flags & IBV_SEND_INLINE)
		err = push_inline(sq, wqe, wr);
	else /* a negative number is too large a one */
		err = shca_wqe_set_sges(sq, wqe, (size_t)wr->num_sge, wr->sg_list);
	if (!err)
		sq->head++;
	return err;
}

static int set_destination(struct shca_qp *qp, struct simhca_send_wqe *wqe,
			   const struct ibv_send_wr *wr)
{
	if (!wr->wr.ud.ah || shca_ah_is_destroyed(wr->wr.ud.ah))
		return EINVAL;
	shca_wqe_set_ud(wqe, wr->wr.ud.ah, wr->wr.ud.remote_qpn, wr->wr.ud.remote_qkey);
	if (qp->lint)
		shca_lint_address_handle(qp, wr->wr.ud.ah);
	return 0;
}

static int push_send(struct shca_qp *qp, const struct ibv_send_wr *wr)
{
	struct simhca_send_wqe *wqe;
	int err;

	if ((uint32_t)wr->opcode >= SIMHCA_WR_FAST_REG)
		return EINVAL; /* simhcadv_post_*() has those */
	if ((uint32_t)wr->opcode == SIMHCA_WR_FLUSH)
		return EINVAL; /* struct ibv_send_wr cannot say what to flush; ibv_wr_flush() can */
	err = shca_wqe_begin(qp, wr->opcode, wr->wr_id, wr->send_flags, wr->imm_data, &wqe);
	if (err)
		return err;
	if (qp->vqp.qp.qp_type == IBV_QPT_XRC_SEND)
		wqe->srqn = wr->qp_type.xrc.remote_srqn;

	switch ((uint32_t)wr->opcode) {
	case SIMHCA_WR_ATOMIC_WRITE: /* as IBV_WR_ATOMIC_WRITE, which older headers lack */
		if (wr->num_sge < 1)
			return EINVAL;
		/* fallthrough */
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
	case IBV_WR_RDMA_READ:
		shca_wqe_set_rdma(wqe, wr->wr.rdma.remote_addr, wr->wr.rdma.rkey);
		break;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		shca_wqe_set_rdma(wqe, wr->wr.atomic.remote_addr, wr->wr.atomic.rkey);
		wqe->rdma.compare_add = wr->wr.atomic.compare_add;
		wqe->rdma.swap = wr->wr.atomic.swap;
		break;
	case IBV_WR_BIND_MW:
		return push_bind(qp, wqe, wr);
	case IBV_WR_LOCAL_INV:
		return push_no_data(&qp->sq, wr);
	default:
		if (qp->vqp.qp.qp_type == IBV_QPT_UD)
			err = set_destination(qp, wqe, wr);
	}
	return err ? err : push_data(qp, wqe, wr);
}

int shca_post_send(struct ibv_qp *ibv_qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
{
	struct shca_qp *qp = to_sqp(ibv_qp);
	uint32_t head;
	int err;

	shca_sq_lock(qp, "ibv_post_send()");
	head = qp->sq.head;
	err = shca_sq_ready(qp);
	while (wr && !err) {
		err = push_send(qp, wr);
		if (!err)
			wr = wr->next;
	}
	if (err)
		*bad_wr = wr;
	if (qp->sq.head != head)
		shca_sq_publish(qp);
	shca_unlock(&qp->sq.lock);
	if (__builtin_expect(err && wr, 0))
		shca_say_send(qp, wr, err);
	return shca_result(err);
}

static void note_first_buffer(struct shca_rq *rq, struct simhca_recv_wqe *wqe,
			      const struct ibv_recv_wr *wr)
{
	const uint32_t number = rq->head & rq->first_mask;
	struct shca_first_buffer *first = &rq->first[number];

	/* Acquire: the poller is done with the record. */
	if (atomic_load_explicit(&first->used, memory_order_acquire))
		return;
	first->addr = wr->num_sge ? wr->sg_list[0].addr : 0;
	first->length = wr->num_sge ? wr->sg_list[0].length : 0;
	first->lkey = wr->num_sge ? wr->sg_list[0].lkey : 0;
	if (!rq->several)
		return;
	atomic_store_explicit(&first->used, 1, memory_order_release);
	wqe->record = number + 1;
}

static int push_recv(struct shca_rq *rq, const struct ibv_recv_wr *wr)
{
	struct simhca_recv_wqe *wqe;
	size_t num_sge = (size_t)wr->num_sge;

	/* Acquire: the poller is done with the slot. */
	if (rq->head - atomic_load_explicit(&rq->tail, memory_order_acquire) >= rq->max_wr)
		return ENOMEM;
	if (num_sge > rq->max_sge)
		return EINVAL;

	wqe = shca_rq_wqe(rq, rq->head);
	wqe->wr_id = wr->wr_id;
	wqe->num_sge = (uint32_t)num_sge;
	wqe->record = 0;
	if (num_sge)
		memcpy(wqe + 1, wr->sg_list, num_sge * sizeof(*wr->sg_list));
	if (rq->first)
		note_first_buffer(rq, wqe, wr);
	rq->head++;
	return 0;
}

/* Returns 0 or the error at *bad_wr; the WRs before that one are posted. */
static int push_recvs(struct shca_rq *rq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	int err = 0;

	for (; wr; wr = wr->next) {
		err = push_recv(rq, wr);
		if (err) {
			*bad_wr = wr;
			break;
		}
	}
	if (__builtin_expect(rq->lint != NULL, 0))
		shca_lint_receives(rq->lint, rq);
	shca_posts();
	atomic_store_explicit(&rq->posted, rq->head, memory_order_release);
	/* Release: the index becomes visible after the WQEs that it covers. */
	atomic_store_explicit(rq->pi, rq->head, memory_order_release);
	return err;
}

/* To the receive queue of a QP, or that of a WQ. */
int shca_post_rq(struct shca_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	int err;

	if (__builtin_expect(shca_is_fatal(qp->ctx), 0))
		err = EIO;
	else
		err = qp->srq || !qp->rq.pi || shca_qp_state(qp) == SIMHCA_QPS_RESET ? EINVAL : 0;
	if (err) {
		*bad_wr = wr;
		if (wr)
			shca_say_recv(qp->ctx, SIMHCA_SAY_POST_RECV, qp, wr, &qp->rq, err);
		return shca_result(err);
	}

	shca_lock(&qp->rq.lock);
	err = push_recvs(&qp->rq, wr, bad_wr);
	shca_unlock(&qp->rq.lock);
	if (__builtin_expect(err, 0))
		shca_say_recv(qp->ctx, SIMHCA_SAY_POST_RECV, qp, *bad_wr, &qp->rq, err);

	/*
	 * The device looks at receive WQEs when a message comes, so it need not be told, but for
	 * a QP in the error state, where it must flush them. It sets ERR, and then looks at pi to
	 * flush what is there; we set pi, and then look for ERR. With a full barrier between
	 * the two steps of each side, one sees the other.
	 */
	atomic_thread_fence(memory_order_seq_cst);
	if (__builtin_expect(shca_qp_state(qp) == SIMHCA_QPS_ERR, 0))
		shca_ring_doorbell(qp->ctx, qp->doorbell);
	return shca_result(err);
}

int shca_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	return shca_post_rq(to_sqp(qp), wr, bad_wr);
}

int shca_post_srq_recv(struct ibv_srq *ibv_srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	struct shca_srq *srq = to_ssrq(ibv_srq);
	int err;

	if (__builtin_expect(shca_is_fatal(to_sctx(ibv_srq->context)), 0)) {
		*bad_wr = wr;
		return shca_result(EIO);
	}
	shca_lock(&srq->rq.lock);
	err = push_recvs(&srq->rq, wr, bad_wr);
	shca_unlock(&srq->rq.lock);
	if (__builtin_expect(err, 0))
		shca_say_recv(to_sctx(ibv_srq->context), SIMHCA_SAY_POST_SRQ_RECV, NULL, *bad_wr,
			      &srq->rq, err);
	return shca_result(err);
}
