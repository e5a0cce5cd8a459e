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
#include "link/wire/wire.h"
#include "transport/link.h"
#include "transport/own_memory.h"
#include "transport/qp.h"

#define WINDOW 32		  /* PSNs: what a socket's buffer holds by default */
#define TAKES 16		  /* packets in one turn of a QP */
#define TRIES 500		  /* of a packet for a QP that is busy; then it is lost */
#define INBOX_BYTES (64ull << 20) /* in all inboxes */
#define PAYLOAD_MOST 4096u

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
	/*
	 * Read while a QP is looked up and its inbox filled; written, to let that end, before a QP
	 * that is out of its table is freed. After the fabric's lock.
	 */
	pthread_rwlock_t lock;
	_Atomic uint64_t inbox_bytes;
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
	/* Who is flooded still comes to free a QP. */
	pthread_rwlockattr_init(&attr);
	pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	pthread_rwlock_init(&wire->lock, &attr);
	pthread_rwlockattr_destroy(&attr);
	pthread_mutex_init(&wire->gmp_lock, NULL);
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
		atomic_store(&qp->link, &wire_link);
	}
}

static void reset(struct simhca_qp *qp)
{
	simhca_inbox_close(qp->inbox);
}

static bool retire(struct simhca_qp *qp)
{
	return simhca_inbox_retire(qp->inbox);
}

bool simhca_wire_traffic(struct simhca_context *context, uint32_t handle,
			 struct simhca_wire_traffic *traffic)
{
	const struct simhca_qp *qp = simhca_object(context, SIMHCA_OBJ_QP, handle, NULL);

	return qp && qp->inbox && qp->link->remote && simhca_inbox_traffic(qp->inbox, traffic);
}

static const struct simhca_uplink uplink = {
	.attach = attach,
	.detach = detach,
	.connect = connect_qp,
	.reset = reset,
	.retire = retire,
};

/* -------------------------------------------------------------------------------- sending */

/* TAKEN: it is on its way, or lost. */
static struct simhca_handover carry(struct simhca_worker *worker, struct simhca_qp *qp,
				    const struct simhca_packet *packet,
				    const struct simhca_wire_path *path, uint8_t traffic_class)
{
	const struct simhca_wire *wire = qp->device->fabric->wire;
	struct simhca_handover handover = { .outcome = SIMHCA_TAKEN };
	uint8_t datagram[SIMHCA_DATAGRAM_MOST(PAYLOAD_MOST)];
	size_t length = simhca_bth_encode(packet, datagram);
	struct simhca_sgl target = { .count = 1 };

	if (!length || packet->length > PAYLOAD_MOST)
		return handover;
	target.seg[0] = (struct simhca_seg){ .addr = (uintptr_t)datagram + length,
					     .length = packet->length };
	if (packet->length && (!simhca_payload_reached(worker, packet) ||
			       simhca_dma_copy(&target, packet->payload, packet->length,
					       &worker->mover, &handover.reason))) {
		handover.outcome = SIMHCA_UNREADABLE;
		return handover;
	}
	length += packet->length;
	memset(datagram + length, 0, simhca_pad(packet->length));
	length += simhca_pad(packet->length);
	simhca_icrc_put(path, datagram, length);
	simhca_stats_sent(worker, qp->device, packet);
	simhca_inbox_sent(qp->inbox, packet);
	length += SIMHCA_ICRC_BYTES;
	if (simhca_tap_is_on(qp->device->fabric))
		simhca_tap_datagram(qp->device->fabric, path, traffic_class, datagram, length);
	wire->ops.send(wire->ops.arg, path, traffic_class, datagram, length);
	return handover;
}

static struct simhca_handover send_request(struct simhca_worker *worker, struct simhca_qp *qp,
					   struct simhca_packet *packet)
{
	struct simhca_handover lost = { .outcome = SIMHCA_TAKEN };

	if (!simhca_link_is_up(qp))
		return lost;
	return carry(worker, qp, packet, simhca_inbox_path(qp->inbox), packet->av->traffic_class);
}

static struct simhca_handover request(struct simhca_worker *worker, struct simhca_qp *qp,
				      struct simhca_packet *packet)
{
	if (simhca_inject_is_on(qp->device->fabric))
		return simhca_faulty_request(worker, qp, packet, send_request);
	return send_request(worker, qp, packet);
}

static struct simhca_handover send_response(struct simhca_worker *worker, struct simhca_qp *qp,
					    const struct simhca_packet *packet)
{
	struct simhca_handover lost = { .outcome = SIMHCA_TAKEN };

	if (!simhca_link_is_up(qp))
		return lost;
	return carry(worker, qp, packet, simhca_inbox_path(qp->inbox), qp->qpc->av.traffic_class);
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
		return (struct simhca_handover){ .outcome = SIMHCA_TAKEN };
	return carry(worker, qp, packet, &path, packet->av->traffic_class);
}

/* A datagram: here and there, by its address. */
static struct simhca_handover request_datagram(struct simhca_worker *worker, struct simhca_qp *qp,
					       struct simhca_packet *packet)
{
	if (packet->dest_qpn == SIMHCA_MCAST_QPN || is_local(qp->device, packet->av))
		return simhca_local_link.request(worker, qp, packet);
	if (simhca_inject_is_on(qp->device->fabric))
		return simhca_faulty_request(worker, qp, packet, send_datagram);
	return send_datagram(worker, qp, packet);
}

/* ------------------------------------------------------------------------------ receiving */

/* Whether QPs of this type take such a packet. */
static bool takes(uint32_t type, const struct simhca_packet *packet)
{
	if (!simhca_is_response(packet->op))
		return simhca_link_takes_from(type, packet->transport);
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
	if (!qp || qp->qpn != packet->dest_qpn || !qp->inbox || !takes(qp->type, packet) ||
	    !simhca_inbox_put(qp->inbox, packet, payload, datagram, &wire->inbox_bytes,
			      INBOX_BYTES))
		return false;
	simhca_engine_schedule(engine_of(qp), &qp->task);
	return true;
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
	wire->ops.send(wire->ops.arg, &path, av->traffic_class, datagram, length);
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

void simhca_wire_receive(struct simhca_fabric *fabric, struct simhca_wire_datagram *datagram)
{
	struct simhca_wire *wire = fabric->wire;
	struct simhca_device *device;
	struct simhca_packet packet;
	const uint8_t *payload;
	enum simhca_wire_fault fault =
		simhca_bth_decode(datagram->bytes, datagram->length, &packet, &payload);

	if (fault == SIMHCA_WIRE_OK && packet.length > PAYLOAD_MOST)
		fault = SIMHCA_WIRE_BAD_LENGTH;
	if (fault == SIMHCA_WIRE_OK &&
	    !simhca_icrc_check(&datagram->path, datagram->bytes, datagram->length))
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
	for (device = fabric->devices; device; device = device->next)
		if (put(device, &packet, payload, datagram))
			break;
	pthread_rwlock_unlock(&wire->lock);
	pthread_rwlock_unlock(&fabric->lock);
	count(device ? &wire->taken : &wire->unclaimed);
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
	struct simhca_sgl payload = { .count = 1 };
	struct simhca_handover handover;

	payload.seg[0] = (struct simhca_seg){ .addr = (uintptr_t)arrival->payload,
					      .length = packet->length };
	packet->payload = &payload;
	if (packet->op == SIMHCA_PKT_ACK)
		packet->reason = reason_of(packet->syndrome);
	handover = simhca_link_deliver(worker, qp, packet);
	packet->payload = NULL;
	return handover;
}

/* The next one; false: no more now. */
static bool take_one(struct simhca_worker *worker, struct simhca_qp *qp, bool *owed, bool *kept)
{
	struct simhca_arrival *arrival;
	struct simhca_handover handover;

	simhca_guard_widen(&worker->guard);
	if (simhca_link_continue(worker, qp, qp->context ? qp->context->id : SIMHCA_GUARD_ANY, owed)
		    .outcome == SIMHCA_BUSY)
		*owed = false; /* as the request will find, and wait */
	arrival = simhca_inbox_take(qp->inbox, *owed || *kept);
	if (!arrival)
		return *owed;
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
	case SIMHCA_TAKEN:
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
	int takes = TAKES;

	if (!simhca_inbox_begin(qp->inbox))
		return false;
	/* Who has come in time is not silent, however late we look: all of it is looked at. */
	if (simhca_inbox_timer(qp->inbox, atomic_load(&qp->task.timer_fired)) && wire->ops.poll) {
		wire->ops.poll(wire->ops.arg);
		takes = SIMHCA_INBOX_ROOM;
	}
	for (int i = 0; i < takes && more; i++)
		more = take_one(worker, qp, &owed, &kept);
	/* The QP outlives the step again, whoever its packets were for. */
	simhca_guard_widen(&worker->guard);
	return simhca_inbox_end(qp->inbox) || more;
}

static const struct simhca_link wire_link = {
	.window = WINDOW,
	.read = WINDOW,
	.request = request,
	.respond = respond,
	.arrived = arrived,
	.remote = true,
};

static const struct simhca_link datagram_link = {
	.window = WINDOW,
	.request = request_datagram,
	.respond = respond,
	.arrived = arrived,
};
