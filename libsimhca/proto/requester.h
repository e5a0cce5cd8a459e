/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What requester, completer and their waits share; struct simhca_requester has their state. */
#ifndef LIBSIMHCA_REQUESTER_H
#define LIBSIMHCA_REQUESTER_H

#include <stdbool.h>
#include <stdint.h>

#include "link.h"

struct simhca_qp;
struct simhca_worker;

/* Sends what the SQ holds, within a budget; true when there is more to do at once. */
bool simhca_requester_run(struct simhca_worker *worker, struct simhca_qp *qp);
/* What the requester does next. */
enum simhca_next { SIMHCA_NEXT_PACKET, SIMHCA_NEXT_WAIT };

/* Whether what the QP waited for has come, so that it may send. */
bool simhca_wait_is_over(struct simhca_qp *qp);
/*
 * How long the QP waits for an answer, in ns, before it spends a retry: 4.096 us * 2^timeout, or
 * longer if its link has it so; 0: without end (IBTA vol. 1, 9.7.6.1.3). *adaptive_ns: see link.h.
 */
uint64_t simhca_ack_timeout(struct simhca_qp *qp, uint64_t *adaptive_ns);
/* Waits for the answers to what is under way. */
enum simhca_next simhca_wait_answer(struct simhca_qp *qp);
/* Of a long time-out, after its first part, when the peer was reported as silent. False: it is over. */
bool simhca_wait_rest(struct simhca_qp *qp);
/* True: the link has neither accepted nor lost the packet, and the QP waits for another try. */
bool simhca_wait_link(struct simhca_qp *qp, const struct simhca_handover *handover);
enum simhca_next simhca_wait_for(struct simhca_qp *qp, enum simhca_wait what, uint64_t delay_ns);
/* The delay that an RNR NAK's timer code stands for, in ns. */
uint64_t simhca_rnr_delay(uint8_t rnr_timer);
/* Waits as long as an RNR NAK with that timer code asks for. */
enum simhca_next simhca_wait_rnr(struct simhca_qp *qp, uint8_t rnr_timer);
/* Reads the WQE at an index of the SQ into worker->send, and judges it. */
enum simhca_reason simhca_flight_read(struct simhca_worker *worker, struct simhca_qp *qp,
				      uint32_t index);
/*
 * Reads the message of a flight into worker->send. False: its WQE has changed since the message began,
 * and the QP has failed.
 */
bool simhca_flight_load(struct simhca_worker *worker, struct simhca_qp *qp, uint32_t younger);

/*
 * Whether the read or atomic that is sent now would be one more than the responder takes at a time
 * (`most`). On the local link each is answered before the next one begins, so this counts those that
 * were posted when one of them began: a NIC would have sent them before its answer came.
 */
bool simhca_exceeds_rd_atomic(const struct simhca_worker *worker, struct simhca_qp *qp,
			      uint32_t most);

/* Something else has to end first: the QP is tried again a little later. Under req_lock. */
enum simhca_next simhca_wait_busy(struct simhca_qp *qp);

#endif
