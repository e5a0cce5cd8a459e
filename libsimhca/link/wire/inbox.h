/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What has come for a QP from the wire, until an engine dequeues it. A connected QP's accepts
 * packets of its peer's address alone; a datagram QP's anybody's. Each has room for a fixed number.
 */
#ifndef LIBSIMHCA_INBOX_H
#define LIBSIMHCA_INBOX_H

#include "link/wire/arrival.h"
#include "link/wire/congestion.h"
#include "link/wire/pace.h"
#include "link/wire/path_hole.h"
#include "link/wire/share.h"
#include "link/wire/wire.h"
#include "packet/packet.h"

/* Packets in an inbox: some windows of those who know none, as on UC and UD. */
#define SIMHCA_INBOX_ROOM 1024
#define SIMHCA_CNP_NS 50000 /* between two notifications for a QP */

/* Packets that are one when they are dequeued: those of a message, in a row, as a link's slice. */
#define SIMHCA_INBOX_GATHERED 64

/* The way of a connected QP to its peer. */
struct simhca_peer_way {
	struct simhca_wire_path path; /* source_port and ip_id are 0; under one of the QP's locks */
	/* Under its requester's lock: what may be under way; how fast it sends, also to nobody. */
	struct simhca_congestion congestion;
	struct simhca_pace pace;
	struct simhca_share share;    /* what it has of the way */
	struct simhca_path_hole hole; /* whether its full packets vanish there */
};

/* NULL: out of memory. */
struct simhca_inbox *simhca_inbox_create(void);
void simhca_inbox_destroy(struct simhca_inbox *inbox);
struct simhca_peer_way *simhca_inbox_way(struct simhca_inbox *inbox);

/* From now on it accepts packets: from `path->destination` to `path->source` only; NULL: all. */
void simhca_inbox_open(struct simhca_inbox *inbox, const struct simhca_wire_path *path,
		       uint32_t peer_qpn, uint8_t mtu);
/* Takes none, and forgets those that it has. */
void simhca_inbox_close(struct simhca_inbox *inbox);

/*
 * Puts a packet into it, with its payload (simhca_arrival_create()). False: it is not for this QP, or
 * there is no room.
 */
bool simhca_inbox_put(struct simhca_inbox *inbox, const struct simhca_packet *packet,
		      const uint8_t *payload, const struct simhca_wire_datagram *datagram,
		      struct simhca_arrivals *arrivals);

/* The peer was told by the network that it is full: from its address, or it is not believed. */
bool simhca_inbox_notify(struct simhca_inbox *inbox, const struct simhca_wire_path *from);
/* The network is full by what the QP has asked for. */
void simhca_inbox_slow_down(struct simhca_inbox *inbox);
/* Whether one of these was so since it was last asked. */
bool simhca_inbox_notified(struct simhca_inbox *inbox);
/* Whether the peer is to be told: not more often than every SIMHCA_CNP_NS. In a turn. */
bool simhca_inbox_may_send_cnp(struct simhca_inbox *inbox, uint64_t now_ns);

/* Whether a request goes out for the first time. Under its requester's lock. */
bool simhca_inbox_is_new(const struct simhca_inbox *inbox, const struct simhca_packet *packet);
/*
 * A packet goes out, as `count` of one PSN each, or as a READ request, which has the PSNs of its responses: counts
 * them, and those whose PSN went before. Under
 * one of the QP's locks.
 */
void simhca_inbox_sent(struct simhca_inbox *inbox, const struct simhca_packet *packet,
		       uint32_t count);
/* False: it is not connected by the wire. */
bool simhca_inbox_traffic(struct simhca_inbox *inbox, struct simhca_wire_traffic *traffic);

/* Nobody begins a turn any more; false: one is under way. */
bool simhca_inbox_retire(struct simhca_inbox *inbox);

/* One engine at a time; false: another one has it, and will come back for what is in it. */
bool simhca_inbox_begin(struct simhca_inbox *inbox);
/* In a turn: whether the QP's timer, of that deadline, has fired since this was asked last. */
bool simhca_inbox_timer(struct simhca_inbox *inbox, uint64_t fired);
/* True: somebody was sent away meanwhile. */
bool simhca_inbox_end(struct simhca_inbox *inbox);
/*
 * The oldest, with those that follow it in its message; the oldest response if `responses`. NULL:
 * none. In a turn, as what follows.
 */
struct simhca_arrival *simhca_inbox_dequeue(struct simhca_inbox *inbox, bool responses);
/* It could not be delivered: it is the oldest again, or, if the QP was reset meanwhile, gone. */
void simhca_inbox_keep(struct simhca_inbox *inbox, struct simhca_arrival *arrival);

#endif
