/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Counting, by a thread that runs an engine. */
#ifndef LIBSIMHCA_ENGINE_STATS_H
#define LIBSIMHCA_ENGINE_STATS_H

#include "core/device.h"
#include "core/stats.h"
#include "worker.h"

/* Hot: by the thread that the worker is. */
static inline void simhca_stats_add(const struct simhca_worker *worker,
				    struct simhca_device *device, enum simhca_stat stat, uint64_t n)
{
	_Atomic uint64_t *count = &device->stats[worker->stats_block].count[stat];

	/* relaxed: a number by itself, which orders nothing. */
	if (worker->stats_block == SIMHCA_STATS_SHARED)
		atomic_fetch_add_explicit(count, n, memory_order_relaxed);
	else /* nobody else writes it, so no locked instruction */
		atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + n,
				      memory_order_relaxed);
}

#endif
