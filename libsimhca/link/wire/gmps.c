/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <string.h>

#include "core/address.h"
#include "core/device.h"
#include "core/fabric.h"
#include "link/wire/gmps.h"
#include "link/wire/wire_impl.h"

#define GMP_QKEY 0x80010000u /* IBTA vol. 1, 3.5.3 */

bool simhca_wire_send_gmp(struct simhca_device *device, const struct simhca_av *av,
			  const union simhca_gid *sgid, const void *mad)
{
	struct simhca_wire *wire = device->fabric->wire;
	const struct simhca_packet packet = {
		.op = SIMHCA_PKT_SEND,
		.transport = SIMHCA_QPT_UD,
		.first = true,
		.last = true,
		.dest_qpn = SIMHCA_GMP_QPN,
		.src_qpn = SIMHCA_GMP_QPN,
		.psn = atomic_fetch_add(&wire->gmps.psn, 1) & SIMHCA_PSN_MASK,
		.qkey = GMP_QKEY,
		.length = SIMHCA_MAD_BYTES,
	};
	const struct simhca_wire_path path = { .source = *sgid,
					       .destination = av->dgid,
					       .source_port = SIMHCA_WIRE_PORT };
	const struct simhca_wire_parts parts = { .head = mad, .head_bytes = SIMHCA_MAD_BYTES };

	if (!av->is_global || simhca_wire_is_local(device, av))
		return false;
	simhca_wire_send_parts(device, &path, av->traffic_class, &packet, &parts);
	return true;
}

bool simhca_gmps_put(struct simhca_wire *wire, const struct simhca_packet *packet,
		     const uint8_t *payload, const struct simhca_wire_datagram *datagram)
{
	struct simhca_gmps *gmps = &wire->gmps;
	bool room;

	if (packet->transport != SIMHCA_QPT_UD || packet->src_qpn != SIMHCA_GMP_QPN ||
	    packet->qkey != GMP_QKEY || packet->length != SIMHCA_MAD_BYTES)
		return false;
	pthread_mutex_lock(&gmps->lock);
	room = gmps->count < SIMHCA_GMPS_ROOM;
	if (room) {
		uint32_t last = (gmps->first + gmps->count++) % SIMHCA_GMPS_ROOM;

		gmps->gmp[last].sgid = datagram->path.source;
		gmps->gmp[last].dgid = datagram->path.destination;
		memcpy(gmps->gmp[last].mad, payload, SIMHCA_MAD_BYTES);
	}
	pthread_mutex_unlock(&gmps->lock);
	if (room && wire->ops.gmps)
		wire->ops.gmps(wire->ops.arg);
	return room;
}

/* Takes the oldest datagram off the queue: *gmp, with its MAD in `mad`. False: there is none. */
static bool take(struct simhca_gmps *gmps, struct simhca_gmp *gmp, uint8_t *mad)
{
	bool taken;

	pthread_mutex_lock(&gmps->lock);
	taken = gmps->count;
	if (taken) {
		*gmp = (struct simhca_gmp){ .mad = mad,
					    .sgid = gmps->gmp[gmps->first].sgid,
					    .dgid = gmps->gmp[gmps->first].dgid };
		memcpy(mad, gmps->gmp[gmps->first].mad, SIMHCA_MAD_BYTES);
		gmps->first = (gmps->first + 1) % SIMHCA_GMPS_ROOM;
		gmps->count--;
	}
	pthread_mutex_unlock(&gmps->lock);
	return taken;
}

void simhca_wire_gmps(struct simhca_fabric *fabric)
{
	uint8_t mad[SIMHCA_MAD_BYTES];
	struct simhca_gmp gmp;

	/* Of those that come meanwhile simhca_wire_ops.gmps tells again. */
	for (int i = 0; i < SIMHCA_GMPS_ROOM && take(&fabric->wire->gmps, &gmp, mad); i++) {
		const struct simhca_av av = { .dgid = gmp.dgid, .is_global = 1 };
		struct simhca_device *device;

		pthread_rwlock_rdlock(&fabric->lock);
		for (device = fabric->devices; device; device = device->next)
			if (device->gmp && device->config.wire &&
			    simhca_link_answers_to(device, device, &av))
				break;
		pthread_rwlock_unlock(&fabric->lock);
		if (device)
			device->gmp(device->gmp_arg, &gmp);
	}
}
