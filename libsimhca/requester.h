/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What a requester knows of what it has sent. Plain data: a WQE is named by its ring index and
 * read again for each packet.
 *
 * PSNs, each no later than the next one:
 *
 *	psn_una    the oldest that is not acknowledged
 *	psn_send   the next to be sent; goes back to send again what was lost
 *	psn_sent   the first that was never sent: no answer to it is true
 *	psn_next   the first of the next message
 *
 * A message is under way from when its WQE is taken up until its completion. So messages under
 * way cover [psn_una, psn_next), in the order of the ring, and sending is one loop: the
 * packet at psn_send, of the message that holds it, whether for the first time or again.
 */
#ifndef LIBSIMHCA_REQUESTER_H
#define LIBSIMHCA_REQUESTER_H

#include <stdbool.h>
#include <stdint.h>

#include "simhca-abi.h"

#define SIMHCA_MAX_FLIGHTS 64 /* a power of two */

/* A message under way. */
struct simhca_flight {
	uint32_t first, last; /* its PSNs */
	uint32_t opcode;      /* enum simhca_wr_opcode */
};

/* What a requester waits for. */
enum simhca_wait {
	SIMHCA_WAIT_NOTHING,
	SIMHCA_WAIT_RNR,    /* the delay that an RNR NAK asked for */
	SIMHCA_WAIT_ANSWER, /* an acknowledgement; when time is up it is a retry */
	SIMHCA_WAIT_BUSY,   /* the peer's responder, which another engine works on; old accesses */
	SIMHCA_WAIT_FAULT,  /* pages of its own; whoever brings them in schedules the QP */
};

struct simhca_requester {
	uint32_t psn_una, psn_send, psn_sent, psn_next;
	uint32_t oldest; /* ring index of the oldest message under way, or else of the next WQE */
	uint32_t count;	 /* messages under way */
	uint32_t reads;	 /* of these, those whose response brings data, or is more than an ACK */
	struct simhca_flight flight[SIMHCA_MAX_FLIGHTS]; /* by ring index */
	bool alone;	/* nothing starts before the newest is complete */
	bool rndv;	/* the one under way is a rendezvous', and no WQE */
	bool answered;	/* RDMA_READ_WITH_INV, the oldest: the data are there */
	bool revoked;	/* the key to invalidate is void; old accesses may be under way */
	bool went_back; /* to psn_una, for a NAK: further ones are of the same loss */
	uint8_t retries, rnr_retries;
	bool told;	/* of silence, in the log (silence.c) */
	uint32_t why;	/* enum simhca_reason: no answer came, or none that helps */
	uint32_t wait;	/* enum simhca_wait */
	uint32_t fault; /* WAIT_FAULT: enum simhca_fault_context */
	uint64_t deadline;
	uint32_t busy; /* times in a row that the peer was busy */
};

/* The message under way that is so many younger than the oldest. */
static inline struct simhca_flight *simhca_flight(struct simhca_requester *req, uint32_t younger)
{
	return &req->flight[(req->oldest + younger) % SIMHCA_MAX_FLIGHTS];
}

static inline bool simhca_is_atomic(uint32_t opcode)
{
	return opcode == SIMHCA_WR_ATOMIC_CMP_AND_SWP || opcode == SIMHCA_WR_ATOMIC_FETCH_AND_ADD;
}

/* Its response brings data. */
static inline bool simhca_takes_response(uint32_t opcode)
{
	return opcode == SIMHCA_WR_RDMA_READ || opcode == SIMHCA_WR_RDMA_READ_WITH_INV ||
	       simhca_is_atomic(opcode);
}

/* An ACK does not answer it, and max_rd_atomic counts it. */
static inline bool simhca_is_read_like(uint32_t opcode)
{
	return simhca_takes_response(opcode) || opcode == SIMHCA_WR_ATOMIC_WRITE ||
	       opcode == SIMHCA_WR_FLUSH;
}

#endif
