/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The local link: finds the QP that a packet is for, and hands it over by a call. */
#include <string.h>

#include "deliver.h"
#include "core/address.h"
#include "dma/dma.h"
#include "faulty.h"
#include "local.h"
#include "tap.h"
#include "traffic.h"
#include "proto/completer.h"
#include "proto/link.h"
#include "proto/qp.h"
#include "proto/requester.h"
#include "proto/silence.h"

/*
 * A connected QP's peer. It was looked up before, and nothing has come or gone since, or it is
 * looked up now. Inside a guard, so that what is found stays.
 */
static struct simhca_qp *peer_of(struct simhca_qp *qp)
{
	/*
	 * seq_cst, after the guard was entered or widened: whoever removes a QP raises the number
	 * and then looks at the guards, so either this load sees the new number, or it waits for
	 * this step. The load comes before the look-up, which may find what is newer, never older.
	 */
	uint64_t generation =
		atomic_load_explicit(&qp->device->fabric->generation, memory_order_seq_cst);

	if (qp->requester.peer.generation != generation) {
		qp->requester.peer.qp = simhca_link_peer(qp);
		qp->requester.peer.generation = generation;
	}
	return qp->requester.peer.qp;
}

/* Whether max_rd_atomic counts it. */
static bool has_response(const struct simhca_packet *packet)
{
	return packet->op > SIMHCA_PKT_WRITE && packet->op < SIMHCA_PKT_ACK;
}

/* Whether a message of an unreliable service has no QP that would take it. */
static bool is_lost(const struct simhca_qp *qp, const struct simhca_qp *peer)
{
	if (qp->type != SIMHCA_QPT_UD && qp->type != SIMHCA_QPT_UC)
		return false;
	return !peer || !simhca_link_accepts(peer->type, qp->type) ||
	       !simhca_state_receives(simhca_qp_state(peer));
}

static struct simhca_handover send_request(struct simhca_worker *worker, struct simhca_qp *qp,
					   struct simhca_packet *packet)
{
	struct simhca_handover handover = { .outcome = SIMHCA_ACCEPTED };
	struct simhca_qp *peer;

	if (!simhca_link_is_up(qp))
		return handover;
	if (packet->dest_qpn == SIMHCA_MCAST_QPN) {
		handover = simhca_multicast(worker, qp, packet);
	} else {
		peer = qp->type == SIMHCA_QPT_UD
			       ? simhca_link_find(qp->device, packet->av, packet->dest_qpn)
			       : peer_of(qp);
		if (peer && has_response(packet) &&
		    qp->qpc->max_rd_atomic > peer->qpc->max_dest_rd_atomic)
			packet->exceeds_rd_atomic =
				simhca_exceeds_rd_atomic(worker, qp, peer->qpc->max_dest_rd_atomic);
		if (peer)
			handover = simhca_link_carry(worker, qp->device, peer, packet);
		if (handover.outcome == SIMHCA_ACCEPTED && is_lost(qp, peer))
			simhca_silence_lost(qp, packet);
		if (peer)
			return handover;
	}
	if (handover.outcome == SIMHCA_ACCEPTED)
		simhca_stats_sent(worker, qp->device, packet);
	return handover;
}

static struct simhca_handover tapped_request(struct simhca_worker *worker, struct simhca_qp *qp,
					     struct simhca_packet *packet)
{
	struct simhca_handover handover;
	struct simhca_tap_mark mark;

	if (!simhca_tap_is_on(qp->device->fabric))
		return send_request(worker, qp, packet);
	mark = simhca_tap_begin(worker, qp, packet);
	handover = send_request(worker, qp, packet);
	simhca_tap_end(worker, mark, handover.outcome == SIMHCA_ACCEPTED);
	return handover;
}

static struct simhca_handover request(struct simhca_worker *worker, struct simhca_qp *qp,
				      struct simhca_packet *packet)
{
	if (simhca_inject_is_on(qp->device->fabric))
		return simhca_faulty_request(worker, qp, packet, tapped_request);
	return tapped_request(worker, qp, packet);
}

/* The requester is held, and waits for the call to return. */
static struct simhca_handover send_response(struct simhca_worker *worker, struct simhca_qp *qp,
					    const struct simhca_packet *packet)
{
	struct simhca_qp *requester = worker->requester;
	struct simhca_handover handover = simhca_completer_run(worker, requester, packet);

	if (handover.outcome == SIMHCA_ACCEPTED)
		simhca_stats_carried(worker, qp->device, requester->device, packet);
	return handover;
}

static struct simhca_handover tapped_respond(struct simhca_worker *worker, struct simhca_qp *qp,
					     const struct simhca_packet *packet)
{
	struct simhca_handover handover;
	struct simhca_tap_mark mark;

	if (!simhca_tap_is_on(qp->device->fabric))
		return send_response(worker, qp, packet);
	mark = simhca_tap_begin(worker, qp, packet);
	handover = send_response(worker, qp, packet);
	simhca_tap_end(worker, mark, handover.outcome == SIMHCA_ACCEPTED);
	return handover;
}

static struct simhca_handover respond(struct simhca_worker *worker, struct simhca_qp *qp,
				      const struct simhca_packet *packet)
{
	if (simhca_inject_is_on(qp->device->fabric))
		return simhca_faulty_respond(worker, qp, packet, tapped_respond);
	return tapped_respond(worker, qp, packet);
}

static struct simhca_handover pull(struct simhca_worker *worker, struct simhca_qp *qp, bool *more)
{
	struct simhca_handover handover = { .outcome = SIMHCA_ACCEPTED };
	struct simhca_qp *peer = simhca_port_is_active(qp->device) ? peer_of(qp) : NULL;
	uint32_t before = qp->req.psn_una;
	bool owed;

	if (!peer)
		return handover;
	handover = simhca_link_continue(worker, peer, qp->context->id, &owed);
	*more = qp->req.psn_una != before || qp->req.wait == SIMHCA_WAIT_FAULT;
	if (simhca_inject_is_on(qp->device->fabric))
		simhca_faulty_pulled(worker, qp, &handover);
	return handover;
}

/* A datagram's sender has a timer only. */
static void ready(struct simhca_qp *qp)
{
	struct simhca_qp *peer = qp->type == SIMHCA_QPT_UD ? NULL : peer_of(qp);

	if (!peer || !peer->context)
		return;
	atomic_store(&peer->requester.peer_ready, true);
	simhca_engine_schedule(peer->context->engine, &peer->task);
}

static struct simhca_qp *find(const struct simhca_qp *qp, const struct simhca_av *av, uint32_t qpn)
{
	return simhca_link_find(qp->device, av, qpn);
}

const struct simhca_link simhca_local_link = {
	.slice = SIMHCA_LINK_SLICE,
	.window = 1,
	.request = request,
	.respond = respond,
	.pull = pull,
	.ready = ready,
	.peer = simhca_link_peer,
	.find = find,
};
