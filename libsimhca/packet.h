/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Packets: the fields of the InfiniBand transport headers (IBTA vol. 1, chapter 9.2) and a
 * reference to the payload where it lies. A link carries them: the local one by a call, with
 * the payload still in its owner's memory; a later one may serialise the same structs.
 */
#ifndef LIBSIMHCA_PACKET_H
#define LIBSIMHCA_PACKET_H

#include <stdbool.h>
#include <stdint.h>

#include "dma.h"
#include "simhca-abi.h"

/* What the BTH opcode says, taken apart: operation, and place in the message. */
enum simhca_packet_op {
	SIMHCA_PKT_SEND,
	SIMHCA_PKT_WRITE,
	SIMHCA_PKT_READ,
	SIMHCA_PKT_COMPARE_SWAP,
	SIMHCA_PKT_FETCH_ADD,
	SIMHCA_PKT_ATOMIC_WRITE,
	SIMHCA_PKT_FLUSH,
};

struct simhca_packet {
	enum simhca_packet_op op;
	enum simhca_qp_type transport;
	bool first, last; /* both: ONLY */
	bool solicited;
	bool has_imm; /* ImmDt, on the last packet */
	bool has_inv; /* IETH, on the last packet of a send */
	/* BTH */
	uint32_t dest_qpn;
	uint32_t psn;
	uint16_t pkey;
	/* the requester, which a wire would know by its addresses */
	uint32_t src_qpn;
	uint32_t src_context; /* id of its context */
	/* XRCETH */
	uint32_t xrc_srqn;
	/* DETH */
	uint32_t qkey;
	/* RETH, AtomicETH: of the whole message on a first packet, of the rest after it */
	uint64_t va;
	uint32_t rkey;
	uint64_t dma_length;
	struct simhca_atomic_op atomic;
	/* FETH */
	uint8_t flush_placement, flush_selectivity;
	/* ImmDt (big endian), IETH */
	uint32_t imm_or_rkey;
	/* GRH and LRH, as far as a receiver sees them */
	const struct simhca_av *av;
	union simhca_gid sgid;
	uint16_t slid;
	/* payload; for a read the memory that takes the response */
	struct simhca_sgl payload;
	uint64_t length; /* bytes of payload */
	uint8_t mtu;	 /* of the path: enum ibv_mtu; 0: the port's */
	/* RAW_PACKET: the payload is an Ethernet frame (ethernet.h) */
	bool set_checksums; /* the sender wants them filled in */
	bool checksums_ok;
	bool has_cvlan; /* the frame has a C-VLAN tag in front: */
	uint16_t cvlan;
	uint32_t flow_tag;
	/* Its pages were just brought in: it goes on whatever became of them since. */
	bool resumed;
};

/* AETH syndromes (IBTA vol. 1, 9.7.5.2.1), and what else may come of a request. */
enum simhca_answer {
	SIMHCA_ANSWER_ACK,
	SIMHCA_ANSWER_RNR_NAK,
	SIMHCA_ANSWER_NAK_PSN,	       /* PSN sequence error */
	SIMHCA_ANSWER_NAK_INVALID,     /* invalid request */
	SIMHCA_ANSWER_NAK_ACCESS,      /* remote access error */
	SIMHCA_ANSWER_NAK_OPERATIONAL, /* remote operational error */
	SIMHCA_ANSWER_NONE,	       /* lost, or nobody there; the requester's timer knows */
	SIMHCA_ANSWER_PAYLOAD,	 /* the requester's own payload could not be read or written */
	SIMHCA_ANSWER_BUSY,	 /* another engine works on the responder: try again */
	SIMHCA_ANSWER_ELSEWHERE, /* another engine must carry this request: `engine` */
	SIMHCA_ANSWER_FAULT,	 /* RNR NAK for a page fault: costs no retry */
};

struct simhca_reply {
	enum simhca_answer answer;
	enum simhca_reason reason;    /* the precise cause, as the responder saw it */
	uint8_t rnr_timer;	      /* RNR_NAK: coded, IBTA vol. 1 table 45 */
	uint32_t epsn;		      /* NAK_PSN: the PSN expected */
	uint64_t atomic_old;	      /* atomics: the value that was there */
	struct simhca_engine *engine; /* ELSEWHERE */
};

#endif
