/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The local link: finds the QP that a packet is for, and hands it over. */
#include <infiniband/verbs.h>
#include <string.h>

#include "model.h"

static bool port_active(const struct simhca_device *device)
{
	return atomic_load(&device->mem->port.state) == IBV_PORT_ACTIVE;
}

static bool has_gid(const struct simhca_device *device, const union simhca_gid *gid)
{
	for (int i = 0; i < SIMHCA_GID_ENTRIES; i++)
		if (!memcmp(&device->mem->gids[i].gid, gid, sizeof(*gid)))
			return true;
	return false;
}

/* Whether a port answers to this address: on InfiniBand to its LID, on Ethernet to a GID. */
static bool answers_to(const struct simhca_device *device, const struct simhca_device *source,
		       const struct simhca_av *av)
{
	if (device->config.infiniband != source->config.infiniband || !port_active(device))
		return false;
	if (device->config.infiniband)
		return av->dlid == device->config.lid;
	return av->is_global && has_gid(device, &av->dgid);
}

void simhca_link_deliver(struct simhca_engine *engine, struct simhca_qp *qp,
			 const struct simhca_packet *packet, struct simhca_reply *reply)
{
	if (qp->type != packet->transport)
		return;
	pthread_mutex_lock(&qp->resp_lock);
	/* A connected QP hears only the QP that it was connected to. */
	if (qp->type == SIMHCA_QPT_UD || qp->qpc->dest_qpn == packet->src_qpn)
		simhca_responder_run(engine, qp, packet, reply);
	pthread_mutex_unlock(&qp->resp_lock);
}

void simhca_link_request(struct simhca_engine *engine, struct simhca_qp *qp,
			 struct simhca_packet *packet, struct simhca_reply *reply)
{
	struct simhca_fabric *fabric = qp->device->fabric;
	struct simhca_device *device;
	struct simhca_qp *peer;

	pthread_rwlock_rdlock(&fabric->lock);
	if (!port_active(qp->device))
		goto out;
	if (packet->dest_qpn == SIMHCA_MCAST_QPN) {
		for (device = fabric->devices; device; device = device->next)
			if (device->config.infiniband == qp->device->config.infiniband &&
			    port_active(device))
				simhca_mcast_deliver(engine, device, packet, reply);
		goto out;
	}
	for (device = fabric->devices; device; device = device->next) {
		if (!answers_to(device, qp->device, packet->av))
			continue;
		peer = atomic_load(&device->qps[SIMHCA_QPN_SLOT(packet->dest_qpn)]);
		if (peer && peer->qpn == packet->dest_qpn) {
			simhca_link_deliver(engine, peer, packet, reply);
			break;
		}
	}
out:
	pthread_rwlock_unlock(&fabric->lock);
}
