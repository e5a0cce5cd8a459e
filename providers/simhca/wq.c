/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Receive work queues, and the indirection tables of RSS. Posting is in wr.c. */
#include <stdlib.h>

#include "say.h"
#include "command.h"

/* To poller and poster a WQ is a QP that has only a receive queue. */
struct shca_wq {
	struct ibv_wq wq;
	struct shca_qp queue;
};

static struct shca_wq *to_swq(struct ibv_wq *wq)
{
	return SHCA_CONTAINER(struct shca_wq, wq, wq);
}

static int post_recv(struct ibv_wq *wq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	return shca_post_rq(&to_swq(wq)->queue, wr, bad_wr);
}

struct ibv_wq *shca_create_wq(struct ibv_context *context, struct ibv_wq_init_attr *attr)
{
	struct shca_context *ctx = to_sctx(context);
	struct simhca_create_wq_req req = {
		.pd = attr->pd->handle,
		.cq = attr->cq->handle,
		.max_wr = attr->max_wr,
		.max_sge = attr->max_sge,
	};
	struct simhca_create_qp_reply reply;
	struct shca_wq *wq;
	int err;

	if (attr->wq_type != IBV_WQT_RQ)
		return shca_say_not_made(to_sctx(context), SIMHCA_CMD_CREATE_WQ, EINVAL,
					 "wq_type is not IBV_WQT_RQ");
	if (attr->comp_mask & ~(uint32_t)IBV_WQ_INIT_ATTR_FLAGS)
		return shca_say_not_made(to_sctx(context), SIMHCA_CMD_CREATE_WQ, EOPNOTSUPP,
					 "comp_mask has more than IBV_WQ_INIT_ATTR_FLAGS");
	if (attr->comp_mask & IBV_WQ_INIT_ATTR_FLAGS) {
		if (attr->create_flags & ~(uint32_t)IBV_WQ_FLAGS_CVLAN_STRIPPING)
			return shca_null(EOPNOTSUPP);
		req.strip_cvlan = !!(attr->create_flags & IBV_WQ_FLAGS_CVLAN_STRIPPING);
	}
	wq = calloc(1, sizeof(*wq));
	if (!wq)
		return shca_null(ENOMEM);
	req.user_handle = shca_user_handle(ctx, &wq->wq);
	err = shca_call(ctx, SIMHCA_CMD_CREATE_WQ, &req, &reply);
	if (err)
		goto err_free;
	shca_qp_init(&wq->queue, context, reply.handle, reply.qpn, NULL, 0);
	wq->queue.vqp.qp.recv_cq = attr->cq;
	err = shca_qp_map_queues(&wq->queue, &reply);
	if (err)
		goto err_destroy;
	wq->wq.context = context;
	wq->wq.pd = attr->pd;
	wq->wq.cq = attr->cq;
	wq->wq.wq_num = reply.qpn;
	wq->wq.handle = reply.handle;
	wq->wq.state = IBV_WQS_RESET;
	wq->wq.wq_type = attr->wq_type;
	wq->wq.post_recv = post_recv;
	err = shca_qp_table_add(&wq->queue);
	if (err)
		goto err_destroy;
	shca_cq_attach_qp(&wq->queue);
	attr->max_wr = reply.max_recv_wr;
	attr->max_sge = reply.max_recv_sge;
	return &wq->wq;

err_destroy:
	shca_destroy(ctx, SIMHCA_CMD_DESTROY_WQ, reply.handle, NULL);
err_free:
	free(wq);
	return shca_null(err);
}

int shca_modify_wq(struct ibv_wq *ibv_wq, struct ibv_wq_attr *attr)
{
	struct shca_wq *wq = to_swq(ibv_wq);
	struct simhca_modify_wq_req req = { .handle = ibv_wq->handle, .mask = attr->attr_mask };
	struct simhca_modify_wq_reply reply;
	int err;

	if (attr->attr_mask & IBV_WQ_ATTR_STATE)
		req.state = (uint32_t)attr->wq_state;
	if (attr->attr_mask & IBV_WQ_ATTR_CURR_STATE)
		req.curr_state = (uint32_t)attr->curr_wq_state;
	if (attr->attr_mask & IBV_WQ_ATTR_FLAGS) {
		if (attr->flags_mask & ~(uint32_t)IBV_WQ_FLAGS_CVLAN_STRIPPING)
			return shca_result(EOPNOTSUPP);
		if (attr->flags_mask)
			req.strip_cvlan = !!(attr->flags & IBV_WQ_FLAGS_CVLAN_STRIPPING);
		else
			req.mask &= ~(uint32_t)SIMHCA_WQ_FLAGS; /* none of them is to change */
		if (!req.mask)
			return 0;
	}
	err = shca_call(to_sctx(ibv_wq->context), SIMHCA_CMD_MODIFY_WQ, &req, &reply);
	if (err)
		return err;
	if (attr->attr_mask & IBV_WQ_ATTR_STATE) {
		ibv_wq->state = attr->wq_state;
		if (attr->wq_state == IBV_WQS_RESET)
			shca_qp_start_over(&wq->queue);
	}
	return 0;
}

int shca_destroy_wq(struct ibv_wq *ibv_wq)
{
	struct shca_wq *wq = to_swq(ibv_wq);
	struct shca_context *ctx = wq->queue.ctx;
	struct simhca_destroy_reply events;
	int err;

	err = shca_destroy(ctx, SIMHCA_CMD_DESTROY_WQ, ibv_wq->handle, &events);
	if (err)
		return err;
	shca_cq_detach_qp(&wq->queue);
	shca_qp_table_remove(&wq->queue);

	shca_await_acks(ctx, "ibv_destroy_wq()", ibv_wq->wq_num, &ibv_wq->mutex, &ibv_wq->cond,
			&ibv_wq->events_completed, events.async_events);
	free(wq);
	return 0;
}

struct ibv_rwq_ind_table *shca_create_rwq_ind_table(struct ibv_context *context,
						    struct ibv_rwq_ind_table_init_attr *attr)
{
	struct simhca_create_rwq_table_req req = { .log_size = attr->log_ind_tbl_size };
	struct simhca_handle reply;
	struct ibv_rwq_ind_table *table;
	uint32_t i;
	int err;

	if (attr->comp_mask)
		return shca_null(EOPNOTSUPP);
	if (attr->log_ind_tbl_size >= 32 ||
	    1u << attr->log_ind_tbl_size > SIMHCA_RWQ_TABLE_ENTRIES) {
		char text[96];

		snprintf(text, sizeof(text),
			 "log_ind_tbl_size = %u is a logarithm: a table has at most %u entries",
			 attr->log_ind_tbl_size, SIMHCA_RWQ_TABLE_ENTRIES);
		return shca_say_not_made(to_sctx(context), SIMHCA_CMD_CREATE_RWQ_TABLE, EINVAL,
					 text);
	}
	for (i = 0; i < 1u << attr->log_ind_tbl_size; i++)
		req.wq[i] = attr->ind_tbl[i]->handle;
	table = calloc(1, sizeof(*table));
	if (!table)
		return shca_null(ENOMEM);
	err = shca_call(to_sctx(context), SIMHCA_CMD_CREATE_RWQ_TABLE, &req, &reply);
	if (err) {
		free(table);
		return shca_null(err);
	}
	table->context = context;
	table->ind_tbl_handle = (int)reply.handle;
	table->ind_tbl_num = (int)reply.handle;
	return table;
}

int shca_destroy_rwq_ind_table(struct ibv_rwq_ind_table *table)
{
	int err = shca_destroy(to_sctx(table->context), SIMHCA_CMD_DESTROY_RWQ_TABLE,
			       (uint32_t)table->ind_tbl_handle, NULL);

	if (!err)
		free(table);
	return err;
}
