/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The gate for a QP's progress. Programs can write what is there (simhca-abi-progress.h). These
 * functions judge a private copy of it, together with what no program can write, such as the sizes
 * of rings. What they let through has the invariants that are written above each of them, and the
 * code behind relies on these and checks nothing again. progress.h is the only file that reads and
 * writes the memory itself.
 *
 * The functions are pure, and include nothing but formats, so that tests/cbmc can prove the
 * invariants for every value of every field.
 */
#ifndef LIBSIMHCA_GATE_H
#define LIBSIMHCA_GATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "opcode.h"
#include "psn.h"
#include "simhca-abi.h"

/* A message under way. */
struct simhca_flight {
	uint32_t first, last; /* its PSNs */
	uint32_t opcode;      /* enum simhca_wr_opcode */
};

/* PSNs that a message takes at most: the longest one, at the smallest path MTU. */
#define SIMHCA_MESSAGE_PSNS (SIMHCA_MAX_MSG_SIZE / 256u)

static inline bool simhca_is_atomic(uint32_t opcode)
{
	return simhca_op_has(opcode, SIMHCA_OP_ATOMIC);
}

static inline bool simhca_response_has_data(uint32_t opcode)
{
	return simhca_op_has(opcode, SIMHCA_OP_FETCHES);
}

static inline bool simhca_is_local_op(uint32_t opcode)
{
	return simhca_op_has(opcode, SIMHCA_OP_LOCAL);
}

static inline bool simhca_is_read_like(uint32_t opcode)
{
	return simhca_op_has(opcode, SIMHCA_OP_READ_LIKE);
}

static inline bool simhca_is_last_to_start(uint32_t opcode)
{
	return simhca_op_has(opcode, SIMHCA_OP_LAST);
}

/* -------------------------------------------------------------------------------- rings */

/* The slot of a ring index. With entries > 0, a power of two, it is below entries. */
static inline uint32_t simhca_ring_slot(uint32_t index, uint32_t entries)
{
	return index & (entries - 1);
}

/* Where the WQE of a ring index lies. */
static inline const char *simhca_ring_wqe(const char *ring, uint32_t index, uint32_t entries,
					  uint32_t stride)
{
	return ring + (size_t)simhca_ring_slot(index, entries) * stride;
}

/*
 * How many WQEs a ring has from index ci on, by its producer's index; `least` of these are in use
 * already. True: least <= *posted <= entries.
 */
static inline bool simhca_gate_ring(uint32_t pi, uint32_t ci, uint32_t least, uint32_t entries,
				    uint32_t *posted)
{
	*posted = pi - ci;
	return *posted >= least && *posted <= entries;
}

/* ---------------------------------------------------------------------------- requester */

static inline struct simhca_flight simhca_flight_of_word(uint64_t word)
{
	return (struct simhca_flight){
		.first = word & SIMHCA_PSN_MASK,
		.last = word >> SIMHCA_FLIGHT_LAST_SHIFT & SIMHCA_PSN_MASK,
		.opcode = (uint32_t)(word >> SIMHCA_FLIGHT_OPCODE_SHIFT),
	};
}

static inline uint64_t simhca_word_of_flight(const struct simhca_flight *flight)
{
	return (uint64_t)flight->opcode << SIMHCA_FLIGHT_OPCODE_SHIFT |
	       (uint64_t)flight->last << SIMHCA_FLIGHT_LAST_SHIFT | flight->first;
}

/* PSNs of a message; a local operation takes none. */
static inline uint32_t simhca_flight_psns(const struct simhca_flight *flight)
{
	return simhca_psn_add(flight->last - flight->first, 1);
}

/* What is known of the messages under way that were looked at so far. */
struct simhca_gate_flights {
	uint32_t psns;	/* of all of them; at most SIMHCA_PSN_MASK */
	uint32_t reads; /* how many an ACK does not answer */
};

/*
 * Whether a message may be the next one: its PSNs begin where those before it end, it takes 1 to
 * SIMHCA_MESSAGE_PSNS of them, and all together take no more than there are numbers. So a PSN of
 * these messages is named by how far it is from the first one.
 */
static inline bool simhca_gate_flight(const struct simhca_flight *flight, uint32_t first,
				      bool is_oldest, bool is_newest,
				      struct simhca_gate_flights *flights)
{
	uint32_t psns = simhca_flight_psns(flight);

	if (flight->first != simhca_psn_add(first, flights->psns))
		return false;
	if (simhca_is_last_to_start(flight->opcode) && !is_newest)
		return false;
	if (simhca_is_local_op(flight->opcode)) {
		if (!is_oldest || psns)
			return false;
	} else if (!psns || psns > SIMHCA_MESSAGE_PSNS || psns > SIMHCA_PSN_MASK - flights->psns) {
		return false;
	}
	flights->psns += psns;
	flights->reads += simhca_is_read_like(flight->opcode);
	return true;
}

/* Where in flight[] a message lies that is so many younger than the one at that ring index. */
static inline uint32_t simhca_gate_place(uint32_t oldest, uint32_t younger)
{
	return (oldest + younger) % SIMHCA_MAX_FLIGHTS;
}

static inline const struct simhca_flight *
simhca_gate_nth(const struct simhca_requester *req,
		const struct simhca_flight flight[SIMHCA_MAX_FLIGHTS], uint32_t younger)
{
	return &flight[simhca_gate_place(req->oldest, younger)];
}

/* Whether each may follow the one before; there are 1 to SIMHCA_MAX_FLIGHTS. */
static inline bool simhca_gate_flights(const struct simhca_requester *req,
				       const struct simhca_flight flight[SIMHCA_MAX_FLIGHTS],
				       struct simhca_gate_flights *flights)
{
	uint32_t first = simhca_gate_nth(req, flight, 0)->first;

	*flights = (struct simhca_gate_flights){ 0 };
	for (uint32_t i = 0; i < req->count; i++)
		if (!simhca_gate_flight(simhca_gate_nth(req, flight, i), first, i == 0,
					i + 1 == req->count, flights))
			return false;
	return true;
}

/* What is under way, by its first PSN, all that it takes, and the newest message's opcode. */
static inline bool simhca_gate_under_way(const struct simhca_requester *req, uint32_t first,
					 uint32_t newest, const struct simhca_gate_flights *flights)
{
	uint32_t una, send, sent;

	if (simhca_psn_add(first, flights->psns) != req->psn_next || flights->reads != req->reads ||
	    req->alone != simhca_is_last_to_start(newest))
		return false;
	if (req->psn_una > SIMHCA_PSN_MASK || req->psn_send > SIMHCA_PSN_MASK ||
	    req->psn_sent > SIMHCA_PSN_MASK)
		return false;
	una = simhca_psn_distance(first, req->psn_una);
	send = simhca_psn_distance(first, req->psn_send);
	sent = simhca_psn_distance(first, req->psn_sent);
	if (una > send || send > sent || sent > flights->psns)
		return false;
	return !req->answered ||
	       (req->count == 1 && una == flights->psns && newest == SIMHCA_WR_RDMA_READ_WITH_INV);
}

/*
 * The requester's progress. flight[] has the `count` messages from ring index `oldest` on, each at
 * its index modulo SIMHCA_MAX_FLIGHTS. True:
 *
 *  - the PSNs have 24 bits, truth values are 0 or 1, and `wait` is an enum simhca_wait;
 *  - count <= sq_entries and count <= SIMHCA_MAX_FLIGHTS;
 *  - the messages take the PSNs [first of the oldest, psn_next), one after the other without a gap;
 *    these are fewer than 2^24;
 *  - counted from the first PSN of the oldest: psn_una <= psn_send <= psn_sent <= psn_next;
 *  - `reads` and `alone` are what the messages say; `answered` only with one READ_WITH_INV, all of
 *    which has been answered;
 *  - with no message under way psn_una, psn_send and psn_sent are psn_next, reads, alone, answered,
 *    revoked and went_back are 0, and nobody waits for an answer.
 *
 * The last is made so, as the fields say nothing then.
 */
static inline bool simhca_gate_requester(struct simhca_requester *req,
					 const struct simhca_flight flight[SIMHCA_MAX_FLIGHTS],
					 uint32_t sq_entries)
{
	struct simhca_gate_flights flights;

	if (req->psn_next > SIMHCA_PSN_MASK || req->wait > SIMHCA_WAIT_PEER ||
	    (req->fault | req->alone | req->answered | req->revoked | req->went_back |
	     req->silence_logged) > 1)
		return false;
	if (!req->count) {
		req->psn_una = req->psn_send = req->psn_sent = req->psn_next;
		req->reads = 0;
		req->alone = req->answered = req->revoked = req->went_back = 0;
		if (req->wait == SIMHCA_WAIT_ANSWER)
			req->wait = SIMHCA_WAIT_NOTHING;
		return true;
	}
	return req->count <= SIMHCA_MAX_FLIGHTS && req->count <= sq_entries &&
	       simhca_gate_flights(req, flight, &flights) &&
	       simhca_gate_under_way(req, simhca_gate_nth(req, flight, 0)->first,
				     simhca_gate_nth(req, flight, req->count - 1)->opcode,
				     &flights);
}

/* Whether a message ends before that PSN, which is one of those under way or behind them. */
static inline bool simhca_flight_ends_before(const struct simhca_flight *flight, uint32_t psn)
{
	return simhca_flight_psns(flight) <= simhca_psn_distance(flight->first, psn);
}

/* The message that a PSN is of, by how many it is younger than the oldest; or else the newest. */
static inline uint32_t simhca_gate_find(const struct simhca_requester *req,
					const struct simhca_flight flight[SIMHCA_MAX_FLIGHTS],
					uint32_t psn)
{
	uint32_t younger = 0;

	while (younger + 1 < req->count &&
	       simhca_flight_ends_before(simhca_gate_nth(req, flight, younger), psn))
		younger++;
	return younger;
}

/* Whether what is in the ring is the message that was taken up: so long, and of that kind. */
static inline bool simhca_gate_message(const struct simhca_flight *flight, uint32_t opcode,
				       uint64_t length, uint32_t mtu)
{
	return opcode == flight->opcode && length <= SIMHCA_MAX_MSG_SIZE &&
	       (simhca_is_local_op(opcode) ||
		simhca_psn_count(length, mtu) == simhca_flight_psns(flight));
}

/*
 * Where in a message the packet of a PSN begins. True: *offset <= length, and it is less unless it
 * is 0. It is true of each PSN of a message that simhca_gate_message() has let through.
 */
static inline bool simhca_gate_offset(const struct simhca_flight *flight, uint32_t psn,
				      uint64_t length, uint32_t mtu, uint64_t *offset)
{
	*offset = (uint64_t)simhca_psn_distance(flight->first, psn) * mtu;
	return !*offset || *offset < length;
}

/*
 * The PSNs of the packet at psn_send have been sent. What simhca_gate_requester() says of PSNs
 * stays true, if the message that the packet is of has so many from there on.
 */
static inline void simhca_requester_sent(struct simhca_requester *req, uint32_t psns)
{
	uint32_t sent = simhca_psn_distance(req->psn_una, req->psn_sent);

	req->psn_send = simhca_psn_add(req->psn_send, psns);
	if (simhca_psn_distance(req->psn_una, req->psn_send) > sent)
		req->psn_sent = req->psn_send;
}

/*
 * All before psn has been answered: so it has been sent, too, though a response may bring more than
 * was asked for. What is said of PSNs stays true, if psn is from psn_una to psn_next.
 */
static inline void simhca_requester_answered(struct simhca_requester *req, uint32_t psn)
{
	uint32_t psns = simhca_psn_distance(req->psn_una, psn);

	if (simhca_psn_distance(req->psn_una, req->psn_send) < psns)
		req->psn_send = psn;
	if (simhca_psn_distance(req->psn_una, req->psn_sent) < psns)
		req->psn_sent = psn;
	req->psn_una = psn;
}

/* ---------------------------------------------------------------------------- responder */

/*
 * The responder's progress. True: the PSNs have 24 bits, lengths are those of messages, truth
 * values are 0 or 1, enumerations have values of theirs; and it has a receive only if it can have
 * one: rq_entries > 0, or receives that were consumed are kept (`keeps`) outside of the queue.
 */
static inline bool simhca_gate_responder(const struct simhca_responder *resp, uint32_t rq_entries,
					 bool keeps)
{
	return resp->epsn <= SIMHCA_PSN_MASK && resp->msn <= SIMHCA_PSN_MASK &&
	       resp->psns_done <= SIMHCA_PSN_DUPLICATES && resp->offset <= SIMHCA_MAX_MSG_SIZE &&
	       resp->left <= SIMHCA_MAX_MSG_SIZE && resp->read.left <= SIMHCA_MAX_MSG_SIZE &&
	       resp->read.psn <= SIMHCA_PSN_MASK &&
	       (resp->in_message | resp->write | resp->have_recv | resp->nak_sent |
		resp->reported_psn | resp->revoked | resp->comm_est) <= 1 &&
	       resp->owed <= SIMHCA_OWES_REPEATED && resp->tm.kind <= SIMHCA_TM_RNDV &&
	       (!resp->have_recv || rq_entries || keeps);
}

/* A read or an atomic that was answered. True: its length is a message's. */
static inline bool simhca_gate_answered(const struct simhca_answered *one)
{
	return one->length <= SIMHCA_MAX_MSG_SIZE;
}

/* PSNs of its answer, of which a repeated request names one. */
static inline uint32_t simhca_answered_psns(const struct simhca_answered *one, bool is_read,
					    uint32_t mtu)
{
	return is_read ? simhca_psn_count(one->length, mtu) : 1;
}

/*
 * Whether a read of `length` bytes at va, from that PSN on, asks for a part of one that was
 * answered; the PSN is one of its answer's.
 */
static inline bool simhca_answered_covers(const struct simhca_answered *read, uint32_t psn,
					  uint64_t va, uint64_t length, uint32_t mtu)
{
	uint64_t offset = (uint64_t)simhca_psn_distance(read->psn, psn) * mtu;

	return offset <= read->length && va == read->va + offset && length <= read->length - offset;
}

#endif
