/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Datagrams that a thread is about to send. Those that follow each other to one address, and are of
 * one length but the last, are a run: the kernel takes it by one call, and cuts it up.
 *
 * A QP's acknowledgement waits until the step ends, as a later one says the same, or until the QP
 * sends something else, which it goes before.
 */
#ifndef LIBSIMHCA_OUTBOX_H
#define LIBSIMHCA_OUTBOX_H

#include "link/wire/bth.h"
#include "link/wire/wire.h"

struct simhca_wire;

#define SIMHCA_OUTBOX_BYTES (128u << 10)
#define SIMHCA_OUTBOX_RUNS 128
#define SIMHCA_OUTBOX_ACKS 16
#define SIMHCA_ACK_BYTES (SIMHCA_BTH_BYTES + 4u) /* and the ICRC */

/* A QP's acknowledgement. One of a later PSN says the same, and more. */
struct simhca_outbox_ack {
	const void *of; /* to compare; it may be gone */
	struct simhca_wire_path path;
	uint8_t traffic_class;
	uint32_t psn;
	uint8_t headers[SIMHCA_HEADERS_MOST]; /* SIMHCA_ACK_BYTES of them */
};

struct simhca_outbox {
	struct simhca_wire *wire;
	struct simhca_outbox_ack ack[SIMHCA_OUTBOX_ACKS];
	unsigned int acks;
	size_t used;
	unsigned int runs, in_run; /* in_run: datagrams of the newest */
	bool complete;		   /* the newest run has its last datagram */
	/* With room for the acknowledgements. */
	struct simhca_wire_run run[SIMHCA_OUTBOX_RUNS + SIMHCA_OUTBOX_ACKS];
	uint8_t bytes[SIMHCA_OUTBOX_BYTES +
		      SIMHCA_OUTBOX_ACKS * (SIMHCA_ACK_BYTES + SIMHCA_ICRC_BYTES)];
};

/* Where to write datagrams of so many bytes in all; NULL: it is to be emptied first. */
uint8_t *simhca_outbox_room(struct simhca_outbox *outbox, size_t bytes, unsigned int datagrams);
/*
 * The next of those bytes are a datagram. alone: it is a run by itself. Returns its place in its
 * run, which is the identification in its IP header.
 */
uint16_t simhca_outbox_add(struct simhca_outbox *outbox, const struct simhca_wire_path *path,
			   uint8_t traffic_class, size_t length, bool alone);
/* The acknowledgement of that QP that waits; NULL: none does. */
struct simhca_outbox_ack *simhca_outbox_find_ack(struct simhca_outbox *outbox, const void *of);
void simhca_outbox_empty(struct simhca_outbox *outbox);

#endif
