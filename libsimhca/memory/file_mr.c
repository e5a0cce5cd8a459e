/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Regions of a file that the client hands over: dma-bufs, and whatever else lies in memory only.
 *
 * Files on disks and those of user-space file systems are refused: an access to them can take as
 * long as somebody likes while the kernel holds locks of our whole address space, and some files of
 * procfs and the like act with the rights of whoever touches them.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/context.h"
#include "core/mpt.h"
#include "dma/dma.h"
#include "dma/file_kind.h"
#include "key.h"
#include "mappable.h"
#include "mr.h"
#include "simhca-device.h"
#include "simhca-verbs.h"

#define ALLOWED_ACCESS                                                                             \
	(SIMHCA_ACCESS_LOCAL_WRITE | SIMHCA_ACCESS_REMOTE_ALL | SIMHCA_ACCESS_FLUSH_ALL |          \
	 SIMHCA_ACCESS_OPTIONAL)
#define PAGE 4096u /* bytes */

static int check_file(int fd, uint64_t *size, struct simhca_why *why)
{
	enum simhca_file_kind kind = simhca_file_kind(fd);
	struct stat file;
	off_t end;

	if (kind != SIMHCA_FILE_MEMORY && kind != SIMHCA_FILE_DMABUF)
		return simhca_why(why, EOPNOTSUPP,
				  "an MR of a file needs a dma-buf, a memfd, or a file of tmpfs or "
				  "hugetlbfs");
	if (fstat(fd, &file))
		return simhca_why(why, errno, "the file of the MR: %s", strerror(errno));
	*size = (uint64_t)file.st_size;
	if (kind == SIMHCA_FILE_DMABUF) {
		end = lseek(fd, 0, SEEK_END); /* its exporter's, where stat may not know it */
		if (end >= 0)
			*size = (uint64_t)end;
	}
	return 0;
}

static int check(int fd, const struct simhca_reg_dmabuf_mr_req *req, struct simhca_why *why)
{
	uint64_t size = 0;
	int ret;

	if (req->access & ~ALLOWED_ACCESS)
		return simhca_why(why, EINVAL, "access flags 0x%x are not for an MR of a dma-buf",
				  req->access & ~ALLOWED_ACCESS);
	ret = simhca_check_access(req->access, why);
	if (!ret)
		ret = check_file(fd, &size, why);
	if (ret)
		return ret;
	if (!req->length || req->offset > size || req->length > size - req->offset)
		return simhca_why(why, EINVAL,
				  "%" PRIu64 " bytes from %" PRIu64
				  " are none, or pass the end of the file, which has %" PRIu64,
				  req->length, req->offset, size);
	if (simhca_wraps(req->iova, req->length))
		return simhca_why(why, EINVAL,
				  "iova 0x%" PRIx64 " + %" PRIu64
				  " bytes pass the end of the address space",
				  req->iova, req->length);
	if (req->offset % PAGE != req->iova % PAGE)
		return simhca_why(why, EINVAL,
				  "offset 0x%" PRIx64 " and iova 0x%" PRIx64
				  " differ in their places in a page",
				  req->offset, req->iova);
	/* The way in which we reach it; seccomp may forbid it. */
	if (!simhca_process_reachable(getpid()))
		return simhca_why(why, EOPNOTSUPP,
				  "the kernel does not let simhcad use process_vm_readv()");
	return 0;
}

static int reg_file(struct simhca_context *context, struct simhca_mm *owner, int fd,
		    const struct simhca_reg_dmabuf_mr_req *req, struct simhca_reg_mr_reply *reply,
		    struct simhca_why *why)
{
	struct simhca_pd *pd = simhca_object(context, SIMHCA_OBJ_PD, req->pd, why);
	struct simhca_device *device = context->device;
	struct simhca_key *region;
	struct simhca_mm *mm;
	int ret;

	if (!pd)
		return -ENOENT;
	ret = check(fd, req, why);
	if (ret)
		return ret;
	if (device->file_mrs >= SIMHCA_MAX_FILE_MR ||
	    req->length > SIMHCA_MAX_FILE_MR_BYTES - device->file_mr_bytes)
		return simhca_why(why, ENOMEM,
				  "the device maps files for its MRs: %u of them, %llu GiB at most",
				  SIMHCA_MAX_FILE_MR, SIMHCA_MAX_FILE_MR_BYTES >> 30);
	mm = simhca_mm_create_file(device->fabric, fd, req->offset, req->length,
				   req->access & SIMHCA_ACCESS_LOCAL_WRITE, false);
	if (!mm)
		return simhca_why(why, errno, "the file cannot be mapped: %s", strerror(errno));
	region = simhca_key_create(context, SIMHCA_OBJ_MR, pd, &reply->handle, why);
	if (!region) {
		simhca_mm_destroy(device->fabric, mm);
		return -ENOMEM;
	}
	device->file_mrs++;
	device->file_mr_bytes += req->length;
	region->mm = mm;
	mm->regions++;
	region->of_file = true;
	region->moved = req->addr && !req->is_there;
	region->mpt->access = req->access;
	region->mpt->iova = req->iova;
	region->mpt->length = req->length;
	/* What is asked for by the owner's addresses lies in our mapping. */
	region->mpt->addr = req->addr;
	mm->base -= req->addr;
	simhca_region_make_mappable(context, region, owner, fd, req->offset, false,
				    device->config.moves_memory && (!req->addr || req->is_there));
	if (req->addr) {
		if (!region->mpt->file) {
			simhca_region_leave_file(context, region);
			simhca_key_destroy(context, SIMHCA_OBJ_MR, reply->handle, region);
			return -EOPNOTSUPP;
		}
		region->home = owner;
		owner->regions++;
		region->mpt->home = owner->kind == SIMHCA_MM_AGENT ? 0 : owner->number;
		simhca_region_registered(context, region);
	}
	reply->lkey = reply->rkey = region->mpt->key;
	reply->moved = !!req->addr;
	simhca_key_publish(region, SIMHCA_MPT_MR);
	return 0;
}

/* What is said of it is that its file does not help: it is a region all the same. */
static int reg_where_it_is(struct simhca_context *context, struct simhca_mm *owner,
			   const struct simhca_reg_dmabuf_mr_req *req,
			   struct simhca_reg_mr_reply *reply, struct simhca_why *why)
{
	const struct simhca_reg_mr_req ordinary = {
		.addr = req->addr,
		.length = req->length,
		.iova = req->iova,
		.pd = req->pd,
		.access = req->access,
	};

	return simhca_reg_mr(context, owner, &ordinary, reply, why);
}

int simhca_reg_dmabuf_mr(struct simhca_context *context, struct simhca_mm *owner, int fd,
			 const struct simhca_reg_dmabuf_mr_req *req,
			 struct simhca_reg_mr_reply *reply, struct simhca_why *why)
{
	if (!req->addr)
		return reg_file(context, owner, fd, req, reply, why);
	if (!owner)
		return simhca_why(why, EINVAL, "the process whose memory it is cannot be seen");
	if (req->addr % PAGE != req->offset % PAGE)
		return simhca_why(why, EINVAL,
				  "offset 0x%" PRIx64 " and address 0x%" PRIx64
				  " differ in their places in a page",
				  req->offset, req->addr);
	/* No process has memory that ends with the address space. */
	if (req->addr + req->length < req->addr)
		return simhca_why(why, EINVAL,
				  "0x%" PRIx64 " + %" PRIu64
				  " bytes pass the end of the address space",
				  req->addr, req->length);
	if (!reg_file(context, owner, fd, req, reply, NULL))
		return 0;
	return reg_where_it_is(context, owner, req, reply, why);
}
