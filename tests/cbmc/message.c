/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * From a PSN of a message to the byte: if what is in the ring is the message that was taken up, then
 * each of its packets begins within it.
 *
 * mutant(other_length): s/simhca_psn_count(length, mtu) == simhca_flight_psns(flight)/true/
 * mutant(no_limit): s/ \&\& length <= SIMHCA_MAX_MSG_SIZE//
 * mutant(other_kind): s/return opcode == flight->opcode \&\& /return /
 * mutant(offset_behind): s/return !\*offset || \*offset < length;/return true;/
 */
#include "proof.h"
#include "queue/gate.h"

int main(void)
{
	ANY(uint64_t, word);
	ANY(uint32_t, psn);
	ANY(uint64_t, length);
	ANY(uint32_t, mtu);
	ANY(uint32_t, opcode);
	const struct simhca_flight flight = simhca_flight_of_word(word);
	uint64_t offset;
	bool begins;

	assume(is_mtu(mtu) && psn <= SIMHCA_PSN_MASK);
	begins = simhca_gate_offset(&flight, psn, length, mtu, &offset);
	if (begins)
		prove(offset <= length, "the packet begins within the message");
	if (!simhca_gate_message(&flight, opcode, length, mtu))
		return 0;
	prove(opcode == flight.opcode, "it is of that kind");
	prove(length <= SIMHCA_MAX_MSG_SIZE, "as long as a message can be");
	if (simhca_is_local_op(opcode)) /* it has no packets */
		return 0;
	/* find.c shows that this is so. */
	assume(simhca_psn_distance(flight.first, psn) < simhca_flight_psns(&flight));
	prove(begins, "no packet of it is refused");
	return 0;
}
