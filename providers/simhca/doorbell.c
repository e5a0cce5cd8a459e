/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <sys/eventfd.h>

#include "doorbell.h"

/* The device sleeps, or is about to: the one who disarms it wakes it. */
void shca_wake_device(struct shca_context *ctx)
{
	if (!atomic_exchange(&ctx->mem->armed, 0))
		return;
	/* EAGAIN: the eventfd counts up to its limit already, so the device will wake anyway. */
	while (eventfd_write(ctx->doorbell_fd, 1) && errno == EINTR)
		;
}
