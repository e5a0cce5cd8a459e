/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Work requests that only simhcadv.h knows: posting of lists, and the builders. */
#include "page_list.h"
#include "wqe.h"

#define SEND_FLAGS (IBV_SEND_SIGNALED | IBV_SEND_FENCE)

/* The WQE with this index. What the list must have is checked here, the rest by the device. */
static int set_fast_reg(struct shca_qp *qp, struct simhca_send_wqe *wqe, uint32_t index,
			const struct simhcadv_fast_reg *reg)
{
	struct shca_page_list *list = to_spage_list(reg->page_list);

	if (list->ctx != qp->ctx || list->public.page_list != list->pages)
		return EINVAL;
	if (!reg->page_list_len || reg->page_list_len > list->max_len)
		return EINVAL;
	wqe->fast_reg.iova = reg->iova_start;
	wqe->fast_reg.length = reg->length;
	wqe->fast_reg.page_list = (uintptr_t)list->pages;
	wqe->fast_reg.num_pages = reg->page_list_len;
	wqe->fast_reg.page_shift = reg->page_shift;
	wqe->fast_reg.access = reg->access;
	wqe->fast_reg.key = reg->rkey;
	/* Of the list as it is: whoever writes to it from here on does so too early. */
	wqe->page_list_sum = simhca_page_list_sum(list->pages, reg->page_list_len);
	return shca_page_list_post(&qp->sq, index, list);
}

static int push_fast_reg(struct shca_qp *qp, const void *posted)
{
	const struct simhcadv_fast_reg_wr *wr = posted;
	struct simhca_send_wqe *wqe;
	int err;

	if (wr->send_flags & ~(unsigned int)SEND_FLAGS)
		return EINVAL;
	err = shca_wqe_begin(qp, SIMHCA_WR_FAST_REG, wr->wr_id, wr->send_flags, 0, &wqe);
	if (!err)
		err = set_fast_reg(qp, wqe, qp->sq.head, &wr->fast_reg);
	if (!err)
		qp->sq.head++;
	return err;
}

static int push_read_with_inv(struct shca_qp *qp, const void *posted)
{
	const struct simhcadv_read_with_inv_wr *wr = posted;
	struct simhca_send_wqe *wqe;
	int err;

	if (wr->send_flags & ~(unsigned int)SEND_FLAGS)
		return EINVAL;
	err = shca_wqe_begin(qp, SIMHCA_WR_RDMA_READ_WITH_INV, wr->wr_id, wr->send_flags,
			     wr->invalidate_rkey, &wqe);
	if (err)
		return err;
	shca_wqe_set_rdma(wqe, wr->remote_addr, wr->rkey);
	/* A negative number is too large a one. */
	err = shca_wqe_set_sges(&qp->sq, wqe, (size_t)wr->num_sge, wr->sg_list);
	if (!err)
		qp->sq.head++;
	return err;
}

/* The lists of both begin with next. *wr is the first that was not posted. */
static int post(struct ibv_qp *ibv_qp, void **wr, int (*push)(struct shca_qp *, const void *),
		const char *verb)
{
	struct shca_qp *qp = to_sqp(ibv_qp);
	int err;

	if (!shca_is_ours(ibv_qp->context->device))
		return shca_result(EOPNOTSUPP);
	shca_sq_lock(qp, verb);
	qp->sq.start = qp->sq.head;
	err = shca_sq_ready(qp);
	while (!err && *wr) {
		err = push(qp, *wr);
		if (!err)
			memcpy(wr, *wr, sizeof(*wr));
	}
	if (qp->sq.head != qp->sq.start)
		shca_sq_publish(qp);
	shca_unlock(&qp->sq.lock);
	return shca_result(err);
}

int simhcadv_post_fast_reg(struct ibv_qp *qp, struct simhcadv_fast_reg_wr *wr,
			   struct simhcadv_fast_reg_wr **bad_wr)
{
	void *at = wr;
	int err = post(qp, &at, push_fast_reg, "simhcadv_post_fast_reg()");

	static_assert(offsetof(struct simhcadv_fast_reg_wr, next) == 0, "as post() takes it");
	*bad_wr = at;
	return err;
}

int simhcadv_post_read_with_inv(struct ibv_qp *qp, struct simhcadv_read_with_inv_wr *wr,
				struct simhcadv_read_with_inv_wr **bad_wr)
{
	void *at = wr;
	int err = post(qp, &at, push_read_with_inv, "simhcadv_post_read_with_inv()");

	static_assert(offsetof(struct simhcadv_read_with_inv_wr, next) == 0, "as post() takes it");
	*bad_wr = at;
	return err;
}

static struct simhca_send_wqe *begin(struct shca_qp *qp, uint32_t opcode, uint32_t rkey)
{
	if (qp->vqp.qp_ex.wr_flags & ~(unsigned int)SEND_FLAGS)
		shca_wr_fail(qp, EINVAL, SHCA_WR_OTHERWISE, 0);
	return shca_wr_begin(qp, opcode, rkey);
}

static void wr_fast_reg(struct simhcadv_qp_ex *dv, const struct simhcadv_fast_reg *reg)
{
	struct shca_qp *qp = to_sqp_dv(dv);
	struct simhca_send_wqe *wqe = begin(qp, SIMHCA_WR_FAST_REG, 0);
	int err;

	if (!wqe)
		return;
	err = set_fast_reg(qp, wqe, qp->sq.head - 1, reg);
	if (err)
		shca_wr_fail(qp, err, SHCA_WR_OTHERWISE, 0);
	else
		shca_wr_end(qp);
}

static void wr_read_with_inv(struct simhcadv_qp_ex *dv, uint32_t rkey, uint64_t remote_addr,
			     uint32_t invalidate_rkey)
{
	struct simhca_send_wqe *wqe =
		begin(to_sqp_dv(dv), SIMHCA_WR_RDMA_READ_WITH_INV, invalidate_rkey);

	if (wqe)
		shca_wqe_set_rdma(wqe, remote_addr, rkey);
}

static void wr_fast_reg_missing(struct simhcadv_qp_ex *dv, const struct simhcadv_fast_reg *reg)
{
	shca_wr_fail(to_sqp_dv(dv), EOPNOTSUPP, SHCA_WR_OTHERWISE, 0);
}

static void wr_read_with_inv_missing(struct simhcadv_qp_ex *dv, uint32_t rkey, uint64_t remote_addr,
				     uint32_t invalidate_rkey)
{
	shca_wr_fail(to_sqp_dv(dv), EOPNOTSUPP, SHCA_WR_OTHERWISE, 0);
}

/* Those that were not asked for are there as well, and say so. */
void shca_qp_set_dv_builders(struct shca_qp *qp, uint64_t send_ops_flags)
{
	qp->dv.wr_fast_reg =
		send_ops_flags & SIMHCADV_QP_EX_WITH_FAST_REG ? wr_fast_reg : wr_fast_reg_missing;
	qp->dv.wr_read_with_inv = send_ops_flags & SIMHCADV_QP_EX_WITH_READ_WITH_INV
					  ? wr_read_with_inv
					  : wr_read_with_inv_missing;
}
