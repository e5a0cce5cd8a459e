/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Port statistics: what /sys shows as counters and hw_counters. Each thread that runs an engine
 * counts in a block of its own, for each device, so that counting is an add to a line that nobody
 * else writes. Whoever has no block (more threads than blocks, control functions) counts in the
 * last one, atomically. A block outlives its thread; the next thread goes on with it.
 */
#ifndef LIBSIMHCA_STATS_H
#define LIBSIMHCA_STATS_H

#include "simhca.h"

#define SIMHCA_STATS_BLOCKS 32
#define SIMHCA_STATS_SHARED (SIMHCA_STATS_BLOCKS - 1)

struct simhca_stats_block {
	_Alignas(128) _Atomic uint64_t count[SIMHCA_STATS];
};

struct simhca_device;
struct simhca_packet;
struct simhca_worker;

/* Hot: by the thread that the worker is. */
void simhca_stats_add(const struct simhca_worker *worker, struct simhca_device *device,
		      enum simhca_stat stat, uint64_t n);
/* By anybody. */
void simhca_stats_once(struct simhca_device *device, enum simhca_stat stat);

/* A packet has left the device, or come to it. */
void simhca_stats_sent(const struct simhca_worker *worker, struct simhca_device *device,
		       const struct simhca_packet *packet);
void simhca_stats_received(const struct simhca_worker *worker, struct simhca_device *device,
			   const struct simhca_packet *packet);

#endif
