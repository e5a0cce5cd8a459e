/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* CQs: how they are made and destroyed, and what is written there. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/lock.h"
#include "objects.h"

/* What is asked for is a power of 2, and may be the next one after the limit. */
static int check_cq(const struct simhca_context *context, const struct simhca_efa_cq_request *req,
		    struct simhca_why *why)
{
	const uint32_t most = context->device->config.max_cqe;

	if (!efa_is_power_of_2(req->entries) || req->entries / 2 >= most)
		return simhca_why(why, EINVAL, "a CQ of %u entries: a power of 2 for at most %u",
				  req->entries, most);
	if (req->entry_size != EFA_CQE_SHORT && req->entry_size != EFA_CQE_LONG)
		return simhca_why(why, EINVAL, "a CQ with entries of %u bytes: %u or %u",
				  req->entry_size, EFA_CQE_SHORT, EFA_CQE_LONG);
	if (req->sub_cqs > (efa_generation(context) == 1 ? SIMHCA_EFA_SUB_CQS : 1u))
		return simhca_why(why, EINVAL, "a CQ of %u sub CQs: generation 1 has %u, others 1",
				  req->sub_cqs, SIMHCA_EFA_SUB_CQS);
	if (req->with_gid && req->entry_size != EFA_CQE_LONG)
		return simhca_why(why, EINVAL, "a CQ with GIDs has entries of %u bytes",
				  EFA_CQE_LONG);
	return 0;
}

int simhca_efa_create_cq(struct simhca_context *context, const struct simhca_efa_cq_request *req,
			 struct simhca_efa_cq_reply *reply, struct simhca_why *why)
{
	struct efa_cq *cq;
	uint64_t size;
	int ret;

	if (!efa_of(context, why))
		return -EINVAL;
	ret = check_cq(context, req, why);
	if (ret)
		return ret;
	cq = calloc(1, sizeof(*cq));
	if (!cq)
		return efa_out_of_memory(why);
	cq->context = context;
	cq->entries = req->entries;
	cq->entry_size = req->entry_size;
	cq->sub_cqs = req->sub_cqs ? req->sub_cqs : 1;
	size = efa_whole_pages(efa_cq_bytes(cq));
	cq->with_gid = req->with_gid;
	cq->channel = req->channel;
	cq->user_handle = req->user_handle;
	cq->doorbell_offset = size;
	ret = efa_make_memory(context, size + (cq->channel ? EFA_PAGE : 0), &cq->memory, why);
	if (!ret) {
		ret = simhca_object_add(context, SIMHCA_OBJ_EFA_CQ, cq, &reply->handle, why);
		if (ret)
			simhca_context_free(context, &cq->memory.ref, cq->memory.bytes);
	}
	if (ret) {
		free(cq);
		return ret;
	}
	simhca_mutex_init(&cq->lock, SIMHCA_LOCK_EFA_QUEUE);
	cq->number = simhca_number_alloc(&context->device->cqns);
	reply->number = (uint16_t)cq->number;
	reply->key = EFA_KEY(reply->handle, EFA_KEY_CQ);
	reply->size = size;
	if (cq->channel) {
		cq->doorbell = (void *)(cq->memory.base + cq->doorbell_offset);
		reply->doorbell_key = EFA_KEY(reply->handle, EFA_KEY_CQ_DOORBELL);
		efa_list_add(&context->efa->notified_cqs, cq);
	}
	return 0;
}

int simhca_efa_cq_identity(struct simhca_context *context, uint32_t handle,
			   struct simhca_identity *identity, struct simhca_why *why)
{
	const struct efa_cq *cq = simhca_object(context, SIMHCA_OBJ_EFA_CQ, handle, why);

	if (!cq)
		return -ENOENT;
	*identity = (struct simhca_identity){ .user_handle.element = cq->user_handle,
					      .channel = cq->channel };
	return 0;
}

int simhca_efa_destroy_cq(struct simhca_context *context, uint32_t handle, struct simhca_why *why)
{
	struct efa_cq *cq = simhca_object(context, SIMHCA_OBJ_EFA_CQ, handle, why);

	if (!cq)
		return -ENOENT;
	if (cq->users)
		return simhca_why(why, EBUSY, "%u queues of QPs still complete to this CQ",
				  cq->users);
	if (cq->channel && !atomic_exchange(&cq->dead, true))
		efa_list_remove(&context->efa->notified_cqs, cq);
	if (cq->channel) {
		/* The doorbell of one that has changed its place may have been missed. */
		simhca_engine_schedule(context->engine, &context->efa->task);
		if (!simhca_fabric_synchronize(context->device->fabric, context->id))
			return -EAGAIN;
	}
	simhca_context_free(context, &cq->memory.ref, cq->memory.bytes);
	simhca_object_remove(context, SIMHCA_OBJ_EFA_CQ, handle);
	simhca_number_release(&context->device->cqns, cq->number);
	pthread_mutex_destroy(&cq->lock);
	free(cq);
	return 0;
}

/* ------------------------------------------------------------------------------ completions */

/*
 * Whether an event is due: the CQ is armed, and has completions that the program has not seen. Under
 * the lock.
 *
 * A program arms by a store, and polls by another one to the same word, so the first of two may never
 * be seen. What tells of it is that the program counts an event when it takes it: if it has taken
 * the last one, each store counts as arming. So none is lost, and one may come that was not asked for.
 */
static bool is_event_due(struct efa_cq *cq)
{
	/* acquire: what was polled by then has been read. */
	uint32_t word = atomic_load_explicit(cq->doorbell, memory_order_acquire);
	uint32_t taken = word & EFA_CQ_DOORBELL_EVENTS;

	if (word != cq->seen && (!cq->raised || taken != cq->raised_after))
		cq->armed = true;
	cq->seen = word;
	if (!cq->armed || (cq->pi & EFA_CQ_DOORBELL_CI) == (word & EFA_CQ_DOORBELL_CI))
		return false;
	cq->armed = false;
	cq->raised = true;
	cq->raised_after = taken;
	return true;
}

/* Without the lock, as it is a system call. */
static void raise_event(const struct efa_cq *cq)
{
	const struct simhca_ops *ops = &cq->context->device->fabric->ops;

	if (efa_injected_event(cq))
		return;
	if (ops->comp_event && !atomic_load(&cq->context->dead))
		ops->comp_event(cq->context->arg, cq->channel, cq->user_handle);
}

/* It becomes visible by its first word, which has the phase. */
static void write_cqe(struct efa_cq *cq, uint32_t sub, struct efa_cqe *cqe)
{
	const uint32_t words = cq->entry_size / (uint32_t)sizeof(efa_word);
	efa_word word, *slot;

	slot = (efa_word *)(cq->memory.base +
			    ((size_t)sub * cq->entries + (cq->sub_pi[sub] & (cq->entries - 1))) *
				    cq->entry_size);
	if (!(cq->sub_pi[sub] & cq->entries))
		cqe->flags |= EFA_CQE_PHASE;
	cq->pi++;
	cq->sub_pi[sub]++;
	for (uint32_t i = 1; i < words; i++) {
		memcpy(&word, (const char *)cqe + i * sizeof(word), sizeof(word));
		__atomic_store_n(&slot[i], word, __ATOMIC_RELAXED);
	}
	memcpy(&word, cqe, sizeof(word));
	/* release: who sees the phase sees the rest, and the data that were placed. */
	__atomic_store_n(&slot[0], word, __ATOMIC_RELEASE);
}

void efa_complete(struct efa_cq *cq, uint32_t sub, struct efa_cqe *cqe)
{
	bool due;

	pthread_mutex_lock(&cq->lock);
	write_cqe(cq, sub, cqe);
	/* The program may arm the CQ after this: its store to the doorbell leads to efa_cq_look(). */
	due = cq->channel && is_event_due(cq);
	pthread_mutex_unlock(&cq->lock);
	if (due)
		raise_event(cq);
}

void efa_put_cqe(struct efa_cq *cq, uint32_t sub, struct efa_cqe *cqe)
{
	pthread_mutex_lock(&cq->lock);
	write_cqe(cq, sub, cqe);
	pthread_mutex_unlock(&cq->lock);
}

bool efa_cq_look(struct efa_cq *cq)
{
	bool due;

	if (!cq->channel)
		return false;
	pthread_mutex_lock(&cq->lock);
	due = is_event_due(cq);
	pthread_mutex_unlock(&cq->lock);
	if (due)
		raise_event(cq);
	return due;
}
