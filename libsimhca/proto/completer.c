/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The completer (IBTA vol. 1, 9.7.5, 9.7.6) takes response packets. By each of them messages under way
 * are acknowledged, are sent again at once or later, or fail.
 */
#include "comp_cntr.h"
#include "completer.h"
#include "cq.h"
#include "core/stats.h"
#include "engine/stats.h"
#include "failure.h"
#include "link.h"
#include "memory/key.h"
#include "message/done.h"
#include "own_memory.h"
#include "qp.h"
#include "requester.h"
#include "simhca-device.h"
#include "simhca-info.h"
#include "owner.h"

#define RNR_RETRY_FOREVER 7

/* The oldest message is under way no more. If it has failed, no other is either: all are flushed. */
static void forget_oldest(struct simhca_qp *qp, enum simhca_wc_status status)
{
	struct simhca_requester *req = &qp->req;

	req->answered = req->revoked = false;
	if (status != SIMHCA_WC_SUCCESS) { /* it may have failed before it began */
		req->count = req->reads = 0;
	} else {
		req->reads -= simhca_is_read_like(simhca_flight(qp, 0)->opcode);
		req->count--;
	}
	if (!req->count) /* what was not sent has taken no PSNs */
		req->psn_next = req->psn_send;
}

static void count(struct simhca_qp *qp, uint32_t index, const struct simhca_send *send,
		  enum simhca_wc_status status)
{
	struct simhca_usage *usage = qp->usage;

	if (__builtin_expect(status != SIMHCA_WC_SUCCESS, 0)) {
		simhca_usage_add(&usage->errors, 1);
	} else if (simhca_response_has_data(send->wqe.opcode)) {
		simhca_usage_add(&usage->reads, 1);
		simhca_usage_add(&usage->read_bytes, send->length);
	} else {
		simhca_usage_add(&usage->messages, 1);
		simhca_usage_add(&usage->bytes, send->length);
	}
	if (simhca_usage_is_timed(usage, index))
		simhca_usage_end(usage, simhca_engine_now(qp->context->engine));
}

bool simhca_complete_send(struct simhca_worker *worker, struct simhca_qp *qp,
			  enum simhca_wc_status status, enum simhca_reason reason)
{
	const struct simhca_send *send = worker->send;
	uint32_t index = qp->req.oldest;
	struct simhca_flight flight;
	struct simhca_cqe cqe;
	bool signaled;

	if (__builtin_expect(qp->requester.fetching, 0)) {
		forget_oldest(qp, status);
		qp->source->fetch->complete(qp, status, reason);
		return true;
	}
	if (!simhca_flight_load(worker, qp, 0))
		return false;
	cqe = simhca_cqe_of_send(&send->wqe, qp->qpn, index, send->length);
	cqe.vendor_err = reason;
	cqe.status = (uint8_t)status;
	flight = *simhca_flight(qp, 0);
	forget_oldest(qp, status);
	qp->req.oldest = index + 1;
	simhca_count_send(qp, send->wqe.opcode, status == SIMHCA_WC_SUCCESS, send->length);
	count(qp, index, send, status);
	signaled = status != SIMHCA_WC_SUCCESS || simhca_is_signaled(&send->wqe, qp->qpc);
	simhca_usage_signal(qp->usage, index, signaled);
	if (status != SIMHCA_WC_SUCCESS) {
		simhca_stats_once(qp->device, SIMHCA_STAT_REQ_CQE_ERROR);
		/* Before the CQE: once the program has that it may end, and its name is gone. */
		simhca_report_send(worker, qp, send, index, &flight, status, reason);
	}
	if (signaled)
		simhca_cq_push_commit(qp->send_cq, &cqe, qp, simhca_requester_commit_cqe);
	if (status != SIMHCA_WC_SUCCESS) {
		/* Unreliable senders stop only their SQ (IBTA vol. 1, 10.3.1.6). */
		simhca_qp_fail(qp, simhca_is_reliable(qp->type) ? SIMHCA_QPS_ERR : SIMHCA_QPS_SQE);
	}
	return true;
}

void simhca_go_back(struct simhca_qp *qp)
{
	qp->req.psn_send = qp->req.psn_una;
}

void simhca_acknowledge(struct simhca_worker *worker, struct simhca_qp *qp, uint32_t psn)
{
	struct simhca_requester *req = &qp->req;

	if (psn == req->psn_una)
		return;
	simhca_own_done(qp, SIMHCA_REQUESTER_READ);
	if (qp->link->acknowledged)
		qp->link->acknowledged(qp, psn);
	simhca_requester_answered(req, psn);
	req->went_back = false;
	req->retries = qp->qpc->retry_cnt;
	req->rnr_retries = qp->qpc->rnr_retry;
	req->why = SIMHCA_REASON_NO_RESPONSE;
	if (req->wait == SIMHCA_WAIT_ANSWER)
		req->wait = SIMHCA_WAIT_NOTHING;
	while (req->count && simhca_flight_ends_before(simhca_flight(qp, 0), psn)) {
		if (simhca_flight(qp, 0)->opcode == SIMHCA_WR_RDMA_READ_WITH_INV) {
			req->answered = true; /* completes once the key is invalid */
			return;
		}
		if (!simhca_complete_send(worker, qp, SIMHCA_WC_SUCCESS, SIMHCA_REASON_NONE))
			return;
	}
}

/* A packet or an answer was lost: all is sent again from there on. */
static void lost(struct simhca_worker *worker, struct simhca_qp *qp, enum simhca_reason reason)
{
	struct simhca_requester *req = &qp->req;

	/* Until something is acknowledged, other signs are of the same loss. */
	if (req->went_back || req->wait == SIMHCA_WAIT_RNR)
		return;
	if (!req->retries--) {
		simhca_complete_send(worker, qp, SIMHCA_WC_RETRY_EXC_ERR, reason);
		return;
	}
	simhca_usage_add(&qp->usage->retries, 1);
	req->went_back = true;
	if (qp->link->lost)
		qp->link->lost(qp, false);
	simhca_go_back(qp);
}

/*
 * An answer to psn acknowledges all before it (9.7.5.1.2) up to the first read or atomic, which only its
 * own response answers. False: that response was lost.
 */
static bool acknowledge_before(struct simhca_worker *worker, struct simhca_qp *qp, uint32_t psn)
{
	struct simhca_requester *req = &qp->req;
	uint32_t oldest = simhca_flight(qp, 0)->first, until = psn;

	for (uint32_t i = 0; i < req->count; i++) {
		const struct simhca_flight *flight = simhca_flight(qp, i);

		if (simhca_psn_distance(oldest, flight->first) >= simhca_psn_distance(oldest, psn))
			break;
		if (!simhca_is_read_like(flight->opcode))
			continue;
		until = simhca_psn_distance(oldest, flight->first) >
					simhca_psn_distance(oldest, req->psn_una)
				? flight->first
				: req->psn_una;
		break;
	}
	simhca_acknowledge(worker, qp, until);
	if (until == psn)
		return true;
	lost(worker, qp, SIMHCA_REASON_PSN_SEQUENCE);
	return false;
}

/* Copies the data of a response to where the oldest message wants them. */
static struct simhca_handover place(struct simhca_worker *worker, struct simhca_qp *qp,
				    uint64_t offset, const struct simhca_sgl *data, uint64_t length)
{
	struct simhca_send *send = worker->send;
	const uint32_t pd = qp->requester.fetching ? qp->responder.srq->pd->number : qp->qpc->pd;
	const struct simhca_key_use use =
		simhca_key_use_of(worker, qp, pd, SIMHCA_ACCESS_LOCAL_WRITE);
	struct simhca_handover handover = { .outcome = SIMHCA_ACCEPTED };
	enum simhca_reach reach = SIMHCA_REACH_FAILED;
	enum simhca_reason reason = SIMHCA_REASON_NONE;
	const struct simhca_sgl *target = worker->landing.sgl;
	struct simhca_sgl found;

	simhca_own_begin(worker);
	if (!target || worker->landing.offset != offset || worker->landing.length != length) {
		target = &found;
		found.count = 0;
		reason = simhca_translate_sges(&use, send->sge, send->wqe.num_sge, offset, length,
					       &found);
	}
	if (reason == SIMHCA_REASON_NONE)
		reach = simhca_own_copy(worker, qp, SIMHCA_REQUESTER_WRITE, target, data, length,
					&reason);
	switch (reach) {
	case SIMHCA_REACHED:
		simhca_acknowledge(worker, qp,
				   simhca_psn_add(qp->req.psn_una,
						  simhca_psn_count(length, simhca_qp_mtu(qp))));
		break;
	case SIMHCA_REACH_OTHER:
		handover.outcome = SIMHCA_UNREADABLE;
		handover.reason = reason;
		break;
	case SIMHCA_REACH_LATER: /* the response counts as lost, and is asked for again */
	case SIMHCA_REACH_FAILED:
		simhca_go_back(qp);
		simhca_own_wait(worker, qp, SIMHCA_REQUESTER_WRITE, reach, reason);
		break;
	}
	return handover;
}

static struct simhca_handover response(struct simhca_worker *worker, struct simhca_qp *qp,
				       const struct simhca_packet *packet)
{
	struct simhca_requester *req = &qp->req;
	struct simhca_handover accepted = { .outcome = SIMHCA_ACCEPTED };
	const struct simhca_flight *flight;
	struct simhca_sgl old;
	uint64_t offset, left;
	bool of_atomic = packet->op == SIMHCA_PKT_ATOMIC_ACK;

	if (!acknowledge_before(worker, qp, packet->psn) || !req->count)
		return accepted;
	flight = simhca_flight(qp, 0);
	if (!simhca_is_read_like(flight->opcode) || simhca_is_atomic(flight->opcode) != of_atomic ||
	    req->answered || !simhca_flight_load(worker, qp, 0))
		return accepted;
	if (of_atomic) {
		old.count = 1;
		old.seg[0] =
			(struct simhca_seg){ .addr = (uintptr_t)&packet->atomic_old, .length = 8 };
		return place(worker, qp, 0, &old, 8);
	}
	if (!simhca_response_has_data(flight->opcode)) {
		simhca_acknowledge(worker, qp, simhca_psn_add(packet->psn, 1));
		return accepted;
	}
	if (!simhca_gate_offset(flight, packet->psn, worker->send->length, simhca_qp_mtu(qp),
				&offset))
		return accepted;
	left = worker->send->length - offset;
	/* Drop a response of another length than was asked for. */
	if (packet->length > left ||
	    (packet->length < left && packet->length % simhca_qp_mtu(qp)) ||
	    (left && !packet->length))
		return accepted;
	return place(worker, qp, offset, packet->payload, packet->length);
}

static void fail(struct simhca_worker *worker, struct simhca_qp *qp, enum simhca_wc_status status,
		 enum simhca_reason reason)
{
	if (qp->req.count)
		simhca_complete_send(worker, qp, status, reason);
}

static void nak(struct simhca_worker *worker, struct simhca_qp *qp,
		const struct simhca_packet *packet)
{
	struct simhca_requester *req = &qp->req;

	if (!acknowledge_before(worker, qp, packet->psn))
		return;
	if (SIMHCA_SYNDROME_IS_RNR(packet->syndrome)) {
		if (req->wait == SIMHCA_WAIT_RNR)
			return;
		simhca_stats_add(worker, qp->device, SIMHCA_STAT_RNR_NAK_RETRY, 1);
		simhca_usage_add(&qp->usage->rnr_naks, 1);
		if (!req->rnr_retries) {
			fail(worker, qp, SIMHCA_WC_RNR_RETRY_EXC_ERR, packet->reason);
			return;
		}
		if (req->rnr_retries != RNR_RETRY_FOREVER)
			req->rnr_retries--;
		/* The peer has answered: tries are counted from here on, however long it has no receive. */
		req->retries = qp->qpc->retry_cnt;
		req->why = SIMHCA_REASON_NO_RESPONSE;
		if (qp->link->not_ready)
			qp->link->not_ready(qp);
		/* A NAK for the packets behind this one is no further loss, whenever it comes. */
		req->went_back = true;
		simhca_go_back(qp);
		simhca_wait_rnr(qp, packet->syndrome & SIMHCA_RNR_TIMER_MASK);
		return;
	}
	switch (packet->syndrome) {
	case SIMHCA_SYNDROME_NAK_PSN:
		lost(worker, qp, packet->reason);
		break;
	case SIMHCA_SYNDROME_NAK_INVALID:
		simhca_stats_once(qp->device, SIMHCA_STAT_REQ_REMOTE_INVALID);
		fail(worker, qp, SIMHCA_WC_REM_INV_REQ_ERR, packet->reason);
		break;
	case SIMHCA_SYNDROME_NAK_ACCESS:
		simhca_stats_once(qp->device, SIMHCA_STAT_REQ_REMOTE_ACCESS);
		fail(worker, qp, SIMHCA_WC_REM_ACCESS_ERR, packet->reason);
		break;
	case SIMHCA_SYNDROME_NAK_OPERATIONAL:
		fail(worker, qp, SIMHCA_WC_REM_OP_ERR, packet->reason);
		break;
	default: /* reserved */
		break;
	}
}

struct simhca_handover simhca_completer_run(struct simhca_worker *worker, struct simhca_qp *qp,
					    const struct simhca_packet *packet)
{
	struct simhca_requester *req = &qp->req;
	struct simhca_handover accepted = { .outcome = SIMHCA_ACCEPTED };

	if (packet->syndrome == SIMHCA_SYNDROME_NAK_PSN) {
		simhca_stats_add(worker, qp->device, SIMHCA_STAT_PACKET_SEQ_ERR, 1);
		/* A responder reports a gap once, so its reason explains a later silence as well. */
		if (packet->reason != SIMHCA_REASON_NONE)
			req->why = packet->reason;
	}
	/* A late response, or one that answers nothing. */
	if (!req->count || simhca_psn_distance(req->psn_una, packet->psn) >=
				   simhca_psn_distance(req->psn_una, req->psn_sent))
		return accepted;
	if (packet->op != SIMHCA_PKT_ACK)
		return response(worker, qp, packet);
	if (!SIMHCA_SYNDROME_IS_ACK(packet->syndrome))
		nak(worker, qp, packet);
	else
		acknowledge_before(worker, qp, simhca_psn_add(packet->psn, 1));
	return accepted;
}
