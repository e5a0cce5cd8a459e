/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The completer (IBTA vol. 1, 9.7.5, 9.7.6): what an answer means for the request under way:
 * acknowledged, to be sent again now or later, or failed.
 */
#include "odp.h"
#include "psn.h"

#define RNR_RETRY_FOREVER 7

/* A responder that another engine works on: ask again soon, but not for ever. */
#define BUSY_NS (20 * 1000)
#define BUSY_MOST 500
#define BUSY_LONG_NS (1000 * 1000)

/* RNR NAK timer codes (IBTA vol. 1, table 45), in units of 10 us. */
static const uint32_t rnr_timer_10us[32] = {
	65536, 1,    2,	   3,	 4,    6,     8,     12,    16,	   24,	  32,
	48,    64,   96,   128,	 192,  256,   384,   512,   768,   1024,  1536,
	2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
};

static uint8_t wc_opcode(uint8_t opcode)
{
	switch (opcode) {
	case SIMHCA_WR_RDMA_WRITE:
	case SIMHCA_WR_RDMA_WRITE_WITH_IMM:
		return SIMHCA_WC_RDMA_WRITE;
	case SIMHCA_WR_RDMA_READ:
	case SIMHCA_WR_RDMA_READ_WITH_INV:
		return SIMHCA_WC_RDMA_READ;
	case SIMHCA_WR_ATOMIC_CMP_AND_SWP:
		return SIMHCA_WC_COMP_SWAP;
	case SIMHCA_WR_ATOMIC_FETCH_AND_ADD:
		return SIMHCA_WC_FETCH_ADD;
	case SIMHCA_WR_ATOMIC_WRITE:
		return SIMHCA_WC_ATOMIC_WRITE;
	case SIMHCA_WR_FLUSH:
		return SIMHCA_WC_FLUSH;
	case SIMHCA_WR_BIND_MW:
		return SIMHCA_WC_BIND_MW;
	case SIMHCA_WR_LOCAL_INV:
		return SIMHCA_WC_LOCAL_INV;
	case SIMHCA_WR_FAST_REG:
		return SIMHCA_WC_FAST_REG;
	default:
		return SIMHCA_WC_SEND;
	}
}

void simhca_complete_send(struct simhca_qp *qp, enum simhca_wc_status status,
			  enum simhca_reason reason)
{
	const struct simhca_send *send = qp->req.send;
	struct simhca_cqe cqe = {
		.wr_id = send->wqe.wr_id,
		.qpn = qp->qpn,
		.byte_len = (uint32_t)send->length,
		.vendor_err = reason,
		.wqe_index = qp->req.index,
		.opcode = wc_opcode(send->wqe.opcode),
		.status = (uint8_t)status,
	};

	if (__builtin_expect(qp->req.rndv, 0)) {
		simhca_rndv_complete(qp, status, reason);
		return;
	}
	qp->req.started = false;
	/* Before the CQE: whoever sees it may post to the slot at once. */
	atomic_store_explicit(&qp->mem->sq_ci, qp->req.index + 1, memory_order_release);
	if (status != SIMHCA_WC_SUCCESS || (send->wqe.flags & SIMHCA_WQE_SIGNALED) ||
	    qp->qpc->sq_sig_all)
		simhca_cq_push(qp->send_cq, &cqe, false);
	if (status != SIMHCA_WC_SUCCESS) {
		simhca_stats_once(qp->device, SIMHCA_STAT_REQ_CQE_ERROR);
		simhca_log(qp->device->fabric, SIMHCA_LOG_INFO,
			   "QP 0x%06x: send WQE %u fails with status %u: %s", qp->qpn,
			   qp->req.index, status, simhca_reason_text(reason));
		/* Unreliable senders stop only their SQ (IBTA vol. 1, 10.3.1.6). */
		simhca_qp_fail(qp, simhca_is_reliable(qp->type) ? SIMHCA_QPS_ERR : SIMHCA_QPS_SQE);
	}
}

static enum simhca_next wait_for(struct simhca_qp *qp, enum simhca_wait what, uint64_t delay_ns)
{
	qp->req.wait = what;
	qp->req.deadline = delay_ns ? simhca_engine_arm_timer(qp, delay_ns) : UINT64_MAX;
	return SIMHCA_NEXT_WAIT;
}

enum simhca_next simhca_wait_busy(struct simhca_qp *qp)
{
	/* What takes long will take longer: memory of a client that blocks. */
	return wait_for(qp, SIMHCA_WAIT_BUSY, qp->req.busy++ < BUSY_MOST ? BUSY_NS : BUSY_LONG_NS);
}

static enum simhca_next fail(struct simhca_qp *qp, enum simhca_wc_status status,
			     enum simhca_reason reason)
{
	simhca_complete_send(qp, status, reason);
	return SIMHCA_NEXT_WAIT;
}

/* A control function wants the QP, and faults are disabled meanwhile. */
#define FAULTS_OFF_NS (1000 * 1000)

enum simhca_next simhca_wait_fault(struct simhca_qp *qp, enum simhca_fault_context context,
				   enum simhca_fault_verdict verdict, enum simhca_reason reason)
{
	if (verdict == SIMHCA_FAULT_ERROR)
		return fail(qp, SIMHCA_WC_LOC_PROT_ERR, reason);
	if (verdict == SIMHCA_FAULT_GO)
		return SIMHCA_NEXT_PACKET;
	/*
	 * It may have ended since it was raised; then the QP has been scheduled, and finds that it
	 * need not wait. Only if none could be raised nobody schedules it.
	 */
	if (!simhca_fault_raised(qp, context))
		return wait_for(qp, SIMHCA_WAIT_BUSY, FAULTS_OFF_NS);
	qp->req.fault = context;
	return wait_for(qp, SIMHCA_WAIT_FAULT, 0);
}

/* The requester's own memory could not be read or written: it may have been dropped just now. */
static enum simhca_next payload_failed(struct simhca_worker *worker, struct simhca_qp *qp,
				       const struct simhca_packet *packet,
				       enum simhca_reason reason)
{
	enum simhca_fault_context context = simhca_requester_context(packet);
	enum simhca_fault_verdict verdict =
		simhca_fault_take_copy(worker, qp, context, &packet->payload, &reason);

	return simhca_wait_fault(qp, context, verdict, reason);
}

static enum simhca_next acknowledged(struct simhca_worker *worker, struct simhca_qp *qp,
				     const struct simhca_packet *packet,
				     const struct simhca_reply *reply)
{
	uint32_t mtu = simhca_mtu_bytes(qp->qpc->path_mtu ? qp->qpc->path_mtu : 5);

	if (packet->op == SIMHCA_PKT_COMPARE_SWAP || packet->op == SIMHCA_PKT_FETCH_ADD) {
		struct simhca_sgl old = { .count = 1 };
		enum simhca_reason reason;

		old.seg[0] =
			(struct simhca_seg){ .addr = (uintptr_t)&reply->atomic_old, .length = 8 };
		if (simhca_dma_copy(&packet->payload, &old, 8, worker->scratch, &reason))
			return payload_failed(worker, qp, packet, reason);
	}
	simhca_fault_over(qp, simhca_requester_context(packet));
	qp->mem->sq_psn = simhca_psn_add(packet->psn, simhca_psn_count(packet->length, mtu));
	qp->req.offset += packet->length;
	qp->req.retries = qp->qpc->retry_cnt;
	qp->req.rnr_retries = qp->qpc->rnr_retry;
	qp->req.why = SIMHCA_REASON_NO_RESPONSE;
	if (packet->last && qp->req.send->wqe.opcode == SIMHCA_WR_RDMA_READ_WITH_INV)
		qp->req.answered = true; /* completes once the key is invalid */
	else if (packet->last)
		simhca_complete_send(qp, SIMHCA_WC_SUCCESS, SIMHCA_REASON_NONE);
	return SIMHCA_NEXT_PACKET;
}

/* No answer: 4.096 us * 2^timeout, where 0 means without end (IBTA vol. 1, 9.7.6.1.3). */
static enum simhca_next unanswered(struct simhca_qp *qp)
{
	if (!qp->qpc->timeout) /* else when the time is over */
		simhca_silence_unanswered(qp);
	return wait_for(qp, SIMHCA_WAIT_ANSWER,
			qp->qpc->timeout ? 4096ull << (qp->qpc->timeout & 31) : 0);
}

enum simhca_next simhca_completer_run(struct simhca_worker *worker, struct simhca_qp *qp,
				      const struct simhca_packet *packet,
				      const struct simhca_reply *reply)
{
	if (reply->answer == SIMHCA_ANSWER_PAYLOAD)
		return payload_failed(worker, qp, packet, reply->reason);
	/* The responder waits for pages: for as long as it takes, and whatever the transport. */
	if (reply->answer == SIMHCA_ANSWER_FAULT)
		return wait_for(qp, SIMHCA_WAIT_RNR,
				rnr_timer_10us[reply->rnr_timer & 31] * 10000ull);
	if (reply->answer == SIMHCA_ANSWER_BUSY && qp->req.busy < BUSY_MOST)
		return simhca_wait_busy(qp);
	qp->req.busy = 0;
	if (!simhca_is_reliable(qp->type)) /* nobody answers: sent is done */
		return acknowledged(worker, qp, packet, reply);

	/* A responder tells of a gap once; the reason stands for the silence after it, too. */
	if ((reply->answer == SIMHCA_ANSWER_NAK_PSN || reply->answer == SIMHCA_ANSWER_NONE) &&
	    reply->reason != SIMHCA_REASON_NO_RESPONSE)
		qp->req.why = reply->reason;
	switch (reply->answer) {
	case SIMHCA_ANSWER_ACK:
		return acknowledged(worker, qp, packet, reply);
	case SIMHCA_ANSWER_RNR_NAK:
		simhca_stats_add(worker, qp->device, SIMHCA_STAT_RNR_NAK_RETRY, 1);
		if (!qp->req.rnr_retries)
			return fail(qp, SIMHCA_WC_RNR_RETRY_EXC_ERR, reply->reason);
		if (qp->req.rnr_retries != RNR_RETRY_FOREVER)
			qp->req.rnr_retries--;
		return wait_for(qp, SIMHCA_WAIT_RNR,
				rnr_timer_10us[reply->rnr_timer & 31] * 10000ull);
	case SIMHCA_ANSWER_NAK_PSN:
		simhca_stats_add(worker, qp->device, SIMHCA_STAT_PACKET_SEQ_ERR, 1);
		if (!qp->req.retries--)
			return fail(qp, SIMHCA_WC_RETRY_EXC_ERR, reply->reason);
		return SIMHCA_NEXT_PACKET;
	case SIMHCA_ANSWER_NAK_INVALID:
		simhca_stats_once(qp->device, SIMHCA_STAT_REQ_REMOTE_INVALID);
		return fail(qp, SIMHCA_WC_REM_INV_REQ_ERR, reply->reason);
	case SIMHCA_ANSWER_NAK_ACCESS:
		simhca_stats_once(qp->device, SIMHCA_STAT_REQ_REMOTE_ACCESS);
		return fail(qp, SIMHCA_WC_REM_ACCESS_ERR, reply->reason);
	case SIMHCA_ANSWER_NAK_OPERATIONAL:
		return fail(qp, SIMHCA_WC_REM_OP_ERR, reply->reason);
	case SIMHCA_ANSWER_NONE:
	case SIMHCA_ANSWER_PAYLOAD:
	case SIMHCA_ANSWER_BUSY:
	case SIMHCA_ANSWER_ELSEWHERE:
	case SIMHCA_ANSWER_FAULT:
		break;
	}
	return unanswered(qp);
}
