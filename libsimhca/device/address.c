/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Which port an address names, and what kinds of QPs talk to each other. */
#include <infiniband/verbs.h>
#include <string.h>

#include "address.h"
#include "av.h"

static bool has_gid(const struct simhca_device *device, const union simhca_gid *gid)
{
	if (simhca_gid_is_empty(gid))
		return false; /* as the empty entries of the table are */
	return simhca_gids_have(&device->gids, gid);
}

bool simhca_link_has_address(const struct simhca_device *device, const struct simhca_device *source,
			     const struct simhca_av *av)
{
	if (device->config.infiniband != source->config.infiniband)
		return false;
	if (device->config.infiniband)
		return av->dlid == device->config.lid &&
		       (!av->is_global || has_gid(device, &av->dgid));
	return av->is_global && has_gid(device, &av->dgid);
}

bool simhca_link_answers_to(const struct simhca_device *device, const struct simhca_device *source,
			    const struct simhca_av *av)
{
	return simhca_port_is_active(device) && simhca_link_has_address(device, source, av);
}

/* The GID of a table is the one that the address vector at the other end has. */
static bool is_source(const struct simhca_device *device, const struct simhca_av *av,
		      const union simhca_gid *gid)
{
	union simhca_gid source;

	if (av->sgid_index >= SIMHCA_GID_ENTRIES)
		return false;
	source = simhca_gids_get(&device->gids, av->sgid_index);
	return !memcmp(&source, gid, sizeof(source));
}

bool simhca_link_is_connected(const struct simhca_device *to, const struct simhca_qpc *to_qpc,
			      const struct simhca_device *from, const struct simhca_qpc *from_qpc)
{
	/* Without a GRH no packet says which GID it comes from. */
	if (!to_qpc->av.is_global || !from_qpc->av.is_global)
		return true;
	return is_source(from, &from_qpc->av, &to_qpc->av.dgid) &&
	       is_source(to, &to_qpc->av, &from_qpc->av.dgid);
}

bool simhca_link_accepts(uint32_t type, uint32_t sender_type)
{
	switch (sender_type) {
	case SIMHCA_QPT_XRC_SEND:
		return type == SIMHCA_QPT_XRC_RECV;
	case SIMHCA_QPT_RAW_PACKET:
		return type == SIMHCA_QPT_RAW_PACKET || type == SIMHCA_QPT_WQ;
	default:
		return type == sender_type;
	}
}

bool simhca_port_is_active(const struct simhca_device *device)
{
	return atomic_load(&device->mem->port.state) == IBV_PORT_ACTIVE;
}
