/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Datagrams that a thread is about to send, all in a step of one QP. Those that follow each other
 * to one address, and are of one length, are a run: the kernel takes it by one call, and cuts it
 * up.
 */
#ifndef LIBSIMHCA_OUTBOX_H
#define LIBSIMHCA_OUTBOX_H

#include "link/wire/wire.h"

struct simhca_wire;

#define SIMHCA_OUTBOX_BYTES (128u << 10)
#define SIMHCA_OUTBOX_RUNS 128

struct simhca_outbox {
	struct simhca_wire *wire;
	/* The newest datagram, if it is an acknowledgement: one of a later PSN says the same, and
	 * more. */
	uint8_t *acknowledgement;
	uint32_t acknowledged;
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
/* The place of the newest datagram in its run. */
uint16_t simhca_outbox_newest(const struct simhca_outbox *outbox);
void simhca_outbox_empty(struct simhca_outbox *outbox);

#endif
