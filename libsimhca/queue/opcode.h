/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What each operation of a send queue is, in one table: whoever asks that of an opcode asks here. */
#ifndef LIBSIMHCA_OPCODE_H
#define LIBSIMHCA_OPCODE_H

#include <stdbool.h>
#include <stdint.h>

#include "simhca-abi.h"

/* What the BTH opcode says, taken apart: operation, and place in the message. */
enum simhca_packet_op {
	/* requests */
	SIMHCA_PKT_SEND,
	SIMHCA_PKT_WRITE,
	SIMHCA_PKT_READ,
	SIMHCA_PKT_COMPARE_SWAP,
	SIMHCA_PKT_FETCH_ADD,
	SIMHCA_PKT_ATOMIC_WRITE,
	SIMHCA_PKT_FLUSH,
	/* responses */
	SIMHCA_PKT_ACK,		  /* or NAK: nothing but an AETH */
	SIMHCA_PKT_READ_RESPONSE, /* and, without data, of ATOMIC_WRITE and FLUSH (annex A19) */
	SIMHCA_PKT_ATOMIC_ACK,
	/* Of a wire alone, and of no message: the network marked what came (annex A17.9.3). */
	SIMHCA_PKT_CNP,
	/* Likewise, of EFA devices: the payload says the rest (efa/wire_format.h). */
	SIMHCA_PKT_EFA,
};

enum simhca_op_property {
	/* Transports that have it (IBTA vol. 1, table 38). */
	SIMHCA_OP_RELIABLE = 1 << 0,
	SIMHCA_OP_UC = 1 << 1,
	SIMHCA_OP_UNCONNECTED = 1 << 2,
	SIMHCA_OP_MESSAGE = 1 << 3, /* it sends data, of any length */
	SIMHCA_OP_INLINE = 1 << 4,  /* its data may lie in the WQE */
	SIMHCA_OP_RECEIVE = 1 << 5, /* it takes a receive of the peer */
	SIMHCA_OP_REMOTE = 1 << 6,  /* its WQE names memory of the peer (rdma) */
	SIMHCA_OP_IMM = 1 << 7,	    /* it carries immediate data */
	SIMHCA_OP_INV = 1 << 8,	    /* it carries a key that the peer invalidates */
	SIMHCA_OP_ATOMIC = 1 << 9,
	SIMHCA_OP_FETCHES = 1 << 10,   /* its response brings data */
	SIMHCA_OP_READ_LIKE = 1 << 11, /* an ACK does not answer it; max_rd_atomic counts it */
	SIMHCA_OP_LOCAL = 1 << 12,     /* it sends nothing */
	SIMHCA_OP_LAST = 1 << 13,      /* it changes keys between messages: none starts behind it */
	SIMHCA_OP_FAST_PATH = 1 << 14, /* the fast path carries it */
};

struct simhca_opcode {
	uint16_t has; /* enum simhca_op_property; 0: there is no such operation */
	uint8_t wc;   /* enum simhca_wc_opcode */
	uint8_t packet;
};

#define SIMHCA_OPCODES 32u /* the table's rows: those of ibverbs, and our own */

static inline const struct simhca_opcode *simhca_opcode(uint32_t opcode)
{
	enum {
		RC = SIMHCA_OP_RELIABLE,
		UC = RC | SIMHCA_OP_UC,
		ANY = UC | SIMHCA_OP_UNCONNECTED,
		SEND = SIMHCA_OP_MESSAGE | SIMHCA_OP_RECEIVE,
		WRITE = UC | SIMHCA_OP_MESSAGE | SIMHCA_OP_INLINE | SIMHCA_OP_REMOTE |
			SIMHCA_OP_FAST_PATH,
		READ_LIKE = RC | SIMHCA_OP_READ_LIKE,
		READ = READ_LIKE | SIMHCA_OP_REMOTE | SIMHCA_OP_FETCHES,
		ATOMIC = READ | SIMHCA_OP_ATOMIC | SIMHCA_OP_FAST_PATH,
		KEYS = UC | SIMHCA_OP_LOCAL | SIMHCA_OP_LAST,
	};
	/* clang-format off */
	static const struct simhca_opcode table[SIMHCA_OPCODES] = {
		[SIMHCA_WR_RDMA_WRITE] = { WRITE, SIMHCA_WC_RDMA_WRITE, SIMHCA_PKT_WRITE },
		[SIMHCA_WR_RDMA_WRITE_WITH_IMM] =
			{ WRITE | SIMHCA_OP_RECEIVE | SIMHCA_OP_IMM, SIMHCA_WC_RDMA_WRITE, SIMHCA_PKT_WRITE },
		[SIMHCA_WR_SEND] = { ANY | SEND | SIMHCA_OP_INLINE | SIMHCA_OP_FAST_PATH, SIMHCA_WC_SEND, SIMHCA_PKT_SEND },
		[SIMHCA_WR_SEND_WITH_IMM] =
			{ ANY | SEND | SIMHCA_OP_INLINE | SIMHCA_OP_FAST_PATH | SIMHCA_OP_IMM, SIMHCA_WC_SEND, SIMHCA_PKT_SEND },
		[SIMHCA_WR_SEND_WITH_INV] = { UC | SEND | SIMHCA_OP_INV, SIMHCA_WC_SEND, SIMHCA_PKT_SEND },
		[SIMHCA_WR_RDMA_READ] = { READ | SIMHCA_OP_FAST_PATH, SIMHCA_WC_RDMA_READ, SIMHCA_PKT_READ },
		[SIMHCA_WR_RDMA_READ_WITH_INV] = { READ | SIMHCA_OP_LAST, SIMHCA_WC_RDMA_READ, SIMHCA_PKT_READ },
		[SIMHCA_WR_ATOMIC_CMP_AND_SWP] = { ATOMIC, SIMHCA_WC_COMP_SWAP, SIMHCA_PKT_COMPARE_SWAP },
		[SIMHCA_WR_ATOMIC_FETCH_AND_ADD] = { ATOMIC, SIMHCA_WC_FETCH_ADD, SIMHCA_PKT_FETCH_ADD },
		[SIMHCA_WR_ATOMIC_WRITE] =
			{ READ_LIKE | SIMHCA_OP_REMOTE | SIMHCA_OP_INLINE | SIMHCA_OP_FAST_PATH, SIMHCA_WC_ATOMIC_WRITE, SIMHCA_PKT_ATOMIC_WRITE },
		[SIMHCA_WR_FLUSH] = { READ_LIKE, SIMHCA_WC_FLUSH, SIMHCA_PKT_FLUSH },
		[SIMHCA_WR_LOCAL_INV] = { KEYS, SIMHCA_WC_LOCAL_INV, 0 },
		[SIMHCA_WR_BIND_MW] = { KEYS, SIMHCA_WC_BIND_MW, 0 },
		[SIMHCA_WR_FAST_REG] = { KEYS, SIMHCA_WC_FAST_REG, 0 },
	};
	/* clang-format on */
	static const struct simhca_opcode none;

	return opcode < SIMHCA_OPCODES ? &table[opcode] : &none;
}

/* Reliable services: every request is answered, and a NAK ends the connection. */
static inline bool simhca_is_reliable(uint32_t type)
{
	return type == SIMHCA_QPT_RC || type == SIMHCA_QPT_XRC_SEND || type == SIMHCA_QPT_XRC_RECV;
}

static inline bool simhca_op_has(uint32_t opcode, uint32_t any_of)
{
	return simhca_opcode(opcode)->has & any_of;
}

/* Bit n: enum simhca_wr_opcode n has it. */
static inline uint32_t simhca_opcodes_with(uint32_t any_of)
{
	uint32_t opcodes = 0;

	for (uint32_t opcode = 0; opcode < SIMHCA_OPCODES; opcode++)
		if (simhca_op_has(opcode, any_of))
			opcodes |= 1u << opcode;
	return opcodes;
}

#endif
