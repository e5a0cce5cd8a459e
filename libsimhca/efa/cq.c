/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* CQs: how they are made and destroyed. */
#include <errno.h>
#include <stdlib.h>

#include "core/lock.h"
#include "objects.h"

static int check_cq(const struct simhca_efa_cq_request *req, struct simhca_why *why)
{
	if (!efa_is_power_of_2(req->entries) || req->entries > SIMHCA_EFA_CQE)
		return simhca_why(why, EINVAL, "a CQ of %u entries: a power of 2, at most %u",
				  req->entries, SIMHCA_EFA_CQE);
	if (req->entry_size != EFA_CQE_SHORT && req->entry_size != EFA_CQE_LONG)
		return simhca_why(why, EINVAL, "a CQ with entries of %u bytes: %u or %u",
				  req->entry_size, EFA_CQE_SHORT, EFA_CQE_LONG);
	if (req->with_gid && req->entry_size != EFA_CQE_LONG)
		return simhca_why(why, EINVAL, "a CQ with GIDs has entries of %u bytes",
				  EFA_CQE_LONG);
	return 0;
}

int simhca_efa_create_cq(struct simhca_context *context, const struct simhca_efa_cq_request *req,
			 struct simhca_efa_cq_reply *reply, struct simhca_why *why)
{
	const uint64_t size = efa_whole_pages((uint64_t)req->entries * req->entry_size);
	struct efa_cq *cq;
	int ret;

	if (!efa_of(context, why))
		return -EINVAL;
	ret = check_cq(req, why);
	if (ret)
		return ret;
	cq = calloc(1, sizeof(*cq));
	if (!cq)
		return efa_out_of_memory(why);
	cq->entries = req->entries;
	cq->entry_size = req->entry_size;
	cq->with_gid = req->with_gid;
	ret = efa_make_memory(context, size, &cq->memory, why);
	if (!ret) {
		ret = simhca_object_add(context, SIMHCA_OBJ_EFA_CQ, cq, &reply->handle, why);
		if (ret)
			simhca_context_free(context, &cq->memory.ref, cq->memory.bytes);
	}
	if (ret) {
		free(cq);
		return ret;
	}
	simhca_mutex_init(&cq->lock, SIMHCA_LOCK_EFA_QUEUE);
	cq->number = reply->handle;
	reply->number = (uint16_t)cq->number;
	reply->key = EFA_KEY(reply->handle, EFA_KEY_CQ);
	reply->size = size;
	return 0;
}

int simhca_efa_destroy_cq(struct simhca_context *context, uint32_t handle, struct simhca_why *why)
{
	struct efa_cq *cq = simhca_object(context, SIMHCA_OBJ_EFA_CQ, handle, why);

	if (!cq)
		return -ENOENT;
	if (cq->users)
		return simhca_why(why, EBUSY, "%u queues of QPs still complete to this CQ",
				  cq->users);
	simhca_context_free(context, &cq->memory.ref, cq->memory.bytes);
	simhca_object_remove(context, SIMHCA_OBJ_EFA_CQ, handle);
	pthread_mutex_destroy(&cq->lock);
	free(cq);
	return 0;
}
