/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What comes from EFA devices of other hosts: put together, done once, and answered. */
#include <stdlib.h>
#include <string.h>

#include "core/context.h"
#include "core/fabric.h"
#include "core/lock.h"
#include "link/traffic.h"
#include "packet/packet.h"
#include "wire.h"

#define INBOX_ROOM 4096u /* packets of a context */
#define AT_A_TIME 64u

/* A parcel of which some packets are missing. */
struct efa_parts {
	struct efa_sender from;
	struct efa_wire_header header; /* of the packet that came first */
	uint32_t dest_qpn;
	bool marked;
	uint64_t have; /* packets, by bit */
	uint64_t used; /* a clock */
	uint8_t bytes[EFA_WIRE_PARCEL];
};

/* One that is whole. */
struct parcel_in {
	const struct efa_sender *from;
	const struct efa_wire_header *header;
	bool marked;
	const uint8_t *data;
};

/* ------------------------------------------------------------------------------------ inbox */

static bool is_request(enum efa_wire_kind kind)
{
	return kind == EFA_WIRE_SEND || kind == EFA_WIRE_WRITE || kind == EFA_WIRE_READ;
}

/* The sender of a request is told that there is nobody; by whatever thread hands in. */
static void refuse(struct simhca_device *device, const struct simhca_packet *request,
		   const struct efa_wire_header *header,
		   const struct simhca_wire_datagram *datagram)
{
	const struct efa_wire_header answer = { .kind = EFA_WIRE_ANSWER,
						.status = EFA_STATUS_BAD_DEST_QPN,
						.src_qpn = request->dest_qpn & 0xffffu,
						.flow = header->flow,
						.number = header->number,
						.reason = SIMHCA_REASON_NO_RESPONSE };
	const struct simhca_wire_path path = { .source = datagram->path.destination,
					       .destination = datagram->path.source,
					       .source_port = SIMHCA_WIRE_PORT };
	uint8_t head[EFA_WIRE_HEADER];
	const struct simhca_wire_parts parts = { .head = head, .head_bytes = sizeof(head) };
	const struct simhca_packet packet = { .op = SIMHCA_PKT_EFA,
					      .first = true,
					      .last = true,
					      .dest_qpn = header->src_qpn,
					      .psn = header->number & SIMHCA_PSN_MASK,
					      .length = sizeof(head) };

	efa_wire_encode(&answer, head);
	simhca_wire_send_parts(device, &path, 0, &packet, &parts);
}

bool efa_wire_take(struct simhca_device *device, const struct simhca_packet *packet,
		   const uint8_t *payload, const struct simhca_wire_datagram *datagram)
{
	struct efa_qp *qp = efa_qp_numbered(device, packet->dest_qpn);
	struct simhca_arrival *arrival;
	struct efa_wire_header header;
	struct simhca_efa *efa;
	bool room;

	if (!efa_wire_decode(payload, packet->length, &header))
		return false;
	if (!qp || atomic_load(&qp->dead)) {
		if (is_request(header.kind) && !header.offset)
			refuse(device, packet, &header, datagram);
		return false;
	}
	efa = qp->context->efa;
	arrival = simhca_arrival_create(&device->fabric->wire->arrivals, packet, payload, datagram);
	if (!arrival)
		return false;
	pthread_mutex_lock(&efa->inbox_lock);
	room = efa->arrivals < INBOX_ROOM;
	if (room) {
		*efa->inbox_end = arrival;
		efa->inbox_end = &arrival->next;
		efa->arrivals++;
	}
	pthread_mutex_unlock(&efa->inbox_lock);
	if (room) {
		simhca_engine_schedule(qp->context->engine, &efa->task);
		return true;
	}
	efa_host_lost(efa, &arrival->packet.sgid);
	simhca_arrival_free(arrival);
	return false;
}

static struct simhca_arrival *dequeue(struct simhca_efa *efa)
{
	struct simhca_arrival *arrival;

	pthread_mutex_lock(&efa->inbox_lock);
	arrival = efa->inbox;
	if (arrival) {
		efa->inbox = arrival->next;
		efa->arrivals--;
		if (!efa->inbox)
			efa->inbox_end = &efa->inbox;
	}
	pthread_mutex_unlock(&efa->inbox_lock);
	return arrival;
}

void efa_wire_close(struct simhca_efa *efa)
{
	struct simhca_arrival *arrival;

	while ((arrival = dequeue(efa)))
		simhca_arrival_free(arrival);
	for (unsigned int i = 0; i < EFA_PARTS; i++)
		free(efa->parts[i]);
}

/* ---------------------------------------------------------------------------------- requests */

static void reply(struct simhca_worker *worker, struct efa_qp *qp, const struct parcel_in *in,
		  struct efa_wire_header *header, const uint8_t *data)
{
	const struct simhca_wire_path path =
		efa_wire_path(qp, &in->from->gid, (uint32_t)in->from->qpn);

	header->src_qpn = qp->qpn;
	header->flow = in->header->flow;
	header->number = in->header->number;
	header->marked = in->marked;
	efa_wire_emit(worker, qp, &path, (uint32_t)in->from->qpn, header, data);
}

static void answer(struct simhca_worker *worker, struct efa_qp *qp, const struct parcel_in *in,
		   enum efa_status status, enum simhca_reason reason)
{
	struct efa_wire_header header = { .kind = EFA_WIRE_ANSWER,
					  .status = (uint8_t)status,
					  .reason = (uint16_t)reason };

	reply(worker, qp, in, &header, NULL);
}

/* A message as its sender has it, as far as the parcel says. */
static struct efa_message message_of(const struct efa_wire_header *header)
{
	return (struct efa_message){
		.send = { .opcode = header->kind == EFA_WIRE_WRITE  ? EFA_RDMA_WRITE
				    : header->kind == EFA_WIRE_READ ? EFA_RDMA_READ
								    : EFA_SEND,
			  .qkey = header->qkey,
			  .has_imm = header->has_imm,
			  .imm = header->imm,
			  .length = header->kind == EFA_WIRE_WRITE ? header->total : header->length,
			  .rkey = header->rkey,
			  .remote_addr = header->va },
	};
}

static enum efa_status not_ready(struct efa_qp *qp, struct efa_message *message)
{
	efa_count_without_recv(qp);
	return efa_because(message, EFA_STATUS_RNR, SIMHCA_REASON_PEER_NOT_READY, NULL);
}

/* A receive of ours; OK: it is *recv. */
static enum efa_status take_recv(struct efa_qp *qp, struct efa_message *message,
				 struct efa_recv *recv)
{
	enum efa_status status = efa_take_recv(qp, message, recv);

	return status == EFA_STATUS_RNR ? not_ready(qp, message) : status;
}

static enum efa_status do_send(struct simhca_worker *worker, struct efa_qp *qp,
			       struct efa_message *message, const struct parcel_in *in)
{
	uint8_t *bounce = qp->context->efa->bounce, *data;
	uint32_t length = in->header->length;
	enum efa_status status;
	struct efa_recv recv;

	status = take_recv(qp, message, &recv);
	if (status != EFA_STATUS_OK)
		return status;
	memcpy(bounce + SIMHCA_GRH_BYTES, in->data, length);
	data = efa_put_grh(in->from, qp, bounce, &length);
	status = efa_place(worker, qp, message, qp, &recv, data, length);
	if (status == EFA_STATUS_OK)
		efa_complete_recv(in->from, qp, &message->send, &recv, length);
	else
		efa_fail_recv(in->from, message, qp, &recv, status);
	simhca_guard_widen(&worker->guard);
	return status;
}

/* To or from the program's memory that the rkey names. */
static enum efa_status access_memory(struct simhca_worker *worker, struct efa_qp *qp,
				     struct efa_message *message, const union simhca_gid *sender,
				     uint8_t *data, uint32_t length)
{
	const bool writes = message->send.opcode == EFA_RDMA_WRITE;
	const struct simhca_key_use use = efa_use_of(worker, qp, efa_remote_access(&message->send));
	enum efa_status status = efa_judge_way_back(message, qp, sender);
	struct simhca_sgl there, here;
	enum simhca_reason reason;
	bool done;

	there.count = 0;
	if (status != EFA_STATUS_OK || !length)
		return status;
	efa_our_memory(&here, data, length);
	reason = simhca_translate(&use, message->send.rkey, message->send.remote_addr, length,
				  &there);
	done = reason == SIMHCA_REASON_NONE &&
	       efa_copy(worker, qp, qp, writes ? &there : &here, writes ? &here : &there, length,
			&reason) == SIMHCA_DMA_OK;
	simhca_key_release(worker, 0);
	simhca_guard_widen(&worker->guard);
	return done ? EFA_STATUS_OK : efa_peer_fault(message, EFA_STATUS_BAD_ADDRESS, reason);
}

static enum efa_status do_write(struct simhca_worker *worker, struct efa_qp *qp,
				struct efa_message *message, const struct parcel_in *in)
{
	uint8_t *bounce = qp->context->efa->bounce;
	const bool takes_recv = efa_rdma_takes_recv(&message->send, qp);
	enum efa_status status;
	struct efa_recv recv;

	if (takes_recv && !efa_has_recv(qp))
		return not_ready(qp, message);
	memcpy(bounce, in->data, in->header->length);
	status = access_memory(worker, qp, message, &in->from->gid, bounce, in->header->length);
	if (status != EFA_STATUS_OK || !message->send.has_imm)
		return status;
	if (takes_recv)
		status = take_recv(qp, message, &recv);
	if (status == EFA_STATUS_OK)
		efa_complete_recv(in->from, qp, &message->send, takes_recv ? &recv : NULL,
				  message->send.length);
	return status;
}

static void do_read(struct simhca_worker *worker, struct efa_qp *qp, struct efa_message *message,
		    const struct parcel_in *in)
{
	struct efa_wire_header header = { .kind = EFA_WIRE_DATA, .length = in->header->length };
	uint8_t *bounce = qp->context->efa->bounce;
	enum efa_status status =
		access_memory(worker, qp, message, &in->from->gid, bounce, in->header->length);

	if (status != EFA_STATUS_OK)
		answer(worker, qp, in, status, message->reason);
	else
		reply(worker, qp, in, &header, bounce);
}

static void take_request(struct simhca_worker *worker, struct efa_qp *qp,
			 const struct parcel_in *in, uint64_t now)
{
	const enum efa_wire_kind kind = in->header->kind;
	struct efa_message message = message_of(in->header);
	struct efa_heard *heard = NULL;
	enum efa_status status = efa_judge_peer(kind != EFA_WIRE_DATAGRAM, &message, qp);

	if (kind == EFA_WIRE_DATAGRAM) {
		if (status == EFA_STATUS_OK)
			do_send(worker, qp, &message, in);
		return;
	}
	if (status != EFA_STATUS_OK) {
		answer(worker, qp, in, status, message.reason);
		return;
	}
	switch (efa_heard_judge(qp, in->from, in->header, now, &heard, &status)) {
	case EFA_NUMBER_STALE:
		return;
	case EFA_NUMBER_UNKNOWN:
		answer(worker, qp, in, EFA_STATUS_BAD_DEST_QPN, SIMHCA_REASON_NO_RESPONSE);
		return;
	case EFA_NUMBER_DONE:
		answer(worker, qp, in, status, SIMHCA_REASON_NONE);
		return;
	case EFA_NUMBER_NEW:
		break;
	}
	if (kind == EFA_WIRE_READ) {
		do_read(worker, qp, &message, in);
		return;
	}
	status = kind == EFA_WIRE_SEND ? do_send(worker, qp, &message, in)
				       : do_write(worker, qp, &message, in);
	if (status != EFA_STATUS_RNR)
		heard->done[in->header->number % EFA_WINDOW] = (uint8_t)(status + 1);
	answer(worker, qp, in, status, message.reason);
}

/* --------------------------------------------------------------------------------- packets */

/* Where the packets of such a parcel are put together; NULL: out of memory. */
static struct efa_parts *parts_of(struct simhca_efa *efa, const struct efa_sender *from,
				  uint32_t dest_qpn, const struct efa_wire_header *header)
{
	struct efa_parts **place = &efa->parts[0], **own = NULL, *parts;
	unsigned int of_host = 0;

	for (unsigned int i = 0; i < EFA_PARTS; i++) {
		bool is_own;

		parts = efa->parts[i];
		is_own = parts && parts->have &&
			 !memcmp(&parts->from.gid, &from->gid, sizeof(from->gid));
		if (is_own && parts->header.number == header->number &&
		    parts->header.flow == header->flow && parts->dest_qpn == dest_qpn &&
		    parts->header.kind == header->kind && parts->header.unit == header->unit &&
		    parts->header.length == header->length && parts->from.qpn == from->qpn)
			return parts;
		of_host += is_own;
		if (is_own && (!own || parts->used < (*own)->used))
			own = &efa->parts[i];
		/* Or else the one that was used the longest time ago, or a free one. */
		if (!parts || (*place && parts->used < (*place)->used))
			place = &efa->parts[i];
		if (!parts)
			break;
	}
	/* A host that sends parts alone leaves the others their room. */
	if (of_host >= EFA_PARTS_OF_HOST)
		place = own;
	if (!*place)
		*place = malloc(sizeof(**place));
	parts = *place;
	if (!parts)
		return NULL;
	parts->from = *from;
	parts->header = *header;
	parts->dest_qpn = dest_qpn;
	parts->marked = false;
	parts->have = 0;
	return parts;
}

/* NULL: some of it is missing. */
static struct efa_parts *put_together(struct simhca_efa *efa, const struct efa_sender *from,
				      const struct simhca_arrival *arrival,
				      const struct efa_wire_header *header)
{
	const uint32_t packets = efa_wire_packets(header->length, header->unit);
	struct efa_parts *parts = parts_of(efa, from, arrival->packet.dest_qpn, header);

	if (!parts)
		return NULL;
	parts->used = ++efa->parts_clock;
	parts->marked |= arrival->marked || header->marked;
	memcpy(parts->bytes + header->offset, arrival->payload + EFA_WIRE_HEADER,
	       arrival->length - EFA_WIRE_HEADER);
	parts->have |= UINT64_C(1) << (header->offset / header->unit);
	if (parts->have != UINT64_MAX >> (64 - packets))
		return NULL;
	parts->have = 0; /* it is free again, once it was delivered */
	parts->used = 0;
	return parts;
}

static void deliver(struct simhca_worker *worker, struct simhca_efa *efa,
		    const struct simhca_arrival *arrival, uint64_t now)
{
	struct efa_qp *qp = efa_qp_numbered(efa->context->device, arrival->packet.dest_qpn);
	struct efa_wire_header header;
	struct efa_sender from = { .gid = arrival->packet.sgid };
	struct parcel_in in = { .from = &from,
				.header = &header,
				.marked = arrival->marked,
				.data = arrival->payload + EFA_WIRE_HEADER };
	const struct efa_parts *parts;
	struct efa_host *host;

	if (!qp || qp->context->efa != efa || atomic_load(&qp->dead) ||
	    !efa_wire_decode(arrival->payload, arrival->length, &header))
		return;
	host = efa_host_find(efa, &from.gid);
	if (host)
		efa_host_count(&host->received, 1);
	from.qpn = header.src_qpn;
	if (efa_wire_has_data(header.kind) && efa_wire_packets(header.length, header.unit) > 1) {
		parts = put_together(efa, &from, arrival, &header);
		if (!parts)
			return;
		in.header = &parts->header;
		in.marked = parts->marked;
		in.data = parts->bytes;
	}
	if (header.kind != EFA_WIRE_ANSWER && header.kind != EFA_WIRE_DATA) {
		take_request(worker, qp, &in, now);
	} else {
		header.marked |= in.marked;
		efa_wire_answered(worker, qp, &from, &header, in.data, now);
	}
}

bool efa_wire_arrived(struct simhca_worker *worker, struct simhca_efa *efa, uint64_t now)
{
	struct simhca_arrival *arrival;
	unsigned int count = 0;

	for (; count < AT_A_TIME && (arrival = dequeue(efa)); count++) {
		simhca_stats_received(worker, efa->context->device, &arrival->packet);
		deliver(worker, efa, arrival, now);
		simhca_arrival_free(arrival);
		simhca_guard_widen(&worker->guard);
	}
	return count;
}
