/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Port statistics: what /sys shows as counters and hw_counters. Each thread that runs an engine
 * counts in a block of its own, for each device, so that counting is an add to a line that nobody
 * else writes. Whoever has no block (more threads than blocks, control functions) counts in the
 * last one, atomically. A block outlives its thread; the next thread goes on with it.
 */
#ifndef LIBSIMHCA_STATS_H
#define LIBSIMHCA_STATS_H

#include "simhca-device.h"

#define SIMHCA_STATS_BLOCKS 32
#define SIMHCA_STATS_SHARED (SIMHCA_STATS_BLOCKS - 1)

struct simhca_stats_block {
	_Alignas(128) _Atomic uint64_t count[SIMHCA_STATS];
};

struct simhca_device;

/* By anybody. */
void simhca_stats_once(struct simhca_device *device, enum simhca_stat stat);

#endif
