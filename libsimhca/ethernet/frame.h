/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Ethernet frames: what their headers say, and their checksums. A frame begins with its
 * destination address and has no FCS. Nothing in it is to be trusted: every length is checked
 * against the bytes that are there.
 */
#ifndef LIBSIMHCA_FRAME_H
#define LIBSIMHCA_FRAME_H

#include <stdbool.h>
#include <stdint.h>

#include "simhca-abi.h"

#define SIMHCA_VLAN_BYTES 4u
#define SIMHCA_VLAN_OFFSET 12u /* of the first tag, behind the two addresses */

struct simhca_frame {
	struct simhca_frame_fields fields;
	bool cvlan;	 /* the first tag is a C-VLAN tag, which can be stripped */
	bool fragment;	 /* of an IP packet: no checksum of it can be told */
	uint32_t l3, l4; /* offsets of the IP header and of what follows it; 0: there is none */
	uint32_t end;	 /* of the IP packet, by its length field; not beyond the frame */
	bool truncated;	 /* the IP packet is longer than the frame */
};

/* At least SIMHCA_FRAME_MIN bytes. */
void simhca_frame_parse(const uint8_t *bytes, uint32_t length, struct simhca_frame *frame);

static inline bool simhca_frame_is_multicast(const struct simhca_frame *frame)
{
	return frame->fields.dst_mac[0] & 1;
}

/* Writes the IPv4 header's checksum and that of TCP or UDP, as far as the frame has them. */
void simhca_frame_set_checksums(uint8_t *bytes, const struct simhca_frame *frame);
/* Whether it is IPv4 with TCP or UDP and both checksums are right (UDP may have none). */
bool simhca_frame_checksums_ok(const uint8_t *bytes, const struct simhca_frame *frame);

#endif
