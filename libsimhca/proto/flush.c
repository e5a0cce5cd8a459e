/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What is left in the queues of a QP that has failed: completed, with a flush error. */
#include <infiniband/verbs.h>
#include <string.h>

#include "comp_cntr.h"
#include "cq.h"
#include "core/context.h"
#include "core/stats.h"
#include "engine/engine.h"
#include "failure.h"
#include "flush.h"
#include "paging/fault.h"
#include "queue/progress.h"
#include "qp.h"
#include "simhca-device.h"
#include "owner.h"
#include "wqe.h"

/* When another engine still works on a QP that is to be flushed. */
#define FLUSH_RETRY_NS (100 * 1000)

static struct simhca_cqe flushed(const struct simhca_qp *qp, uint64_t wr_id, uint32_t index,
				 enum simhca_wc_opcode opcode, uint8_t flags)
{
	return (struct simhca_cqe){
		.wr_id = wr_id,
		.qpn = qp->qpn,
		.vendor_err = SIMHCA_REASON_FLUSHED,
		.wqe_index = index,
		.opcode = (uint8_t)opcode,
		.status = SIMHCA_WC_WR_FLUSH_ERR,
		.flags = flags,
	};
}

static void forget_messages(struct simhca_qp *qp)
{
	struct simhca_requester *req = &qp->req;

	if (req->count) /* what was never sent takes no PSNs */
		req->psn_next = req->psn_send;
	req->count = req->reads = 0;
	req->answered = req->revoked = false;
	req->wait = SIMHCA_WAIT_NOTHING;
}

/* How many there were; so do the others. */
static uint32_t flush_sq(struct simhca_qp *qp)
{
	uint32_t ci = qp->req.oldest, first = ci, posted;

	forget_messages(qp);
	simhca_drop_fetches(qp, true);
	simhca_engine_cancel_timer(&qp->task);
	/* The QP's state is set before the index is looked at, as with receives below. */
	atomic_thread_fence(memory_order_seq_cst);
	if (!simhca_progress_sends(qp->mem, ci, 0, qp->sq_entries, &posted))
		posted = 0; /* nothing that could be named */
	for (; ci != first + posted; ci++) {
		struct simhca_send_wqe wqe;
		struct simhca_cqe cqe;

		simhca_sq_header(qp, ci, &wqe);
		cqe = flushed(qp, wqe.wr_id, ci, SIMHCA_WC_SEND, 0);
		simhca_count_send(qp, wqe.opcode, false, 0);
		simhca_stats_once(qp->device, SIMHCA_STAT_REQ_CQE_FLUSH);
		qp->req.oldest = ci + 1;
		simhca_cq_push_commit(qp->send_cq, &cqe, qp, simhca_requester_commit_cqe);
	}
	return ci - first;
}

uint32_t simhca_flush_receive(struct simhca_qp *qp)
{
	struct simhca_recv_wqe recv;
	struct simhca_cqe cqe;

	qp->resp.in_message = false;
	if (!qp->resp.have_recv)
		return 0;
	recv = simhca_recv_header(qp);
	cqe = flushed(qp, recv.wr_id, recv.record, SIMHCA_WC_RECV, SIMHCA_CQE_RECV);
	simhca_recv_done(qp);
	simhca_count_error(qp, SIMHCA_COUNTS_RECV);
	simhca_stats_once(qp->device, SIMHCA_STAT_RESP_CQE_FLUSH);
	qp->source->complete(qp, &cqe);
	return 1;
}

static uint32_t flush_rq(struct simhca_qp *qp)
{
	uint32_t count = simhca_flush_receive(qp);

	if (qp->srq) { /* its WQEs belong to the other QPs as well */
		while (simhca_abandoned_consume(&qp->left, qp->recv_copy)) {
			qp->resp.have_recv = true;
			count += simhca_flush_receive(qp);
		}
		return count;
	}
	/* ERR is set before pi is looked at; shca_post_rq() has the other half. */
	atomic_thread_fence(memory_order_seq_cst);
	/* Once around the ring: a client that posts on meanwhile rings for the rest. */
	for (uint32_t i = 0; i < qp->rq_entries && simhca_rq_consume(qp) == SIMHCA_CONSUME_OK;
	     i++) {
		qp->resp.have_recv = true;
		count += simhca_flush_receive(qp);
	}
	return count;
}

void simhca_flush(struct simhca_qp *qp)
{
	uint32_t count = 0;

	if (simhca_qp_begin_both(qp, false)) {
		simhca_engine_arm_timer(&qp->task, FLUSH_RETRY_NS);
		return;
	}
	simhca_qp_recover(qp);
	switch (simhca_qp_state(qp)) {
	case SIMHCA_QPS_ERR:
		/* No page fault of a dead QP: the end of the last one brings us here again. */
		if (!simhca_faults_disable(&qp->faults))
			break;
		count = flush_sq(qp) + flush_rq(qp);
		if (qp->last_wqe_event_due) {
			qp->last_wqe_event_due = false;
			simhca_async_event(qp->context, qp->user_handle, qp->qpn,
					   IBV_EVENT_QP_LAST_WQE_REACHED);
		}
		break;
	case SIMHCA_QPS_SQE:
		count = flush_sq(qp);
		break;
	}
	if (count)
		simhca_report_flush(qp, count);
	simhca_qp_end_both(qp);
}
