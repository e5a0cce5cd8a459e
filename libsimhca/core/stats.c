/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "device.h"
#include "simhca-device.h"
#include "stats.h"
#include "steps.h"

void simhca_stats_once(struct simhca_device *device, enum simhca_stat stat)
{
	atomic_fetch_add_explicit(&device->stats[SIMHCA_STATS_SHARED].count[stat], 1,
				  memory_order_relaxed);
}

void simhca_device_stats(const struct simhca_device *device, uint64_t stats[SIMHCA_STATS])
{
	for (int stat = 0; stat < SIMHCA_STATS; stat++) {
		stats[stat] = 0;
		for (int block = 0; block < SIMHCA_STATS_BLOCKS; block++)
			stats[stat] += atomic_load_explicit(&device->stats[block].count[stat],
							    memory_order_relaxed);
	}
	simhca_steps_count(device, stats);
}
