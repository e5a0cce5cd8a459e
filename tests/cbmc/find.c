/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The PSN to be sent, or any that is under way, is of the message that is found for it.
 *
 * With three messages: the oldest, the newest, and one between them. flight.c shows of each message
 * that its PSNs are those at the next distances from the first PSN, whatever lies before it.
 *
 * All that is said of PSNs is of how far they are from another, so it does not matter that the first
 * one is 0 here.
 *
 * unwind: 4
 * mutant(neighbours): s/una > send || send > sent || sent > flights->psns/simhca_psn_cmp(req->psn_una, req->psn_send) > 0 || simhca_psn_cmp(req->psn_send, req->psn_sent) > 0 || simhca_psn_cmp(req->psn_sent, req->psn_next) > 0/
 * mutant(found_elsewhere): s/return younger;/return 0;/
 * mutant(gap): s/if (flight->first != simhca_psn_add(first, flights->psns))/if (false)/
 */
#include "proof.h"
#include "queue/gate.h"

#define MOST 3

int main(void)
{
	struct simhca_flight flight[SIMHCA_MAX_FLIGHTS];
	ANY(struct simhca_requester, req);
	ANY(uint32_t, psn);
	const struct simhca_flight *one;
	uint32_t younger, first;

	assume(req.count && req.count <= MOST);
	req.oldest = SIMHCA_MAX_FLIGHTS - 1; /* it only says where in flight[] they are */
	for (uint32_t i = 0; i < MOST; i++) {
		ANY(uint64_t, word);

		flight[(req.oldest + i) % SIMHCA_MAX_FLIGHTS] = simhca_flight_of_word(word);
	}
	if (!simhca_gate_requester(&req, flight, 16))
		return 0;
	first = simhca_gate_nth(&req, flight, 0)->first;
	assume(first == 0 && psn <= SIMHCA_PSN_MASK);
	/* One of those under way. */
	assume(simhca_psn_distance(first, psn) < simhca_psn_distance(first, req.psn_next) ||
	       (psn == req.psn_send && psn != req.psn_next));
	younger = simhca_gate_find(&req, flight, psn);
	prove(younger < req.count, "a message under way");
	one = simhca_gate_nth(&req, flight, younger);
	prove(simhca_psn_distance(one->first, psn) < simhca_flight_psns(one), "the PSN is its own");
	prove(!simhca_flight_ends_before(one, psn), "it has not ended");
	return 0;
}
