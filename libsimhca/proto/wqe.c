/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Reading work requests out of rings that a client can write at any time: each is copied
 * once and judged by the copy.
 */
#include <string.h>

#include "cq.h"
#include "queue/progress.h"
#include "owner.h"
#include "qp.h"
#include "wqe.h"
#include "queue/wqe_gate.h"

/* Others' claims while a WQE is to be claimed; more are a client that moves the index. */
#define CLAIM_TRIES 4096

static const char *send_slot(const struct simhca_qp *qp, uint32_t index)
{
	return simhca_ring_wqe(qp->sq, index, qp->sq_entries, qp->sq_stride);
}

void simhca_sq_header(const struct simhca_qp *qp, uint32_t index, struct simhca_send_wqe *wqe)
{
	simhca_copy_in(wqe, send_slot(qp, index), sizeof(*wqe));
}

enum simhca_reason simhca_sq_load(const struct simhca_qp *qp, uint32_t index,
				  struct simhca_send *send)
{
	const char *rest = send_slot(qp, index) + sizeof(send->wqe);
	enum simhca_reason reason;
	uint32_t bytes;

	reason = simhca_send_load(send_slot(qp, index), qp->qpc->max_send_sge, qp->qpc->max_inline,
				  &send->wqe, &bytes);
	if (reason != SIMHCA_REASON_NONE)
		return reason;
	if (send->wqe.flags & SIMHCA_WQE_INLINE) {
		simhca_copy_in(send->data, rest, bytes);
		send->length = bytes;
		return SIMHCA_REASON_NONE;
	}
	simhca_copy_in(send->sge, rest, bytes);
	send->length = simhca_gate_length(send->sge, send->wqe.num_sge);
	return send->length > SIMHCA_MAX_MSG_SIZE ? SIMHCA_REASON_MSG_TOO_LONG : SIMHCA_REASON_NONE;
}

/* Where the receive WQE of the message at hand lies, or that of the next one. */
static const char *recv_slot(const struct simhca_qp *qp)
{
	return qp->recv_copy
		       ? qp->recv_copy
		       : simhca_ring_wqe(qp->rq, qp->resp.rq_ci, qp->rq_entries, qp->rq_stride);
}

enum simhca_consume simhca_recv_claim(const struct simhca_srq_view *queue, uint32_t number,
				      uint64_t least, char *copy, uint32_t *claim)
{
	enum simhca_consume found;
	struct simhca_recv recv;
	uint64_t head;

	for (int i = 0; i < CLAIM_TRIES; i++) {
		found = simhca_recv_look(queue, &head, &recv);
		if (found != SIMHCA_CONSUME_OK)
			return found;
		if (recv.length < least) {
			simhca_recv_save(copy, &recv);
			return SIMHCA_CONSUME_SHORT;
		}
		if (!simhca_recv_take(queue, head, number, copy, &recv))
			continue;
		*claim = simhca_srq_ci(head) + 1;
		return SIMHCA_CONSUME_OK;
	}
	return SIMHCA_CONSUME_CORRUPT;
}

static enum simhca_consume peek(const struct simhca_qp *qp)
{
	struct simhca_recv_wqe wqe;
	uint32_t posted, bytes;

	if (!simhca_progress_recvs(qp->mem, qp->resp.rq_ci, qp->rq_entries, &posted))
		return SIMHCA_CONSUME_CORRUPT;
	if (!posted)
		return SIMHCA_CONSUME_EMPTY;
	simhca_copy_in(&wqe, recv_slot(qp), sizeof(wqe));
	return simhca_gate_recv_wqe(&wqe, qp->qpc->max_recv_sge, &bytes) ? SIMHCA_CONSUME_OK
									 : SIMHCA_CONSUME_CORRUPT;
}

static enum simhca_consume consume_of(struct simhca_qp *qp, uint64_t least)
{
	if (!qp->rq_view.mem)
		return peek(qp);
	if (simhca_abandoned_consume(&qp->left, qp->recv_copy))
		return SIMHCA_CONSUME_OK;
	return simhca_recv_claim(&qp->rq_view, qp->claimant, least, qp->recv_copy, &qp->resp.claim);
}

enum simhca_consume simhca_rq_consume(struct simhca_qp *qp)
{
	return consume_of(qp, 0);
}

struct simhca_recv_wqe simhca_recv_header(const struct simhca_qp *qp)
{
	struct simhca_recv_wqe wqe;

	memcpy(&wqe, recv_slot(qp), sizeof(wqe));
	return wqe;
}

bool simhca_recv_read(const struct simhca_qp *qp, struct simhca_recv *recv)
{
	return simhca_recv_load(recv_slot(qp),
				qp->recv_copy ? SIMHCA_MAX_SGE : qp->qpc->max_recv_sge, recv);
}

void *simhca_slot_data(const struct simhca_qp *qp)
{
	return (char *)simhca_ring_wqe(qp->rq, qp->resp.rq_ci, qp->rq_entries, qp->rq_stride) +
	       qp->slot_data;
}

void simhca_recv_done(struct simhca_qp *qp)
{
	qp->resp.have_recv = false;
	if (!qp->recv_copy)
		qp->resp.rq_ci++;
}

static enum simhca_consume consume(struct simhca_worker *worker, struct simhca_qp *qp,
				   const struct simhca_packet *packet)
{
	(void)worker;
	/* If a datagram were dropped after a claim, those of programs would overtake the receive. */
	return consume_of(qp, SIMHCA_GRH_BYTES + (uint64_t)packet->length);
}

static bool complete(struct simhca_qp *qp, struct simhca_cqe *cqe)
{
	return simhca_cq_push_commit(qp->recv_cq, cqe, qp, simhca_responder_commit_cqe);
}

const struct simhca_recv_source simhca_own_receives = {
	.consume = consume,
	.complete = complete,
	.no_room = SIMHCA_REASON_RECV_CQ_ERROR,
};
