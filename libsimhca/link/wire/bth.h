/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The transport headers in bytes: BTH and the extended headers behind it (IBTA vol. 1, chapter 9.2
 * and 9.3; annexes A14, XRC, and A19, FLUSH and ATOMIC WRITE), to and from struct simhca_packet.
 *
 * Of EFA devices, whose own packets are not public, there is a BTH, with an opcode that the specification
 * leaves to manufacturers, and a payload, which the devices know.
 *
 * What is decoded comes from a stranger. A packet that is well formed by itself can still make no
 * sense where it arrives: that is the responder's and the completer's to judge.
 */
#ifndef LIBSIMHCA_BTH_H
#define LIBSIMHCA_BTH_H

#include <stddef.h>

#include "packet/packet.h"

#define SIMHCA_BTH_BYTES 12u
/* BTH, XRCETH, AtomicETH */
#define SIMHCA_HEADERS_MOST 44u
#define SIMHCA_ICRC_BYTES 4u
#define SIMHCA_PAD_MOST 3u
/* What a datagram holds that carries this much payload, at most. */
#define SIMHCA_DATAGRAM_MOST(payload)                                                              \
	(SIMHCA_HEADERS_MOST + (payload) + SIMHCA_PAD_MOST + SIMHCA_ICRC_BYTES)

/* What is wrong with a datagram. */
enum simhca_wire_fault {
	SIMHCA_WIRE_OK,
	SIMHCA_WIRE_TOO_SHORT,	 /* for its headers, padding and ICRC */
	SIMHCA_WIRE_BAD_VERSION, /* of the transport header */
	SIMHCA_WIRE_BAD_PKEY,	 /* not the default partition's */
	SIMHCA_WIRE_BAD_OPCODE,	 /* not of the service, or unknown */
	SIMHCA_WIRE_BAD_LENGTH,	 /* of a payload that this operation cannot have */
	SIMHCA_WIRE_BAD_ICRC,
	SIMHCA_WIRE_FAULTS,
};
const char *simhca_wire_fault_name(enum simhca_wire_fault fault); /* one word */

/*
 * The headers of a packet, without its payload, padding and ICRC: how many bytes; 0: no opcode says
 * this.
 */
size_t simhca_bth_encode(const struct simhca_packet *packet, uint8_t headers[SIMHCA_HEADERS_MOST]);

/* Bytes of padding behind a payload. */
static inline uint32_t simhca_pad(uint64_t length)
{
	return -(uint32_t)length & 3;
}

/*
 * What a UDP datagram of this length says, its ICRC apart. *payload points into it, packet->length
 * bytes; packet->payload, av, sgid and mtu are not in it, nor is src_qpn but in a datagram of UD.
 */
enum simhca_wire_fault simhca_bth_decode(const uint8_t *datagram, size_t length,
					 struct simhca_packet *packet, const uint8_t **payload);

#endif
