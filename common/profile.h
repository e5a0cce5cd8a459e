/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Profiles: as which NIC a device presents itself. A profile is identity only, what programs read
 * of a device to recognise it: what the device can do, and its driver, stay simhca's.
 */
#ifndef SIMHCA_PROFILE_H
#define SIMHCA_PROFILE_H

#include "option_table.h"
#include "simhca-device.h"

struct profile {
	const char *device_name; /* of the first device, as its driver names it */
	struct simhca_product product;
	const char *hca_type, *board_id; /* NULL: its driver has no such file in sysfs */
	/* Its PCI function; vendor 0: it has none. */
	struct {
		uint16_t vendor, device, subsystem_vendor, subsystem_device;
		uint8_t revision;
		const char *link_speed;
	} pci;
};

extern const struct choice profile_choices[];

const struct profile *profile_of(const struct settings *settings);
const char *profile_name(const struct settings *settings);

#endif
