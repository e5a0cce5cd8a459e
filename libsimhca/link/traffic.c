/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What packets count for in the statistics of a device. */
#include "engine/stats.h"
#include "simhca-device.h"
#include "traffic.h"
#include "packet/traffic.h"

static void count_sent(const struct simhca_worker *worker, struct simhca_device *device,
		       const struct simhca_packet *packet, struct simhca_traffic traffic)
{
	simhca_stats_add(worker, device, SIMHCA_STAT_XMIT_BYTES, traffic.bytes);
	simhca_stats_add(worker, device, SIMHCA_STAT_XMIT_PACKETS, traffic.packets);
	if (packet->dest_qpn == SIMHCA_MCAST_QPN)
		simhca_stats_add(worker, device, SIMHCA_STAT_XMIT_MULTICAST, traffic.packets);
}

static void count_received(const struct simhca_worker *worker, struct simhca_device *device,
			   const struct simhca_packet *packet, struct simhca_traffic traffic)
{
	simhca_stats_add(worker, device, SIMHCA_STAT_RCV_BYTES, traffic.bytes);
	simhca_stats_add(worker, device, SIMHCA_STAT_RCV_PACKETS, traffic.packets);
	if (packet->dest_qpn == SIMHCA_MCAST_QPN)
		simhca_stats_add(worker, device, SIMHCA_STAT_RCV_MULTICAST, traffic.packets);
}

void simhca_stats_sent(const struct simhca_worker *worker, struct simhca_device *device,
		       const struct simhca_packet *packet)
{
	count_sent(worker, device, packet, simhca_traffic_of(packet));
}

void simhca_stats_received(const struct simhca_worker *worker, struct simhca_device *device,
			   const struct simhca_packet *packet)
{
	count_received(worker, device, packet, simhca_traffic_of(packet));
}

void simhca_stats_carried(const struct simhca_worker *worker, struct simhca_device *from,
			  struct simhca_device *to, const struct simhca_packet *packet)
{
	struct simhca_traffic traffic = simhca_traffic_of(packet);

	count_sent(worker, from, packet, traffic);
	count_received(worker, to, packet, traffic);
}
