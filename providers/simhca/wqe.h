/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Building send WQEs, for ibv_post_send() and for ibv_wr_*(). The caller holds the SQ's lock.
 * All return 0 or the errno for the application.
 */
#ifndef SIMHCA_PROVIDER_WQE_H
#define SIMHCA_PROVIDER_WQE_H

#include <string.h>

#include "fastpath.h"
#include "checkers.h"
#include "doorbell.h"
#include "lint.h"
#include "provider.h"
#include "queue/opcode.h"

#define SHCA_MW_ACCESS                                                                             \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_ZERO_BASED | SIMHCA_ACCESS_FLUSH_GLOBAL |           \
	 SIMHCA_ACCESS_FLUSH_PERSISTENT | IBV_ACCESS_OPTIONAL_RANGE)

/* May one post? In SQE and ERR too: such work requests are flushed (IBTA vol. 1, 10.3.1). */
static inline int shca_sq_ready(const struct shca_qp *qp)
{
	if (__builtin_expect(shca_is_fatal(qp->ctx), 0))
		return EIO;
	return shca_qp_state(qp) < SIMHCA_QPS_RTS ? EINVAL : 0;
}

static inline bool shca_sq_is_full(const struct shca_sq *sq)
{
	/* Acquire: the poller is done with the slot. */
	return sq->head - atomic_load_explicit(&sq->tail, memory_order_acquire) >= sq->max_wr;
}

/* Start the WQE at sq.head. It belongs to the device once the index passes it. */
static inline int shca_wqe_begin(struct shca_qp *qp, uint32_t opcode, uint64_t wr_id,
				 uint32_t flags, uint32_t imm_or_rkey, struct simhca_send_wqe **out)
{
	struct shca_sq *sq = &qp->sq;
	struct simhca_send_wqe *wqe;

	if (shca_sq_is_full(sq))
		return ENOMEM;
	if (opcode >= 32 || !(qp->send_ops & (1u << opcode)))
		return EINVAL;

	wqe = shca_sq_wqe(sq, sq->head);
	wqe->wr_id = wr_id;
	wqe->opcode = (uint8_t)opcode;
	wqe->flags = (uint8_t)((flags & (SIMHCA_WQE_FENCE | SIMHCA_WQE_SIGNALED |
					 SIMHCA_WQE_SOLICITED | SIMHCA_WQE_IP_CSUM)) |
			       qp->sig_all);
	wqe->num_sge = 0;
	wqe->reserved0 = 0;
	wqe->imm_or_rkey = imm_or_rkey;
	wqe->inline_len = 0;
	wqe->srqn = 0;
	*out = wqe;
	return 0;
}

static inline void shca_wqe_set_ud(struct simhca_send_wqe *wqe, struct ibv_ah *ah, uint32_t qpn,
				   uint32_t qkey)
{
	wqe->ud.av = to_sah(ah)->av;
	wqe->ud.dest_qpn = qpn;
	wqe->ud.qkey = qkey;
}

static inline void shca_wqe_set_rdma(struct simhca_send_wqe *wqe, uint64_t remote_addr,
				     uint32_t rkey)
{
	wqe->rdma.remote_addr = remote_addr;
	wqe->rdma.rkey = rkey;
}

/* The longest window, in bytes, as mlx5's provider has it: what one of its segments describes. */
#define SHCA_MAX_WINDOW (UINT64_C(1) << 31)
#define SHCA_WINDOW_TOO_LONG                                                                       \
	"bind_info.length is more than 2 GiB, which is the most that a window has"

/* What a bind needs of its objects; the device checks what is only in its own table. */
static inline int shca_check_bind(const struct shca_qp *qp, const struct ibv_mw *mw,
				  enum ibv_mw_type type, const struct ibv_mw_bind_info *info)
{
	if (mw->type != type || (info->mw_access_flags & ~(unsigned int)SHCA_MW_ACCESS))
		return EINVAL;
	if (!info->mr && (type == IBV_MW_TYPE_2 || info->addr || info->length))
		return EINVAL;
	/* Their keys would name something else there. */
	if (mw->context->device != qp->vqp.qp.context->device ||
	    (info->mr && info->mr->context->device != mw->context->device))
		return EPERM;
	return info->length > SHCA_MAX_WINDOW ? EOPNOTSUPP : 0;
}

static inline void shca_wqe_set_bind(struct simhca_send_wqe *wqe, const struct ibv_mw *mw,
				     uint32_t new_rkey, const struct ibv_mw_bind_info *info)
{
	wqe->bind.addr = info->addr;
	wqe->bind.length = info->length;
	wqe->bind.mw = mw->rkey;
	wqe->bind.new_rkey = new_rkey;
	wqe->bind.lkey = info->mr ? info->mr->lkey : 0;
	wqe->bind.access = info->mw_access_flags;
	wqe->bind.type = (uint32_t)mw->type;
	wqe->bind.reserved = 0;
}

static inline int shca_wqe_set_sges(const struct shca_sq *sq, struct simhca_send_wqe *wqe,
				    size_t num_sge, const struct ibv_sge *sg_list)
{
	if (num_sge > sq->max_sge)
		return ENOMEM; /* as mlx5 has it, which has no room for them; of receives EINVAL */
	wqe->num_sge = (uint8_t)num_sge;
	if (num_sge)
		memcpy(wqe + 1, sg_list, num_sge * sizeof(*sg_list));
	return 0;
}

/* Add length bytes to the inline data, which has *used bytes so far. */
static inline int shca_wqe_add_inline(const struct shca_sq *sq, struct simhca_send_wqe *wqe,
				      uint32_t *used, const void *addr, size_t length)
{
	if (length > sq->max_inline - *used)
		return ENOMEM; /* likewise */
	if (length)
		memcpy((uint8_t *)(wqe + 1) + *used, addr, length);
	*used += (uint32_t)length;
	return 0;
}

static inline int shca_wqe_end_inline(struct simhca_send_wqe *wqe, uint32_t used)
{
	if (!simhca_op_has(wqe->opcode, SIMHCA_OP_INLINE))
		return EINVAL;
	wqe->inline_len = used;
	wqe->flags |= SIMHCA_WQE_INLINE;
	return 0;
}

/* wr_ex.c: for all builders. NULL when this or an earlier one of the batch has failed. */
struct simhca_send_wqe *shca_wr_begin(struct shca_qp *qp, uint32_t opcode, uint32_t imm_or_rkey);
void shca_wr_fail(struct shca_qp *qp, int err, enum shca_wr_wrong_kind why, uint64_t number);
/* The WQE is complete: setters that follow do nothing. */
static inline void shca_wr_end(struct shca_qp *qp)
{
	qp->sq.cur = NULL;
}

/* Hand the WQEs up to sq.head to the device, or do what it would do. */
static inline void shca_sq_publish(struct shca_qp *qp)
{
	if (__builtin_expect(qp->lint != NULL, 0))
		shca_lint_sends(qp);
	shca_posts();
	atomic_store_explicit(&qp->sq.posted, qp->sq.head, memory_order_release);
	/* Release: the index becomes visible after the WQEs that it covers. */
	atomic_store_explicit(&qp->mem->sq_pi, qp->sq.head, memory_order_release);
	if (__builtin_expect(qp->fastpath != NULL, 0) && shca_fastpath_run(qp))
		return;
	shca_ring_doorbell(qp->ctx, qp->doorbell);
}

#endif
