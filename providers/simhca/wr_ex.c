/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The ibv_wr_*() interface. wr_start takes the SQ's lock; builders write WQEs beyond what the
 * device has been told of, so that an abort, or an error in any of them, takes all of them back.
 * The first error is kept and returned by wr_complete.
 */
#include <stdlib.h>

#include "say.h"
#include "wqe.h"

void shca_wr_start(struct ibv_qp_ex *ex)
{
	struct shca_qp *qp = to_sqp_ex(ex);

	shca_sq_lock(qp, "ibv_wr_start()");
	qp->sq.start = qp->sq.head;
	qp->sq.err = shca_sq_ready(qp);
	qp->sq.wrong.kind = SHCA_WR_OTHERWISE;
	qp->sq.cur = NULL;
	qp->sq.num_binds = 0;
}

/* Forget the batch. */
static void forget(struct shca_sq *sq)
{
	shca_page_lists_return(sq, sq->start, sq->head);
	sq->head = sq->start;
}

int shca_wr_complete(struct ibv_qp_ex *ex)
{
	struct shca_qp *qp = to_sqp_ex(ex);
	struct shca_wr_wrong wrong = qp->sq.wrong;
	int err = qp->sq.err;

	if (err)
		forget(&qp->sq);
	else if (qp->sq.head != qp->sq.start)
		shca_sq_publish(qp);
	for (uint32_t i = 0; !err && i < qp->sq.num_binds; i++)
		qp->sq.binds[i].mw->rkey = qp->sq.binds[i].rkey;
	shca_unlock(&qp->sq.lock);
	if (__builtin_expect(err, 0))
		shca_say_batch(qp, &wrong, err);
	return shca_result(err);
}

void shca_wr_abort(struct ibv_qp_ex *ex)
{
	struct shca_qp *qp = to_sqp_ex(ex);

	forget(&qp->sq);
	shca_unlock(&qp->sq.lock);
}

void shca_wr_fail(struct shca_qp *qp, int err, enum shca_wr_wrong_kind why, uint64_t number)
{
	if (!qp->sq.err) {
		qp->sq.err = err;
		qp->sq.wrong = (struct shca_wr_wrong){ why, number };
	}
	qp->sq.cur = NULL;
}

/*
 * The WQE that is to be set; NULL: none was begun, which is an error, or it cannot be posted, or it has nothing to be
 * set, as a fast registration.
 */
static struct simhca_send_wqe *current(struct shca_qp *qp)
{
	if (__builtin_expect(!qp->sq.cur && !qp->sq.err, 0) && qp->sq.head == qp->sq.start)
		shca_wr_fail(qp, EINVAL, SHCA_WR_NOT_BEGUN, 0);
	return qp->sq.cur;
}

struct simhca_send_wqe *shca_wr_begin(struct shca_qp *qp, uint32_t opcode, uint32_t imm_or_rkey)
{
	const struct ibv_qp_ex *ex = &qp->vqp.qp_ex;
	struct shca_sq *sq = &qp->sq;
	int err;

	if (sq->err)
		return NULL;
	err = shca_wqe_begin(qp, opcode, ex->wr_id, ex->wr_flags, imm_or_rkey, &sq->cur);
	if (err)
		shca_wr_fail(qp, err, err == ENOMEM ? SHCA_WR_FULL : SHCA_WR_OTHERWISE, opcode);
	else
		sq->head++;
	return sq->cur;
}

static struct simhca_send_wqe *begin(struct ibv_qp_ex *ex, uint32_t opcode, uint32_t imm_or_rkey)
{
	return shca_wr_begin(to_sqp_ex(ex), opcode, imm_or_rkey);
}

static void begin_rdma(struct ibv_qp_ex *ex, uint32_t opcode, uint32_t imm, uint32_t rkey,
		       uint64_t remote_addr)
{
	struct simhca_send_wqe *wqe = begin(ex, opcode, imm);

	if (wqe)
		shca_wqe_set_rdma(wqe, remote_addr, rkey);
}

static void begin_atomic(struct ibv_qp_ex *ex, uint32_t opcode, uint32_t rkey, uint64_t remote_addr,
			 uint64_t compare_add, uint64_t swap)
{
	struct simhca_send_wqe *wqe = begin(ex, opcode, 0);

	if (!wqe)
		return;
	shca_wqe_set_rdma(wqe, remote_addr, rkey);
	wqe->rdma.compare_add = compare_add;
	wqe->rdma.swap = swap;
}

static void wr_send(struct ibv_qp_ex *ex)
{
	begin(ex, SIMHCA_WR_SEND, 0);
}

static void wr_send_imm(struct ibv_qp_ex *ex, __be32 imm_data)
{
	begin(ex, SIMHCA_WR_SEND_WITH_IMM, imm_data);
}

static void wr_send_inv(struct ibv_qp_ex *ex, uint32_t invalidate_rkey)
{
	begin(ex, SIMHCA_WR_SEND_WITH_INV, invalidate_rkey);
}

static void wr_local_inv(struct ibv_qp_ex *ex, uint32_t invalidate_rkey)
{
	begin(ex, SIMHCA_WR_LOCAL_INV, invalidate_rkey);
	shca_wr_end(to_sqp_ex(ex));
}

/* The window has its new key when the batch is complete. */
static int will_have_key(struct shca_sq *sq, struct ibv_mw *mw, uint32_t rkey)
{
	if (sq->num_binds == sq->room_for_binds) {
		uint32_t room = sq->room_for_binds ? 2 * sq->room_for_binds : 4;
		void *binds = reallocarray(sq->binds, room, sizeof(*sq->binds));

		if (!binds)
			return ENOMEM;
		sq->binds = binds;
		sq->room_for_binds = room;
	}
	sq->binds[sq->num_binds].mw = mw;
	sq->binds[sq->num_binds++].rkey = simhca_key_bound(mw->rkey, rkey);
	return 0;
}

static void wr_bind_mw(struct ibv_qp_ex *ex, struct ibv_mw *mw, uint32_t rkey,
		       const struct ibv_mw_bind_info *info)
{
	struct shca_qp *qp = to_sqp_ex(ex);
	struct simhca_send_wqe *wqe = begin(ex, SIMHCA_WR_BIND_MW, 0);
	int err;

	if (!wqe)
		return;
	err = shca_check_bind(qp, mw, IBV_MW_TYPE_2, info);
	if (!err)
		err = will_have_key(&qp->sq, mw, rkey);
	if (err) {
		shca_wr_fail(qp, err, SHCA_WR_OTHERWISE, SIMHCA_WR_BIND_MW);
		return;
	}
	shca_wqe_set_bind(wqe, mw, rkey, info);
	shca_wr_end(qp);
}

static void wr_rdma_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr)
{
	begin_rdma(ex, SIMHCA_WR_RDMA_WRITE, 0, rkey, remote_addr);
}

static void wr_rdma_write_imm(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
			      __be32 imm_data)
{
	begin_rdma(ex, SIMHCA_WR_RDMA_WRITE_WITH_IMM, imm_data, rkey, remote_addr);
}

static void wr_rdma_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr)
{
	begin_rdma(ex, SIMHCA_WR_RDMA_READ, 0, rkey, remote_addr);
}

static void wr_atomic_cmp_swp(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
			      uint64_t compare, uint64_t swap)
{
	begin_atomic(ex, SIMHCA_WR_ATOMIC_CMP_AND_SWP, rkey, remote_addr, compare, swap);
}

static void wr_atomic_fetch_add(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
				uint64_t add)
{
	begin_atomic(ex, SIMHCA_WR_ATOMIC_FETCH_AND_ADD, rkey, remote_addr, add, 0);
}

#ifdef SIMHCA_HAVE_ATOMIC_WRITE
/* The value goes where the request's address is: it takes no room that the QP might not have. */
static void wr_atomic_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
			    const void *atomic_wr)
{
	uint64_t value;

	memcpy(&value, atomic_wr, sizeof(value));
	begin_atomic(ex, SIMHCA_WR_ATOMIC_WRITE, rkey, remote_addr, 0, value);
}
#endif

#ifdef SIMHCA_HAVE_FLUSH
static void wr_flush(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr, size_t length,
		     uint8_t type, uint8_t level)
{
	struct simhca_send_wqe *wqe = begin(ex, SIMHCA_WR_FLUSH, 0);

	if (!wqe)
		return;
	wqe->flush.remote_addr = remote_addr;
	wqe->flush.length = length;
	wqe->flush.rkey = rkey;
	wqe->flush.placement = type;
	wqe->flush.selectivity = level;
}
#endif

static void wr_set_ud_addr(struct ibv_qp_ex *ex, struct ibv_ah *ah, uint32_t remote_qpn,
			   uint32_t remote_qkey)
{
	struct shca_qp *qp = to_sqp_ex(ex);

	if (!current(qp))
		return;
	if (!ah) {
		shca_wr_fail(qp, EINVAL, SHCA_WR_NO_AH, 0);
		return;
	}
	if (shca_ah_is_destroyed(ah)) {
		shca_wr_fail(qp, EINVAL, SHCA_WR_OLD_AH, 0);
		return;
	}
	shca_wqe_set_ud(qp->sq.cur, ah, remote_qpn, remote_qkey);
	if (qp->lint)
		shca_lint_address_handle(qp, ah);
}

static void wr_set_xrc_srqn(struct ibv_qp_ex *ex, uint32_t remote_srqn)
{
	struct simhca_send_wqe *wqe = current(to_sqp_ex(ex));

	if (wqe)
		wqe->srqn = remote_srqn;
}

static void wr_set_sge_list(struct ibv_qp_ex *ex, size_t num_sge, const struct ibv_sge *sg_list)
{
	struct shca_qp *qp = to_sqp_ex(ex);
	int err;

	if (!current(qp))
		return;
	err = shca_wqe_set_sges(&qp->sq, qp->sq.cur, num_sge, sg_list);
	if (err)
		shca_wr_fail(qp, err, SHCA_WR_SGES, num_sge);
}

static void wr_set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t length)
{
	struct ibv_sge sge = { .addr = addr, .length = length, .lkey = lkey };

	wr_set_sge_list(ex, 1, &sge);
}

static void wr_set_inline_data_list(struct ibv_qp_ex *ex, size_t num_buf,
				    const struct ibv_data_buf *buf_list)
{
	struct shca_qp *qp = to_sqp_ex(ex);
	struct shca_sq *sq = &qp->sq;
	uint64_t bytes = 0;
	uint32_t used = 0;
	size_t i;
	int err = 0;

	if (!current(qp))
		return;
	if (!simhca_op_has(sq->cur->opcode, SIMHCA_OP_INLINE)) {
		shca_wr_fail(qp, EINVAL, SHCA_WR_NOT_INLINE, sq->cur->opcode);
		return;
	}
	for (i = 0; qp->lint && i < num_buf; i++)
		shca_lint_inline(qp, sq->cur->wr_id, buf_list[i].addr, buf_list[i].length);
	for (i = 0; i < num_buf && !err; i++)
		err = shca_wqe_add_inline(sq, sq->cur, &used, buf_list[i].addr, buf_list[i].length);
	if (!err)
		err = shca_wqe_end_inline(sq->cur, used);
	for (i = 0; err && i < num_buf; i++)
		bytes += buf_list[i].length;
	if (err)
		shca_wr_fail(qp, err, SHCA_WR_INLINE, bytes);
}

static void wr_set_inline_data(struct ibv_qp_ex *ex, void *addr, size_t length)
{
	struct ibv_data_buf buf = { .addr = addr, .length = length };

	wr_set_inline_data_list(ex, 1, &buf);
}

/*
 * Operations that send_ops_flags lack. With other drivers these are NULL; here the program learns
 * which one it was, by wr_complete().
 */
static void not_asked_for(struct ibv_qp_ex *ex, uint32_t opcode)
{
	shca_wr_fail(to_sqp_ex(ex), EINVAL, SHCA_WR_NOT_ASKED_FOR, opcode);
}

static void no_send(struct ibv_qp_ex *ex)
{
	not_asked_for(ex, IBV_WR_SEND);
}

static void no_send_imm(struct ibv_qp_ex *ex, __be32 imm_data)
{
	not_asked_for(ex, IBV_WR_SEND_WITH_IMM);
}

static void no_send_inv(struct ibv_qp_ex *ex, uint32_t invalidate_rkey)
{
	not_asked_for(ex, IBV_WR_SEND_WITH_INV);
}

static void no_local_inv(struct ibv_qp_ex *ex, uint32_t invalidate_rkey)
{
	not_asked_for(ex, IBV_WR_LOCAL_INV);
}

static void no_bind_mw(struct ibv_qp_ex *ex, struct ibv_mw *mw, uint32_t rkey,
		       const struct ibv_mw_bind_info *info)
{
	not_asked_for(ex, IBV_WR_BIND_MW);
}

static void no_rdma_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr)
{
	not_asked_for(ex, IBV_WR_RDMA_WRITE);
}

static void no_rdma_write_imm(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
			      __be32 imm_data)
{
	not_asked_for(ex, IBV_WR_RDMA_WRITE_WITH_IMM);
}

static void no_rdma_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr)
{
	not_asked_for(ex, IBV_WR_RDMA_READ);
}

static void no_atomic_cmp_swp(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
			      uint64_t compare, uint64_t swap)
{
	not_asked_for(ex, IBV_WR_ATOMIC_CMP_AND_SWP);
}

static void no_atomic_fetch_add(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
				uint64_t add)
{
	not_asked_for(ex, IBV_WR_ATOMIC_FETCH_AND_ADD);
}

/* Give the QP the builders that the application asked for; EOPNOTSUPP if its type lacks one. */
int shca_qp_set_builders(struct shca_qp *qp, uint64_t send_ops_flags)
{
	struct ibv_qp_ex *ex = &qp->vqp.qp_ex;

	uint64_t known = qp->send_ops & SHCA_IBV_OPS &
			 ~(1u << SIMHCA_WR_ATOMIC_WRITE | 1u << SIMHCA_WR_FLUSH);

#ifdef SIMHCA_HAVE_ATOMIC_WRITE
	if (qp->send_ops & (1u << SIMHCA_WR_ATOMIC_WRITE))
		known |= IBV_QP_EX_WITH_ATOMIC_WRITE;
#endif
#ifdef SIMHCA_HAVE_FLUSH
	if (qp->send_ops & (1u << SIMHCA_WR_FLUSH))
		known |= IBV_QP_EX_WITH_FLUSH;
#endif
	/* IBV_QP_EX_WITH_x is bit IBV_WR_x, but for those two */
	if (send_ops_flags & ~known)
		return EOPNOTSUPP;

	ex->wr_start = shca_wr_start;
	ex->wr_complete = shca_wr_complete;
	ex->wr_abort = shca_wr_abort;
	ex->wr_set_ud_addr = wr_set_ud_addr;
	ex->wr_set_xrc_srqn = wr_set_xrc_srqn;
	ex->wr_set_sge = wr_set_sge;
	ex->wr_set_sge_list = wr_set_sge_list;
	ex->wr_set_inline_data = wr_set_inline_data;
	ex->wr_set_inline_data_list = wr_set_inline_data_list;
	ex->wr_send = send_ops_flags & IBV_QP_EX_WITH_SEND ? wr_send : no_send;
	ex->wr_send_imm = send_ops_flags & IBV_QP_EX_WITH_SEND_WITH_IMM ? wr_send_imm : no_send_imm;
	ex->wr_rdma_write =
		send_ops_flags & IBV_QP_EX_WITH_RDMA_WRITE ? wr_rdma_write : no_rdma_write;
	ex->wr_rdma_write_imm = send_ops_flags & IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM
					? wr_rdma_write_imm
					: no_rdma_write_imm;
	ex->wr_rdma_read = send_ops_flags & IBV_QP_EX_WITH_RDMA_READ ? wr_rdma_read : no_rdma_read;
	ex->wr_atomic_cmp_swp = send_ops_flags & IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP
					? wr_atomic_cmp_swp
					: no_atomic_cmp_swp;
	ex->wr_atomic_fetch_add = send_ops_flags & IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD
					  ? wr_atomic_fetch_add
					  : no_atomic_fetch_add;
#ifdef SIMHCA_HAVE_ATOMIC_WRITE
	if (send_ops_flags & IBV_QP_EX_WITH_ATOMIC_WRITE)
		ex->wr_atomic_write = wr_atomic_write;
#endif
#ifdef SIMHCA_HAVE_FLUSH
	if (send_ops_flags & IBV_QP_EX_WITH_FLUSH)
		ex->wr_flush = wr_flush;
#endif
	ex->wr_send_inv = send_ops_flags & IBV_QP_EX_WITH_SEND_WITH_INV ? wr_send_inv : no_send_inv;
	ex->wr_local_inv = send_ops_flags & IBV_QP_EX_WITH_LOCAL_INV ? wr_local_inv : no_local_inv;
	ex->wr_bind_mw = send_ops_flags & IBV_QP_EX_WITH_BIND_MW ? wr_bind_mw : no_bind_mw;
	shca_qp_set_dv_builders(qp, 0);
	qp->vqp.comp_mask |= VERBS_QP_EX;
	return 0;
}
