/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The completion of a receive, well or badly. */
#include "comp_cntr.h"
#include "core/stats.h"
#include "failure.h"
#include "qp.h"
#include "responder_impl.h"
#include "wqe.h"

struct simhca_cqe simhca_recv_cqe(struct simhca_request *request, enum simhca_wc_status status,
				  enum simhca_reason reason, uint64_t bytes)
{
	struct simhca_qp *qp = request->qp;
	const struct simhca_recv_wqe recv = simhca_recv_header(qp);
	struct simhca_cqe cqe =
		simhca_cqe_of_receive(request->packet, recv.wr_id, recv.record, qp->qpn, bytes,
				      qp->device->config.infiniband);

	cqe.vendor_err = reason;
	cqe.status = (uint8_t)status;
	if (status != SIMHCA_WC_SUCCESS)
		cqe.flags &= (uint8_t)~SIMHCA_CQE_INV;
	if (qp->responder.in_slot && request->packet->op == SIMHCA_PKT_SEND &&
	    status == SIMHCA_WC_SUCCESS)
		cqe.in_slot = SIMHCA_CQE_IN_WQE;
	simhca_recv_done(qp);
	if (status == SIMHCA_WC_SUCCESS) {
		simhca_count(qp, SIMHCA_COUNTS_RECV, 1, bytes);
		simhca_usage_add(&qp->usage->received, 1);
		simhca_usage_add(&qp->usage->received_bytes, bytes);
	} else {
		simhca_count_error(qp, SIMHCA_COUNTS_RECV);
		simhca_stats_once(qp->device, SIMHCA_STAT_RESP_CQE_ERROR);
	}
	if (status == SIMHCA_WC_LOC_LEN_ERR)
		simhca_stats_once(qp->device, SIMHCA_STAT_RESP_LOCAL_LENGTH);
	return cqe;
}

bool simhca_recv_complete(struct simhca_request *request, enum simhca_wc_status status,
			  enum simhca_reason reason, uint64_t bytes)
{
	struct simhca_qp *qp = request->qp;
	struct simhca_recv recv;
	/* It is gone once it has a completion. */
	bool is_told = status != SIMHCA_WC_SUCCESS && simhca_recv_read(qp, &recv);
	struct simhca_cqe cqe = simhca_recv_cqe(request, status, reason, bytes);

	if (status != SIMHCA_WC_SUCCESS)
		simhca_report_recv(request->worker, qp, is_told ? &recv : NULL, cqe.wr_id,
				   request->packet->src_qpn, status, reason);
	return qp->source->complete(qp, &cqe);
}
