/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The tap: while it is on, what links carry is told to simhca_ops.frame, as the RoCE v2 frames that
 * it is on a wire, or would be at its path MTU. What is answered within the call that hands it over
 * comes behind it.
 */
#ifndef LIBSIMHCA_TAP_H
#define LIBSIMHCA_TAP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/fabric.h"
#include "link/wire/icrc.h"
#include "packet/packet.h"

struct simhca_qp;
struct simhca_worker;

static inline bool simhca_tap_is_on(const struct simhca_fabric *fabric)
{
	/* relaxed: it does not matter which packet is the first. */
	return __builtin_expect(atomic_load_explicit(&fabric->tap, memory_order_relaxed), 0);
}

/*
 * A packet of the QP's, while its payload is still there, before it is handed over: what came of it
 * is said by simhca_tap_end(), with what this returned.
 */
struct simhca_tap_mark {
	size_t first, end; /* of its frames, in the worker's list */
};
struct simhca_tap_mark simhca_tap_begin(struct simhca_worker *worker, struct simhca_qp *qp,
					const struct simhca_packet *packet);
void simhca_tap_end(struct simhca_worker *worker, struct simhca_tap_mark mark, bool carried);

/*
 * A packet that no link carries, with its payload; it goes at once. What is longer than its MTU is several,
 * but for a send. *facts says all but the time.
 */
void simhca_tap_packet(struct simhca_worker *worker, const struct simhca_frame_facts *facts,
		       const struct simhca_wire_path *path, const struct simhca_packet *packet,
		       const uint8_t *payload);

/*
 * Reads a packet's payload, of SIMHCA_LINK_SLICE bytes at most, to *bytes, which is made if it is
 * NULL. False: it cannot be read, as whoever is to have it will find as well.
 */
bool simhca_tap_payload(struct simhca_worker *worker, const struct simhca_packet *packet,
			uint8_t **bytes);
/* A datagram from a BTH to its ICRC that goes, or came. */
void simhca_tap_datagram(const struct simhca_fabric *fabric, const struct simhca_wire_path *path,
			 uint8_t traffic_class, const void *datagram, size_t length);
/* A MAD from QP 1 to QP 1. */
void simhca_tap_mad(const struct simhca_fabric *fabric, const union simhca_gid *sgid,
		    const union simhca_gid *dgid, const void *mad);

#endif
