/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What tools show of objects. */
#include "odp.h"

static void *next_object(const struct simhca_context *context, enum simhca_object_type type,
			 uint32_t *handle)
{
	const struct simhca_handles *handles = &context->handles[type];

	for (; *handle < handles->room; (*handle)++)
		if (handles->slot[*handle])
			return handles->slot[*handle];
	return NULL;
}

bool simhca_next_qp(const struct simhca_context *context, uint32_t *handle,
		    struct simhca_qp_info *info)
{
	const struct simhca_qp *qp = next_object(context, SIMHCA_OBJ_QP, handle);

	if (!qp)
		return false;
	*info = (struct simhca_qp_info){
		.qpn = qp->qpn,
		.type = qp->type,
		.state = simhca_qp_state(qp),
		.pd = qp->qpc->pd,
		.dest_qpn = qp->qpc->dest_qpn,
	};
	for (int i = 0; i < SIMHCA_FAULT_CONTEXTS; i++) {
		info->faults[i] = atomic_load_explicit(&qp->fault_count[i], memory_order_relaxed);
		info->fault_pending[i] = simhca_fault_under_way(qp, i);
	}
	return true;
}

bool simhca_next_mr(struct simhca_context *context, uint32_t *handle, struct simhca_mr_info *info)
{
	const struct simhca_key *region = next_object(context, SIMHCA_OBJ_MR, handle);

	if (!region)
		return false;
	*info = (struct simhca_mr_info){
		.key = region->mpt->key,
		.pd = region->mpt->pd,
		.pid = (uint32_t)region->mm->pid,
	};
	simhca_query_mr(context, *handle, &info->attr, NULL);
	return true;
}
