/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Work queues (ibv_create_wq): receive queues on their own, to which RSS QPs hand frames. To the
 * engines each is a QP that has nothing but its receive queue; RTR stands for RDY.
 */
#include <errno.h>
#include <string.h>

#include "core/context.h"
#include "engine/engine.h"
#include "paging/fault.h"
#include "simhca-device.h"
#include "simhca-verbs.h"
#include "proto/qp.h"

static uint32_t wq_state(const struct simhca_qp *wq)
{
	switch (simhca_qp_state(wq)) {
	case SIMHCA_QPS_RESET:
		return SIMHCA_WQS_RESET;
	case SIMHCA_QPS_RTR:
		return SIMHCA_WQS_RDY;
	default:
		return SIMHCA_WQS_ERR;
	}
}

int simhca_create_wq(struct simhca_context *context, const struct simhca_create_wq_req *req,
		     struct simhca_create_qp_reply *reply, struct simhca_why *why)
{
	const struct simhca_device_config *most = &context->device->config;
	struct simhca_pd *pd = simhca_object(context, SIMHCA_OBJ_PD, req->pd, why);
	struct simhca_cq *cq = NULL;
	struct simhca_qp *wq;

	if (pd)
		cq = simhca_object(context, SIMHCA_OBJ_CQ, req->cq, why);
	if (!cq)
		return -ENOENT;
	if (most->infiniband)
		return simhca_why(why, EOPNOTSUPP, "WQs are for Ethernet ports");
	if (!req->max_wr || req->max_wr > most->max_qp_wr)
		return simhca_why(why, EINVAL, "max_wr = %u: 1 to %u", req->max_wr,
				  most->max_qp_wr);
	if (req->max_sge > most->max_sge)
		return simhca_why(why, EINVAL, "max_sge = %u: at most %u", req->max_sge,
				  most->max_sge);
	wq = simhca_qp_alloc(context, SIMHCA_QPT_WQ, pd, req->user_handle);
	if (!wq)
		return simhca_why(why, ENOMEM, "out of memory");
	wq->link = context->device->fabric->frame_link;
	wq->recv_cq = cq;
	wq->ethernet.strip_cvlan = req->strip_cvlan != 0;
	return simhca_qp_add(wq, SIMHCA_OBJ_WQ,
			     &(struct simhca_create_qp_req){
				     .max_recv_wr = req->max_wr,
				     .max_recv_sge = req->max_sge ? req->max_sge : 1,
			     },
			     reply, why);
}

static bool may_go(uint32_t from, uint32_t to)
{
	return from == to || to == SIMHCA_WQS_RESET ||
	       (from == SIMHCA_WQS_RESET && to == SIMHCA_WQS_RDY) ||
	       (from == SIMHCA_WQS_RDY && to == SIMHCA_WQS_ERR);
}

static int check(const struct simhca_qp *wq, const struct simhca_modify_wq_req *req,
		 struct simhca_why *why)
{
	static const char *const name[] = { "RESET", "RDY", "ERR" };
	const uint32_t known = SIMHCA_WQ_STATE | SIMHCA_WQ_CURR_STATE | SIMHCA_WQ_FLAGS;
	uint32_t from = wq_state(wq);

	if (!req->mask || (req->mask & ~known))
		return simhca_why(why, EINVAL, "WQ attribute mask 0x%x: 1 to %u", req->mask, known);
	if ((req->mask & SIMHCA_WQ_CURR_STATE) && req->curr_state != from)
		return simhca_why(why, EINVAL, "curr_wq_state = %u, but the WQ is in %s",
				  req->curr_state, name[from]);
	if (!(req->mask & SIMHCA_WQ_STATE))
		return 0;
	if (req->state > SIMHCA_WQS_ERR)
		return simhca_why(why, EINVAL, "wq_state = %u: 0 to 2", req->state);
	if (!may_go(from, req->state))
		return simhca_why(why, EINVAL, "a WQ cannot go from %s to %s", name[from],
				  name[req->state]);
	return 0;
}

int simhca_modify_wq(struct simhca_context *context, const struct simhca_modify_wq_req *req,
		     struct simhca_modify_wq_reply *reply, struct simhca_why *why)
{
	static const uint32_t qp_state[] = {
		[SIMHCA_WQS_RESET] = SIMHCA_QPS_RESET,
		[SIMHCA_WQS_RDY] = SIMHCA_QPS_RTR,
		[SIMHCA_WQS_ERR] = SIMHCA_QPS_ERR,
	};
	struct simhca_qp *wq = simhca_object(context, SIMHCA_OBJ_WQ, req->handle, why);
	uint32_t from;
	int ret;

	if (!wq)
		return -ENOENT;
	ret = simhca_qp_begin_both(wq, true);
	if (ret)
		return ret;
	/* As with QPs: an engine may bring it down meanwhile, and then the request is judged anew.
	 */
	do {
		from = simhca_qp_state(wq);
		ret = check(wq, req, why);
		if (ret || !(req->mask & SIMHCA_WQ_STATE))
			break;
		if (req->state != SIMHCA_WQS_RDY && !simhca_faults_disable(&wq->faults)) {
			ret = -EAGAIN;
			break;
		}
	} while (!atomic_compare_exchange_strong(&wq->qpc->state, &from, qp_state[req->state]));
	if (!ret && (req->mask & SIMHCA_WQ_FLAGS))
		wq->ethernet.strip_cvlan = req->strip_cvlan != 0;
	if (!ret && (req->mask & SIMHCA_WQ_STATE) && req->state == SIMHCA_WQS_RESET)
		simhca_qp_clear(wq);
	if (!ret && (req->mask & SIMHCA_WQ_STATE) && req->state == SIMHCA_WQS_RDY)
		atomic_store(&wq->faults.off_until, 0);
	reply->state = wq_state(wq);
	simhca_qp_end_both(wq);
	if (!ret && reply->state == SIMHCA_WQS_ERR)
		simhca_engine_schedule(context->engine, &wq->task); /* to flush it */
	return ret;
}

int simhca_wq_identity(struct simhca_context *context, uint32_t handle,
		       struct simhca_identity *identity, struct simhca_why *why)
{
	struct simhca_qp *wq = simhca_object(context, SIMHCA_OBJ_WQ, handle, why);

	if (!wq)
		return -ENOENT;
	*identity = (struct simhca_identity){ .user_handle = wq->user_handle };
	return 0;
}

int simhca_destroy_wq(struct simhca_context *context, uint32_t handle, struct simhca_why *why)
{
	struct simhca_qp *wq = simhca_object(context, SIMHCA_OBJ_WQ, handle, why);

	if (!wq)
		return -ENOENT;
	if (wq->users)
		return simhca_why(why, EBUSY, "the WQ stands in %u entries of indirection tables",
				  wq->users);
	return simhca_qp_remove(wq, SIMHCA_OBJ_WQ, handle);
}
