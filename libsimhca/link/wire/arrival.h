/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Packets that have come by the wire, each with its payload, and the memory of both. The memory goes
 * round: a packet that was delivered leaves its memory to one that comes, so that none is allocated
 * for each packet.
 */
#ifndef LIBSIMHCA_ARRIVAL_H
#define LIBSIMHCA_ARRIVAL_H

#include <pthread.h>

#include "link/wire/wire.h"
#include "packet/packet.h"

#define SIMHCA_ARRIVALS_MOST (64ull << 20) /* bytes of all packets that wait, with their buffers */

/* Pieces of memory of one size; whoever needs one takes one that was given back. */
struct simhca_pool {
	pthread_mutex_t lock;
	void *first; /* that was given back; it begins with a pointer to the next one */
	uint32_t count;
	uint32_t most; /* that are kept; what else is given back is freed */
	size_t size;   /* bytes */
};

struct simhca_arrivals {
	struct simhca_pool brief; /* of packets whose payload is short, or lies in a buffer */
	struct simhca_pool whole; /* of packets with any payload */
	struct simhca_pool buffers;
	_Atomic uint64_t held; /* of SIMHCA_ARRIVALS_MOST */
};

struct simhca_arrival {
	struct simhca_arrival *next;
	struct simhca_arrival *more, **end; /* with it, in order: those that are one with it */
	uint32_t count;			    /* of all these */
	struct simhca_packet packet;	    /* all of these, but for the payload */
	struct simhca_av av;		    /* as the receiver sees it: to itself */
	bool marked;			    /* by the network, which is nearly full */
	uint64_t busy_since;		    /* ns: its QP was; 0: it was not */
	struct simhca_arrivals *arrivals;
	struct simhca_pool *pool;
	struct simhca_wire_buffer *buffer; /* that the payload lies in; NULL: in room */
	const uint8_t *payload;		   /* its own */
	uint64_t length;		   /* of it, in bytes */
	uint8_t room[];
};

/* Nothing is allocated by it. */
void simhca_arrivals_open(struct simhca_arrivals *arrivals);
/* When none is left, and no buffer. */
void simhca_arrivals_close(struct simhca_arrivals *arrivals);

/* As simhca_wire_buffer_get(). */
struct simhca_wire_buffer *simhca_arrivals_buffer(struct simhca_arrivals *arrivals);

/*
 * A packet that has come in `datagram`; its payload is copied, or stays in the datagram's buffer. NULL:
 * out of memory, or those that wait have SIMHCA_ARRIVALS_MOST.
 */
struct simhca_arrival *simhca_arrival_create(struct simhca_arrivals *arrivals,
					     const struct simhca_packet *packet,
					     const uint8_t *payload,
					     const struct simhca_wire_datagram *datagram);
/* It, and those that are one with it. NULL: nothing. By any thread. */
void simhca_arrival_free(struct simhca_arrival *arrival);

#endif
