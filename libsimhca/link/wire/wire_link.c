/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The turns of a QP whose link is the wire: what it sends, and what has come for it. */

#include <errno.h>

#include "core/fabric.h"
#include "core/guard.h"
#include "core/stats.h"
#include "link/deliver.h"
#include "link/faulty.h"
#include "link/local.h"
#include "link/wire/inbox.h"
#include "link/wire/path_hole.h"
#include "link/wire/wire_impl.h"
#include "queue/psn.h"
#include "proto/qp.h"

#define TURN_PACKETS 16		    /* packets in one turn of a QP */
#define BUSY_MOST_NS (10 * 1000000) /* that a busy QP is tried again; then a packet is lost */
#define PACKET_OVERHEAD 58u	    /* bytes of a packet's headers, from Ethernet's to the ICRC */

/* ----------------------------------------------------------------------------------- sending */

/* Whoever is connected heeds marks, unless the program has a view of its own. */
static uint8_t ecn_capable(const struct simhca_av *av)
{
	return av->traffic_class & SIMHCA_ECN_MASK ? av->traffic_class
						   : av->traffic_class | SIMHCA_ECN_CAPABLE;
}

static uint32_t last_psn(const struct simhca_qp *qp, const struct simhca_packet *packet)
{
	return simhca_psn_add(packet->psn, simhca_request_psns(packet, qp->qpc->path_mtu) - 1);
}

/* before: what is to be sent again. */
static void send_probe(struct simhca_worker *worker, struct simhca_qp *qp,
		       const struct simhca_packet *before, uint8_t traffic_class)
{
	const struct simhca_requester *req = &qp->req;
	const bool begun = req->psn_una != qp->qpc->sq_psn;
	const struct simhca_wire_parts nothing = { .head = "", .rest = "" };
	const struct simhca_packet probe = { .op = SIMHCA_PKT_WRITE,
					     .transport = SIMHCA_QPT_RC,
					     .first = true,
					     .last = true,
					     .ack_req = true,
					     .dest_qpn = qp->qpc->dest_qpn,
					     .psn = begun ? simhca_psn_add(req->psn_una, -1u)
							  : simhca_psn_add(req->psn_next, 1),
					     .mtu = qp->qpc->path_mtu };
	const uint32_t gap = begun ? SIMHCA_PATH_HOLE_NO_NAK : req->psn_una;
	const bool may_be_done = !begun && before->op == SIMHCA_PKT_READ;

	simhca_path_hole_probed(&simhca_inbox_way(qp->wire.inbox)->hole, gap,
				may_be_done ? req->psn_sent : gap);
	simhca_wire_put_parts(worker, qp->device, &simhca_inbox_way(qp->wire.inbox)->path,
			      traffic_class, &probe, &nothing);
}

static struct simhca_handover send_request(struct simhca_worker *worker, struct simhca_qp *qp,
					   struct simhca_packet *packet)
{
	struct simhca_congestion *congestion = &simhca_inbox_way(qp->wire.inbox)->congestion;
	struct simhca_handover lost = { .outcome = SIMHCA_ACCEPTED };

	if (!simhca_link_is_up(qp))
		return lost;
	if (packet->ack_req && !congestion->timed_at && simhca_inbox_is_new(qp->wire.inbox, packet))
		simhca_congestion_sent(congestion, last_psn(qp, packet),
				       simhca_engine_now(qp->context->engine));
	if (qp->type == SIMHCA_QPT_RC &&
	    simhca_path_hole_wants_probe(&simhca_inbox_way(qp->wire.inbox)->hole,
					 simhca_request_bytes(packet)))
		send_probe(worker, qp, packet, ecn_capable(packet->av));
	return simhca_wire_carry(worker, qp, packet, &simhca_inbox_way(qp->wire.inbox)->path,
				 ecn_capable(packet->av));
}

/* LATE: it would be faster than its address says. */
static struct simhca_handover paced(struct simhca_qp *qp, const struct simhca_packet *packet)
{
	struct simhca_handover handover = { .outcome = SIMHCA_ACCEPTED };
	uint64_t packets, bytes;

	if (!packet->av->static_rate)
		return handover;
	packets = simhca_psn_count(packet->length, simhca_qp_mtu(qp));
	bytes = packet->length + packets * PACKET_OVERHEAD;
	handover.delay_ns =
		simhca_pace(&simhca_inbox_way(qp->wire.inbox)->pace, packet->av->static_rate, bytes,
			    simhca_engine_now(qp->context->engine));
	if (handover.delay_ns)
		handover.outcome = SIMHCA_LATE;
	return handover;
}

/* LATE: less than one packet a round trip is what the network has for it. */
static struct simhca_handover rested(struct simhca_qp *qp)
{
	struct simhca_congestion *congestion = &simhca_inbox_way(qp->wire.inbox)->congestion;
	struct simhca_handover handover = { .outcome = SIMHCA_ACCEPTED };

	if (congestion->window >= SIMHCA_WINDOW_PSN)
		return handover;
	handover.delay_ns =
		simhca_congestion_rest(congestion, simhca_engine_now(qp->context->engine));
	if (handover.delay_ns)
		handover.outcome = SIMHCA_LATE;
	return handover;
}

static struct simhca_handover request(struct simhca_worker *worker, struct simhca_qp *qp,
				      struct simhca_packet *packet)
{
	struct simhca_handover pace = paced(qp, packet);

	simhca_share_set_busy(&simhca_inbox_way(qp->wire.inbox)->share, true);
	if (pace.outcome == SIMHCA_ACCEPTED)
		pace = rested(qp);
	if (pace.outcome != SIMHCA_ACCEPTED)
		return pace;
	if (simhca_inject_is_on(qp->device->fabric))
		return simhca_faulty_request(worker, qp, packet, send_request);
	return send_request(worker, qp, packet);
}

static struct simhca_handover send_response(struct simhca_worker *worker, struct simhca_qp *qp,
					    const struct simhca_packet *packet)
{
	struct simhca_handover lost = { .outcome = SIMHCA_ACCEPTED };

	if (!simhca_link_is_up(qp))
		return lost;
	return simhca_wire_carry(worker, qp, packet, &simhca_inbox_way(qp->wire.inbox)->path,
				 ecn_capable(&qp->qpc->av));
}

static struct simhca_handover respond(struct simhca_worker *worker, struct simhca_qp *qp,
				      const struct simhca_packet *packet)
{
	if (simhca_inject_is_on(qp->device->fabric))
		return simhca_faulty_respond(worker, qp, packet, send_response);
	return send_response(worker, qp, packet);
}

static struct simhca_handover send_datagram(struct simhca_worker *worker, struct simhca_qp *qp,
					    struct simhca_packet *packet)
{
	struct simhca_wire_path path;

	if (!simhca_link_is_up(qp))
		return (struct simhca_handover){ .outcome = SIMHCA_ACCEPTED };
	path = simhca_wire_path(qp->device->fabric->wire, &packet->sgid, &packet->av->dgid,
				packet->av->flow_label, qp->qpn, packet->dest_qpn);
	return simhca_wire_carry(worker, qp, packet, &path, packet->av->traffic_class);
}

/* A datagram: here or there, by its address; to a group's members here and there. */
static struct simhca_handover request_datagram(struct simhca_worker *worker, struct simhca_qp *qp,
					       struct simhca_packet *packet)
{
	bool group = packet->dest_qpn == SIMHCA_MCAST_QPN;
	struct simhca_handover pace;

	if (!group && simhca_wire_is_local(qp->device, packet->av))
		return simhca_local_link.request(worker, qp, packet);
	pace = paced(qp, packet);
	if (pace.outcome != SIMHCA_ACCEPTED)
		return pace;
	if (group) {
		const struct simhca_handover here = simhca_local_link.request(worker, qp, packet);

		if (here.outcome != SIMHCA_ACCEPTED || !packet->av->is_global)
			return here;
	}
	if (simhca_inject_is_on(qp->device->fabric))
		return simhca_faulty_request(worker, qp, packet, send_datagram);
	return send_datagram(worker, qp, packet);
}

/* --------------------------------------------------------------------------------- receiving */

/* What a NAK from another device is for: it says no more than this. */
static enum simhca_reason reason_of(struct simhca_qp *qp, uint8_t syndrome)
{
	if (SIMHCA_SYNDROME_IS_RNR(syndrome))
		return SIMHCA_REASON_PEER_NOT_READY;
	switch (syndrome) {
	case SIMHCA_SYNDROME_NAK_PSN:
		return simhca_path_hole_is_there(&simhca_inbox_way(qp->wire.inbox)->hole)
			       ? SIMHCA_REASON_WIRE_PATH_MTU
			       : SIMHCA_REASON_PSN_SEQUENCE;
	case SIMHCA_SYNDROME_NAK_INVALID:
		return SIMHCA_REASON_PEER_SAYS_INVALID;
	case SIMHCA_SYNDROME_NAK_ACCESS:
		return SIMHCA_REASON_PEER_SAYS_ACCESS;
	case SIMHCA_SYNDROME_NAK_OPERATIONAL:
		return SIMHCA_REASON_PEER_SAYS_OPERATIONAL;
	default:
		return SIMHCA_REASON_NONE;
	}
}

static struct simhca_handover deliver(struct simhca_worker *worker, struct simhca_qp *qp,
				      struct simhca_arrival *arrival)
{
	struct simhca_packet *packet = &arrival->packet;
	const struct simhca_arrival *part;
	struct simhca_handover handover;
	struct simhca_sgl payload;

	payload.count = 0;
	for (part = arrival; part; part = part->more)
		payload.seg[payload.count++] =
			(struct simhca_seg){ .addr = (uintptr_t)part->payload,
					     .length = part->length };
	packet->payload = &payload;
	if (packet->op == SIMHCA_PKT_ACK) {
		bool is_nak = packet->syndrome == SIMHCA_SYNDROME_NAK_PSN;

		if (is_nak || SIMHCA_SYNDROME_IS_ACK(packet->syndrome))
			simhca_path_hole_heard(&simhca_inbox_way(qp->wire.inbox)->hole, packet->psn,
					       is_nak);
		packet->reason = reason_of(qp, packet->syndrome);
	}
	handover = simhca_link_deliver(worker, qp, packet);
	packet->payload = NULL;
	return handover;
}

/*
 * What came was marked: its sender is to know. Under the responder's lock, as the QP may be connected
 * to another address. False: somebody has it, as the packet itself will find if it is a request.
 */
static bool tell_of_congestion(struct simhca_worker *worker, struct simhca_qp *qp)
{
	if (!simhca_qp_begin_responder(qp))
		return false;
	simhca_stats_once(qp->device, SIMHCA_STAT_ECN_MARKED);
	if (qp->link->remote &&
	    simhca_inbox_may_send_cnp(qp->wire.inbox, simhca_engine_now(worker->engine))) {
		const struct simhca_packet packet = { .op = SIMHCA_PKT_CNP,
						      .dest_qpn = qp->qpc->dest_qpn,
						      .first = true,
						      .last = true,
						      .mtu = qp->qpc->path_mtu };

		simhca_stats_once(qp->device, SIMHCA_STAT_CNP_SENT);
		simhca_wire_carry(worker, qp, &packet, &simhca_inbox_way(qp->wire.inbox)->path,
				  qp->qpc->av.traffic_class);
	}
	simhca_qp_end_responder(qp);
	return true;
}

/* Whether what met a busy QP, for the first time at *since (ns; 0: never before), is tried again. */
static bool may_wait(const struct simhca_worker *worker, uint64_t *since)
{
	const uint64_t now = simhca_engine_now(worker->engine);

	if (!*since)
		*since = now;
	return now - *since < BUSY_MOST_NS;
}

/*
 * A packet of the QP's turn; false: the turn is over. *owed: the responder owes more of a READ
 * response. *kept: a packet has gone back to the inbox, so only responses are taken from it.
 * *again: the QP was busy, and is to be run again.
 */
static bool deliver_one(struct simhca_worker *worker, struct simhca_qp *qp, bool *owed, bool *kept,
			bool *again)
{
	struct simhca_arrival *arrival;
	struct simhca_handover handover;

	simhca_guard_widen(&worker->guard); /* the last delivery has narrowed it */
	if (simhca_link_continue(worker, qp, qp->context ? qp->context->id : SIMHCA_GUARD_ANY, owed)
		    .outcome == SIMHCA_BUSY) {
		*owed = false;
		/* Who holds the responder does not send what is owed. */
		*again |= may_wait(worker, &qp->wire.busy_since);
	} else {
		qp->wire.busy_since = 0;
	}
	arrival = simhca_inbox_dequeue(qp->wire.inbox, *owed || *kept);
	if (!arrival)
		return *owed;
	if (arrival->marked && tell_of_congestion(worker, qp)) {
		arrival->marked = false;
		if (arrival->packet.op == SIMHCA_PKT_READ_RESPONSE)
			simhca_inbox_slow_down(qp->wire.inbox); /* our READs ask for less */
	}
	simhca_guard_widen(&worker->guard);
	handover = deliver(worker, qp, arrival);
	switch (handover.outcome) {
	case SIMHCA_BUSY:
		if (may_wait(worker, &arrival->busy_since)) {
			*again = true;
			break;
		}
		simhca_arrival_free(arrival);
		return true;
	case SIMHCA_ELSEWHERE:
		arrival->busy_since = 0;
		simhca_engine_schedule(handover.engine, &qp->task);
		break;
	case SIMHCA_ABSENT: /* the end of its fault schedules the QP */
	case SIMHCA_LATE:   /* never of a packet from the wire */
		arrival->busy_since = 0;
		break;
	case SIMHCA_ACCEPTED:
	case SIMHCA_UNREADABLE:
		simhca_arrival_free(arrival);
		return true;
	}
	*kept = true;
	simhca_inbox_keep(qp->wire.inbox, arrival);
	return handover.outcome == SIMHCA_BUSY;
}

static bool arrived(struct simhca_worker *worker, struct simhca_qp *qp)
{
	const struct simhca_wire *wire = qp->device->fabric->wire;
	bool owed = false, kept = false, again = false, more = true;
	int packets = TURN_PACKETS;

	if (!simhca_inbox_begin(qp->wire.inbox))
		return false;
	/* Who has come in time is not silent, however late we look: all of it is looked at. */
	if (simhca_inbox_timer(qp->wire.inbox, atomic_load(&qp->task.timer_fired)) &&
	    wire->ops.poll) {
		wire->ops.poll(wire->ops.arg);
		packets = SIMHCA_INBOX_ROOM;
	}
	for (int i = 0; i < packets && more; i++)
		more = deliver_one(worker, qp, &owed, &kept, &again);
	/* The QP outlives the step again, whoever its packets were for. */
	simhca_guard_widen(&worker->guard);
	return simhca_inbox_end(qp->wire.inbox) || more || again;
}

/* -------------------------------------------------------------------------------- congestion */

static void take_marks(struct simhca_qp *qp)
{
	if (simhca_inbox_notified(qp->wire.inbox))
		simhca_congestion_marked(&simhca_inbox_way(qp->wire.inbox)->congestion);
}

static uint32_t window_now(const struct simhca_qp *qp)
{
	return simhca_congestion_window(&simhca_inbox_way(qp->wire.inbox)->congestion);
}

/* 0: nobody wants to know. */
static uint64_t time_of_answer(const struct simhca_qp *qp,
			       const struct simhca_congestion *congestion)
{
	return congestion->timed_at || congestion->resent_at
		       ? simhca_engine_now(qp->context->engine)
		       : 0;
}

static void acknowledged(struct simhca_qp *qp, uint32_t psn)
{
	struct simhca_congestion *congestion = &simhca_inbox_way(qp->wire.inbox)->congestion;
	struct simhca_share *share = &simhca_inbox_way(qp->wire.inbox)->share;

	simhca_congestion_acknowledged(congestion, qp->req.psn_una, psn,
				       time_of_answer(qp, congestion), simhca_share_count(share));
	simhca_share_set_busy(share, psn != qp->req.psn_next);
	simhca_path_hole_over(&simhca_inbox_way(qp->wire.inbox)->hole);
}

static uint64_t ack_timeout(struct simhca_qp *qp, unsigned int tries, uint64_t *timeout_ns)
{
	return simhca_congestion_timeout(&simhca_inbox_way(qp->wire.inbox)->congestion, tries,
					 timeout_ns);
}

static int unsent(const struct simhca_qp *qp, uint64_t ns, enum simhca_reason *reason)
{
	int error = simhca_wire_send_error(qp->device->fabric, &qp->qpc->av.dgid, ns);

	if (!error && simhca_path_hole_is_there(&simhca_inbox_way(qp->wire.inbox)->hole)) {
		*reason = SIMHCA_REASON_WIRE_PATH_MTU;
		return EMSGSIZE;
	}
	*reason = simhca_unsent_reason(error);
	return *reason == SIMHCA_REASON_NONE ? 0 : error;
}

static void lost(struct simhca_qp *qp, bool silence)
{
	struct simhca_congestion *congestion = &simhca_inbox_way(qp->wire.inbox)->congestion;

	if (!silence) {
		simhca_congestion_lost(
			congestion,
			congestion->timed_at ? simhca_engine_now(qp->context->engine) : 0,
			simhca_share_count(&simhca_inbox_way(qp->wire.inbox)->share));
		return;
	}
	simhca_congestion_silence(congestion, simhca_engine_now(qp->context->engine));
	simhca_path_hole_silence(&simhca_inbox_way(qp->wire.inbox)->hole);
}

static void not_ready(struct simhca_qp *qp)
{
	struct simhca_congestion *congestion = &simhca_inbox_way(qp->wire.inbox)->congestion;

	simhca_congestion_not_ready(congestion, time_of_answer(qp, congestion));
	/* Its packet has come through. */
	simhca_path_hole_over(&simhca_inbox_way(qp->wire.inbox)->hole);
}

const struct simhca_link simhca_wire_link = {
	.slice = SIMHCA_WIRE_SLICE,
	.packets = SIMHCA_WIRE_SLICE_MOST,
	.window = SIMHCA_WINDOW_FIRST,
	.take_marks = take_marks,
	.window_now = window_now,
	.acknowledged = acknowledged,
	.lost = lost,
	.not_ready = not_ready,
	.ack_timeout = ack_timeout,
	.unsent = unsent,
	.read = SIMHCA_WINDOW_FIRST,
	.request = request,
	.respond = respond,
	.arrived = arrived,
	.remote = true,
};

const struct simhca_link simhca_wire_datagrams = {
	.window = SIMHCA_WINDOW_FIRST,
	.request = request_datagram,
	.respond = respond,
	.arrived = arrived,
};
