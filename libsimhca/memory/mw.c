/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Memory windows (IBTA vol. 1, 10.6.7): a second key to a part of a region, with remote rights
 * of its own. Commands make and destroy them, work requests bind them.
 */
#include <errno.h>

#include "core/context.h"
#include "core/fabric.h"
#include "core/gone.h"
#include "core/mpt.h"
#include "key.h"
#include "mr.h"
#include "mw.h"
#include "simhca-device.h"
#include "simhca-verbs.h"

#define KNOWN_ACCESS                                                                               \
	(SIMHCA_ACCESS_REMOTE_ALL | SIMHCA_ACCESS_ZERO_BASED | SIMHCA_ACCESS_LOCAL_WRITE |         \
	 SIMHCA_ACCESS_FLUSH_ALL | SIMHCA_ACCESS_OPTIONAL)

int simhca_alloc_mw(struct simhca_context *context, const struct simhca_alloc_mw_req *req,
		    struct simhca_alloc_mw_reply *reply, struct simhca_why *why)
{
	struct simhca_pd *pd = simhca_object(context, SIMHCA_OBJ_PD, req->pd, why);
	enum simhca_mpt_type type = SIMHCA_MPT_MW_1;
	struct simhca_key *window;

	if (!pd)
		return -ENOENT;
	if (req->type != SIMHCA_MW_TYPE_1 && req->type != SIMHCA_MW_TYPE_2)
		return simhca_why(why, EINVAL, "memory window type %u: only 1 and 2", req->type);
	window = simhca_key_create(context, SIMHCA_OBJ_MW, pd, &reply->handle, why);
	if (!window)
		return -ENOMEM;
	if (req->type == SIMHCA_MW_TYPE_2)
		type = context->device->config.mw_type_2a ? SIMHCA_MPT_MW_2A : SIMHCA_MPT_MW_2B;
	reply->rkey = window->mpt->key;
	simhca_key_publish(window, type);
	return 0;
}

static void leave_region(struct simhca_key *region)
{
	pthread_mutex_lock(&region->lock);
	region->mpt->bound--;
	pthread_mutex_unlock(&region->lock);
}

void simhca_mw_unbind(struct simhca_key *window)
{
	struct simhca_key *region = window->region;

	if (!region)
		return;
	atomic_store_explicit(&window->mpt->valid, 0, memory_order_relaxed);
	window->mpt->qpn = 0;
	window->mpt->bound = 0;
	window->region = NULL;
	/* From here on the region may go; what is under way by the window its guard waits for. */
	leave_region(region);
}

static void unbind(struct simhca_key *window)
{
	pthread_mutex_lock(&window->lock);
	simhca_mw_unbind(window);
	pthread_mutex_unlock(&window->lock);
}

int simhca_dealloc_mw(struct simhca_context *context, uint32_t handle, struct simhca_why *why)
{
	struct simhca_key *window = simhca_object(context, SIMHCA_OBJ_MW, handle, why);
	struct simhca_gone_key was;
	int ret;

	if (!window)
		return -ENOENT;
	was = (struct simhca_gone_key){ .key = window->mpt->key,
					.pd = window->mpt->pd,
					.iova = window->mpt->iova,
					.length = window->mpt->length,
					.window = true };
	ret = simhca_key_withdraw(context, window);
	unbind(window); /* also if an access is under way: none starts, and no bind */
	if (ret)
		return ret;
	simhca_gone_add(context->device->gone, &was);
	simhca_key_destroy(context, SIMHCA_OBJ_MW, handle, window);
	return 0;
}

void simhca_free_windows_of(struct simhca_context *context, uint32_t qpn)
{
	const struct simhca_handles *windows = &context->handles[SIMHCA_OBJ_MW];

	/*
	 * All windows that it can have bound are of its PD, and so of its context. That is one look at
	 * each, of config.max_mw at most: 2 ms for all 65,536 of a device, by the thread that serves its
	 * command, and no engine waits for a QP that is being reset.
	 */
	for (uint32_t i = 0; windows->count && i < windows->room; i++) {
		struct simhca_key *window = windows->slot[i];

		if (!window)
			continue;
		pthread_mutex_lock(&window->lock);
		if (window->region && window->mpt->qpn == qpn)
			simhca_mw_unbind(window);
		pthread_mutex_unlock(&window->lock);
	}
}

/* What the window itself says to being bound so. Under its lock. */
static enum simhca_reason check_window(const struct simhca_key_use *use,
				       const struct simhca_key *window,
				       const struct simhca_send_wqe *wqe)
{
	const struct simhca_mpt *mpt = window->mpt;
	uint32_t state = atomic_load_explicit(&mpt->state, memory_order_relaxed);
	uint32_t type = state == SIMHCA_MPT_MW_1 ? SIMHCA_MW_TYPE_1 : SIMHCA_MW_TYPE_2;

	if (!simhca_is_window(state))
		return SIMHCA_REASON_BIND_NO_WINDOW;
	if (mpt->pd != use->pd)
		return SIMHCA_REASON_KEY_WRONG_PD;
	if (wqe->bind.type != type)
		return SIMHCA_REASON_BIND_WRONG_TYPE;
	if (wqe->bind.access & ~KNOWN_ACCESS)
		return SIMHCA_REASON_BIND_BAD_ACCESS;
	if (type == SIMHCA_MW_TYPE_1)
		return SIMHCA_REASON_NONE;
	if (!wqe->bind.length)
		return SIMHCA_REASON_BIND_NO_LENGTH;
	return window->region ? SIMHCA_REASON_BIND_NOT_FREE : SIMHCA_REASON_NONE;
}

/* What the region says. Under its lock. */
static enum simhca_reason check_region(const struct simhca_key_use *use,
				       const struct simhca_key *region,
				       const struct simhca_send_wqe *wqe, uint64_t *offset)
{
	const struct simhca_key_user user = { .pd = use->pd };
	const struct simhca_mpt *mpt = region->mpt;
	uint32_t type = atomic_load_explicit(&mpt->state, memory_order_relaxed);
	enum simhca_reason reason;

	/* Once more, now that it cannot change: it may have been taken out. */
	if (type == SIMHCA_MPT_FREE)
		return SIMHCA_REASON_KEY_UNKNOWN;
	reason = simhca_mpt_check_user(mpt, type, wqe->bind.lkey, user);
	if (reason != SIMHCA_REASON_NONE)
		return reason;
	if (!(mpt->access & SIMHCA_ACCESS_MW_BIND))
		return SIMHCA_REASON_MR_NO_MW_BIND;
	if (!simhca_may_grant(wqe->bind.access, mpt->access))
		return SIMHCA_REASON_BIND_NEEDS_LOCAL_WRITE;
	return simhca_mpt_check_range(mpt, wqe->bind.addr, wqe->bind.length, offset);
}

/* Counts the window against the region, if it may be bound to it. */
static enum simhca_reason take_region(const struct simhca_key_use *use,
				      const struct simhca_send_wqe *wqe, struct simhca_key **found,
				      uint64_t *offset)
{
	const struct simhca_mpt *mpt = simhca_mpt_find(use->device, wqe->bind.lkey);
	struct simhca_key *region;
	enum simhca_reason reason;

	if (!mpt)
		return SIMHCA_REASON_KEY_UNKNOWN;
	/* Before its lock is taken, for we hold a window's. */
	if (simhca_is_window(atomic_load_explicit(&mpt->state, memory_order_relaxed)))
		return SIMHCA_REASON_BIND_NO_REGION;
	region = simhca_key_of(use->device, wqe->bind.lkey);
	if (!region)
		return SIMHCA_REASON_KEY_UNKNOWN;
	pthread_mutex_lock(&region->lock);
	reason = check_region(use, region, wqe, offset);
	if (reason == SIMHCA_REASON_NONE)
		region->mpt->bound++;
	pthread_mutex_unlock(&region->lock);
	*found = region;
	return reason;
}

static void fill(struct simhca_key *window, const struct simhca_key_use *use,
		 const struct simhca_send_wqe *wqe, struct simhca_key *region, uint64_t offset)
{
	struct simhca_mpt *mpt = window->mpt;

	mpt->key = simhca_key_bound(mpt->key, wqe->bind.new_rkey);
	if (mpt->key != wqe->bind.new_rkey)
		simhca_log(
			use->device->fabric, SIMHCA_LOG_DEBUG,
			"QP 0x%06x binds a window: the rkey 0x%08x that it was given makes 0x%08x",
			use->qpn, wqe->bind.new_rkey, mpt->key);
	if (!region)
		return;
	window->region = region;
	window->region_offset = offset;
	mpt->access = wqe->bind.access;
	mpt->iova = simhca_first_iova(wqe->bind.access, wqe->bind.addr);
	mpt->length = wqe->bind.length;
	mpt->addr = region->pages ? 0 : region->mpt->addr + offset;
	mpt->bound = region->index;
	mpt->qpn = wqe->bind.type == SIMHCA_MW_TYPE_2 ? use->qpn : 0;
	atomic_store_explicit(&mpt->valid, 1, memory_order_relaxed);
}

/* Under the window's lock. */
static enum simhca_reason bind(const struct simhca_key_use *use, struct simhca_key *window,
			       const struct simhca_send_wqe *wqe, bool *again)
{
	struct simhca_key *region = NULL;
	uint64_t offset = 0;
	enum simhca_reason reason;

	reason = check_window(use, window, wqe);
	if (reason == SIMHCA_REASON_NONE && wqe->bind.length)
		reason = take_region(use, wqe, &region, &offset);
	if (reason != SIMHCA_REASON_NONE)
		return reason;
	/* The old key ends here. When the bind completes no access by it is under way. */
	simhca_mw_unbind(window);
	if (!window->uses) {
		fill(window, use, wqe, region, offset);
		return SIMHCA_REASON_NONE;
	}
	*again = true;
	if (region)
		leave_region(region);
	return SIMHCA_REASON_NONE;
}

enum simhca_reason simhca_bind_mw(const struct simhca_key_use *use,
				  const struct simhca_send_wqe *wqe, bool *again)
{
	const struct simhca_mpt *mpt = simhca_mpt_find(use->device, wqe->bind.mw);
	struct simhca_key *window = mpt ? simhca_key_of(use->device, wqe->bind.mw) : NULL;
	enum simhca_reason reason;

	if (!window || !simhca_is_window(atomic_load_explicit(&mpt->state, memory_order_relaxed)))
		return SIMHCA_REASON_BIND_NO_WINDOW;
	pthread_mutex_lock(&window->lock);
	reason = bind(use, window, wqe, again);
	pthread_mutex_unlock(&window->lock);
	return reason;
}
