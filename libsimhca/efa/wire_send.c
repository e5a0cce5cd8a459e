/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Messages to other hosts. A parcel that is not answered is sent again: once three that were sent after
 * it are answered, or after some round trips without an answer. Who does not answer for PATIENCE_NS is
 * gone. What is not answered for PATIENCE_WITH_ONE_NS fails, whatever else is.
 */
#include <string.h>
#include <utlist.h>

#include "queue/psn.h"
#include "wire.h"

#define PASSED_IS_LOST 3u
#define PATIENCE_NS UINT64_C(5000000000)
#define PATIENCE_WITH_ONE_NS UINT64_C(20000000000) /* while others are answered */
#define FIRST_TIMEOUT_NS UINT64_C(100000000) /* while it is not known how long an answer takes */
#define LAST_TIMEOUT_NS UINT64_C(500000000)  /* some are within PATIENCE_NS */
#define FIRST_BACKOFF_NS UINT64_C(50000) /* until a receiver that was not ready is asked again */
#define BACKOFFS 10u			 /* doublings of it */

#define SILENT "the host that has the address handle's GID has not answered for 5 seconds"
#define SILENT_ABOUT_ONE                                                                           \
	"the host that has the address handle's GID answers others, but has not answered this "    \
	"message for 20 seconds: a network that lets no large packets through does that"

static uint64_t timeout_of(const struct efa_route *route, unsigned int tries)
{
	uint64_t timeout = FIRST_TIMEOUT_NS;
	uint64_t adaptive = simhca_congestion_timeout(&route->congestion, tries, &timeout);

	if (adaptive && adaptive < timeout)
		timeout = adaptive;
	return timeout < LAST_TIMEOUT_NS ? timeout : LAST_TIMEOUT_NS;
}

/* The parcel's bytes of an RDMA operation: from the sender's buffer to ours, or, what a read has brought, back. */
static enum efa_status copy_own(struct simhca_worker *worker, struct efa_qp *qp,
				const struct efa_parcel *parcel, uint8_t *bytes)
{
	struct efa_message *message = &parcel->flight->message;
	const bool reads = message->send.opcode == EFA_RDMA_READ;
	const struct simhca_key_use use = efa_use_of(worker, qp, efa_own_access(&message->send));
	enum efa_status status = EFA_STATUS_OK;
	struct simhca_sgl here, ours;
	enum simhca_reason reason;

	here.count = 0;
	efa_our_memory(&ours, bytes, parcel->length);
	if (simhca_translate_sges(&use, message->send.sge, 1, parcel->offset, parcel->length,
				  &here) != SIMHCA_REASON_NONE)
		status = EFA_STATUS_INVALID_LKEY;
	else if (efa_copy(worker, qp, qp, reads ? &here : &ours, reads ? &ours : &here,
			  parcel->length, &reason) != SIMHCA_DMA_OK)
		status = efa_because(message, EFA_STATUS_INVALID_LKEY, reason, NULL);
	simhca_key_release(worker, 0);
	simhca_guard_widen(&worker->guard);
	return status;
}

/* The sender's memory to the bounce buffer, as much as the parcel has. */
static enum efa_status gather_parcel(struct simhca_worker *worker, struct efa_qp *qp,
				     const struct efa_parcel *parcel, uint8_t *bounce)
{
	struct efa_message *message = &parcel->flight->message;

	if (message->send.opcode == EFA_SEND)
		return efa_gather(worker, qp, message, bounce);
	if (message->send.opcode == EFA_RDMA_READ || !parcel->length)
		return EFA_STATUS_OK;
	if (!message->send.is_inline)
		return copy_own(worker, qp, parcel, bounce);
	memcpy(bounce, message->send.data, parcel->length);
	return EFA_STATUS_OK;
}

static struct efa_wire_header header_of(const struct efa_qp *qp, const struct efa_send *send)
{
	static const enum efa_wire_kind kinds[] = { [EFA_SEND] = EFA_WIRE_SEND,
						    [EFA_RDMA_READ] = EFA_WIRE_READ,
						    [EFA_RDMA_WRITE] = EFA_WIRE_WRITE };

	return (struct efa_wire_header){ .kind = qp->srd ? kinds[send->opcode] : EFA_WIRE_DATAGRAM,
					 .has_imm = send->has_imm,
					 .src_qpn = qp->qpn,
					 .length = send->length,
					 .qkey = send->qkey,
					 .imm = send->imm,
					 .total = send->length,
					 .rkey = send->rkey,
					 .va = send->remote_addr };
}

static bool is_last(const struct efa_parcel *parcel)
{
	return parcel->offset + parcel->length == parcel->flight->message.send.length;
}

static bool takes_recv(const struct efa_parcel *parcel)
{
	const struct efa_send *send = &parcel->flight->message.send;

	return send->opcode == EFA_SEND || (send->has_imm && is_last(parcel));
}

static void finish_flight(struct simhca_worker *worker, struct efa_qp *qp,
			  struct efa_flight *flight, enum efa_status status)
{
	efa_finish(worker, qp, &flight->message, NULL, status);
	efa_flight_free(qp, flight);
}

/* False: its flight has failed, and is gone. */
static bool send_parcel(struct simhca_worker *worker, struct efa_qp *qp, struct efa_parcel *parcel,
			uint64_t now)
{
	uint8_t *bounce = qp->context->efa->bounce;
	struct efa_flight *flight = parcel->flight;
	const struct efa_send *send = &flight->message.send;
	struct efa_route *route = flight->route;
	struct efa_wire_header header = header_of(qp, send);
	enum efa_status status = gather_parcel(worker, qp, parcel, bounce);

	qp->context->efa->left -= qp->context->efa->left > 0;
	if (status != EFA_STATUS_OK) {
		/* The number of one that never went is the next one's. */
		route->next -= !parcel->order;
		finish_flight(worker, qp, flight, status);
		return false;
	}
	header.flow = route->flow;
	header.number = parcel->number;
	header.length = parcel->length;
	header.has_imm &= is_last(parcel);
	header.va += parcel->offset;
	if (parcel->order)
		efa_host_count(&route->host->repeated,
			       efa_wire_has_data(header.kind) ? parcel->packets : 1);
	parcel->order = ++route->order;
	parcel->sent_ns = now;
	parcel->due_ns = now + timeout_of(route, parcel->tries);
	parcel->passed = 0;
	parcel->lost = false;
	efa_wire_emit(worker, qp, &route->path, (uint32_t)route->to.qpn, &header,
		      efa_wire_has_data(header.kind) ? bounce : NULL);
	return true;
}

/* Sends again what is due, or fails its flight. False: the flight has failed, and is gone. */
static bool repeat(struct simhca_worker *worker, struct efa_qp *qp, struct efa_parcel *parcel,
		   uint64_t now)
{
	struct efa_flight *flight = parcel->flight;
	struct efa_route *route = flight->route;
	uint64_t since = parcel->first_ns > route->heard_ns ? parcel->first_ns : route->heard_ns;

	if (parcel->waits) {
		parcel->waits = false;
		parcel->asked_ns = now;
		route->may_ask -= route->may_ask > 0;
		route->under_way += parcel->packets;
		return send_parcel(worker, qp, parcel, now);
	}
	if (now - since > PATIENCE_NS) {
		finish_flight(worker, qp, flight,
			      efa_because(&flight->message,
					  route->heard ? EFA_STATUS_UNRESPONSIVE
						       : EFA_STATUS_UNREACHABLE,
					  SIMHCA_REASON_NO_RESPONSE, SILENT));
		route->restart = true;
		return false;
	}
	if (now - parcel->asked_ns > PATIENCE_WITH_ONE_NS) {
		finish_flight(worker, qp, flight,
			      efa_because(&flight->message, EFA_STATUS_UNRESPONSIVE,
					  SIMHCA_REASON_NO_RESPONSE, SILENT_ABOUT_ONE));
		return false;
	}
	if (parcel->lost) {
		simhca_congestion_lost(&route->congestion, now, simhca_share_count(&route->share));
	} else if (parcel->order > route->silent_at) {
		/* Once for all that was sent by then. */
		simhca_congestion_silence(&route->congestion, now);
		route->silent_at = route->order;
	}
	parcel->tries++;
	simhca_usage_add(&qp->usage->retries, 1);
	return send_parcel(worker, qp, parcel, now);
}

/* What waits for a receive follows the one that asks for it, twice as much each time. */
static bool may_go(const struct efa_parcel *parcel)
{
	const struct efa_route *route = parcel->flight->route;

	if (!parcel->waits || route->asks == parcel)
		return true;
	return !route->asks && route->may_ask && efa_route_has_room(route, parcel->packets);
}

static bool serve_flight(struct simhca_worker *worker, struct efa_qp *qp, struct efa_flight *flight,
			 uint64_t now, uint64_t *due)
{
	const uint32_t unit = efa_wire_unit(qp->context->device);
	struct efa_parcel *parcel;
	bool worked = false;

	for (uint32_t i = 0; i < flight->room && flight->parcels; i++) {
		parcel = &flight->parcel[i];
		if (!parcel->flight || parcel->due_ns > now || !may_go(parcel))
			continue;
		worked = true;
		if (!repeat(worker, qp, parcel, now))
			return true;
	}
	while (qp->context->efa->left && (parcel = efa_parcel_new(flight, unit, now))) {
		worked = true;
		if (!send_parcel(worker, qp, parcel, now))
			return true;
	}
	for (uint32_t i = 0; i < flight->room && flight->parcels; i++) {
		parcel = &flight->parcel[i];
		if (parcel->flight && parcel->due_ns < *due && may_go(parcel))
			*due = parcel->due_ns;
	}
	return worked;
}

bool efa_wire_serve(struct simhca_worker *worker, struct efa_qp *qp, uint64_t now)
{
	struct efa_flight *flight, *next;
	uint64_t due = UINT64_MAX;
	bool worked = false;

	DL_FOREACH_SAFE (qp->flights, flight, next) {
		if (!qp->context->efa->left) {
			due = now;
			break;
		}
		worked |= serve_flight(worker, qp, flight, now, &due);
	}
	qp->wire_due_ns = due == UINT64_MAX ? 0 : due;
	return worked;
}

/* Gone with the first attempt. */
static enum efa_outcome send_datagram(struct simhca_worker *worker, struct efa_qp *qp,
				      struct efa_message *message, const union simhca_gid *gid)
{
	struct efa_wire_header header = header_of(qp, &message->send);
	uint8_t *bounce = qp->context->efa->bounce;
	const struct simhca_wire_path path = efa_wire_path(qp, gid, message->send.dest_qpn);
	enum efa_status status = efa_gather(worker, qp, message, bounce);

	if (status == EFA_STATUS_OK) {
		header.number = qp->datagrams++;
		efa_wire_emit(worker, qp, &path, message->send.dest_qpn, &header, bounce);
	}
	return efa_finish(worker, qp, message, NULL, status);
}

enum efa_outcome efa_wire_begin(struct simhca_worker *worker, struct efa_qp *qp,
				struct efa_message *message, const union simhca_gid *gid,
				uint64_t now)
{
	if (message->send.opcode == EFA_SEND && !efa_may_send(worker, qp, &message->send))
		return efa_finish(worker, qp, message, NULL, EFA_STATUS_INVALID_LKEY);
	if (!qp->srd)
		return send_datagram(worker, qp, message, gid);
	return efa_flight_new(qp, message, gid, now) ? EFA_DONE : EFA_WAITS;
}

/* ----------------------------------------------------------------------------------- answers */

/* Those that were sent before this one, and are not answered, may be lost. */
static void pass(struct efa_qp *qp, struct efa_route *route, uint64_t order, uint64_t now)
{
	for (uint32_t i = 0; i < EFA_WINDOW; i++) {
		struct efa_parcel *parcel = route->by_number[i];

		if (!parcel || parcel->waits || parcel->order >= order ||
		    ++parcel->passed != PASSED_IS_LOST)
			continue;
		parcel->lost = true;
		parcel->due_ns = qp->wire_due_ns = now;
	}
}

static void arrived(struct efa_qp *qp, struct efa_parcel *parcel, uint64_t now)
{
	struct efa_route *route = parcel->flight->route;
	uint32_t known = route->arrived;

	route->arrived = simhca_psn_add(known, parcel->packets);
	if (!parcel->tries && !parcel->refused)
		simhca_congestion_sent(&route->congestion, known, parcel->sent_ns);
	simhca_congestion_acknowledged(&route->congestion, known, route->arrived, now,
				       simhca_share_count(&route->share));
	pass(qp, route, parcel->order, now);
}

/* Asked again later, as long as the QP's rnr_retry allows. */
static void refused(struct simhca_worker *worker, struct efa_qp *qp, struct efa_parcel *parcel,
		    uint64_t now)
{
	struct efa_flight *flight = parcel->flight;
	struct efa_route *route = flight->route;
	uint64_t delay;

	if (parcel->waits)
		return;
	if (efa_not_ready(worker, qp, &flight->message, NULL) == EFA_DONE) {
		efa_flight_free(qp, flight);
		return;
	}
	parcel->refused = true;
	parcel->waits = true;
	parcel->due_ns = now;
	route->under_way -= parcel->packets;
	if (route->asks && (int32_t)(parcel->number - route->asks->number) > 0)
		return;
	delay = FIRST_BACKOFF_NS << (route->refusals < BACKOFFS ? route->refusals : BACKOFFS);
	route->asks = parcel;
	route->may_ask = 0;
	route->refusals++;
	parcel->due_ns = now + delay;
	simhca_usage_add(&qp->usage->rnr_delay_ns, delay);
	if (!qp->wire_due_ns || parcel->due_ns < qp->wire_due_ns)
		qp->wire_due_ns = parcel->due_ns;
}

/* What the other host says of an error beyond its status and reason. */
static const char *sentence(enum efa_status status, enum simhca_reason reason)
{
	if (reason != SIMHCA_REASON_NO_RESPONSE)
		return NULL;
	if (status == EFA_STATUS_UNKNOWN_PEER)
		return EFA_NO_WAY_BACK;
	return "the host that has the address handle's GID has no QP of this number, of this type "
	       "and in RTR or RTS; or another one than before";
}

void efa_wire_answered(struct simhca_worker *worker, struct efa_qp *qp,
		       const struct efa_sender *from, const struct efa_wire_header *header,
		       const uint8_t *data, uint64_t now)
{
	struct efa_route *route = efa_route_find(qp, from);
	enum efa_status status = (enum efa_status)header->status;
	struct efa_parcel *parcel;
	struct efa_flight *flight;

	if (!route || route->flow != header->flow)
		return;
	parcel = route->by_number[header->number % EFA_WINDOW];
	if (!parcel || parcel->number != header->number)
		return;
	flight = parcel->flight;
	if (header->kind == EFA_WIRE_DATA &&
	    (flight->message.send.opcode != EFA_RDMA_READ || header->length != parcel->length))
		return;
	if (header->kind == EFA_WIRE_ANSWER && status == EFA_STATUS_OK &&
	    flight->message.send.opcode == EFA_RDMA_READ)
		return;
	route->heard_ns = now;
	route->heard = true;
	route->taken |= status != EFA_STATUS_BAD_DEST_QPN;
	if (header->marked)
		simhca_congestion_marked(&route->congestion);
	if (status == EFA_STATUS_RNR) {
		refused(worker, qp, parcel, now);
		return;
	}
	arrived(qp, parcel, now);
	if (header->kind == EFA_WIRE_DATA)
		status = parcel->length ? copy_own(worker, qp, parcel, (uint8_t *)(uintptr_t)data)
					: EFA_STATUS_OK;
	else if (status != EFA_STATUS_OK)
		efa_because(&flight->message, status, (enum simhca_reason)header->reason,
			    sentence(status, (enum simhca_reason)header->reason));
	if (status == EFA_STATUS_OK) {
		flight->message.done += parcel->length;
		if (takes_recv(parcel))
			efa_route_goes_on(route);
		efa_parcel_free(parcel);
		if (!flight->all || flight->parcels)
			return;
	}
	/* Of a QP that knows the flow, but not the Q_Key, the others may go on. */
	route->restart |= status == EFA_STATUS_BAD_DEST_QPN &&
			  flight->message.reason == SIMHCA_REASON_NO_RESPONSE;
	finish_flight(worker, qp, flight, status);
}
