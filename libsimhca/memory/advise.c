/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* ibv_advise_mr(): pages of on-demand regions are brought in before anybody accesses them. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "advise.h"
#include "core/context.h"
#include "core/mpt.h"
#include "key.h"
#include "paging/line.h"
#include "paging/odp.h"
#include "paging/page_map.h"
#include "simhca-device.h"
#include "simhca-verbs.h"

#define MOST_ADVICES 256 /* of one context, at a time */
#define STEP_BYTES (512 * SIMHCA_PAGE_BYTES)

/* The region that an SGE of the request names; NULL: -*error and why. */
static struct simhca_odp *find_region(struct simhca_context *context,
				      const struct simhca_advise_mr_req *req,
				      const struct simhca_sge *sge, const struct simhca_pd *pd,
				      uint64_t *addr, int *error, struct simhca_why *why)
{
	const struct simhca_mpt *mpt = simhca_mpt_find(context->device, sge->lkey);
	struct simhca_key *key = mpt ? simhca_key_of(context->device, sge->lkey) : NULL;
	uint64_t offset;

	if (!key || mpt->key != sge->lkey) {
		*error = simhca_why(why, ENOENT, "lkey 0x%08x: no region has this key", sge->lkey);
		return NULL;
	}
	if (key->pd != pd) {
		*error = simhca_why(why, EPERM, "lkey 0x%08x: the region is of another PD",
				    sge->lkey);
		return NULL;
	}
	if (!key->odp) {
		*error = simhca_why(why, EINVAL, "lkey 0x%08x: the region is not ON_DEMAND",
				    sge->lkey);
		return NULL;
	}
	if (req->advice == SIMHCA_ADVICE_PREFETCH_WRITE &&
	    !(mpt->access & SIMHCA_ACCESS_LOCAL_WRITE)) {
		*error = simhca_why(why, EPERM, "lkey 0x%08x: the region lacks LOCAL_WRITE",
				    sge->lkey);
		return NULL;
	}
	if (simhca_mpt_check_range(mpt, sge->addr, sge->length, &offset) != SIMHCA_REASON_NONE) {
		*error = simhca_why(why, EFAULT,
				    "lkey 0x%08x: 0x%" PRIx64 " + %u bytes are not in the region",
				    sge->lkey, sge->addr, sge->length);
		return NULL;
	}
	*addr = mpt->addr + offset;
	return key->odp;
}

static int check(const struct simhca_advise_mr_req *req, struct simhca_why *why)
{
	if (req->advice > SIMHCA_ADVICE_PREFETCH_NO_FAULT)
		return simhca_why(why, EOPNOTSUPP, "advice %u is not known", req->advice);
	if (req->flags & ~SIMHCA_ADVISE_FLUSH)
		return simhca_why(why, EINVAL, "flags 0x%x: only FLUSH (0x1) is known", req->flags);
	if (!req->num_sge || req->num_sge > SIMHCA_ADVISE_MAX_SGE)
		return simhca_why(why, EINVAL, "num_sge = %u: 1 to %u", req->num_sge,
				  SIMHCA_ADVISE_MAX_SGE);
	return 0;
}

static int fill(struct simhca_advice *advice, struct simhca_context *context,
		const struct simhca_advise_mr_req *req, struct simhca_why *why)
{
	const struct simhca_pd *pd = simhca_object(context, SIMHCA_OBJ_PD, req->pd, why);

	if (!pd)
		return -ENOENT;
	for (uint32_t i = 0; i < req->num_sge; i++) {
		struct simhca_page_range *range = &advice->range[advice->work.num_ranges];
		int error = 0;

		range->odp = find_region(context, req, &req->sge[i], pd, &range->addr, &error, why);
		if (!range->odp)
			return error;
		range->length = req->sge[i].length;
		if (range->length)
			advice->work.num_ranges++;
	}
	return 0;
}

/* Under faults.lock. */
static void forget(struct simhca_advice *advice)
{
	LL_DELETE(advice->context->advices, advice);
	advice->context->num_advices--;
	free(advice);
}

/* The outcome of an advice that is being waited for. */
static int collect(struct simhca_context *context, const struct simhca_advise_mr_req *req,
		   struct simhca_why *why)
{
	struct simhca_faults *faults = context->device->fabric->faults;
	struct simhca_advice *advice;
	int ret = 0;

	pthread_mutex_lock(&faults->lock);
	for (advice = context->advices; advice; advice = advice->next)
		if (advice->number == req->reserved && advice->wanted)
			break;
	if (!advice) {
		ret = simhca_why(why, EINVAL, "no such prefetch is being waited for");
	} else if (!advice->done) {
		ret = -EAGAIN;
	} else {
		if (advice->reason != SIMHCA_REASON_NONE)
			ret = simhca_why(why, EFAULT, "%s", simhca_reason_text(advice->reason));
		forget(advice);
	}
	pthread_mutex_unlock(&faults->lock);
	return ret;
}

static bool advice_step(struct simhca_page_work *work)
{
	struct simhca_advice *advice = (struct simhca_advice *)work;
	const struct simhca_page_range *range = &advice->range[advice->at];
	uint64_t left = range->length - advice->offset;
	uint64_t length = left < STEP_BYTES ? left : STEP_BYTES, pages;

	advice->reason = simhca_odp_bring_in(range->odp, range->addr + advice->offset, length,
					     advice->write, advice->fault, &pages);
	simhca_odp_add(range->odp, SIMHCA_ODP_PREFETCHED_PAGES, pages);
	if (advice->reason != SIMHCA_REASON_NONE)
		return true;
	advice->offset += length;
	if (advice->offset == range->length) {
		simhca_odp_add(range->odp, SIMHCA_ODP_PREFETCHES, 1);
		advice->offset = 0;
		advice->at++;
	}
	return advice->at == advice->work.num_ranges;
}

static void advice_ended(struct simhca_page_work *work)
{
	struct simhca_advice *advice = (struct simhca_advice *)work;

	if (advice->wanted)
		advice->done = true;
	else
		forget(advice);
}

static void advice_withdrawn(struct simhca_page_work *work)
{
	((struct simhca_advice *)work)->reason = SIMHCA_REASON_KEY_UNKNOWN;
	advice_ended(work);
}

static const struct simhca_page_work_ops advice_ops = {
	.step = advice_step,
	.ended = advice_ended,
	.withdrawn = advice_withdrawn,
};

int simhca_advise_mr(struct simhca_context *context, struct simhca_advise_mr_req *req,
		     struct simhca_why *why)
{
	struct simhca_faults *faults = context->device->fabric->faults;
	struct simhca_advice *advice;
	int ret;

	if (req->reserved)
		return collect(context, req, why);
	ret = check(req, why);
	if (ret)
		return ret;
	advice = calloc(1, sizeof(*advice));
	if (!advice)
		return simhca_why(why, ENOMEM, "out of memory");
	ret = fill(advice, context, req, why);
	if (ret || !advice->work.num_ranges) {
		free(advice);
		return ret;
	}
	advice->work.ops = &advice_ops;
	advice->work.clock = context->engine;
	advice->work.range = advice->range;
	advice->work.pager = advice->range[0].odp->pager;
	advice->context = context;
	advice->number = ++context->next_advice;
	advice->write = req->advice == SIMHCA_ADVICE_PREFETCH_WRITE;
	advice->fault = req->advice != SIMHCA_ADVICE_PREFETCH_NO_FAULT;
	advice->wanted = req->flags & SIMHCA_ADVISE_FLUSH;
	if (advice->wanted)
		req->reserved = advice->number;
	ret = advice->wanted ? -EAGAIN : 0;
	pthread_mutex_lock(&faults->lock);
	if (context->num_advices >= MOST_ADVICES) {
		pthread_mutex_unlock(&faults->lock);
		req->reserved = 0;
		free(advice);
		return simhca_why(why, ENOMEM, "%u prefetches are under way already", MOST_ADVICES);
	}
	LL_PREPEND(context->advices, advice);
	context->num_advices++;
	simhca_faults_enqueue(&advice->work);
	pthread_mutex_unlock(&faults->lock);
	return ret;
}

void simhca_advices_forget(struct simhca_context *context)
{
	struct simhca_faults *faults = context->device->fabric->faults;

	/* The regions are gone, and with them all that was queued or under way. */
	pthread_mutex_lock(&faults->lock);
	while (context->advices)
		forget(context->advices);
	pthread_mutex_unlock(&faults->lock);
}
