/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The local link: finds the QP that a packet is for, and hands it over by a call. */
#include <infiniband/verbs.h>
#include <string.h>

#include "paging/odp.h"

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
 * Looks up the SRQ that a request names, or (NULL) the read whose response is owed, before the
 * guard is narrowed to that SRQ's context; false: none. The packets of a message are all for one
 * SRQ: if a later one says otherwise the responder refuses it. What is repeated stands for itself.
 */
static bool find_xrc_srq(struct simhca_qp *qp, const struct simhca_packet *packet)
{
	uint32_t srqn = packet ? packet->xrc_srqn : qp->resp.read.srqn;

	if (packet && packet->psn == qp->resp.epsn) {
		if (!qp->resp.in_message && !qp->resp.have_recv)
			qp->resp.srqn = srqn;
		srqn = qp->resp.srqn;
	}
	qp->xrc_srq = simhca_find_xrc_srq(qp->device, srqn);
	return qp->xrc_srq;
}

/* The responder's turn, with a request, or to go on with a response that it owes (NULL). */
static struct simhca_handover run_responder(struct simhca_worker *worker, struct simhca_qp *qp,
					    const struct simhca_packet *packet, uint32_t other,
					    bool *owed)
{
	struct simhca_handover handover = { .outcome = SIMHCA_TAKEN };
	uint32_t held, context = other;

	/* Whoever holds it may be in a client's memory: never wait. */
	if (!simhca_qp_begin_responder(qp)) {
		handover.outcome = SIMHCA_BUSY;
		return handover;
	}
	if (qp->type != SIMHCA_QPT_XRC_RECV)
		context = qp->context->id;
	else if (find_xrc_srq(qp, packet))
		context = qp->xrc_srq->context->id;
	simhca_guard_narrow(&worker->guard, other, context);
	held = worker->num_held;
	if (!packet) {
		if (qp->resp.read.owed)
			handover = simhca_responder_continue(worker, qp);
	} else if (qp->type != SIMHCA_QPT_UD && packet->transport != SIMHCA_QPT_RAW_PACKET &&
		   qp->qpc->dest_qpn != packet->src_qpn) {
		; /* a connected QP hears only the QP that it was connected to */
	} else if (packet->payload && !packet->resumed && !simhca_odp_verify(packet->payload)) {
		handover.outcome = SIMHCA_UNREADABLE;
	} else {
		handover = simhca_responder_run(worker, qp, packet);
	}
	simhca_key_release(worker, held);
	*owed = qp->resp.read.owed;
	qp->xrc_srq = NULL;
	simhca_qp_end_responder(qp);
	return handover;
}

struct simhca_handover simhca_link_continue(struct simhca_worker *worker, struct simhca_qp *qp,
					    bool *owed)
{
	*owed = true;
	return run_responder(worker, qp, NULL, qp->context ? qp->context->id : SIMHCA_GUARD_ANY,
			     owed);
}

/* Of a queue: nobody waits for it, and another engine may have the requester's turn. */
static struct simhca_handover take_response(struct simhca_worker *worker, struct simhca_qp *qp,
					    const struct simhca_packet *packet)
{
	struct simhca_handover handover = { .outcome = SIMHCA_BUSY };

	if (!simhca_qp_begin(qp))
		return handover;
	simhca_guard_narrow(&worker->guard, qp->context->id, qp->context->id);
	worker->send_of = NULL;
	if (qp->qpc->dest_qpn == packet->src_qpn)
		simhca_completer_run(worker, qp, packet);
	simhca_key_release(worker, 0);
	simhca_qp_end(qp);
	handover.outcome = SIMHCA_TAKEN;
	return handover;
}

struct simhca_handover simhca_link_deliver(struct simhca_worker *worker, struct simhca_qp *qp,
					   const struct simhca_packet *packet)
{
	struct simhca_handover handover = { .outcome = SIMHCA_TAKEN };
	bool owed;

	if (simhca_is_response(packet->op))
		handover = take_response(worker, qp, packet);
	else if (!simhca_link_takes_from(qp->type, packet->transport))
		return handover;
	else
		handover = run_responder(worker, qp, packet, packet->src_context, &owed);
	if (handover.outcome == SIMHCA_TAKEN)
		simhca_stats_received(worker, qp->device, packet);
	return handover;
}

/* The device after this one; the first for NULL. It outlives the step that asked. */
static struct simhca_device *next_device(struct simhca_fabric *fabric, struct simhca_device *device)
{
	pthread_rwlock_rdlock(&fabric->lock);
	device = device ? device->next : fabric->devices;
	pthread_rwlock_unlock(&fabric->lock);
	return device;
}

struct simhca_qp *simhca_link_find(const struct simhca_device *source, const struct simhca_av *av,
				   uint32_t qpn)
{
	struct simhca_fabric *fabric = source->fabric;
	struct simhca_qp *peer = NULL;
	struct simhca_device *device;

	pthread_rwlock_rdlock(&fabric->lock);
	for (device = fabric->devices; device && !peer; device = device->next) {
		if (!simhca_link_answers_to(device, source, av))
			continue;
		peer = atomic_load(&device->qps[SIMHCA_QPN_SLOT(qpn)]);
		if (peer && peer->qpn != qpn)
			peer = NULL;
	}
	pthread_rwlock_unlock(&fabric->lock);
	return peer;
}

/*
 * A connected QP's peer. It was looked up before, and nothing has come or gone since, or it is
 * looked up now. Inside a guard, so that what is found stays.
 */
static struct simhca_qp *peer_of(struct simhca_qp *qp)
{
	/*
	 * seq_cst, after the guard was entered or widened: who takes a QP away raises the number
	 * and then looks at the guards. Either we see the new number, or he waits for us. Before
	 * the look-up, which may so be newer than it says, but not older.
	 */
	uint64_t generation =
		atomic_load_explicit(&qp->device->fabric->generation, memory_order_seq_cst);

	if (qp->peer.generation != generation) {
		qp->peer.qp = simhca_link_find(qp->device, &qp->qpc->av, qp->qpc->dest_qpn);
		qp->peer.generation = generation;
	}
	return qp->peer.qp;
}

static struct simhca_handover multicast(struct simhca_worker *worker, struct simhca_qp *qp,
					const struct simhca_packet *packet)
{
	struct simhca_handover handover = { .outcome = SIMHCA_TAKEN };
	struct simhca_fabric *fabric = qp->device->fabric;
	struct simhca_device *device = NULL;

	while ((device = next_device(fabric, device))) {
		struct simhca_handover one;

		if (device->config.infiniband != qp->device->config.infiniband ||
		    !port_active(device))
			continue;
		one = simhca_mcast_deliver(worker, device, packet);
		simhca_guard_widen(&worker->guard);
		if (one.outcome != SIMHCA_TAKEN)
			handover = one;
		if (one.outcome == SIMHCA_ELSEWHERE)
			break;
	}
	return handover;
}

bool simhca_link_is_up(struct simhca_qp *qp)
{
	if (port_active(qp->device))
		return true;
	simhca_stats_once(qp->device, SIMHCA_STAT_XMIT_DISCARDS);
	return false;
}

static struct simhca_handover request(struct simhca_worker *worker, struct simhca_qp *qp,
				      struct simhca_packet *packet)
{
	struct simhca_handover handover = { .outcome = SIMHCA_TAKEN };
	struct simhca_qp *peer;

	if (!simhca_link_is_up(qp))
		return handover;
	if (packet->dest_qpn == SIMHCA_MCAST_QPN) {
		handover = multicast(worker, qp, packet);
	} else {
		peer = qp->type == SIMHCA_QPT_UD
			       ? simhca_link_find(qp->device, packet->av, packet->dest_qpn)
			       : peer_of(qp);
		if (peer)
			handover = simhca_link_deliver(worker, peer, packet);
	}
	if (handover.outcome == SIMHCA_TAKEN)
		simhca_stats_sent(worker, qp->device, packet);
	return handover;
}

/* The requester waits in its turn for the call to return. */
static struct simhca_handover respond(struct simhca_worker *worker, struct simhca_qp *qp,
				      const struct simhca_packet *packet)
{
	struct simhca_qp *requester = worker->requester;
	struct simhca_handover handover = simhca_completer_run(worker, requester, packet);

	if (handover.outcome == SIMHCA_TAKEN) {
		simhca_stats_sent(worker, qp->device, packet);
		simhca_stats_received(worker, requester->device, packet);
	}
	return handover;
}

static struct simhca_handover pull(struct simhca_worker *worker, struct simhca_qp *qp, bool *more)
{
	struct simhca_handover handover = { .outcome = SIMHCA_TAKEN };
	struct simhca_qp *peer = port_active(qp->device) ? peer_of(qp) : NULL;
	uint32_t before = qp->req.psn_una;
	bool owed;

	if (!peer)
		return handover;
	handover = run_responder(worker, peer, NULL, qp->context->id, &owed);
	*more = qp->req.psn_una != before || qp->req.wait == SIMHCA_WAIT_FAULT;
	return handover;
}

const struct simhca_link simhca_local_link = {
	.slice = SIMHCA_LINK_SLICE,
	.window = 1,
	.request = request,
	.respond = respond,
	.pull = pull,
};
