/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Completion queues as objects: they are made, get another size, and go. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/fabric.h"
#include "core/lock.h"
#include "core/steps.h"
#include "cq_impl.h"
#include "engine/engine.h"
#include "simhca-verbs.h"

/*
 * Entries of a CQ into which programs complete. When one of them has ended, the CQE that it
 * reserved is looked for among all CQEs that wait, as the CQ's owner says: a millisecond at most.
 */
#define MOST_FOR_FAST_PATH (1u << 18)

static uint64_t ring_bytes(uint32_t entries)
{
	return (uint64_t)entries * sizeof(struct simhca_cqe);
}

static uint64_t data_bytes(const struct simhca_cq *cq)
{
	return (uint64_t)cq->view.data_slots * SIMHCA_CQ_DATA;
}

/* Data may stay there if peers have the CQ, and nobody writes over what was not read. */
static uint32_t data_slots(const struct simhca_cq *cq)
{
	if (!cq->context->device->config.slot_data || cq->view.stamped || cq->view.overruns)
		return 0;
	return cq->view.entries < SIMHCA_CQ_DATA_SLOTS ? cq->view.entries : SIMHCA_CQ_DATA_SLOTS;
}

/* Its state, its ring and the data, in one segment. 0 or -errno. */
static int alloc_cq(struct simhca_cq *cq, struct simhca_why *why)
{
	struct simhca_context *context = cq->context;
	const uint64_t bytes = ring_bytes(cq->view.entries);
	uint32_t segment;
	int ret;

	cq->shared.is_whole = cq->view.entries <= MOST_FOR_FAST_PATH;
	cq->view.data_slots = data_slots(cq);
	ret = simhca_context_place(
		context, sizeof(*cq->view.mem) + bytes + data_bytes(cq) + 3 * SIMHCA_CONTEXT_UNIT,
		cq->shared.is_whole, &cq->shared.segment, &segment, why);
	if (ret)
		return ret;
	cq->view.mem =
		simhca_context_alloc_in(context, segment, sizeof(*cq->view.mem), &cq->mem_ref);
	if (!cq->view.mem)
		return -ENOMEM;
	memset(cq->view.mem, 0, sizeof(*cq->view.mem));
	cq->view.ring = simhca_context_alloc_in(context, segment, bytes, &cq->ring_ref);
	if (!cq->view.ring)
		return -ENOMEM;
	if (!cq->shared.segment) /* no peer has it */
		cq->view.data_slots = 0;
	if (!cq->view.data_slots)
		return 0;
	cq->view.data = simhca_context_alloc_in(context, segment, data_bytes(cq), &cq->data_ref);
	return cq->view.data ? 0 : -ENOMEM;
}

static void fill_cq_reply(const struct simhca_cq *cq, uint32_t handle,
			  struct simhca_create_cq_reply *reply)
{
	reply->handle = handle;
	reply->cqe = cq->view.cqe;
	reply->entries = cq->view.entries;
	reply->state = cq->mem_ref;
	reply->ring = cq->ring_ref;
	reply->data = cq->data_ref;
	reply->data_slots = cq->view.data_slots;
}

static int check_cqe(const struct simhca_context *context, uint32_t cqe, struct simhca_why *why)
{
	if (!cqe || cqe > context->device->config.max_cqe)
		return simhca_why(why, EINVAL, "cqe = %d: 1 to %u", (int)cqe,
				  context->device->config.max_cqe);
	return 0;
}

static void free_cq(struct simhca_cq *cq)
{
	if (cq->view.data)
		simhca_context_free(cq->context, &cq->data_ref, data_bytes(cq));
	if (cq->view.ring)
		simhca_context_free(cq->context, &cq->ring_ref, ring_bytes(cq->view.entries));
	if (cq->view.mem)
		simhca_context_free(cq->context, &cq->mem_ref, sizeof(*cq->view.mem));
	free(cq);
}

int simhca_create_cq(struct simhca_context *context, const struct simhca_create_cq_req *req,
		     struct simhca_create_cq_reply *reply, struct simhca_why *why)
{
	struct simhca_cq *cq;
	int ret = check_cqe(context, req->cqe, why);

	if (ret)
		return ret;
	if (req->comp_vector >= SIMHCA_COMP_VECTORS)
		return simhca_why(why, EINVAL, "comp_vector = %d: 0 to %u", (int)req->comp_vector,
				  SIMHCA_COMP_VECTORS - 1);
	if (req->flags & ~(uint32_t)(SIMHCA_CQ_TIMESTAMP | SIMHCA_CQ_IGNORE_OVERRUN))
		return simhca_why(why, EINVAL, "CQ flags 0x%x are not known", req->flags);
	cq = calloc(1, sizeof(*cq));
	if (!cq)
		return simhca_why(why, ENOMEM, "out of memory");
	cq->context = context;
	cq->view.cqe = req->cqe;
	cq->view.entries = simhca_ring_entries(req->cqe);
	cq->view.stamped = req->flags & SIMHCA_CQ_TIMESTAMP;
	cq->view.overruns = req->flags & SIMHCA_CQ_IGNORE_OVERRUN;
	cq->user_handle = req->user_handle;
	cq->channel = req->channel;
	ret = alloc_cq(cq, why);
	if (!ret)
		ret = simhca_object_add(context, SIMHCA_OBJ_CQ, cq, &reply->handle, why);
	if (ret) {
		free_cq(cq);
		return ret;
	}
	cq->number = simhca_number_alloc(&context->device->cqns);
	simhca_mutex_init(&cq->lock, SIMHCA_LOCK_CQ);
	fill_cq_reply(cq, reply->handle, reply);
	return 0;
}

static void leave(struct simhca_cq *cq, const struct simhca_mem_ref *ref, uint32_t entries)
{
	cq->rest = (struct simhca_rest){ .ref = *ref, .bytes = ring_bytes(entries) };
}

static void stop_moving(struct simhca_cq *cq)
{
	if (cq->move.ring)
		leave(cq, &cq->move.ring_ref, cq->move.entries);
	cq->move.ring = NULL;
}

static int start_moving(struct simhca_cq *cq, uint32_t cqe, struct simhca_why *why)
{
	struct simhca_cq_move *move = &cq->move;

	*move = (struct simhca_cq_move){ .entries = simhca_ring_entries(cqe), .cqe = cqe };
	move->ring =
		simhca_context_alloc(cq->context, ring_bytes(move->entries), &move->ring_ref, why);
	if (!move->ring)
		return -ENOMEM;
	move->next = simhca_cq_consumer(&cq->view);
	simhca_cq_fresh_ring(move->ring, move->entries, simhca_cq_producer(&cq->view));
	return 0;
}

/* Under the CQ's lock. 0: all of them are there. */
static int move_some(struct simhca_cq *cq, struct simhca_why *why)
{
	struct simhca_cq_move *move = &cq->move;
	uint32_t pi = simhca_cq_producer(&cq->view), ci = simhca_cq_consumer(&cq->view), end;

	if (cq->overrun)
		return simhca_why(why, EINVAL, "the CQ is in error: a completion found no room");
	if (!simhca_gate_move(pi, ci, cq->view.entries, move->cqe, MOVED_AT_A_TIME, &move->next,
			      &end))
		return simhca_why(why, EINVAL, "cqe = %u: the CQ holds %u completions", move->cqe,
				  pi - ci);
	/* Both indices are a client's, who can move them for ever. */
	if (move->copied > 2ull * SIMHCA_MAX_CQE)
		return simhca_why(why, EBUSY, "more completions come than can be moved");
	move->copied += end - move->next;
	for (; move->next != end; move->next++)
		simhca_cqe_copy(simhca_cq_slot(&cq->view, move->next),
				&move->ring[move->next & (move->entries - 1)]);
	return end == pi ? 0 : -ERESTART;
}

/* Under the CQ's lock: the new ring counts from now on. */
static void use_new_ring(struct simhca_cq *cq)
{
	leave(cq, &cq->ring_ref, cq->view.entries);
	cq->view.ring = cq->move.ring;
	cq->ring_ref = cq->move.ring_ref;
	cq->view.entries = cq->move.entries;
	cq->view.cqe = cq->move.cqe;
	cq->move.ring = NULL;
	cq->moved = true;
}

int simhca_resize_cq(struct simhca_context *context, const struct simhca_resize_cq_req *req,
		     struct simhca_create_cq_reply *reply, struct simhca_why *why)
{
	struct simhca_cq *cq = simhca_object(context, SIMHCA_OBJ_CQ, req->handle, why);
	int ret;

	if (!cq)
		return -ENOENT;
	ret = check_cqe(context, req->cqe, why);
	if (ret)
		return ret;
	if (req->cqe < req->outstanding)
		return simhca_why(why, EINVAL,
				  "cqe = %u: %u completions are in the CQ or may still come",
				  req->cqe, req->outstanding);
	ret = simhca_context_give_back(cq->context, &cq->rest);
	if (ret)
		return ret;
	if (cq->moved && cq->view.cqe == req->cqe)
		goto moved;
	/* No program has the new ring, and nobody writes to the old one any more. */
	cq->shared.segment = 0;
	cq->shared.is_whole = false;
	simhca_steps_end(context->device->fabric, context->id);
	if (!simhca_fabric_synchronize(context->device->fabric, context->id))
		return -EAGAIN;
	if (cq->move.ring && cq->move.cqe != req->cqe) { /* that was given up, or is another's */
		stop_moving(cq);
		return -ERESTART;
	}
	if (!cq->move.ring)
		ret = start_moving(cq, req->cqe, why);
	if (ret)
		return ret;
	pthread_mutex_lock(&cq->lock);
	ret = move_some(cq, why);
	if (!ret)
		use_new_ring(cq);
	pthread_mutex_unlock(&cq->lock);
	if (ret == -ERESTART)
		return ret;
	stop_moving(cq);
	/* Of what failed the rest is given back with the next try, or with the CQ. */
	if (simhca_context_give_back(cq->context, &cq->rest) && !ret)
		return -ERESTART;
	if (ret)
		return ret;
moved:
	cq->moved = false;
	fill_cq_reply(cq, req->handle, reply);
	reply->renew = simhca_is_to_be_renewed(&cq->shared);
	return 0;
}

int simhca_cq_identity(struct simhca_context *context, uint32_t handle,
		       struct simhca_identity *identity, struct simhca_why *why)
{
	struct simhca_cq *cq = simhca_object(context, SIMHCA_OBJ_CQ, handle, why);

	if (!cq)
		return -ENOENT;
	*identity = (struct simhca_identity){
		.user_handle = cq->user_handle,
		.channel = cq->channel,
		/* relaxed: none is added any more, if nothing uses the CQ. */
		.events_raised =
			atomic_load_explicit(&cq->view.mem->events_raised, memory_order_relaxed),
	};
	return 0;
}

int simhca_destroy_cq(struct simhca_context *context, uint32_t handle, struct simhca_why *why)
{
	struct simhca_cq *cq = simhca_object(context, SIMHCA_OBJ_CQ, handle, why);

	if (!cq)
		return -ENOENT;
	if (cq->users)
		return simhca_why(why, EBUSY, "%u queues of QPs still use this CQ", cq->users);
	if (cq->timed) {
		/* Nothing is added any more, so nothing starts the timer; it may be expiring. */
		simhca_engine_stop_timer(context->engine, &cq->timer);
		if (!simhca_fabric_synchronize(context->device->fabric, context->id))
			return -EAGAIN;
	}
	if (simhca_context_give_back(cq->context, &cq->rest))
		return -ERESTART;
	stop_moving(cq);
	if (simhca_context_give_back(cq->context, &cq->rest) ||
	    !simhca_context_wipe(context, &cq->ring_ref, ring_bytes(cq->view.entries), &cq->wiped))
		return -ERESTART;
	simhca_object_remove(context, SIMHCA_OBJ_CQ, handle);
	simhca_number_release(&context->device->cqns, cq->number);
	simhca_context_drop_spare(context, &cq->shared.spare);
	pthread_mutex_destroy(&cq->lock);
	free_cq(cq);
	return 0;
}
