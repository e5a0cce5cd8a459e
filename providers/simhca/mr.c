/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Memory regions. libibverbs fills in context, pd, addr and length of an ordinary region after
 * it was registered; of a null region nobody else does.
 */
#include <stdlib.h>

#include "checkers.h"
#include "command.h"
#include "dma/process_map.h"
#include "lint.h"
#include "mapped.h"
#include "moved.h"
#include "say.h"
#include "shared_files.h"

/* A command that names memory of this process, to which a forked child has to give access first. */
static int call_with_memory(struct shca_context *ctx, enum simhca_cmd command, const void *req,
			    size_t req_size, struct simhca_reg_mr_reply *reply)
{
	struct shca_command cmd = {
		.command = command,
		.req = req,
		.req_size = req_size,
		.reply = reply,
		.reply_size = sizeof(*reply),
	};
	int err = shca_execute(ctx, &cmd);

	if (err == ENOTCONN) {
		err = shca_watcher_adopt(ctx);
		if (!err)
			err = shca_execute(ctx, &cmd);
	}
	return shca_result(err == ENOTCONN ? EPERM : err);
}

static struct shca_mr *new_mr(enum ibv_mr_type type, unsigned int access)
{
	struct shca_mr *mr = calloc(1, sizeof(*mr));

	if (mr) {
		mr->vmr.mr_type = type;
		mr->vmr.access = (int)access;
	}
	return mr;
}

/* The region that the device has answered with; NULL and errno, if it has none: err is not 0. */
static struct ibv_mr *made(struct shca_mr *mr, struct ibv_pd *pd,
			   const struct simhca_reg_mr_reply *reply, int err)
{
	struct ibv_mr *public = &mr->vmr.ibv_mr;

	if (err) {
		free(mr);
		return shca_null(err);
	}
	public->context = pd->context;
	public->pd = pd;
	public->handle = reply->handle;
	public->lkey = reply->lkey;
	public->rkey = reply->rkey;
	return public;
}

/* Asked here: who holds the locks of this address space shall make only this program wait. */
static bool is_unmapped(uint64_t addr, uint64_t length, unsigned int access)
{
	return length && addr + length - 1 >= addr && !(access & IBV_ACCESS_ON_DEMAND) &&
	       !simhca_process_has(0, addr, length, simhca_needs_writable(access));
}

static struct ibv_mr *reg(struct ibv_pd *pd, const struct simhca_reg_mr_req *req,
			  enum ibv_mr_type type)
{
	struct shca_mr *mr = new_mr(type, req->access);
	struct simhca_reg_mr_reply reply;
	struct ibv_mr *ibv_mr;
	int err;

	if (!mr)
		return shca_null(ENOMEM);
	if (req->access & IBV_ACCESS_ON_DEMAND)
		shca_odp_offer_events(to_sctx(pd->context));
	err = shca_moved_register(to_sctx(pd->context), req, &reply, mr);
	if (err == SHCA_STAYS)
		err = shca_shared_file_register(to_sctx(pd->context), req, &reply);
	if (err == SHCA_STAYS)
		err = call_with_memory(to_sctx(pd->context), SIMHCA_CMD_REG_MR, req, sizeof(*req),
				       &reply);
	ibv_mr = made(mr, pd, &reply, err);
	if (!ibv_mr)
		return NULL;
	if (req->access & IBV_ACCESS_LOCAL_WRITE)
		shca_memory_may_change((void *)(uintptr_t)req->addr, req->length);
	shca_lint_region_add(mr, req);
	return ibv_mr;
}

struct ibv_mr *shca_reg_mr(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access)
{
	struct simhca_reg_mr_req req = {
		.addr = (uintptr_t)addr,
		.length = length,
		.iova = iova,
		.pd = pd->handle,
		.access = (uint32_t)access,
		.unmapped = is_unmapped((uintptr_t)addr, length, (unsigned int)access),
	};

	return reg(pd, &req, IBV_MR_TYPE_MR);
}

struct ibv_mr *shca_alloc_null_mr(struct ibv_pd *pd)
{
	struct simhca_reg_mr_req req = { .pd = pd->handle, .null_mr = 1 };

	return reg(pd, &req, IBV_MR_TYPE_NULL_MR);
}

/* To libibverbs it is like a null region: it can be deregistered, and nothing else. */
struct ibv_mr *shca_alloc_mr(struct ibv_pd *pd, uint32_t max_page_list_len)
{
	struct simhca_alloc_mr_req req = { .pd = pd->handle, .max_pages = max_page_list_len };
	struct shca_mr *mr = new_mr(IBV_MR_TYPE_NULL_MR, 0);
	struct simhca_reg_mr_reply reply;
	int err;

	if (!mr)
		return shca_null(ENOMEM);
	mr->max_page_list_len = max_page_list_len;
	err = shca_call(to_sctx(pd->context), SIMHCA_CMD_ALLOC_MR, &req, &reply);
	if (!err)
		shca_lint_unknown_writes(to_sctx(pd->context));
	return made(mr, pd, &reply, err);
}

/* Deregistering it has nothing to undo in the program's own memory, as of a null region. */
struct ibv_mr *shca_reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t offset, size_t length,
			      unsigned int access)
{
	struct simhca_reg_dm_mr_req req = {
		.offset = offset,
		.length = length,
		.dm = dm->handle,
		.pd = pd->handle,
		.access = access,
	};
	struct simhca_reg_mr_reply reply;
	struct shca_mr *mr = new_mr(IBV_MR_TYPE_NULL_MR, access);
	int err;

	if (!mr)
		return shca_null(ENOMEM);
	err = shca_call(to_sctx(pd->context), SIMHCA_CMD_REG_DM_MR, &req, &reply);
	mr->vmr.ibv_mr.length = length;
	return made(mr, pd, &reply, err);
}

struct ibv_mr *shca_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
				  int fd, int access)
{
	struct simhca_reg_dmabuf_mr_req req = {
		.offset = offset,
		.length = length,
		.iova = iova,
		.pd = pd->handle,
		.access = (uint32_t)access,
	};
	struct simhca_reg_mr_reply reply;
	struct shca_mr *mr = new_mr(IBV_MR_TYPE_DMABUF_MR, (unsigned int)access);
	int err;

	if (!mr)
		return shca_null(ENOMEM);
	err = shca_execute(to_sctx(pd->context), &(struct shca_command){
							 .command = SIMHCA_CMD_REG_DMABUF_MR,
							 .req = &req,
							 .req_size = sizeof(req),
							 .req_fds = &fd,
							 .num_req_fds = 1,
							 .reply = &reply,
							 .reply_size = sizeof(reply),
						 });
	if (err == EBADF) { /* it could not be passed: the daemon has not seen the command */
		free(mr);
		return shca_say_not_made(to_sctx(pd->context), SIMHCA_CMD_REG_DMABUF_MR, err,
					 "fd is no open file");
	}
	if (!err) /* it may be mapped here as well */
		shca_lint_unknown_writes(to_sctx(pd->context));
	return made(mr, pd, &reply, err);
}

/* The memory is somebody else's: there is no address to tell. */
struct ibv_mr *shca_import_mr(struct ibv_pd *pd, uint32_t handle)
{
	struct simhca_handle req = { .handle = handle };
	struct shca_mr *mr = new_mr(IBV_MR_TYPE_IMPORTED_MR, 0);
	struct simhca_query_mr_reply reply = { 0 };
	int err;

	if (!mr)
		return shca_null(ENOMEM);
	err = shca_call(to_sctx(pd->context), SIMHCA_CMD_QUERY_MR, &req, &reply);
	mr->vmr.access = (int)reply.access;
	mr->vmr.ibv_mr.length = reply.length;
	return made(mr, pd,
		    &(struct simhca_reg_mr_reply){
			    .handle = handle, .lkey = reply.lkey, .rkey = reply.rkey },
		    err);
}

void shca_unimport_mr(struct ibv_mr *mr)
{
	free(to_smr(verbs_get_mr(mr)));
}

/* pd is whatever the caller left there unless flags has CHANGE_PD. */
int shca_rereg_mr(struct verbs_mr *vmr, int flags, struct ibv_pd *pd, void *addr, size_t length,
		  int access)
{
	struct shca_context *ctx = to_sctx(vmr->ibv_mr.context);
	struct simhca_rereg_mr_req req = {
		.handle = vmr->ibv_mr.handle,
		.flags = (uint32_t)flags,
	};
	struct simhca_reg_mr_reply reply;
	int err;

	if (!(flags & IBV_REREG_MR_CHANGE_ACCESS))
		access = vmr->access;
	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
		req.addr = (uintptr_t)addr;
		req.length = length;
		req.iova = (uintptr_t)addr;
		req.unmapped = is_unmapped(req.addr, length, (unsigned int)access);
	} else {
		req.unmapped = is_unmapped((uintptr_t)vmr->ibv_mr.addr, vmr->ibv_mr.length,
					   (unsigned int)access);
	}
	if (flags & IBV_REREG_MR_CHANGE_PD)
		req.pd = pd->handle;
	if (flags & IBV_REREG_MR_CHANGE_ACCESS)
		req.access = (uint32_t)access;

	if (req.access & IBV_ACCESS_ON_DEMAND)
		shca_odp_offer_events(ctx);
	err = call_with_memory(ctx, SIMHCA_CMD_REREG_MR, &req, sizeof(req), &reply);
	if (err)
		return err;
	vmr->ibv_mr.lkey = reply.lkey;
	vmr->ibv_mr.rkey = reply.rkey;
	vmr->access = access;
	shca_mapped_give_back();
	shca_moved_put(to_smr(vmr));
	shca_lint_region_change(to_smr(vmr), &req);
	if (access & IBV_ACCESS_LOCAL_WRITE) {
		if (flags & IBV_REREG_MR_CHANGE_TRANSLATION)
			shca_memory_may_change(addr, length);
		else
			shca_memory_may_change(vmr->ibv_mr.addr, vmr->ibv_mr.length);
	}
	return 0;
}

/* EBUSY: windows are bound to it, and it stays as it is. */
int shca_dereg_mr(struct verbs_mr *vmr)
{
	int err = shca_destroy(to_sctx(vmr->ibv_mr.context), SIMHCA_CMD_DEREG_MR,
			       vmr->ibv_mr.handle, NULL);

	if (!err) {
		shca_mapped_give_back();
		shca_moved_put(to_smr(vmr));
		shca_lint_region_remove(to_smr(vmr));
		shca_dmah_put(to_smr(vmr));
		free(to_smr(vmr));
	}
	return err;
}
