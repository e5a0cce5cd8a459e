/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The loop over the messages under way, with any count: it ends after SIMHCA_MAX_FLIGHTS rounds at
 * most. place.c shows that each of them looks at a place of flight[], so the ring index is fixed here.
 *
 * unwind: 65
 */
#include "proof.h"
#include "queue/gate.h"

int main(void)
{
	struct simhca_flight flight[SIMHCA_MAX_FLIGHTS];
	ANY(struct simhca_requester, req);
	ANY(uint32_t, sq_entries);

	assume(is_ring(sq_entries));
	req.oldest = SIMHCA_MAX_FLIGHTS - 1;
	if (!simhca_gate_requester(&req, flight, sq_entries))
		return 0;
	prove(req.count <= SIMHCA_MAX_FLIGHTS, "there is room for them");
	return 0;
}
