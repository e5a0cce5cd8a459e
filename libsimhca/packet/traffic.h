/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What packets count for: what they would be on a wire, from BTH to ICRC (IBTA vol. 1, 9.2). */
#ifndef LIBSIMHCA_PACKET_TRAFFIC_H
#define LIBSIMHCA_PACKET_TRAFFIC_H

#include "core/mtu.h"
#include "packet.h"
#include "queue/psn.h"

struct simhca_traffic {
	uint64_t packets, bytes;
};

/*
 * The payload is in packets of the path MTU. Each is padded to four bytes, which only the last one
 * needs. A raw frame is what it is.
 */
static inline struct simhca_traffic simhca_traffic_of(const struct simhca_packet *packet)
{
	enum { BTH_AND_ICRC = 12 + 4, DETH = 8, AETH = 4, RETH = 16, IMM_DT = 4, IETH = 4 };
	/* Headers that come once, with what is the first of several or the only one. */
	static const uint8_t extended[] = {
		[SIMHCA_PKT_SEND] = 0,
		[SIMHCA_PKT_WRITE] = RETH,
		[SIMHCA_PKT_READ] = RETH,
		[SIMHCA_PKT_COMPARE_SWAP] = 28,
		[SIMHCA_PKT_FETCH_ADD] = 28,
		[SIMHCA_PKT_ATOMIC_WRITE] = RETH,
		[SIMHCA_PKT_FLUSH] = 4 + RETH,
		[SIMHCA_PKT_ACK] = AETH,
		[SIMHCA_PKT_READ_RESPONSE] = AETH,
		[SIMHCA_PKT_ATOMIC_ACK] = AETH + 8,
		[SIMHCA_PKT_CNP] = 16,
		[SIMHCA_PKT_EFA] = 0,
	};
	uint32_t mtu = simhca_mtu_bytes(packet->mtu);
	struct simhca_traffic traffic = { .packets = simhca_psn_count(packet->length, mtu) };

	if (packet->transport == SIMHCA_QPT_RAW_PACKET)
		return (struct simhca_traffic){ 1, packet->length };
	traffic.bytes = traffic.packets * BTH_AND_ICRC + ((packet->length + 3) & ~3ull);
	if (packet->first || !packet->length)
		traffic.bytes += extended[packet->op];
	/* The last packet of a read's response has an AETH as well (9.7.5.2.1). */
	if (packet->op == SIMHCA_PKT_READ_RESPONSE && packet->last &&
	    (!packet->first || traffic.packets > 1))
		traffic.bytes += AETH;
	if (packet->transport == SIMHCA_QPT_UD)
		traffic.bytes += DETH;
	traffic.bytes += (packet->has_imm ? IMM_DT : 0) + (packet->has_inv ? IETH : 0);
	return traffic;
}

#endif
