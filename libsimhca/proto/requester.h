/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What a requester knows of what it has sent; struct simhca_requester tells what that means. */
#ifndef LIBSIMHCA_REQUESTER_H
#define LIBSIMHCA_REQUESTER_H

#include <stdbool.h>
#include <stdint.h>

#include "dma/dma.h"
#include "queue/gate.h"
#include "link.h"
#include "simhca-abi.h"

struct simhca_qp;
struct simhca_worker;

/* Sends what the SQ holds, within a budget; true when there is more to do at once. */
bool simhca_requester_run(struct simhca_worker *worker, struct simhca_qp *qp);
/* What the requester does next. */
enum simhca_next { SIMHCA_NEXT_PACKET, SIMHCA_NEXT_WAIT };

/* Whether the time that the QP waited for, so as to send, has passed. */
bool simhca_wait_is_over(struct simhca_qp *qp);
/* For acknowledgements of what is under way: until the transport's timer, or for longer. */
/*
 * How long the QP waits for an answer now, in ns, until that is a retry: 4.096 us * 2^timeout, or
 * longer if its link has it so; 0: without end (IBTA vol. 1, 9.7.6.1.3). *adaptive_ns: see link.h.
 *
 */
uint64_t simhca_ack_timeout(struct simhca_qp *qp, uint64_t *adaptive_ns);
enum simhca_next simhca_wait_answer(struct simhca_qp *qp);
/* The link neither accepted the packet nor lost it: the QP waits until it can be tried again. */
bool simhca_wait_link(struct simhca_qp *qp, const struct simhca_handover *handover);
enum simhca_next simhca_wait_for(struct simhca_qp *qp, enum simhca_wait what, uint64_t delay_ns);
/* What an RNR NAK's timer stands for, in ns. */
uint64_t simhca_rnr_delay(uint8_t rnr_timer);
/* An RNR NAK's delay, or one as long for other reasons. */
enum simhca_next simhca_wait_rnr(struct simhca_qp *qp, uint8_t rnr_timer);
/* Reads the WQE at an index of the SQ into worker->send, and judges it. */
enum simhca_reason simhca_flight_read(struct simhca_worker *worker, struct simhca_qp *qp,
				      uint32_t index);
/*
 * Reads the message of a flight into worker->send; false: its WQE is no longer what it was when it
 * was taken up, and the QP has failed.
 */
bool simhca_flight_load(struct simhca_worker *worker, struct simhca_qp *qp, uint32_t younger);

/*
 * Whether the read or atomic that is sent now is one more than the responder takes at once. Of the
 * local link, which has each of them answered before the next one begins: what was posted when one
 * of them began is what a NIC would have sent before its answer came.
 */
bool simhca_exceeds_rd_atomic(const struct simhca_worker *worker, struct simhca_qp *qp,
			      uint32_t most);

/* Something else has to end first: the QP comes back a little later. Under req_lock. */
enum simhca_next simhca_wait_busy(struct simhca_qp *qp);
enum simhca_next simhca_wait_suspended(struct simhca_qp *qp);

#endif
