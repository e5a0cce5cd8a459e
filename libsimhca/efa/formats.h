/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * EFA's formats, as libefa writes and reads them. Little endian, as the CPUs are on which libefa runs.
 *
 * A QP has a send queue of WQEs of 64 bytes, or of 128, which differ in their inline data alone, a
 * receive queue of descriptors of 16 bytes, and for each a doorbell: a word with the number of
 * entries that were posted since the QP was made or reset, of which the low 16 bits count. A CQ is a ring of CQEs, in which the device alone writes; a bit that
 * changes from one round to the next says which are new.
 */
#ifndef LIBSIMHCA_EFA_FORMATS_H
#define LIBSIMHCA_EFA_FORMATS_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#define EFA_RING_MOST                                                                              \
	0x8000u		/* entries, a power of 2: a doorbell tells a full ring from an empty one */
#define EFA_SEND_SGES 2 /* buffers of a WQE, */
#define EFA_RECV_SGES 4 /* and of a receive: a descriptor each */
#define EFA_INLINE 32	/* bytes */
#define EFA_INLINE_WIDE 80

enum efa_opcode {
	EFA_SEND = 0,
	EFA_RDMA_READ = 1,
	EFA_RDMA_WRITE = 2,
};

/* Of struct efa_send_wqe: control. */
#define EFA_WQE_OPCODE 0x000fu
#define EFA_WQE_HAS_IMM 0x0010u
#define EFA_WQE_INLINE 0x0020u
#define EFA_WQE_FIRST 0x0400u
#define EFA_WQE_LAST 0x0800u

#define EFA_KEY_MASK 0x00ffffffu /* of a word with an lkey; the rest is flags, or zero */

/* A buffer of the program's. */
struct efa_buffer {
	uint32_t length; /* bytes */
	uint32_t key;	 /* EFA_KEY_MASK, but for a remote one, which has all bits */
	uint32_t addr_low;
	uint32_t addr_high;
};

struct efa_send_wqe {
	uint16_t req_id; /* comes back in the CQE */
	uint16_t control;
	uint16_t dest_qpn;
	uint16_t length; /* of inline data, bytes; else the number of buffers */
	uint32_t imm;	 /* host order */
	uint16_t ah;	 /* the number of an address handle */
	uint16_t reserved1;
	uint32_t qkey;
	uint8_t reserved2[12];
	union {
		struct efa_buffer buffer[EFA_SEND_SGES];
		uint8_t inline_data[EFA_INLINE];
		struct {
			struct efa_buffer remote, local;
		} rdma;
	};
};
static_assert(sizeof(struct efa_send_wqe) == 64, "a WQE fills a cache line");
static_assert(offsetof(struct efa_send_wqe, buffer) == 32, "and half of it is data");

/* Inline data go on behind it; those of an RDMA write are in place of the local buffer. */
struct efa_wide_wqe {
	struct efa_send_wqe wqe;
	uint8_t more[64];
};
static_assert(sizeof(struct efa_wide_wqe) == 128, "it fills two");
static_assert(offsetof(struct efa_send_wqe, rdma.local) + EFA_INLINE_WIDE <= 128, "they have room");

/* Of struct efa_recv_desc: key_flags. */
#define EFA_RECV_FIRST (1u << 30)
#define EFA_RECV_LAST (1u << 31)

/* One buffer of a receive; those from FIRST to LAST are one receive. */
struct efa_recv_desc {
	uint32_t addr_low;
	uint32_t addr_high;
	uint16_t req_id; /* of the FIRST */
	uint16_t length; /* bytes */
	uint32_t key_flags;
};
static_assert(sizeof(struct efa_recv_desc) == 16, "as libefa lays it out");

/* What has become of a work request. libefa has it as vendor_err. */
enum efa_status {
	EFA_STATUS_OK = 0,
	EFA_STATUS_FLUSHED = 1,
	EFA_STATUS_QP_INTERNAL = 2,
	EFA_STATUS_INVALID_OP = 3,
	EFA_STATUS_INVALID_AH = 4,
	EFA_STATUS_INVALID_LKEY = 5,
	EFA_STATUS_LOCAL_LENGTH = 6,
	EFA_STATUS_BAD_ADDRESS = 7, /* no such port; of RDMA: not what the rkey names */
	EFA_STATUS_REMOTE_ABORT = 8,
	EFA_STATUS_BAD_DEST_QPN = 9,
	EFA_STATUS_RNR = 10,
	EFA_STATUS_REMOTE_LENGTH = 11,
	EFA_STATUS_BAD_STATUS = 12,   /* the receiver could not place it */
	EFA_STATUS_UNRESPONSIVE = 13, /* any more */
	EFA_STATUS_UNKNOWN_PEER = 14, /* RDMA: the other side has no address handle for us */
	EFA_STATUS_UNREACHABLE = 15,  /* it has never answered */
};

/* Of struct efa_cqe: flags. */
#define EFA_CQE_PHASE 0x01u
#define EFA_CQE_SEND (1u << 1)
#define EFA_CQE_RECV (2u << 1)
#define EFA_CQE_HAS_IMM 0x08u
#define EFA_CQE_OPCODE_SHIFT 4
#define EFA_CQE_OPCODE_MASK 0x7u  /* once shifted: enum efa_opcode */
#define EFA_CQE_UNSOLICITED 0x80u /* an RDMA write with immediate that took no receive */

#define EFA_NO_AH 0xffffu

/*
 * A CQ whose completions raise events has a doorbell: which completions the program has seen, and how
 * many events. It is armed for the next event, until that has been raised.
 */
#define EFA_CQ_DOORBELL_CI 0x0000ffffu
#define EFA_CQ_DOORBELL_EVENTS 0x60000000u
#define EFA_CQ_DOORBELL_ARM 0x80000000u

struct efa_cqe {
	uint16_t req_id;
	uint8_t status; /* enum efa_status */
	uint8_t flags;
	uint16_t qpn;
	uint16_t length; /* bytes of the message */
	/* receives */
	uint16_t ah; /* that leads to the sender; EFA_NO_AH: the program has none */
	uint16_t src_qpn;
	uint32_t imm;
	/* with entries of EFA_CQE_LONG bytes */
	union {
		uint8_t src_gid[16];  /* if ah is EFA_NO_AH */
		uint16_t length_high; /* RDMA writes: bits 16 to 31 of the length */
	};
};
#define EFA_CQE_SHORT 16u
#define EFA_CQE_LONG 32u
static_assert(sizeof(struct efa_cqe) == EFA_CQE_LONG, "as libefa lays it out");

#endif
