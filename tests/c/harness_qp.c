/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* A client's SRQs and QPs: how they get ready, and what is posted to them. */
#include "harness.h"

/* -------------------------------------------------------------------------------- SRQ */

static void srq_take_reply(struct srq *srq, const struct simhca_create_srq_reply *reply)
{
	srq->handle = reply->handle;
	srq->srqn = reply->srqn;
	srq->max_wr = reply->max_wr;
	srq->max_sge = reply->max_sge;
	srq->entries = reply->entries;
	srq->stride = reply->stride;
	srq->state = client_at(srq->client, &reply->state);
	srq->ring = client_at(srq->client, &reply->ring);
}

static struct srq *make_srq(struct client *client, struct simhca_create_srq_req req)
{
	struct srq *srq = world_alloc(client->world, sizeof(*srq));
	struct simhca_create_srq_reply reply = { 0 };
	struct simhca_why why = { .text = "" };

	req.user_handle.element = (uintptr_t)srq;
	req.pd = client->pd;
	if (simhca_create_srq(client->context, &req, &reply, &why))
		fail_msg("create_srq: %s", why.text);
	srq->client = client;
	srq->has_records = req.type == SIMHCA_SRQT_BASIC;
	srq_take_reply(srq, &reply);
	return srq;
}

struct srq *srq_new(struct client *client, uint32_t max_wr, uint32_t max_sge, uint32_t limit)
{
	struct srq *srq = make_srq(client, (struct simhca_create_srq_req){ .max_wr = max_wr,
									   .max_sge = max_sge });

	if (limit)
		assert_int_equal(0, srq_modify(srq, SIMHCA_SRQ_LIMIT, 0, limit));
	return srq;
}

struct srq *xrc_srq_new(struct client *client, uint32_t xrcd, struct cq *cq, uint32_t max_wr)
{
	return make_srq(client, (struct simhca_create_srq_req){
					.type = SIMHCA_SRQT_XRC,
					.xrcd = xrcd,
					.cq = cq->handle,
					.max_wr = max_wr,
					.max_sge = 2,
				});
}

struct srq *tm_srq_new(struct client *client, struct cq *cq, uint32_t max_wr, uint32_t max_tags)
{
	return make_srq(client, (struct simhca_create_srq_req){
					.type = SIMHCA_SRQT_TM,
					.cq = cq->handle,
					.max_wr = max_wr,
					.max_sge = 2,
					.max_tags = max_tags,
				});
}

int srq_modify(struct srq *srq, uint32_t mask, uint32_t max_wr, uint32_t limit)
{
	struct simhca_modify_srq_req req = {
		.handle = srq->handle,
		.mask = mask,
		.max_wr = max_wr,
		.limit = limit,
	};
	struct simhca_create_srq_reply reply = { 0 };
	struct simhca_why why = { .text = "" };
	int error = patiently(simhca_modify_srq(srq->client->context, &req, &reply, &why));

	if (!error && mask & SIMHCA_SRQ_MAX_WR)
		srq_take_reply(srq, &reply);
	return error;
}

static void write_recv(uint8_t *slot, uint64_t wr_id, const struct simhca_sge *sges,
		       uint32_t num_sge, uint32_t record)
{
	struct simhca_recv_wqe header = { .wr_id = wr_id, .num_sge = num_sge, .record = record };

	memcpy(slot, &header, sizeof(header));
	if (num_sge)
		memcpy(slot + sizeof(header), sges, num_sge * sizeof(*sges));
}

void srq_recv(struct srq *srq, uint64_t wr_id, const struct simhca_sge *sges, uint32_t num_sge)
{
	assert_true(num_sge <= srq->max_sge);
	assert_true(srq->pi - srq_ci_of(srq) < srq->max_wr);
	write_recv(srq->ring + (size_t)(srq->pi & (srq->entries - 1)) * srq->stride, wr_id, sges,
		   num_sge, srq->has_records ? record_new(sges, num_sge, false) : 0);
	atomic_store_explicit(&srq->state->pi, ++srq->pi, memory_order_release);
}

/* --------------------------------------------------------------------------------- QP */

struct options default_options(enum ibv_qp_type type)
{
	return (struct options){
		.type = type,
		.max_send_wr = 64,
		.max_recv_wr = 64,
		.max_send_sge = 4,
		.max_recv_sge = 4,
		.max_inline = 256,
		.cqe = 256,
		.access = SIMHCA_ACCESS_REMOTE_WRITE | SIMHCA_ACCESS_REMOTE_READ |
			  SIMHCA_ACCESS_REMOTE_ATOMIC,
		.mr_access = ALL_ACCESS,
		.buffer = 64 * 1024,
		.path_mtu = IBV_MTU_1024,
		.psn = 0x123456,
		.qkey = 0x11111111,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.min_rnr_timer = 12,
		.max_rd_atomic = 4,
		.max_dest_rd_atomic = 4,
	};
}

struct qp *qp_new_in(struct client *client, uint32_t pd, const struct options *options,
		     struct cq *send_cq, struct cq *recv_cq, struct srq *srq)
{
	struct qp *qp = world_alloc(client->world, sizeof(*qp));
	const bool no_rq = srq || options->type == IBV_QPT_XRC_SEND;
	struct simhca_create_qp_req req = {
		.user_handle.element = (uintptr_t)qp,
		.type = options->type,
		.pd = pd,
		.send_cq = send_cq->handle,
		.recv_cq = recv_cq->handle,
		.srq = srq ? srq->handle : 0,
		.has_srq = srq != NULL,
		.max_send_wr = options->max_send_wr,
		.max_recv_wr = no_rq ? 0 : options->max_recv_wr,
		.max_send_sge = options->max_send_sge,
		.max_recv_sge = no_rq ? 0 : options->max_recv_sge,
		.max_inline = options->max_inline,
		.sq_sig_all = options->sq_sig_all,
		.strip_cvlan = options->strip_cvlan,
		/* Of others than these it says where the device puts the data. */
		.slot_data = options->slot_data || srq || options->type == IBV_QPT_UD,
		.no_fastpath = options->no_fastpath,
	};
	struct simhca_why why = { .text = "" };

	if (simhca_create_qp(client->context, &req, &qp->granted, &why))
		fail_msg("create_qp: %s", why.text);
	qp->client = client;
	qp->type = options->type;
	qp->handle = qp->granted.handle;
	qp->qpn = qp->granted.qpn;
	qp->doorbell = qp->granted.doorbell;
	qp->pd = pd;
	qp->state = client_at(client, &qp->granted.state);
	if (qp->granted.claims.segment || qp->granted.claims.offset)
		qp->claims = client_at(client, &qp->granted.claims);
	if (qp->granted.sq_entries)
		qp->sq = client_at(client, &qp->granted.sq);
	if (qp->granted.rq_entries)
		qp->rq = client_at(client, &qp->granted.rq);
	return qp;
}

struct qp *qp_new(struct client *client, const struct options *options, struct cq *send_cq,
		  struct cq *recv_cq, struct srq *srq)
{
	return qp_new_in(client, client->pd, options, send_cq, recv_cq, srq);
}

struct simhca_av av_to(const struct world *world, unsigned int device, unsigned int gid_index)
{
	if (world->infiniband)
		return (struct simhca_av){ .dlid = DEVICE_LID(device), .port_num = 1 };
	return (struct simhca_av){
		.dgid = device_gid(device, gid_index),
		.sgid_index = (uint8_t)gid_index,
		.hop_limit = 64,
		.is_global = 1,
		.port_num = 1,
	};
}

struct simhca_qp_attr qp_attr_to(const struct qp *qp, unsigned int peer_device, uint32_t peer_qpn,
				 const struct options *options)
{
	struct simhca_av av = av_to(qp->client->world, peer_device, options->gid_index);

	av.static_rate = options->static_rate;
	av.flow_label = options->flow_label;
	return (struct simhca_qp_attr){
		.port_num = 1,
		.pkey_index = 0,
		.qkey = options->qkey,
		.qp_access_flags = options->access,
		.path_mtu = options->path_mtu,
		.dest_qp_num = peer_qpn,
		.rq_psn = options->psn,
		.sq_psn = options->psn,
		.max_rd_atomic = options->max_rd_atomic,
		.max_dest_rd_atomic = options->max_dest_rd_atomic,
		.min_rnr_timer = options->min_rnr_timer,
		.timeout = options->timeout,
		.retry_cnt = options->retry_cnt,
		.rnr_retry = options->rnr_retry,
		.av = av,
	};
}

uint32_t init_mask(enum ibv_qp_type type)
{
	if (type == IBV_QPT_RAW_PACKET)
		return SIMHCA_QP_STATE | SIMHCA_QP_PORT;
	return SIMHCA_QP_STATE | SIMHCA_QP_PKEY_INDEX | SIMHCA_QP_PORT |
	       (type == IBV_QPT_UD ? SIMHCA_QP_QKEY : SIMHCA_QP_ACCESS_FLAGS);
}

uint32_t rtr_mask(enum ibv_qp_type type)
{
	uint32_t mask = SIMHCA_QP_STATE;

	if (type == IBV_QPT_RAW_PACKET)
		return mask;
	if (type != IBV_QPT_UD)
		mask |= SIMHCA_QP_AV | SIMHCA_QP_PATH_MTU | SIMHCA_QP_DEST_QPN | SIMHCA_QP_RQ_PSN;
	if (type == IBV_QPT_RC || type == IBV_QPT_XRC_RECV)
		mask |= SIMHCA_QP_MAX_DEST_RD_ATOMIC | SIMHCA_QP_MIN_RNR_TIMER;
	return mask;
}

uint32_t rts_mask(enum ibv_qp_type type)
{
	uint32_t mask = SIMHCA_QP_STATE | SIMHCA_QP_SQ_PSN;

	if (type == IBV_QPT_RAW_PACKET)
		return SIMHCA_QP_STATE;
	if (type == IBV_QPT_XRC_RECV)
		mask |= SIMHCA_QP_TIMEOUT;
	if (type == IBV_QPT_RC || type == IBV_QPT_XRC_SEND)
		mask |= SIMHCA_QP_TIMEOUT | SIMHCA_QP_RETRY_CNT | SIMHCA_QP_RNR_RETRY |
			SIMHCA_QP_MAX_QP_RD_ATOMIC;
	return mask;
}

int qp_modify(struct qp *qp, uint32_t mask, struct simhca_qp_attr attr)
{
	struct simhca_modify_qp_req req = { .handle = qp->handle, .mask = mask, .attr = attr };
	struct simhca_modify_qp_reply reply = { 0 };
	struct simhca_why why = { .text = "" };
	int error = patiently(simhca_modify_qp(qp->client->context, &req, &reply, &why));

	if (error) {
		if (getenv("SIMHCA_TEST_LOG"))
			print_message("[      LOG ] modify_qp: %s\n", why.text);
		assert_true(error < 0);
		return error;
	}
	if (mask & SIMHCA_QP_STATE)
		assert_int_equal(reply.state, attr.qp_state);
	if (reply.segment)
		client_map_again(qp->client, reply.segment);
	if (mask & SIMHCA_QP_STATE && attr.qp_state == IBV_QPS_RESET) {
		qp->sq_pi = atomic_load(&qp->state->sq_pi);
		qp->rq_pi = atomic_load(rq_pi_of(qp));
	}
	return 0;
}

int qp_move(struct qp *qp, enum ibv_qp_state state)
{
	return qp_modify(qp, SIMHCA_QP_STATE, (struct simhca_qp_attr){ .qp_state = state });
}

void qp_up_to(struct qp *qp, enum ibv_qp_state state, struct simhca_qp_attr attr)
{
	static const enum ibv_qp_state up[] = { IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS };
	uint32_t mask[] = { init_mask(qp->type), rtr_mask(qp->type), rts_mask(qp->type) };

	for (unsigned int i = 0; i < ARRAY_SIZE(up) && up[i] <= state; i++) {
		attr.qp_state = up[i];
		assert_int_equal(0, qp_modify(qp, mask[i], attr));
	}
}

void qp_connect(struct qp *qp, unsigned int peer_device, uint32_t peer_qpn,
		const struct options *options)
{
	qp_up_to(qp, IBV_QPS_RTS, qp_attr_to(qp, peer_device, peer_qpn, options));
}

struct simhca_qp_attr qp_query(struct qp *qp)
{
	struct simhca_query_qp_reply reply = { 0 };
	struct simhca_why why = { .text = "" };

	if (patiently(simhca_query_qp(qp->client->context, qp->handle, &reply, &why)))
		fail_msg("query_qp: %s", why.text);
	return reply.attr;
}

enum ibv_qp_state qp_state(struct qp *qp)
{
	return qp_query(qp).qp_state;
}

struct simhca_send_wqe *qp_put(struct qp *qp, const struct wr *wr)
{
	uint8_t *slot =
		qp->sq + (size_t)(qp->sq_pi & (qp->granted.sq_entries - 1)) * qp->granted.sq_stride;
	struct simhca_send_wqe wqe = {
		.wr_id = wr->id,
		.opcode = wr->opcode,
		.flags = wr->flags | wr->also,
		.num_sge = (uint8_t)wr->num_sge,
		.imm_or_rkey = wr->imm,
		.srqn = wr->srqn,
	};

	assert_true(qp->sq_pi - sq_ci_of(qp) < qp->granted.max_send_wr);
	if (qp->type == IBV_QPT_UD) {
		wqe.ud.av = wr->av;
		wqe.ud.dest_qpn = wr->dest_qpn;
		wqe.ud.qkey = wr->qkey;
	} else if (wr->opcode == SIMHCA_WR_BIND_MW) {
		wqe.bind.addr = wr->addr;
		wqe.bind.length = wr->length;
		wqe.bind.mw = wr->mw;
		wqe.bind.new_rkey = wr->key;
		wqe.bind.lkey = wr->lkey;
		wqe.bind.access = wr->access;
		wqe.bind.type = wr->mw_type;
	} else if (wr->opcode == SIMHCA_WR_FAST_REG) {
		wqe.fast_reg.iova = wr->addr;
		wqe.fast_reg.length = wr->length;
		wqe.fast_reg.page_list = (uintptr_t)wr->pages;
		wqe.fast_reg.num_pages = wr->num_pages;
		wqe.fast_reg.page_shift = wr->page_shift;
		wqe.fast_reg.access = wr->access;
		if (wr->num_pages <= SIMHCA_MAX_FAST_REG_PAGES)
			wqe.page_list_sum = simhca_page_list_sum(wr->pages, wr->num_pages);
		wqe.fast_reg.key = wr->key;
	} else if (wr->opcode == SIMHCA_WR_FLUSH) {
		wqe.flush.remote_addr = wr->remote_addr;
		wqe.flush.length = wr->length;
		wqe.flush.rkey = wr->rkey;
		wqe.flush.placement = wr->placement;
		wqe.flush.selectivity = wr->selectivity;
	} else {
		wqe.rdma.remote_addr = wr->remote_addr;
		wqe.rdma.compare_add = wr->compare_add;
		wqe.rdma.swap = wr->swap;
		wqe.rdma.rkey = wr->rkey;
	}
	if (wr->inline_data) {
		assert_true(wr->inline_len <= qp->granted.max_inline);
		wqe.flags |= SIMHCA_WQE_INLINE;
		wqe.inline_len = wr->inline_len;
		memcpy(slot + sizeof(wqe), wr->inline_data, wr->inline_len);
	} else if (wr->num_sge) {
		assert_true(wr->num_sge <= qp->granted.max_send_sge);
		memcpy(slot + sizeof(wqe), wr->sges, wr->num_sge * sizeof(*wr->sges));
	}
	memcpy(slot, &wqe, sizeof(wqe));
	/* release: the device that sees the index sees the WQE. */
	atomic_store_explicit(&qp->state->sq_pi, ++qp->sq_pi, memory_order_release);
	return (struct simhca_send_wqe *)slot;
}

void qp_ring(struct qp *qp)
{
	ring_doorbell(qp->client, qp->doorbell);
}

void qp_post(struct qp *qp, const struct wr *wr)
{
	qp_put(qp, wr);
	qp_ring(qp);
}

void qp_bind(struct qp *qp, uint64_t id, struct mw *mw, const struct mr *mr, uint64_t offset,
	     uint64_t length, uint32_t access)
{
	struct wr wr = {
		.id = id,
		.opcode = SIMHCA_WR_BIND_MW,
		.flags = SIMHCA_WQE_SIGNALED,
		.addr = mr ? mr->iova + offset : 0,
		.length = length,
		.mw = mw->rkey,
		.key = simhca_key_next(mw->rkey),
		.lkey = mr ? mr->lkey : 0,
		.access = access,
		.mw_type = mw->type,
	};

	qp_post(qp, &wr);
	mw->rkey = wr.key;
}

void qp_fast_reg(struct qp *qp, uint64_t id, struct mr *mr, const uint64_t *pages,
		 uint32_t num_pages, uint64_t iova, uint64_t length, uint32_t access)
{
	struct wr wr = {
		.id = id,
		.opcode = SIMHCA_WR_FAST_REG,
		.flags = SIMHCA_WQE_SIGNALED,
		.addr = iova,
		.length = length,
		.pages = pages,
		.num_pages = num_pages,
		.page_shift = 12,
		.access = access,
		.key = simhca_key_next(mr->lkey),
	};

	qp_post(qp, &wr);
	mr->iova = iova;
	mr->length = length;
	mr->lkey = mr->rkey = wr.key;
}

void qp_local_inv(struct qp *qp, uint64_t id, uint32_t key)
{
	qp_post(qp, &(struct wr){ .id = id,
				  .opcode = SIMHCA_WR_LOCAL_INV,
				  .flags = SIMHCA_WQE_SIGNALED,
				  .imm = key });
}

void qp_recv(struct qp *qp, uint64_t wr_id, const struct simhca_sge *sges, uint32_t num_sge)
{
	assert_true(num_sge <= qp->granted.max_recv_sge);
	assert_true(qp->rq_pi - rq_ci_of(qp) < qp->granted.max_recv_wr);
	write_recv(qp->rq + (size_t)(qp->rq_pi & (qp->granted.rq_entries - 1)) *
				    qp->granted.rq_stride,
		   wr_id, sges, num_sge, record_new(sges, num_sge, qp->type == IBV_QPT_UD));
	atomic_store_explicit(rq_pi_of(qp), ++qp->rq_pi, memory_order_release);
	/* A QP in the error state must be told, or nobody flushes the new request. */
	qp_ring(qp);
}
