/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <sched.h>

#include "core/handles.h"
#include "efa_scene.h"

struct efa_qp *efa_add_qp(struct efa_end *end, const struct simhca_efa_qp_request *caps)
{
	struct simhca_efa_qp_request request = *caps;
	struct simhca_efa_qp_reply reply;
	struct simhca_why why;

	assert_true(end->qps < EFA_QPS);
	request.pd = end->pd;
	request.send_cq = request.recv_cq = end->cq_handle;
	if (simhca_efa_create_qp(end->client->context, &request, &reply, &why))
		fail_msg("create_qp: %s", why.text);
	end->qp[end->qps] =
		simhca_object(end->client->context, SIMHCA_OBJ_EFA_QP, reply.handle, NULL);
	assert_non_null(end->qp[end->qps]);
	return end->qp[end->qps++];
}

int efa_to_state(struct efa_qp *qp, uint32_t state, uint32_t qkey)
{
	const struct simhca_efa_qp_attr attr = {
		.state = state, .qkey = qkey, .port = 1, .rnr_retry = 7
	};
	uint32_t mask = SIMHCA_QP_STATE;
	struct simhca_why why;

	if (state == SIMHCA_QPS_INIT)
		mask |= SIMHCA_QP_PKEY_INDEX | SIMHCA_QP_PORT | SIMHCA_QP_QKEY;
	if (state == SIMHCA_QPS_RTS)
		mask |= SIMHCA_QP_SQ_PSN;
	return patiently(simhca_efa_modify_qp(qp->context, qp->handle, mask, &attr, &why));
}

void efa_start(struct efa_qp *qp)
{
	static const uint32_t up[] = { SIMHCA_QPS_RESET, SIMHCA_QPS_INIT, SIMHCA_QPS_RTR,
				       SIMHCA_QPS_RTS };

	for (unsigned int i = 0; i < ARRAY_SIZE(up); i++)
		assert_int_equal(0, efa_to_state(qp, up[i], 0));
}

struct efa_end *efa_end_new(struct world *world, const struct simhca_efa_cq_request *cq)
{
	struct efa_end *end = world_alloc(world, sizeof(*end));
	struct simhca_efa_cq_reply reply;
	union simhca_gid gid;
	struct simhca_why why;
	uint32_t ah;

	end->client = client_new(world, 0);
	end->pd = end->client->pd;
	assert_int_equal(0, simhca_efa_open(end->client->context, &why));
	assert_int_equal(0, simhca_efa_create_cq(end->client->context, cq, &reply, &why));
	end->cq_handle = reply.handle;
	end->cq = simhca_object(end->client->context, SIMHCA_OBJ_EFA_CQ, reply.handle, NULL);
	end->mr = mr_new(end->client, 2 * EFA_BYTES, ALL_ACCESS);
	gid = simhca_gids_get(&world->device[0]->gids, 0);
	assert_int_equal(0, simhca_efa_create_ah(end->client->context, end->pd, &gid, &ah, &end->ah,
						 &why));
	return end;
}

void efa_add_qps(struct efa_end *end, unsigned int qps)
{
	for (unsigned int i = 0; i < qps; i++)
		efa_start(efa_add_qp(end,
				     &(struct simhca_efa_qp_request){
					     .sq_bytes = EFA_ENTRIES *
							 (i % 4 == 1 ? sizeof(struct efa_wide_wqe)
								     : sizeof(struct efa_send_wqe)),
					     .rq_bytes = EFA_ENTRIES * sizeof(struct efa_recv_desc),
					     .srd = i % 4 != 3,
					     .caps = { EFA_ENTRIES, EFA_ENTRIES, 2, 2, 32 } }));
}

struct efa_send_wqe *efa_send_slot(const struct efa_qp *qp, uint32_t index)
{
	return (struct efa_send_wqe *)efa_send_at(qp, index);
}

struct efa_recv_desc *efa_recv_slot(const struct efa_qp *qp, uint32_t index)
{
	return (struct efa_recv_desc *)&qp->rq[index & (qp->rq_entries - 1)];
}

struct efa_send_wqe efa_send_of(const struct efa_end *end, const struct efa_qp *to, uint16_t id)
{
	struct efa_send_wqe wqe = { .req_id = id,
				    .control = EFA_WQE_FIRST | EFA_WQE_LAST | EFA_SEND,
				    .dest_qpn = (uint16_t)to->qpn,
				    .length = 1,
				    .ah = end->ah,
				    .qkey = atomic_load(&to->qkey) };

	wqe.buffer[0] = (struct efa_buffer){ .length = EFA_BYTES,
					     .key = end->mr->lkey,
					     .addr_low = (uint32_t)end->mr->iova,
					     .addr_high = (uint32_t)(end->mr->iova >> 32) };
	return wqe;
}

void efa_put_send(struct efa_qp *qp, const struct efa_send_wqe *wqe)
{
	if (qp->sq_entries)
		*efa_send_slot(qp, atomic_load(qp->sq_doorbell)) = *wqe;
	atomic_fetch_add(qp->sq_doorbell, 1);
}

void efa_post_send(struct efa_end *end, struct efa_qp *qp, const struct efa_qp *to, uint16_t id)
{
	const struct efa_send_wqe wqe = efa_send_of(end, to, id);

	efa_put_send(qp, &wqe);
}

void efa_post_recv(struct efa_end *end, struct efa_qp *qp, uint16_t id)
{
	const uint64_t addr = end->mr->iova + EFA_BYTES;

	if (qp->rq_entries)
		*efa_recv_slot(qp, atomic_load(qp->rq_doorbell)) =
			(struct efa_recv_desc){ .addr_low = (uint32_t)addr,
						.addr_high = (uint32_t)(addr >> 32),
						.req_id = id,
						.length = EFA_BYTES,
						.key_flags = EFA_RECV_FIRST | EFA_RECV_LAST |
							     end->mr->lkey };
	atomic_fetch_add(qp->rq_doorbell, 1);
}

bool efa_poll(struct efa_end *end, struct efa_cqe *cqe)
{
	const uint8_t *slot = (const uint8_t *)end->cq->memory.base +
			      (size_t)(end->ci & (end->cq->entries - 1)) * end->cq->entry_size;
	bool found;

	pthread_mutex_lock(&end->cq->lock);
	found = end->ci != end->cq->pi;
	if (found)
		memcpy(cqe, slot, EFA_CQE_SHORT);
	pthread_mutex_unlock(&end->cq->lock);
	end->ci += found;
	return found;
}

void efa_let_work(struct world *world, struct efa_end *end)
{
	simhca_engine_schedule(end->client->context->engine, &end->client->context->efa->task);
	if (world->threaded) {
		sched_yield();
		return;
	}
	for (int i = 0; i < 4; i++) {
		atomic_fetch_add(&world->now, MSEC);
		world_poll(world);
	}
}
