/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Direct verbs but for page lists (page_list.c) and work requests (wr_dv.c). */
#include "provider.h"

bool simhcadv_is_supported(struct ibv_device *device)
{
	return shca_is_ours(device);
}

int simhcadv_query_device(struct ibv_context *context, struct simhcadv_device_attr *attr)
{
	const struct simhca_device_attr *from;

	if (!shca_is_ours(context->device))
		return shca_result(EOPNOTSUPP);
	from = &to_sctx(context)->dev->attr;
	attr->comp_mask = 0;
	attr->page_sizes = from->fast_reg_page_sizes;
	attr->max_fast_reg_page_list_len = from->max_fast_reg_page_list_len;
	return 0;
}

struct ibv_mr *simhcadv_alloc_mr(struct ibv_pd *pd, uint32_t max_page_list_len)
{
	if (!shca_is_ours(pd->context->device))
		return shca_null(EOPNOTSUPP);
	return shca_alloc_mr(pd, max_page_list_len);
}

int simhcadv_update_key(struct ibv_mr *mr, uint8_t newkey)
{
	if (!shca_is_ours(mr->context->device))
		return shca_result(EOPNOTSUPP);
	if (!to_smr(verbs_get_mr(mr))->max_page_list_len)
		return shca_result(EINVAL);
	mr->lkey = (mr->lkey & ~(uint32_t)0xff) | newkey;
	mr->rkey = (mr->rkey & ~(uint32_t)0xff) | newkey;
	return 0;
}

/* The operations that a QP must have for these builders. */
static uint32_t ops_of(uint64_t send_ops_flags)
{
	return (send_ops_flags & SIMHCADV_QP_EX_WITH_FAST_REG ? 1u << SIMHCA_WR_FAST_REG : 0) |
	       (send_ops_flags & SIMHCADV_QP_EX_WITH_READ_WITH_INV
			? 1u << SIMHCA_WR_RDMA_READ_WITH_INV
			: 0);
}

struct ibv_qp *simhcadv_create_qp(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr,
				  struct simhcadv_qp_init_attr *simhca_attr)
{
	const uint64_t known = SIMHCADV_QP_EX_WITH_FAST_REG | SIMHCADV_QP_EX_WITH_READ_WITH_INV;
	const uint64_t known_flags =
		SIMHCADV_QP_CREATE_DISABLE_SCATTER_TO_CQE | SIMHCADV_QP_CREATE_DISABLE_FAST_PATH;
	const uint64_t known_mask = SIMHCADV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS |
				    SIMHCADV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS;
	struct ibv_qp_init_attr_ex with_ops = *attr;
	uint64_t mask = simhca_attr ? simhca_attr->comp_mask : 0;
	uint64_t flags = 0, create_flags = 0;
	struct ibv_qp *qp;

	if (!shca_is_ours(context->device) || (mask & ~known_mask))
		return shca_null(EOPNOTSUPP);
	if (mask & SIMHCADV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS)
		create_flags = simhca_attr->create_flags;
	if (create_flags & ~known_flags)
		return shca_null(EOPNOTSUPP);
	if (mask & SIMHCADV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS) {
		flags = simhca_attr->send_ops_flags;
		if ((flags & ~known) || (ops_of(flags) & ~shca_send_ops(attr->qp_type)))
			return shca_null(EOPNOTSUPP);
		if (!(attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)) {
			with_ops.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
			with_ops.send_ops_flags = 0;
		}
	}

	qp = shca_create_qp_with(context, &with_ops, (uint32_t)create_flags);
	if (!qp)
		return NULL;
	attr->cap = with_ops.cap;
	shca_qp_set_dv_builders(to_sqp(qp), flags);
	return qp;
}

struct simhcadv_qp_ex *simhcadv_qp_ex_from_ibv_qp_ex(struct ibv_qp_ex *qp)
{
	if (!shca_is_ours(qp->qp_base.context->device))
		return shca_null(EOPNOTSUPP);
	return &to_sqp_ex(qp)->dv;
}
