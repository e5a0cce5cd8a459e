/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Fast-register regions (IBTA vol. 1, 10.6.4.3): a command gives a region a key and room for a list
 * of pages, work requests make it valid over such a list, and invalidate it, again and again.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/context.h"
#include "core/guard.h"
#include "core/mpt.h"
#include "dma/dma.h"
#include "engine/engine.h"
#include "engine/worker.h"
#include "fast_reg.h"
#include "key.h"
#include "mr.h"
#include "simhca-device.h"
#include "simhca-verbs.h"

#define KNOWN_ACCESS                                                                               \
	(SIMHCA_ACCESS_LOCAL_WRITE | SIMHCA_ACCESS_REMOTE_ALL | SIMHCA_ACCESS_MW_BIND |            \
	 SIMHCA_ACCESS_ZERO_BASED | SIMHCA_ACCESS_FLUSH_ALL | SIMHCA_ACCESS_OPTIONAL)

/* The worker's scratch memory: what moves a list, and the list itself. */
#define LIST_AT (SIMHCA_DMA_SCRATCH / 2)
static_assert(SIMHCA_MAX_FAST_REG_PAGES * sizeof(uint64_t) <= SIMHCA_DMA_SCRATCH - LIST_AT,
	      "the longest page list fits behind what moves it");

int simhca_alloc_mr(struct simhca_context *context, struct simhca_mm *mm,
		    const struct simhca_alloc_mr_req *req, struct simhca_reg_mr_reply *reply,
		    struct simhca_why *why)
{
	struct simhca_pd *pd = simhca_object(context, SIMHCA_OBJ_PD, req->pd, why);
	struct simhca_key *region;
	uint64_t *pages;

	if (!pd)
		return -ENOENT;
	if (!req->max_pages || req->max_pages > SIMHCA_MAX_FAST_REG_PAGES)
		return simhca_why(why, EINVAL, "max_page_list_len = %u: 1 to %u", req->max_pages,
				  SIMHCA_MAX_FAST_REG_PAGES);
	pages = calloc(req->max_pages, sizeof(*pages));
	if (!pages)
		return simhca_why(why, ENOMEM, "out of memory");
	region = simhca_key_create(context, SIMHCA_OBJ_MR, pd, &reply->handle, why);
	if (!region) {
		free(pages);
		return -ENOMEM;
	}
	region->mm = mm;
	mm->regions++;
	region->pages = pages;
	region->mpt->pages = req->max_pages;
	reply->lkey = reply->rkey = region->mpt->key;
	simhca_key_publish(region, SIMHCA_MPT_FAST_MR);
	return 0;
}

/* What must hold of the region: before the list is read, and still after it. Under its lock. */
static enum simhca_reason check_region(const struct simhca_key_use *use,
				       const struct simhca_key *region,
				       const struct simhca_send_wqe *wqe)
{
	const struct simhca_mpt *mpt = region->mpt;

	if (atomic_load_explicit(&mpt->state, memory_order_relaxed) != SIMHCA_MPT_FAST_MR)
		return SIMHCA_REASON_FAST_REG_NO_REGION;
	if (mpt->pd != use->pd)
		return SIMHCA_REASON_KEY_WRONG_PD;
	if (atomic_load_explicit(&mpt->valid, memory_order_relaxed))
		return SIMHCA_REASON_FAST_REG_NOT_FREE;
	if (wqe->fast_reg.num_pages > mpt->pages)
		return SIMHCA_REASON_FAST_REG_TOO_MANY_PAGES;
	return SIMHCA_REASON_NONE;
}

/* What must hold of the request whatever the region is. */
static enum simhca_reason check_request(const struct simhca_send_wqe *wqe)
{
	uint32_t shift = wqe->fast_reg.page_shift, access = wqe->fast_reg.access;
	uint64_t iova = wqe->fast_reg.iova, length = wqe->fast_reg.length, first_byte, room;

	if (shift < SIMHCA_FAST_REG_MIN_PAGE_SHIFT || shift > SIMHCA_FAST_REG_MAX_PAGE_SHIFT)
		return SIMHCA_REASON_FAST_REG_PAGE_SIZE;
	if ((access & ~KNOWN_ACCESS) || !simhca_may_grant(access, access))
		return SIMHCA_REASON_FAST_REG_BAD_ACCESS;
	if (simhca_wraps(iova, length))
		return SIMHCA_REASON_KEY_WRAPS;
	first_byte = iova & ((1ull << shift) - 1);
	room = (uint64_t)wqe->fast_reg.num_pages << shift;
	if (first_byte > room || length > room - first_byte)
		return SIMHCA_REASON_FAST_REG_PAST_END;
	return SIMHCA_REASON_NONE;
}

/* Copies the list to where nobody else writes, and judges that copy. */
static enum simhca_reason read_list(struct simhca_worker *worker, struct simhca_mm *mm,
				    const struct simhca_send_wqe *wqe, uint64_t *list)
{
	uint64_t bytes = wqe->fast_reg.num_pages * sizeof(*list);
	uint64_t page_size = 1ull << wqe->fast_reg.page_shift;
	struct simhca_sgl from, to;
	enum simhca_reason reason;

	from.count = to.count = 1;
	from.seg[0] =
		(struct simhca_seg){ .mm = mm, .addr = wqe->fast_reg.page_list, .length = bytes };
	to.seg[0] = (struct simhca_seg){ .addr = (uintptr_t)list, .length = bytes };
	if (simhca_dma_copy(&to, &from, bytes, &worker->mover, &reason) != SIMHCA_DMA_OK)
		return reason;
	/* The device owns it since the post: registering what it says now would be a guess. */
	if (simhca_page_list_sum(list, wqe->fast_reg.num_pages) != wqe->page_list_sum)
		return SIMHCA_REASON_FAST_REG_LIST_CHANGED;
	for (uint32_t i = 0; i < wqe->fast_reg.num_pages; i++)
		if (list[i] & (page_size - 1))
			return SIMHCA_REASON_FAST_REG_UNALIGNED;
	return SIMHCA_REASON_NONE;
}

static void fill(struct simhca_key *region, const struct simhca_send_wqe *wqe, const uint64_t *list)
{
	uint64_t iova = wqe->fast_reg.iova;
	struct simhca_mpt *mpt = region->mpt;

	memcpy(region->pages, list, wqe->fast_reg.num_pages * sizeof(*list));
	region->first_byte = iova & ((1ull << wqe->fast_reg.page_shift) - 1);
	mpt->key = wqe->fast_reg.key;
	mpt->access = wqe->fast_reg.access;
	mpt->iova = simhca_first_iova(wqe->fast_reg.access, iova);
	mpt->length = wqe->fast_reg.length;
	mpt->page_shift = wqe->fast_reg.page_shift;
	atomic_store_explicit(&mpt->valid, 1, memory_order_relaxed);
}

enum simhca_reason simhca_fast_reg(const struct simhca_key_use *use, uint32_t context_id,
				   const struct simhca_send_wqe *wqe,
				   struct simhca_engine **elsewhere)
{
	const struct simhca_mpt *mpt = simhca_mpt_find(use->device, wqe->fast_reg.key);
	struct simhca_key *region = mpt ? simhca_key_of(use->device, wqe->fast_reg.key) : NULL;
	uint64_t *list = (uint64_t *)((char *)use->worker->mover.scratch + LIST_AT);
	enum simhca_reason reason;

	if (!region)
		return SIMHCA_REASON_FAST_REG_NO_REGION;
	pthread_mutex_lock(&region->lock);
	reason = check_region(use, region, wqe);
	pthread_mutex_unlock(&region->lock);
	if (reason == SIMHCA_REASON_NONE)
		reason = check_request(wqe);
	if (reason != SIMHCA_REASON_NONE)
		return reason;
	/* No lock is held while we are in the client's memory. */
	if (region->mm->kind == SIMHCA_MM_AGENT && !use->worker->engine->config.may_block) {
		*elsewhere = region->mm->engine;
		return SIMHCA_REASON_NONE;
	}
	/* All that we still use is of that context: the list may take as long as it likes. */
	simhca_guard_narrow(&use->worker->guard, context_id, context_id);
	reason = read_list(use->worker, region->mm, wqe, list);
	if (reason != SIMHCA_REASON_NONE)
		return reason;
	pthread_mutex_lock(&region->lock);
	reason = check_region(use, region, wqe);
	if (reason == SIMHCA_REASON_NONE)
		fill(region, wqe, list);
	pthread_mutex_unlock(&region->lock);
	return reason;
}
