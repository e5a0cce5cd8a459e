/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Datagrams that a thread is about to send, until the step of its QP ends. Those that follow each
 * other to one address, and are of one length but the last, are a run: the kernel takes it by one
 * call, and cuts it up.
 */
#ifndef LIBSIMHCA_OUTBOX_H
#define LIBSIMHCA_OUTBOX_H

#include "link/wire/bth.h"
#include "link/wire/wire.h"

struct simhca_wire;

/* Four slices of 64 KiB: a run holds 15 datagrams of 4 KiB, so 64 of them are five runs, not eight. */
#define SIMHCA_OUTBOX_BYTES (320u << 10)
#define SIMHCA_OUTBOX_RUNS 128
#define SIMHCA_ACK_BYTES (SIMHCA_BTH_BYTES + 4u) /* and the ICRC */

/*
 * The ACK of the QP whose step this is: the outbox is emptied when the step ends. One of a later PSN
 * says the same, and more.
 */
struct simhca_outbox_ack {
	bool waits;
	struct simhca_wire_path path;
	uint8_t traffic_class;
	uint32_t psn;
	uint8_t headers[SIMHCA_HEADERS_MOST]; /* SIMHCA_ACK_BYTES of them */
};

struct simhca_outbox {
	struct simhca_wire *wire;
	struct simhca_outbox_ack ack;
	size_t used;
	unsigned int runs, in_run; /* in_run: datagrams of the newest */
	bool complete;		   /* the newest run has its last datagram */
	struct simhca_wire_run run[SIMHCA_OUTBOX_RUNS];
	uint8_t bytes[SIMHCA_OUTBOX_BYTES];
};

/* Where to write datagrams of so many bytes in all; NULL: it is to be emptied first. */
uint8_t *simhca_outbox_room(struct simhca_outbox *outbox, size_t bytes, unsigned int datagrams);
/*
 * The next of those bytes are a datagram. alone: it is a run by itself. Returns its place in its
 * run, which is the identification in its IP header.
 */
uint16_t simhca_outbox_add(struct simhca_outbox *outbox, const struct simhca_wire_path *path,
			   uint8_t traffic_class, size_t length, bool alone);
void simhca_outbox_empty(struct simhca_outbox *outbox);

#endif
