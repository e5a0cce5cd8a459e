/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <infiniband/verbs.h>

#include "core/context.h"
#include "failure.h"
#include "injected.h"
#include "packet/packet.h"
#include "qp.h"
#include "requester.h"
#include "responder_impl.h"

struct simhca_inject_hit simhca_inject_hit_at(const struct simhca_qp *qp, enum simhca_point point)
{
	return (struct simhca_inject_hit){
		.point = point,
		.device = qp->device,
		.context = qp->context,
		.qpn = qp->qpn,
		.peer_qpn = qp->qpc->dest_qpn,
		.qp_type = qp->type,
		.opcode = -1,
		.datagram = qp->type == SIMHCA_QPT_UD,
	};
}

enum simhca_injected simhca_injected_start(struct simhca_worker *worker, struct simhca_qp *qp,
					   enum simhca_wc_status *status)
{
	struct simhca_inject_hit hit = simhca_inject_hit_at(qp, SIMHCA_AT_WQE);
	struct simhca_inject_past *past = &qp->inject_past;
	uint32_t index = qp->req.oldest;
	struct simhca_inject_outcome outcome;

	if (past->wqe && past->wqe_index == index)
		return SIMHCA_INJECTED_NOTHING;
	hit.opcode = worker->send->wqe.opcode;
	past->wqe = true;
	past->wqe_index = index;
	if (!simhca_inject_decide(qp->device->fabric, &hit, &outcome))
		return SIMHCA_INJECTED_NOTHING;
	if (outcome.status) {
		*status = (enum simhca_wc_status)outcome.status;
		return SIMHCA_INJECTED_FAILURE;
	}
	if (!outcome.delay_ns)
		return SIMHCA_INJECTED_NOTHING;
	simhca_wait_for(qp, SIMHCA_WAIT_BUSY, outcome.delay_ns);
	return SIMHCA_INJECTED_WAIT;
}

/* An RNR NAK's timer that is that long at least. Code 0 is the longest (IBTA vol. 1, table 45). */
static uint8_t timer_of(uint64_t ns)
{
	uint8_t code = 1;

	while (code < 31 && simhca_rnr_delay(code) < ns)
		code++;
	return simhca_rnr_delay(code) < ns ? 0 : code;
}

bool simhca_injected_refusal(struct simhca_request *request)
{
	struct simhca_qp *qp = request->qp;
	const struct simhca_packet *packet = request->packet;
	struct simhca_inject_hit hit = simhca_inject_hit_at(qp, SIMHCA_AT_ARRIVAL);
	struct simhca_inject_past *past = &qp->inject_past;
	struct simhca_inject_outcome outcome;

	if (!simhca_is_reliable(packet->transport) || packet->psn != qp->resp.epsn ||
	    (past->arrival && past->arrival_psn == packet->psn)) {
		past->arrival = false;
		return false;
	}
	hit.opcode = (int)simhca_request_opcode(packet);
	hit.bytes = packet->length;
	if (!simhca_inject_decide(qp->device->fabric, &hit, &outcome))
		return false;
	if (outcome.fault_ns && !packet->remote) {
		past->arrival = true;
		past->arrival_psn = packet->psn;
		simhca_reply_not_accepted(request, SIMHCA_LATE, SIMHCA_REASON_NONE);
		request->handover.delay_ns = outcome.fault_ns;
	} else if (outcome.fault_ns) {
		simhca_reply_nak(request, SIMHCA_SYNDROME_RNR_NAK | timer_of(outcome.fault_ns),
				 SIMHCA_REASON_INJECTED);
	} else if (outcome.not_ready) {
		simhca_reply_nak(request, SIMHCA_SYNDROME_RNR_NAK | qp->qpc->min_rnr_timer,
				 SIMHCA_REASON_INJECTED);
	} else if (outcome.nak == SIMHCA_SYNDROME_NAK_PSN) {
		simhca_reply_nak(request, outcome.nak, SIMHCA_REASON_INJECTED);
	} else if (outcome.nak) {
		simhca_refuse(request, outcome.nak, SIMHCA_WC_SUCCESS, SIMHCA_REASON_INJECTED);
	} else {
		return false;
	}
	return true;
}

bool simhca_injected_receive(struct simhca_request *request, uint64_t bytes)
{
	struct simhca_inject_hit hit = simhca_inject_hit_at(request->qp, SIMHCA_AT_RECEIVE);
	struct simhca_inject_outcome outcome;

	hit.opcode = (int)simhca_request_opcode(request->packet);
	hit.bytes = bytes;
	if (!simhca_inject_decide(request->qp->device->fabric, &hit, &outcome) || !outcome.status)
		return false;
	simhca_refuse(request, SIMHCA_SYNDROME_NAK_OPERATIONAL,
		      (enum simhca_wc_status)outcome.status, SIMHCA_REASON_INJECTED);
	return true;
}

void simhca_injected_async(struct simhca_qp *qp, uint32_t type)
{
	struct simhca_user_handle port = { .element = 1 };

	switch (type) {
	case IBV_EVENT_CQ_ERR:
		simhca_async_event(qp->context, qp->send_cq->user_handle, qp->send_cq->number,
				   type);
		break;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		if (qp->srq)
			simhca_async_event(qp->context, qp->srq->user_handle, qp->srq->srqn, type);
		break;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		simhca_qp_event(qp, type);
		break;
	default:
		simhca_async_event(qp->context, port, 1, type);
	}
}
