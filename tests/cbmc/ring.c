/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A ring's producer index, as a program wrote it: what is taken for posted is no more than the ring
 * holds, and no less than is in use; who goes through it comes to an end, and each slot is the
 * ring's.
 *
 * mutant(no_upper_bound): s/ \&\& \*posted <= entries//
 * mutant(no_lower_bound): s/\*posted >= least \&\& //
 * mutant(slot_by_size): s/index \& (entries - 1)/index % (entries + 1)/
 */
#include "proof.h"
#include "queue/gate.h"

int main(void)
{
	ANY(uint32_t, pi);
	ANY(uint32_t, ci);
	ANY(uint32_t, least);
	ANY(uint32_t, entries);
	ANY(uint32_t, index);
	uint32_t posted;

	assume(is_ring(entries));
	if (simhca_gate_ring(pi, ci, least, entries, &posted)) {
		prove(posted <= entries, "no more than the ring holds");
		prove(posted >= least, "no less than is in use");
		prove(ci + posted == pi, "from ci on, the loop ends at pi");
		/* One of those that are posted. */
		if (index - ci < posted)
			prove(simhca_ring_slot(index, entries) < entries, "a slot of the ring");
	}
	return 0;
}
