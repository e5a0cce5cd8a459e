/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * On-chip memory: mapped here, so the program reaches it with plain copies, as it would reach a
 * NIC's through its BAR. Forked children inherit the mapping.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "command.h"
#include "say.h"

/* A NIC's memory is reached by words of 4 bytes; ours holds programs to that. */
#define DM_WORD 4u

struct shca_dm {
	struct ibv_dm ibv_dm;
	char *addr;
	uint64_t length; /* bytes, as asked for */
	uint64_t size;	 /* of the mapping */
};

static struct shca_dm *to_sdm(struct ibv_dm *dm)
{
	return SHCA_CONTAINER(struct shca_dm, ibv_dm, dm);
}

static int check_copy(const struct shca_dm *dm, enum simhca_say what, uint64_t offset,
		      size_t length)
{
	struct shca_context *ctx = to_sctx(dm->ibv_dm.context);
	char text[128];

	if (offset > dm->length || length > dm->length - offset) {
		snprintf(text, sizeof(text), "%zu bytes at offset %" PRIu64 ": the memory has %zu",
			 length, offset, (size_t)dm->length);
		return shca_say_refusal(ctx, what, EFAULT, text);
	}
	if (offset % DM_WORD || length % DM_WORD) {
		snprintf(text, sizeof(text),
			 "%zu bytes at offset %" PRIu64 ": both are to be multiples of %u", length,
			 offset, (unsigned int)DM_WORD);
		return shca_say_refusal(ctx, what, EINVAL, text);
	}
	return 0;
}

static int memcpy_to_dm(struct ibv_dm *dm, uint64_t offset, const void *from, size_t length)
{
	int err = check_copy(to_sdm(dm), SIMHCA_SAY_MEMCPY_TO_DM, offset, length);

	if (!err)
		memcpy(to_sdm(dm)->addr + offset, from, length);
	return err;
}

static int memcpy_from_dm(void *to, struct ibv_dm *dm, uint64_t offset, size_t length)
{
	int err = check_copy(to_sdm(dm), SIMHCA_SAY_MEMCPY_FROM_DM, offset, length);

	if (!err)
		memcpy(to, to_sdm(dm)->addr + offset, length);
	return err;
}

/* By either command: both answer with the memory. */
static int ask(struct ibv_context *context, enum simhca_cmd command, const void *req,
	       size_t req_size, struct simhca_dm_reply *reply, int *fd)
{
	return shca_execute(to_sctx(context), &(struct shca_command){
						      .command = command,
						      .req = req,
						      .req_size = req_size,
						      .reply = reply,
						      .reply_size = sizeof(*reply),
						      .reply_fds = fd,
						      .num_reply_fds = 1,
					      });
}

static struct ibv_dm *get(struct ibv_context *context, enum simhca_cmd command, const void *req,
			  size_t req_size)
{
	struct simhca_dm_reply reply;
	struct shca_dm *dm;
	int err, fd;

	dm = calloc(1, sizeof(*dm));
	if (!dm)
		return shca_null(ENOMEM);
	err = ask(context, command, req, req_size, &reply, &fd);
	if (err)
		goto err_free;
	err = shca_map_whole(fd, reply.size, PROT_READ | PROT_WRITE, (void **)&dm->addr);
	if (err)
		goto err_give_back;
	dm->length = reply.length;
	dm->size = reply.size;
	dm->ibv_dm = (struct ibv_dm){
		.context = context,
		.memcpy_to_dm = memcpy_to_dm,
		.memcpy_from_dm = memcpy_from_dm,
		.comp_mask = IBV_DM_MASK_HANDLE,
		.handle = reply.handle,
	};
	return &dm->ibv_dm;

err_give_back:
	if (command == SIMHCA_CMD_ALLOC_DM)
		shca_destroy(to_sctx(context), SIMHCA_CMD_FREE_DM, reply.handle, NULL);
err_free:
	shca_say_no_descriptor(to_sctx(context), command, err);
	free(dm);
	return shca_null(err);
}

struct ibv_dm *shca_alloc_dm(struct ibv_context *context, struct ibv_alloc_dm_attr *attr)
{
	struct simhca_alloc_dm_req req = {
		.length = attr->length,
		.log_align = attr->log_align_req,
	};

	if (attr->comp_mask)
		return shca_say_not_made(to_sctx(context), SIMHCA_CMD_ALLOC_DM, EINVAL,
					 "comp_mask of ibv_alloc_dm_attr is not 0");
	return get(context, SIMHCA_CMD_ALLOC_DM, &req, sizeof(req));
}

struct ibv_dm *shca_import_dm(struct ibv_context *context, uint32_t handle)
{
	struct simhca_handle req = { .handle = handle };

	return get(context, SIMHCA_CMD_IMPORT_DM, &req, sizeof(req));
}

/* The memory itself stays as long as anybody has it mapped. */
void shca_unimport_dm(struct ibv_dm *ibv_dm)
{
	struct shca_dm *dm = to_sdm(ibv_dm);

	munmap(dm->addr, dm->size);
	free(dm);
}

/*
 * The memory as a file, which other devices, ibv_reg_dmabuf_mr() and mmap() take. Returns the
 * descriptor, or -1 and errno. Its memory stays for as long as that is open.
 */
int shca_dm_export_dmabuf_fd(struct ibv_dm *dm)
{
	struct simhca_handle req = { .handle = dm->handle };
	struct simhca_dm_reply reply;
	int fd, err;

	err = ask(dm->context, SIMHCA_CMD_IMPORT_DM, &req, sizeof(req), &reply, &fd);
	return err ? -1 : fd;
}

/* EBUSY: regions of it are registered. */
int shca_free_dm(struct ibv_dm *dm)
{
	int err = shca_destroy(to_sctx(dm->context), SIMHCA_CMD_FREE_DM, dm->handle, NULL);

	if (!err)
		shca_unimport_dm(dm);
	return err;
}
