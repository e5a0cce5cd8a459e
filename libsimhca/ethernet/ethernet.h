/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The Ethernet side of a device: RAW_PACKET QPs send whole frames, flows say which QPs get them,
 * and an RSS QP hands them on to one WQ of a table.
 *
 * All Ethernet ports of the fabric share one link, a hub: each sees every frame, whatever its
 * addresses. At a port a frame goes to the QPs of the flows that match it, and to no other;
 * never to the QP that sent it. A QP or WQ gets a frame once. Who has no receive work request
 * loses it: the sender's completion says only that the frame was sent.
 */
#ifndef LIBSIMHCA_ETHERNET_H
#define LIBSIMHCA_ETHERNET_H

#include "frame.h"
#include "proto/qp.h"

/* The link of raw frames, to all who are to get one. */
extern const struct simhca_link simhca_ethernet_link;

/* Somebody who gets a frame. */
struct simhca_target {
	uint64_t id; /* unique in the fabric: context and QP number */
	struct simhca_device *device;
	uint32_t qpn; /* of a QP or a WQ */
	uint32_t flow_tag;
};
struct simhca_targets {
	uint32_t count;
	struct simhca_target target[SIMHCA_MAX_FRAME_COPIES];
};

/* flow.c: who gets this frame at this device. count: flows with counters count it. */
void simhca_flow_match(struct simhca_device *device, const struct simhca_qp *sender,
		       const struct simhca_frame *frame, uint32_t length, bool count,
		       struct simhca_targets *targets);
void simhca_targets_add(struct simhca_targets *targets, const struct simhca_qp *qp,
			uint32_t flow_tag);

/*
 * Beyond the others a RAW_PACKET QP remembers who has got the current frame, for when others could
 * not accept it at once. Under req_lock.
 */
struct simhca_frame_copies {
	bool counted;
	uint32_t index; /* the frame's ring index */
	uint32_t count;
	uint64_t done[SIMHCA_MAX_FRAME_COPIES]; /* ids of targets */
};

/* rss.c */
struct simhca_rwq_table {
	uint32_t users;
	uint32_t entries; /* a power of two */
	struct simhca_qp *wq[SIMHCA_RWQ_TABLE_ENTRIES];
};
struct simhca_rss {
	struct simhca_rwq_table *table;
	uint32_t hash_fields; /* enum simhca_hash_fields */
	uint8_t key[SIMHCA_RSS_KEY_BYTES];
};
/* The fields that are asked for and that the frame has, hashed; 0 if there is none. */
uint32_t simhca_rss_hash(const struct simhca_rss *rss, const struct simhca_frame *frame);
struct simhca_qp *simhca_rss_wq(const struct simhca_rss *rss, const struct simhca_frame *frame);

#endif
