/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What links have in common: a packet at the QP that it is for. */
#include "deliver.h"
#include "core/address.h"
#include "core/guard.h"
#include "core/stats.h"
#include "memory/key.h"
#include "simhca-device.h"
#include "traffic.h"
#include "proto/completer.h"
#include "proto/link.h"
#include "proto/own_memory.h"
#include "packet/packet.h"
#include "proto/qp.h"
#include "proto/responder.h"

/* What was found for this packet holds for this one. */
static void forget_source(struct simhca_qp *qp)
{
	if (qp->source->find)
		qp->responder.srq = NULL;
}

/* A connected QP hears only the QP that it was connected to. */
static bool is_from_peer(const struct simhca_qp *qp, const struct simhca_packet *packet)
{
	return qp->qpc->dest_qpn == packet->src_qpn && qp->link->remote == packet->remote;
}

/* The responder's turn, with a request, or to go on with a response that it owes (NULL). */
static struct simhca_handover run_responder(struct simhca_worker *worker, struct simhca_qp *qp,
					    const struct simhca_packet *packet, uint32_t other,
					    bool *owed)
{
	struct simhca_handover handover = { .outcome = SIMHCA_ACCEPTED };
	const struct simhca_context *receiver;
	uint32_t used_keys;

	/* Whoever holds it may be in a client's memory: never wait. */
	if (!simhca_qp_begin_responder(qp)) {
		handover.outcome = SIMHCA_BUSY;
		return handover;
	}
	receiver = qp->source->find ? qp->source->find(qp, packet) : qp->context;
	if (receiver && atomic_load_explicit(&receiver->suspended, memory_order_relaxed)) {
		forget_source(qp);
		simhca_qp_end_responder(qp);
		handover.outcome = SIMHCA_BUSY;
		return handover;
	}
	simhca_guard_narrow(&worker->guard, other, receiver ? receiver->id : other);
	used_keys = worker->num_used_keys;
	if (!packet) {
		if (qp->resp.owed)
			handover = simhca_responder_continue(worker, qp);
	} else if (qp->type != SIMHCA_QPT_UD && packet->transport != SIMHCA_QPT_RAW_PACKET &&
		   !is_from_peer(qp, packet)) {
		; /* it is dropped */
	} else if (packet->payload && !simhca_payload_reached(worker, packet)) {
		handover.outcome = SIMHCA_UNREADABLE;
	} else {
		handover = simhca_responder_run(worker, qp, packet);
	}
	simhca_key_release(worker, used_keys);
	*owed = qp->resp.owed;
	forget_source(qp);
	simhca_qp_end_responder(qp);
	return handover;
}

/* Of a queue: nobody waits for it, and another engine may hold the requester. */
static struct simhca_handover deliver_response(struct simhca_worker *worker, struct simhca_qp *qp,
					       const struct simhca_packet *packet)
{
	struct simhca_handover handover = { .outcome = SIMHCA_BUSY };

	if (!simhca_qp_begin(qp))
		return handover;
	simhca_guard_narrow(&worker->guard, qp->context->id, qp->context->id);
	worker->send_of = NULL;
	if (is_from_peer(qp, packet))
		simhca_completer_run(worker, qp, packet);
	simhca_key_release(worker, 0);
	simhca_qp_end(qp);
	handover.outcome = SIMHCA_ACCEPTED;
	return handover;
}

struct simhca_handover simhca_link_deliver(struct simhca_worker *worker, struct simhca_qp *qp,
					   const struct simhca_packet *packet)
{
	struct simhca_handover handover = { .outcome = SIMHCA_ACCEPTED };
	bool owed;

	if (simhca_is_response(packet->op))
		handover = deliver_response(worker, qp, packet);
	else if (!simhca_link_accepts(qp->type, packet->transport))
		return handover;
	else
		handover = run_responder(worker, qp, packet, packet->src_context, &owed);
	if (handover.outcome == SIMHCA_ACCEPTED)
		simhca_stats_received(worker, qp->device, packet);
	return handover;
}

struct simhca_handover simhca_link_carry(struct simhca_worker *worker, struct simhca_device *from,
					 struct simhca_qp *qp, const struct simhca_packet *packet)
{
	struct simhca_handover handover = { .outcome = SIMHCA_ACCEPTED };
	bool owed;

	if (!simhca_link_accepts(qp->type, packet->transport)) {
		simhca_stats_sent(worker, from, packet);
		return handover;
	}
	handover = run_responder(worker, qp, packet, packet->src_context, &owed);
	if (handover.outcome == SIMHCA_ACCEPTED)
		simhca_stats_carried(worker, from, qp->device, packet);
	return handover;
}

struct simhca_handover simhca_link_continue(struct simhca_worker *worker, struct simhca_qp *qp,
					    uint32_t other, bool *owed)
{
	*owed = true;
	return run_responder(worker, qp, NULL, other, owed);
}

struct simhca_qp *simhca_link_find(const struct simhca_device *source, const struct simhca_av *av,
				   uint32_t qpn)
{
	struct simhca_qp *peer = NULL;
	struct simhca_device *device;

	for (device = source->fabric->devices; device && !peer; device = device->next) {
		if (simhca_link_answers_to(device, source, av))
			peer = simhca_qp_numbered(device, qpn);
	}
	return peer;
}

struct simhca_qp *simhca_link_peer(const struct simhca_qp *qp)
{
	struct simhca_qp *peer = simhca_link_find(qp->device, &qp->qpc->av, qp->qpc->dest_qpn);

	/* Before RTR it has no addresses, and accepts nothing. */
	if (!peer || simhca_qp_state(peer) < SIMHCA_QPS_RTR)
		return peer;
	return simhca_link_is_connected(peer->device, peer->qpc, qp->device, qp->qpc) ? peer : NULL;
}

bool simhca_link_is_up(struct simhca_qp *qp)
{
	if (simhca_port_is_active(qp->device))
		return true;
	simhca_stats_once(qp->device, SIMHCA_STAT_XMIT_DISCARDS);
	return false;
}
