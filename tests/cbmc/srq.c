/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * An SRQ's word of claims, and where they are noted, as programs write them meanwhile: the WQE that
 * is looked at lies in the ring, and what a claim is noted in is one of the SRQ's places, whatever
 * number it has. Whoever looks gives up after so many tries.
 *
 * of: libsimhca/queue/srq_claim.h
 * unwind: 6
 * mutant(any_number): s/simhca_claimant_slot(number)\]/number]/g
 * mutant(slot_without_mask): s/simhca_ring_wqe(srq->ring, index, srq->entries, srq->stride)/srq->ring + (size_t)index * srq->stride/
 * mutant(more_than_the_ring): s/srq->entries, waiting)/UINT32_MAX, waiting)/
 * mutant(looks_without_end): s/i < SIMHCA_SRQ_LOOK_TRIES/true/
 */
#define SIMHCA_SRQ_LOOK_TRIES 4
#include "any_memory.h"
#include "proof.h"
#include "queue/srq_claim.h"

#define SLOTS 16u

struct ring {
	char slot[SLOTS][16];
};

int main(void)
{
	struct simhca_srq_mem mem; /* any */
	ANY(uint32_t, number);
	ANY(uint32_t, entries);
	struct ring ring;
	const struct simhca_srq_view srq = {
		.mem = &mem, .ring = ring.slot[0], .entries = entries, .stride = 16
	};
	uint64_t head;
	uint32_t ci, waiting;

	assume(is_ring(entries) && entries && entries <= SLOTS);
	if (!simhca_srq_look(&srq, &head)) {
		prove((uint64_t)(simhca_srq_slot(&srq, simhca_srq_ci(head)) - ring.slot[0]) + 16 <=
			      sizeof(ring),
		      "a slot of the ring");
	}
	if (simhca_srq_waiting(&srq, &ci, &waiting))
		prove(waiting <= srq.entries, "no more than the ring holds");
	simhca_srq_claim(&srq, head, number);
	simhca_srq_claimed(&srq, number);
	prove(simhca_claimant_slot(number) < SIMHCA_SRQ_CLAIMANTS, "a place of the SRQ");
	return 0;
}
