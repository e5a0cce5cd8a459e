/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What the transport does when pages of its own are not there. */
#include "completer.h"
#include "dma/dma.h"
#include "memory/key.h"
#include "own_memory.h"
#include "queue/progress.h"
#include "simhca-info.h"
#include "wqe.h"

/* A control function wants the QP, and faults are disabled meanwhile. */
#define FAULTS_OFF_NS (1000 * 1000)

enum simhca_reach simhca_own_failed(struct simhca_worker *worker, struct simhca_qp *qp,
				    enum simhca_own_access access, const struct simhca_sgl *sgl,
				    enum simhca_reason *reason)
{
	enum simhca_reach reach = simhca_fault_check_copy(worker, &qp->faults, access, sgl, reason);

	/* It cannot go on: it comes again. */
	return reach == SIMHCA_REACHED ? SIMHCA_REACH_LATER : reach;
}

enum simhca_reach simhca_own_copy(struct simhca_worker *worker, struct simhca_qp *qp,
				  enum simhca_own_access access, const struct simhca_sgl *target,
				  const struct simhca_sgl *source, uint64_t length,
				  enum simhca_reason *reason)
{
	enum simhca_reach reach = simhca_own_reach(worker, qp, access, target, reason);

	if (reach != SIMHCA_REACHED)
		return reach;
	switch (simhca_dma_copy(target, source, length, &worker->mover, reason)) {
	case SIMHCA_DMA_OK:
		simhca_own_done(qp, access);
		return SIMHCA_REACHED;
	case SIMHCA_DMA_SOURCE:
		return SIMHCA_REACH_OTHER;
	case SIMHCA_DMA_TARGET:
		break;
	}
	return simhca_own_failed(worker, qp, access, target, reason);
}

enum simhca_next simhca_own_wait(struct simhca_worker *worker, struct simhca_qp *qp,
				 enum simhca_own_access access, enum simhca_reach reach,
				 enum simhca_reason reason)
{
	if (reach == SIMHCA_REACH_FAILED) {
		simhca_complete_send(worker, qp, SIMHCA_WC_LOC_PROT_ERR, reason);
		return SIMHCA_NEXT_WAIT;
	}
	/*
	 * It may have ended since it was raised; then the QP has been scheduled, and finds that it
	 * need not wait. Only if none could be raised nobody schedules it.
	 */
	if (!simhca_fault_raised(&qp->faults, access))
		return simhca_wait_for(qp, SIMHCA_WAIT_BUSY, FAULTS_OFF_NS);
	qp->req.fault = access;
	return simhca_wait_for(qp, SIMHCA_WAIT_FAULT, 0);
}

void simhca_own_look_ahead(struct simhca_worker *worker, struct simhca_qp *qp)
{
	uint32_t stopped = qp->req.oldest + simhca_flight_at(qp, qp->req.psn_send), posted;
	bool was_response = qp->req.fault == SIMHCA_REQUESTER_WRITE;

	if (qp->requester.fetching ||
	    simhca_fault_raised(&qp->faults,
				was_response ? SIMHCA_REQUESTER_READ : SIMHCA_REQUESTER_WRITE))
		return;
	if (!simhca_progress_sends(qp->mem, qp->req.oldest, qp->req.count, qp->sq_entries,
				   &posted)) {
		simhca_qp_corrupt(qp);
		return;
	}
	if (posted > SIMHCA_MAX_FLIGHTS) /* no more can be under way at a time */
		posted = SIMHCA_MAX_FLIGHTS;
	simhca_guard_widen(&worker->guard);
	for (uint32_t index = stopped + 1; index != qp->req.oldest + posted; index++) {
		struct simhca_key_use use = simhca_key_use_of(worker, qp, qp->qpc->pd, 0);
		struct simhca_sgl sgl;
		struct simhca_send send;
		enum simhca_reason reason;
		bool response;

		/* What is wrong with it shows when it is its turn. */
		if (simhca_sq_load(qp, index, &send) != SIMHCA_REASON_NONE)
			return;
		response = simhca_response_has_data(send.wqe.opcode);
		/* A local operation has no SGEs, and so no length. */
		if (response == was_response || (send.wqe.flags & SIMHCA_WQE_INLINE) ||
		    !send.length)
			continue;
		if (response)
			use.access = SIMHCA_ACCESS_LOCAL_WRITE;
		sgl.count = 0;
		simhca_own_begin(worker);
		reason = simhca_translate_sges(
			&use, send.sge, send.wqe.num_sge, 0,
			send.length < SIMHCA_LINK_SLICE ? send.length : SIMHCA_LINK_SLICE, &sgl);
		if (reason == SIMHCA_REASON_NONE)
			simhca_fault_check(
				worker, &qp->faults,
				response ? SIMHCA_REQUESTER_WRITE : SIMHCA_REQUESTER_READ, &reason);
		break;
	}
	simhca_key_release(worker, 0);
}
