/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Requests that came before, and what is kept so as to answer them again. */
#include "engine/stats.h"
#include "packet/packet.h"
#include "queue/progress.h"
#include "qp.h"
#include "responder_impl.h"
#include "simhca-device.h"

/* Not answered, so that it does not count as done; the requester's timer decides. Told once. */
static void simhca_request_ignore(struct simhca_request *request, enum simhca_reason reason)
{
	struct simhca_qp *qp = request->qp;

	simhca_reply_nothing(request, reason);
	if (qp->resp.reported_psn)
		return;
	qp->resp.reported_psn = true;
	simhca_qp_log(qp,
		      " ignores PSN 0x%06x of QP 0x%06x (rq_psn is 0x%06x, now expected "
		      "0x%06x): %s",
		      request->packet->psn, request->packet->src_qpn, qp->qpc->rq_psn,
		      qp->resp.epsn, simhca_reason_text(reason));
}

/* Finds the latest read or atomic that a PSN is of; false: none that is remembered. */
static bool answered(const struct simhca_qp *qp, uint32_t psn, struct simhca_answered *one)
{
	for (uint32_t i = 1; i <= SIMHCA_MAX_RD_ATOMIC; i++) {
		if (simhca_progress_answered(qp->mem, qp->resp.answers, i, one) &&
		    simhca_is_remembered(one->op) &&
		    simhca_psn_distance(one->psn, psn) <
			    simhca_answered_psns(one, one->op == SIMHCA_PKT_READ,
						 simhca_qp_mtu(qp)))
			return true;
	}
	return false;
}

/* Whether a read asks for the rest of that one, or for less. */
static bool is_part_of(const struct simhca_qp *qp, const struct simhca_packet *packet,
		       const struct simhca_answered *read)
{
	return read->op == SIMHCA_PKT_READ && packet->rkey == read->rkey &&
	       simhca_answered_covers(read, packet->psn, packet->va, packet->dma_length,
				      simhca_qp_mtu(qp));
}

/* A packet that came before: its answer is given again, its effect is not (9.7.5.1.4). */
static void repeat(struct simhca_request *request)
{
	struct simhca_qp *qp = request->qp;
	const struct simhca_packet *packet = request->packet;
	struct simhca_answered original;

	request->repeated = true;
	switch (packet->op) {
	case SIMHCA_PKT_SEND:
	case SIMHCA_PKT_WRITE:
	case SIMHCA_PKT_ATOMIC_WRITE:
	case SIMHCA_PKT_FLUSH:
		simhca_reply_ack(request);
		break;
	case SIMHCA_PKT_READ:
		if (!answered(qp, packet->psn, &original) || !is_part_of(qp, packet, &original)) {
			simhca_request_ignore(request, SIMHCA_REASON_PSN_REUSED);
			return;
		}
		if (!simhca_recv_admits(request))
			return;
		if (!simhca_execute_read(request))
			return;
		break;
	case SIMHCA_PKT_COMPARE_SWAP:
	case SIMHCA_PKT_FETCH_ADD:
		if (!answered(qp, packet->psn, &original) || original.op != packet->op) {
			simhca_reply_nothing(request, SIMHCA_REASON_ATOMIC_FORGOTTEN);
			return;
		}
		request->atomic_old = original.old;
		simhca_reply_ack(request);
		break;
	case SIMHCA_PKT_ACK: /* no requests */
	case SIMHCA_PKT_READ_RESPONSE:
	case SIMHCA_PKT_ATOMIC_ACK:
	case SIMHCA_PKT_CNP:
	case SIMHCA_PKT_EFA:
		return;
	}
	simhca_request_count(request);
}

void simhca_request_old(struct simhca_request *request, uint32_t back)
{
	struct simhca_qp *qp = request->qp;
	const struct simhca_packet *packet = request->packet;

	if (back > qp->resp.psns_done) {
		simhca_stats_add(request->worker, qp->device, SIMHCA_STAT_OUT_OF_SEQUENCE, 1);
		simhca_request_ignore(request, SIMHCA_REASON_PSN_BEFORE_START);
	} else if (request->psns <= back) {
		simhca_stats_add(request->worker, qp->device, SIMHCA_STAT_DUPLICATE_REQUEST, 1);
		repeat(request);
	} else if (packet->gathered) {
		/* What is new in it counts as lost. */
		simhca_reply_nak(request, SIMHCA_SYNDROME_NAK_PSN, SIMHCA_REASON_PSN_SEQUENCE);
		qp->resp.nak_sent = true;
	} else if (packet->op == SIMHCA_PKT_SEND || packet->op == SIMHCA_PKT_WRITE) {
		/* On a wire the first packet that is new is a middle or last one of no message. */
		simhca_refuse_invalid(request, SIMHCA_REASON_PSN_REUSED);
	} else {
		simhca_request_ignore(request, SIMHCA_REASON_PSN_REUSED);
	}
}
