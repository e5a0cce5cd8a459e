/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What the driver's objects are known by: to itself, and to the device. */
#include <sys/stat.h>

#include "provider.h"

const char shca_driver_name[] = "simhca";

bool shca_is_ours(const struct ibv_device *device)
{
	return verbs_get_device(device)->ops->name == shca_driver_name;
}

/*
 * Of an imported context the library makes the pipe after we have returned it, so it is looked at
 * when the first object is made.
 */
struct simhca_user_handle shca_user_handle(struct shca_context *ctx, const void *element)
{
	uint64_t pipe = atomic_load_explicit(&ctx->async_pipe, memory_order_relaxed);
	struct stat async;

	if (!pipe && !fstat(ctx->vctx.context.async_fd, &async)) {
		pipe = async.st_ino;
		atomic_store_explicit(&ctx->async_pipe, pipe, memory_order_relaxed);
	}
	return (struct simhca_user_handle){ .element = (uintptr_t)element, .events = pipe };
}
