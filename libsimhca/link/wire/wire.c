/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>

#include "cm/mad.h"
#include "device/address.h"
#include "device/av.h"
#include "device/fabric.h"
#include "device/guard.h"
#include "device/handles.h"
#include "device/stats.h"
#include "dma/dma.h"
#include "link/deliver.h"
#include "link/faulty.h"
#include "link/local.h"
#include "link/tap.h"
#include "link/traffic.h"
#include "link/wire/inbox.h"
#include "link/wire/outbox.h"
#include "link/wire/wire.h"
#include "transport/link.h"
#include "transport/mcast.h"
#include "transport/own_memory.h"
#include "transport/psn.h"
#include "transport/qp.h"

#define TURN_PACKETS 16		  /* packets in one turn of a QP */
#define TRIES 500		  /* of a packet for a QP that is busy; then it is lost */
#define INBOX_BYTES (64ull << 20) /* in all inboxes */
#define PAYLOAD_MOST 4096u
#define PACKET_OVERHEAD 58u /* bytes of a packet's headers, from Ethernet's to the ICRC */
/* Payload that is taken from a program, or given to it, in one go: packets of one run. */
#define SLICE (64u << 10)
#define SLICE_MOST 64u
#define SLICE_BYTES (SLICE + SLICE_MOST * SIMHCA_DATAGRAM_MOST(0))

/* MADs that wait: what beyond that comes is lost, as in the queue of a QP 1. */
#define GMPS 128
#define GMP_QPN 1u
#define GMP_QKEY 0x80010000u /* IBTA vol. 1, 3.5.3 */

/* A management datagram that came. */
struct gmp {
	union simhca_gid sgid, dgid;
	uint8_t mad[SIMHCA_MAD_BYTES];
};

struct simhca_wire {
	struct simhca_wire_ops ops;
	struct simhca_fabric *fabric;
	/*
	 * Read while a QP is looked up and its inbox filled; written, to let that end, before a QP
	 * that is out of its table is freed. After the fabric's lock.
	 */
	pthread_rwlock_t lock;
	struct simhca_ways ways;
	_Atomic uint64_t inbox_bytes;
	atomic_bool no_runs; /* each datagram is to be one by itself */
	pthread_mutex_t gmp_lock;
	struct gmp gmp[GMPS]; /* from gmp_first on */
	uint32_t gmp_first, gmps;
	_Atomic uint32_t gmp_psn;
	_Atomic uint64_t taken, unclaimed, refused[SIMHCA_WIRE_FAULTS];
};

static const struct simhca_link wire_link, datagram_link;
static const struct simhca_uplink uplink;

static void count(_Atomic uint64_t *counter)
{
	/* relaxed: a number by itself, which orders nothing. */
	atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

int simhca_wire_open(struct simhca_fabric *fabric, const struct simhca_wire_ops *ops)
{
	struct simhca_wire *wire = calloc(1, sizeof(*wire));
	pthread_rwlockattr_t attr;

	if (!wire)
		return -ENOMEM;
	wire->ops = *ops;
	wire->fabric = fabric;
	/* Who is flooded still comes to free a QP. */
	pthread_rwlockattr_init(&attr);
	pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	pthread_rwlock_init(&wire->lock, &attr);
	pthread_rwlockattr_destroy(&attr);
	pthread_mutex_init(&wire->gmp_lock, NULL);
	simhca_ways_open(&wire->ways);
	fabric->wire = wire;
	fabric->uplink = &uplink;
	return 0;
}

void simhca_wire_free(struct simhca_fabric *fabric)
{
	if (!fabric->wire)
		return;
	pthread_rwlock_destroy(&fabric->wire->lock);
	pthread_mutex_destroy(&fabric->wire->gmp_lock);
	simhca_ways_close(&fabric->wire->ways);
	free(fabric->wire);
}

void simhca_wire_counts(const struct simhca_fabric *fabric, struct simhca_wire_counts *counts)
{
	const struct simhca_wire *wire = fabric->wire;

	counts->taken = atomic_load(&wire->taken);
	counts->unclaimed = atomic_load(&wire->unclaimed);
	for (int i = 0; i < SIMHCA_WIRE_FAULTS; i++)
		counts->refused[i] = atomic_load(&wire->refused[i]);
}

/* ------------------------------------------------------------------------------------ QPs */

/* Whether it is one of the fabric's own devices that has the address. */
static bool is_local(const struct simhca_device *source, const struct simhca_av *av)
{
	struct simhca_fabric *fabric = source->fabric;
	const struct simhca_device *device;

	if (fabric->wire->ops.always)
		return false;
	pthread_rwlock_rdlock(&fabric->lock);
	for (device = fabric->devices; device; device = device->next)
		if (simhca_link_has_address(device, source, av))
			break;
	pthread_rwlock_unlock(&fabric->lock);
	return device;
}

static int attach(struct simhca_qp *qp)
{
	if (!qp->device->config.wire || qp->type == SIMHCA_QPT_RAW_PACKET ||
	    qp->type == SIMHCA_QPT_WQ)
		return 0;
	qp->inbox = simhca_inbox_create();
	if (!qp->inbox)
		return -ENOMEM;
	qp->uplink = &uplink;
	return 0;
}

static void detach(struct simhca_qp *qp)
{
	struct simhca_wire *wire = qp->device->fabric->wire;

	/* It is in no table: whoever had found it there has let go of it then. */
	pthread_rwlock_wrlock(&wire->lock);
	pthread_rwlock_unlock(&wire->lock);
	simhca_share_leave(&wire->ways, simhca_inbox_share(qp->inbox));
	simhca_inbox_destroy(qp->inbox);
}

static void connect_qp(struct simhca_qp *qp)
{
	const struct simhca_av *av = &qp->qpc->av;
	struct simhca_wire_path path = { .destination = av->dgid, .source_port = SIMHCA_WIRE_PORT };

	if (qp->type == SIMHCA_QPT_UD) {
		simhca_inbox_open(qp->inbox, NULL, 0, 0);
		atomic_store(&qp->link, &datagram_link);
	} else if (is_local(qp->device, av)) {
		simhca_inbox_close(qp->inbox);
		atomic_store(&qp->link, qp->device->fabric->link);
	} else {
		simhca_device_gid(qp->device, av->sgid_index, &path.source);
		simhca_inbox_open(qp->inbox, &path, qp->qpc->dest_qpn, qp->qpc->path_mtu);
		simhca_share_join(&qp->device->fabric->wire->ways, simhca_inbox_share(qp->inbox),
				  &av->dgid);
		atomic_store(&qp->link, &wire_link);
	}
}

static void reset(struct simhca_qp *qp)
{
	simhca_share_leave(&qp->device->fabric->wire->ways, simhca_inbox_share(qp->inbox));
	simhca_inbox_close(qp->inbox);
}

static bool retire(struct simhca_qp *qp)
{
	return simhca_inbox_retire(qp->inbox);
}

static void group(struct simhca_device *device, const union simhca_gid *gid, bool member)
{
	const struct simhca_wire *wire = device->fabric->wire;

	if (device->config.wire && wire->ops.group)
		wire->ops.group(wire->ops.arg, device, gid, member);
}

bool simhca_wire_traffic(struct simhca_context *context, uint32_t handle,
			 struct simhca_wire_traffic *traffic)
{
	const struct simhca_qp *qp = simhca_object(context, SIMHCA_OBJ_QP, handle, NULL);

	return qp && qp->inbox && qp->link->remote && simhca_inbox_traffic(qp->inbox, traffic);
}

/* -------------------------------------------------------------------------------- sending */

static void send_runs(struct simhca_wire *wire, const struct simhca_wire_run *runs,
		      unsigned int count)
{
	/* relaxed: each thread finds out for itself, or a little later. */
	if (!wire->ops.send(wire->ops.arg, runs, count))
		atomic_store_explicit(&wire->no_runs, true, memory_order_relaxed);
}

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

static void put_ack(struct simhca_outbox *outbox, const struct simhca_outbox_ack *ack)
{
	uint8_t *at = outbox->bytes + outbox->used;

	memcpy(at, ack->headers, SIMHCA_ACK_BYTES);
	put_datagram(outbox, &ack->path, ack->traffic_class, at, SIMHCA_ACK_BYTES, false);
}

static void send_all(struct simhca_outbox *outbox)
{
	for (unsigned int i = 0; i < outbox->acks; i++)
		put_ack(outbox, &outbox->ack[i]);
	send_runs(outbox->wire, outbox->run, outbox->runs);
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
	if (!simhca_outbox_room(outbox, SLICE_BYTES, SLICE_MOST))
		send_all(outbox);
	return outbox;
}

/* The nth of the packets of one MTU each that it stands for. */
static struct simhca_packet part_of(const struct simhca_packet *packet, uint32_t n, uint32_t mtu)
{
	uint64_t offset = (uint64_t)n * mtu, left = packet->length - offset;
	struct simhca_packet part = *packet;
	bool last = left <= mtu;

	part.psn = simhca_psn_add(packet->psn, n);
	part.length = last ? left : mtu;
	part.first = packet->first && !n;
	part.last = packet->last && last;
	part.ack_req = packet->ack_req && last;
	part.solicited = packet->solicited && last;
	part.has_imm = packet->has_imm && last;
	part.has_inv = packet->has_inv && last;
	return part;
}

/* Writes the headers of its parts, and says where their payloads go; 0: no opcode says this. */
static uint32_t lay_out(const struct simhca_packet *packet, uint32_t mtu, uint8_t *at,
			struct simhca_sgl *target)
{
	uint32_t count = simhca_psn_count(packet->length, mtu);

	if (count > SLICE_MOST)
		return 0;
	target->count = count;
	for (uint32_t i = 0; i < count; i++) {
		const struct simhca_packet part = part_of(packet, i, mtu);
		size_t headers = simhca_bth_encode(&part, at);

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

static bool acknowledges(const struct simhca_packet *packet)
{
	return packet->op == SIMHCA_PKT_ACK && SIMHCA_SYNDROME_IS_ACK(packet->syndrome);
}

/* One that waits already says what this one does, or more: a repeated one's. */
static void acknowledge(struct simhca_worker *worker, struct simhca_qp *qp,
			const struct simhca_packet *packet, const struct simhca_wire_path *path,
			uint8_t traffic_class)
{
	struct simhca_outbox *outbox = worker->outgoing.outbox;
	struct simhca_outbox_ack *ack = simhca_outbox_find_ack(outbox, qp);

	if (ack && simhca_psn_cmp(packet->psn, ack->psn) <= 0)
		return;
	if (!ack) {
		if (outbox->acks == SIMHCA_OUTBOX_ACKS)
			send_all(outbox);
		ack = &outbox->ack[outbox->acks++];
		simhca_stats_sent(worker, qp->device, packet);
		simhca_inbox_sent(qp->inbox, packet);
	}
	*ack = (struct simhca_outbox_ack){
		.of = qp, .path = *path, .traffic_class = traffic_class, .psn = packet->psn
	};
	simhca_bth_encode(packet, ack->headers);
	worker->outgoing.send = send_all;
}

/*
 * Responses of a QP leave in their order; and its peer, whose program may have room for one message
 * alone, knows that this has arrived before an answer to it comes.
 */
static void put_ack_first(struct simhca_outbox *outbox, const struct simhca_qp *qp)
{
	struct simhca_outbox_ack *ack = simhca_outbox_find_ack(outbox, qp);

	if (!ack)
		return;
	put_ack(outbox, ack);
	*ack = outbox->ack[--outbox->acks];
	/* It has used up some of the room. */
	if (!simhca_outbox_room(outbox, SLICE_BYTES, SLICE_MOST))
		send_all(outbox);
}

/* ACCEPTED: it is on its way, or lost. */
static struct simhca_handover carry(struct simhca_worker *worker, struct simhca_qp *qp,
				    const struct simhca_packet *packet,
				    const struct simhca_wire_path *path, uint8_t traffic_class)
{
	struct simhca_wire *wire = qp->device->fabric->wire;
	uint32_t mtu = packet->transport == SIMHCA_QPT_UD ? PAYLOAD_MOST : simhca_qp_mtu(qp);
	struct simhca_handover handover = { .outcome = SIMHCA_ACCEPTED };
	struct simhca_outbox *outbox = outbox_of(wire, worker);
	struct simhca_sgl target;
	uint32_t count;
	uint8_t *at;

	if (!outbox)
		return handover;
	if (acknowledges(packet)) {
		acknowledge(worker, qp, packet, path, traffic_class);
		return handover;
	}
	put_ack_first(outbox, qp);
	at = simhca_outbox_room(outbox, SLICE_BYTES, SLICE_MOST);
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
	for (uint32_t i = 0; i < count; i++) {
		const struct simhca_packet part = part_of(packet, i, mtu);
		const uint8_t *end = (uint8_t *)(uintptr_t)target.seg[i].addr + part.length +
				     simhca_pad(part.length);
		size_t length = (size_t)(end - at);

		simhca_inbox_sent(qp->inbox, &part);
		put_datagram(outbox, path, traffic_class, at, length,
			     wire->ops.rxe_flush && part.op == SIMHCA_PKT_FLUSH);
		at += length + SIMHCA_ICRC_BYTES;
	}
	return handover;
}

/* Whoever is connected heeds marks, unless the program has a view of its own. */
static uint8_t ecn_capable(const struct simhca_av *av)
{
	return av->traffic_class & SIMHCA_ECN_MASK ? av->traffic_class
						   : av->traffic_class | SIMHCA_ECN_CAPABLE;
}

static uint32_t last_psn(const struct simhca_qp *qp, const struct simhca_packet *packet)
{
	uint64_t bytes = packet->op == SIMHCA_PKT_READ ? packet->dma_length : packet->length;

	return simhca_psn_add(packet->psn, simhca_psn_count(bytes, simhca_qp_mtu(qp)) - 1);
}

static struct simhca_handover send_request(struct simhca_worker *worker, struct simhca_qp *qp,
					   struct simhca_packet *packet)
{
	struct simhca_congestion *congestion = simhca_inbox_congestion(qp->inbox);
	struct simhca_handover lost = { .outcome = SIMHCA_ACCEPTED };

	if (!simhca_link_is_up(qp))
		return lost;
	if (packet->ack_req && !congestion->timed_at && simhca_inbox_is_new(qp->inbox, packet))
		simhca_congestion_sent(congestion, last_psn(qp, packet),
				       simhca_engine_now(qp->context->engine));
	return carry(worker, qp, packet, simhca_inbox_path(qp->inbox), ecn_capable(packet->av));
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
	handover.delay_ns = simhca_pace(simhca_inbox_pace(qp->inbox), packet->av->static_rate,
					bytes, simhca_engine_now(qp->context->engine));
	if (handover.delay_ns)
		handover.outcome = SIMHCA_LATE;
	return handover;
}

/* LATE: less than one packet a round trip is what the network has for it. */
static struct simhca_handover rested(struct simhca_qp *qp)
{
	struct simhca_congestion *congestion = simhca_inbox_congestion(qp->inbox);
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

	simhca_share_set_busy(simhca_inbox_share(qp->inbox), true);
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
	return carry(worker, qp, packet, simhca_inbox_path(qp->inbox), ecn_capable(&qp->qpc->av));
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
	struct simhca_wire_path path = { .source = packet->sgid,
					 .destination = packet->av->dgid,
					 .source_port = SIMHCA_WIRE_PORT };

	if (!simhca_link_is_up(qp))
		return (struct simhca_handover){ .outcome = SIMHCA_ACCEPTED };
	return carry(worker, qp, packet, &path, packet->av->traffic_class);
}

/* A datagram: here or there, by its address; to a group's members here and there. */
static struct simhca_handover request_datagram(struct simhca_worker *worker, struct simhca_qp *qp,
					       struct simhca_packet *packet)
{
	bool group = packet->dest_qpn == SIMHCA_MCAST_QPN;
	struct simhca_handover pace;

	if (!group && is_local(qp->device, packet->av))
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

/* ------------------------------------------------------------------------------ receiving */

/* Whether QPs of this type accept such a packet. */
static bool accepts(uint32_t type, const struct simhca_packet *packet)
{
	if (!simhca_is_response(packet->op))
		return simhca_link_accepts(type, packet->transport);
	return type == SIMHCA_QPT_XRC_SEND ? packet->transport == SIMHCA_QPT_XRC_RECV
					   : type == SIMHCA_QPT_RC && packet->transport == type;
}

/* An XRC_RECV QP has no engine: one of those that are always there. Under the fabric's lock. */
static struct simhca_engine *engine_of(const struct simhca_qp *qp)
{
	struct simhca_engine *engine = qp->device->fabric->engines;

	if (qp->context)
		return qp->context->engine;
	while (engine->next)
		engine = engine->next;
	return engine;
}

static bool notified(struct simhca_qp *qp, const struct simhca_wire_path *path)
{
	if (!simhca_inbox_notify(qp->inbox, path))
		return false;
	simhca_stats_once(qp->device, SIMHCA_STAT_CNP_HANDLED);
	return true;
}

/* To the QP of the device that it is for, if there is one. Under both locks. */
static bool put(struct simhca_device *device, const struct simhca_packet *packet,
		const uint8_t *payload, const struct simhca_wire_datagram *datagram)
{
	struct simhca_wire *wire = device->fabric->wire;
	const struct simhca_av av = { .dgid = datagram->path.destination, .is_global = 1 };
	struct simhca_qp *qp;

	if (!device->config.wire || !simhca_link_answers_to(device, device, &av))
		return false;
	qp = atomic_load(&device->qps[SIMHCA_QPN_SLOT(packet->dest_qpn)]);
	if (!qp || qp->qpn != packet->dest_qpn || !qp->inbox)
		return false;
	if (packet->op == SIMHCA_PKT_CNP)
		return notified(qp, &datagram->path);
	if (!accepts(qp->type, packet) || !simhca_inbox_put(qp->inbox, packet, payload, datagram,
							    &wire->inbox_bytes, INBOX_BYTES))
		return false;
	simhca_engine_schedule(engine_of(qp), &qp->task);
	return true;
}

/* To all members of a group on devices with a wire. Likewise; false: there is none. */
static bool put_to_group(struct simhca_fabric *fabric, const struct simhca_packet *packet,
			 const uint8_t *payload, const struct simhca_wire_datagram *datagram)
{
	struct simhca_wire *wire = fabric->wire;
	struct simhca_device *device;
	bool taken = false;

	if (packet->transport != SIMHCA_QPT_UD || packet->dest_qpn != SIMHCA_MCAST_QPN)
		return false;
	for (device = fabric->devices; device; device = device->next) {
		uint32_t qpns[SIMHCA_MAX_MCAST_QP_ATTACH], count = 0;

		if (device->config.wire && simhca_port_is_active(device))
			count = simhca_mcast_members(device, &datagram->path.destination, qpns);
		for (uint32_t i = 0; i < count; i++) {
			struct simhca_qp *qp = atomic_load(&device->qps[SIMHCA_QPN_SLOT(qpns[i])]);

			if (!qp || qp->qpn != qpns[i] || !qp->inbox ||
			    !simhca_inbox_put(qp->inbox, packet, payload, datagram,
					      &wire->inbox_bytes, INBOX_BYTES))
				continue;
			simhca_engine_schedule(engine_of(qp), &qp->task);
			taken = true;
		}
	}
	return taken;
}

/* ----------------------------------------------------------------- management datagrams */

bool simhca_wire_send_gmp(struct simhca_device *device, const struct simhca_av *av,
			  const union simhca_gid *sgid, const void *mad)
{
	struct simhca_wire *wire = device->fabric->wire;
	const struct simhca_packet packet = {
		.op = SIMHCA_PKT_SEND,
		.transport = SIMHCA_QPT_UD,
		.first = true,
		.last = true,
		.dest_qpn = GMP_QPN,
		.src_qpn = GMP_QPN,
		.psn = atomic_fetch_add(&wire->gmp_psn, 1) & SIMHCA_PSN_MASK,
		.qkey = GMP_QKEY,
		.length = SIMHCA_MAD_BYTES,
	};
	const struct simhca_wire_path path = { .source = *sgid,
					       .destination = av->dgid,
					       .source_port = SIMHCA_WIRE_PORT };
	uint8_t datagram[SIMHCA_DATAGRAM_MOST(SIMHCA_MAD_BYTES)];
	size_t length = simhca_bth_encode(&packet, datagram);

	if (!av->is_global || is_local(device, av))
		return false;
	memcpy(datagram + length, mad, SIMHCA_MAD_BYTES);
	length += SIMHCA_MAD_BYTES;
	simhca_icrc_put(&path, datagram, length);
	length += SIMHCA_ICRC_BYTES;
	if (simhca_tap_is_on(device->fabric))
		simhca_tap_datagram(device->fabric, &path, av->traffic_class, datagram, length);
	send_runs(wire,
		  &(struct simhca_wire_run){ .path = path,
					     .traffic_class = av->traffic_class,
					     .bytes = datagram,
					     .length = length,
					     .segment = length },
		  1);
	return true;
}

/* True: it waits to be taken. */
static bool put_gmp(struct simhca_wire *wire, const struct simhca_packet *packet,
		    const uint8_t *payload, const struct simhca_wire_datagram *datagram)
{
	struct gmp *gmp = NULL;

	if (packet->transport != SIMHCA_QPT_UD || packet->src_qpn != GMP_QPN ||
	    packet->qkey != GMP_QKEY || packet->length != SIMHCA_MAD_BYTES)
		return false;
	pthread_mutex_lock(&wire->gmp_lock);
	if (wire->gmps < GMPS) {
		gmp = &wire->gmp[(wire->gmp_first + wire->gmps++) % GMPS];
		gmp->sgid = datagram->path.source;
		gmp->dgid = datagram->path.destination;
		memcpy(gmp->mad, payload, sizeof(gmp->mad));
	}
	pthread_mutex_unlock(&wire->gmp_lock);
	if (gmp && wire->ops.gmps)
		wire->ops.gmps(wire->ops.arg);
	return gmp;
}

static bool take_gmp(struct simhca_wire *wire, struct gmp *gmp)
{
	bool taken;

	pthread_mutex_lock(&wire->gmp_lock);
	taken = wire->gmps;
	if (taken) {
		*gmp = wire->gmp[wire->gmp_first];
		wire->gmp_first = (wire->gmp_first + 1) % GMPS;
		wire->gmps--;
	}
	pthread_mutex_unlock(&wire->gmp_lock);
	return taken;
}

void simhca_wire_gmps(struct simhca_fabric *fabric)
{
	struct gmp gmp;

	while (take_gmp(fabric->wire, &gmp)) {
		const struct simhca_av av = { .dgid = gmp.dgid, .is_global = 1 };
		const struct simhca_gmp came = { .mad = gmp.mad,
						 .sgid = gmp.sgid,
						 .dgid = gmp.dgid };
		struct simhca_device *device;

		pthread_rwlock_rdlock(&fabric->lock);
		for (device = fabric->devices; device; device = device->next)
			if (device->gmp && device->config.wire &&
			    simhca_link_answers_to(device, device, &av))
				break;
		pthread_rwlock_unlock(&fabric->lock);
		if (device)
			device->gmp(device->gmp_arg, &came);
	}
}

static bool icrc_is_right(const struct simhca_wire *wire, const struct simhca_packet *packet,
			  struct simhca_wire_datagram *datagram)
{
	return simhca_icrc_check(&datagram->path, datagram->bytes, datagram->length) ||
	       (wire->ops.rxe_flush && packet->op == SIMHCA_PKT_FLUSH &&
		simhca_icrc_check_rxe_flush(&datagram->path, datagram->bytes, datagram->length));
}

void simhca_wire_receive(struct simhca_fabric *fabric, struct simhca_wire_datagram *datagram)
{
	struct simhca_wire *wire = fabric->wire;
	struct simhca_device *device = NULL;
	struct simhca_packet packet;
	const uint8_t *payload;
	bool taken;
	enum simhca_wire_fault fault =
		simhca_bth_decode(datagram->bytes, datagram->length, &packet, &payload);

	if (fault == SIMHCA_WIRE_OK && packet.length > PAYLOAD_MOST)
		fault = SIMHCA_WIRE_BAD_LENGTH;
	if (fault == SIMHCA_WIRE_OK && !icrc_is_right(wire, &packet, datagram))
		fault = SIMHCA_WIRE_BAD_ICRC;
	if (fault != SIMHCA_WIRE_OK) {
		count(&wire->refused[fault]);
		return;
	}
	if (simhca_tap_is_on(fabric))
		simhca_tap_datagram(fabric, &datagram->path, datagram->traffic_class,
				    datagram->bytes, datagram->length);
	if (packet.dest_qpn == GMP_QPN) {
		count(put_gmp(wire, &packet, payload, datagram) ? &wire->taken : &wire->unclaimed);
		return;
	}
	pthread_rwlock_rdlock(&fabric->lock);
	pthread_rwlock_rdlock(&wire->lock);
	if (simhca_gid_is_group(&datagram->path.destination)) {
		taken = put_to_group(fabric, &packet, payload, datagram);
	} else {
		for (device = fabric->devices; device; device = device->next)
			if (put(device, &packet, payload, datagram))
				break;
		taken = device;
	}
	pthread_rwlock_unlock(&wire->lock);
	pthread_rwlock_unlock(&fabric->lock);
	count(taken ? &wire->taken : &wire->unclaimed);
}

/* What a NAK from another device is for: it says no more than this. */
static enum simhca_reason reason_of(uint8_t syndrome)
{
	if (SIMHCA_SYNDROME_IS_RNR(syndrome))
		return SIMHCA_REASON_PEER_NOT_READY;
	switch (syndrome) {
	case SIMHCA_SYNDROME_NAK_PSN:
		return SIMHCA_REASON_PSN_SEQUENCE;
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
	if (packet->op == SIMHCA_PKT_ACK)
		packet->reason = reason_of(packet->syndrome);
	handover = simhca_link_deliver(worker, qp, packet);
	packet->payload = NULL;
	return handover;
}

/* What came was marked: its sender is to know. */
static void tell_of_congestion(struct simhca_worker *worker, struct simhca_qp *qp)
{
	const struct simhca_packet packet = { .op = SIMHCA_PKT_CNP,
					      .dest_qpn = qp->qpc->dest_qpn,
					      .first = true,
					      .last = true,
					      .mtu = qp->qpc->path_mtu };

	simhca_stats_once(qp->device, SIMHCA_STAT_ECN_MARKED);
	if (!qp->link->remote || !simhca_inbox_tells(qp->inbox, simhca_engine_now(worker->engine)))
		return;
	simhca_stats_once(qp->device, SIMHCA_STAT_CNP_SENT);
	carry(worker, qp, &packet, simhca_inbox_path(qp->inbox), qp->qpc->av.traffic_class);
}

/* The next one; false: no more now. */
static bool deliver_one(struct simhca_worker *worker, struct simhca_qp *qp, bool *owed, bool *kept)
{
	struct simhca_arrival *arrival;
	struct simhca_handover handover;

	simhca_guard_widen(&worker->guard);
	if (simhca_link_continue(worker, qp, qp->context ? qp->context->id : SIMHCA_GUARD_ANY, owed)
		    .outcome == SIMHCA_BUSY)
		*owed = false; /* as the request will find, and wait */
	arrival = simhca_inbox_dequeue(qp->inbox, *owed || *kept);
	if (!arrival)
		return *owed;
	if (arrival->marked) {
		tell_of_congestion(worker, qp);
		if (arrival->packet.op == SIMHCA_PKT_READ_RESPONSE)
			simhca_inbox_heed(qp->inbox); /* who asks for less gets less */
	}
	arrival->marked = false;
	simhca_guard_widen(&worker->guard);
	handover = deliver(worker, qp, arrival);
	switch (handover.outcome) {
	case SIMHCA_BUSY:
		if (++arrival->tries < TRIES)
			break;
		simhca_arrival_free(arrival);
		return true;
	case SIMHCA_ELSEWHERE:
		simhca_engine_schedule(handover.engine, &qp->task);
		break;
	case SIMHCA_ABSENT: /* the end of its fault schedules the QP */
	case SIMHCA_LATE:
		break;
	case SIMHCA_ACCEPTED:
	case SIMHCA_UNREADABLE:
		simhca_arrival_free(arrival);
		return true;
	}
	*kept = true;
	simhca_inbox_keep(qp->inbox, arrival);
	return handover.outcome == SIMHCA_BUSY;
}

static bool arrived(struct simhca_worker *worker, struct simhca_qp *qp)
{
	const struct simhca_wire *wire = qp->device->fabric->wire;
	bool owed = false, kept = false, more = true;
	int packets = TURN_PACKETS;

	if (!simhca_inbox_begin(qp->inbox))
		return false;
	/* Who has come in time is not silent, however late we look: all of it is looked at. */
	if (simhca_inbox_timer(qp->inbox, atomic_load(&qp->task.timer_fired)) && wire->ops.poll) {
		wire->ops.poll(wire->ops.arg);
		packets = SIMHCA_INBOX_ROOM;
	}
	for (int i = 0; i < packets && more; i++)
		more = deliver_one(worker, qp, &owed, &kept);
	/* The QP outlives the step again, whoever its packets were for. */
	simhca_guard_widen(&worker->guard);
	return simhca_inbox_end(qp->inbox) || more;
}

static const struct simhca_uplink uplink = {
	.attach = attach,
	.detach = detach,
	.connect = connect_qp,
	.reset = reset,
	.retire = retire,
	.group = group,
};

static uint32_t window_now(const struct simhca_qp *qp)
{
	struct simhca_congestion *congestion = simhca_inbox_congestion(qp->inbox);

	if (simhca_inbox_notified(qp->inbox))
		simhca_congestion_marked(congestion);
	return simhca_congestion_window(congestion);
}

static void acknowledged(struct simhca_qp *qp, uint32_t psn)
{
	struct simhca_congestion *congestion = simhca_inbox_congestion(qp->inbox);
	struct simhca_share *share = simhca_inbox_share(qp->inbox);
	uint64_t now = congestion->timed_at ? simhca_engine_now(qp->context->engine) : 0;

	simhca_congestion_acknowledged(congestion, qp->req.psn_una, psn, now,
				       simhca_share_count(share));
	simhca_share_set_busy(share, psn != qp->req.psn_next);
}

static uint64_t soon(struct simhca_qp *qp)
{
	return simhca_congestion_patience(simhca_inbox_congestion(qp->inbox));
}

static void lost(struct simhca_qp *qp, bool silence)
{
	struct simhca_congestion *congestion = simhca_inbox_congestion(qp->inbox);

	if (silence)
		simhca_congestion_silence(congestion);
	else
		simhca_congestion_lost(congestion);
}

static const struct simhca_link wire_link = {
	.slice = SLICE,
	.packets = SLICE_MOST,
	.window = SIMHCA_WINDOW_FIRST,
	.window_now = window_now,
	.acknowledged = acknowledged,
	.lost = lost,
	.soon = soon,
	.read = SIMHCA_WINDOW_FIRST,
	.request = request,
	.respond = respond,
	.arrived = arrived,
	.remote = true,
};

static const struct simhca_link datagram_link = {
	.window = SIMHCA_WINDOW_FIRST,
	.request = request_datagram,
	.respond = respond,
	.arrived = arrived,
};
