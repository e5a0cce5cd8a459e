/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What is wrong with a send WQE by itself, whatever the memory that it names. */
#include <string.h>

#include "core/av.h"
#include "core/device.h"
#include "link.h"
#include "qp.h"
#include "wqe.h"

/* It moves no data. */
static enum simhca_reason check_flush(const struct simhca_send_wqe *wqe)
{
	const uint8_t both = SIMHCA_FLUSH_GLOBAL | SIMHCA_FLUSH_PERSISTENT;

	if (!wqe->flush.placement || (wqe->flush.placement & ~both) ||
	    wqe->flush.selectivity > SIMHCA_FLUSH_MR)
		return SIMHCA_REASON_FLUSH_BAD_TYPE;
	return SIMHCA_REASON_NONE;
}

enum simhca_reason simhca_wqe_check(const struct simhca_qp *qp, struct simhca_send *send)
{
	uint32_t opcode = send->wqe.opcode;
	enum simhca_reason reason;

	if (simhca_is_local_op(opcode) || opcode == SIMHCA_WR_FLUSH)
		send->length = 0;
	if (opcode == SIMHCA_WR_ATOMIC_WRITE && !send->wqe.num_sge &&
	    !(send->wqe.flags & SIMHCA_WQE_INLINE)) {
		memcpy(send->data, &send->wqe.rdma.swap, 8);
		send->wqe.flags |= SIMHCA_WQE_INLINE;
		send->length = 8;
	}
	reason = simhca_gate_operation(&send->wqe, qp->type, send->length, qp->qpc->max_rd_atomic);
	if (reason != SIMHCA_REASON_NONE || simhca_is_local_op(opcode))
		return reason;
	if (opcode == SIMHCA_WR_FLUSH)
		return check_flush(&send->wqe);
	if (qp->type == SIMHCA_QPT_UD) {
		uint32_t mtu = atomic_load(&qp->device->mem->port.active_mtu);

		if (send->length > simhca_mtu_bytes(mtu))
			return SIMHCA_REASON_MSG_TOO_LONG;
		if (!simhca_av_has_source(qp->device, &send->wqe.ud.av))
			return SIMHCA_REASON_AV_BAD_GID_INDEX;
	}
	/* What a link does not carry is the link's to say. */
	return qp->link->check ? qp->link->check(qp, send) : SIMHCA_REASON_NONE;
}

enum simhca_wc_status simhca_wqe_status(enum simhca_reason reason)
{
	switch (reason) {
	case SIMHCA_REASON_MSG_TOO_LONG:
	case SIMHCA_REASON_FRAME_TOO_SHORT:
	case SIMHCA_REASON_FRAME_TOO_LONG:
	case SIMHCA_REASON_ATOMIC_BAD_LENGTH:
		return SIMHCA_WC_LOC_LEN_ERR;
	default:
		return SIMHCA_WC_LOC_QP_OP_ERR;
	}
}
