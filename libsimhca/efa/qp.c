/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* QPs: how they are made, changed and destroyed. */
#include <errno.h>
#include <stdlib.h>

#include "core/lock.h"
#include "wire.h"

struct simhca_efa_limits simhca_efa_limits(const struct simhca_device *device)
{
	const struct simhca_device_config *config = &device->config;
	const uint32_t generation = config->efa_generation;

	return (struct simhca_efa_limits){
		.max_send_wr = config->max_qp_wr,
		/* One option lowers both, and another both numbers of buffers. */
		.max_recv_wr =
			config->max_qp_wr < SIMHCA_EFA_SQ_WR ? config->max_qp_wr : SIMHCA_EFA_RQ_WR,
		.max_send_sge = config->max_sge,
		.max_recv_sge =
			config->max_sge < SIMHCA_EFA_SGES ? config->max_sge : SIMHCA_EFA_RECV_SGES,
		.max_inline = config->max_inline,
		.max_inline_wide = generation >= 3 && config->max_inline == SIMHCA_EFA_INLINE
					   ? SIMHCA_EFA_INLINE_WIDE
					   : 0,
		.max_message = config->efa_mtu,
		.max_rdma = generation >= 2 ? config->efa_rdma : 0,
	};
}

static_assert(SIMHCA_EFA_RQ_WR <= EFA_RING_MOST && SIMHCA_EFA_SQ_WR <= EFA_RING_MOST,
	      "what a doorbell says is how many are new");

static int check_ring(const char *name, uint32_t bytes, uint32_t entry, uint32_t most,
		      struct simhca_why *why)
{
	if (!bytes)
		return 0;
	if (bytes % entry || !efa_is_power_of_2(bytes / entry) || bytes / entry > most)
		return simhca_why(why, EINVAL,
				  "%s of %u bytes: entries of %u bytes, a power of 2, at most %u",
				  name, bytes, entry, most);
	return 0;
}

/*
 * libefa passes the ring's size and, as max_send_wr, its number of WQEs. Releases that know no wide ones
 * pass what the program asked for: their rings are less than twice as long, so they never look wide.
 */
static bool is_wide(const struct simhca_efa_qp_request *req)
{
	return req->sq_bytes &&
	       req->sq_bytes == (uint64_t)req->caps.max_send_wr * sizeof(struct efa_wide_wqe);
}

static uint32_t wqe_bytes(const struct simhca_efa_qp_request *req)
{
	return is_wide(req) ? sizeof(struct efa_wide_wqe) : sizeof(struct efa_send_wqe);
}

static int check_qp(const struct simhca_context *context, const struct simhca_efa_qp_request *req,
		    struct simhca_why *why)
{
	const struct simhca_efa_limits most = simhca_efa_limits(context->device);
	const struct simhca_efa_qp_caps *caps = &req->caps;
	const uint32_t most_inline = is_wide(req) ? most.max_inline_wide : most.max_inline;
	const uint32_t wqe = wqe_bytes(req);
	int ret = check_ring("SQ", req->sq_bytes, wqe, SIMHCA_EFA_LLQ / wqe, why);

	if (!ret)
		ret = check_ring("RQ", req->rq_bytes, sizeof(struct efa_recv_desc),
				 SIMHCA_EFA_RQ_WR, why);
	if (ret)
		return ret;
	if (req->unsolicited && (!req->srd || efa_generation(context) < 3))
		return simhca_why(
			why, EINVAL,
			"unsolicited RDMA writes are for QPs of type SRD, of generation 3 on");
	if (is_wide(req) && !most.max_inline_wide)
		return simhca_why(why, EINVAL,
				  "WQEs of 128 bytes are of generation 3 on, where --max-inline is "
				  "not lowered");
	if (caps->max_send_wr > most.max_send_wr || caps->max_recv_wr > most.max_recv_wr ||
	    caps->max_send_sge > most.max_send_sge || caps->max_recv_sge > most.max_recv_sge ||
	    caps->max_inline > most_inline)
		return simhca_why(why, EINVAL,
				  "max_send_wr %u, max_recv_wr %u, max_send_sge %u, max_recv_sge "
				  "%u, max_inline_data %u: at most %u, %u, %u, %u, %u",
				  caps->max_send_wr, caps->max_recv_wr, caps->max_send_sge,
				  caps->max_recv_sge, caps->max_inline, most.max_send_wr,
				  most.max_recv_wr, most.max_send_sge, most.max_recv_sge,
				  most_inline);
	return 0;
}

/* The next free number of the device, in turn; 0: none. Numbers begin at 1. */
static uint32_t find_number(struct simhca_device *device)
{
	for (uint32_t n = 0; n < device->config.max_qp; n++) {
		uint32_t number = device->next_efa_qp % device->config.max_qp;

		device->next_efa_qp = number + 1;
		if (!atomic_load_explicit(&device->efa_qps[number], memory_order_relaxed))
			return number + 1;
	}
	return 0;
}

static void lay_out(struct efa_qp *qp)
{
	char *base = qp->memory.base;

	qp->rq_offset = EFA_PAGE;
	qp->sq_offset = qp->rq_offset + qp->rq_size;
	qp->sq_doorbell = (void *)base;
	qp->rq_doorbell = (void *)(base + EFA_RQ_DOORBELL);
	qp->rq = (void *)(base + qp->rq_offset);
	qp->sq = (void *)(base + qp->sq_offset);
}

static void free_qp(struct efa_qp *qp)
{
	if (qp->memory.base)
		simhca_context_free(qp->context, &qp->memory.ref, qp->memory.bytes);
	pthread_mutex_destroy(&qp->rq_lock);
	free(qp->messages);
	free(qp->usage);
	free(qp);
}

static void count_users(struct efa_qp *qp, uint32_t by)
{
	qp->pd->users[SIMHCA_OBJ_EFA_QP] += by;
	qp->send_cq->users += by;
	qp->recv_cq->users += by;
}

static int add_qp(struct efa_qp *qp, struct simhca_efa_qp_reply *reply, struct simhca_why *why)
{
	struct simhca_device *device = qp->context->device;
	int ret;

	if ((qp->sq_entries && !qp->messages) || !qp->usage)
		return efa_out_of_memory(why);
	ret = efa_make_memory(qp->context, EFA_PAGE + qp->rq_size + qp->sq_size, &qp->memory, why);
	if (ret)
		return ret;
	lay_out(qp);
	ret = simhca_object_add(qp->context, SIMHCA_OBJ_EFA_QP, qp, &qp->handle, why);
	if (ret)
		return ret;
	qp->qpn = find_number(device);
	if (!qp->qpn) {
		simhca_object_remove(qp->context, SIMHCA_OBJ_EFA_QP, qp->handle);
		return simhca_why(why, ENOMEM, "the device has its limit of %u QPs",
				  device->config.max_qp);
	}
	/* In turn, so that the queues of a CQ are spread over its rings. */
	qp->send_sub = qp->send_cq->next_sub++ % qp->send_cq->sub_cqs;
	qp->recv_sub = qp->recv_cq->next_sub++ % qp->recv_cq->sub_cqs;
	count_users(qp, 1);
	efa_list_add(&qp->context->efa->qps, qp);
	/* Release, and acquire where it is looked up: what stands there is whole. */
	atomic_store(&device->efa_qps[qp->qpn - 1], qp);
	reply->handle = qp->handle;
	reply->qpn = qp->qpn;
	reply->send_sub_cq = (uint16_t)qp->send_sub;
	reply->recv_sub_cq = (uint16_t)qp->recv_sub;
	reply->rq_key = EFA_KEY(qp->handle, EFA_KEY_RQ);
	reply->rq_size = qp->rq_size;
	reply->rq_doorbell_offset = EFA_RQ_DOORBELL;
	reply->rq_doorbell_key = EFA_KEY(qp->handle, EFA_KEY_RQ_DOORBELL);
	reply->sq_key = EFA_KEY(qp->handle, EFA_KEY_SQ);
	reply->sq_doorbell_key = EFA_KEY(qp->handle, EFA_KEY_SQ_DOORBELL);
	return 0;
}

int simhca_efa_create_qp(struct simhca_context *context, const struct simhca_efa_qp_request *req,
			 struct simhca_efa_qp_reply *reply, struct simhca_why *why)
{
	struct efa_cq *send_cq = NULL, *recv_cq = NULL;
	struct simhca_pd *pd;
	struct efa_qp *qp;
	int ret;

	if (!efa_of(context, why))
		return -EINVAL;
	pd = simhca_object(context, SIMHCA_OBJ_PD, req->pd, why);
	if (pd)
		send_cq = simhca_object(context, SIMHCA_OBJ_EFA_CQ, req->send_cq, why);
	if (send_cq)
		recv_cq = simhca_object(context, SIMHCA_OBJ_EFA_CQ, req->recv_cq, why);
	if (!recv_cq)
		return -ENOENT;
	ret = check_qp(context, req, why);
	if (ret)
		return ret;
	qp = calloc(1, sizeof(*qp));
	if (!qp)
		return efa_out_of_memory(why);
	qp->context = context;
	qp->pd = pd;
	qp->send_cq = send_cq;
	qp->recv_cq = recv_cq;
	qp->srd = req->srd;
	qp->unsolicited = req->unsolicited;
	qp->caps = req->caps;
	qp->wqe_bytes = wqe_bytes(req);
	qp->limits = (struct efa_limits){ .wide = is_wide(req),
					  .reads = req->srd && efa_generation(context) >= 2,
					  .writes = req->srd && efa_generation(context) >= 3,
					  .max_message = context->device->config.efa_mtu,
					  .max_rdma = context->device->config.efa_rdma };
	qp->sq_entries = req->sq_bytes / qp->wqe_bytes;
	qp->rq_entries = req->rq_bytes / (uint32_t)sizeof(struct efa_recv_desc);
	qp->sq_size = efa_whole_pages(req->sq_bytes);
	qp->rq_size = efa_whole_pages(req->rq_bytes);
	qp->messages = calloc(qp->sq_entries, sizeof(*qp->messages));
	qp->usage = simhca_usage_create();
	atomic_init(&qp->state, SIMHCA_QPS_RESET);
	atomic_init(&qp->rnr_retry, 7);
	simhca_mutex_init(&qp->rq_lock, SIMHCA_LOCK_EFA_QUEUE);
	ret = add_qp(qp, reply, why);
	if (ret)
		free_qp(qp);
	return ret;
}

int simhca_efa_destroy_qp(struct simhca_context *context, uint32_t handle, struct simhca_why *why)
{
	struct efa_qp *qp = simhca_object(context, SIMHCA_OBJ_EFA_QP, handle, why), *ours = qp;

	if (!qp)
		return -ENOENT;
	/* Out of the table first; then wait until no engine holds what it found there. */
	atomic_store(&qp->dead, true);
	efa_list_remove(&context->efa->qps, qp);
	/* The doorbell of one that has changed its place may have been missed. */
	simhca_engine_schedule(context->engine, &context->efa->task);
	/* When we come here again its number may be another's. */
	atomic_compare_exchange_strong(&context->device->efa_qps[qp->qpn - 1], &ours, NULL);
	if (!simhca_fabric_synchronize(context->device->fabric, context->id))
		return -EAGAIN;
	simhca_wire_synchronize(context->device->fabric);
	if (pthread_mutex_trylock(&context->efa->work))
		return -EAGAIN;
	efa_wire_forget(qp);
	pthread_mutex_unlock(&context->efa->work);
	/* Whoever found it taken. */
	simhca_engine_schedule(context->engine, &context->efa->task);
	count_users(qp, (uint32_t)-1);
	simhca_usage_sum(qp->usage, &context->past);
	simhca_object_remove(context, SIMHCA_OBJ_EFA_QP, handle);
	free_qp(qp);
	return 0;
}

/* ------------------------------------------------------------------------------------ states */

#define STATE SIMHCA_QP_STATE
#define INIT_MASK (SIMHCA_QP_PKEY_INDEX | SIMHCA_QP_PORT | SIMHCA_QP_QKEY)

/* What a transition needs, and what it may have; false: there is no such transition. */
static bool transition(uint32_t from, uint32_t to, uint32_t *needs, uint32_t *may)
{
	*needs = STATE;
	*may = STATE | SIMHCA_QP_CUR_STATE;
	if (to == SIMHCA_QPS_RESET || (to == SIMHCA_QPS_ERR && from != SIMHCA_QPS_RESET))
		return true;
	*may |= SIMHCA_QP_PKEY_INDEX | SIMHCA_QP_QKEY;
	if (from == SIMHCA_QPS_RESET && to == SIMHCA_QPS_INIT) {
		*needs |= INIT_MASK;
		*may |= SIMHCA_QP_PORT;
		return true;
	}
	if (from == SIMHCA_QPS_INIT && to == SIMHCA_QPS_INIT) {
		*may |= SIMHCA_QP_PORT;
		return true;
	}
	if (from == SIMHCA_QPS_INIT && to == SIMHCA_QPS_RTR)
		return true;
	if (from == SIMHCA_QPS_RTR && to == SIMHCA_QPS_RTS) {
		*needs |= SIMHCA_QP_SQ_PSN;
		*may |= SIMHCA_QP_SQ_PSN | SIMHCA_QP_RNR_RETRY;
		return true;
	}
	if (from == SIMHCA_QPS_RTS && to == SIMHCA_QPS_RTS)
		return true;
	return false;
}

static int check_modify(const struct efa_qp *qp, uint32_t mask,
			const struct simhca_efa_qp_attr *attr, struct simhca_why *why)
{
	uint32_t from = atomic_load(&qp->state), to = mask & STATE ? attr->state : from;
	uint32_t needs, may;

	if (!transition(from, to, &needs, &may))
		return simhca_why(why, EINVAL, "QP %u: an EFA QP does not go from state %u to %u",
				  qp->qpn, from, to);
	if (!(mask & STATE))
		needs = 0;
	if ((mask & needs) != needs || (mask & ~may))
		return simhca_why(why, EINVAL,
				  "QP %u, from state %u to %u: attributes 0x%x; needed are 0x%x, "
				  "and allowed 0x%x",
				  qp->qpn, from, to, mask, needs, may);
	if (mask & SIMHCA_QP_PORT && attr->port != 1)
		return simhca_why(why, EINVAL, "port_num = %u: this device has port 1", attr->port);
	if (mask & SIMHCA_QP_PKEY_INDEX && attr->pkey_index)
		return simhca_why(why, EINVAL, "pkey_index = %u: this device has P_Key 0",
				  attr->pkey_index);
	if (mask & SIMHCA_QP_RNR_RETRY && (attr->rnr_retry > 7 || !qp->srd))
		return simhca_why(why, EINVAL, "rnr_retry = %u: 0 to 7, of SRD QPs",
				  attr->rnr_retry);
	return 0;
}

/* Under the work lock: nothing is under way. */
static void reset(struct efa_qp *qp)
{
	qp->sq_ci = 0;
	qp->count = qp->waiting = 0;
	qp->late_ns = 0;
	efa_wire_forget(qp);
	simhca_usage_forget(qp->usage);
	qp->taken = 0;
	efa_show(qp);
	atomic_store(qp->sq_doorbell, 0);
	pthread_mutex_lock(&qp->rq_lock);
	qp->rq_ci = 0;
	atomic_store(qp->rq_doorbell, 0);
	pthread_mutex_unlock(&qp->rq_lock);
}

int simhca_efa_modify_qp(struct simhca_context *context, uint32_t handle, uint32_t mask,
			 const struct simhca_efa_qp_attr *attr, struct simhca_why *why)
{
	struct efa_qp *qp = simhca_object(context, SIMHCA_OBJ_EFA_QP, handle, why);
	struct simhca_efa *efa = context->efa;
	int ret;

	if (!qp)
		return -ENOENT;
	ret = check_modify(qp, mask, attr, why);
	if (ret)
		return ret;
	if (pthread_mutex_trylock(&efa->work))
		return -EAGAIN;
	if (mask & SIMHCA_QP_QKEY)
		atomic_store(&qp->qkey, attr->qkey);
	if (mask & SIMHCA_QP_SQ_PSN)
		qp->sq_psn = attr->sq_psn & 0xffffff;
	if (mask & SIMHCA_QP_RNR_RETRY)
		atomic_store(&qp->rnr_retry, attr->rnr_retry);
	if (mask & STATE) {
		atomic_store(&qp->state, attr->state);
		if (attr->state == SIMHCA_QPS_RESET)
			reset(qp);
		else if (attr->state == SIMHCA_QPS_ERR)
			efa_flush(qp);
	}
	pthread_mutex_unlock(&efa->work);
	/* Whoever found it taken, and what was posted in a state in which nothing is sent. */
	simhca_engine_schedule(context->engine, &efa->task);
	return 0;
}

int simhca_efa_query_qp(struct simhca_context *context, uint32_t handle,
			struct simhca_efa_qp_attr *attr, struct simhca_why *why)
{
	const struct efa_qp *qp = simhca_object(context, SIMHCA_OBJ_EFA_QP, handle, why);

	if (!qp)
		return -ENOENT;
	*attr = (struct simhca_efa_qp_attr){
		.state = atomic_load(&qp->state),
		.qkey = atomic_load(&qp->qkey),
		.sq_psn = qp->sq_psn,
		.rnr_retry = atomic_load(&qp->rnr_retry),
		.port = 1,
		.caps = qp->caps,
	};
	return 0;
}
