/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Telling the device that a QP has work; the protocol is stated at struct simhca_ctx_mem. */
#ifndef SIMHCA_PROVIDER_DOORBELL_H
#define SIMHCA_PROVIDER_DOORBELL_H

#include "provider.h"

void shca_wake_device(struct shca_context *ctx);

/*
 * Everything here is sequentially consistent, for two reasons. The exchange of the leaf that takes
 * our bit must see the producer index that was stored before; and our look at armed must not come
 * before top is set, or the device could fall asleep between the two and nobody would wake it.
 */
static inline void shca_ring_doorbell(struct shca_context *ctx, uint32_t slot)
{
	struct simhca_ctx_mem *mem = ctx->mem;

	slot &= SIMHCA_MAX_QP - 1;
	atomic_fetch_or(&mem->leaf[slot / 64], UINT64_C(1) << (slot % 64));
	atomic_fetch_or(&mem->mid[slot / 4096], UINT64_C(1) << (slot / 64 % 64));
	atomic_fetch_or(&mem->top, UINT64_C(1) << (slot / 4096));
	if (__builtin_expect(atomic_load(&mem->armed) != 0, 0))
		shca_wake_device(ctx);
}

/*
 * The program has polled or armed. A device that dozes is woken by the first that does so, and looks
 * again at what programs wait for. Posting costs nothing for it: who posts polls, too.
 */
static inline void shca_acts(struct shca_context *ctx)
{
	if (__builtin_expect(atomic_load_explicit(&ctx->dev->dozes, memory_order_relaxed), 0))
		shca_wake_device(ctx);
}

#endif
