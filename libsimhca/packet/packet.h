/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Packets: the fields of the InfiniBand transport headers (IBTA vol. 1, chapter 9.2) and a
 * reference to the payload where it lies. Requests and responses are packets alike. A link
 * carries them (link.h).
 *
 * On a link that carries more than a path MTU at a time a packet stands for as many as it would be
 * on a wire: it has the PSN of the first of them, and first and last say whether the message's
 * first and last are among them.
 */
#ifndef LIBSIMHCA_PACKET_H
#define LIBSIMHCA_PACKET_H

#include <stdbool.h>
#include <stdint.h>

#include "core/mtu.h"
#include "dma/dma.h"
#include "queue/opcode.h"
#include "queue/psn.h"
#include "simhca-abi.h"

/* AETH syndromes (IBTA vol. 1, 9.7.5.2.1). */
enum simhca_syndrome {
	SIMHCA_SYNDROME_ACK = 0x1f, /* no credit count: this device's flow control is RNR NAKs */
	SIMHCA_SYNDROME_RNR_NAK = 0x20, /* and the coded timer, IBTA vol. 1 table 45 */
	SIMHCA_SYNDROME_NAK_PSN = 0x60,
	SIMHCA_SYNDROME_NAK_INVALID = 0x61,	/* invalid request */
	SIMHCA_SYNDROME_NAK_ACCESS = 0x62,	/* remote access error */
	SIMHCA_SYNDROME_NAK_OPERATIONAL = 0x63, /* remote operational error */
};
#define SIMHCA_SYNDROME_IS_ACK(syndrome) ((syndrome) < 0x20)
#define SIMHCA_SYNDROME_IS_RNR(syndrome) (((syndrome)&0xe0) == SIMHCA_SYNDROME_RNR_NAK)
#define SIMHCA_RNR_TIMER_MASK 0x1f

/* In an order that leaves no holes: one is made for each packet. */
struct simhca_packet {
	enum simhca_packet_op op;
	enum simhca_qp_type transport;
	bool first, last; /* both: ONLY */
	bool solicited;
	bool has_imm;  /* ImmDt, on the last packet */
	bool has_inv;  /* IETH, on the last packet of a send */
	bool ack_req;  /* BTH */
	uint8_t mtu;   /* of the path: enum ibv_mtu; 0: the port's */
	bool gathered; /* several from a wire, each but the last of the path MTU */
	/* Its pages were just brought in: it goes on whatever became of them since. */
	bool resumed;
	/* BTH */
	uint32_t dest_qpn;
	uint32_t psn;
	/* the sender, which a wire would know by its addresses */
	uint32_t src_qpn;
	uint32_t src_context; /* id of its context */
	/* XRCETH */
	uint32_t srqn;
	bool remote; /* or it came from a wire, from whom the QP is connected to */
	/* DETH */
	uint32_t qkey;
	/* One read or atomic more than the responder takes at once: the link's to say (local.c). */
	bool exceeds_rd_atomic;
	/* RETH, AtomicETH: of the whole message, on a first packet */
	uint64_t va;
	uint64_t dma_length;
	struct simhca_atomic_op atomic;
	uint32_t rkey;
	/* ImmDt (big endian), IETH */
	uint32_t imm_or_rkey;
	/* FETH */
	uint8_t flush_placement, flush_selectivity;
	/* AETH, AtomicAckETH */
	uint8_t syndrome; /* enum simhca_syndrome */
	/* RAW_PACKET: the payload is an Ethernet frame (ethernet.h) */
	bool set_checksums; /* the sender wants them filled in */
	bool checksums_ok;
	bool has_cvlan; /* the frame has a C-VLAN tag in front: */
	uint16_t cvlan;
	uint32_t flow_tag;
	uint32_t msn;	     /* AETH */
	uint64_t atomic_old; /* AtomicAckETH: the value that was there */
	/* What a NAK is for. No header has it: it is there if both ends are this device's. */
	enum simhca_reason reason;
	/* GRH and LRH, as far as a receiver sees them */
	uint16_t slid;
	const struct simhca_av *av;
	union simhca_gid sgid;
	uint64_t length; /* bytes of payload */
	const struct simhca_sgl *payload;
};

static inline bool simhca_is_response(enum simhca_packet_op op)
{
	return op >= SIMHCA_PKT_ACK;
}

/* Bytes that a request brings, or, of a read, asks for. */
static inline uint64_t simhca_request_bytes(const struct simhca_packet *packet)
{
	return packet->op == SIMHCA_PKT_READ ? packet->dma_length : packet->length;
}

/* PSNs that a request takes: a read takes those of its responses (IBTA vol. 1, 9.7.5.1.1). */
static inline uint32_t simhca_request_psns(const struct simhca_packet *packet,
					   uint32_t mtu /* enum ibv_mtu */)
{
	return simhca_psn_count(simhca_request_bytes(packet), simhca_mtu_bytes(mtu));
}

/* The rights that a request needs, of the QP and of the key that it names (IBTA vol. 1, 9.7.4.1.5, A19). */
static inline uint32_t simhca_rights_for(const struct simhca_packet *packet)
{
	switch (packet->op) {
	case SIMHCA_PKT_WRITE:
	case SIMHCA_PKT_ATOMIC_WRITE:
		return SIMHCA_ACCESS_REMOTE_WRITE;
	case SIMHCA_PKT_READ:
		return SIMHCA_ACCESS_REMOTE_READ;
	case SIMHCA_PKT_COMPARE_SWAP:
	case SIMHCA_PKT_FETCH_ADD:
		return SIMHCA_ACCESS_REMOTE_ATOMIC;
	case SIMHCA_PKT_FLUSH:
		return (packet->flush_placement & SIMHCA_FLUSH_GLOBAL ? SIMHCA_ACCESS_FLUSH_GLOBAL
								      : 0) |
		       (packet->flush_placement & SIMHCA_FLUSH_PERSISTENT
				? SIMHCA_ACCESS_FLUSH_PERSISTENT
				: 0);
	default: /* it names no memory */
		return 0;
	}
}

/* What a QP says that does not grant this right. */
static inline enum simhca_reason simhca_reason_without(uint32_t right)
{
	if (right & SIMHCA_ACCESS_REMOTE_WRITE)
		return SIMHCA_REASON_QP_NO_REMOTE_WRITE;
	if (right & SIMHCA_ACCESS_REMOTE_READ)
		return SIMHCA_REASON_QP_NO_REMOTE_READ;
	if (right & SIMHCA_ACCESS_REMOTE_ATOMIC)
		return SIMHCA_REASON_QP_NO_REMOTE_ATOMIC;
	return right & SIMHCA_ACCESS_FLUSH_GLOBAL ? SIMHCA_REASON_QP_NO_FLUSH_GLOBAL
						  : SIMHCA_REASON_QP_NO_FLUSH_PERSISTENT;
}

/*
 * Why a QP does not carry out a one-sided request, whatever memory that names (IBTA vol. 1, 9.7.4.1.5): its
 * access flags do not grant it, it takes no reads and atomics or not one more of them, or an atomic's
 * address is not aligned.
 */
static inline enum simhca_reason simhca_request_granted(const struct simhca_packet *packet,
							const struct simhca_qpc *qpc)
{
	uint32_t missing = simhca_rights_for(packet) & ~qpc->access;

	if (missing)
		return simhca_reason_without(missing);
	if (packet->op == SIMHCA_PKT_WRITE)
		return SIMHCA_REASON_NONE;
	if (packet->exceeds_rd_atomic)
		return SIMHCA_REASON_RD_ATOMIC_EXCEEDED;
	if (!qpc->max_dest_rd_atomic)
		return SIMHCA_REASON_RESP_NO_RD_ATOMIC;
	return packet->op != SIMHCA_PKT_READ && packet->op != SIMHCA_PKT_FLUSH && (packet->va & 7)
		       ? SIMHCA_REASON_ATOMIC_UNALIGNED
		       : SIMHCA_REASON_NONE;
}

/* relaxed: it may change meanwhile, and a datagram has one or the other. */
static inline uint32_t simhca_qkey(const struct simhca_qpc *qpc)
{
	return atomic_load_explicit(&qpc->qkey, memory_order_relaxed);
}

/* Of a Q_Key that a send has: the QP's own goes in its place (IBTA vol. 1, 10.2.5). */
#define SIMHCA_QKEY_CONTROLLED 0x80000000u

/* That a datagram is sent with. */
static inline uint32_t simhca_qkey_of_send(const struct simhca_send_wqe *wqe,
					   const struct simhca_qpc *qpc)
{
	return wqe->ud.qkey & SIMHCA_QKEY_CONTROLLED ? simhca_qkey(qpc) : wqe->ud.qkey;
}

#endif
