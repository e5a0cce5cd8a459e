/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What packets count for. */
#ifndef LIBSIMHCA_TRAFFIC_H
#define LIBSIMHCA_TRAFFIC_H

#include "engine/worker.h"
#include "packet/packet.h"

struct simhca_device;

/* A packet has left the device, or come to it. */
void simhca_stats_sent(const struct simhca_worker *worker, struct simhca_device *device,
		       const struct simhca_packet *packet);
void simhca_stats_received(const struct simhca_worker *worker, struct simhca_device *device,
			   const struct simhca_packet *packet);
/* Both at once. */
void simhca_stats_carried(const struct simhca_worker *worker, struct simhca_device *from,
			  struct simhca_device *to, const struct simhca_packet *packet);

#endif
