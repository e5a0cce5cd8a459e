/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The completion of a receive, well or badly. */
#include "comp_cntr.h"
#include "core/stats.h"
#include "failure.h"
#include "packet/grh.h"
#include "packet/packet.h"
#include "qp.h"
#include "responder_impl.h"
#include "wqe.h"

struct simhca_cqe simhca_recv_cqe(struct simhca_qp *qp, const struct simhca_packet *packet,
				  enum simhca_wc_status status, enum simhca_reason reason,
				  uint64_t bytes)
{
	struct simhca_cqe cqe = {
		.wr_id = simhca_recv_id(qp),
		.qpn = qp->qpn,
		.src_qpn = packet->src_qpn,
		.byte_len = (uint32_t)bytes,
		.imm_or_rkey = packet->has_imm || packet->has_inv ? packet->imm_or_rkey : 0,
		.vendor_err = reason,
		.opcode = packet->op == SIMHCA_PKT_WRITE ? SIMHCA_WC_RECV_RDMA_WITH_IMM
							 : SIMHCA_WC_RECV,
		.status = (uint8_t)status,
		.flags = SIMHCA_CQE_RECV,
		.sl = packet->av->sl,
		.slid = packet->slid,
	};

	cqe.in_slot = qp->responder.in_slot && packet->op == SIMHCA_PKT_SEND &&
		      status == SIMHCA_WC_SUCCESS;
	if (packet->has_imm)
		cqe.flags |= SIMHCA_CQE_IMM;
	if (packet->has_inv && status == SIMHCA_WC_SUCCESS)
		cqe.flags |= SIMHCA_CQE_INV;
	if (packet->solicited)
		cqe.flags |= SIMHCA_CQE_SOLICITED;
	if (packet->transport == SIMHCA_QPT_UD && packet->av->is_global) {
		cqe.flags |= SIMHCA_CQE_GRH;
		if (!qp->device->config.infiniband)
			cqe.sl = simhca_grh_of_roce(packet->av);
	}
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

bool simhca_recv_complete(struct simhca_qp *qp, const struct simhca_packet *packet,
			  enum simhca_wc_status status, enum simhca_reason reason, uint64_t bytes)
{
	struct simhca_cqe cqe = simhca_recv_cqe(qp, packet, status, reason, bytes);

	if (status != SIMHCA_WC_SUCCESS)
		simhca_report_recv(qp, cqe.wr_id, packet->src_qpn, status, reason);
	return qp->source->complete(qp, &cqe, packet->solicited);
}
