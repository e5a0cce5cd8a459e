/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Queue pairs. Posting is in wr.c and wr_ex.c. */
#include <stdlib.h>
#include <string.h>

#include "fastpath.h"
#include "command.h"
#include "lint.h"
#include "say.h"

int shca_qp_map_queues(struct shca_qp *qp, const struct simhca_create_qp_reply *reply)
{
	qp->mem = shca_map(qp->ctx, &qp->own, &reply->state, sizeof(*qp->mem));
	if (!qp->mem)
		return errno;
	if (reply->sq_entries) {
		qp->sq.ring = shca_map(qp->ctx, &qp->own, &reply->sq,
				       (uint64_t)reply->sq_entries * reply->sq_stride);
		if (!qp->sq.ring)
			return errno;
		qp->sq.mask = reply->sq_entries - 1;
		qp->sq.stride = reply->sq_stride;
	}
	if (reply->rq_entries) {
		qp->rq.ring = shca_map(qp->ctx, &qp->own, &reply->rq,
				       (uint64_t)reply->rq_entries * reply->rq_stride);
		if (!qp->rq.ring)
			return errno;
		qp->rq.mask = reply->rq_entries - 1;
		qp->rq.stride = reply->rq_stride;
	}
	qp->rq.slot_data = reply->slot_data;
	qp->rq.pi = &qp->mem->rq_pi;
	if (reply->claims.segment || reply->claims.offset) {
		qp->claims = shca_map(qp->ctx, &qp->own, &reply->claims, sizeof(*qp->claims));
		if (!qp->claims)
			return errno;
		qp->rq.pi = &qp->claims->pi;
		qp->rq.several = true;
	}
	if (reply->slot_data || (qp->claims && qp->data_may_stay)) {
		qp->rq.first = calloc(reply->rq_entries, sizeof(*qp->rq.first));
		if (!qp->rq.first)
			return ENOMEM;
		qp->rq.first_mask = reply->rq_entries - 1;
	}
	qp->sq.max_wr = reply->max_send_wr;
	qp->sq.max_sge = reply->max_send_sge;
	qp->sq.max_inline = reply->max_inline;
	qp->rq.max_wr = reply->max_recv_wr;
	qp->rq.max_sge = reply->max_recv_sge;
	qp->rq.lint = qp->ctx->lint ? qp->ctx : NULL;
	qp->doorbell = reply->doorbell;
	return shca_fastpath_init(qp, &reply->fastpath);
}

void shca_qp_init(struct shca_qp *qp, struct ibv_context *context, uint32_t handle, uint32_t qpn,
		  void *qp_context, enum ibv_qp_type type)
{
	const struct simhca_devmem *dev = to_sctx(context)->dev;
	struct ibv_qp *ibv_qp = &qp->vqp.qp;

	qp->ctx = to_sctx(context);
	qp->qpc = (const struct simhca_qpc *)((const char *)dev + dev->qpc_offset) +
		  SIMHCA_QPN_SLOT(qpn);
	ibv_qp->context = context;
	ibv_qp->qp_context = qp_context;
	ibv_qp->handle = handle;
	ibv_qp->qp_num = qpn;
	ibv_qp->state = IBV_QPS_RESET;
	ibv_qp->qp_type = type;
	pthread_mutex_init(&ibv_qp->mutex, NULL);
	pthread_cond_init(&ibv_qp->cond, NULL);
}

static void caps_from_reply(struct ibv_qp_cap *cap, const struct simhca_create_qp_reply *reply)
{
	cap->max_send_wr = reply->max_send_wr;
	cap->max_recv_wr = reply->max_recv_wr;
	cap->max_send_sge = reply->max_send_sge;
	cap->max_recv_sge = reply->max_recv_sge;
	cap->max_inline_data = reply->max_inline;
}

/* NULL, with errno set. */
static struct shca_qp *alloc(const struct ibv_qp_init_attr_ex *attr)
{
	struct shca_home home;
	struct shca_qp *qp = shca_home_alloc(attr->pd, SIMHCADV_RES_TYPE_QP, sizeof(*qp), &home);

	if (!qp)
		return NULL;
	qp->home = home;
	qp->sq.lock.unused = qp->rq.lock.unused = shca_home_is_single_threaded(&home);
	qp->send_ops = shca_send_ops(attr->qp_type);
	qp->pd = attr->pd->handle;
	qp->sig_all = attr->sq_sig_all ? SIMHCA_WQE_SIGNALED : 0;
	return qp;
}

/* The device has made it: from here on it is a QP to us as well, or is destroyed again. */
static int adopt(struct shca_qp *qp, const struct simhca_create_qp_reply *reply,
		 struct ibv_context *context, const struct ibv_qp_init_attr_ex *attr)
{
	int err;

	shca_qp_init(qp, context, reply->handle, reply->qpn, attr->qp_context, attr->qp_type);
	qp->vqp.qp.pd = attr->pd;
	qp->vqp.qp.send_cq = attr->send_cq;
	qp->vqp.qp.recv_cq = attr->recv_cq;
	qp->vqp.qp.srq = attr->srq;
	err = shca_qp_map_queues(qp, reply);
	if (!err)
		err = shca_qp_table_add(qp);
	if (err) {
		shca_destroy(qp->ctx, SIMHCA_CMD_DESTROY_QP, reply->handle, NULL);
		return err;
	}
	shca_lint_qp_add(qp);
	shca_lint_threads_of_qp(qp);
	shca_cq_attach_qp(qp);
	return 0;
}

/* Both of the device's and ours, or neither. */
static int make(struct shca_qp *qp, const struct simhca_create_qp_req *req,
		struct simhca_create_qp_reply *reply, struct ibv_context *context,
		const struct ibv_qp_init_attr_ex *attr)
{
	int err = shca_call(qp->ctx, SIMHCA_CMD_CREATE_QP, req, reply);

	if (!err)
		err = adopt(qp, reply, context, attr);
	if (!err)
		return 0;
	shca_unmap(&qp->own);
	free(qp->rq.first);
	qp->rq.first = NULL;
	return err;
}

/* An imported context is another one to the library, and the same to the device. */
static bool is_same_context(struct ibv_context *a, struct ibv_context *b)
{
	return a == b || to_sctx(a)->mem->context_id == to_sctx(b)->mem->context_id;
}

/* Handles of another context name other objects in this one. */
static const char *whose_are(struct ibv_context *context, const struct ibv_qp_init_attr_ex *attr)
{
	if (!is_same_context(attr->send_cq->context, context))
		return "send_cq was created by another ibv_context than the PD";
	if (attr->recv_cq && !is_same_context(attr->recv_cq->context, context))
		return "recv_cq was created by another ibv_context than the PD";
	if (attr->srq && attr->qp_type != IBV_QPT_XRC_SEND &&
	    !is_same_context(attr->srq->context, context))
		return "srq was created by another ibv_context than the PD";
	return NULL;
}

/* 0, or the error that the provider itself refuses the QP with. */
static int check(struct ibv_context *context, const struct ibv_qp_init_attr_ex *attr)
{
	const char *why = NULL;
	int err = EINVAL;

	if (!shca_send_ops(attr->qp_type)) {
		err = EOPNOTSUPP;
		why = "the device has RC (2), UC (3), UD (4), RAW_PACKET (8), XRC_SEND (9) and "
		      "XRC_RECV (10)";
	} else if (!attr->send_cq) {
		why = "send_cq is NULL";
	} else if (!attr->recv_cq && attr->qp_type != IBV_QPT_XRC_SEND) {
		why = "recv_cq is NULL";
	} else {
		why = whose_are(context, attr);
	}
	if (!why)
		return 0;
	shca_say_create_qp(to_sctx(context), err, attr->qp_type, why);
	return err;
}

static struct simhca_create_qp_req
qp_request(const struct shca_context *ctx, const struct ibv_qp_init_attr_ex *attr, uint32_t flags)
{
	struct simhca_create_qp_req req = {
		.type = (uint32_t)attr->qp_type,
		.pd = attr->pd->handle,
		.send_cq = attr->send_cq->handle,
		.max_send_wr = attr->cap.max_send_wr,
		.max_send_sge = attr->cap.max_send_sge,
		.max_inline = attr->cap.max_inline_data,
		.sq_sig_all = !!attr->sq_sig_all,
		.slot_data =
			!ctx->no_slot_data && !(flags & SIMHCADV_QP_CREATE_DISABLE_SCATTER_TO_CQE),
		.no_fastpath = ctx->no_fastpath || (flags & SIMHCADV_QP_CREATE_DISABLE_FAST_PATH),
	};

	if (attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS)
		req.strip_cvlan = !!(attr->create_flags & IBV_QP_CREATE_CVLAN_STRIPPING);
	if (attr->qp_type == IBV_QPT_XRC_SEND) /* what is said of receives does not count */
		return req;
	req.recv_cq = attr->recv_cq->handle;
	req.max_recv_wr = attr->cap.max_recv_wr;
	req.max_recv_sge = attr->cap.max_recv_sge;
	req.has_srq = !!attr->srq;
	if (attr->srq)
		req.srq = attr->srq->handle;
	return req;
}

static struct ibv_qp *create(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr,
			     uint32_t flags)
{
	struct shca_context *ctx = to_sctx(context);
	struct simhca_create_qp_req req;
	struct simhca_create_qp_reply reply;
	struct shca_qp *qp;
	int err = check(context, attr);

	if (err)
		return shca_null(err);
	req = qp_request(ctx, attr, flags);
	qp = alloc(attr);
	if (!qp)
		return NULL;
	qp->srq = req.has_srq ? to_ssrq(attr->srq) : NULL;
	req.user_handle = shca_user_handle(ctx, &qp->vqp.qp);
	if (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)
		err = shca_qp_set_builders(qp, attr->send_ops_flags);
	if (err)
		shca_say_create_qp(ctx, err, attr->qp_type,
				   "send_ops_flags has operations that a QP of this type has not");
	qp->ctx = ctx;
	qp->data_may_stay = req.slot_data;
	if (!err)
		err = make(qp, &req, &reply, context, attr);
	/* Memory of its own takes a descriptor, and without that the device has to carry all. */
	if (err == EMFILE && !req.no_fastpath) {
		req.no_fastpath = 1;
		err = make(qp, &req, &reply, context, attr);
	}
	if (err) {
		shca_say_no_descriptor(ctx, SIMHCA_CMD_CREATE_QP, err);
		shca_home_free(qp->home, qp);
		return shca_null(err);
	}
	caps_from_reply(&attr->cap, &reply);
	return &qp->vqp.qp;
}

static struct ibv_qp *say_no_qp(struct ibv_context *context, const struct ibv_qp_init_attr_ex *attr,
				int err, const char *why)
{
	shca_say_create_qp(to_sctx(context), err, attr->qp_type, why);
	return shca_null(err);
}

/* Without queues of its own: it hands frames on to the WQs of a table. */
static struct ibv_qp *create_rss(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
	const uint32_t needed = IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH;
	const struct ibv_rx_hash_conf *hash = &attr->rx_hash_conf;
	struct simhca_create_rss_qp_req req = { .pd = attr->pd->handle };
	struct simhca_create_qp_reply reply;
	struct shca_qp *qp;
	int err;

	if (attr->qp_type != IBV_QPT_RAW_PACKET ||
	    (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS))
		return say_no_qp(context, attr, EOPNOTSUPP,
				 "a QP with a table of WQs is of IBV_QPT_RAW_PACKET, and sends "
				 "nothing");
	if ((attr->comp_mask & needed) != needed || attr->send_cq || attr->recv_cq || attr->srq ||
	    ((attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) && attr->create_flags))
		return say_no_qp(context, attr, EINVAL,
				 "a QP with a table of WQs has IBV_QP_INIT_ATTR_IND_TABLE and "
				 "_RX_HASH in comp_mask, no CQ, no SRQ and no create_flags");
	req.table = (uint32_t)attr->rwq_ind_tbl->ind_tbl_handle;
	req.hash_function = hash->rx_hash_function;
	req.hash_fields = hash->rx_hash_fields_mask;
	req.key_length = hash->rx_hash_key_len;
	memcpy(req.key, hash->rx_hash_key,
	       req.key_length < sizeof(req.key) ? req.key_length : sizeof(req.key));

	qp = alloc(attr);
	if (!qp)
		return NULL;
	req.user_handle = shca_user_handle(to_sctx(context), &qp->vqp.qp);
	err = shca_call(to_sctx(context), SIMHCA_CMD_CREATE_RSS_QP, &req, &reply);
	if (!err)
		err = adopt(qp, &reply, context, attr);
	if (err) {
		shca_home_free(qp->home, qp);
		return shca_null(err);
	}
	return &qp->vqp.qp;
}

struct ibv_qp *shca_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp_init_attr_ex attr_ex = {
		.qp_context = attr->qp_context,
		.send_cq = attr->send_cq,
		.recv_cq = attr->recv_cq,
		.srq = attr->srq,
		.cap = attr->cap,
		.qp_type = attr->qp_type,
		.sq_sig_all = attr->sq_sig_all,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = pd,
	};
	struct ibv_qp *qp = create(pd->context, &attr_ex, 0);

	if (qp)
		attr->cap = attr_ex.cap;
	return qp;
}

/* A QP never gets its own frames back, so there is nothing to block. */
static uint32_t create_flags(enum ibv_qp_type type)
{
	return type == IBV_QPT_RAW_PACKET
		       ? IBV_QP_CREATE_CVLAN_STRIPPING | IBV_QP_CREATE_BLOCK_SELF_MCAST_LB
		       : 0;
}

struct ibv_qp *shca_create_qp_with(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr,
				   uint32_t flags)
{
	const uint32_t rss = IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH;
	const uint32_t known = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS |
			       IBV_QP_INIT_ATTR_SEND_OPS_FLAGS | IBV_QP_INIT_ATTR_XRCD | rss;

	if (attr->comp_mask & ~known)
		return say_no_qp(context, attr, EOPNOTSUPP,
				 "comp_mask has bits that are not known: was the struct zeroed?");
	if ((attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) &&
	    (attr->create_flags & ~create_flags(attr->qp_type)))
		return say_no_qp(context, attr, EOPNOTSUPP,
				 "create_flags has flags that QPs of this type have not here");
	if (attr->qp_type == IBV_QPT_XRC_RECV)
		return shca_create_xrc_recv(context, attr);
	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || !attr->pd ||
	    (attr->comp_mask & IBV_QP_INIT_ATTR_XRCD))
		return say_no_qp(context, attr, EINVAL,
				 attr->comp_mask & IBV_QP_INIT_ATTR_XRCD
					 ? "comp_mask has IBV_QP_INIT_ATTR_XRCD, which is for "
					   "XRC_RECV"
					 : "pd is NULL, or comp_mask lacks IBV_QP_INIT_ATTR_PD");
	return attr->comp_mask & rss ? create_rss(context, attr) : create(context, attr, flags);
}

struct ibv_qp *shca_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
	return shca_create_qp_with(context, attr, 0);
}

/* Only what mask names has been set by the application; the rest goes out as 0. */
static void attr_to_abi(struct simhca_qp_attr *to, const struct ibv_qp_attr *from, int mask)
{
	if (mask & IBV_QP_STATE)
		to->qp_state = (uint32_t)from->qp_state;
	if (mask & IBV_QP_CUR_STATE)
		to->cur_qp_state = (uint32_t)from->cur_qp_state;
	if (mask & IBV_QP_EN_SQD_ASYNC_NOTIFY)
		to->en_sqd_async_notify = from->en_sqd_async_notify;
	if (mask & IBV_QP_ACCESS_FLAGS)
		to->qp_access_flags = from->qp_access_flags;
	if (mask & IBV_QP_PKEY_INDEX)
		to->pkey_index = from->pkey_index;
	if (mask & IBV_QP_PORT)
		to->port_num = from->port_num;
	if (mask & IBV_QP_QKEY)
		to->qkey = from->qkey;
	if (mask & IBV_QP_AV)
		shca_av_from_attr(&to->av, &from->ah_attr);
	if (mask & IBV_QP_PATH_MTU)
		to->path_mtu = (uint32_t)from->path_mtu;
	if (mask & IBV_QP_TIMEOUT)
		to->timeout = from->timeout;
	if (mask & IBV_QP_RETRY_CNT)
		to->retry_cnt = from->retry_cnt;
	if (mask & IBV_QP_RNR_RETRY)
		to->rnr_retry = from->rnr_retry;
	if (mask & IBV_QP_RQ_PSN)
		to->rq_psn = from->rq_psn;
	if (mask & IBV_QP_MAX_QP_RD_ATOMIC)
		to->max_rd_atomic = from->max_rd_atomic;
	if (mask & IBV_QP_ALT_PATH) {
		shca_av_from_attr(&to->alt_av, &from->alt_ah_attr);
		to->alt_pkey_index = from->alt_pkey_index;
		to->alt_port_num = from->alt_port_num;
		to->alt_timeout = from->alt_timeout;
	}
	if (mask & IBV_QP_MIN_RNR_TIMER)
		to->min_rnr_timer = from->min_rnr_timer;
	if (mask & IBV_QP_SQ_PSN)
		to->sq_psn = from->sq_psn;
	if (mask & IBV_QP_MAX_DEST_RD_ATOMIC)
		to->max_dest_rd_atomic = from->max_dest_rd_atomic;
	if (mask & IBV_QP_PATH_MIG_STATE)
		to->path_mig_state = (uint32_t)from->path_mig_state;
	if (mask & IBV_QP_CAP) {
		to->max_send_wr = from->cap.max_send_wr;
		to->max_recv_wr = from->cap.max_recv_wr;
		to->max_send_sge = from->cap.max_send_sge;
		to->max_recv_sge = from->cap.max_recv_sge;
		to->max_inline = from->cap.max_inline_data;
	}
	if (mask & IBV_QP_DEST_QPN)
		to->dest_qp_num = from->dest_qp_num;
	if (mask & IBV_QP_RATE_LIMIT)
		to->rate_limit = from->rate_limit;
}

static void attr_from_abi(struct ibv_qp_attr *to, const struct simhca_qp_attr *from)
{
	memset(to, 0, sizeof(*to));
	to->qp_state = (enum ibv_qp_state)from->qp_state;
	to->cur_qp_state = (enum ibv_qp_state)from->cur_qp_state;
	to->path_mtu = (enum ibv_mtu)from->path_mtu;
	to->path_mig_state = (enum ibv_mig_state)from->path_mig_state;
	to->qkey = from->qkey;
	to->rq_psn = from->rq_psn;
	to->sq_psn = from->sq_psn;
	to->dest_qp_num = from->dest_qp_num;
	to->qp_access_flags = from->qp_access_flags;
	to->cap.max_send_wr = from->max_send_wr;
	to->cap.max_recv_wr = from->max_recv_wr;
	to->cap.max_send_sge = from->max_send_sge;
	to->cap.max_recv_sge = from->max_recv_sge;
	to->cap.max_inline_data = from->max_inline;
	shca_av_to_attr(&from->av, &to->ah_attr);
	shca_av_to_attr(&from->alt_av, &to->alt_ah_attr);
	to->pkey_index = from->pkey_index;
	to->alt_pkey_index = from->alt_pkey_index;
	to->en_sqd_async_notify = from->en_sqd_async_notify;
	to->sq_draining = from->sq_draining;
	to->max_rd_atomic = from->max_rd_atomic;
	to->max_dest_rd_atomic = from->max_dest_rd_atomic;
	to->min_rnr_timer = from->min_rnr_timer;
	to->port_num = from->port_num;
	to->timeout = from->timeout;
	to->retry_cnt = from->retry_cnt;
	to->rnr_retry = from->rnr_retry;
	to->alt_port_num = from->alt_port_num;
	to->alt_timeout = from->alt_timeout;
	to->rate_limit = from->rate_limit;
}

/*
 * In RESET both sides start over: the device has zeroed its run state before it answered, and
 * writes no CQE of this QP until it leaves RESET.
 */
void shca_qp_start_over(struct shca_qp *qp)
{
	if (!qp->mem)
		return;
	shca_lint_qp_reset(qp);
	shca_cq_reset_qp(qp);
	shca_lock(&qp->sq.lock);
	qp->sq.head = 0;
	shca_unlock(&qp->sq.lock);
	shca_lock(&qp->rq.lock);
	qp->rq.head = 0;
	shca_rq_drop_records(&qp->rq);
	shca_unlock(&qp->rq.lock);
}

/*
 * Where its peer had the QP's memory, the device has given it other memory as it was reset. Without
 * that the QP is of no use; who has no descriptor for it, or no memory, may try again.
 */
static int map_new_memory(struct shca_qp *qp)
{
	int err = qp->own_is_new ? shca_map_again(qp->ctx, &qp->own, qp->own_is_new) : 0;

	if (!err)
		qp->own_is_new = 0;
	return err;
}

int shca_modify_qp(struct ibv_qp *ibv_qp, struct ibv_qp_attr *attr, int mask)
{
	struct shca_qp *qp = to_sqp(ibv_qp);
	struct simhca_modify_qp_req req = { .handle = ibv_qp->handle, .mask = (uint32_t)mask };
	struct simhca_modify_qp_reply reply;
	int err = map_new_memory(qp);

	if (err)
		return err;
	attr_to_abi(&req.attr, attr, mask);
	err = shca_call(qp->ctx, SIMHCA_CMD_MODIFY_QP, &req, &reply);
	if (!err && (mask & IBV_QP_STATE) && attr->qp_state == IBV_QPS_RESET) {
		qp->own_is_new = reply.segment;
		err = map_new_memory(qp);
		shca_qp_start_over(qp);
	}
	if (!err)
		shca_renew_queues(qp, reply.renew);
	if (!err && qp->lint)
		shca_lint_modified(qp, attr, mask);
	if (!err && (mask & IBV_QP_STATE) && attr->qp_state == IBV_QPS_RTS)
		shca_fastpath_connected(qp);
	return err;
}

/* Bursts belong to a limit, and the device knows none (0): packet_pacing_caps say so. */
int shca_modify_qp_rate_limit(struct ibv_qp *qp, struct ibv_qp_rate_limit_attr *attr)
{
	struct ibv_qp_attr qp_attr = { .rate_limit = attr->rate_limit };

	if (attr->comp_mask || attr->max_burst_sz || attr->typical_pkt_sz)
		return shca_result(EINVAL);
	return shca_modify_qp(qp, &qp_attr, IBV_QP_RATE_LIMIT);
}

int shca_query_qp(struct ibv_qp *ibv_qp, struct ibv_qp_attr *attr, int mask,
		  struct ibv_qp_init_attr *init_attr)
{
	struct simhca_handle req = { .handle = ibv_qp->handle };
	struct simhca_query_qp_reply reply;
	int err;

	/* As libibverbs has it for drivers that ask the kernel. */
	if (mask & ~(IBV_QP_RATE_LIMIT - 1))
		return shca_result(EOPNOTSUPP);
	err = shca_call(to_sqp(ibv_qp)->ctx, SIMHCA_CMD_QUERY_QP, &req, &reply);
	if (err)
		return err;
	attr_from_abi(attr, &reply.attr);
	init_attr->qp_context = ibv_qp->qp_context;
	init_attr->send_cq = ibv_qp->send_cq;
	init_attr->recv_cq = ibv_qp->recv_cq;
	init_attr->srq = ibv_qp->srq;
	init_attr->qp_type = ibv_qp->qp_type;
	init_attr->cap = attr->cap;
	init_attr->sq_sig_all = (int)reply.attr.sq_sig_all;
	return 0;
}

/*
 * Whether the bytes of a message become visible in the order of their addresses. They do not: the
 * kernel or libc copies them for the device, in runs of up to 128 KiB, and neither promises an
 * order within a run, nor within 128 aligned bytes. So there is nothing to report, with whatever
 * flags. A program learns of arrival from the completion, or from a later message.
 */
int shca_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
	return 0;
}

/* The PD may be gone already when it was an imported one: it is not looked at. */
int shca_destroy_qp(struct ibv_qp *ibv_qp)
{
	struct shca_qp *qp = to_sqp(ibv_qp);
	struct shca_context *ctx = qp->ctx;
	struct simhca_destroy_reply events = { 0 };
	int err;

	err = shca_destroy(ctx, SIMHCA_CMD_DESTROY_QP, ibv_qp->handle, &events);
	if (err)
		return err;
	if (qp->mem) {
		shca_fastpath_free(qp);
		shca_renew_queues(qp, events.renew);
		shca_cq_detach_qp(qp);
		shca_lint_qp_remove(qp);
		shca_qp_table_remove(qp);
		shca_page_lists_free(&qp->sq);
		free(qp->sq.binds);
		free(qp->rq.first);
	}

	shca_await_acks(ctx, "ibv_destroy_qp()", ibv_qp->qp_num, &ibv_qp->mutex, &ibv_qp->cond,
			&ibv_qp->events_completed, events.async_events);
	shca_unmap(&qp->own);
	shca_home_free(qp->home, qp);
	return 0;
}

static int tell_mcast(enum simhca_cmd command, struct ibv_qp *qp, const union ibv_gid *gid,
		      uint16_t lid)
{
	struct simhca_mcast_req req = { .qp = qp->handle, .lid = lid };

	memcpy(req.gid.raw, gid->raw, sizeof(req.gid.raw));
	return shca_command(to_sqp(qp)->ctx, command, &req);
}

int shca_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	return tell_mcast(SIMHCA_CMD_ATTACH_MCAST, qp, gid, lid);
}

int shca_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	return tell_mcast(SIMHCA_CMD_DETACH_MCAST, qp, gid, lid);
}
