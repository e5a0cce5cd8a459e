/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Other memory for a completion queue (renew.h). */
#include <errno.h>
#include <string.h>

#include "cq_impl.h"

/*
 * The client maps the new memory before the device works there. Arms come without the client's lock,
 * so some are in the one and some in the other (cq.c has the letters that are not explained here):
 *
 *	the client				the device
 *	R1 maps the new memory			D3 looks at the old one meanwhile
 *	A1 arms in whatever is mapped		R2 pi is in the new memory, with the CQEs
 *						R3 full barrier
 *						R4 an arm that is left in the old one is taken over
 *						R5 if it is armed and CQEs wait: an event, as by D4
 *
 * After R1 nobody arms in the old memory, and R2 to R5 come after R1. So each arm is either seen by D3
 * there, or by R5; and who arms after R5 finds pi, by A3. An event may be one for CQEs that were there
 * before the CQ was armed, which does no harm. An arm that is 0 is none that the client has made there.
 */

/* As it will be. A ring that it was resized to is another's memory, and stays. */
static struct simhca_cq_view renewed(const struct simhca_cq *cq)
{
	struct simhca_cq_view view = cq->view;

	view.mem = (struct simhca_cq_mem *)(cq->shared.spare.base + cq->mem_ref.offset);
	if (cq->shared.segment)
		view.ring = (struct simhca_cqe *)(cq->shared.spare.base + cq->ring_ref.offset);
	if (view.data)
		view.data = (char *)(cq->shared.spare.base + cq->data_ref.offset);
	return view;
}

void simhca_cq_renew(struct simhca_cq *cq)
{
	const struct simhca_cq_view to = renewed(cq);
	const struct simhca_cq_mem *from = cq->view.mem;

	pthread_mutex_lock(&cq->lock);
	cq->renewal.begun = false;
	simhca_cq_go_on(&to, simhca_cq_producer(&cq->view));
	atomic_store(&to.mem->overrun, cq->overrun);
	atomic_store(&to.mem->events_raised, atomic_load(&from->events_raised));
	pthread_mutex_unlock(&cq->lock);
}

/* Who would publish a CQE has published it: any other is void. */
static void renew_cqe(const struct simhca_cqe *from, struct simhca_cqe *to, uint32_t index)
{
	simhca_cqe_copy(from, to);
	if (atomic_load_explicit(&to->seq, memory_order_relaxed) == index + 1)
		return;
	to->qpn = SIMHCA_VOID_QPN;
	atomic_store_explicit(&to->seq, index + 1, memory_order_release);
}

/* Copies the data of messages that wait in the CQ for who polls; CQEs up to `end` have been copied. */
static void copy_data(const struct simhca_cq *cq, const struct simhca_cq_view *to, uint32_t end)
{
	uint64_t data[SIMHCA_CQ_DATA / sizeof(uint64_t)];

	for (uint32_t i = cq->renewal.ci; i != end && i - cq->renewal.ci < cq->view.data_slots;
	     i++) {
		if (simhca_cq_slot(to, i)->in_slot != SIMHCA_CQE_IN_CQ)
			continue;
		simhca_words_get(data, simhca_cq_data(&cq->view, i), sizeof(data));
		simhca_words_put(simhca_cq_data(to, i), data, sizeof(data));
	}
}

/* A part of what waits; true: that was all. */
static bool copy_waiting(struct simhca_cq *cq, const struct simhca_cq_view *to)
{
	const bool has_ring = cq->shared.segment;
	uint32_t pi = simhca_cq_producer(&cq->view), end;
	bool all;

	if (!cq->renewal.begun) {
		cq->renewal.begun = true;
		cq->renewal.ci = cq->renewal.next = simhca_cq_consumer(to);
		if (has_ring)
			simhca_cq_fresh_ring(to->ring, to->entries, cq->renewal.ci);
	}
	all = simhca_gate_renew(pi, cq->renewal.ci, cq->view.cqe,
				has_ring ? MOVED_AT_A_TIME : UINT32_MAX, cq->renewal.next, &end);
	for (; has_ring && cq->renewal.next != end; cq->renewal.next++)
		renew_cqe(simhca_cq_slot(&cq->view, cq->renewal.next),
			  simhca_cq_slot(to, cq->renewal.next), cq->renewal.next);
	cq->renewal.next = end;
	return all;
}

/* R4. */
static void take_over_arm(struct simhca_cq *cq, uint32_t old)
{
	_Atomic uint32_t *arm = &cq->view.mem->arm;
	uint32_t now = atomic_load(arm), bits, both;

	do {
		bits = now & SIMHCA_ARM_BITS;
		if ((old & SIMHCA_ARM_BITS) > bits)
			bits = old & SIMHCA_ARM_BITS;
		both = !now ? old : (now & ~(uint32_t)SIMHCA_ARM_BITS) | bits;
	} while (!atomic_compare_exchange_weak(arm, &now, both));
}

int simhca_cq_move(struct simhca_cq *cq, struct simhca_why *why)
{
	const struct simhca_cq_view to = renewed(cq);
	bool due = false;
	uint32_t arm;
	int ret = 0;

	pthread_mutex_lock(&cq->lock);
	if (!copy_waiting(cq, &to)) {
		pthread_mutex_unlock(&cq->lock);
		return -ERESTART;
	}
	copy_data(cq, &to, cq->renewal.next);
	simhca_cq_go_on(&to, cq->renewal.next); /* R2 */
	atomic_store(&to.mem->overrun, cq->overrun);
	arm = atomic_load(&cq->view.mem->arm);
	ret = simhca_context_use_spare(cq->context, cq->mem_ref.segment, &cq->shared.spare);
	if (ret) {
		cq->overrun = true;
		atomic_store(&to.mem->overrun, 1);
	} else {
		atomic_thread_fence(memory_order_seq_cst); /* R3 */
		take_over_arm(cq, arm);
		due = simhca_cq_disarm_for_waiting(cq);
	}
	simhca_cq_unlock(cq, due);
	if (ret) {
		simhca_cq_tell_of_error(cq, "has no memory any more");
		return simhca_why(why, -ret, "memory for a CQ: %s", strerror(-ret));
	}
	return 0;
}
