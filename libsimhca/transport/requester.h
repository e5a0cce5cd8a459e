/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What a requester knows of what it has sent; struct simhca_requester tells what that means. */
#ifndef LIBSIMHCA_REQUESTER_H
#define LIBSIMHCA_REQUESTER_H

#include <stdbool.h>
#include <stdint.h>

#include "simhca-abi.h"

/* A message under way. */
struct simhca_flight {
	uint32_t first, last; /* its PSNs */
	uint32_t opcode;      /* enum simhca_wr_opcode */
};

static inline bool simhca_is_atomic(uint32_t opcode)
{
	return opcode == SIMHCA_WR_ATOMIC_CMP_AND_SWP || opcode == SIMHCA_WR_ATOMIC_FETCH_AND_ADD;
}

/* Its response brings data. */
static inline bool simhca_takes_response(uint32_t opcode)
{
	return opcode == SIMHCA_WR_RDMA_READ || opcode == SIMHCA_WR_RDMA_READ_WITH_INV ||
	       simhca_is_atomic(opcode);
}

/* It sends nothing. */
static inline bool simhca_is_local_op(uint32_t opcode)
{
	return opcode == SIMHCA_WR_LOCAL_INV || opcode == SIMHCA_WR_BIND_MW ||
	       opcode == SIMHCA_WR_FAST_REG;
}

/* An ACK does not answer it, and max_rd_atomic counts it. */
static inline bool simhca_is_read_like(uint32_t opcode)
{
	return simhca_takes_response(opcode) || opcode == SIMHCA_WR_ATOMIC_WRITE ||
	       opcode == SIMHCA_WR_FLUSH;
}

#endif
