/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* A provider for devices named boundary*, which implements nothing but opening. */
#include <stdlib.h>

#include "ibverbs-provider-check.h"

static void free_context(struct ibv_context *context)
{
	struct verbs_context *vctx = verbs_get_ctx(context);

	verbs_uninit_context(vctx);
	free(vctx);
}

static const struct verbs_context_ops ops = { .free_context = free_context };

static struct verbs_context *alloc_context(struct ibv_device *device, int cmd_fd,
					   void *private_data)
{
	struct verbs_context *vctx = _verbs_init_and_alloc_context(device, cmd_fd, sizeof(*vctx),
								   NULL, RDMA_DRIVER_UNKNOWN);

	if (vctx)
		verbs_set_ops(vctx, &ops);
	return vctx;
}

static struct verbs_context *import_context(struct ibv_device *device, int cmd_fd)
{
	return alloc_context(device, cmd_fd, NULL);
}

static struct verbs_device *alloc_device(struct verbs_sysfs_dev *sysfs_dev)
{
	return calloc(1, sizeof(struct verbs_device));
}

static void uninit_device(struct verbs_device *device)
{
	free(device);
}

static const struct verbs_match_ent match[] = { VERBS_NAME_MATCH("boundary", NULL), {} };

static const struct verbs_device_ops boundary_ops = {
	.name = "boundary",
	.match_min_abi_version = 1,
	.match_max_abi_version = 1,
	.match_table = match,
	.alloc_context = alloc_context,
	.import_context = import_context,
	.alloc_device = alloc_device,
	.uninit_device = uninit_device,
};

SIMHCA_REGISTER_DRIVER(boundary_ops)
