/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The send queue's work requests that send nothing: binding windows, fast registration and
 * invalidation. They are carried out in the order of the queue, like all others: what was posted
 * before them is done, and what was posted after them finds the key as they leave it.
 */
#include "completer.h"
#include "engine/engine.h"
#include "local_ops.h"
#include "memory/fast_reg.h"
#include "memory/key.h"
#include "memory/mw.h"
#include "own_memory.h"
#include "qp.h"
#include "requester.h"
#include "wqe.h"

enum simhca_next simhca_local_run(struct simhca_worker *worker, struct simhca_qp *qp)
{
	const struct simhca_send_wqe *wqe = &worker->send->wqe;
	const struct simhca_key_use use = simhca_key_use_of(worker, qp, qp->qpc->pd, 0);
	struct simhca_engine *elsewhere = NULL;
	enum simhca_reason reason;
	bool again = false;

	if (!simhca_flight_load(worker, qp, 0))
		return SIMHCA_NEXT_WAIT;
	switch (wqe->opcode) {
	case SIMHCA_WR_BIND_MW:
		reason = simhca_bind_mw(&use, wqe, &again);
		break;
	case SIMHCA_WR_FAST_REG:
		reason = simhca_fast_reg(&use, qp->context->id, wqe, &elsewhere);
		break;
	default:
		reason = simhca_key_revoke(&use, wqe->imm_or_rkey, &qp->req.revoked, &again);
		break;
	}
	if (elsewhere) {
		simhca_engine_schedule(elsewhere, &qp->task);
		return SIMHCA_NEXT_WAIT;
	}
	if (again)
		return simhca_wait_busy(qp);
	simhca_complete_send(
		worker, qp,
		reason == SIMHCA_REASON_NONE ? SIMHCA_WC_SUCCESS : SIMHCA_WC_MW_BIND_ERR, reason);
	return reason == SIMHCA_REASON_NONE ? SIMHCA_NEXT_PACKET : SIMHCA_NEXT_WAIT;
}
