/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Performance management (IBTA vol. 1, 16.1): the counters of ports. A switch's port counts what
 * the device at the other end of its link does, the other way round. What is set, mostly to 0, is
 * taken off from what the device has counted since it exists.
 */
#include "subnet_impl.h"
#include "simhca-device.h"

enum pma_attribute {
	PMA_CLASS_PORT_INFO = 0x01,
	PMA_PORT_COUNTERS = 0x12,
	PMA_PORT_COUNTERS_EXT = 0x1d,
};
#define ALL_PORTS 0xffu
#define NONE SIMHCA_STATS
/* ClassPortInfo's capabilities: all ports at once, and PortCountersExtended */
#define CAPABILITIES (1u << 8 | 1u << 9)
#define AT_PORT_SELECT (AT_PERF_DATA + 1)
#define AT_COUNTER_SELECT (AT_PERF_DATA + 2)

static const struct counter {
	uint16_t attribute;
	uint8_t at, bits; /* in the attribute's data */
	uint8_t select;	  /* bit of CounterSelect */
	uint8_t unit;
	enum simhca_stat stat[2], less[2]; /* of a device, of the switch's port */
} counters[] = {
	{ PMA_PORT_COUNTERS,
	  7,
	  8,
	  2,
	  1,
	  { SIMHCA_STAT_LINK_DOWNED, SIMHCA_STAT_LINK_DOWNED },
	  { NONE, NONE } },
	{ PMA_PORT_COUNTERS, 14, 16, 6, 1, { SIMHCA_STAT_XMIT_DISCARDS, NONE }, { NONE, NONE } },
	{ PMA_PORT_COUNTERS,
	  24,
	  32,
	  12,
	  4,
	  { SIMHCA_STAT_XMIT_BYTES, SIMHCA_STAT_RCV_BYTES },
	  { NONE, NONE } },
	{ PMA_PORT_COUNTERS,
	  28,
	  32,
	  13,
	  4,
	  { SIMHCA_STAT_RCV_BYTES, SIMHCA_STAT_XMIT_BYTES },
	  { NONE, NONE } },
	{ PMA_PORT_COUNTERS,
	  32,
	  32,
	  14,
	  1,
	  { SIMHCA_STAT_XMIT_PACKETS, SIMHCA_STAT_RCV_PACKETS },
	  { NONE, NONE } },
	{ PMA_PORT_COUNTERS,
	  36,
	  32,
	  15,
	  1,
	  { SIMHCA_STAT_RCV_PACKETS, SIMHCA_STAT_XMIT_PACKETS },
	  { NONE, NONE } },
	{ PMA_PORT_COUNTERS_EXT,
	  8,
	  64,
	  0,
	  4,
	  { SIMHCA_STAT_XMIT_BYTES, SIMHCA_STAT_RCV_BYTES },
	  { NONE, NONE } },
	{ PMA_PORT_COUNTERS_EXT,
	  16,
	  64,
	  1,
	  4,
	  { SIMHCA_STAT_RCV_BYTES, SIMHCA_STAT_XMIT_BYTES },
	  { NONE, NONE } },
	{ PMA_PORT_COUNTERS_EXT,
	  24,
	  64,
	  2,
	  1,
	  { SIMHCA_STAT_XMIT_PACKETS, SIMHCA_STAT_RCV_PACKETS },
	  { NONE, NONE } },
	{ PMA_PORT_COUNTERS_EXT,
	  32,
	  64,
	  3,
	  1,
	  { SIMHCA_STAT_RCV_PACKETS, SIMHCA_STAT_XMIT_PACKETS },
	  { NONE, NONE } },
	{ PMA_PORT_COUNTERS_EXT,
	  40,
	  64,
	  4,
	  1,
	  { SIMHCA_STAT_XMIT_PACKETS, SIMHCA_STAT_RCV_PACKETS },
	  { SIMHCA_STAT_XMIT_MULTICAST, SIMHCA_STAT_RCV_MULTICAST } },
	{ PMA_PORT_COUNTERS_EXT,
	  48,
	  64,
	  5,
	  1,
	  { SIMHCA_STAT_RCV_PACKETS, SIMHCA_STAT_XMIT_PACKETS },
	  { SIMHCA_STAT_RCV_MULTICAST, SIMHCA_STAT_XMIT_MULTICAST } },
	{ PMA_PORT_COUNTERS_EXT,
	  56,
	  64,
	  6,
	  1,
	  { SIMHCA_STAT_XMIT_MULTICAST, SIMHCA_STAT_RCV_MULTICAST },
	  { NONE, NONE } },
	{ PMA_PORT_COUNTERS_EXT,
	  64,
	  64,
	  7,
	  1,
	  { SIMHCA_STAT_RCV_MULTICAST, SIMHCA_STAT_XMIT_MULTICAST },
	  { NONE, NONE } },
};
#define NUM_COUNTERS (sizeof(counters) / sizeof(counters[0]))
_Static_assert(NUM_COUNTERS <= PERF_COUNTERS, "each counter has a base");

static uint64_t counted(const uint64_t stats[SIMHCA_STATS], const struct counter *counter,
			unsigned int side)
{
	uint64_t value = counter->stat[side] == NONE ? 0 : stats[counter->stat[side]];

	if (counter->less[side] != NONE)
		value -= stats[counter->less[side]] < value ? stats[counter->less[side]] : value;
	return value / counter->unit;
}

/* Of the ports from first to last, as indices of devices, the sum. */
static void get(struct simhca_subnet *subnet, unsigned int side, unsigned int first,
		unsigned int last, uint16_t attribute, uint8_t *data)
{
	uint64_t sum[NUM_COUNTERS] = { 0 }, stats[SIMHCA_STATS];

	for (unsigned int device = first; device <= last; device++) {
		simhca_device_stats(subnet->config.device[device], stats);
		for (unsigned int i = 0; i < NUM_COUNTERS; i++)
			sum[i] += counted(stats, &counters[i], side) -
				  subnet->perf_base[side][device][i];
	}
	for (unsigned int i = 0; i < NUM_COUNTERS; i++) {
		unsigned int bits = counters[i].bits;

		if (counters[i].attribute != attribute)
			continue;
		/* A counter that is full stays so. */
		if (bits < 64 && sum[i] >> bits)
			sum[i] = (UINT64_C(1) << bits) - 1;
		mad_put(data, counters[i].at, bits / 8, sum[i]);
	}
}

static void set(struct simhca_subnet *subnet, unsigned int side, unsigned int first,
		unsigned int last, uint16_t attribute, const uint8_t *mad)
{
	uint32_t select = (uint32_t)mad_get(mad, AT_COUNTER_SELECT, 2);
	uint64_t stats[SIMHCA_STATS];

	for (unsigned int device = first; device <= last; device++) {
		simhca_device_stats(subnet->config.device[device], stats);
		for (unsigned int i = 0; i < NUM_COUNTERS; i++)
			if (counters[i].attribute == attribute && select & 1u << counters[i].select)
				subnet->perf_base[side][device][i] =
					counted(stats, &counters[i], side) -
					mad_get(mad, AT_PERF_DATA + counters[i].at,
						counters[i].bits / 8);
	}
}

static uint16_t port_counters(struct simhca_subnet *subnet, int node, uint16_t attribute,
			      uint8_t *mad)
{
	unsigned int port = mad[AT_PORT_SELECT], side = node == NODE_SWITCH;
	unsigned int count = side ? subnet->config.count : 1;
	unsigned int first = side ? port - 1 : (unsigned int)node, last = first;
	uint32_t select = (uint32_t)mad_get(mad, AT_COUNTER_SELECT, 2);
	/* The switch's own port carries no data. */
	bool none = side && !port;

	if (port == ALL_PORTS) {
		first = side ? 0 : (unsigned int)node;
		last = first + count - 1;
	} else if (port > count || (!side && !port)) {
		return MAD_BAD_VALUE;
	}
	if (mad[AT_METHOD] == MAD_SET && !none)
		set(subnet, side, first, last, attribute, mad);
	memset(mad + AT_PERF_DATA, 0, MAD_BYTES - AT_PERF_DATA);
	mad[AT_PORT_SELECT] = (uint8_t)port;
	mad_put(mad, AT_COUNTER_SELECT, 2, select);
	if (!none)
		get(subnet, side, first, last, attribute, mad + AT_PERF_DATA);
	return MAD_OK;
}

bool pma_serve(struct simhca_subnet *subnet, int node, uint8_t *mad)
{
	uint16_t attribute = (uint16_t)mad_get(mad, AT_ATTRIBUTE, 2), status = MAD_OK;

	if (mad[AT_METHOD] != MAD_GET && mad[AT_METHOD] != MAD_SET)
		return false;
	if (mad[AT_BASE_VERSION] != 1 || mad[AT_CLASS_VERSION] != 1) {
		status = MAD_BAD_VERSION;
	} else if (attribute == PMA_PORT_COUNTERS || attribute == PMA_PORT_COUNTERS_EXT) {
		status = port_counters(subnet, node, attribute, mad);
	} else if (attribute == PMA_CLASS_PORT_INFO && mad[AT_METHOD] == MAD_GET) {
		memset(mad + AT_PERF_DATA, 0, MAD_BYTES - AT_PERF_DATA);
		mad[AT_PERF_DATA] = mad[AT_PERF_DATA + 1] = 1;
		mad_put(mad, AT_PERF_DATA + 2, 2, CAPABILITIES);
		mad[AT_PERF_DATA + 7] = 18; /* answers within a second */
	} else {
		status = MAD_BAD_ATTRIBUTE;
	}
	mad_answer(mad, status);
	return true;
}
