/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <infiniband/verbs.h>

#include "link/wire/pace.h"

/* Mb/s by enum ibv_rate. Faster ones, which this device never is, and unknown ones are no limit. */
static const uint32_t mbps[] = {
	[IBV_RATE_2_5_GBPS] = 2500, [IBV_RATE_5_GBPS] = 5000,	[IBV_RATE_10_GBPS] = 10000,
	[IBV_RATE_14_GBPS] = 14062, [IBV_RATE_20_GBPS] = 20000, [IBV_RATE_25_GBPS] = 25781,
	[IBV_RATE_28_GBPS] = 28125, [IBV_RATE_30_GBPS] = 30000, [IBV_RATE_40_GBPS] = 40000,
	[IBV_RATE_50_GBPS] = 53125, [IBV_RATE_56_GBPS] = 56250, [IBV_RATE_60_GBPS] = 60000,
};

uint64_t simhca_pace(struct simhca_pace *pace, uint8_t static_rate, uint64_t bytes, uint64_t now_ns)
{
	uint32_t rate = static_rate < sizeof(mbps) / sizeof(mbps[0]) ? mbps[static_rate] : 0;

	if (!rate)
		return 0;
	if (pace->free_at > now_ns)
		return pace->free_at - now_ns;
	if (pace->free_at + SIMHCA_PACE_CREDIT_NS < now_ns)
		pace->free_at = now_ns - SIMHCA_PACE_CREDIT_NS;
	pace->free_at += bytes * 8000 / rate;
	return 0;
}
