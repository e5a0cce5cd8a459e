/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What is under way, by what flight.c shows of all messages: the sum of their PSNs, and how many an
 * ACK does not answer.
 *
 * mutant(send_before_una): s/una > send || send > sent/send > sent/
 * mutant(send_behind_sent): s/una > send || send > sent/una > send/
 * mutant(sent_behind_all): s/ || sent > flights->psns//
 * mutant(next_elsewhere): s/simhca_psn_add(first, flights->psns) != req->psn_next || //
 * mutant(wide_psn): s/req->psn_una > SIMHCA_PSN_MASK || //
 * mutant(reads): s/ || flights->reads != req->reads//
 * mutant(alone): s/req->alone != simhca_is_last_to_start(newest)/false/
 * mutant(answered): s/una == flights->psns \&\&/true \&\&/
 * mutant(answered_one_of_many): s/(req->count == 1 \&\& una/(una/
 */
#include "proof.h"
#include "queue/gate.h"

int main(void)
{
	ANY(struct simhca_requester, req);
	ANY(struct simhca_gate_flights, flights);
	ANY(uint32_t, first);
	ANY(uint32_t, newest);
	uint32_t una, send, sent;

	assume(first <= SIMHCA_PSN_MASK && flights.psns <= SIMHCA_PSN_MASK);
	assume(flights.reads <= req.count && req.count <= SIMHCA_MAX_FLIGHTS);
	if (!simhca_gate_under_way(&req, first, newest, &flights))
		return 0;
	una = simhca_psn_distance(first, req.psn_una);
	send = simhca_psn_distance(first, req.psn_send);
	sent = simhca_psn_distance(first, req.psn_sent);
	prove(req.psn_una <= SIMHCA_PSN_MASK && req.psn_send <= SIMHCA_PSN_MASK &&
		      req.psn_sent <= SIMHCA_PSN_MASK && req.psn_next <= SIMHCA_PSN_MASK,
	      "24 bits");
	prove(simhca_psn_distance(first, req.psn_next) == flights.psns, "all of them end there");
	prove(una <= send && send <= sent && sent <= flights.psns, "in order, from the first on");
	prove(req.reads <= req.count, "reads are messages");
	prove(req.alone == simhca_is_last_to_start(newest), "alone if it has to be");
	prove(!req.answered || (req.alone && req.count == 1 && una == flights.psns),
	      "only a read with invalidation is answered, and all of it");
	return 0;
}
