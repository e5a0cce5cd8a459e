/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Queue pairs: making and destroying them, and their steps. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "attach.h"
#include "comp_cntr.h"
#include "core/context.h"
#include "core/fabric.h"
#include "core/handles.h"
#include "engine/engine.h"
#include "flush.h"
#include "mcast.h"
#include "memory/mw.h"
#include "paging/fault.h"
#include "queue/progress.h"
#include "qp.h"
#include "requester.h"
#include "simhca-device.h"
#include "simhca-info.h"
#include "simhca-verbs.h"
#include "owner.h"

static uint64_t sq_bytes(const struct simhca_qp *qp)
{
	return (uint64_t)qp->sq_entries * qp->sq_stride;
}

static uint64_t rq_bytes(const struct simhca_qp *qp)
{
	return (uint64_t)qp->rq_entries * qp->rq_stride;
}

/* Whether programs that send to it may consume its receives. */
static bool takes_claims(const struct simhca_qp *qp)
{
	return qp->type == SIMHCA_QPT_UD && qp->rq_entries && qp->device->config.fast_path &&
	       !qp->fastpath.none;
}

static uint64_t mem_bytes(const struct simhca_qp *qp)
{
	return sizeof(*qp->mem) + (qp->srq || takes_claims(qp) ? SIMHCA_RECV_COPY_BYTES : 0);
}

static uint64_t claims_bytes(const struct simhca_qp *qp)
{
	return takes_claims(qp) ? sizeof(*qp->rq_view.mem) : 0;
}

/* Pages that a packet of the peer's needed have come. */
static void tell_peer(struct simhca_qp *qp)
{
	if (!simhca_qp_begin(qp)) /* who has it schedules it again */
		return;
	if (atomic_exchange(&qp->faults.tell_peer, false) && qp->link->ready)
		qp->link->ready(qp);
	simhca_qp_end(qp);
}

static bool step(struct simhca_worker *worker, struct simhca_qp *qp)
{
	bool more = qp->link->arrived && qp->link->arrived(worker, qp);

	if (qp->type == SIMHCA_QPT_XRC_RECV) /* it has no queue */
		return more;
	more = simhca_fastpath_rang(qp) || more;
	if (__builtin_expect(atomic_load(&qp->faults.tell_peer), 0))
		tell_peer(qp);
	switch (simhca_qp_state(qp)) {
	case SIMHCA_QPS_RTS:
	case SIMHCA_QPS_SQD:
		return simhca_requester_run(worker, qp) || more;
	case SIMHCA_QPS_SQE:
	case SIMHCA_QPS_ERR:
		simhca_flush(qp);
		return more;
	default:
		return more;
	}
}

bool simhca_qp_step(struct simhca_worker *worker, struct simhca_task *task)
{
	struct simhca_qp *qp = simhca_qp_of(task);
	bool more = step(worker, qp);

	simhca_worker_send(worker);
	return more;
}

void simhca_qp_clear(struct simhca_qp *qp)
{
	if (qp->context)
		simhca_engine_cancel_timer(&qp->task);
	simhca_drop_fetches(qp, false);
	if (qp->wire.uplink)
		qp->wire.uplink->reset(qp);
	simhca_usage_forget(qp->usage);
	atomic_store(&qp->fastpath.yielding.until, 0);
	memset(&qp->req, 0, sizeof(qp->req));
	qp->requester.exceeding.found = false;
	memset(&qp->resp, 0, sizeof(qp->resp));
	free(qp->inject_past.overtaken);
	qp->inject_past = (struct simhca_inject_past){ 0 };
	if (qp->ethernet.copies)
		memset(qp->ethernet.copies, 0, qp->link->copies_bytes);
	simhca_progress_clear(qp->mem);
	if (qp->type == SIMHCA_QPT_UD)
		simhca_abandoned_reset(&qp->left);
	if (qp->rq_view.mem)
		memset(qp->rq_view.mem, 0, sizeof(*qp->rq_view.mem));
	qp->drained_event_due = false;
	qp->last_wqe_event_due = qp->srq || qp->type == SIMHCA_QPT_XRC_RECV;
}

static uint32_t find_doorbell(struct simhca_context *context)
{
	while (context->doorbell_hint < SIMHCA_MAX_QP &&
	       atomic_load(&context->doorbell[context->doorbell_hint]))
		context->doorbell_hint++;
	return context->doorbell_hint;
}

static int check_request(const struct simhca_context *context,
			 const struct simhca_create_qp_req *req, struct simhca_why *why)
{
	const struct simhca_device_config *most = &context->device->config;

	if (req->type != SIMHCA_QPT_RC && req->type != SIMHCA_QPT_UC &&
	    req->type != SIMHCA_QPT_UD && req->type != SIMHCA_QPT_XRC_SEND &&
	    req->type != SIMHCA_QPT_RAW_PACKET)
		return simhca_why(why, EOPNOTSUPP,
				  "qp_type = %u: RC, UC, UD, XRC and RAW_PACKET are supported",
				  req->type);
	if (req->type == SIMHCA_QPT_RAW_PACKET && most->infiniband)
		return simhca_why(why, EOPNOTSUPP, "RAW_PACKET QPs are for Ethernet ports");
	if (req->strip_cvlan && req->type != SIMHCA_QPT_RAW_PACKET)
		return simhca_why(why, EINVAL, "only RAW_PACKET QPs strip VLAN tags");
	if (req->type == SIMHCA_QPT_XRC_SEND &&
	    (req->has_srq || req->max_recv_wr || req->max_recv_sge))
		return simhca_why(why, EINVAL,
				  "an XRC_SEND QP receives nothing: it has no SRQ, and "
				  "max_recv_wr and max_recv_sge are 0");
	if (req->max_send_wr > most->max_qp_wr)
		return simhca_why(why, EINVAL, "max_send_wr = %u: at most %u", req->max_send_wr,
				  most->max_qp_wr);
	if (!req->has_srq && req->max_recv_wr > most->max_qp_wr)
		return simhca_why(why, EINVAL, "max_recv_wr = %u: at most %u", req->max_recv_wr,
				  most->max_qp_wr);
	if (req->max_send_sge > most->max_sge)
		return simhca_why(why, EINVAL, "max_send_sge = %u: at most %u", req->max_send_sge,
				  most->max_sge);
	if (!req->has_srq && req->max_recv_sge > most->max_sge)
		return simhca_why(why, EINVAL, "max_recv_sge = %u: at most %u", req->max_recv_sge,
				  most->max_sge);
	if (req->max_inline > most->max_inline)
		return simhca_why(why, EINVAL, "max_inline_data = %u: at most %u bytes",
				  req->max_inline, most->max_inline);
	return 0;
}

/* Inline data lie where the SGEs would, so there is room for as much as the list takes. */
static uint32_t inline_granted(const struct simhca_create_qp_req *req,
			       const struct simhca_device_config *most)
{
	uint32_t room =
		req->max_send_wr ? req->max_send_sge * (uint32_t)sizeof(struct simhca_sge) : 0;

	if (room > most->max_inline)
		room = most->max_inline;
	return req->max_inline > room ? req->max_inline : room;
}

static uint64_t round_up(uint64_t bytes)
{
	return (bytes + SIMHCA_CONTEXT_UNIT - 1) / SIMHCA_CONTEXT_UNIT * SIMHCA_CONTEXT_UNIT;
}

static int alloc_claims(struct simhca_qp *qp, uint32_t segment, uint32_t max_sge)
{
	struct simhca_srq_mem *mem =
		simhca_context_alloc_in(qp->context, segment, sizeof(*mem), &qp->claims_ref);

	if (!mem)
		return -ENOMEM;
	memset(mem, 0, sizeof(*mem));
	qp->claimant = SIMHCA_CLAIMANT_DEVICE;
	qp->rq_view = (struct simhca_srq_view){ .mem = mem,
						.ring = qp->rq,
						.entries = qp->rq_entries,
						.stride = qp->rq_stride,
						.max_sge = max_sge };
	return 0;
}

static int alloc_rings(struct simhca_qp *qp, uint32_t max_recv_sge, struct simhca_why *why)
{
	struct simhca_context *context = qp->context;
	uint32_t segment;
	int ret = simhca_fastpath_init(qp,
				       round_up(mem_bytes(qp)) + round_up(sq_bytes(qp)) +
					       round_up(rq_bytes(qp)) + round_up(claims_bytes(qp)),
				       &segment, why);

	if (ret)
		return ret;
	qp->mem = simhca_context_alloc_in(context, segment, mem_bytes(qp), &qp->mem_ref);
	if (qp->mem && qp->sq_entries)
		qp->sq = simhca_context_alloc_in(context, segment, sq_bytes(qp), &qp->sq_ref);
	if (qp->mem && (qp->sq || !qp->sq_entries) && qp->rq_entries)
		qp->rq = simhca_context_alloc_in(context, segment, rq_bytes(qp), &qp->rq_ref);
	if (!qp->mem || (qp->sq_entries && !qp->sq) || (qp->rq_entries && !qp->rq))
		return -ENOMEM;
	memset(qp->mem, 0, sizeof(*qp->mem));
	if (qp->srq || takes_claims(qp))
		qp->recv_copy = (char *)(qp->mem + 1);
	return takes_claims(qp) ? alloc_claims(qp, segment, max_recv_sge) : 0;
}

struct simhca_qp *simhca_qp_alloc(struct simhca_context *context, uint32_t type,
				  struct simhca_pd *pd, struct simhca_user_handle user_handle)
{
	struct simhca_qp *qp = calloc(1, sizeof(*qp));

	if (!qp)
		return NULL;
	qp->usage = simhca_usage_create();
	if (!qp->usage) {
		free(qp);
		return NULL;
	}
	qp->context = context;
	qp->device = context->device;
	qp->link = type == SIMHCA_QPT_RAW_PACKET ? context->device->fabric->frame_link
						 : context->device->fabric->link;
	qp->task.run = simhca_qp_step;
	qp->task.engine = context->engine;
	qp->faults.context = context;
	qp->faults.device = context->device;
	qp->faults.task = &qp->task;
	qp->source = &simhca_own_receives;
	simhca_abandoned_init(&qp->left);
	qp->pd = pd;
	qp->responder.key_pd = pd->number;
	qp->type = type;
	qp->user_handle = user_handle;
	return qp;
}

void simhca_qp_free(struct simhca_qp *qp)
{
	struct simhca_context *context = qp ? qp->context : NULL;

	if (!qp)
		return;
	simhca_qp_detach(qp);
	if (qp->sq)
		simhca_context_free(context, &qp->sq_ref, sq_bytes(qp));
	if (qp->rq)
		simhca_context_free(context, &qp->rq_ref, rq_bytes(qp));
	if (qp->mem)
		simhca_context_free(context, &qp->mem_ref, mem_bytes(qp));
	if (qp->rq_view.mem)
		simhca_context_free(context, &qp->claims_ref, sizeof(*qp->rq_view.mem));
	simhca_fastpath_free(qp);
	simhca_abandoned_free(&qp->left);
	if (qp->qpn)
		simhca_number_release(&qp->device->qpns, qp->qpn);
	simhca_faults_free(&qp->faults);
	free(qp->inject_past.overtaken);
	free(qp->ethernet.copies);
	free(qp->usage);
	free(qp->ethernet.rss);
	free(qp);
}

/*
 * Word by word, so that what is atomic stays so: engines and programs look at it without the QP's locks. C
 * copies a struct, and memcpy() its bytes, as they come.
 */
void simhca_qpc_set(struct simhca_qpc *qpc, const struct simhca_qpc *to)
{
	static_assert(offsetof(struct simhca_qpc, pd) % sizeof(simhca_word) == 0,
		      "a word begins there");

	qpc->dest_qpn = to->dest_qpn;
	simhca_words_put(&qpc->pd, &to->pd, sizeof(*qpc) - offsetof(struct simhca_qpc, pd));
}

void simhca_qpc_init(struct simhca_qpc *qpc, uint32_t qpn, uint32_t type)
{
	static const struct simhca_qpc none;

	atomic_store(&qpc->state, SIMHCA_QPS_RESET);
	atomic_store(&qpc->qpn, qpn);
	atomic_store(&qpc->type, type);
	simhca_qpc_set(qpc, &none);
}

static void fill_qpc(struct simhca_qp *qp, const struct simhca_create_qp_req *req)
{
	struct simhca_qpc *qpc = qp->qpc;

	simhca_qpc_init(qpc, qp->qpn, qp->type);
	qpc->pd = qp->pd->number;
	qpc->max_send_wr = req->max_send_wr;
	qpc->max_send_sge = req->max_send_sge;
	qpc->max_inline = req->max_inline;
	qpc->sq_sig_all = req->sq_sig_all != 0;
	if (!qp->srq) {
		qpc->max_recv_wr = req->max_recv_wr;
		qpc->max_recv_sge = req->max_recv_sge;
	}
}

static void fill_reply(const struct simhca_qp *qp, uint32_t handle,
		       struct simhca_create_qp_reply *reply)
{
	const struct simhca_qpc *qpc = qp->qpc;

	*reply = (struct simhca_create_qp_reply){
		.handle = handle,
		.qpn = qp->qpn,
		.doorbell = qp->doorbell,
		.max_send_wr = qpc->max_send_wr,
		.max_recv_wr = qpc->max_recv_wr,
		.max_send_sge = qpc->max_send_sge,
		.max_recv_sge = qpc->max_recv_sge,
		.max_inline = qpc->max_inline,
		.sq_entries = qp->sq_entries,
		.sq_stride = qp->sq_stride,
		.rq_entries = qp->rq_entries,
		.rq_stride = qp->rq_stride,
		.slot_data = qp->slot_data,
		.state = qp->mem_ref,
		.sq = qp->sq_ref,
		.rq = qp->rq_ref,
		.claims = qp->claims_ref,
		.fastpath = qp->fastpath.mem_ref,
	};
}

/* Of a CQ: work requests of the QP complete there from now on (+1), or do no more (-1). */
static void feed(struct simhca_cq *cq, uint32_t wrs, int32_t sign)
{
	if (!cq)
		return;
	cq->feeds += wrs * (uint32_t)sign;
	if (cq->feeds > cq->most_feeds)
		cq->most_feeds = cq->feeds;
}

uint32_t simhca_unpolled_sends(struct simhca_qp *qp)
{
	struct simhca_requester req;
	uint32_t count;

	if (!qp->mem || !qp->sq_entries || !qp->send_cq)
		return 0;
	simhca_progress_show_requester(qp->mem, &req);
	count = simhca_progress_sq_pi(qp->mem) - req.oldest;
	if (count > qp->sq_entries)
		count = qp->sq_entries;
	return count + simhca_cq_sends_of(qp->send_cq, qp->qpn);
}

/* For who polls for them when the QP has gone. */
static void count_dropped_sends(struct simhca_qp *qp)
{
	const uint32_t sends = simhca_unpolled_sends(qp);

	if (!sends)
		return;
	qp->send_cq->dropped.sends = sends;
	qp->send_cq->dropped.qpn = qp->qpn;
}

/* What it works with is not destroyed before it (+1), or may be again (-1). */
static void count_users(struct simhca_qp *qp, int32_t users)
{
	feed(qp->send_cq, qp->qpc->max_send_wr, users);
	feed(qp->recv_cq, qp->qpc->max_recv_wr, users);
	qp->pd->users[qp->type == SIMHCA_QPT_WQ ? SIMHCA_OBJ_WQ : SIMHCA_OBJ_QP] += (uint32_t)users;
	if (qp->send_cq) {
		qp->send_cq->users += (uint32_t)users;
		if (users > 0)
			qp->send_cq->dropped.sends = 0;
	}
	if (qp->recv_cq)
		qp->recv_cq->users += (uint32_t)users;
	if (qp->srq)
		qp->srq->users += (uint32_t)users;
	if (qp->also_used)
		*qp->also_used += (uint32_t)users;
}

static bool has_number_elsewhere(const struct simhca_device *of, uint32_t qpn)
{
	bool found = false;

	pthread_rwlock_rdlock(&of->fabric->lock);
	for (struct simhca_device *device = of->fabric->devices; device && !found;
	     device = device->next)
		found = simhca_qp_numbered(device, qpn);
	pthread_rwlock_unlock(&of->fabric->lock);
	return found;
}

/* Devices that share an address must not share a QP number: together they say who is meant. */
static uint32_t alloc_number(struct simhca_device *device)
{
	uint32_t qpn = simhca_number_alloc(&device->qpns);

	while (qpn && has_number_elsewhere(device, qpn)) {
		simhca_number_release(&device->qpns, qpn);
		qpn = simhca_number_alloc(&device->qpns);
	}
	return qpn;
}

int simhca_qp_add(struct simhca_qp *qp, enum simhca_object_type as,
		  const struct simhca_create_qp_req *caps, struct simhca_create_qp_reply *reply,
		  struct simhca_why *why)
{
	struct simhca_context *context = qp->context;
	struct simhca_device *device = qp->device;
	uint32_t handle;
	int ret;

	qp->last_wqe_event_due = qp->srq != NULL;
	qp->sq_entries = caps->max_send_wr ? simhca_ring_entries(caps->max_send_wr) : 0;
	qp->sq_stride = simhca_send_stride(caps->max_send_sge, caps->max_inline);
	if (!qp->srq) {
		qp->rq_entries = caps->max_recv_wr ? simhca_ring_entries(caps->max_recv_wr) : 0;
		qp->rq_stride = simhca_recv_stride(caps->max_recv_sge);
	}
	if (qp->slot_data && qp->rq_entries) {
		qp->rq_stride = simhca_recv_stride_with_data(caps->max_recv_sge);
		qp->slot_data = qp->rq_stride - SIMHCA_SLOT_DATA;
	}
	if (qp->link->copies_bytes)
		qp->ethernet.copies = calloc(1, qp->link->copies_bytes);
	if (qp->link->copies_bytes && !qp->ethernet.copies)
		ret = simhca_why(why, ENOMEM, "out of memory");
	else
		ret = alloc_rings(qp, caps->max_recv_sge, why);
	if (!ret && simhca_qp_attach(qp))
		ret = simhca_why(why, ENOMEM, "out of memory");
	if (ret)
		goto fail;
	qp->qpn = qp->task.qpn = qp->faults.qpn = alloc_number(device);
	qp->doorbell = find_doorbell(context);
	if (!qp->qpn || qp->doorbell == SIMHCA_MAX_QP) {
		ret = simhca_why(why, ENOMEM, "all QP numbers are in use");
		goto fail;
	}
	ret = simhca_object_add(context, as, qp, &handle, why);
	if (ret)
		goto fail;
	qp->qpc = &device->qpcs[SIMHCA_QPN_SLOT(qp->qpn)];
	fill_qpc(qp, caps);
	count_users(qp, 1);
	fill_reply(qp, handle, reply);
	if (qp->doorbell >= atomic_load(&context->doorbell_slots))
		atomic_store(&context->doorbell_slots, qp->doorbell + 1);
	atomic_store(&context->doorbell[qp->doorbell], &qp->task);
	atomic_store(&device->qps[SIMHCA_QPN_SLOT(qp->qpn)], qp);
	simhca_fabric_changed(device->fabric);
	return 0;
fail:
	simhca_qp_free(qp);
	return ret;
}

/*
 * What its receives get may stay in their slots. Who polls goes through these in turn, which is the order of
 * completions only where none are lost.
 */
static bool has_slot_data(const struct simhca_qp *qp)
{
	return !qp->srq && !qp->recv_cq->view.overruns &&
	       (qp->type == SIMHCA_QPT_RC || qp->type == SIMHCA_QPT_UC);
}

int simhca_qp_create(struct simhca_context *context, const struct simhca_create_qp_req *req,
		     struct simhca_create_qp_reply *reply, struct simhca_why *why)
{
	struct simhca_create_qp_req granted = *req;
	struct simhca_cq *send_cq = NULL, *recv_cq = NULL;
	struct simhca_srq *srq = NULL;
	struct simhca_pd *pd;
	struct simhca_qp *qp;
	int ret;

	pd = simhca_object(context, SIMHCA_OBJ_PD, req->pd, why);
	if (pd)
		send_cq = simhca_object(context, SIMHCA_OBJ_CQ, req->send_cq, why);
	/* XRC_SEND completes no receives; so that nobody has to ask, it has its send CQ for them.
	 */
	if (send_cq && req->type == SIMHCA_QPT_XRC_SEND)
		recv_cq = send_cq;
	else if (send_cq)
		recv_cq = simhca_object(context, SIMHCA_OBJ_CQ, req->recv_cq, why);
	if (recv_cq && req->has_srq)
		srq = simhca_object(context, SIMHCA_OBJ_SRQ, req->srq, why);
	if (!recv_cq || (req->has_srq && !srq))
		return -ENOENT;
	ret = check_request(context, req, why);
	if (!ret && srq && srq->type == SIMHCA_SRQT_TM && req->type != SIMHCA_QPT_RC)
		ret = simhca_why(why, EINVAL, "tags are matched on RC QPs only");
	if (!ret && srq && srq->type == SIMHCA_SRQT_XRC)
		ret = simhca_why(why, EINVAL,
				 "an XRC SRQ takes from XRC_RECV QPs, not from a QP of its own");
	if (ret)
		return ret;

	qp = simhca_qp_alloc(context, req->type, pd, req->user_handle);
	if (!qp)
		return simhca_why(why, ENOMEM, "out of memory");
	qp->send_cq = send_cq;
	qp->recv_cq = recv_cq;
	qp->srq = qp->responder.srq = srq;
	if (srq)
		qp->source = srq->kind->source;
	qp->ethernet.strip_cvlan = req->strip_cvlan != 0;
	qp->data_may_stay = req->slot_data && context->device->config.slot_data;
	qp->slot_data = qp->data_may_stay && has_slot_data(qp);
	qp->fastpath.none = req->no_fastpath != 0;
	granted.max_inline = inline_granted(req, &context->device->config);
	return simhca_qp_add(qp, SIMHCA_OBJ_QP, &granted, reply, why);
}

/*
 * Takes a dead QP away from the engines. Twice, for a step that was under way the first time may
 * have put it back (one that began later cannot): the second time nobody does.
 */
static bool quiesce(struct simhca_qp *qp)
{
	for (int i = 0; i < 2; i++) {
		simhca_engine_forget(&qp->task);
		simhca_engine_cancel_timer(&qp->task);
		if (!simhca_fabric_synchronize(qp->device->fabric, qp->context->id))
			return false;
	}
	return true;
}

int simhca_qp_remove(struct simhca_qp *qp, enum simhca_object_type as, uint32_t handle)
{
	struct simhca_context *context = qp->context;
	struct simhca_task *ours = &qp->task;

	/* Out of every table first; then wait until no engine holds what it found there. */
	atomic_store(&qp->task.dead, true);
	simhca_fastpath_end(qp);
	simhca_qp_detach_all(qp);
	atomic_store(&qp->device->qps[SIMHCA_QPN_SLOT(qp->qpn)], NULL);
	simhca_fabric_changed(qp->device->fabric);
	/* Its slot may be another QP's when we come here again. */
	atomic_compare_exchange_strong(&context->doorbell[qp->doorbell], &ours, NULL);
	if (!quiesce(qp) || !simhca_faults_disable(&qp->faults) || !simhca_fastpath_recover(qp) ||
	    !simhca_fastpath_detach(qp))
		return -EAGAIN;
	simhca_fastpath_forget(qp);
	simhca_free_windows_of(context, qp->qpn);
	if (qp->doorbell < context->doorbell_hint)
		context->doorbell_hint = qp->doorbell;
	simhca_drop_fetches(qp, false);
	simhca_comp_cntr_detach(qp);
	simhca_usage_sum(qp->usage, &context->past);
	simhca_fastpath_usage(qp, &context->past);
	count_dropped_sends(qp);
	count_users(qp, -1);
	simhca_qpc_init(qp->qpc, 0, 0);
	simhca_object_remove(context, as, handle);
	simhca_qp_free(qp);
	return 0;
}

bool simhca_qp_has_sends(struct simhca_context *context, uint32_t handle)
{
	struct simhca_qp *qp = simhca_object(context, SIMHCA_OBJ_QP, handle, NULL);
	bool has = true; /* an engine is at it */

	if (!qp || simhca_is_reliable(qp->type) || !qp->sq_entries || atomic_load(&qp->task.dead))
		return false;
	if (simhca_qp_begin(qp)) {
		has = simhca_qp_state(qp) == SIMHCA_QPS_RTS && qp->req.wait != SIMHCA_WAIT_FAULT &&
		      simhca_progress_sq_pi(qp->mem) != qp->req.oldest;
		simhca_qp_end(qp);
	}
	/* Should the doorbell be missing, as that of a program that was stopped before it. */
	if (has)
		simhca_engine_schedule(context->engine, &qp->task);
	return has;
}

int simhca_qp_destroy(struct simhca_qp *qp, uint32_t handle, struct simhca_why *why)
{
	if (qp->users)
		return simhca_why(why, EBUSY, "%u flows still lead to this QP", qp->users);
	return simhca_qp_remove(qp, SIMHCA_OBJ_QP, handle);
}
