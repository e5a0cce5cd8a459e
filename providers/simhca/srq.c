/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Shared receive queues. Posting is in wr.c. */
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "lint.h"
#include "say.h"

/* Use the ring that the reply of create or resize describes. */
static int adopt(struct shca_context *ctx, struct shca_srq *srq,
		 const struct simhca_create_srq_reply *reply)
{
	struct simhca_srq_mem *mem;
	void *ring;

	mem = shca_map(ctx, &srq->own, &reply->state, sizeof(*mem));
	ring = shca_map(ctx, &srq->own, &reply->ring, (uint64_t)reply->entries * reply->stride);
	if (!mem || !ring)
		return errno;
	srq->mem = mem;
	srq->rq.pi = &mem->pi;
	srq->rq.ring = ring;
	srq->rq.mask = reply->entries - 1;
	srq->rq.stride = reply->stride;
	srq->rq.max_wr = reply->max_wr;
	srq->rq.max_sge = reply->max_sge;
	srq->rq.lint = ctx->lint ? ctx : NULL;
	return 0;
}

/* What an SRQ that completes in its own CQ gets is the device's to place. */
static int make_records(struct shca_context *ctx, struct shca_srq *srq)
{
	if (ctx->no_slot_data || srq->vsrq.srq_type != IBV_SRQT_BASIC)
		return 0;
	srq->rq.first = calloc(srq->rq.mask + 1, sizeof(*srq->rq.first));
	srq->rq.first_mask = srq->rq.mask;
	srq->rq.several = true;
	return srq->rq.first ? 0 : ENOMEM;
}

static struct simhca_create_srq_req srq_request(const struct ibv_srq_init_attr_ex *attr)
{
	struct simhca_create_srq_req req = {
		.type = (uint32_t)attr->srq_type,
		.pd = attr->pd->handle,
		.max_wr = attr->attr.max_wr,
		.max_sge = attr->attr.max_sge,
		.limit = attr->attr.srq_limit,
	};

	if (attr->srq_type == IBV_SRQT_XRC)
		req.xrcd = to_sxrcd(attr->xrcd)->handle;
	if (attr->srq_type == IBV_SRQT_TM)
		req.max_tags = attr->tm_cap.max_num_tags;
	if (attr->srq_type != IBV_SRQT_BASIC)
		req.cq = attr->cq->handle;
	return req;
}

static struct ibv_srq *create(struct ibv_srq_init_attr_ex *attr)
{
	struct ibv_pd *pd = attr->pd;
	struct shca_context *ctx = to_sctx(pd->context);
	struct simhca_create_srq_req req = srq_request(attr);
	struct simhca_create_srq_reply reply;
	struct shca_srq *srq;
	struct ibv_srq *ibv_srq;
	struct shca_home home;
	int err;

	srq = shca_home_alloc(pd, SIMHCADV_RES_TYPE_SRQ, sizeof(*srq), &home);
	if (!srq)
		return NULL;
	srq->home = home;
	srq->rq.lock.unused = shca_home_is_single_threaded(&home);
	ibv_srq = &srq->vsrq.srq;
	req.user_handle = shca_user_handle(ctx, ibv_srq);
	if (attr->srq_type != IBV_SRQT_BASIC)
		srq->vsrq.cq = attr->cq;
	err = shca_call(ctx, SIMHCA_CMD_CREATE_SRQ, &req, &reply);
	if (err)
		goto err_free;
	srq->vsrq.srq_type = attr->srq_type;
	err = adopt(ctx, srq, &reply);
	if (!err)
		err = make_records(ctx, srq);
	if (err)
		goto err_destroy;

	srq->vsrq.srq_num = reply.srqn;
	ibv_srq->context = pd->context;
	ibv_srq->srq_context = attr->srq_context;
	ibv_srq->pd = pd;
	ibv_srq->handle = reply.handle;
	pthread_mutex_init(&ibv_srq->mutex, NULL);
	pthread_cond_init(&ibv_srq->cond, NULL);
	if (srq->vsrq.cq)
		shca_cq_attach_srq(to_scq(srq->vsrq.cq), srq);
	attr->attr.max_wr = reply.max_wr;
	attr->attr.max_sge = reply.max_sge;
	return ibv_srq;

err_destroy:
	shca_destroy(ctx, SIMHCA_CMD_DESTROY_SRQ, reply.handle, NULL);
	shca_say_no_descriptor(ctx, SIMHCA_CMD_CREATE_SRQ, err);
	shca_unmap(&srq->own);
	free(srq->rq.first);
err_free:
	shca_home_free(srq->home, srq);
	return shca_null(err);
}

struct ibv_srq *shca_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	struct ibv_srq_init_attr_ex attr_ex = {
		.srq_context = attr->srq_context,
		.attr = attr->attr,
		.srq_type = IBV_SRQT_BASIC,
		.pd = pd,
	};
	struct ibv_srq *srq = create(&attr_ex);

	if (srq)
		attr->attr = attr_ex.attr;
	return srq;
}

struct ibv_srq *shca_create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr)
{
	/* What belongs to each type, and to no other, besides the type and the PD. */
	static const uint32_t own[] = {
		[IBV_SRQT_BASIC] = 0,
		[IBV_SRQT_XRC] = IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		[IBV_SRQT_TM] = IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_TM,
	};
	const uint32_t all = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_TM;
	struct ibv_srq_init_attr_ex known = {
		.srq_context = attr->srq_context,
		.attr = attr->attr,
		.srq_type = IBV_SRQT_BASIC,
	};
	const uint32_t given = attr->comp_mask & ~(uint32_t)IBV_SRQ_INIT_ATTR_TYPE;
	struct ibv_srq *srq;

	if (attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE)
		known.srq_type = attr->srq_type;
	if ((attr->comp_mask & ~all) || known.srq_type > IBV_SRQT_TM) {
		shca_say_refusal(to_sctx(context), SIMHCA_SAY_CREATE_SRQ, EOPNOTSUPP,
				 attr->comp_mask & ~all
					 ? "comp_mask has bits that are not known: was the struct "
					   "zeroed?"
					 : "srq_type is none of IBV_SRQT_BASIC, _XRC and _TM");
		return NULL;
	}
	if (given != (own[known.srq_type] | IBV_SRQ_INIT_ATTR_PD) || !attr->pd) {
		shca_say_refusal(to_sctx(context), SIMHCA_SAY_CREATE_SRQ, EINVAL,
				 "of a plain SRQ comp_mask names the PD; of IBV_SRQT_XRC the PD, "
				 "the XRC domain and the CQ; of IBV_SRQT_TM the PD, the CQ and "
				 "tag matching; and none is NULL");
		return NULL;
	}
	known.pd = attr->pd;
	if (given & IBV_SRQ_INIT_ATTR_XRCD)
		known.xrcd = attr->xrcd;
	if (given & IBV_SRQ_INIT_ATTR_CQ)
		known.cq = attr->cq;
	if (given & IBV_SRQ_INIT_ATTR_TM)
		known.tm_cap = attr->tm_cap;
	if (known.tm_cap.max_ops > SIMHCA_MAX_TM_OPS) {
		char text[64];

		snprintf(text, sizeof(text), "tm_cap.max_ops = %u: at most %u",
			 known.tm_cap.max_ops, SIMHCA_MAX_TM_OPS);
		shca_say_refusal(to_sctx(context), SIMHCA_SAY_CREATE_SRQ, EINVAL, text);
		return NULL;
	}
	srq = create(&known);
	if (srq)
		attr->attr = known.attr;
	return srq;
}

/* Posters wait until a ring that is resized has moved. */
int shca_modify_srq(struct ibv_srq *ibv_srq, struct ibv_srq_attr *attr, int mask)
{
	struct shca_context *ctx = to_sctx(ibv_srq->context);
	struct shca_srq *srq = to_ssrq(ibv_srq);
	struct simhca_modify_srq_req req = { .handle = ibv_srq->handle, .mask = (uint32_t)mask };
	struct simhca_create_srq_reply reply;
	int err;

	if (mask & IBV_SRQ_LIMIT)
		req.limit = attr->srq_limit;
	if (!(mask & IBV_SRQ_MAX_WR))
		return shca_command(ctx, SIMHCA_CMD_MODIFY_SRQ, &req);

	req.max_wr = attr->max_wr;
	shca_lock(&srq->rq.lock);
	err = shca_call(ctx, SIMHCA_CMD_MODIFY_SRQ, &req, &reply);
	if (!err)
		err = adopt(ctx, srq, &reply);
	if (!err && reply.renew)
		shca_srq_renew(ctx, srq);
	shca_unlock(&srq->rq.lock);
	shca_say_no_descriptor(ctx, SIMHCA_CMD_MODIFY_SRQ, err);
	return err;
}

int shca_query_srq(struct ibv_srq *ibv_srq, struct ibv_srq_attr *attr)
{
	struct simhca_handle req = { .handle = ibv_srq->handle };
	struct simhca_query_srq_reply reply;
	int err;

	err = shca_call(to_sctx(ibv_srq->context), SIMHCA_CMD_QUERY_SRQ, &req, &reply);
	if (err)
		return err;
	attr->max_wr = reply.max_wr;
	attr->max_sge = reply.max_sge;
	attr->srq_limit = reply.limit;
	return 0;
}

int shca_destroy_srq(struct ibv_srq *ibv_srq)
{
	struct shca_context *ctx = to_sctx(ibv_srq->context);
	struct shca_srq *srq = to_ssrq(ibv_srq);
	struct simhca_destroy_reply events;
	int err;

	err = shca_destroy(ctx, SIMHCA_CMD_DESTROY_SRQ, ibv_srq->handle, &events);
	if (err)
		return err;
	if (srq->vsrq.cq)
		shca_cq_detach_srq(to_scq(srq->vsrq.cq), srq);

	shca_await_acks(ctx, "ibv_destroy_srq()", srq->vsrq.srq_num, &ibv_srq->mutex,
			&ibv_srq->cond, &ibv_srq->events_completed, events.async_events);
	shca_unmap(&srq->own);
	free(srq->rq.first);
	shca_home_free(srq->home, srq);
	return 0;
}

int shca_get_srq_num(struct ibv_srq *ibv_srq, uint32_t *srq_num)
{
	*srq_num = to_ssrq(ibv_srq)->vsrq.srq_num;
	return 0;
}

/* An operation is over when it is posted, so no number of them can be too many. */
static int post_op(struct shca_context *ctx, uint32_t handle, struct ibv_ops_wr *op)
{
	struct simhca_srq_op_req req = {
		.wr_id = op->wr_id,
		.srq = handle,
		.opcode = (uint32_t)op->opcode,
		.flags = (uint32_t)op->flags,
		.unexpected = op->tm.unexpected_cnt,
	};
	struct simhca_handle reply;
	int err;

	if (op->opcode == IBV_WR_TAG_DEL)
		req.entry = op->tm.handle;
	if (op->opcode == IBV_WR_TAG_ADD) {
		if (op->tm.add.num_sge < 0 || op->tm.add.num_sge > SIMHCA_MAX_TM_SGE)
			return EINVAL;
		req.num_sge = (uint32_t)op->tm.add.num_sge;
		req.recv_wr_id = op->tm.add.recv_wr_id;
		req.tag = op->tm.add.tag;
		req.mask = op->tm.add.mask;
		if (req.num_sge)
			memcpy(req.sge, op->tm.add.sg_list, req.num_sge * sizeof(req.sge[0]));
		shca_lint_unknown_writes(ctx);
	}
	err = shca_call(ctx, SIMHCA_CMD_SRQ_OP, &req, &reply);
	if (!err && op->opcode == IBV_WR_TAG_ADD)
		op->tm.handle = reply.handle;
	return err;
}

int shca_post_srq_ops(struct ibv_srq *srq, struct ibv_ops_wr *op, struct ibv_ops_wr **bad_op)
{
	int err;

	for (; op; op = op->next) {
		err = post_op(to_sctx(srq->context), srq->handle, op);
		if (err) {
			*bad_op = op;
			return shca_result(err);
		}
	}
	return 0;
}
