/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Ordinary memory regions and the null region; fast-register regions are in fast_reg.c. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "core/context.h"
#include "core/gone.h"
#include "core/mpt.h"
#include "dma/dma.h"
#include "dma/process_map.h"
#include "key.h"
#include "mappable.h"
#include "mr.h"
#include "paging/odp.h"
#include "paging/page_map.h"
#include "paging/watch.h"
#include "simhca-device.h"
#include "simhca-verbs.h"

#define KNOWN_ACCESS                                                                               \
	(SIMHCA_ACCESS_LOCAL_WRITE | SIMHCA_ACCESS_REMOTE_ALL | SIMHCA_ACCESS_MW_BIND |            \
	 SIMHCA_ACCESS_ZERO_BASED | SIMHCA_ACCESS_ON_DEMAND | SIMHCA_ACCESS_HUGETLB |              \
	 SIMHCA_ACCESS_FLUSH_ALL)

uint32_t simhca_unknown_access(uint32_t access)
{
	return access & ~(KNOWN_ACCESS | SIMHCA_ACCESS_OPTIONAL);
}

int simhca_check_access(uint32_t access, struct simhca_why *why)
{
	const uint32_t unknown = simhca_unknown_access(access);

	if (unknown)
		return simhca_why(why, EINVAL, "access = 0x%x: bit %d is no IBV_ACCESS flag",
				  access, __builtin_ctz(unknown));
	if (!simhca_may_grant(access, access))
		return simhca_why(why, EINVAL,
				  "REMOTE_WRITE and REMOTE_ATOMIC need LOCAL_WRITE as well");
	return 0;
}

/* What an implicit on-demand region is asked for by (ibv_reg_mr(3)): SIZE_MAX, or one less. */
static bool is_all_memory(uint64_t addr, uint64_t length)
{
	return !addr && length >= UINT64_MAX - 1;
}

/* As the kernel has it (ib_umem_get()), nothing else ends in the last page of the address space. */
static bool ends_too_far(uint64_t addr, uint64_t length)
{
	const uint64_t end = addr + length;

	return !is_all_memory(addr, length) && (end < addr || end > UINT64_MAX - 4095);
}

static int check_range(const struct simhca_mm *mm, uint64_t addr, uint64_t length, uint64_t iova,
		       uint32_t access, bool unmapped, struct simhca_why *why)
{
	/* A forked child has no agent yet: its provider starts one when it is told so. */
	if (mm->kind == SIMHCA_MM_AGENT && !mm->agent)
		return simhca_why(
			why, ENOTCONN,
			"the device cannot reach the memory of process %d, which has no agent",
			(int)mm->pid);
	if (ends_too_far(addr, length) || simhca_wraps(iova, length))
		return simhca_why(why, EINVAL,
				  "0x%" PRIx64 " + %" PRIu64
				  " bytes pass the end of the address space",
				  addr, length);
	/* Of an on-demand region nothing need be mapped before it is accessed. */
	if (is_all_memory(addr, length) && !(access & SIMHCA_ACCESS_ON_DEMAND))
		return simhca_why(why, EFAULT,
				  "the whole address space can be registered with "
				  "IBV_ACCESS_ON_DEMAND only");
	if (unmapped && !(access & SIMHCA_ACCESS_ON_DEMAND))
		return simhca_why(why, EFAULT,
				  "0x%" PRIx64 " + %" PRIu64 " bytes are not all mapped%s", addr,
				  length, simhca_needs_writable(access) ? " and writable" : "");
	return 0;
}

/* The on-demand part of a region with this access, or NULL if it has none. */
static int make_odp(struct simhca_device *device, struct simhca_mm *mm, uint64_t addr,
		    uint64_t length, uint32_t access, struct simhca_odp **odp,
		    struct simhca_why *why)
{
	*odp = NULL;
	if (!(access & SIMHCA_ACCESS_ON_DEMAND))
		return 0;
	*odp = simhca_odp_create(device, mm, addr, length, access, why);
	return *odp ? 0 : -ENOMEM;
}

/* What programs may reach by themselves. Not what the device has to ask for page by page. */
static uint32_t caller_mm(const struct simhca_mm *mm, uint32_t access)
{
	if ((mm->kind != SIMHCA_MM_OWN && mm->kind != SIMHCA_MM_PROCESS_VM) ||
	    (access & SIMHCA_ACCESS_ON_DEMAND))
		return 0;
	return mm->number;
}

static struct simhca_gone_key as_gone(const struct simhca_mpt *mpt)
{
	return (struct simhca_gone_key){
		.key = mpt->key,
		.pd = mpt->pd,
		.addr = mpt->addr,
		.iova = mpt->iova,
		.length = mpt->length,
		.access = mpt->access,
	};
}

void simhca_region_registered(struct simhca_context *context, const struct simhca_key *region)
{
	const struct simhca_gone_key now = as_gone(region->mpt);

	context->registered++;
	simhca_gone_follow(context->device->gone, &now);
}

int simhca_reg_mr(struct simhca_context *context, struct simhca_mm *mm,
		  const struct simhca_reg_mr_req *req, struct simhca_reg_mr_reply *reply,
		  struct simhca_why *why)
{
	struct simhca_pd *pd = simhca_object(context, SIMHCA_OBJ_PD, req->pd, why);
	struct simhca_fabric *fabric = context->device->fabric;
	struct simhca_mpt *mpt;
	struct simhca_key *region;
	struct simhca_odp *odp;
	int ret;

	if (!pd)
		return -ENOENT;
	if (req->null_mr) {
		mm = simhca_mm_create(fabric, 0);
		if (!mm)
			return simhca_why(why, ENOMEM, "out of memory");
		mm->kind = SIMHCA_MM_NULL;
	} else {
		ret = simhca_check_access(req->access, why);
		if (!ret)
			ret = check_range(mm, req->addr, req->length, req->iova, req->access,
					  req->unmapped, why);
		if (ret)
			return ret;
	}
	ret = make_odp(context->device, mm, req->addr, req->length, req->null_mr ? 0 : req->access,
		       &odp, why);
	if (ret)
		return ret;
	region = simhca_key_create(context, SIMHCA_OBJ_MR, pd, &reply->handle, why);
	if (!region) {
		if (req->null_mr)
			simhca_mm_destroy(fabric, mm);
		simhca_odp_destroy(odp);
		return -ENOMEM;
	}
	region->mm = mm;
	mm->regions++;
	region->odp = odp;
	mpt = region->mpt;
	if (req->null_mr) {
		/* Its PD may go before it, as with mlx5, whose null MR is a key of the context. */
		pd->users[SIMHCA_OBJ_MR]--;
		region->pd = NULL;
		mpt->access = SIMHCA_ACCESS_LOCAL_WRITE;
		mpt->length = UINT64_MAX;
	} else {
		mpt->access = req->access;
		mpt->iova = simhca_first_iova(req->access, req->iova);
		mpt->addr = req->addr;
		mpt->length = req->length;
		mpt->mm = caller_mm(mm, req->access);
	}
	reply->lkey = reply->rkey = mpt->key;
	if (req->null_mr)
		context->registered++;
	else
		simhca_region_registered(context, region);
	simhca_key_publish(region, req->null_mr ? SIMHCA_MPT_NULL_MR : SIMHCA_MPT_MR);
	return 0;
}

/* No access that starts from now on finds the region, and neither one nor a fault is under way. */
static int withdraw(struct simhca_context *context, struct simhca_key *region,
		    struct simhca_why *why)
{
	int ret = simhca_region_withdraw(context, region, why);

	return ret || simhca_odp_close(region->odp) ? ret : -EAGAIN;
}

void simhca_region_leave_file(struct simhca_context *context, struct simhca_key *region)
{
	struct simhca_device *device = context->device;

	simhca_region_forget_file(context, region);
	device->file_mrs--;
	device->file_mr_bytes -= region->mpt->length;
	simhca_mm_destroy(device->fabric, region->mm);
	if (region->home)
		region->home->regions--;
	region->mm = region->home = NULL;
	region->mpt->home = 0;
	region->of_file = region->moved = false;
}

/* What a region becomes by being registered again. */
struct next {
	struct simhca_pd *pd;
	struct simhca_mm *mm;
	struct simhca_odp *odp;
	uint64_t addr, iova, length;
	uint32_t access;
};

/* Whether regions of its kind can be registered again, by these flags. */
static int check_rereg(const struct simhca_key *mr, uint32_t flags, struct simhca_why *why)
{
	const uint32_t known = SIMHCA_REREG_TRANSLATION | SIMHCA_REREG_PD | SIMHCA_REREG_ACCESS;

	if (mr->mm->kind == SIMHCA_MM_NULL)
		return simhca_why(why, EINVAL, "the null MR cannot be registered again");
	if (mr->dm_users || (mr->of_file && !mr->home))
		return simhca_why(
			why, EINVAL,
			"an MR of on-chip memory or of a file cannot be registered again");
	if (mr->pages)
		return simhca_why(why, EINVAL, "a fast-register MR is registered by work requests");
	if (!flags || (flags & ~known))
		return simhca_why(why, EINVAL, "rereg flags 0x%x: 1 to 7 are known", flags);
	return 0;
}

/* sender: the memory of the process that asks. */
static int find_next(struct simhca_context *context, const struct simhca_key *mr,
		     struct simhca_mm *sender, const struct simhca_rereg_mr_req *req,
		     struct next *next, struct simhca_why *why)
{
	const struct simhca_mpt *mpt = mr->mpt;
	int ret;

	*next = (struct next){
		.pd = mr->pd,
		.mm = mr->home ? mr->home : mr->mm,
		.addr = mpt->addr,
		.iova = mpt->iova,
		.length = mpt->length,
		.access = mpt->access,
	};
	if (req->flags & SIMHCA_REREG_PD) {
		next->pd = simhca_object(context, SIMHCA_OBJ_PD, req->pd, why);
		if (!next->pd)
			return -ENOENT;
	}
	if (req->flags & SIMHCA_REREG_ACCESS) {
		ret = simhca_check_access(req->access, why);
		if (ret)
			return ret;
		next->access = req->access;
	}
	if (req->flags & SIMHCA_REREG_TRANSLATION) {
		next->mm = sender;
		next->addr = req->addr;
		next->length = req->length;
		next->iova = simhca_first_iova(next->access, req->iova);
	}
	ret = check_range(next->mm, next->addr, next->length, next->iova, next->access,
			  req->unmapped, why);
	return ret ? ret
		   : make_odp(context->device, next->mm, next->addr, next->length, next->access,
			      &next->odp, why);
}

/* The region is out of use meanwhile. */
static void become(struct simhca_context *context, struct simhca_key *mr, const struct next *next)
{
	struct simhca_mpt *mpt = mr->mpt;
	struct simhca_gone_key was, now;

	if (mr->of_file)
		simhca_region_leave_file(context, mr);
	else
		mr->mm->regions--;
	simhca_odp_destroy(mr->odp);
	mr->odp = next->odp;
	simhca_watch_destroy(mr->watch);
	mr->watch = NULL;
	was = as_gone(mpt);
	was.changed = true;
	simhca_gone_add(context->device->gone, &was);
	mpt->access = next->access;
	mpt->iova = next->iova;
	mpt->addr = next->addr;
	mpt->length = next->length;
	mpt->mm = caller_mm(next->mm, next->access);
	mpt->pd = next->pd->number;
	mr->pd->users[SIMHCA_OBJ_MR]--;
	next->pd->users[SIMHCA_OBJ_MR]++;
	mr->pd = next->pd;
	mr->mm = next->mm;
	mr->mm->regions++;
	now = as_gone(mpt);
	simhca_gone_follow(context->device->gone, &now);
}

int simhca_rereg_mr(struct simhca_context *context, struct simhca_mm *mm,
		    const struct simhca_rereg_mr_req *req, struct simhca_reg_mr_reply *reply,
		    struct simhca_why *why)
{
	struct simhca_key *mr = simhca_object(context, SIMHCA_OBJ_MR, req->handle, why);
	struct next next;
	int ret;

	if (!mr)
		return -ENOENT;
	ret = check_rereg(mr, req->flags, why);
	if (!ret)
		ret = find_next(context, mr, mm, req, &next, why);
	if (ret)
		return ret;
	ret = withdraw(context, mr, why);
	if (ret) {
		simhca_odp_destroy(next.odp);
		return ret;
	}
	become(context, mr, &next);
	simhca_key_publish(mr, SIMHCA_MPT_MR);
	reply->handle = req->handle;
	reply->lkey = reply->rkey = mr->mpt->key;
	return 0;
}

/* The region is out of use: lets go of the memory that is not its process's. */
static void release_memory(struct simhca_context *context, struct simhca_key *region)
{
	if (region->of_file) {
		simhca_region_leave_file(context, region);
		return;
	}
	simhca_region_forget_file(context, region);
	if (region->dm_users)
		(*region->dm_users)--;
	region->mm->regions--;
	if (region->mm->kind == SIMHCA_MM_NULL)
		simhca_mm_destroy(context->device->fabric, region->mm);
}

int simhca_dereg_mr(struct simhca_context *context, uint32_t handle, struct simhca_why *why)
{
	struct simhca_key *region = simhca_object(context, SIMHCA_OBJ_MR, handle, why);
	struct simhca_gone_key was;
	int ret;

	if (!region)
		return -ENOENT;
	ret = withdraw(context, region, why);
	if (ret)
		return ret;
	simhca_odp_destroy(region->odp);
	simhca_watch_destroy(region->watch);
	was = as_gone(region->mpt);
	simhca_gone_add(context->device->gone, &was);
	release_memory(context, region);
	simhca_key_destroy(context, SIMHCA_OBJ_MR, handle, region);
	return 0;
}

bool simhca_mr_lies_in_file(struct simhca_context *context, uint32_t handle)
{
	const struct simhca_key *region = simhca_object(context, SIMHCA_OBJ_MR, handle, NULL);

	return region && region->of_file && !region->moved;
}

int simhca_watch_mr(struct simhca_context *context, struct simhca_mm *mm, uint32_t handle, int *fd,
		    struct simhca_why *why)
{
	struct simhca_key *region = simhca_object(context, SIMHCA_OBJ_MR, handle, why);
	struct simhca_watch *watch;

	if (!region)
		return -ENOENT;
	if (region->mm != mm || region->odp || region->pages || region->watch)
		return simhca_why(why, EINVAL,
				  "the MR is not an ordinary one of this process, or is watched");
	watch = simhca_watch_create(context->device, mm, region->mpt->addr, region->mpt->length, fd,
				    why);
	if (!watch)
		return -ENOENT;
	/* Release: engines use the region already. */
	atomic_store_explicit(&region->watch, watch, memory_order_release);
	return 0;
}

int simhca_query_mr(struct simhca_context *context, uint32_t handle,
		    struct simhca_query_mr_reply *reply, struct simhca_why *why)
{
	const struct simhca_key *region = simhca_object(context, SIMHCA_OBJ_MR, handle, why);
	const struct simhca_mpt *mpt;

	if (!region)
		return -ENOENT;
	mpt = region->mpt;
	*reply = (struct simhca_query_mr_reply){
		.lkey = mpt->key,
		.rkey = mpt->key,
		.addr = mpt->addr,
		.length = mpt->length,
		.iova = mpt->iova,
		.access = mpt->access,
		.type = mpt->state,
		.windows = mpt->bound,
		.used = atomic_load_explicit(&region->used, memory_order_relaxed),
	};
	if (!region->odp)
		return 0;
	reply->present_pages = simhca_page_map_present(region->odp->map);
	simhca_odp_counters(&reply->odp, region->odp->count);
	return 0;
}
