/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The local link: finds the QP that a packet is for, and hands it over. */
#include <infiniband/verbs.h>
#include <string.h>

#include "odp.h"

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

bool simhca_link_has_address(const struct simhca_device *device, const struct simhca_device *source,
			     const struct simhca_av *av)
{
	if (device->config.infiniband != source->config.infiniband)
		return false;
	if (device->config.infiniband)
		return av->dlid == device->config.lid;
	return av->is_global && has_gid(device, &av->dgid);
}

bool simhca_link_answers_to(const struct simhca_device *device, const struct simhca_device *source,
			    const struct simhca_av *av)
{
	return port_active(device) && simhca_link_has_address(device, source, av);
}

bool simhca_link_takes_from(uint32_t type, uint32_t sender_type)
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

/*
 * Looks the packet's SRQ up, before the guard is narrowed to that SRQ's context; returns its id.
 * The packets of a message are all for one SRQ: if a later one says otherwise the responder refuses
 * it.
 */
static uint32_t find_xrc_srq(struct simhca_qp *qp, const struct simhca_packet *packet)
{
	if (!qp->resp.in_message && !qp->resp.have_recv)
		qp->resp.srqn = packet->xrc_srqn;
	qp->resp.srq = simhca_find_xrc_srq(qp->device, qp->resp.srqn);
	return qp->resp.srq ? qp->resp.srq->context->id : packet->src_context;
}

void simhca_link_deliver(struct simhca_worker *worker, struct simhca_qp *qp,
			 const struct simhca_packet *packet, struct simhca_reply *reply)
{
	uint32_t held, context;

	if (!simhca_link_takes_from(qp->type, packet->transport))
		return;
	/* Whoever holds it may be in a client's memory: never wait. */
	if (pthread_mutex_trylock(&qp->resp_lock)) {
		reply->answer = SIMHCA_ANSWER_BUSY;
		return;
	}
	context = qp->type == SIMHCA_QPT_XRC_RECV ? find_xrc_srq(qp, packet) : qp->context->id;
	simhca_guard_narrow(&worker->guard, packet->src_context, context);
	held = worker->num_held;
	/* A connected QP hears only the QP that it was connected to. */
	if (qp->type != SIMHCA_QPT_UD && packet->transport != SIMHCA_QPT_RAW_PACKET &&
	    qp->qpc->dest_qpn != packet->src_qpn)
		;
	else if (!packet->resumed && !simhca_odp_verify(&packet->payload))
		*reply = (struct simhca_reply){ .answer = SIMHCA_ANSWER_PAYLOAD };
	else
		simhca_responder_run(worker, qp, packet, reply);
	simhca_stats_responder(worker, qp->device, packet, reply);
	simhca_key_release(worker, held);
	qp->resp.srq = NULL;
	pthread_mutex_unlock(&qp->resp_lock);
}

/* The device after this one; the first for NULL. It outlives the step that asked. */
static struct simhca_device *next_device(struct simhca_fabric *fabric, struct simhca_device *device)
{
	pthread_rwlock_rdlock(&fabric->lock);
	device = device ? device->next : fabric->devices;
	pthread_rwlock_unlock(&fabric->lock);
	return device;
}

/* The QP that an address and QPN name, or NULL. */
static struct simhca_qp *find_peer(const struct simhca_qp *qp, const struct simhca_packet *packet)
{
	struct simhca_fabric *fabric = qp->device->fabric;
	struct simhca_qp *peer = NULL;
	struct simhca_device *device;

	pthread_rwlock_rdlock(&fabric->lock);
	for (device = fabric->devices; device && !peer; device = device->next) {
		if (!simhca_link_answers_to(device, qp->device, packet->av))
			continue;
		peer = atomic_load(&device->qps[SIMHCA_QPN_SLOT(packet->dest_qpn)]);
		if (peer && peer->qpn != packet->dest_qpn)
			peer = NULL;
	}
	pthread_rwlock_unlock(&fabric->lock);
	return peer;
}

static void multicast(struct simhca_worker *worker, struct simhca_qp *qp,
		      const struct simhca_packet *packet, struct simhca_reply *reply)
{
	struct simhca_fabric *fabric = qp->device->fabric;
	struct simhca_device *device = NULL;

	while ((device = next_device(fabric, device))) {
		if (device->config.infiniband != qp->device->config.infiniband ||
		    !port_active(device))
			continue;
		simhca_mcast_deliver(worker, device, packet, reply);
		simhca_guard_widen(&worker->guard);
		if (reply->answer == SIMHCA_ANSWER_ELSEWHERE)
			return;
	}
}

static void carry(struct simhca_worker *worker, struct simhca_qp *qp, struct simhca_packet *packet,
		  struct simhca_reply *reply)
{
	struct simhca_qp *peer;

	if (packet->transport == SIMHCA_QPT_RAW_PACKET) {
		simhca_ethernet_send(worker, qp, packet, reply);
		return;
	}
	if (packet->dest_qpn == SIMHCA_MCAST_QPN) {
		multicast(worker, qp, packet, reply);
		return;
	}
	peer = find_peer(qp, packet);
	if (peer)
		simhca_link_deliver(worker, peer, packet, reply);
}

void simhca_link_request(struct simhca_worker *worker, struct simhca_qp *qp,
			 struct simhca_packet *packet, struct simhca_reply *reply)
{
	if (!port_active(qp->device)) {
		simhca_stats_once(qp->device, SIMHCA_STAT_XMIT_DISCARDS);
		return;
	}
	carry(worker, qp, packet, reply);
	simhca_stats_requester(worker, qp->device, packet, reply);
}
