/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The loop over the messages under way, with any count that the gate has for it and any ring index:
 * it ends after SIMHCA_MAX_FLIGHTS rounds at most, and each place is one of flight[].
 *
 * unwind: 65
 * mutant(place_by_index): s/(oldest + younger) % SIMHCA_MAX_FLIGHTS/oldest + younger/
 */
#include "proof.h"
#include "transport/gate.h"

int main(void)
{
	struct simhca_flight flight[SIMHCA_MAX_FLIGHTS];
	ANY(struct simhca_requester, req);
	ANY(uint32_t, sq_entries);
	ANY(uint32_t, younger);
	uint32_t nth;

	assume(is_ring(sq_entries));
	/* Any place of those under way, by any ring index, is in flight[]. */
	nth = (uint32_t)(simhca_gate_nth(&req, flight, younger) - flight);
	prove(nth < SIMHCA_MAX_FLIGHTS, "in it");
	/* So it does not matter by which. */
	req.oldest = SIMHCA_MAX_FLIGHTS - 1;
	if (!simhca_gate_requester(&req, flight, sq_entries))
		return 0;
	prove(req.count <= SIMHCA_MAX_FLIGHTS, "there is room for them");
	return 0;
}
