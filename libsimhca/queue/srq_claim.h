/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Claims on the WQEs of an SRQ (struct simhca_srq_mem): by the device's threads, under the SRQ's
 * lock, and by programs that run the steps of its QPs' peers. A WQE is read, judged and copied, and
 * then claimed; if another has it by then that was in vain.
 *
 * For one QP only who holds the responder's owner word claims, so one at a time does. What it
 * claims counts when the responder is committed, whose state has the same number. So if the two
 * numbers differ it has ended in between.
 */
#ifndef LIBSIMHCA_SRQ_CLAIM_H
#define LIBSIMHCA_SRQ_CLAIM_H

#include <stdbool.h>

#include "simhca-abi.h"
#include "store.h"
#include "wqe_gate.h"

/* Claims by others while the oldest WQE is looked for; more are a client that moves head. A proof has fewer. */
#ifndef SIMHCA_SRQ_LOOK_TRIES
#define SIMHCA_SRQ_LOOK_TRIES 64
#endif

/* An SRQ as who consumes from it sees it. */
struct simhca_srq_view {
	struct simhca_srq_mem *mem;
	char *ring;
	uint32_t entries, stride, max_sge;
};

static inline uint32_t simhca_srq_ci(uint64_t head)
{
	return head & UINT32_MAX;
}

static inline uint32_t simhca_srq_claimant(uint64_t head)
{
	return (uint32_t)(head >> 32);
}

static inline const char *simhca_srq_slot(const struct simhca_srq_view *srq, uint32_t index)
{
	return simhca_ring_wqe(srq->ring, index, srq->entries, srq->stride);
}

/* The oldest WQE is that of *head; 0 if there is one, else -1; 1: the indices make no sense. */
static inline int simhca_srq_look(const struct simhca_srq_view *srq, uint64_t *head)
{
	uint32_t posted;

	for (int i = 0; i < SIMHCA_SRQ_LOOK_TRIES; i++) {
		/* acquire: what the claim before noted, and a pi that is no older. */
		*head = atomic_load_explicit(&srq->mem->head, memory_order_acquire);
		/* acquire: pairs with the client's release after it wrote the WQE. */
		if (simhca_gate_ring(atomic_load_explicit(&srq->mem->pi, memory_order_acquire),
				     simhca_srq_ci(*head), 0, srq->entries, &posted))
			return posted ? 0 : -1;
		/*
		 * Between the two loads others may have claimed the whole ring, and the client, which has heard of
		 * that, have posted anew. Then head is not what it was.
		 */
		if (atomic_load_explicit(&srq->mem->head, memory_order_relaxed) == *head)
			break;
	}
	return 1;
}

/*
 * What head says of a claim is noted, as it is about to be written over. What is noted now is older
 * than that, if head is still what it was: newer ones are noted when it has changed. False: head
 * has changed, or what is noted, maybe to something older by who was held up.
 */
static inline bool simhca_srq_note(const struct simhca_srq_view *srq, uint64_t head)
{
	uint32_t number = simhca_srq_claimant(head), noted;
	_Atomic uint32_t *claimed = &srq->mem->claimed[simhca_claimant_slot(number)];

	if (!number || number > SIMHCA_SRQ_CLAIMANTS)
		return true;
	/* acquire: before head is looked at. */
	noted = atomic_load_explicit(claimed, memory_order_acquire);
	if (atomic_load_explicit(&srq->mem->head, memory_order_relaxed) != head)
		return false;
	simhca_store();
	return atomic_compare_exchange_strong_explicit(claimed, &noted, simhca_srq_ci(head),
						       memory_order_relaxed, memory_order_relaxed);
}

/* For the QP of that number, or 0: the WQE that was looked at. False: look again. */
static inline bool simhca_srq_claim(const struct simhca_srq_view *srq, uint64_t head,
				    uint32_t number)
{
	if (simhca_srq_claimant(head) != number && !simhca_srq_note(srq, head))
		return false;
	simhca_store();
	/*
	 * release: the WQE is read before its slot may be posted to again, and the note is there
	 * before what it is about is gone. seq_cst: and the limit is looked at afterwards.
	 */
	return atomic_compare_exchange_strong(&srq->mem->head, &head,
					      (uint64_t)number << 32 | (simhca_srq_ci(head) + 1));
}

/* The latest claim for the QP of that number, as its responder's state should have it. */
static inline uint32_t simhca_srq_claimed(const struct simhca_srq_view *srq, uint32_t number)
{
	/* acquire: if it is another's by now, ours is noted. */
	uint64_t head = atomic_load_explicit(&srq->mem->head, memory_order_acquire);

	if (simhca_srq_claimant(head) == number)
		return simhca_srq_ci(head);
	return atomic_load_explicit(&srq->mem->claimed[simhca_claimant_slot(number)],
				    memory_order_relaxed);
}

/* WQEs posted, by the client's count, as it is. */
static inline uint32_t simhca_srq_posted(const struct simhca_srq_view *srq)
{
	return atomic_load_explicit(&srq->mem->pi, memory_order_relaxed);
}

/* WQEs that wait, from *ci on. False: the indices make no sense. Nobody claims meanwhile. */
static inline bool simhca_srq_waiting(const struct simhca_srq_view *srq, uint32_t *ci,
				      uint32_t *waiting)
{
	*ci = simhca_srq_ci(atomic_load_explicit(&srq->mem->head, memory_order_relaxed));
	return simhca_gate_ring(atomic_load_explicit(&srq->mem->pi, memory_order_acquire), *ci, 0,
				srq->entries, waiting);
}

/*
 * Those that are to be moved to another ring now, up to *end; *all: where all of them end
 * (simhca_gate_move()). Under the SRQ's lock.
 */
static inline bool simhca_srq_moves(const struct simhca_srq_view *srq, uint32_t max_wr,
				    uint32_t most, uint32_t *next, uint32_t *end, uint32_t *all)
{
	uint32_t ci = simhca_srq_ci(atomic_load_explicit(&srq->mem->head, memory_order_relaxed));

	*all = atomic_load_explicit(&srq->mem->pi, memory_order_acquire);
	return simhca_gate_move(*all, ci, srq->entries, max_wr, most, next, end);
}

/*
 * Those that are to be copied to other memory now, up to *end, if pi is as the client says. False:
 * the indices make no sense, and none is. Under the SRQ's lock.
 */
static inline bool simhca_srq_renews(const struct simhca_srq_view *srq, uint32_t pi, uint32_t most,
				     uint32_t *next, uint32_t *end)
{
	uint32_t ci = simhca_srq_ci(atomic_load_explicit(&srq->mem->head, memory_order_relaxed));

	return simhca_gate_move(pi, ci, srq->entries, srq->entries, most, next, end);
}

/*
 * The SRQ goes on in other memory, in which pi is the client's already: what was claimed, and by
 * whom. Indices that make no sense become those of an empty queue. Under the SRQ's lock.
 */
static inline void simhca_srq_go_on(const struct simhca_srq_view *from,
				    const struct simhca_srq_view *to)
{
	uint64_t head = atomic_load_explicit(&from->mem->head, memory_order_relaxed);
	uint32_t pi = atomic_load_explicit(&to->mem->pi, memory_order_acquire), posted;

	if (!simhca_gate_ring(pi, simhca_srq_ci(head), 0, to->entries, &posted))
		head = (uint64_t)simhca_srq_claimant(head) << 32 | pi;
	atomic_store_explicit(&to->mem->head, head, memory_order_relaxed);
	for (uint32_t i = 0; i < SIMHCA_SRQ_CLAIMANTS; i++)
		atomic_store_explicit(&to->mem->claimed[i],
				      atomic_load_explicit(&from->mem->claimed[i],
							   memory_order_relaxed),
				      memory_order_relaxed);
}

/* `limit`, if fewer are left than it says; or 0. After a claim. */
static inline uint32_t simhca_srq_is_below(const struct simhca_srq_view *srq)
{
	/* seq_cst: who arms it either sees the claim, or is seen here. */
	uint32_t limit = atomic_load(&srq->mem->limit), least = limit & SIMHCA_SRQ_LIMIT_MASK;

	return least && atomic_load_explicit(&srq->mem->pi, memory_order_relaxed) -
					       simhca_srq_ci(atomic_load(&srq->mem->head)) <
				       least
		       ? limit
		       : 0;
}

#endif
