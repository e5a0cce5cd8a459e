/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* General management packets: MADs from QP 1 to QP 1, over the local link or the wire. */

#include "core/address.h"
#include "core/device.h"
#include "link/tap.h"
#include "link/wire/wire.h"
#include "simhca-device.h"

void simhca_device_set_gmp(struct simhca_device *device, simhca_gmp_handler *handler, void *arg)
{
	device->gmp = handler;
	device->gmp_arg = arg;
}

bool simhca_device_send_gmp(struct simhca_device *device, const struct simhca_av *av,
			    const void *mad)
{
	struct simhca_gmp gmp = { .mad = mad, .dgid = av->dgid, .slid = simhca_device_lid(device) };
	struct simhca_device *to;

	if (!simhca_port_is_active(device))
		return false;
	if (av->is_global && !simhca_device_gid(device, av->sgid_index, &gmp.sgid))
		return false;
	/* A port loops its own address back to itself, whoever else has the same one. */
	to = device->gmp && simhca_link_answers_to(device, device, av) ? device : NULL;
	if (!to) {
		pthread_rwlock_rdlock(&device->fabric->lock);
		for (to = device->fabric->devices; to; to = to->next)
			if (to->gmp && simhca_link_answers_to(to, device, av))
				break;
		pthread_rwlock_unlock(&device->fabric->lock);
	}
	if (!to && device->config.wire)
		return simhca_wire_send_gmp(device, av, &gmp.sgid, mad);
	if (to && simhca_tap_is_on(device->fabric))
		simhca_tap_mad(device->fabric, &gmp.sgid, &gmp.dgid, mad);
	if (to)
		to->gmp(to->gmp_arg, &gmp);
	return to;
}
