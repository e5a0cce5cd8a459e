/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Multicast groups: which QPs are attached. */
#ifndef LIBSIMHCA_MCAST_H
#define LIBSIMHCA_MCAST_H

#include "core/device.h"

struct simhca_mcast_member {
	struct simhca_qp *qp;
	uint32_t lid; /* with which it was attached, and is to be detached */
};

struct simhca_mcast_group {
	union simhca_gid gid;
	struct simhca_mcast_member *members;
	uint32_t count;
	struct simhca_mcast_group *next;
};

/* The numbers of the QPs that are attached to the group at this device. */
uint32_t simhca_mcast_members(struct simhca_device *device, const union simhca_gid *gid,
			      uint32_t qpn[SIMHCA_MAX_MCAST_QP_ATTACH]);
void simhca_qp_detach_all(struct simhca_qp *qp); /* from every multicast group */

#endif
