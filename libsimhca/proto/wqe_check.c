/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What is wrong with a send WQE by itself, whatever the memory that it names. */
#include <string.h>

#include "core/av.h"
#include "core/device.h"
#include "link.h"
#include "qp.h"
#include "wqe.h"

/* What a link does not carry is the link's to say. */
static bool transport_has(uint32_t type, uint32_t opcode)
{
	return simhca_op_has(opcode, simhca_is_reliable(type) ? SIMHCA_OP_RELIABLE
				     : type == SIMHCA_QPT_UC  ? SIMHCA_OP_UC
							      : SIMHCA_OP_UNCONNECTED);
}

/* It moves no data, and takes a resource of the responder like a read (IBTA vol. 1, A19). */
static enum simhca_reason check_flush(const struct simhca_qp *qp, struct simhca_send *send)
{
	const uint8_t both = SIMHCA_FLUSH_GLOBAL | SIMHCA_FLUSH_PERSISTENT;

	send->length = 0;
	if (!send->wqe.flush.placement || (send->wqe.flush.placement & ~both) ||
	    send->wqe.flush.selectivity > SIMHCA_FLUSH_MR)
		return SIMHCA_REASON_FLUSH_BAD_TYPE;
	return qp->qpc->max_rd_atomic ? SIMHCA_REASON_NONE : SIMHCA_REASON_READ_NOT_ENABLED;
}

enum simhca_reason simhca_wqe_check(const struct simhca_qp *qp, struct simhca_send *send)
{
	uint32_t opcode = send->wqe.opcode;

	if (!transport_has(qp->type, opcode))
		return SIMHCA_REASON_WQE_BAD_OPCODE;
	if (simhca_is_local_op(opcode)) {
		send->length = 0;
		return SIMHCA_REASON_NONE;
	}
	if (opcode == SIMHCA_WR_FLUSH)
		return check_flush(qp, send);
	if (simhca_response_has_data(opcode)) {
		if (send->wqe.flags & SIMHCA_WQE_INLINE)
			return SIMHCA_REASON_WQE_BAD_OPCODE;
		if (!qp->qpc->max_rd_atomic)
			return SIMHCA_REASON_READ_NOT_ENABLED;
	}
	if (opcode == SIMHCA_WR_ATOMIC_WRITE) {
		if (!qp->qpc->max_rd_atomic)
			return SIMHCA_REASON_READ_NOT_ENABLED;
		if (!send->wqe.num_sge && !(send->wqe.flags & SIMHCA_WQE_INLINE)) {
			memcpy(send->data, &send->wqe.rdma.swap, 8);
			send->wqe.flags |= SIMHCA_WQE_INLINE;
			send->length = 8;
		}
	}
	if ((simhca_is_atomic(opcode) || opcode == SIMHCA_WR_ATOMIC_WRITE) && send->length != 8)
		return SIMHCA_REASON_ATOMIC_BAD_LENGTH;
	if (qp->type == SIMHCA_QPT_UD) {
		uint32_t mtu = atomic_load(&qp->device->mem->port.active_mtu);

		if (send->length > simhca_mtu_bytes(mtu))
			return SIMHCA_REASON_MSG_TOO_LONG;
		if (!simhca_av_has_source(qp->device, &send->wqe.ud.av))
			return SIMHCA_REASON_AV_BAD_GID_INDEX;
	}
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
