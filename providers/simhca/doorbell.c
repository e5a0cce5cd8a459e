/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <sched.h>

#include "doorbell.h"
#include "say.h"

/* The eventfd that wakes a thread of the device on this CPU. */
static int nearest(const struct shca_context *ctx)
{
	int cpu = sched_getcpu();

	for (int i = 1; cpu >= 0 && i < SIMHCA_MAX_ENGINE_CPUS; i++)
		if (ctx->doorbell_cpu[i] == (uint32_t)cpu)
			return ctx->doorbell_fd[i];
	return ctx->doorbell_fd[0];
}

/* The device sleeps, or is about to: the one who disarms it wakes it. */
void shca_wake_device(struct shca_context *ctx)
{
	const uint64_t one = 1;
	int fd;

	if (!atomic_exchange(&ctx->mem->armed, 0))
		return;
	fd = nearest(ctx);
	/* EAGAIN: the eventfd counts up to its limit already, so the device will wake anyway. */
	while (simhca_call_write(fd, &one, sizeof(one)) < 0)
		if (errno != EINTR) {
			if (errno != EAGAIN)
				shca_say_no_doorbell(ctx);
			return;
		}
}
