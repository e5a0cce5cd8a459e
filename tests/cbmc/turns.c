/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What turns do to the PSNs: the order that the gate found is there after a packet was sent, and
 * after an answer came, whatever comes first and however often.
 *
 * All that is said of PSNs is of how far they are from another, so it does not matter that the first
 * one is 0 here.
 *
 * mutant(sent_stays): s/if (simhca_psn_distance(req->psn_una, req->psn_send) > sent)/if (false)/
 * mutant(send_stays): s/if (simhca_psn_distance(req->psn_una, req->psn_send) < psns)/if (false)/
 * mutant(more_than_was_asked): s/if (simhca_psn_distance(req->psn_una, req->psn_sent) < psns)/if (false)/
 */
#include "proof.h"
#include "queue/gate.h"

/* Counted from a PSN that is no later than any of them. */
static bool in_order(const struct simhca_requester *req, uint32_t first)
{
	uint32_t una = simhca_psn_distance(first, req->psn_una);
	uint32_t send = simhca_psn_distance(first, req->psn_send);
	uint32_t sent = simhca_psn_distance(first, req->psn_sent);
	uint32_t next = simhca_psn_distance(first, req->psn_next);

	return req->psn_una <= SIMHCA_PSN_MASK && req->psn_send <= SIMHCA_PSN_MASK &&
	       req->psn_sent <= SIMHCA_PSN_MASK && req->psn_next <= SIMHCA_PSN_MASK &&
	       una <= send && send <= sent && sent <= next;
}

int main(void)
{
	ANY(struct simhca_requester, req);
	const uint32_t first = 0;
	ANY(uint32_t, psn);
	ANY(uint32_t, psns);
	ANY(bool, sends);

	assume(psn <= SIMHCA_PSN_MASK && in_order(&req, first));
	if (sends) {
		assume(psns && psns <= simhca_psn_distance(req.psn_send, req.psn_next));
		simhca_requester_sent(&req, psns);
	} else {
		assume(simhca_psn_distance(req.psn_una, psn) <=
		       simhca_psn_distance(req.psn_una, req.psn_next));
		simhca_requester_answered(&req, psn);
		prove(req.psn_una == psn, "it is answered so far");
	}
	prove(in_order(&req, first), "still in order");
	return 0;
}
