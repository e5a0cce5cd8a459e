/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Memory regions and the one check that every access by key goes through. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "model.h"

#define REMOTE_CHANGE (SIMHCA_ACCESS_REMOTE_WRITE | SIMHCA_ACCESS_REMOTE_ATOMIC)
#define KNOWN_ACCESS                                                                               \
	(SIMHCA_ACCESS_LOCAL_WRITE | SIMHCA_ACCESS_REMOTE_WRITE | SIMHCA_ACCESS_REMOTE_READ |      \
	 SIMHCA_ACCESS_REMOTE_ATOMIC | SIMHCA_ACCESS_MW_BIND | SIMHCA_ACCESS_ZERO_BASED |          \
	 SIMHCA_ACCESS_HUGETLB)
#define OPTIONAL_ACCESS 0x3ff00000u /* IBV_ACCESS_OPTIONAL_RANGE: may be ignored */

static int check_access(uint32_t access, struct simhca_why *why)
{
	if (access & SIMHCA_ACCESS_ON_DEMAND)
		return simhca_why(why, EOPNOTSUPP,
				  "ON_DEMAND: this device reports no on-demand paging");
	if (access & ~(KNOWN_ACCESS | OPTIONAL_ACCESS))
		return simhca_why(why, EINVAL, "access flags 0x%x are not known",
				  access & ~(KNOWN_ACCESS | OPTIONAL_ACCESS));
	if ((access & REMOTE_CHANGE) && !(access & SIMHCA_ACCESS_LOCAL_WRITE))
		return simhca_why(why, EINVAL,
				  "REMOTE_WRITE and REMOTE_ATOMIC need LOCAL_WRITE as well");
	return 0;
}

static int check_range(const struct simhca_mm *mm, uint64_t addr, uint64_t length, uint64_t iova,
		       uint32_t access, struct simhca_why *why)
{
	/* A forked child has no agent yet: its provider starts one when it is told so. */
	if (mm->kind == SIMHCA_MM_AGENT && !mm->agent)
		return simhca_why(
			why, ENOTCONN,
			"the device cannot reach the memory of process %d, which has no agent",
			(int)mm->pid);
	if (length && (addr + length - 1 < addr || iova + length - 1 < iova))
		return simhca_why(why, EINVAL,
				  "0x%" PRIx64 " + %" PRIu64
				  " bytes pass the end of the address space",
				  addr, length);
	if (simhca_mm_check_range(mm, addr, length, access & SIMHCA_ACCESS_LOCAL_WRITE))
		return simhca_why(why, EFAULT,
				  "0x%" PRIx64 " + %" PRIu64 " bytes are not all mapped%s", addr,
				  length,
				  access & SIMHCA_ACCESS_LOCAL_WRITE ? " and writable" : "");
	return 0;
}

/* A free index, not the one given back last; 0 if there is none. */
static uint32_t find_index(struct simhca_device *device)
{
	for (uint32_t n = 1; n < SIMHCA_MPT_ENTRIES; n++) {
		uint32_t index = device->next_key_index;

		device->next_key_index = index + 1 < SIMHCA_MPT_ENTRIES ? index + 1 : 1;
		if (!atomic_load_explicit(&device->mrs[index], memory_order_relaxed))
			return index;
	}
	return 0;
}

static void publish(struct simhca_mpt *mpt, enum simhca_mpt_type type)
{
	/* release: whoever sees the type sees the rest of the entry. */
	atomic_store_explicit(&mpt->state, type, memory_order_release);
}

/* No access that starts from now on finds the entry, and none is under way when this returns. */
static int withdraw(struct simhca_context *context, struct simhca_mpt *mpt)
{
	atomic_store_explicit(&mpt->state, SIMHCA_MPT_FREE, memory_order_seq_cst);
	return simhca_fabric_synchronize(context->device->fabric, context->id) ? 0 : -EAGAIN;
}

int simhca_reg_mr(struct simhca_context *context, struct simhca_mm *mm,
		  const struct simhca_reg_mr_req *req, struct simhca_reg_mr_reply *reply,
		  struct simhca_why *why)
{
	struct simhca_pd *pd = simhca_object(context, SIMHCA_OBJ_PD, req->pd, why);
	struct simhca_device *device = context->device;
	struct simhca_mpt *mpt;
	struct simhca_mr *mr;
	int ret;

	if (!pd)
		return -EINVAL;
	if (!req->null_mr) {
		ret = check_access(req->access, why);
		if (!ret)
			ret = check_range(mm, req->addr, req->length, req->iova, req->access, why);
		if (ret)
			return ret;
	}
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		return simhca_why(why, ENOMEM, "out of memory");
	mr->pd = pd;
	mr->mm = req->null_mr ? simhca_mm_create(0, &device->fabric->atomicities) : mm;
	mr->index = find_index(device);
	if (!mr->mm || !mr->index) {
		ret = simhca_why(why, ENOMEM, "out of memory or keys");
		goto fail;
	}
	ret = simhca_object_add(context, SIMHCA_OBJ_MR, mr, &reply->handle, why);
	if (ret)
		goto fail;
	pd->users++;
	mpt = &device->mpts[mr->index];
	/* The variant moves on at each use of the index, so that a key kept too long shows. */
	mpt->key = mr->index << 8 | SIMHCA_KEY_VARIANT(mpt->key + 1);
	mpt->pd = pd->number;
	if (req->null_mr) {
		mr->mm->kind = SIMHCA_MM_NULL;
		mpt->access = SIMHCA_ACCESS_LOCAL_WRITE;
		mpt->iova = mpt->addr = 0;
		mpt->length = UINT64_MAX;
	} else {
		mpt->access = req->access;
		mpt->iova = req->access & SIMHCA_ACCESS_ZERO_BASED ? 0 : req->iova;
		mpt->addr = req->addr;
		mpt->length = req->length;
	}
	reply->lkey = reply->rkey = mpt->key;
	atomic_store_explicit(&device->mrs[mr->index], mr, memory_order_release);
	publish(mpt, req->null_mr ? SIMHCA_MPT_NULL_MR : SIMHCA_MPT_MR);
	return 0;
fail:
	if (req->null_mr)
		simhca_mm_destroy(mr->mm, &device->fabric->atomicities);
	free(mr);
	return ret;
}

int simhca_rereg_mr(struct simhca_context *context, struct simhca_mm *mm,
		    const struct simhca_rereg_mr_req *req, struct simhca_reg_mr_reply *reply,
		    struct simhca_why *why)
{
	struct simhca_mr *mr = simhca_object(context, SIMHCA_OBJ_MR, req->handle, why);
	const uint32_t known = SIMHCA_REREG_TRANSLATION | SIMHCA_REREG_PD | SIMHCA_REREG_ACCESS;
	struct simhca_pd *pd;
	struct simhca_mpt *mpt;
	struct simhca_mpt next;
	int ret;

	if (!mr)
		return -EINVAL;
	mpt = &context->device->mpts[mr->index];
	if (atomic_load(&mpt->state) == SIMHCA_MPT_NULL_MR)
		return simhca_why(why, EINVAL, "the null MR cannot be registered again");
	if (!req->flags || (req->flags & ~known))
		return simhca_why(why, EINVAL, "rereg flags 0x%x: 1 to 7 are known", req->flags);
	next = (struct simhca_mpt){
		.access = mpt->access, .iova = mpt->iova, .addr = mpt->addr, .length = mpt->length
	};
	pd = mr->pd;
	if (req->flags & SIMHCA_REREG_PD) {
		pd = simhca_object(context, SIMHCA_OBJ_PD, req->pd, why);
		if (!pd)
			return -EINVAL;
	}
	if (req->flags & SIMHCA_REREG_ACCESS) {
		ret = check_access(req->access, why);
		if (ret)
			return ret;
		next.access = req->access;
	}
	if (req->flags & SIMHCA_REREG_TRANSLATION) {
		next.addr = req->addr;
		next.length = req->length;
		next.iova = next.access & SIMHCA_ACCESS_ZERO_BASED ? 0 : req->iova;
	} else {
		mm = mr->mm;
	}
	ret = check_range(mm, next.addr, next.length, next.iova, next.access, why);
	if (ret)
		return ret;

	ret = withdraw(context, mpt);
	if (ret)
		return ret;
	mpt->access = next.access;
	mpt->iova = next.iova;
	mpt->addr = next.addr;
	mpt->length = next.length;
	mpt->pd = pd->number;
	mr->pd->users--;
	pd->users++;
	mr->pd = pd;
	mr->mm = mm;
	publish(mpt, SIMHCA_MPT_MR);
	reply->handle = req->handle;
	reply->lkey = reply->rkey = mpt->key;
	return 0;
}

int simhca_dereg_mr(struct simhca_context *context, uint32_t handle, struct simhca_why *why)
{
	struct simhca_mr *mr = simhca_object(context, SIMHCA_OBJ_MR, handle, why);
	struct simhca_device *device = context->device;

	int ret;

	if (!mr)
		return -EINVAL;
	ret = withdraw(context, &device->mpts[mr->index]);
	if (ret)
		return ret;
	atomic_store_explicit(&device->mrs[mr->index], NULL, memory_order_release);
	mr->pd->users--;
	simhca_object_remove(context, SIMHCA_OBJ_MR, handle);
	if (mr->mm->kind == SIMHCA_MM_NULL)
		simhca_mm_destroy(mr->mm, &device->fabric->atomicities);
	free(mr);
	return 0;
}

/* The reason that names the missing right; the region's or window's side. */
static enum simhca_reason missing_right(uint32_t missing)
{
	if (missing & SIMHCA_ACCESS_LOCAL_WRITE)
		return SIMHCA_REASON_MR_NO_LOCAL_WRITE;
	if (missing & SIMHCA_ACCESS_REMOTE_WRITE)
		return SIMHCA_REASON_MR_NO_REMOTE_WRITE;
	if (missing & SIMHCA_ACCESS_REMOTE_READ)
		return SIMHCA_REASON_MR_NO_REMOTE_READ;
	return SIMHCA_REASON_MR_NO_REMOTE_ATOMIC;
}

enum simhca_reason simhca_translate(struct simhca_device *device, uint32_t key, uint64_t va,
				    uint64_t length, const struct simhca_key_use *use,
				    struct simhca_seg *seg)
{
	uint32_t index = SIMHCA_KEY_INDEX(key), missing;
	const struct simhca_mpt *mpt;
	struct simhca_mr *mr;
	uint64_t offset;

	*seg = (struct simhca_seg){ 0 };
	if (!length)
		return SIMHCA_REASON_NONE;
	if (index >= SIMHCA_MPT_ENTRIES)
		return SIMHCA_REASON_KEY_UNKNOWN;
	mpt = &device->mpts[index];
	/*
	 * seq_cst, after the guard was entered: either we see FREE, or the withdrawal waits for
	 * our step to end. The load also acquires what publish() released.
	 */
	if (atomic_load_explicit(&mpt->state, memory_order_seq_cst) == SIMHCA_MPT_FREE)
		return SIMHCA_REASON_KEY_UNKNOWN;
	mr = atomic_load_explicit(&device->mrs[index], memory_order_acquire);
	if (!mr)
		return SIMHCA_REASON_KEY_UNKNOWN;
	if (mpt->key != key)
		return SIMHCA_REASON_KEY_STALE;
	if (mpt->pd != use->pd)
		return SIMHCA_REASON_KEY_WRONG_PD;
	if (va + length - 1 < va)
		return SIMHCA_REASON_KEY_WRAPS;
	if (va < mpt->iova)
		return SIMHCA_REASON_KEY_BELOW_START;
	offset = va - mpt->iova;
	if (offset > mpt->length || mpt->length - offset < length)
		return SIMHCA_REASON_KEY_PAST_END;
	missing = use->access & ~mpt->access;
	if (missing)
		return missing_right(missing);
	*seg = (struct simhca_seg){ .mm = mr->mm, .addr = mpt->addr + offset, .length = length };
	return SIMHCA_REASON_NONE;
}

enum simhca_reason simhca_translate_sges(struct simhca_device *device, const struct simhca_sge *sge,
					 uint32_t num_sge, uint64_t offset, uint64_t length,
					 const struct simhca_key_use *use, struct simhca_sgl *sgl)
{
	for (uint32_t i = 0; i < num_sge && length; i++) {
		uint64_t bytes;
		enum simhca_reason reason;

		if (offset >= sge[i].length) {
			offset -= sge[i].length;
			continue;
		}
		bytes = sge[i].length - offset;
		if (bytes > length)
			bytes = length;
		reason = simhca_translate(device, sge[i].lkey, sge[i].addr + offset, bytes, use,
					  &sgl->seg[sgl->count]);
		if (reason != SIMHCA_REASON_NONE)
			return reason;
		sgl->count++;
		length -= bytes;
		offset = 0;
	}
	return SIMHCA_REASON_NONE;
}
