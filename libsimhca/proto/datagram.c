/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Datagrams. */
#include "failure.h"
#include "packet/grh.h"
#include "packet/packet.h"
#include "responder_impl.h"

void simhca_run_datagram(struct simhca_request *request)
{
	struct simhca_qp *qp = request->qp;
	const struct simhca_packet *packet = request->packet;
	uint8_t grh[SIMHCA_GRH_BYTES];
	struct simhca_sgl header;
	struct simhca_recv recv;

	if (packet->qkey != simhca_qkey(qp->qpc)) { /* dropped and counted (IBTA vol. 1, 10.2.5) */
		atomic_fetch_add(&qp->device->mem->port.qkey_viol_cntr, 1);
		simhca_report_refusal(qp, packet, "drops", SIMHCA_REASON_QKEY_MISMATCH);
		return;
	}
	if (!simhca_recv_need(request))
		return;
	qp->resp.offset = 0;
	if (!simhca_recv_wqe(request, &recv))
		return;
	if (SIMHCA_GRH_BYTES + packet->length > recv.length) {
		simhca_refuse(request, SIMHCA_SYNDROME_NAK_INVALID, SIMHCA_WC_LOC_LEN_ERR,
			      SIMHCA_REASON_RECV_TOO_SHORT);
		return;
	}
	if (packet->av->is_global) {
		simhca_grh_build(packet->av, &packet->sgid, packet->length,
				 qp->device->config.infiniband, grh);
		header.count = 1;
		header.seg[0] =
			(struct simhca_seg){ .addr = (uintptr_t)grh, .length = sizeof(grh) };
		if (!simhca_recv_place(request, &header, 0, sizeof(grh)))
			return;
	}
	if (!simhca_recv_place(request, packet->payload, SIMHCA_GRH_BYTES, packet->length))
		return;
	simhca_recv_complete(request, SIMHCA_WC_SUCCESS, SIMHCA_REASON_NONE,
			     SIMHCA_GRH_BYTES + packet->length);
	simhca_reply_ack(request);
}
