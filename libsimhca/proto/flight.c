/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The messages that a requester has under way: read from their WQEs, and judged, for each packet. */
#include "qp.h"
#include "queue/gate.h"
#include "requester.h"
#include "wqe.h"

enum simhca_reason simhca_flight_read(struct simhca_worker *worker, struct simhca_qp *qp,
				      uint32_t index)
{
	enum simhca_reason reason = simhca_sq_load(qp, index, worker->send);

	worker->send_of = qp;
	worker->send_index = index;
	return reason == SIMHCA_REASON_NONE ? simhca_wqe_check(qp, worker->send) : reason;
}

bool simhca_flight_load(struct simhca_worker *worker, struct simhca_qp *qp, uint32_t younger)
{
	struct simhca_flight *flight = simhca_flight(qp, younger);
	uint32_t index = qp->req.oldest + younger;
	const struct simhca_send *send = worker->send;

	if (worker->send_of == qp && worker->send_index == index)
		return true;
	if (qp->requester.fetching) {
		qp->source->fetch->build_fetch(qp, worker->send);
		worker->send_of = qp;
		worker->send_index = index;
	} else if (simhca_flight_read(worker, qp, index) != SIMHCA_REASON_NONE) {
		goto changed;
	}
	if (simhca_gate_message(flight, send->wqe.opcode, send->length, simhca_qp_mtu(qp)))
		return true;
changed:
	worker->send_of = NULL;
	simhca_qp_corrupt(qp);
	return false;
}
