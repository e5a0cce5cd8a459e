/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A message, or a slice of it, becomes packets of the path MTU in the outbox of the thread.
 *
 * An acknowledgement waits there, as a later one says the same, but whatever else the QP sends it
 * goes before: responses leave in their order; and the peer's program, which may have room for one
 * message alone, is to know that this has arrived before an answer to it comes.
 */
#include <stdlib.h>
#include <string.h>

#include "dma/dma.h"
#include "engine/worker.h"
#include "link/tap.h"
#include "link/traffic.h"
#include "link/wire/bth.h"
#include "link/wire/icrc.h"
#include "link/wire/inbox.h"
#include "link/wire/outbox.h"
#include "link/wire/wire_impl.h"
#include "proto/own_memory.h"
#include "queue/psn.h"
#include "proto/qp.h"

/* What a packet needs at most: itself, the acknowledgement before it, and the one at the end. */
#define ROOM_DATAGRAMS (SIMHCA_WIRE_SLICE_MOST + 2)
#define ROOM_BYTES                                                                                 \
	(SIMHCA_WIRE_SLICE + SIMHCA_WIRE_SLICE_MOST * SIMHCA_DATAGRAM_MOST(0) +                    \
	 2 * (SIMHCA_ACK_BYTES + SIMHCA_ICRC_BYTES))

/* The next datagram, whose headers and payload lie where the outbox has room. */
static void put_datagram(struct simhca_outbox *outbox, const struct simhca_wire_path *path,
			 uint8_t traffic_class, uint8_t *at, size_t length, bool rxe_flush)
{
	struct simhca_wire *wire = outbox->wire;
	struct simhca_wire_path exact = *path;

	exact.ip_id = simhca_outbox_add(outbox, path, traffic_class, length + SIMHCA_ICRC_BYTES,
					atomic_load_explicit(&wire->no_runs, memory_order_relaxed));
	if (rxe_flush)
		simhca_icrc_put_rxe_flush(&exact, at, length);
	else
		simhca_icrc_put(&exact, at, length);
	if (simhca_tap_is_on(wire->fabric))
		simhca_tap_datagram(wire->fabric, &exact, traffic_class, at,
				    length + SIMHCA_ICRC_BYTES);
}

/* The one that waits, if one does. There is room for it. */
static void put_ack(struct simhca_outbox *outbox)
{
	const struct simhca_outbox_ack *ack = &outbox->ack;
	uint8_t *at = outbox->bytes + outbox->used;

	if (!ack->waits)
		return;
	memcpy(at, ack->headers, SIMHCA_ACK_BYTES);
	put_datagram(outbox, &ack->path, ack->traffic_class, at, SIMHCA_ACK_BYTES, false);
	outbox->ack.waits = false;
}

static void send_all(struct simhca_outbox *outbox)
{
	put_ack(outbox);
	simhca_wire_send_runs(outbox->wire, outbox->run, outbox->runs);
	simhca_outbox_empty(outbox);
}

/* The outbox of a thread, with room for a packet; NULL: out of memory. */
static struct simhca_outbox *outbox_of(struct simhca_wire *wire, struct simhca_worker *worker)
{
	struct simhca_outbox *outbox = worker->outgoing.outbox;

	if (!outbox) {
		outbox = worker->outgoing.outbox = malloc(sizeof(*outbox));
		if (!outbox)
			return NULL;
		outbox->wire = wire;
		simhca_outbox_empty(outbox);
	}
	if (!simhca_outbox_room(outbox, ROOM_BYTES, ROOM_DATAGRAMS))
		send_all(outbox);
	return outbox;
}

/* Makes of a copy of the packet the nth of the packets of one MTU each that it stands for. */
static void become_part(struct simhca_packet *part, const struct simhca_packet *packet, uint32_t n,
			uint32_t mtu)
{
	uint64_t offset = (uint64_t)n * mtu, left = packet->length - offset;
	bool last = left <= mtu;

	part->psn = simhca_psn_add(packet->psn, n);
	part->length = last ? left : mtu;
	part->first = packet->first && !n;
	part->last = packet->last && last;
	part->ack_req = packet->ack_req && last;
	part->solicited = packet->solicited && last;
	part->has_imm = packet->has_imm && last;
	part->has_inv = packet->has_inv && last;
}

/* Writes the headers of its parts, and says where their payloads go; 0: no opcode says this. */
static uint32_t lay_out(const struct simhca_packet *packet, uint32_t mtu, uint8_t *at,
			struct simhca_sgl *target)
{
	uint32_t count = simhca_psn_count(packet->length, mtu);
	struct simhca_packet part = *packet;

	if (count > SIMHCA_WIRE_SLICE_MOST)
		return 0;
	target->count = count;
	for (uint32_t i = 0; i < count; i++) {
		size_t headers;

		become_part(&part, packet, i, mtu);
		headers = simhca_bth_encode(&part, at);
		if (!headers)
			return 0;
		at += headers;
		target->seg[i] =
			(struct simhca_seg){ .addr = (uintptr_t)at, .length = part.length };
		at += part.length;
		memset(at, 0, simhca_pad(part.length));
		at += simhca_pad(part.length) + SIMHCA_ICRC_BYTES;
	}
	return count;
}

static bool is_ack(const struct simhca_packet *packet)
{
	return packet->op == SIMHCA_PKT_ACK && SIMHCA_SYNDROME_IS_ACK(packet->syndrome);
}

/*
 * Keeps the ACK until the step ends or the QP sends something else. A newer one replaces it; that of
 * a duplicate says nothing that the waiting one does not.
 */
static void defer_ack(struct simhca_worker *worker, struct simhca_qp *qp,
		      const struct simhca_packet *packet, const struct simhca_wire_path *path,
		      uint8_t traffic_class)
{
	struct simhca_outbox_ack *ack = &worker->outgoing.outbox->ack;

	if (ack->waits && simhca_psn_cmp(packet->psn, ack->psn) <= 0)
		return;
	if (!ack->waits) {
		simhca_stats_sent(worker, qp->device, packet);
		simhca_inbox_sent(qp->wire.inbox, packet, 1);
	}
	*ack = (struct simhca_outbox_ack){
		.waits = true, .path = *path, .traffic_class = traffic_class, .psn = packet->psn
	};
	simhca_bth_encode(packet, ack->headers);
	worker->outgoing.send = send_all;
}

/* Its headers and payload, but for the ICRC: how many bytes. */
static size_t write_parts(const struct simhca_packet *packet, const struct simhca_wire_parts *parts,
			  uint8_t *at)
{
	const size_t headers = simhca_bth_encode(packet, at);
	const uint32_t payload = parts->head_bytes + parts->rest_bytes;

	memcpy(at + headers, parts->head, parts->head_bytes);
	if (parts->rest_bytes)
		memcpy(at + headers + parts->head_bytes, parts->rest, parts->rest_bytes);
	memset(at + headers + payload, 0, simhca_pad(payload));
	return headers + payload + simhca_pad(payload);
}

void simhca_wire_put_parts(struct simhca_worker *worker, struct simhca_device *device,
			   const struct simhca_wire_path *path, uint8_t traffic_class,
			   const struct simhca_packet *packet,
			   const struct simhca_wire_parts *parts)
{
	struct simhca_outbox *outbox = outbox_of(device->fabric->wire, worker);
	uint8_t *at;

	if (!outbox)
		return;
	put_ack(outbox);
	at = outbox->bytes + outbox->used;
	simhca_stats_sent(worker, device, packet);
	worker->outgoing.send = send_all;
	put_datagram(outbox, path, traffic_class, at, write_parts(packet, parts, at), false);
}

void simhca_wire_send_parts(struct simhca_device *device, const struct simhca_wire_path *path,
			    uint8_t traffic_class, const struct simhca_packet *packet,
			    const struct simhca_wire_parts *parts)
{
	uint8_t datagram[SIMHCA_DATAGRAM_MOST(SIMHCA_WIRE_PAYLOAD_MOST)];
	size_t length = write_parts(packet, parts, datagram);

	simhca_icrc_put(path, datagram, length);
	length += SIMHCA_ICRC_BYTES;
	if (simhca_tap_is_on(device->fabric))
		simhca_tap_datagram(device->fabric, path, traffic_class, datagram, length);
	simhca_wire_send_runs(device->fabric->wire,
			      &(struct simhca_wire_run){ .path = *path,
							 .traffic_class = traffic_class,
							 .bytes = datagram,
							 .length = length,
							 .segment = length },
			      1);
}

struct simhca_handover simhca_wire_carry(struct simhca_worker *worker, struct simhca_qp *qp,
					 const struct simhca_packet *packet,
					 const struct simhca_wire_path *path, uint8_t traffic_class)
{
	struct simhca_wire *wire = qp->device->fabric->wire;
	uint32_t mtu =
		packet->transport == SIMHCA_QPT_UD ? SIMHCA_WIRE_PAYLOAD_MOST : simhca_qp_mtu(qp);
	struct simhca_handover handover = { .outcome = SIMHCA_ACCEPTED };
	struct simhca_outbox *outbox = outbox_of(wire, worker);
	struct simhca_sgl target;
	uint32_t count;
	uint8_t *at;

	if (!outbox)
		return handover;
	if (is_ack(packet)) {
		defer_ack(worker, qp, packet, path, traffic_class);
		return handover;
	}
	put_ack(outbox);
	at = outbox->bytes + outbox->used;
	count = lay_out(packet, mtu, at, &target);
	if (!count)
		return handover;
	if (packet->length && (!simhca_payload_reached(worker, packet) ||
			       simhca_dma_copy(&target, packet->payload, packet->length,
					       &worker->mover, &handover.reason))) {
		handover.outcome = SIMHCA_UNREADABLE;
		return handover;
	}
	if (packet->dest_qpn != SIMHCA_MCAST_QPN) /* which was counted when it was sent here */
		simhca_stats_sent(worker, qp->device, packet);
	worker->outgoing.send = send_all;
	simhca_inbox_sent(qp->wire.inbox, packet, count);
	for (uint32_t i = 0; i < count; i++) {
		const struct simhca_seg *payload = &target.seg[i];
		const uint8_t *end = (uint8_t *)(uintptr_t)payload->addr + payload->length +
				     simhca_pad(payload->length);
		size_t length = (size_t)(end - at);

		put_datagram(outbox, path, traffic_class, at, length,
			     wire->ops.rxe_flush && packet->op == SIMHCA_PKT_FLUSH);
		at += length + SIMHCA_ICRC_BYTES;
	}
	return handover;
}
