/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Memory windows. Those of type 2 are bound by a work request of the application: see wr.c. */
#include <stdlib.h>

#include "say.h"
#include "command.h"
#include "wqe.h"

struct ibv_mw *shca_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	struct simhca_alloc_mw_req req = { .pd = pd->handle, .type = (uint32_t)type };
	struct simhca_alloc_mw_reply reply;
	struct shca_mw *mw;
	int err;

	mw = calloc(1, sizeof(*mw));
	if (!mw)
		return shca_null(ENOMEM);
	err = shca_call(to_sctx(pd->context), SIMHCA_CMD_ALLOC_MW, &req, &reply);
	if (err) {
		free(mw);
		return shca_null(err);
	}
	mw->ibv_mw.context = pd->context;
	mw->ibv_mw.pd = pd;
	mw->ibv_mw.rkey = reply.rkey;
	mw->ibv_mw.handle = reply.handle;
	mw->ibv_mw.type = type;
	return &mw->ibv_mw;
}

int shca_dealloc_mw(struct ibv_mw *mw)
{
	int err = shca_destroy(to_sctx(mw->context), SIMHCA_CMD_DEALLOC_MW, mw->handle, NULL);

	if (!err)
		free(to_smw(mw));
	return err;
}

/* The caller holds the locks of the window and of the SQ. */
static int post_bind(struct shca_qp *qp, struct ibv_mw *mw, const struct ibv_mw_bind *bind)
{
	uint32_t rkey = simhca_key_next(mw->rkey);
	struct simhca_send_wqe *wqe;
	int err;

	err = shca_sq_ready(qp);
	if (!err)
		err = shca_wqe_begin(qp, SIMHCA_WR_BIND_MW, bind->wr_id, bind->send_flags, 0, &wqe);
	if (err)
		return err;
	shca_wqe_set_bind(wqe, mw, rkey, &bind->bind_info);
	qp->sq.head++;
	mw->rkey = rkey;
	shca_sq_publish(qp);
	return 0;
}

/* Windows of type 1 have addresses, as with mlx5; rxe takes a region that counts from zero. */
static bool counts_from_zero(const struct ibv_mw_bind_info *info)
{
	return (info->mw_access_flags & IBV_ACCESS_ZERO_BASED) ||
	       (info->mr && (verbs_get_mr(info->mr)->access & IBV_ACCESS_ZERO_BASED));
}

/*
 * As with mlx5, whose provider looks at mr_type. A fast-register region, which has that of a null region, is none of mlx5's;
 * a region of on-chip memory has it as well, and counts from zero.
 */
static bool has_no_windows(const struct ibv_mw_bind_info *info)
{
	const struct verbs_mr *vmr = info->mr ? verbs_get_mr(info->mr) : NULL;

	return vmr && vmr->mr_type != IBV_MR_TYPE_MR &&
	       !((const struct shca_mr *)vmr)->max_page_list_len;
}

static const char *why_not_bound(const struct shca_qp *qp, const struct ibv_mw *mw,
				 const struct ibv_mw_bind *bind)
{
	const struct ibv_mr *mr = bind->bind_info.mr;

	if (mw->context->device != qp->vqp.qp.context->device ||
	    (mr && mr->context->device != mw->context->device))
		return "the window, its region and the QP are not of one device";
	if (bind->send_flags & IBV_SEND_INLINE)
		return "a bind has no data: send_flags has IBV_SEND_INLINE";
	if (mw->type != IBV_MW_TYPE_1)
		return "the window is of type 2, which IBV_WR_BIND_MW binds";
	if (counts_from_zero(&bind->bind_info))
		return "a window of type 1 has no IBV_ACCESS_ZERO_BASED, nor has its region";
	if (!mr && (bind->bind_info.addr || bind->bind_info.length))
		return "bind_info.mr is NULL, and addr or length is not 0";
	if (bind->bind_info.length > SHCA_MAX_WINDOW)
		return SHCA_WINDOW_TOO_LONG;
	if (has_no_windows(&bind->bind_info))
		return "a window of type 1 is of a region that ibv_reg_mr() has made, and not of a "
		       "null region, an imported one, or one of a dma-buf";
	return "bind_info.mw_access_flags has a flag that windows do not have";
}

/* Binds a window of type 1. Whether it succeeds or not in the end, mw->rkey is the new key. */
int shca_bind_mw(struct ibv_qp *ibv_qp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	struct shca_qp *qp = to_sqp(ibv_qp);
	int err;

	err = shca_check_bind(qp, mw, IBV_MW_TYPE_1, &bind->bind_info);
	if (!err && ((bind->send_flags & IBV_SEND_INLINE) || counts_from_zero(&bind->bind_info)))
		err = EINVAL;
	if (!err && has_no_windows(&bind->bind_info))
		err = ENOTSUP;
	if (err)
		return shca_say_refusal(qp->ctx, SIMHCA_SAY_BIND_MW, err,
					why_not_bound(qp, mw, bind));
	shca_lock(&to_smw(mw)->lock);
	shca_sq_lock(qp, "ibv_bind_mw()");
	err = post_bind(qp, mw, bind);
	shca_unlock(&qp->sq.lock);
	shca_unlock(&to_smw(mw)->lock);
	if (err == ENOMEM)
		return shca_say_refusal(qp->ctx, SIMHCA_SAY_BIND_MW, err,
					"the send queue is full: poll its CQ first");
	if (err)
		return shca_say_refusal(qp->ctx, SIMHCA_SAY_BIND_MW, err,
					shca_qp_state(qp) < SIMHCA_QPS_RTS
						? "the QP is not in RTS yet"
						: "a QP of this type binds no windows");
	return 0;
}
