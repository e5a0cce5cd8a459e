/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The responder (IBTA vol. 1, 9.7.4): takes request packets, checks sequence, operation and
 * rights, places or fetches the data, completes receives, and answers.
 */
#include <infiniband/verbs.h>
#include <string.h>

#include "comp_cntr.h"
#include "engine/stats.h"
#include "failure.h"
#include "injected.h"
#include "link.h"
#include "packet/packet.h"
#include "queue/psn.h"
#include "qp.h"
#include "responder.h"
#include "responder_impl.h"
#include "simhca-device.h"

static const struct simhca_handover accepted = { .outcome = SIMHCA_ACCEPTED };

/* Carries out a request that is in sequence. */
static bool execute(struct simhca_request *request)
{
	switch (request->packet->op) {
	case SIMHCA_PKT_SEND:
		return simhca_execute_send(request);
	case SIMHCA_PKT_WRITE:
		return simhca_execute_write(request);
	case SIMHCA_PKT_READ:
		return simhca_execute_read(request);
	case SIMHCA_PKT_COMPARE_SWAP:
	case SIMHCA_PKT_FETCH_ADD:
		return simhca_execute_atomic(request);
	case SIMHCA_PKT_ATOMIC_WRITE:
		return simhca_execute_atomic_write(request);
	case SIMHCA_PKT_FLUSH:
		return simhca_execute_flush(request);
	case SIMHCA_PKT_ACK: /* no requests */
	case SIMHCA_PKT_READ_RESPONSE:
	case SIMHCA_PKT_ATOMIC_ACK:
	case SIMHCA_PKT_CNP:
	case SIMHCA_PKT_EFA:
		break;
	}
	simhca_reply_nothing(request, SIMHCA_REASON_NONE);
	return false;
}

/* Whether a packet begins a message, or continues the current one, as it should. */
static bool continues(const struct simhca_qp *qp, const struct simhca_packet *packet)
{
	if (packet->op == SIMHCA_PKT_SEND || packet->op == SIMHCA_PKT_WRITE) {
		if (packet->first)
			return !qp->resp.in_message;
		return qp->resp.in_message && qp->resp.write == (packet->op == SIMHCA_PKT_WRITE);
	}
	return !qp->resp.in_message;
}

static bool in_sequence_rc(struct simhca_request *request)
{
	struct simhca_qp *qp = request->qp;
	int32_t order = simhca_psn_cmp(request->packet->psn, qp->resp.epsn);

	if (order > 0) {
		simhca_stats_add(request->worker, qp->device, SIMHCA_STAT_OUT_OF_SEQUENCE, 1);
		if (!qp->resp.nak_sent)
			simhca_reply_nak(request, SIMHCA_SYNDROME_NAK_PSN,
					 SIMHCA_REASON_PSN_SEQUENCE);
		qp->resp.nak_sent = true;
		return false;
	}
	if (order < 0) {
		simhca_request_old(request, (uint32_t)-order);
		return false;
	}
	qp->resp.nak_sent = false;
	if (!continues(qp, request->packet)) {
		simhca_refuse_invalid(request, SIMHCA_REASON_OPCODE_SEQUENCE);
		return false;
	}
	return true;
}

/* On UC a gap loses the message that it falls into; the next first packet begins anew (9.8.2.2.1). */
static bool in_sequence_uc(struct simhca_qp *qp, const struct simhca_packet *packet)
{
	if (packet->first) {
		qp->resp.in_message = false;
		return true;
	}
	if (packet->psn == qp->resp.epsn && continues(qp, packet))
		return true;
	qp->resp.in_message = false;
	return false;
}

/* All packets of a message but the last are full, and no message is too long (9.7.4.1.6). */
static enum simhca_reason check_length(const struct simhca_qp *qp,
				       const struct simhca_packet *packet)
{
	if (packet->dma_length > SIMHCA_MAX_MSG_SIZE &&
	    (packet->op == SIMHCA_PKT_WRITE || packet->op == SIMHCA_PKT_READ))
		return SIMHCA_REASON_MSG_TOO_LONG;
	/* By a wire it has taken one PSN, and by its length it should have taken more. */
	if (packet->remote && !packet->gathered && packet->length > simhca_qp_mtu(qp))
		return SIMHCA_REASON_PATH_MTU_DIFFERS;
	if (packet->first && packet->last)
		return SIMHCA_REASON_NONE;
	if (!packet->first && qp->resp.offset + packet->length > SIMHCA_MAX_MSG_SIZE)
		return SIMHCA_REASON_MSG_TOO_LONG;
	if (!packet->length)
		return SIMHCA_REASON_OPCODE_SEQUENCE;
	if (!packet->last && packet->length % simhca_qp_mtu(qp))
		return SIMHCA_REASON_PATH_MTU_DIFFERS;
	return SIMHCA_REASON_NONE;
}

static void run_connected(struct simhca_request *request)
{
	struct simhca_qp *qp = request->qp;
	const struct simhca_packet *packet = request->packet;
	enum simhca_reason reason;
	struct simhca_place before;

	/* The ends would count PSNs differently, until new packets are taken for duplicates. */
	if (packet->mtu != qp->qpc->path_mtu &&
	    request->psns != simhca_request_psns(packet, qp->qpc->path_mtu)) {
		simhca_refuse_invalid(request, SIMHCA_REASON_PATH_MTU_DIFFERS);
		return;
	}
	if (simhca_is_reliable(packet->transport) ? !in_sequence_rc(request)
						  : !in_sequence_uc(qp, packet))
		return;
	reason = check_length(qp, packet);
	if (__builtin_expect(reason != SIMHCA_REASON_NONE, 0)) {
		simhca_refuse_invalid(request, reason);
		return;
	}
	if (!simhca_recv_admits(request))
		return;
	if (packet->first)
		qp->resp.offset = 0;
	before = simhca_place_of(qp);
	/* A read counts as complete when its response begins (9.7.7.1), which has the new MSN. */
	if (packet->op == SIMHCA_PKT_READ)
		simhca_responder_advance(request);
	simhca_reply_ack(request);
	if (!execute(request)) {
		if (request->advanced)
			simhca_responder_retreat(request, &before);
		return;
	}
	if (!request->advanced)
		simhca_responder_advance(request);
	if (packet->op == SIMHCA_PKT_WRITE)
		simhca_count(qp, SIMHCA_COUNTS_REMOTE_WRITE, packet->last, packet->length);
	else if (packet->op == SIMHCA_PKT_READ)
		simhca_count(qp, SIMHCA_COUNTS_REMOTE_READ, 1, packet->dma_length);
	simhca_request_count(request);
}

/*
 * No receive was posted: counts that. A datagram, or a message on UC, is lost, which its sender does not
 * hear of, so it is reported.
 */
static void count_no_receive(struct simhca_request *request)
{
	struct simhca_qp *qp = request->qp;

	simhca_stats_add(request->worker, qp->device, SIMHCA_STAT_OUT_OF_BUFFER, 1);
	simhca_usage_add(&qp->usage->no_receive, 1);
	/* relaxed: it is for who looks later. */
	if (qp->responder.srq ? simhca_srq_posted(&qp->responder.srq->view)
			      : simhca_posted_receives(qp))
		return;
	simhca_usage_add(&qp->usage->too_early, 1);
	if (!simhca_is_reliable(request->packet->transport))
		simhca_report_refusal(qp, request->packet, "drops", SIMHCA_REASON_PEER_NOT_READY);
}

/*
 * Answers the request, on a reliable transport: with an ACK, a NAK, the old value of an atomic, or the
 * empty response of an atomic write or a flush. simhca_read_respond() has sent those of a READ.
 */
static struct simhca_handover answer(struct simhca_request *request)
{
	const struct simhca_packet *packet = request->packet;
	struct simhca_packet response;

	if (request->kind == SIMHCA_NOT_ACCEPTED || request->kind == SIMHCA_SILENCE)
		return request->handover;
	if (request->kind == SIMHCA_NAK && SIMHCA_SYNDROME_IS_RNR(request->syndrome))
		count_no_receive(request);
	if (!simhca_is_reliable(packet->transport) ||
	    (request->kind == SIMHCA_RESPONSE && !packet->ack_req))
		return accepted;
	response = (struct simhca_packet){
		.op = SIMHCA_PKT_ACK,
		.psn = packet->psn,
		.first = true,
		.last = true,
		.syndrome = SIMHCA_SYNDROME_ACK,
	};
	if (request->kind == SIMHCA_NAK) {
		response.syndrome = request->syndrome;
		response.reason = request->reason;
		if (request->syndrome == SIMHCA_SYNDROME_NAK_PSN)
			response.psn = request->qp->resp.epsn;
	} else {
		response.psn = simhca_psn_add(packet->psn, request->psns - 1);
		if (packet->op == SIMHCA_PKT_COMPARE_SWAP || packet->op == SIMHCA_PKT_FETCH_ADD) {
			response.op = SIMHCA_PKT_ATOMIC_ACK;
			response.atomic_old = request->atomic_old;
		} else if (packet->op == SIMHCA_PKT_ATOMIC_WRITE ||
			   packet->op == SIMHCA_PKT_FLUSH) {
			response.op = SIMHCA_PKT_READ_RESPONSE;
		}
	}
	simhca_respond(request, &response);
	return accepted;
}

struct simhca_handover simhca_responder_run(struct simhca_worker *worker, struct simhca_qp *qp,
					    const struct simhca_packet *packet)
{
	uint32_t state = simhca_qp_state(qp);
	struct simhca_request request = { .worker = worker,
					  .qp = qp,
					  .packet = packet,
					  .kind = SIMHCA_SILENCE,
					  .psns = simhca_request_psns(packet, packet->mtu) };

	if (!simhca_state_receives(state))
		return accepted;
	if (qp->link->receive) {
		qp->link->receive(&request);
		return answer(&request);
	}
	if (state == SIMHCA_QPS_RTR && !qp->resp.comm_est && packet->transport != SIMHCA_QPT_UD) {
		qp->resp.comm_est = true;
		simhca_qp_event(qp, IBV_EVENT_COMM_EST);
	}
	/* A requester that asks for something else has given up the response that is still owed. */
	qp->resp.owed = SIMHCA_OWES_NOTHING;
	if (packet->transport == SIMHCA_QPT_UD)
		simhca_run_datagram(&request);
	else if (!simhca_inject_is_on(qp->device->fabric) || !simhca_injected_refusal(&request))
		run_connected(&request);
	return answer(&request);
}

struct simhca_handover simhca_responder_continue(struct simhca_worker *worker, struct simhca_qp *qp)
{
	const struct simhca_packet rest = {
		.op = SIMHCA_PKT_READ,
		.transport = qp->type,
		.psn = qp->resp.read.psn,
		.src_qpn = qp->qpc->dest_qpn,
		/*
		 * A receive that is held fails with it, and its completion says which way it came.
		 */
		.av = &qp->qpc->av,
		.srqn = qp->resp.read.srqn,
		.va = qp->resp.read.va,
		.rkey = qp->resp.read.rkey,
		.dma_length = qp->resp.read.left,
	};
	struct simhca_request request = { .worker = worker,
					  .qp = qp,
					  .packet = &rest,
					  .kind = SIMHCA_SILENCE,
					  .repeated = qp->resp.owed == SIMHCA_OWES_REPEATED };

	if (!simhca_state_receives(simhca_qp_state(qp)))
		qp->resp.owed = SIMHCA_OWES_NOTHING;
	else if (!simhca_recv_admits(&request) ||
		 (!simhca_read_respond(&request) && request.kind != SIMHCA_NOT_ACCEPTED))
		qp->resp.owed = SIMHCA_OWES_NOTHING;
	return answer(&request);
}
