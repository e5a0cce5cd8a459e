/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Reservations of CQEs in a CQ of which programs wrote all: indices, claims, sequence numbers. Whoever reserves
 * one has a slot of the ring, and gives up after so many tries; what somebody left who has ended is looked
 * for in the slots of the ring alone, once round.
 *
 * of: libsimhca/queue/cqe_reservation.h
 * unwind: 10
 * mutant(slot_without_mask): s/\&cq->ring\[index \& (cq->entries - 1)\]/\&cq->ring[index]/
 * mutant(tries_without_end): s/i < SIMHCA_CQE_RESERVE_TRIES/true/
 * mutant(last_index): s/index != UINT32_MAX ||/true ||/
 * mutant(looks_for_ever): s/simhca_gate_waiting(last, simhca_cq_consumer(cq), cq->entries)/last - simhca_cq_consumer(cq)/
 */
#define SIMHCA_CQE_RESERVE_TRIES 4
#include "any_memory.h"
#include "proof.h"
#include "queue/cqe_reservation.h"

#define SLOTS 8u

struct ring {
	struct simhca_cqe cqe[SLOTS];
};

int main(void)
{
	ANY(struct simhca_cq_mem, mem);
	ANY(struct ring, ring);
	ANY(uint32_t, name);
	ANY(uint32_t, committed);
	ANY(bool, stamped);
	ANY(bool, overruns);
	ANY(uint32_t, entries);
	const struct simhca_cq_view cq = { .mem = &mem,
					   .ring = ring.cqe,
					   .entries = entries,
					   .cqe = entries - 1,
					   .stamped = stamped,
					   .overruns = overruns };
	uint32_t cqe_index;

	assume(is_cq(entries) && entries > 1 && entries <= SLOTS);
	if (simhca_cqe_reserve(&cq, name, &cqe_index)) {
		prove(simhca_cq_slot(&cq, cqe_index) - ring.cqe < entries, "a slot of the ring");
		prove(cqe_index + 1 || name == SIMHCA_OWNER_DEVICE, "one that a progress can name");
	}
	simhca_cqes_recover(&cq, name, committed);
	prove(simhca_gate_waiting(mem.pi, mem.ci, entries) <= entries, "once round");
	return 0;
}
