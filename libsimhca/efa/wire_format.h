/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What EFA devices of different hosts say to each other: the payload of a packet of RoCE v2 (link/wire/bth.h).
 * Amazon's protocol is not public, so this one is our own; Documentation/wire-design.md has it.
 *
 * A message, or a part of an RDMA operation, is a *parcel*: up to SIMHCA_EFA_MTU bytes, in as many packets as
 * the path MTU makes of them. Each packet begins with a header that has all of the parcel's facts, so packets
 * may come in any order. Parcels are answered one by one, and sent again one by one.
 */
#ifndef LIBSIMHCA_EFA_WIRE_FORMAT_H
#define LIBSIMHCA_EFA_WIRE_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EFA_WIRE_HEADER 56u   /* bytes; big endian */
#define EFA_WIRE_PARCEL 8928u /* bytes of a parcel at most: SIMHCA_EFA_MTU */
#define EFA_WIRE_PACKETS 64u  /* of a parcel, at most */

enum efa_wire_kind {
	EFA_WIRE_SEND = 1, /* SRD; as all that follow but DATAGRAM */
	EFA_WIRE_DATAGRAM, /* UD: nobody answers */
	EFA_WIRE_WRITE,	 /* places its bytes; with immediate data it is the last of its operation */
	EFA_WIRE_READ,	 /* asks for `length` bytes */
	EFA_WIRE_ANSWER, /* what has become of a parcel: `status` */
	EFA_WIRE_DATA,	 /* the answer to a READ that succeeds */
};

struct efa_wire_header {
	enum efa_wire_kind kind;
	bool has_imm;
	bool marked;	/* ANSWER, DATA: the network said of the parcel that it is full */
	uint8_t status; /* ANSWER: enum efa_status */
	uint32_t src_qpn;
	/* From one QP to another: parcels of a flow are numbered from 0. A newer one is larger. */
	uint64_t flow;
	uint32_t number;
	uint16_t reason; /* ANSWER: enum simhca_reason; 0: none that is known here */
	uint16_t unit;	 /* bytes in each packet of the parcel but the last */
	uint32_t length; /* of the parcel, bytes */
	uint32_t offset; /* of what this packet has of it */
	uint32_t qkey;
	uint32_t imm;
	uint32_t total; /* WRITE: bytes of the operation */
	uint32_t rkey;	/* WRITE, READ, with va: of the parcel's first byte */
	uint64_t va;
};

void efa_wire_encode(const struct efa_wire_header *header, uint8_t bytes[EFA_WIRE_HEADER]);
/*
 * What comes is a stranger's. False: it makes no sense by itself. `payload` bytes came in all; behind the
 * header are those that the parcel has from `offset` on.
 */
bool efa_wire_decode(const uint8_t *bytes, size_t payload, struct efa_wire_header *header);

/* Whether packets of this kind have bytes of the parcel in them. */
static inline bool efa_wire_has_data(enum efa_wire_kind kind)
{
	return kind != EFA_WIRE_READ && kind != EFA_WIRE_ANSWER;
}

static inline uint32_t efa_wire_packets(uint32_t length, uint32_t unit)
{
	return length ? (length + unit - 1) / unit : 1;
}

#endif
