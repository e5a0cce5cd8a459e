/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Datagrams, and the header that a receive has before them. */
#include <arpa/inet.h>
#include <string.h>

#include "checksum.h"
#include "device/av.h"
#include "packet.h"
#include "responder_impl.h"

/*
 * The 40 bytes before a datagram: a GRH (IBTA vol. 1, 8.3), or on RoCE v2 the IP header, which
 * for IPv4 stands in the last 20 of them (annex A17.4.5.2).
 */
static void build_grh(const struct simhca_packet *packet, bool infiniband,
		      uint8_t grh[SIMHCA_GRH_BYTES])
{
	const struct simhca_av *av = packet->av;
	/* BTH, DETH, data, ICRC; and on RoCE v2 the UDP header before them. */
	uint16_t payload = (uint16_t)(12 + 8 + packet->length + 4 + (infiniband ? 0 : 8));
	uint32_t word;

	memset(grh, 0, SIMHCA_GRH_BYTES);
	if (!infiniband && simhca_gid_is_ipv4(&av->dgid)) {
		uint8_t *ip = grh + 20;
		uint16_t half;

		ip[0] = 0x45;
		ip[1] = av->traffic_class;
		half = htons((uint16_t)(20 + payload));
		memcpy(ip + 2, &half, 2);
		ip[6] = 0x40; /* do not fragment */
		ip[8] = av->hop_limit;
		ip[9] = 17; /* UDP */
		memcpy(ip + 12, packet->sgid.raw + 12, 4);
		memcpy(ip + 16, av->dgid.raw + 12, 4);
		half = htons(simhca_checksum_end(simhca_checksum_add(0, ip, 20)));
		memcpy(ip + 10, &half, 2);
		return;
	}
	word = htonl(6u << 28 | (uint32_t)av->traffic_class << 20 | (av->flow_label & 0xfffff));
	memcpy(grh, &word, 4);
	grh[4] = (uint8_t)(payload >> 8);
	grh[5] = (uint8_t)payload;
	grh[6] = infiniband ? 0x1b /* IBA transport */ : 17 /* UDP */;
	grh[7] = av->hop_limit;
	memcpy(grh + 8, packet->sgid.raw, 16);
	memcpy(grh + 24, av->dgid.raw, 16);
}

void simhca_run_datagram(struct simhca_worker *worker, struct simhca_qp *qp,
			 const struct simhca_packet *packet, struct simhca_reply *reply)
{
	uint8_t grh[SIMHCA_GRH_BYTES];
	struct simhca_sgl header;
	struct simhca_recv recv;

	if (packet->qkey != qp->qpc->qkey) { /* dropped and counted (IBTA vol. 1, 10.2.5) */
		atomic_fetch_add(&qp->device->mem->port.qkey_viol_cntr, 1);
		return;
	}
	if (!simhca_recv_need(worker, qp, packet, reply))
		return;
	qp->resp.offset = 0;
	if (!simhca_recv_wqe(qp, &recv, reply))
		return;
	if (SIMHCA_GRH_BYTES + packet->length > recv.length) {
		simhca_refuse(qp, packet, SIMHCA_SYNDROME_NAK_INVALID, SIMHCA_WC_LOC_LEN_ERR,
			      SIMHCA_REASON_RECV_TOO_SHORT, reply);
		return;
	}
	if (packet->av->is_global) {
		build_grh(packet, qp->device->config.infiniband, grh);
		header.count = 1;
		header.seg[0] =
			(struct simhca_seg){ .addr = (uintptr_t)grh, .length = sizeof(grh) };
		if (!simhca_recv_place(worker, qp, packet, &header, 0, sizeof(grh), reply))
			return;
	}
	if (!simhca_recv_place(worker, qp, packet, packet->payload, SIMHCA_GRH_BYTES,
			       packet->length, reply))
		return;
	simhca_recv_complete(qp, packet, SIMHCA_WC_SUCCESS, SIMHCA_REASON_NONE,
			     SIMHCA_GRH_BYTES + packet->length);
	simhca_reply_ack(reply);
}
