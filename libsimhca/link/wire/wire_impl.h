/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What the files of the wire link share. */
#ifndef LIBSIMHCA_WIRE_IMPL_H
#define LIBSIMHCA_WIRE_IMPL_H

#include <pthread.h>

#include "link/wire/arrival.h"
#include "link/wire/flow.h"
#include "link/wire/gmps.h"
#include "link/wire/share.h"
#include "link/wire/unsent.h"
#include "link/wire/wire.h"
#include "proto/link.h"

struct simhca_av;

/* Payload that is taken from a program, or given to it, in one go: packets of one run. */
#define SIMHCA_WIRE_SLICE (64u << 10)
#define SIMHCA_WIRE_SLICE_MOST 64u

struct simhca_wire {
	struct simhca_wire_ops ops;
	struct simhca_fabric *fabric;
	/*
	 * Read while a QP is looked up and its inbox filled; written, to let that end, before a QP
	 * that is out of its table, or a device, is freed.
	 */
	pthread_rwlock_t lock;
	struct simhca_ways ways;
	struct simhca_arrivals arrivals;
	struct simhca_unsent unsent;
	atomic_bool no_runs; /* each datagram is to be one by itself */
	struct simhca_gmps gmps;
	_Atomic uint64_t taken, unclaimed, refused[SIMHCA_WIRE_FAULTS];
};

/* Of connected QPs whose peer is elsewhere; of datagram QPs. */
extern const struct simhca_link simhca_wire_link, simhca_wire_datagrams;
extern const struct simhca_uplink simhca_wire_uplink;

/* Whether it is one of the fabric's own devices that has the address. */
bool simhca_wire_is_local(const struct simhca_device *source, const struct simhca_av *av);

/* The way that packets go between two QPs: each flow leaves from a UDP port of its own, if there are several. */
static inline struct simhca_wire_path simhca_wire_path(const struct simhca_wire *wire,
						       const union simhca_gid *source,
						       const union simhca_gid *destination,
						       uint32_t flow_label, uint32_t qpn,
						       uint32_t peer_qpn)
{
	struct simhca_wire_path path = { .source = *source,
					 .destination = *destination,
					 .source_port = SIMHCA_WIRE_PORT };

	if (wire->ops.source_port)
		path.source_port = wire->ops.source_port(
			wire->ops.arg, source, simhca_wire_flow(flow_label, qpn, peer_qpn));
	return path;
}

/* Gives them to the socket, at once. */
static inline void simhca_wire_send_runs(struct simhca_wire *wire,
					 const struct simhca_wire_run *runs, unsigned int count)
{
	/* relaxed: each thread finds out for itself, or a little later. */
	if (!wire->ops.send(wire->ops.arg, runs, count))
		atomic_store_explicit(&wire->no_runs, true, memory_order_relaxed);
}

/*
 * A packet, or a slice of a message, that the QP sends leaves when its step ends. ACCEPTED: it is
 * on its way, or lost. UNREADABLE: its payload cannot be read.
 */
struct simhca_handover simhca_wire_carry(struct simhca_worker *worker, struct simhca_qp *qp,
					 const struct simhca_packet *packet,
					 const struct simhca_wire_path *path,
					 uint8_t traffic_class);

#endif
