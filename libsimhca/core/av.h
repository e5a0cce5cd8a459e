/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Address vectors: whether a port can send by one. */
#ifndef LIBSIMHCA_AV_H
#define LIBSIMHCA_AV_H

#include <string.h>

#include "simhca-device.h"

int simhca_av_check(struct simhca_device *device, const struct simhca_av *av,
		    struct simhca_why *why);

/* Whether the GID that the vector sends from is there; without a GRH none is needed. */
bool simhca_av_has_source(struct simhca_device *device, const struct simhca_av *av);

/* As an entry of the GID table that is not used, and as a GID that nobody has exchanged. */
static inline bool simhca_gid_is_empty(const union simhca_gid *gid)
{
	static const union simhca_gid empty;

	return !memcmp(gid, &empty, sizeof(empty));
}

/* ::ffff:0:0/96: the GID of an IPv4 address or group on RoCE (annex A17). */
static inline bool simhca_gid_is_ipv4(const union simhca_gid *gid)
{
	static const uint8_t prefix[12] = { [10] = 0xff, [11] = 0xff };

	return !memcmp(gid->raw, prefix, sizeof(prefix));
}

/* As the kernel has it (rdma_is_multicast_addr()): IPv4 groups, 224.0.0.0/4, as well. */
static inline bool simhca_gid_is_group(const union simhca_gid *gid)
{
	return gid->raw[0] == 0xff || (simhca_gid_is_ipv4(gid) && gid->raw[12] >> 4 == 0xe);
}

#endif
