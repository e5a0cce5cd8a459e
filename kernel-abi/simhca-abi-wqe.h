/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Work requests and completions: what lies in the rings of context memory. Part of simhca-abi.h,
 * which includes it.
 */
#ifndef SIMHCA_ABI_WQE_H
#define SIMHCA_ABI_WQE_H

struct simhca_sge {
	uint64_t addr;
	uint32_t length; /* bytes; 0 is 0 bytes */
	uint32_t lkey;
};
SIMHCA_ABI_SIZE(struct simhca_sge, 16);

/* the values of enum ibv_wr_opcode */
enum simhca_wr_opcode {
	SIMHCA_WR_RDMA_WRITE = 0,
	SIMHCA_WR_RDMA_WRITE_WITH_IMM = 1,
	SIMHCA_WR_SEND = 2,
	SIMHCA_WR_SEND_WITH_IMM = 3,
	SIMHCA_WR_RDMA_READ = 4,
	SIMHCA_WR_ATOMIC_CMP_AND_SWP = 5,
	SIMHCA_WR_ATOMIC_FETCH_AND_ADD = 6,
	SIMHCA_WR_LOCAL_INV = 7,
	SIMHCA_WR_BIND_MW = 8,
	SIMHCA_WR_SEND_WITH_INV = 9,
	SIMHCA_WR_FLUSH = 14,
	SIMHCA_WR_ATOMIC_WRITE = 15, /* with neither SGEs nor inline data: of rdma.swap */
	/* what enum ibv_wr_opcode has no value for (simhcadv.h) */
	SIMHCA_WR_FAST_REG = 24,
	SIMHCA_WR_RDMA_READ_WITH_INV = 25,
};

/* FLUSH, how far: the values of enum ibv_placement_type. One or both. */
enum simhca_flush_placement {
	SIMHCA_FLUSH_GLOBAL = 1 << 0,
	SIMHCA_FLUSH_PERSISTENT = 1 << 1,
};

/* FLUSH, what: the values of enum ibv_selectivity_level. */
enum simhca_flush_selectivity {
	SIMHCA_FLUSH_RANGE = 0,
	SIMHCA_FLUSH_MR = 1, /* all of the region or window; address and length say nothing */
};

/* the values of enum ibv_send_flags */
enum simhca_wqe_flags {
	SIMHCA_WQE_FENCE = 1 << 0,
	SIMHCA_WQE_SIGNALED = 1 << 1,
	SIMHCA_WQE_SOLICITED = 1 << 2,
	SIMHCA_WQE_INLINE = 1 << 3,
	SIMHCA_WQE_IP_CSUM = 1 << 4, /* RAW_PACKET: fill in the IPv4, TCP and UDP checksums */
	/*
	 * Not ibv_send_flags': whoever was about to carry the read found as many under way as the
	 * responder takes, and has left it to the device, which refuses it.
	 */
	SIMHCA_WQE_EXCEEDS_RD_ATOMIC = 1 << 5,
};

/*
 * A send WQE: this header, then either num_sge SGEs or length bytes of inline data. Which member
 * of the union counts follows from the opcode; LOCAL_INV, BIND_MW, FAST_REG and FLUSH
 * take no SGEs.
 *
 * Memory management operations that fail for a state, a right or a range complete with
 * MW_BIND_ERR ("memory management operation error"), and vendor_err names the rule.
 */
struct simhca_send_wqe {
	uint64_t wr_id;	 /* returned in the CQE */
	uint8_t opcode;	 /* enum simhca_wr_opcode */
	uint8_t flags;	 /* enum simhca_wqe_flags */
	uint8_t num_sge; /* 0 with inline data */
	uint8_t reserved0;
	/*
	 * Immediate data (big endian), or the whole key to invalidate: SEND_WITH_INV one of the
	 * receiver's, LOCAL_INV and RDMA_READ_WITH_INV one of our own.
	 */
	uint32_t imm_or_rkey;
	union {
		struct {
			uint32_t inline_len; /* bytes of inline data */
			/* XRC_SEND: the peer's SRQ, for RDMA and atomics too; else 0 */
			uint32_t srqn;
		};
		uint64_t page_list_sum; /* FAST_REG: simhca_page_list_sum() at the post */
	};
	union {
		struct {
			uint64_t remote_addr;
			uint64_t compare_add; /* atomics: compare, or the value to add */
			uint64_t swap;	      /* atomics: swap; ATOMIC_WRITE: the value */
			uint32_t rkey;
		} rdma;
		struct {
			uint64_t remote_addr;
			uint64_t length; /* bytes */
			uint64_t reserved;
			uint32_t rkey;
			uint8_t placement;   /* enum simhca_flush_placement */
			uint8_t selectivity; /* enum simhca_flush_selectivity */
			uint8_t reserved1[2];
		} flush;
		struct {
			struct simhca_av av;
			uint32_t dest_qpn;
			uint32_t qkey;
		} ud;
		struct {
			uint64_t addr;	   /* first byte, as the region's addresses count */
			uint64_t length;   /* bytes; 0 unbinds a window of type 1 */
			uint32_t mw;	   /* any key of the window: only the index counts */
			uint32_t new_rkey; /* its low 8 bits are the key's from now on */
			uint32_t lkey;	   /* of the region; with length 0 ignored */
			uint32_t access;   /* REMOTE_READ, _WRITE, _ATOMIC, ZERO_BASED; LOCAL_WRITE
					      says nothing */
			uint32_t type;	   /* 1: posted by ibv_bind_mw(); 2: by IBV_WR_BIND_MW */
			uint32_t reserved;
		} bind;
		struct {
			/*
			 * First address by which work requests name the region. It begins at the
			 * same offset (iova modulo page size) of the first page.
			 */
			uint64_t iova;
			uint64_t length; /* bytes */
			/*
			 * uint64_t [num_pages] in the memory of the process that allocated the
			 * region: addresses in that process, aligned to the page size. The device
			 * reads it between post and completion, and wants it as it was posted.
			 */
			uint64_t page_list;
			uint32_t num_pages;
			uint32_t page_shift; /* pages of 2^n bytes */
			uint32_t access;     /* enum simhca_access */
			uint32_t key;	     /* lkey and rkey from now on; the region's index */
		} fast_reg;
	};
};
SIMHCA_ABI_AT(struct simhca_send_wqe, page_list_sum, 16);
SIMHCA_ABI_AT(struct simhca_send_wqe, rdma, 24);
SIMHCA_ABI_AT(struct simhca_send_wqe, flush.rkey, offsetof(struct simhca_send_wqe, rdma.rkey));
SIMHCA_ABI_AT(struct simhca_send_wqe, bind, 24);
SIMHCA_ABI_AT(struct simhca_send_wqe, fast_reg, 24);
SIMHCA_ABI_SIZE(struct simhca_send_wqe, 64);

/*
 * By this the device sees that a page list was written after it was posted. Each step maps
 * different sums to different ones, so that a list in which one entry has changed never has the
 * same sum, and one with more changes has it once in 2^64 times. It is no defence against a forger,
 * who has nothing to gain: a list names the poster's own memory.
 */
static inline uint64_t simhca_page_list_sum(const uint64_t *pages, uint32_t count)
{
	uint64_t sum = count;

	for (uint32_t i = 0; i < count; i++) {
		sum = (sum ^ pages[i]) * 0x9e3779b97f4a7c15u;
		sum ^= sum >> 32;
	}
	return sum;
}

/* A receive WQE, of an RQ or SRQ: this header, then num_sge SGEs. */
struct simhca_recv_wqe {
	uint64_t wr_id;
	uint32_t num_sge;
	/*
	 * Of a queue that several consume from: what its completion has as wqe_index. Not 0: the
	 * data of a small SEND may stay in the CQ (SIMHCA_CQE_IN_CQ).
	 */
	uint32_t record;
};
SIMHCA_ABI_SIZE(struct simhca_recv_wqe, 16);

/*
 * Behind struct simhca_qp_mem of a QP whose receives several consume: the receive of its message at
 * hand.
 */
#define SIMHCA_RECV_COPY_BYTES                                                                     \
	(sizeof(struct simhca_recv_wqe) + SIMHCA_MAX_SGE * sizeof(struct simhca_sge))

static_assert(SIMHCA_RECV_COPY_BYTES == SIMHCA_FASTPATH_RECV_WORDS * 8, "struct simhca_fastpath");

/* Bytes from one WQE of a ring to the next. */
static inline uint32_t simhca_send_stride(uint32_t max_sge, uint32_t max_inline)
{
	uint32_t body = max_sge * (uint32_t)sizeof(struct simhca_sge);

	if (body < max_inline)
		body = max_inline;
	return (uint32_t)sizeof(struct simhca_send_wqe) + ((body + 63) & ~63u);
}

static inline uint32_t simhca_recv_stride(uint32_t max_sge)
{
	return (uint32_t)sizeof(struct simhca_recv_wqe) +
	       max_sge * (uint32_t)sizeof(struct simhca_sge);
}

/*
 * What a small SEND brings may wait for who polls, who copies it to the receive's first buffer;
 * ConnectX calls that scatter to CQE. Where it is, CQEs say: enum simhca_cqe_data.
 *
 * The device leaves it in the receive's slot of an RQ that has slot data: each slot ends with room
 * for them, on a cache line of its own. Programs leave it beside the ring of the CQ: that of CQE i
 * is in slot i modulo the number of slots, if fewer CQEs than that wait. A datagram's begins with
 * the header, as in the buffer.
 */
#define SIMHCA_SLOT_DATA 64u	   /* bytes of the message, at most */
#define SIMHCA_CQ_DATA 128u	   /* bytes of a slot beside a CQ's ring */
#define SIMHCA_CQ_DATA_SLOTS 2048u /* at most; a power of two */

static inline uint32_t simhca_recv_stride_with_data(uint32_t max_sge)
{
	return ((simhca_recv_stride(max_sge) + 63) & ~63u) + SIMHCA_SLOT_DATA;
}

/* Entries of the ring that holds wr work requests. */
static inline uint32_t simhca_ring_entries(uint32_t wr)
{
	uint32_t entries = 1;

	while (entries < wr)
		entries <<= 1;
	return entries;
}

enum simhca_cqe_flags {
	SIMHCA_CQE_RECV = 1 << 0,      /* of a receive queue; else of a send queue */
	SIMHCA_CQE_IMM = 1 << 1,       /* imm_or_rkey is immediate data */
	SIMHCA_CQE_INV = 1 << 2,       /* imm_or_rkey is the rkey that was invalidated */
	SIMHCA_CQE_GRH = 1 << 3,       /* UD: the buffer starts with a GRH */
	SIMHCA_CQE_SRQ = 1 << 4,       /* the receive WQE came from an SRQ */
	SIMHCA_CQE_SOLICITED = 1 << 5, /* the sender asked for an event */
	SIMHCA_CQE_CSUM_OK = 1 << 6,   /* a frame: its IPv4 and TCP or UDP checksums are right */
	SIMHCA_CQE_SRQ_CQ = 1 << 7,    /* an XRC or tag-matching SRQ's: see wqe_index */
};

/* Where the data of a receive are. */
enum simhca_cqe_data {
	SIMHCA_CQE_IN_PLACE = 0,
	SIMHCA_CQE_IN_WQE = 1, /* in the slot of the receive WQE */
	SIMHCA_CQE_IN_CQ = 2,  /* beside the CQ's ring */
};

/* What a completion says of tag matching; the values of enum ibv_wc_flags, shifted. */
enum simhca_cqe_tm_flags {
	SIMHCA_CQE_TM_SYNC_REQ = 1 << 0, /* unexpected messages that the client has not counted */
	SIMHCA_CQE_TM_MATCH = 1 << 1,	 /* tag and app_ctx are valid */
	SIMHCA_CQE_TM_DATA_VALID = 1 << 2,
	SIMHCA_CQE_TM_SHIFT = 4,
};

/* of enum ibv_wc_opcode: what completed */
enum simhca_wc_opcode {
	SIMHCA_WC_SEND = 0,
	SIMHCA_WC_RDMA_WRITE = 1,
	SIMHCA_WC_RDMA_READ = 2,
	SIMHCA_WC_COMP_SWAP = 3,
	SIMHCA_WC_FETCH_ADD = 4,
	SIMHCA_WC_BIND_MW = 5,
	SIMHCA_WC_LOCAL_INV = 6,
	SIMHCA_WC_FLUSH = 8,
	SIMHCA_WC_ATOMIC_WRITE = 9,
	SIMHCA_WC_RECV = 128,
	SIMHCA_WC_RECV_RDMA_WITH_IMM = 129,
	SIMHCA_WC_TM_ADD = 130,
	SIMHCA_WC_TM_DEL = 131,
	SIMHCA_WC_TM_SYNC = 132,
	SIMHCA_WC_TM_RECV = 133,
	SIMHCA_WC_TM_NO_TAG = 134,
	SIMHCA_WC_FAST_REG = 135, /* IBV_WC_DRIVER1 */
};

/* the values of enum ibv_wc_status */
enum simhca_wc_status {
	SIMHCA_WC_SUCCESS = 0,
	SIMHCA_WC_LOC_LEN_ERR = 1,
	SIMHCA_WC_LOC_QP_OP_ERR = 2,
	SIMHCA_WC_LOC_PROT_ERR = 4,
	SIMHCA_WC_WR_FLUSH_ERR = 5,
	SIMHCA_WC_MW_BIND_ERR = 6,
	SIMHCA_WC_BAD_RESP_ERR = 7,
	SIMHCA_WC_LOC_ACCESS_ERR = 8,
	SIMHCA_WC_REM_INV_REQ_ERR = 9,
	SIMHCA_WC_REM_ACCESS_ERR = 10,
	SIMHCA_WC_REM_OP_ERR = 11,
	SIMHCA_WC_RETRY_EXC_ERR = 12,
	SIMHCA_WC_RNR_RETRY_EXC_ERR = 13,
	SIMHCA_WC_FATAL_ERR = 19,
	SIMHCA_WC_GENERAL_ERR = 21,
	SIMHCA_WC_TM_ERR = 22,
	SIMHCA_WC_TM_RNDV_INCOMPLETE = 23,
};

/*
 * A CQE is valid when seq equals the low 32 bits of its index plus one: a phase that is a
 * whole counter, so that CQEs keep their validity when a resize moves them. The device
 * writes seq last, with release order; the client reads it first, with acquire order.
 */
struct simhca_cqe {
	uint64_t wr_id;
	uint64_t timestamp; /* ticks of hca_core_clock */
	uint64_t wallclock; /* ns since the epoch */
	uint32_t qpn;	    /* local QP; SIMHCA_QPN_MASK if it is none's */
	uint32_t src_qpn;   /* UD receive; TM_MATCH: high half of the tag */
	uint32_t byte_len;
	union {
		uint32_t imm_or_rkey; /* see flags; immediate data is big endian */
		uint32_t flow_tag;    /* a frame, which has neither: of the flow that it came by */
	};
	uint32_t vendor_err; /* enum simhca_reason */
	/*
	 * Send: the ring index of the WQE; all up to it are done. With SRQ_CQ: the SRQ's number,
	 * for the QP may be another CQ's, or none that this context knows. TM_MATCH: low half of
	 * the tag. Other receives: the WQE's record.
	 */
	uint32_t wqe_index;
	uint8_t opcode; /* enum simhca_wc_opcode */
	uint8_t status; /* enum simhca_wc_status */
	uint8_t flags;	/* enum simhca_cqe_flags */
	uint8_t sl;
	union {
		struct {
			uint16_t slid;
			union {
				uint16_t pkey_index;
				uint16_t cvlan; /* a frame: the VLAN tag that was stripped off; else
						   0 */
			};
		};
		uint32_t app_ctx; /* TM_MATCH: of the header; big endian */
	};
	uint8_t dlid_path_bits;
	uint8_t tm_flags; /* enum simhca_cqe_tm_flags */
	uint8_t in_slot;  /* enum simhca_cqe_data */
	uint8_t reserved;
	_Atomic uint32_t seq;
};
SIMHCA_ABI_AT(struct simhca_cqe, seq, 60);
SIMHCA_ABI_SIZE(struct simhca_cqe, 64);

#endif
