/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What is done to queues in more than one place: their locks, what waits in them, and what has completed. */
#ifndef SHCA_QUEUES_H
#define SHCA_QUEUES_H

#include "objects.h"

/*
 * True once nothing will ever complete: the daemon is gone, or the device says that it failed.
 * Acquire: whatever the device completed before is then visible in the rings.
 */
static inline bool shca_is_fatal(const struct shca_context *ctx)
{
	return atomic_load_explicit(&ctx->fatal, memory_order_acquire) ||
	       atomic_load_explicit(&ctx->dev->fatal, memory_order_acquire);
}

static inline uint32_t shca_qp_state(const struct shca_qp *qp)
{
	return atomic_load_explicit(&qp->qpc->state, memory_order_acquire);
}

static inline struct simhca_send_wqe *shca_sq_wqe(const struct shca_sq *sq, uint32_t index)
{
	return (struct simhca_send_wqe *)(sq->ring + (size_t)(index & sq->mask) * sq->stride);
}

static inline struct simhca_recv_wqe *shca_rq_wqe(const struct shca_rq *rq, uint32_t index)
{
	return (struct simhca_recv_wqe *)(rq->ring + (size_t)(index & rq->mask) * rq->stride);
}

/*
 * Posted and not yet polled. Another thread may be destroying the QP, its indices mean nothing
 * then; so more than there can be counts as none. Acquire: pairs with the release in posting.
 */
static inline uint32_t shca_sq_pending(const struct shca_qp *qp)
{
	uint32_t pending = atomic_load_explicit(&qp->sq.posted, memory_order_acquire) -
			   atomic_load_explicit(&qp->sq.tail, memory_order_relaxed);

	return pending <= qp->sq.max_wr ? pending : 0;
}

static inline uint32_t shca_rq_pending(const struct shca_qp *qp)
{
	uint32_t pending = atomic_load_explicit(&qp->rq.posted, memory_order_acquire) -
			   atomic_load_explicit(&qp->rq.tail, memory_order_relaxed);

	return pending <= qp->rq.max_wr ? pending : 0;
}

/* Of an SRQ its QPs' CQs may be polled at the same time. */
static inline uint32_t shca_srq_pending(const struct shca_srq *srq)
{
	return atomic_load_explicit(&srq->rq.posted, memory_order_acquire) -
	       atomic_load_explicit(&srq->rq.tail, memory_order_relaxed);
}

/* NULL: no QP had a number near this one. */
static inline struct shca_qp_entry *shca_qp_entry(struct shca_context *ctx, uint32_t qpn)
{
	uint32_t slot = SIMHCA_QPN_SLOT(qpn);
	struct shca_qp_entry *leaf =
		atomic_load_explicit(&ctx->qps[slot / SHCA_QPS_PER_LEAF], memory_order_acquire);

	return leaf ? &leaf[slot % SHCA_QPS_PER_LEAF] : NULL;
}

/* Whether one thread at a time uses the object. */
static inline bool shca_home_is_single_threaded(const struct shca_home *home)
{
	return home->domain && home->domain->td;
}

/* ------------------------------------------------------------------------------------- locks */

static inline void shca_cq_lock(struct shca_cq *cq)
{
	if (!cq->single_threaded)
		shca_lock(&cq->lock);
}

/* With the lock, before each change of the lists: a child may have inherited one that was under way. */
static inline void shca_chains_inherit(uint32_t *changed_by, struct shca_chain *const lists[],
				       unsigned int count)
{
	if (*changed_by == shca_process())
		return;
	for (unsigned int i = 0; i < count; i++)
		shca_chain_inherit(lists[i]);
	*changed_by = shca_process();
}

/* say.c: for verb, which may be told to wait for what another thread, or this one, has begun. */
void shca_sq_lock_wait(struct shca_qp *qp, const char *verb);
void shca_cq_lock_wait(struct shca_cq *cq, const char *verb);

static inline void shca_sq_lock(struct shca_qp *qp, const char *verb)
{
	if (__builtin_expect(!shca_trylock(&qp->sq.lock), 0))
		shca_sq_lock_wait(qp, verb);
}

static inline void shca_cq_lock_for(struct shca_cq *cq, const char *verb)
{
	if (__builtin_expect(!cq->single_threaded && !shca_trylock(&cq->lock), 0))
		shca_cq_lock_wait(cq, verb);
}

static inline bool shca_cq_trylock(struct shca_cq *cq)
{
	return cq->single_threaded || shca_trylock(&cq->lock);
}

static inline void shca_cq_unlock(struct shca_cq *cq)
{
	if (!cq->single_threaded)
		shca_unlock(&cq->lock);
}

/* --------------------------------------------------------------------------------------- CQEs */

/* The CQE with this index, or NULL when the device has not written it yet. */
static inline struct simhca_cqe *shca_cq_peek(const struct shca_cq *cq, uint32_t index)
{
	struct simhca_cqe *cqe = &cq->ring[index & cq->mask];

	/* Acquire: the rest of the CQE is read after the seq that publishes it. */
	return atomic_load_explicit(&cqe->seq, memory_order_acquire) == index + 1 ? cqe : NULL;
}

/* The CQEs that wait, oldest first; no more than the ring has, whatever a peer writes there. */
#define SHCA_CQ_FOREACH(cq, cqe, n)                                                                \
	for ((n) = 0; (n) <= (cq)->mask && ((cqe) = shca_cq_peek(cq, (cq)->ci + (n))); (n)++)

/* Release: the device may overwrite a CQE only after it was read. */
static inline void shca_cq_publish_ci(struct shca_cq *cq)
{
	atomic_store_explicit(&cq->mem->ci, cq->ci, memory_order_release);
}

/*
 * What the poster has noted of a receive that has completed, by the number that its CQE has. It is the
 * caller's until shca_rq_drop_record(). NULL: there is no such record, or nobody uses it.
 */
static inline struct shca_first_buffer *shca_rq_take_record(const struct shca_rq *rq,
							    uint32_t record)
{
	uint32_t used = 1;

	if (!rq->several || !rq->first || record - 1 > rq->first_mask)
		return NULL;
	/* acquire: the record was written before. Two pollers may be told of the same one. */
	if (!atomic_compare_exchange_strong_explicit(&rq->first[record - 1].used, &used, 2,
						     memory_order_acquire, memory_order_relaxed))
		return NULL;
	return &rq->first[record - 1];
}

/* release: the poller is done with it. */
static inline void shca_rq_drop_record(struct shca_first_buffer *record)
{
	atomic_store_explicit(&record->used, 0, memory_order_release);
}

/* A receive has completed, and what came for it is of no use. */
static inline void shca_rq_forget_record(const struct shca_rq *rq, uint32_t number)
{
	struct shca_first_buffer *record = shca_rq_take_record(rq, number);

	if (record)
		shca_rq_drop_record(record);
}

/* The receives that have records are gone. */
static inline void shca_rq_drop_records(const struct shca_rq *rq)
{
	for (uint32_t i = 0; rq->several && rq->first && i <= rq->first_mask; i++)
		shca_rq_drop_record(&rq->first[i]);
}

/*
 * A receive WQE has completed. Of an SRQ they complete on any number of CQs at once. False: none was
 * posted that has not completed.
 */
static inline bool shca_srq_release(struct shca_srq *srq)
{
	uint32_t tail = atomic_load_explicit(&srq->rq.tail, memory_order_relaxed), next;

	do
		if (!shca_gate_completed(
			    tail, tail, atomic_load_explicit(&srq->rq.posted, memory_order_relaxed),
			    UINT32_MAX / 2, &next))
			return false;
	while (!atomic_compare_exchange_weak_explicit(&srq->rq.tail, &tail, next,
						      memory_order_release, memory_order_relaxed));
	return true;
}

/* What uses a CQ, each by its link there. */
static inline struct shca_qp *shca_sender(struct shca_chain *link)
{
	return SHCA_CONTAINER(struct shca_qp, send_link, link);
}

static inline struct shca_qp *shca_receiver(struct shca_chain *link)
{
	return SHCA_CONTAINER(struct shca_qp, recv_link, link);
}

static inline struct shca_srq *shca_completing_srq(struct shca_chain *link)
{
	return SHCA_CONTAINER(struct shca_srq, cq_link, link);
}

#define SHCA_CHAIN_FOREACH(link, list)                                                             \
	for ((link) = shca_chain_next(list); (link); (link) = shca_chain_next(link))

/* The SRQ that a CQE with SRQ_CQ is of, or NULL. The caller holds the CQ's lock. */
static inline struct shca_srq *shca_cq_srq(const struct shca_cq *cq, const struct simhca_cqe *cqe)
{
	struct shca_chain *link;

	SHCA_CHAIN_FOREACH(link, &cq->srqs)
	if (shca_completing_srq(link)->vsrq.srq_num == cqe->wqe_index)
		return shca_completing_srq(link);
	return NULL;
}

#endif
