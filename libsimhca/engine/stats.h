/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Counting, by a thread that runs an engine. */
#ifndef LIBSIMHCA_ENGINE_STATS_H
#define LIBSIMHCA_ENGINE_STATS_H

#include "device/stats.h"
#include "worker.h"

/* Hot: by the thread that the worker is. */
void simhca_stats_add(const struct simhca_worker *worker, struct simhca_device *device,
		      enum simhca_stat stat, uint64_t n);

#endif
