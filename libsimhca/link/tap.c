/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "packet/bytes.h"
#include "packet/mad.h"
#include "core/address.h"
#include "core/av.h"
#include "core/device.h"
#include "core/steps.h"
#include "dma/dma.h"
#include "engine/worker.h"
#include "link/wire/bth.h"
#include "paging/odp.h"
#include "simhca-clock.h"
#include "simhca-device.h"
#include "tap.h"
#include "packet/checksum.h"
#include "queue/psn.h"
#include "proto/qp.h"

#define ETHERNET_BYTES 14u
#define IPV4_BYTES 20u
#define IPV6_BYTES 40u
#define UDP_BYTES 8u
#define HEADERS_MOST (ETHERNET_BYTES + IPV6_BYTES + UDP_BYTES)
#define MTU_MOST 4096u
#define PAYLOAD_MOST SIMHCA_EFA_MTU /* of one frame: EFA's are the longest */
#define HOP_LIMIT 64
#define GMP_QPN 1u
#define GMP_QKEY 0x80010000u /* IBTA vol. 1, 3.5.3 */

/* In a worker's list: what a frame is, and behind it its bytes. */
struct tapped {
	struct simhca_frame_facts facts;
	uint32_t length;
	bool carried;
};

/* ------------------------------------------------------------------------------ the headers */

/* Nobody has these: devices of one host need none. */
static uint8_t *put_ethernet(uint8_t *at, const struct simhca_wire_path *path, bool ipv4)
{
	static const uint8_t local[2] = { 0x02, 0x00 };

	memcpy(at, local, 2);
	memcpy(at + 2, path->destination.raw + 12, 4);
	memcpy(at + 6, local, 2);
	memcpy(at + 8, path->source.raw + 12, 4);
	simhca_put16(at + 12, ipv4 ? 0x0800 : 0x86dd);
	return at + ETHERNET_BYTES;
}

static uint8_t *put_ipv4(uint8_t *at, const struct simhca_wire_path *path, uint8_t traffic_class,
			 size_t udp_length)
{
	memset(at, 0, IPV4_BYTES);
	at[0] = 0x45;
	at[1] = traffic_class;
	simhca_put16(at + 2, IPV4_BYTES + udp_length);
	simhca_put16(at + 4, path->ip_id);
	simhca_put16(at + 6, 0x4000); /* DF */
	at[8] = HOP_LIMIT;
	at[9] = IPPROTO_UDP;
	memcpy(at + 12, path->source.raw + 12, 4);
	memcpy(at + 16, path->destination.raw + 12, 4);
	simhca_put16(at + 10, simhca_checksum_end(simhca_checksum_add(0, at, IPV4_BYTES)));
	return at + IPV4_BYTES;
}

static uint8_t *put_ipv6(uint8_t *at, const struct simhca_wire_path *path, uint8_t traffic_class,
			 size_t udp_length)
{
	memset(at, 0, IPV6_BYTES);
	at[0] = (uint8_t)(0x60 | traffic_class >> 4);
	at[1] = (uint8_t)(traffic_class << 4);
	simhca_put16(at + 4, udp_length);
	at[6] = IPPROTO_UDP;
	at[7] = HOP_LIMIT;
	memcpy(at + 8, path->source.raw, 16);
	memcpy(at + 24, path->destination.raw, 16);
	return at + IPV6_BYTES;
}

/* Over IPv6 a checksum is a must: over the pseudo header, the ports and the datagram. */
static uint16_t checksum6(const struct simhca_wire_path *path, const uint8_t *udp,
			  const uint8_t *datagram, size_t length)
{
	const uint8_t protocol[4] = { 0, 0, 0, IPPROTO_UDP };
	uint32_t sum = simhca_checksum_add(0, path->source.raw, 16);
	uint16_t end;

	sum = simhca_checksum_add(sum, path->destination.raw, 16);
	sum = simhca_checksum_add(sum, protocol, 4);
	sum = simhca_checksum_add(sum, udp + 4, 2); /* the length counts twice */
	sum = simhca_checksum_add(sum, udp, UDP_BYTES);
	end = simhca_checksum_end(simhca_checksum_add(sum, datagram, length));
	return end ? end : 0xffff;
}

/* How many bytes there are in front of the datagram. */
static size_t put_headers(uint8_t headers[HEADERS_MOST], const struct simhca_wire_path *path,
			  uint8_t traffic_class, const uint8_t *datagram, size_t length)
{
	bool ipv4 = simhca_gid_is_ipv4(&path->destination);
	uint8_t *at = put_ethernet(headers, path, ipv4);

	at = ipv4 ? put_ipv4(at, path, traffic_class, UDP_BYTES + length)
		  : put_ipv6(at, path, traffic_class, UDP_BYTES + length);
	simhca_put16(at, path->source_port);
	simhca_put16(at + 2, SIMHCA_WIRE_PORT);
	simhca_put16(at + 4, UDP_BYTES + length);
	simhca_put16(at + 6, 0);
	if (!ipv4)
		simhca_put16(at + 6, checksum6(path, at, datagram, length));
	return (size_t)(at + UDP_BYTES - headers);
}

/* ---------------------------------------------------------------------------- what is at hand */

static void emit(const struct simhca_fabric *fabric, const struct simhca_frame_facts *facts,
		 const uint8_t *bytes, uint32_t length)
{
	if (fabric->ops.frame)
		fabric->ops.frame(fabric->ops.arg, facts, bytes, length);
}

void simhca_tap_datagram(const struct simhca_fabric *fabric, const struct simhca_wire_path *path,
			 uint8_t traffic_class, const void *datagram, size_t length)
{
	uint8_t frame[HEADERS_MOST + SIMHCA_DATAGRAM_MOST(MTU_MOST)];
	const struct simhca_frame_facts facts = { .time_ns = simhca_clock_ns(CLOCK_REALTIME) };
	size_t headers;

	if (length > SIMHCA_DATAGRAM_MOST(MTU_MOST))
		return;
	headers = put_headers(frame, path, traffic_class, datagram, length);
	memcpy(frame + headers, datagram, length);
	emit(fabric, &facts, frame, (uint32_t)(headers + length));
}

void simhca_tap_mad(const struct simhca_fabric *fabric, const union simhca_gid *sgid,
		    const union simhca_gid *dgid, const void *mad)
{
	const struct simhca_packet packet = {
		.op = SIMHCA_PKT_SEND,
		.transport = SIMHCA_QPT_UD,
		.first = true,
		.last = true,
		.dest_qpn = GMP_QPN,
		.src_qpn = GMP_QPN,
		.qkey = GMP_QKEY,
		.length = SIMHCA_MAD_BYTES,
	};
	const struct simhca_wire_path path = { .source = *sgid,
					       .destination = *dgid,
					       .source_port = SIMHCA_WIRE_PORT };
	uint8_t datagram[SIMHCA_DATAGRAM_MOST(SIMHCA_MAD_BYTES)];
	size_t length = simhca_bth_encode(&packet, datagram);

	memcpy(datagram + length, mad, SIMHCA_MAD_BYTES);
	length += SIMHCA_MAD_BYTES;
	simhca_icrc_put(&path, datagram, length);
	simhca_tap_datagram(fabric, &path, 0, datagram, length + SIMHCA_ICRC_BYTES);
}

/* ---------------------------------------------------------------------------------- packets */

/* The first GID of the port that has a LID, for who has no other address. Inside a guard. */
static void gid_of_lid(struct simhca_device *source, const struct simhca_av *av,
		       union simhca_gid *gid)
{
	struct simhca_device *device;

	for (device = source->fabric->devices; device; device = device->next)
		if (simhca_link_has_address(device, source, av)) {
			simhca_device_gid(device, 0, gid);
			break;
		}
}

static struct simhca_wire_path path_of(struct simhca_qp *qp, const struct simhca_av *av)
{
	struct simhca_wire_path path = { .source_port = SIMHCA_WIRE_PORT };

	if (av->is_global) {
		path.destination = av->dgid;
		simhca_device_gid(qp->device, av->sgid_index, &path.source);
	} else {
		gid_of_lid(qp->device, av, &path.destination);
		simhca_device_gid(qp->device, 0, &path.source);
	}
	return path;
}

/* Room for one more frame at the end of the list; NULL: there is no memory for it. */
static struct tapped *add(struct simhca_tap_list *list)
{
	size_t most = sizeof(struct tapped) + HEADERS_MOST + SIMHCA_DATAGRAM_MOST(PAYLOAD_MOST);

	if (list->room - list->used < most) {
		size_t room = 2 * list->room + most;
		uint8_t *grown = realloc(list->bytes, room);

		if (!grown)
			return NULL;
		list->bytes = grown;
		list->room = room;
	}
	return (struct tapped *)(list->bytes + list->used);
}

/* Entries begin where any struct may. */
static size_t aligned(size_t bytes)
{
	return (bytes + _Alignof(struct tapped) - 1) & ~(_Alignof(struct tapped) - 1);
}

static void add_frame(struct simhca_tap_list *list, const struct simhca_packet *packet,
		      const uint8_t *payload, const struct simhca_wire_path *path,
		      uint8_t traffic_class, const struct simhca_frame_facts *facts)
{
	uint8_t datagram[SIMHCA_DATAGRAM_MOST(PAYLOAD_MOST)], headers[HEADERS_MOST];
	struct tapped *tapped = add(list);
	size_t length = simhca_bth_encode(packet, datagram), in_front;
	uint8_t *bytes;

	if (!tapped || !length)
		return;
	if (packet->length)
		memcpy(datagram + length, payload, packet->length);
	length += packet->length;
	memset(datagram + length, 0, simhca_pad(packet->length));
	length += simhca_pad(packet->length);
	simhca_icrc_put(path, datagram, length);
	length += SIMHCA_ICRC_BYTES;
	in_front = put_headers(headers, path, traffic_class, datagram, length);
	tapped->facts = *facts;
	tapped->carried = false;
	tapped->length = (uint32_t)(in_front + length);
	bytes = (uint8_t *)(tapped + 1);
	memcpy(bytes, headers, in_front);
	memcpy(bytes + in_front, datagram, length);
	list->used += aligned(sizeof(*tapped) + tapped->length);
}

/* A packet of a link that carries more at a time, in packets of the path MTU. */
static void add_frames(struct simhca_tap_list *list, const struct simhca_packet *whole,
		       const uint8_t *payload, const struct simhca_wire_path *path,
		       uint8_t traffic_class, const struct simhca_frame_facts *facts)
{
	uint32_t mtu = simhca_mtu_bytes(whole->mtu);
	uint32_t count = simhca_psn_count(whole->length, mtu);

	for (uint32_t i = 0; i < count; i++) {
		struct simhca_packet packet = *whole;
		uint64_t at = (uint64_t)i * mtu;

		packet.first = whole->first && !i;
		packet.last = whole->last && i == count - 1;
		packet.has_imm &= packet.last;
		packet.has_inv &= packet.last;
		packet.ack_req &= packet.last;
		packet.solicited &= packet.last;
		packet.psn = simhca_psn_add(whole->psn, i);
		packet.length = whole->length - at < mtu ? whole->length - at : mtu;
		add_frame(list, &packet, payload + at, path, traffic_class, facts);
	}
}

bool simhca_tap_payload(struct simhca_worker *worker, const struct simhca_packet *packet,
			uint8_t **bytes)
{
	struct simhca_sgl target = { .count = 1 };
	enum simhca_reason reason;

	if (!packet->length)
		return true;
	if (!*bytes)
		*bytes = malloc(SIMHCA_LINK_SLICE);
	if (!*bytes || packet->length > SIMHCA_LINK_SLICE)
		return false;
	target.seg[0] = (struct simhca_seg){ .addr = (uintptr_t)*bytes, .length = packet->length };
	return (packet->resumed || simhca_odp_verify(packet->payload, &worker->mover)) &&
	       simhca_dma_copy(&target, packet->payload, packet->length, &worker->mover, &reason) ==
		       SIMHCA_DMA_OK;
}

struct simhca_tap_mark simhca_tap_begin(struct simhca_worker *worker, struct simhca_qp *qp,
					const struct simhca_packet *packet)
{
	const struct simhca_av *av =
		packet->av && !simhca_is_response(packet->op) ? packet->av : &qp->qpc->av;
	struct simhca_wire_path path = path_of(qp, av);
	const struct simhca_frame_facts facts = {
		.time_ns = simhca_clock_ns(CLOCK_REALTIME),
		.context = qp->context ? qp->context->id : 0,
		.qpn = qp->qpn,
		.peer_qpn = packet->dest_qpn,
	};
	struct simhca_tap_mark mark = { .first = worker->tap.used };

	worker->tap.depth++;
	if (simhca_tap_payload(worker, packet, &worker->tap.payload))
		add_frames(&worker->tap, packet, worker->tap.payload, &path, av->traffic_class,
			   &facts);
	mark.end = worker->tap.used;
	return mark;
}

static struct tapped *entry(struct simhca_tap_list *list, size_t at)
{
	return (struct tapped *)(list->bytes + at);
}

static void flush(struct simhca_worker *worker)
{
	struct simhca_tap_list *list = &worker->tap;

	for (size_t at = 0; at < list->used;) {
		const struct tapped *tapped = entry(list, at);

		if (tapped->carried)
			emit(worker->engine->fabric, &tapped->facts, (const uint8_t *)(tapped + 1),
			     tapped->length);
		at += aligned(sizeof(*tapped) + tapped->length);
	}
	list->used = 0;
}

void simhca_tap_end(struct simhca_worker *worker, struct simhca_tap_mark mark, bool carried)
{
	struct simhca_tap_list *list = &worker->tap;

	for (size_t at = mark.first; carried && at < mark.end;) {
		struct tapped *tapped = entry(list, at);

		tapped->carried = true;
		at += aligned(sizeof(*tapped) + tapped->length);
	}
	if (!--list->depth)
		flush(worker);
}

void simhca_tap_packet(struct simhca_worker *worker, const struct simhca_frame_facts *facts,
		       const struct simhca_wire_path *path, const struct simhca_packet *packet,
		       const uint8_t *payload)
{
	struct simhca_tap_mark mark = { .first = worker->tap.used };
	struct simhca_frame_facts timed = *facts;

	timed.time_ns = simhca_clock_ns(CLOCK_REALTIME);
	worker->tap.depth++;
	if (packet->op == SIMHCA_PKT_SEND)
		add_frame(&worker->tap, packet, payload, path, 0, &timed);
	else
		add_frames(&worker->tap, packet, payload, path, 0, &timed);
	mark.end = worker->tap.used;
	simhca_tap_end(worker, mark, true);
}

void simhca_fabric_tap(struct simhca_fabric *fabric, bool on)
{
	atomic_store_explicit(&fabric->tap, on, memory_order_relaxed);
	/* Programs tell of no packets: until it is off the device carries theirs. */
	if (on)
		simhca_steps_end(fabric, 0);
}
