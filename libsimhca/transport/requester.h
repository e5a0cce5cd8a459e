/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What a requester knows of what it has sent; struct simhca_requester tells what that means. */
#ifndef LIBSIMHCA_REQUESTER_H
#define LIBSIMHCA_REQUESTER_H

#include <stdbool.h>
#include <stdint.h>

#include "dma/dma.h"
#include "link.h"
#include "simhca-abi.h"

struct simhca_qp;
struct simhca_worker;

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
static inline bool simhca_response_has_data(uint32_t opcode)
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
	return simhca_response_has_data(opcode) || opcode == SIMHCA_WR_ATOMIC_WRITE ||
	       opcode == SIMHCA_WR_FLUSH;
}

/* Sends what the SQ holds, within a budget; true when there is more to do at once. */
bool simhca_requester_run(struct simhca_worker *worker, struct simhca_qp *qp);
/* What the requester does next. */
enum simhca_next { SIMHCA_NEXT_PACKET, SIMHCA_NEXT_WAIT };

/* Whether the time that the QP waited for, so as to send, has passed. */
bool simhca_wait_is_over(struct simhca_qp *qp);
/* For acknowledgements of what is under way: until the transport's timer, or for longer. */
enum simhca_next simhca_wait_answer(struct simhca_qp *qp);
/* The link neither accepted the packet nor lost it: the QP waits until it can be tried again. */
bool simhca_wait_link(struct simhca_qp *qp, const struct simhca_handover *handover);
enum simhca_next simhca_wait_for(struct simhca_qp *qp, enum simhca_wait what, uint64_t delay_ns);
/* What an RNR NAK's timer stands for, in ns. */
uint64_t simhca_rnr_delay(uint8_t rnr_timer);
/* An RNR NAK's delay, or one as long for other reasons. */
enum simhca_next simhca_wait_rnr(struct simhca_qp *qp, uint8_t rnr_timer);
/*
 * Reads the message of a flight into worker->send; false: its WQE is no longer what it was when it
 * was taken up, and the QP has failed.
 */
bool simhca_flight_load(struct simhca_worker *worker, struct simhca_qp *qp, uint32_t younger);
/* The message that a PSN is of: by how many it is younger than the oldest. */
uint32_t simhca_flight_at(struct simhca_qp *qp, uint32_t psn);

/* Something else has to end first: the QP comes back a little later. Under req_lock. */
enum simhca_next simhca_wait_busy(struct simhca_qp *qp);
enum simhca_next simhca_wait_suspended(struct simhca_qp *qp);

#endif
