/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What lint looks for in queues and connections (simhca.h). */
#include "core/context.h"
#include "core/handles.h"
#include "link/deliver.h"
#include "memory/key.h"
#include "simhca-info.h"
#include "queue/progress.h"
#include "proto/qp.h"
#include "proto/wqe.h"

#define MOST_QPS 64u	   /* that are looked at */
#define MOST_REQUESTS 256u /* likewise, of a QP: the oldest */

static bool names_key(const struct simhca_send *send, uint32_t key)
{
	if (send->wqe.flags & SIMHCA_WQE_INLINE)
		return false;
	for (uint32_t i = 0; i < send->wqe.num_sge; i++)
		if (send->sge[i].length && send->sge[i].lkey == key)
			return true;
	return false;
}

/* It may be wrong about a QP that an engine works for. Most have none, so the lock is not taken. */
static bool seems_to_have_requests(const struct simhca_qp *qp)
{
	struct simhca_requester req;

	if (!simhca_qp_sends_in(qp, SIMHCA_QPS_RTS))
		return false;
	simhca_progress_show_requester(qp->mem, &req);
	return simhca_progress_sq_pi(qp->mem) != req.oldest;
}

/*
 * The caller has the requester's side: an engine that has written a completion advances `oldest`
 * before it lets that go, so a request that the program has seen complete is not found here.
 */
static void look_at_requests(const struct simhca_qp *qp, uint32_t key,
			     struct simhca_mr_sends *sends)
{
	uint32_t posted = simhca_progress_sq_pi(qp->mem) - qp->req.oldest;
	struct simhca_send send;

	if (posted > qp->sq_entries) /* the program writes sq_pi */
		return;
	if (posted > MOST_REQUESTS)
		posted = MOST_REQUESTS;
	for (uint32_t i = 0; i < posted; i++) {
		if (simhca_sq_load(qp, qp->req.oldest + i, &send) != SIMHCA_REASON_NONE ||
		    !names_key(&send, key))
			continue;
		if (!sends->requests++) {
			sends->qpn = qp->qpn;
			sends->wr_id = send.wqe.wr_id;
		}
	}
}

void simhca_find_mr_sends(struct simhca_context *context, uint32_t handle,
			  struct simhca_mr_sends *sends)
{
	const struct simhca_key *region = simhca_object(context, SIMHCA_OBJ_MR, handle, NULL);
	const struct simhca_handles *qps = &context->handles[SIMHCA_OBJ_QP];
	uint32_t looked_at = 0;

	*sends = (struct simhca_mr_sends){ 0 };
	if (!region)
		return;
	for (uint32_t i = 0; i < qps->room && looked_at < MOST_QPS; i++) {
		struct simhca_qp *qp = qps->slot[i];

		if (!qp)
			continue;
		looked_at++;
		if (qp->context != context || !seems_to_have_requests(qp) ||
		    !simhca_qp_begin_to_look(qp))
			continue;
		look_at_requests(qp, region->mpt->key, sends);
		simhca_qp_end(qp);
	}
}

bool simhca_qp_rd_atomic(struct simhca_context *context, uint32_t handle,
			 struct simhca_rd_atomic *numbers)
{
	struct simhca_qp *qp = simhca_object(context, SIMHCA_OBJ_QP, handle, NULL);
	struct simhca_qp *peer, *requester, *responder;

	if (!qp || qp->type != SIMHCA_QPT_RC)
		return false;
	peer = simhca_link_peer(qp);
	if (!peer || peer->type != SIMHCA_QPT_RC || simhca_qp_state(peer) < SIMHCA_QPS_RTR)
		return false;
	requester = simhca_qp_state(qp) == SIMHCA_QPS_RTS ? qp : peer;
	responder = requester == qp ? peer : qp;
	if (simhca_qp_state(requester) != SIMHCA_QPS_RTS ||
	    simhca_qp_state(responder) > SIMHCA_QPS_RTS)
		return false;
	*numbers = (struct simhca_rd_atomic){
		.requester = requester->qpn,
		.responder = responder->qpn,
		.max_rd_atomic = requester->qpc->max_rd_atomic,
		.max_dest_rd_atomic = responder->qpc->max_dest_rd_atomic,
	};
	return true;
}
