/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The fabric's wire: what comes is looked at, and given to the QP that it is for. */

#include <errno.h>
#include <stdlib.h>

#include "core/av.h"
#include "core/address.h"
#include "core/fabric.h"
#include "core/lock.h"
#include "core/stats.h"
#include "engine/engine.h"
#include "link/tap.h"
#include "link/wire/bth.h"
#include "link/wire/gmps.h"
#include "link/wire/inbox.h"
#include "link/wire/wire.h"
#include "link/wire/wire_impl.h"
#include "proto/mcast.h"
#include "proto/qp.h"

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
	simhca_rwlock_init(&wire->lock, &attr, SIMHCA_LOCK_WIRE);
	pthread_rwlockattr_destroy(&attr);
	simhca_mutex_init(&wire->gmps.lock, SIMHCA_LOCK_GMPS);
	simhca_ways_open(&wire->ways);
	simhca_arrivals_open(&wire->arrivals);
	simhca_unsent_open(&wire->unsent);
	fabric->wire = wire;
	fabric->uplink = &simhca_wire_uplink;
	return 0;
}

void simhca_wire_free(struct simhca_fabric *fabric)
{
	if (!fabric->wire)
		return;
	pthread_rwlock_destroy(&fabric->wire->lock);
	pthread_mutex_destroy(&fabric->wire->gmps.lock);
	simhca_ways_close(&fabric->wire->ways);
	simhca_arrivals_close(&fabric->wire->arrivals);
	simhca_unsent_close(&fabric->wire->unsent);
	free(fabric->wire);
}

struct simhca_wire_buffer *simhca_wire_buffer_get(struct simhca_fabric *fabric)
{
	return simhca_arrivals_buffer(&fabric->wire->arrivals);
}

void simhca_wire_counts(const struct simhca_fabric *fabric, struct simhca_wire_counts *counts)
{
	const struct simhca_wire *wire = fabric->wire;

	counts->taken = atomic_load(&wire->taken);
	counts->unclaimed = atomic_load(&wire->unclaimed);
	for (int i = 0; i < SIMHCA_WIRE_FAULTS; i++)
		counts->refused[i] = atomic_load(&wire->refused[i]);
}

/* Whether QPs of this type accept such a packet. */
static bool accepts(uint32_t type, const struct simhca_packet *packet)
{
	if (!simhca_is_response(packet->op))
		return simhca_link_accepts(type, packet->transport);
	return type == SIMHCA_QPT_XRC_SEND ? packet->transport == SIMHCA_QPT_XRC_RECV
					   : type == SIMHCA_QPT_RC && packet->transport == type;
}

/* An XRC_RECV QP has no engine: that which is there for longest. */
static struct simhca_engine *engine_of(const struct simhca_qp *qp)
{
	return qp->context ? qp->context->engine : atomic_load(&qp->device->fabric->first_engine);
}

static bool notified(struct simhca_qp *qp, const struct simhca_wire_path *path)
{
	if (!simhca_inbox_notify(qp->wire.inbox, path))
		return false;
	simhca_stats_once(qp->device, SIMHCA_STAT_CNP_HANDLED);
	return true;
}

/* The device's QPs are of a kind of their own. Under the lock. */
static bool put_efa(struct simhca_device *device, const struct simhca_packet *packet,
		    const uint8_t *payload, const struct simhca_wire_datagram *datagram)
{
	bool (*take)(struct simhca_device *, const struct simhca_packet *, const uint8_t *,
		     const struct simhca_wire_datagram *) = atomic_load(&device->efa_take);

	return packet->op == SIMHCA_PKT_EFA && take && take(device, packet, payload, datagram);
}

/* To the QP of the device that it is for, if there is one. Under the lock. */
static bool put(struct simhca_device *device, const struct simhca_packet *packet,
		const uint8_t *payload, const struct simhca_wire_datagram *datagram)
{
	struct simhca_wire *wire = device->fabric->wire;
	const struct simhca_av av = { .dgid = datagram->path.destination, .is_global = 1 };
	struct simhca_qp *qp;

	if (!device->config.wire || !simhca_link_answers_to(device, device, &av))
		return false;
	if (device->config.efa || packet->op == SIMHCA_PKT_EFA)
		return put_efa(device, packet, payload, datagram);
	qp = simhca_qp_numbered(device, packet->dest_qpn);
	if (!qp || !qp->wire.inbox)
		return false;
	if (packet->op == SIMHCA_PKT_CNP)
		return notified(qp, &datagram->path);
	if (!accepts(qp->type, packet) ||
	    !simhca_inbox_put(qp->wire.inbox, packet, payload, datagram, &wire->arrivals))
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
			struct simhca_qp *qp = simhca_qp_numbered(device, qpns[i]);

			if (!qp || !qp->wire.inbox ||
			    !simhca_inbox_put(qp->wire.inbox, packet, payload, datagram,
					      &wire->arrivals))
				continue;
			simhca_engine_schedule(engine_of(qp), &qp->task);
			taken = true;
		}
	}
	return taken;
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

	if (fault == SIMHCA_WIRE_OK && packet.length > SIMHCA_WIRE_PAYLOAD_MOST)
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
	if (packet.dest_qpn == SIMHCA_GMP_QPN && packet.op != SIMHCA_PKT_EFA) {
		count(simhca_gmps_put(wire, &packet, payload, datagram) ? &wire->taken
									: &wire->unclaimed);
		return;
	}
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
	count(taken ? &wire->taken : &wire->unclaimed);
}
