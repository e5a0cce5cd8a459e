/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What brings a QP down, and who hears of it. */
#include <infiniband/verbs.h>

#include "core/context.h"
#include "core/fabric.h"
#include "engine/engine.h"
#include "qp.h"
#include "simhca-device.h"

void simhca_qp_event(struct simhca_qp *qp, uint32_t type)
{
	struct simhca_qp_open *open;

	if (qp->context) {
		simhca_async_event(qp->context, qp->user_handle, qp->qpn, type);
		return;
	}
	/* None of them goes meanwhile, and those that come stand before them. */
	pthread_mutex_lock(&qp->xrc.lock);
	qp->xrc.reporting++;
	open = qp->xrc.opens;
	pthread_mutex_unlock(&qp->xrc.lock);
	for (; open; open = open->next)
		simhca_async_event(open->context, open->user_handle, qp->qpn, type);
	pthread_mutex_lock(&qp->xrc.lock);
	qp->xrc.reporting--;
	pthread_mutex_unlock(&qp->xrc.lock);
}

/* Moves from any state but the quiet ones; false if there was nothing to move. */
static bool fall(struct simhca_qp *qp, uint32_t to)
{
	uint32_t state = simhca_qp_state(qp);

	do {
		if (state == to || state == SIMHCA_QPS_ERR || state == SIMHCA_QPS_RESET ||
		    (to == SIMHCA_QPS_SQE && state != SIMHCA_QPS_RTS && state != SIMHCA_QPS_SQD))
			return false;
	} while (!atomic_compare_exchange_weak(&qp->qpc->state, &state, to));
	return true;
}

void simhca_qp_fail(struct simhca_qp *qp, uint32_t state)
{
	if (!fall(qp, state))
		return;
	if (qp->source->flush)
		qp->source->flush(qp);
	else
		simhca_engine_schedule(qp->context->engine, &qp->task);
}

void simhca_qp_corrupt(struct simhca_qp *qp)
{
	if (!fall(qp, SIMHCA_QPS_ERR))
		return;
	simhca_log(qp->device->fabric, SIMHCA_LOG_WARNING, "QP 0x%06x: %s; it goes to ERR", qp->qpn,
		   simhca_reason_text(SIMHCA_REASON_RING_CORRUPT));
	simhca_async_event(qp->context, qp->user_handle, qp->qpn,
			   qp->type == SIMHCA_QPT_WQ ? IBV_EVENT_WQ_FATAL : IBV_EVENT_QP_FATAL);
	simhca_engine_schedule(qp->context->engine, &qp->task);
}
