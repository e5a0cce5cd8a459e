/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What packets count for: what they would be on a wire. */
#include "engine/stats.h"
#include "simhca-device.h"
#include "traffic.h"
#include "packet/packet.h"
#include "queue/psn.h"
#include "proto/qp.h"

/* Bytes of headers (IBTA vol. 1, chapter 9.2). */
#define BTH_AND_ICRC (12 + 4)
#define DETH 8
#define FETH 4
#define RETH 16
#define ATOMIC_ETH 28
#define IMM_DT 4
#define IETH 4
#define AETH 4
#define ATOMIC_ACK_ETH 8
#define CNP_RESERVED 16

struct wire {
	uint64_t packets, bytes;
};

/* Payload in packets of the path MTU; each is padded to four bytes, of which only the last can. */
static struct wire with_payload(const struct simhca_packet *packet, uint32_t mtu)
{
	uint64_t packets = simhca_psn_count(packet->length, mtu);

	return (struct wire){ packets, packets * BTH_AND_ICRC + ((packet->length + 3) & ~3ull) };
}

static uint32_t path_mtu(const struct simhca_packet *packet)
{
	return simhca_mtu_bytes(packet->mtu ? packet->mtu : 5);
}

/* What a packet would be on a wire, from its BTH to its ICRC; a raw frame is what it is. */
static struct wire wire_of(const struct simhca_packet *packet)
{
	struct wire wire = { 1, BTH_AND_ICRC };

	if (packet->transport == SIMHCA_QPT_RAW_PACKET)
		return (struct wire){ 1, packet->length };
	switch (packet->op) {
	case SIMHCA_PKT_SEND:
		wire = with_payload(packet, path_mtu(packet));
		break;
	case SIMHCA_PKT_WRITE:
	case SIMHCA_PKT_ATOMIC_WRITE:
		wire = with_payload(packet, path_mtu(packet));
		wire.bytes += packet->first ? RETH : 0;
		break;
	case SIMHCA_PKT_READ:
		wire.bytes += RETH;
		break;
	case SIMHCA_PKT_FLUSH:
		wire.bytes += FETH + RETH;
		break;
	case SIMHCA_PKT_COMPARE_SWAP:
	case SIMHCA_PKT_FETCH_ADD:
		wire.bytes += ATOMIC_ETH;
		break;
	case SIMHCA_PKT_READ_RESPONSE:
		wire = with_payload(packet, path_mtu(packet));
		wire.bytes += packet->first || packet->last ? AETH : 0;
		wire.bytes += packet->first && packet->last && wire.packets > 1 ? AETH : 0;
		break;
	case SIMHCA_PKT_ATOMIC_ACK:
		wire.bytes += AETH + ATOMIC_ACK_ETH;
		break;
	case SIMHCA_PKT_ACK:
		wire.bytes += AETH;
		break;
	case SIMHCA_PKT_CNP:
		wire.bytes += CNP_RESERVED;
		break;
	}
	if (packet->transport == SIMHCA_QPT_UD)
		wire.bytes += DETH;
	wire.bytes += (packet->has_imm ? IMM_DT : 0) + (packet->has_inv ? IETH : 0);
	return wire;
}

static void count_sent(const struct simhca_worker *worker, struct simhca_device *device,
		       const struct simhca_packet *packet, struct wire wire)
{
	simhca_stats_add(worker, device, SIMHCA_STAT_XMIT_BYTES, wire.bytes);
	simhca_stats_add(worker, device, SIMHCA_STAT_XMIT_PACKETS, wire.packets);
	if (packet->dest_qpn == SIMHCA_MCAST_QPN)
		simhca_stats_add(worker, device, SIMHCA_STAT_XMIT_MULTICAST, wire.packets);
}

static void count_received(const struct simhca_worker *worker, struct simhca_device *device,
			   const struct simhca_packet *packet, struct wire wire)
{
	simhca_stats_add(worker, device, SIMHCA_STAT_RCV_BYTES, wire.bytes);
	simhca_stats_add(worker, device, SIMHCA_STAT_RCV_PACKETS, wire.packets);
	if (packet->dest_qpn == SIMHCA_MCAST_QPN)
		simhca_stats_add(worker, device, SIMHCA_STAT_RCV_MULTICAST, wire.packets);
}

void simhca_stats_sent(const struct simhca_worker *worker, struct simhca_device *device,
		       const struct simhca_packet *packet)
{
	count_sent(worker, device, packet, wire_of(packet));
}

void simhca_stats_received(const struct simhca_worker *worker, struct simhca_device *device,
			   const struct simhca_packet *packet)
{
	count_received(worker, device, packet, wire_of(packet));
}

void simhca_stats_carried(const struct simhca_worker *worker, struct simhca_device *from,
			  struct simhca_device *to, const struct simhca_packet *packet)
{
	struct wire wire = wire_of(packet);

	count_sent(worker, from, packet, wire);
	count_received(worker, to, packet, wire);
}
