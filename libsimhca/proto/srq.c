/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Shared receive queues (IBTA vol. 1, 10.2.9). */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>

#include "cq.h"
#include "core/context.h"
#include "core/fabric.h"
#include "core/handles.h"
#include "core/lock.h"
#include "qp.h"
#include "recv_source.h"
#include "simhca-device.h"
#include "simhca-verbs.h"
#include "srq.h"
#include "owner.h"
#include "wqe.h"

#define MOVED_AT_A_TIME (1u << 20) /* bytes of WQEs, while consumers and the main thread wait */

static uint64_t ring_bytes(uint32_t entries, uint32_t stride)
{
	return (uint64_t)entries * stride;
}

static_assert(SIMHCA_MAX_SRQ_WR <= SIMHCA_SRQ_LIMIT_MASK, "limits have half a word");

/* 0 is no limit. Under the SRQ's lock. */
static void set_limit(struct simhca_srq *srq, uint32_t limit)
{
	srq->limit = limit;
	srq->armed = limit ? ++srq->armings << 16 | limit : 0;
	/* seq_cst: who claims later sees it. */
	atomic_store(&srq->view.mem->limit, srq->armed);
}

/*
 * The limit fires once, when fewer are left, and is then disarmed (IBTA vol. 1, 10.2.9.2). seen: the arming
 * that was reached when a program took a receive by itself, as more may have been posted since; or 0.
 */
static bool limit_is_reached(struct simhca_srq *srq, uint32_t seen)
{
	if (!srq->armed || (srq->armed != seen && !simhca_srq_is_below(&srq->view)))
		return false;
	set_limit(srq, 0);
	srq->limit_spent = true;
	return true;
}

void simhca_srq_raise_limit(const struct simhca_srq *srq)
{
	simhca_async_event(srq->context, srq->user_handle, srq->srqn, IBV_EVENT_SRQ_LIMIT_REACHED);
}

struct simhca_srq *simhca_xrc_srq(const struct simhca_device *device, uint32_t srqn)
{
	struct simhca_srq *srq = atomic_load(&device->srqs[SIMHCA_SRQN_SLOT(srqn)]);

	return srq && srq->srqn == srqn ? srq : NULL;
}

enum simhca_consume simhca_srq_consume_locked(struct simhca_srq *srq, struct simhca_qp *qp,
					      bool *limit_reached)
{
	uint32_t claim;
	enum simhca_consume result =
		simhca_recv_claim(&srq->view, qp->claimant, 0, qp->recv_copy, &claim);

	if (result != SIMHCA_CONSUME_OK)
		return result;
	if (qp->claimant)
		qp->resp.claim = claim;
	*limit_reached = limit_is_reached(srq, 0);
	return result;
}

enum simhca_consume simhca_srq_consume(struct simhca_srq *srq, struct simhca_qp *qp)
{
	enum simhca_consume result;
	bool limit_reached = false;

	if (simhca_abandoned_consume(&qp->left, qp->recv_copy))
		return SIMHCA_CONSUME_OK;
	pthread_mutex_lock(&srq->lock);
	result = simhca_srq_consume_locked(srq, qp, &limit_reached);
	pthread_mutex_unlock(&srq->lock);
	if (limit_reached)
		simhca_srq_raise_limit(srq);
	return result;
}

void simhca_srq_check_limit(struct simhca_srq *srq, uint32_t seen)
{
	bool limit_reached;

	pthread_mutex_lock(&srq->lock);
	limit_reached = limit_is_reached(srq, seen);
	pthread_mutex_unlock(&srq->lock);
	if (limit_reached)
		simhca_srq_raise_limit(srq);
}

uint32_t simhca_claimant_add(uint64_t claimants[SIMHCA_SRQ_CLAIMANTS / 64])
{
	for (uint32_t i = 0; i < SIMHCA_SRQ_CLAIMANTS; i++) {
		uint64_t bit = 1ull << i % 64;

		if (claimants[i / 64] & bit)
			continue;
		claimants[i / 64] |= bit;
		return i + 1;
	}
	return 0;
}

void simhca_claimant_remove(uint64_t claimants[SIMHCA_SRQ_CLAIMANTS / 64], uint32_t number)
{
	if (number)
		claimants[(number - 1) / 64] &= ~(1ull << (number - 1) % 64);
}

static enum simhca_consume consume(struct simhca_worker *worker, struct simhca_qp *qp,
				   const struct simhca_packet *packet)
{
	(void)worker;
	(void)packet;
	return simhca_srq_consume(qp->responder.srq, qp);
}

static bool complete(struct simhca_qp *qp, struct simhca_cqe *cqe)
{
	cqe->flags |= SIMHCA_CQE_SRQ;
	return simhca_cq_push_commit(qp->recv_cq, cqe, qp, simhca_responder_commit_cqe);
}

const struct simhca_recv_source simhca_srq_receives = {
	.consume = consume,
	.complete = complete,
	.no_room = SIMHCA_REASON_RECV_CQ_ERROR,
};
const struct simhca_srq_kind simhca_basic_srqs = { .source = &simhca_srq_receives };

/* Its state and its ring, in one segment. 0 or -errno. */
static int alloc(struct simhca_srq *srq, struct simhca_why *why)
{
	struct simhca_context *context = srq->context;
	const uint64_t bytes = ring_bytes(srq->view.entries, srq->view.stride);
	uint32_t segment;
	int ret;

	srq->shared.is_whole = srq->type == SIMHCA_SRQT_BASIC;
	ret = simhca_context_place(context,
				   sizeof(*srq->view.mem) + bytes + 2 * SIMHCA_CONTEXT_UNIT,
				   srq->shared.is_whole, &srq->shared.segment, &segment, why);
	if (ret)
		return ret;
	srq->view.mem =
		simhca_context_alloc_in(context, segment, sizeof(*srq->view.mem), &srq->mem_ref);
	if (!srq->view.mem)
		return -ENOMEM;
	memset(srq->view.mem, 0, sizeof(*srq->view.mem));
	srq->view.ring = simhca_context_alloc_in(context, segment, bytes, &srq->ring_ref);
	return srq->view.ring ? 0 : -ENOMEM;
}

static void fill_reply(const struct simhca_srq *srq, uint32_t handle,
		       struct simhca_create_srq_reply *reply)
{
	reply->handle = handle;
	reply->max_wr = srq->max_wr;
	reply->max_sge = srq->view.max_sge;
	reply->entries = srq->view.entries;
	reply->stride = srq->view.stride;
	reply->srqn = srq->srqn;
	reply->state = srq->mem_ref;
	reply->ring = srq->ring_ref;
}

/* What a request for an SRQ may not ask for. 0 or -errno. */
static int check(const struct simhca_context *context, const struct simhca_create_srq_req *req,
		 struct simhca_why *why)
{
	uint32_t max_sge = context->device->config.max_sge;

	if (!req->max_wr || req->max_wr > SIMHCA_MAX_SRQ_WR)
		return simhca_why(why, EINVAL, "max_wr = %u: 1 to %u", req->max_wr,
				  SIMHCA_MAX_SRQ_WR);
	if (req->max_sge > max_sge)
		return simhca_why(why, EINVAL, "max_sge = %u: 0 to %u", req->max_sge, max_sge);
	if (req->type > SIMHCA_SRQT_TM)
		return simhca_why(why, EOPNOTSUPP, "srq_type = %u: 0 to %u are known", req->type,
				  SIMHCA_SRQT_TM);
	return 0;
}

static void free_srq(struct simhca_srq *srq)
{
	struct simhca_context *context = srq->context;

	if (srq->srqn)
		simhca_number_release(&context->device->srqns, srq->srqn);
	if (srq->view.ring)
		simhca_context_free(context, &srq->ring_ref,
				    ring_bytes(srq->view.entries, srq->view.stride));
	if (srq->view.mem)
		simhca_context_free(context, &srq->mem_ref, sizeof(*srq->view.mem));
	free(srq->tags);
	free(srq);
}

int simhca_create_srq(struct simhca_context *context, const struct simhca_create_srq_req *req,
		      struct simhca_create_srq_reply *reply, struct simhca_why *why)
{
	struct simhca_pd *pd = simhca_object(context, SIMHCA_OBJ_PD, req->pd, why);
	struct simhca_srq *srq;
	int ret;

	if (!pd)
		return -ENOENT;
	ret = check(context, req, why);
	if (ret)
		return ret;
	srq = calloc(1, sizeof(*srq));
	if (!srq)
		return simhca_why(why, ENOMEM, "out of memory");
	srq->context = context;
	srq->type = req->type;
	srq->pd = pd;
	srq->max_wr = req->max_wr;
	/* One that is larger was not set, but is what lay in the struct. */
	srq->unused_limit = req->limit <= req->max_wr ? req->limit : 0;
	srq->view.max_sge = req->max_sge ? req->max_sge : 1;
	srq->view.entries = simhca_ring_entries(req->max_wr);
	srq->view.stride = simhca_recv_stride(srq->view.max_sge);
	srq->user_handle = req->user_handle;
	srq->kind = context->device->fabric->srq_kind[req->type];
	ret = srq->kind->init ? srq->kind->init(srq, req, why) : 0;
	if (ret)
		goto fail;
	ret = alloc(srq, why);
	if (ret)
		goto fail;
	srq->srqn = simhca_number_alloc(&context->device->srqns);
	if (!srq->srqn) {
		ret = simhca_why(why, ENOMEM, "all SRQ numbers are in use");
		goto fail;
	}
	ret = simhca_object_add(context, SIMHCA_OBJ_SRQ, srq, &reply->handle, why);
	if (ret)
		goto fail;
	pd->users[SIMHCA_OBJ_SRQ]++;
	if (srq->cq)
		srq->cq->users++;
	simhca_mutex_init(&srq->lock, SIMHCA_LOCK_SRQ);
	fill_reply(srq, reply->handle, reply);
	if (srq->kind->publish)
		srq->kind->publish(srq);
	return 0;
fail:
	free_srq(srq);
	return ret;
}

static void stop_moving(struct simhca_srq *srq)
{
	struct simhca_srq_move *move = &srq->move;

	if (move->ring)
		srq->rest = (struct simhca_rest){
			.ref = move->ref,
			.bytes = ring_bytes(simhca_ring_entries(move->max_wr), srq->view.stride),
		};
	move->ring = NULL;
}

static int start_moving(struct simhca_srq *srq, uint32_t max_wr, struct simhca_why *why)
{
	struct simhca_srq_move *move = &srq->move;
	uint32_t waiting;

	*move = (struct simhca_srq_move){ .max_wr = max_wr };
	move->ring = simhca_context_alloc(srq->context,
					  ring_bytes(simhca_ring_entries(max_wr), srq->view.stride),
					  &move->ref, why);
	if (!move->ring)
		return -ENOMEM;
	simhca_srq_waiting(&srq->view, &move->next, &waiting);
	return 0;
}

static void copy_wqes(const struct simhca_srq_view *from, const struct simhca_srq_view *to,
		      uint32_t *next, uint32_t end)
{
	for (; *next != end; ++*next)
		memcpy((char *)simhca_srq_slot(to, *next), simhca_srq_slot(from, *next),
		       from->stride);
}

/* Under the SRQ's lock: a part of those that wait, which keep their indices. 0: all are there. */
static int move_some(struct simhca_srq *srq, struct simhca_why *why)
{
	const struct simhca_srq_view *old = &srq->view;
	struct simhca_srq_move *move = &srq->move;
	const struct simhca_srq_view to = { .ring = move->ring,
					    .entries = simhca_ring_entries(move->max_wr),
					    .stride = old->stride };
	uint32_t end, all;

	if (!simhca_srq_moves(old, move->max_wr, MOVED_AT_A_TIME / old->stride, &move->next, &end,
			      &all))
		return simhca_why(why, EINVAL, "max_wr = %u: the SRQ holds more", move->max_wr);
	/* The index is a client's, who can move it for ever. */
	move->copied += end - move->next;
	if (move->copied > 2ull * SIMHCA_MAX_SRQ_WR)
		return simhca_why(why, EBUSY, "more receives come than can be moved");
	copy_wqes(old, &to, &move->next, end);
	return end == all ? 0 : -ERESTART;
}

/* Under the SRQ's lock: from now on it is there. */
static void use_new_ring(struct simhca_srq *srq)
{
	struct simhca_srq_move *move = &srq->move;

	srq->rest = (struct simhca_rest){
		.ref = srq->ring_ref,
		.bytes = ring_bytes(srq->view.entries, srq->view.stride),
	};
	srq->view.ring = move->ring;
	srq->view.entries = simhca_ring_entries(move->max_wr);
	srq->ring_ref = move->ref;
	srq->max_wr = move->max_wr;
	move->ring = NULL;
	srq->moved = true;
}

/* Moves the WQEs that wait to a ring for max_wr of them, a part at a time, as a CQ's CQEs. */
static int resize(struct simhca_srq *srq, uint32_t max_wr, struct simhca_why *why)
{
	struct simhca_context *context = srq->context;
	struct simhca_srq_move *move = &srq->move;
	int ret = simhca_context_give_back(context, &srq->rest);

	if (ret)
		return ret;
	if (srq->moved && srq->max_wr == max_wr)
		goto moved;
	/* No program has the new ring, and nobody reads the old one any more. */
	srq->shared.segment = 0;
	srq->shared.is_whole = false;
	simhca_steps_end(context->device->fabric, context->id);
	if (!simhca_fabric_synchronize(context->device->fabric, context->id))
		return -EAGAIN;
	if (move->ring && move->max_wr != max_wr) { /* that was given up */
		stop_moving(srq);
		return -ERESTART;
	}
	if (!move->ring)
		ret = start_moving(srq, max_wr, why);
	if (ret)
		return ret;
	pthread_mutex_lock(&srq->lock);
	ret = move_some(srq, why);
	if (!ret)
		use_new_ring(srq);
	pthread_mutex_unlock(&srq->lock);
	if (ret == -ERESTART)
		return ret;
	stop_moving(srq);
	/* Of what failed the rest is given back with the next try, or with the SRQ. */
	if (simhca_context_give_back(context, &srq->rest) && !ret)
		return -ERESTART;
	if (ret)
		return ret;
moved:
	srq->moved = false;
	return 0;
}

/*
 * As it will be in the memory that it gets (renew.h). A ring that it was resized to is another's
 * memory, and stays.
 */
static struct simhca_srq_view renewed(const struct simhca_srq *srq)
{
	struct simhca_srq_view view = srq->view;

	view.mem = (struct simhca_srq_mem *)(srq->shared.spare.base + srq->mem_ref.offset);
	if (srq->shared.segment)
		view.ring = srq->shared.spare.base + srq->ring_ref.offset;
	return view;
}

/* A part of what waits; true: that was all. The client posts none meanwhile. */
static bool copy_waiting(struct simhca_srq *srq, const struct simhca_srq_view *to)
{
	/* The index in the new memory is the client's own. */
	const uint32_t pi = simhca_srq_posted(to);
	uint32_t end;

	if (!srq->shared.segment)
		return true;
	if (!srq->renewal.begun) {
		srq->renewal.begun = true;
		srq->renewal.next = pi - srq->view.entries;
	}
	if (!simhca_srq_renews(&srq->view, pi, MOVED_AT_A_TIME / to->stride, &srq->renewal.next,
			       &end))
		return true;
	copy_wqes(&srq->view, to, &srq->renewal.next, end);
	return end == pi;
}

int simhca_srq_move(struct simhca_srq *srq, struct simhca_why *why)
{
	const struct simhca_srq_view to = renewed(srq);
	int ret;

	pthread_mutex_lock(&srq->lock);
	if (!copy_waiting(srq, &to)) {
		pthread_mutex_unlock(&srq->lock);
		return -ERESTART;
	}
	srq->renewal.begun = false;
	simhca_srq_go_on(&srq->view, &to);
	atomic_store(&to.mem->limit, srq->armed);
	ret = simhca_context_use_spare(srq->context, srq->mem_ref.segment, &srq->shared.spare);
	pthread_mutex_unlock(&srq->lock);
	if (!ret)
		return 0;
	simhca_async_event(srq->context, srq->user_handle, srq->srqn, IBV_EVENT_SRQ_ERR);
	return simhca_why(why, -ret, "memory for an SRQ: %s", strerror(-ret));
}

static uint32_t limit_of(struct simhca_srq *srq)
{
	uint32_t limit;

	pthread_mutex_lock(&srq->lock);
	limit = srq->limit;
	pthread_mutex_unlock(&srq->lock);
	return limit;
}

int simhca_modify_srq(struct simhca_context *context, const struct simhca_modify_srq_req *req,
		      struct simhca_create_srq_reply *reply, struct simhca_why *why)
{
	struct simhca_srq *srq = simhca_object(context, SIMHCA_OBJ_SRQ, req->handle, why);
	uint32_t max_wr;
	int ret;

	if (!srq)
		return -ENOENT;
	if (req->mask & ~(uint32_t)(SIMHCA_SRQ_MAX_WR | SIMHCA_SRQ_LIMIT))
		return simhca_why(why, EINVAL, "SRQ attribute mask 0x%x: 1 to 3 are known",
				  req->mask);
	max_wr = req->mask & SIMHCA_SRQ_MAX_WR ? req->max_wr : srq->max_wr;
	if (!max_wr || max_wr > SIMHCA_MAX_SRQ_WR)
		return simhca_why(why, EINVAL, "max_wr = %u: 1 to %u", max_wr, SIMHCA_MAX_SRQ_WR);
	if ((req->mask & SIMHCA_SRQ_LIMIT) && req->limit > max_wr)
		return simhca_why(why, EINVAL, "srq_limit = %u: at most max_wr, %u", req->limit,
				  max_wr);
	if (req->mask & SIMHCA_SRQ_MAX_WR) {
		/* As rxe has it, whatever the new limit is. */
		if (limit_of(srq) > max_wr)
			return simhca_why(why, EINVAL, "max_wr = %u: an srq_limit of more is set",
					  max_wr);
		ret = resize(srq, max_wr, why);
		if (ret)
			return ret;
	}
	if (req->mask & SIMHCA_SRQ_LIMIT) {
		pthread_mutex_lock(&srq->lock);
		set_limit(srq, req->limit);
		srq->limit_spent = false;
		srq->unused_limit = 0;
		pthread_mutex_unlock(&srq->lock);
	}
	fill_reply(srq, req->handle, reply);
	reply->renew = (req->mask & SIMHCA_SRQ_MAX_WR) && simhca_is_to_be_renewed(&srq->shared);
	return 0;
}

int simhca_query_srq(struct simhca_context *context, uint32_t handle,
		     struct simhca_query_srq_reply *reply, struct simhca_why *why)
{
	struct simhca_srq *srq = simhca_object(context, SIMHCA_OBJ_SRQ, handle, why);

	if (!srq)
		return -ENOENT;
	reply->max_wr = srq->max_wr;
	reply->max_sge = srq->view.max_sge;
	reply->limit = limit_of(srq);
	return 0;
}

int simhca_srq_identity(struct simhca_context *context, uint32_t handle,
			struct simhca_identity *identity, struct simhca_why *why)
{
	struct simhca_srq *srq = simhca_object(context, SIMHCA_OBJ_SRQ, handle, why);

	if (!srq)
		return -ENOENT;
	*identity = (struct simhca_identity){ .user_handle = srq->user_handle };
	return 0;
}

int simhca_destroy_srq(struct simhca_context *context, uint32_t handle, struct simhca_why *why)
{
	struct simhca_srq *srq = simhca_object(context, SIMHCA_OBJ_SRQ, handle, why);
	int ret;

	if (!srq)
		return -ENOENT;
	if (srq->users)
		return simhca_why(why, EBUSY, "this SRQ is still used by %u QP%s", srq->users,
				  srq->users == 1 ? "" : "s");
	ret = srq->kind->withdraw && !srq->withdrawn ? srq->kind->withdraw(srq) : 0;
	if (ret)
		return ret;
	srq->withdrawn = true;
	if (simhca_context_give_back(context, &srq->rest))
		return -ERESTART;
	stop_moving(srq);
	if (simhca_context_give_back(context, &srq->rest) ||
	    !simhca_context_wipe(context, &srq->ring_ref,
				 ring_bytes(srq->view.entries, srq->view.stride), &srq->wiped))
		return -ERESTART;
	srq->pd->users[SIMHCA_OBJ_SRQ]--;
	if (srq->cq)
		srq->cq->users--;
	simhca_object_remove(context, SIMHCA_OBJ_SRQ, handle);
	simhca_context_drop_spare(context, &srq->shared.spare);
	pthread_mutex_destroy(&srq->lock);
	free_srq(srq);
	return 0;
}
