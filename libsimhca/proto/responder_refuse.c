/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Requests that are refused or dropped, or have no receive. */
#include <infiniband/verbs.h>

#include "comp_cntr.h"
#include "core/stats.h"
#include "failure.h"
#include "link.h"
#include "packet/packet.h"
#include "qp.h"
#include "responder_impl.h"

/*
 * Unreliable, and the requester's fault: silently dropped, and the QP goes on. A receive that the
 * message had consumed is there for the next one (IBTA vol. 1, 9.9.3, class D). One of an SRQ
 * cannot go back, nor wait for this QP's next message, so it fails (class E).
 */
static void drop(struct simhca_request *request, enum simhca_wc_status status,
		 enum simhca_reason reason)
{
	struct simhca_qp *qp = request->qp;

	simhca_report_refusal(qp, request->packet, "drops", reason);
	qp->resp.in_message = false;
	if (qp->resp.have_recv && qp->responder.srq)
		simhca_recv_complete(request, status, reason, 0);
	else if (status == SIMHCA_WC_LOC_LEN_ERR)
		simhca_stats_once(qp->device, SIMHCA_STAT_RESP_LOCAL_LENGTH);
}

void simhca_refuse(struct simhca_request *request, enum simhca_syndrome nak,
		   enum simhca_wc_status status, enum simhca_reason reason)
{
	struct simhca_qp *qp = request->qp;
	const struct simhca_packet *packet = request->packet;

	simhca_reply_nak(request, nak, reason);
	if (nak == SIMHCA_SYNDROME_NAK_ACCESS)
		simhca_stats_once(qp->device, SIMHCA_STAT_RESP_REMOTE_ACCESS);
	/* Its own memory is the QP's fault. */
	if (nak != SIMHCA_SYNDROME_NAK_OPERATIONAL && !simhca_is_reliable(packet->transport) &&
	    !qp->link->stops) {
		drop(request, status, reason);
		return;
	}
	simhca_report_refusal(qp, packet, "refuses", reason);
	/* It has been answered before. Who asks again may have been heard already, and gone on. */
	if (request->repeated)
		return;
	if (packet->op == SIMHCA_PKT_WRITE)
		simhca_count_error(qp, SIMHCA_COUNTS_REMOTE_WRITE);
	else if (packet->op == SIMHCA_PKT_READ)
		simhca_count_error(qp, SIMHCA_COUNTS_REMOTE_READ);
	if (status == SIMHCA_WC_SUCCESS && qp->resp.have_recv)
		status = nak == SIMHCA_SYNDROME_NAK_ACCESS ? SIMHCA_WC_LOC_ACCESS_ERR
							   : SIMHCA_WC_REM_INV_REQ_ERR;
	if (status != SIMHCA_WC_SUCCESS)
		simhca_recv_complete(request, status, reason, 0);
	else
		simhca_qp_event(qp, nak == SIMHCA_SYNDROME_NAK_ACCESS ? IBV_EVENT_QP_ACCESS_ERR
								      : IBV_EVENT_QP_REQ_ERR);
	simhca_qp_fail(qp, SIMHCA_QPS_ERR);
}

bool simhca_recv_admits(struct simhca_request *request)
{
	struct simhca_qp *qp = request->qp;
	enum simhca_syndrome nak = SIMHCA_SYNDROME_NAK_ACCESS;
	enum simhca_reason reason;

	if (!qp->source->admit)
		return true;
	reason = qp->source->admit(qp, request->packet, request->repeated, &nak);
	if (reason == SIMHCA_REASON_NONE)
		return true;
	simhca_refuse(request, nak, SIMHCA_WC_SUCCESS, reason);
	return false;
}

bool simhca_recv_need(struct simhca_request *request)
{
	struct simhca_qp *qp = request->qp;

	if (qp->resp.have_recv)
		return true;
	switch (qp->source->consume(request->worker, qp, request->packet)) {
	case SIMHCA_CONSUME_OK:
		qp->resp.have_recv = true;
		return true;
	case SIMHCA_CONSUME_EMPTY:
		simhca_reply_nak(request, SIMHCA_SYNDROME_RNR_NAK | qp->qpc->min_rnr_timer,
				 SIMHCA_REASON_PEER_NOT_READY);
		return false;
	case SIMHCA_CONSUME_SHORT:
		/* For the log, which reads the copy. */
		qp->resp.have_recv = true;
		simhca_refuse(request, SIMHCA_SYNDROME_NAK_INVALID, SIMHCA_WC_LOC_LEN_ERR,
			      SIMHCA_REASON_RECV_TOO_SHORT);
		qp->resp.have_recv = false;
		return false;
	case SIMHCA_CONSUME_BROKEN:
		simhca_refuse(request, SIMHCA_SYNDROME_NAK_OPERATIONAL, SIMHCA_WC_SUCCESS,
			      SIMHCA_REASON_RING_CORRUPT);
		return false;
	case SIMHCA_CONSUME_CORRUPT:
		break;
	}
	simhca_qp_corrupt(qp);
	simhca_reply_nothing(request, SIMHCA_REASON_NONE);
	return false;
}
