/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The requester's progress with every value of every field, and any size of queue: what the gate says
 * of what it lets through is true. Here with two messages; flight.c shows that of one more is true
 * what is true of those before it, under_way.c what follows from what they all take, and flights.c
 * that there are no more than there is room for.
 *
 * unwind: 3
 * mutant(more_than_the_queue): s/ \&\& req->count <= sq_entries//
 * mutant(wide_next): s/req->psn_next > SIMHCA_PSN_MASK || //
 * mutant(unknown_wait): s/ || req->wait > SIMHCA_WAIT_PEER//
 * mutant(truth): s/req->fault | req->alone/req->alone/
 * mutant(neighbours): s/una > send || send > sent || sent > flights->psns/simhca_psn_cmp(req->psn_una, req->psn_send) > 0 || simhca_psn_cmp(req->psn_send, req->psn_sent) > 0 || simhca_psn_cmp(req->psn_sent, req->psn_next) > 0/
 * mutant(answer_to_nothing): s/if (req->wait == SIMHCA_WAIT_ANSWER)/if (false)/
 * mutant(nothing_under_way): s/req->psn_una = req->psn_send = req->psn_sent = req->psn_next;/;/
 */
#include "proof.h"
#include "queue/gate.h"

int main(void)
{
	struct simhca_flight flight[SIMHCA_MAX_FLIGHTS];
	ANY(struct simhca_requester, req);
	ANY(uint32_t, sq_entries);
	uint32_t first, una, send, sent, next;

	assume(is_ring(sq_entries) && req.count <= 2);
	req.oldest = SIMHCA_MAX_FLIGHTS - 1; /* it only says where in flight[] they are */
	for (uint32_t i = 0; i < 2; i++) {
		ANY(uint64_t, word);

		flight[(req.oldest + i) % SIMHCA_MAX_FLIGHTS] = simhca_flight_of_word(word);
	}
	if (!simhca_gate_requester(&req, flight, sq_entries))
		return 0;
	prove(req.count <= sq_entries, "the queue has them");
	prove(req.psn_una <= SIMHCA_PSN_MASK && req.psn_send <= SIMHCA_PSN_MASK &&
		      req.psn_sent <= SIMHCA_PSN_MASK && req.psn_next <= SIMHCA_PSN_MASK,
	      "24 bits");
	prove(req.wait <= SIMHCA_WAIT_PEER, "a wait that there is");
	prove(req.fault <= 1 && req.alone <= 1 && req.answered <= 1 && req.revoked <= 1 &&
		      req.went_back <= 1 && req.silence_logged <= 1,
	      "truth values");
	prove(req.reads <= req.count, "reads are messages");
	if (!req.count) {
		prove(req.psn_una == req.psn_next && req.psn_send == req.psn_next &&
			      req.psn_sent == req.psn_next,
		      "nothing to be sent");
		prove(req.wait != SIMHCA_WAIT_ANSWER && !req.answered && !req.alone && !req.reads,
		      "nothing to be answered");
		return 0;
	}
	first = simhca_gate_nth(&req, flight, 0)->first;
	una = simhca_psn_distance(first, req.psn_una);
	send = simhca_psn_distance(first, req.psn_send);
	sent = simhca_psn_distance(first, req.psn_sent);
	next = simhca_psn_distance(first, req.psn_next);
	prove(una <= send && send <= sent && sent <= next, "in order, from the first on");
	return 0;
}
