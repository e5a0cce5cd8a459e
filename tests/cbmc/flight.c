/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * One step of the loop over the messages under way, from any state that the steps before can have
 * left: so what is shown here holds for any number of messages.
 *
 * All that is said of PSNs is of how far they are from another, so it does not matter that the first
 * one is 0 here.
 *
 * mutant(gap): s/if (flight->first != simhca_psn_add(first, flights->psns))/if (false)/
 * mutant(no_psns): s/} else if (!psns || psns > SIMHCA_MESSAGE_PSNS/} else if (psns > SIMHCA_MESSAGE_PSNS/
 * mutant(too_long): s/!psns || psns > SIMHCA_MESSAGE_PSNS ||/!psns ||/
 * mutant(round_once): s/ || psns > SIMHCA_PSN_MASK - flights->psns//
 * mutant(local_op_with_psns): s/!is_oldest || psns/!is_oldest/
 * mutant(behind_invalidation): s/if (simhca_is_last_to_start(flight->opcode) \&\& !is_newest)/if (false)/
 */
#include "proof.h"
#include "queue/gate.h"

int main(void)
{
	ANY(uint64_t, word);
	const uint32_t first = 0;
	ANY(uint32_t, psn);
	ANY(bool, is_oldest);
	ANY(bool, is_newest);
	ANY(uint32_t, psns);
	ANY(uint32_t, reads);
	const struct simhca_flight flight = simhca_flight_of_word(word);
	struct simhca_gate_flights flights = { .psns = psns, .reads = reads };
	uint32_t distance;

	prove(flight.first <= SIMHCA_PSN_MASK && flight.last <= SIMHCA_PSN_MASK, "24 bits");
	prove(simhca_word_of_flight(&flight) == word, "a word and back");
	assume(psn <= SIMHCA_PSN_MASK);
	assume(psns <= SIMHCA_PSN_MASK && reads < SIMHCA_MAX_FLIGHTS);
	assume(!is_oldest || (!psns && flight.first == first));
	distance = simhca_psn_distance(first, psn);
	if (!simhca_gate_flight(&flight, first, is_oldest, is_newest, &flights))
		return 0;
	prove(flights.psns <= SIMHCA_PSN_MASK, "once round at most");
	prove(flights.psns >= psns, "the sum does not wrap");
	prove(flights.reads <= reads + 1, "a read at most");
	prove(is_newest || !simhca_is_last_to_start(flight.opcode), "nothing behind it");
	if (simhca_is_local_op(flight.opcode)) {
		prove(is_oldest && is_newest && flights.psns == psns, "by itself, without PSNs");
		return 0;
	}
	prove(flights.psns > psns && flights.psns - psns <= SIMHCA_MESSAGE_PSNS,
	      "as many as a message can have");
	/* The PSNs from where it began to where it ends are its own, and no others. */
	prove((distance >= psns && distance < flights.psns) ==
		      (simhca_psn_distance(flight.first, psn) < flights.psns - psns),
	      "a PSN is of it if it is that far from the first");
	prove(distance < psns ||
		      simhca_flight_ends_before(&flight, psn) == (distance >= flights.psns),
	      "of a PSN that is not of those before it is said whether it is behind it");
	prove(simhca_psn_add(flight.last, 1) == simhca_psn_add(first, flights.psns),
	      "the next one begins where it ends");
	return 0;
}
