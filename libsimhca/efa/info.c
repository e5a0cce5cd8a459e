/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What tools show of an EFA device's objects. */
#include <infiniband/verbs.h>

#include "objects.h"
#include "simhca-info.h"

void simhca_efa_qp_info(void *object, struct simhca_qp_info *info)
{
	struct efa_qp *qp = object;
	const uint32_t waits_for = atomic_load_explicit(&qp->shown_waits_for, memory_order_relaxed);
	bool any_yet;

	*info = (struct simhca_qp_info){
		.qpn = qp->qpn,
		.type = qp->srd ? IBV_QPT_DRIVER : SIMHCA_QPT_UD,
		.state = atomic_load(&qp->state),
		.pd = qp->pd->number,
		.sq_psn = qp->sq_psn,
		.port = 1,
		.max_send_wr = qp->caps.max_send_wr,
		.sends = atomic_load_explicit(&qp->shown_count, memory_order_relaxed),
		.recvs = efa_recvs(qp, &any_yet),
		.wait = waits_for ? SIMHCA_WAIT_RNR : SIMHCA_WAIT_NOTHING,
		.dest_qpn = waits_for,
		.peer_device = atomic_load_explicit(&qp->shown_peer_device, memory_order_relaxed),
		.too_early = atomic_load_explicit(&qp->usage->too_early, memory_order_relaxed),
	};
	simhca_usage_sum(qp->usage, &info->usage);
}

void simhca_efa_cq_info(void *object, struct simhca_cq_info *info)
{
	struct efa_cq *cq = object;

	*info = (struct simhca_cq_info){
		.number = cq->number, .cqe = cq->entries, .users = cq->users, .channel = cq->channel
	};
	if (!cq->channel)
		return;
	pthread_mutex_lock(&cq->lock); /* held for moments */
	info->waiting = (cq->pi - atomic_load_explicit(cq->doorbell, memory_order_relaxed)) &
			EFA_CQ_DOORBELL_CI;
	if (info->waiting > cq->entries) /* whatever the program says */
		info->waiting = cq->entries;
	info->polled = cq->pi - info->waiting;
	info->arm = cq->armed ? SIMHCA_ARM_NEXT : SIMHCA_ARM_NONE;
	info->was_armed = cq->armed || cq->raised;
	pthread_mutex_unlock(&cq->lock);
}
