/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * On-chip memory (ibv_alloc_dm), and its regions. Each piece is a memfd of its own, which the
 * device and the programs that hold it map, so nobody sees the memory of others; what they have
 * together is bounded by the device's size.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/context.h"
#include "core/segments.h"
#include "dma/dma.h"
#include "key.h"
#include "mappable.h"
#include "mr.h"
#include "simhca-device.h"
#include "simhca-verbs.h"

struct simhca_dm {
	struct simhca_mm *mm;
	int fd;
	uint64_t length; /* bytes, as asked for */
	uint64_t size;	 /* of the memfd */
	uint32_t users;	 /* regions */
};

static int create_memory(struct simhca_fabric *fabric, struct simhca_dm *dm)
{
	dm->fd = simhca_memory_file("simhca-dm", dm->size);
	if (dm->fd < 0)
		return dm->fd;
	dm->mm = simhca_mm_create_file(fabric, dm->fd, 0, dm->size, true, true);
	if (!dm->mm) {
		int error = errno;

		close(dm->fd);
		return -error;
	}
	return 0;
}

static void destroy_memory(struct simhca_fabric *fabric, struct simhca_dm *dm)
{
	simhca_mm_destroy(fabric, dm->mm);
	close(dm->fd);
}

static void fill_reply(const struct simhca_dm *dm, uint32_t handle, struct simhca_dm_reply *reply,
		       int *fd)
{
	reply->handle = handle;
	reply->length = dm->length;
	reply->size = dm->size;
	*fd = dm->fd;
}

int simhca_alloc_dm(struct simhca_context *context, const struct simhca_alloc_dm_req *req,
		    struct simhca_dm_reply *reply, int *fd, struct simhca_why *why)
{
	struct simhca_device *device = context->device;
	uint64_t most = device->config.max_dm_size;
	struct simhca_dm *dm;
	uint32_t handle;
	int ret;

	if (!req->length || req->length > most)
		return simhca_why(why, EINVAL,
				  "%" PRIu64 " bytes of on-chip memory: 1 to %" PRIu64
				  " can be allocated",
				  req->length, most);
	if (1ull << (req->log_align < 63 ? req->log_align : 63) > SIMHCA_DM_PAGE)
		return simhca_why(why, EINVAL, "on-chip memory is aligned to %d bytes at most",
				  SIMHCA_DM_PAGE);
	dm = calloc(1, sizeof(*dm));
	if (!dm)
		return simhca_why(why, ENOMEM, "out of memory");
	dm->length = req->length;
	dm->size = (req->length + SIMHCA_DM_PAGE - 1) / SIMHCA_DM_PAGE * SIMHCA_DM_PAGE;
	if (dm->size > most - device->dm_used) {
		ret = simhca_why(why, ENOMEM,
				 "%" PRIu64 " of %" PRIu64 " bytes of on-chip memory are in use",
				 device->dm_used, most);
		goto fail;
	}
	ret = create_memory(device->fabric, dm);
	if (ret) {
		simhca_why(why, -ret, "on-chip memory: %s", strerror(-ret));
		goto fail;
	}
	ret = simhca_object_add(context, SIMHCA_OBJ_DM, dm, &handle, why);
	if (ret) {
		destroy_memory(device->fabric, dm);
		goto fail;
	}
	device->dm_used += dm->size;
	context->dm_used += dm->size;
	fill_reply(dm, handle, reply, fd);
	return 0;
fail:
	free(dm);
	return ret;
}

int simhca_import_dm(struct simhca_context *context, uint32_t handle, struct simhca_dm_reply *reply,
		     int *fd, struct simhca_why *why)
{
	struct simhca_dm *dm = simhca_object(context, SIMHCA_OBJ_DM, handle, why);

	if (!dm)
		return -ENOENT;
	fill_reply(dm, handle, reply, fd);
	return 0;
}

/* No region is left, so no engine has to do with it. */
int simhca_free_dm(struct simhca_context *context, uint32_t handle, struct simhca_why *why)
{
	struct simhca_dm *dm = simhca_object(context, SIMHCA_OBJ_DM, handle, why);
	struct simhca_device *device = context->device;

	if (!dm)
		return -ENOENT;
	if (dm->users)
		return simhca_why(why, EBUSY, "this on-chip memory is still used by %u MR%s",
				  dm->users, dm->users == 1 ? "" : "s");
	simhca_object_remove(context, SIMHCA_OBJ_DM, handle);
	device->dm_used -= dm->size;
	context->dm_used -= dm->size;
	destroy_memory(device->fabric, dm);
	free(dm);
	return 0;
}

int simhca_reg_dm_mr(struct simhca_context *context, const struct simhca_mm *owner,
		     const struct simhca_reg_dm_mr_req *req, struct simhca_reg_mr_reply *reply,
		     struct simhca_why *why)
{
	struct simhca_pd *pd = simhca_object(context, SIMHCA_OBJ_PD, req->pd, why);
	struct simhca_dm *dm = pd ? simhca_object(context, SIMHCA_OBJ_DM, req->dm, why) : NULL;
	struct simhca_key *region;
	int ret;

	if (!dm)
		return -ENOENT;
	if (!(req->access & SIMHCA_ACCESS_ZERO_BASED) ||
	    (req->access & (SIMHCA_ACCESS_ON_DEMAND | SIMHCA_ACCESS_HUGETLB)))
		return simhca_why(why, EINVAL,
				  "access flags 0x%x: an MR of on-chip memory is ZERO_BASED, and "
				  "neither ON_DEMAND nor HUGETLB",
				  req->access);
	ret = simhca_check_access(req->access, why);
	if (ret)
		return ret;
	if (req->offset > dm->length || req->length > dm->length - req->offset)
		return simhca_why(why, EINVAL,
				  "%" PRIu64 " bytes from %" PRIu64
				  " pass the end of the on-chip memory, which has %" PRIu64,
				  req->length, req->offset, dm->length);
	region = simhca_key_create(context, SIMHCA_OBJ_MR, pd, &reply->handle, why);
	if (!region)
		return -ENOMEM;
	dm->users++;
	region->dm_users = &dm->users;
	region->mm = dm->mm;
	dm->mm->regions++;
	region->mpt->access = req->access;
	region->mpt->addr = req->offset;
	region->mpt->length = req->length;
	simhca_region_make_mappable(context, region, owner, dm->fd, req->offset, true, false);
	reply->lkey = reply->rkey = region->mpt->key;
	simhca_key_publish(region, SIMHCA_MPT_MR);
	return 0;
}
