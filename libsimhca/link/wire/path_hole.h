/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A hole for packets of the path MTU: a link on the way has a smaller MTU, and its router's ICMP message
 * does not come back (RFC 2923, 2.1). Full packets vanish then, and short ones pass, so that the QP's
 * timer sees what it sees of a peer that has gone.
 *
 * Who has no answer twice in a row sends a probe before it repeats a long request: a write of no bytes. If
 * something has arrived before, it has the PSN of the last that has, and is acknowledged as a duplicate (IBTA
 * vol. 1, 9.7.5.1.4); if nothing has, one behind all that was sent, which is answered by a NAK for its
 * sequence, once. It changes nothing at the peer. An answer to it, while still nothing is acknowledged,
 * says that there is a hole.
 *
 * The acknowledgement of a duplicate has the duplicate's PSN, or that of the last request that was done; Linux's rxe
 * leaves reads out of that, and a QP that has done nothing else says 0xffffff. The NAK has the PSN that the gap begins
 * with, or, where a read waits which has been done, that behind all that was sent.
 */
#ifndef LIBSIMHCA_PATH_HOLE_H
#define LIBSIMHCA_PATH_HOLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Bytes of payload that every path carries: IPv4's least MTU is 576, IPv6's 1280. */
#define SIMHCA_PATH_HOLE_SHORT 256u
#define SIMHCA_PATH_HOLE_SILENCES 2
#define SIMHCA_PATH_HOLE_NO_NAK UINT32_MAX /* no PSN */

struct simhca_path_hole {
	unsigned int silences; /* since something was acknowledged; under the requester's lock */
	bool due;	       /* a probe; likewise */
	_Atomic uint32_t gap;  /* the PSN of a NAK that answers a probe; or NO_NAK */
	_Atomic uint32_t done; /* or that, if the peer has done all that was sent */
	atomic_bool probed, answered; /* since something was acknowledged */
};

/* Something is acknowledged, or the QP begins. */
static inline void simhca_path_hole_over(struct simhca_path_hole *hole)
{
	hole->silences = 0;
	hole->due = false;
	/* relaxed, here and below: it is a hint by itself, which orders nothing. */
	atomic_store_explicit(&hole->probed, false, memory_order_relaxed);
	atomic_store_explicit(&hole->answered, false, memory_order_relaxed);
}

/* Nobody has answered in time, and all is sent again. */
static inline void simhca_path_hole_silence(struct simhca_path_hole *hole)
{
	hole->due = ++hole->silences >= SIMHCA_PATH_HOLE_SILENCES;
}

/* Whether a probe is to go before this request, which asks for so many bytes, or brings them. */
static inline bool simhca_path_hole_wants_probe(const struct simhca_path_hole *hole, uint64_t bytes)
{
	return hole->due && bytes > SIMHCA_PATH_HOLE_SHORT;
}

/* It goes. A NAK with another PSN is no answer: who has other PSNs in mind does not answer it for being short. */
static inline void simhca_path_hole_probed(struct simhca_path_hole *hole, uint32_t gap,
					   uint32_t done)
{
	hole->due = false;
	atomic_store_explicit(&hole->gap, gap, memory_order_relaxed);
	atomic_store_explicit(&hole->done, done, memory_order_relaxed);
	atomic_store_explicit(&hole->probed, true, memory_order_relaxed);
}

/* An acknowledgement, or a NAK of the sequence with that PSN, has come, and is about to be looked at. By any thread. */
static inline void simhca_path_hole_heard(struct simhca_path_hole *hole, uint32_t psn, bool is_nak)
{
	if (atomic_load_explicit(&hole->probed, memory_order_relaxed) &&
	    (!is_nak || psn == atomic_load_explicit(&hole->gap, memory_order_relaxed) ||
	     psn == atomic_load_explicit(&hole->done, memory_order_relaxed)))
		atomic_store_explicit(&hole->answered, true, memory_order_relaxed);
}

static inline bool simhca_path_hole_is_there(const struct simhca_path_hole *hole)
{
	return atomic_load_explicit(&hole->answered, memory_order_relaxed);
}

#endif
