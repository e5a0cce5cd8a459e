/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A CQE gives back a work request: the queue's tail moves forward, and not past what was posted; so
 * the slots between the old tail and the new one are no more than the queue has. The data in a
 * slot are no more than the slot and the buffer hold.
 *
 * of: providers/simhca/cqe_gate.h
 * mutant(any_index): s/ \&\& index - tail < posted - tail//
 * mutant(one_too_many): s/index - tail < posted/index - tail <= posted/
 * mutant(any_tail): s/posted - tail <= max_wr \&\& //
 * mutant(slot): s/byte_len = room;/;/
 * mutant(buffer): s/byte_len < buffer ? byte_len : buffer/byte_len/
 */
#include "proof.h"
#include "cqe_gate.h"

int main(void)
{
	ANY(uint32_t, index);
	ANY(uint32_t, tail);
	ANY(uint32_t, posted);
	ANY(uint32_t, max_wr);
	ANY(uint32_t, byte_len);
	ANY(uint32_t, room);
	ANY(uint32_t, buffer);
	uint32_t next, bytes = shca_gate_slot_data(byte_len, room, buffer);

	if (shca_gate_completed(index, tail, posted, max_wr, &next)) {
		prove(next - tail >= 1, "the tail moves");
		prove(next - tail <= max_wr, "by no more than the queue holds");
		prove(posted - next < posted - tail, "and not past what was posted");
	}
	prove(bytes <= room && bytes <= buffer, "data fit into the slot and the buffer");
	return 0;
}
