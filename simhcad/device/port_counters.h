/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The counters of a port, as the kernel's drivers call them, and how each is made. */
#ifndef SIMHCAD_PORT_COUNTERS_H
#define SIMHCAD_PORT_COUNTERS_H

#include "simhca-device.h"

/*
 * A number of the model, less another one, in some unit. SIMHCA_STATS stands for none: the counter
 * is always 0, for nothing here can go wrong in that way.
 */
struct port_counter {
	const char *path; /* in sysfs, below the port */
	enum simhca_stat stat, less;
	unsigned int unit; /* bytes or packets */
};

#define PORT_COUNTERS_HW "hw_counters/" /* so begin those that netlink shows, too */

/* From index 0 on; NULL: that was the last. */
const struct port_counter *port_counter(unsigned int index);
uint64_t port_counter_value(const struct port_counter *counter, const uint64_t stats[SIMHCA_STATS]);

#endif
