/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The indices of a CQ, as programs wrote them: who goes through the CQEs that wait comes to an end
 * and sees each slot once; and a CQ that moves to another ring, by parts, during which the indices
 * change in any way, has each part within what waits, and all that waits has room in both rings; and
 * so when it gets other memory, where it begins with the client's index and only goes on.
 *
 * of: libsimhca/queue/wqe_gate.h
 * mutant(more_than_slots): s/waiting < entries ? waiting : entries/waiting/
 * mutant(more_than_the_ring): s/waiting > entries || waiting > cqe/waiting > cqe/
 * mutant(more_than_the_new_ring): s/waiting > entries || waiting > cqe/waiting > entries/
 * mutant(next_where_it_was): s/if (pi - \*next > waiting)/if (false)/
 * mutant(all_at_once): s/pi - \*next < most ? pi : \*next + most/pi/
 * mutant(more_than_the_cq): s/waiting > cqe || waiting <= done/waiting <= done/
 * mutant(moved_back): s/waiting > cqe || waiting <= done/waiting > cqe/
 * mutant(all_at_once_again): s/waiting - done < most ? pi : next + most/pi/
 */
#include "proof.h"
#include "queue/wqe_gate.h"

int main(void)
{
	ANY(uint32_t, pi);
	ANY(uint32_t, ci);
	ANY(uint32_t, entries);
	ANY(uint32_t, one);
	ANY(uint32_t, other);
	ANY(uint32_t, cqe);
	ANY(uint32_t, next);
	const uint32_t most = 8192, before = next;
	uint32_t waiting, end;

	assume(is_cq(entries) && cqe && cqe <= SIMHCA_MAX_CQE);
	waiting = simhca_gate_waiting(pi, ci, entries);
	prove(waiting <= entries, "no more than the ring has slots");
	prove(waiting == pi - ci || waiting == entries, "all that wait, or all slots");
	prove(simhca_ring_slot(pi, entries) < entries, "a slot of the ring");
	/* Two of those from pi - waiting to pi. */
	if (one < waiting && other < waiting && one != other)
		prove(simhca_ring_slot(pi - waiting + one, entries) !=
			      simhca_ring_slot(pi - waiting + other, entries),
		      "each slot once");

	if (simhca_gate_move(pi, ci, entries, cqe, most, &next, &end)) {
		prove(pi - ci <= entries && pi - ci <= cqe, "all that wait fit in both rings");
		prove(end - next <= most, "a part is no longer than it may be");
		prove(pi - next <= pi - ci && end - next <= pi - next,
		      "it is a part of what waits");
		prove(next == before || next == ci, "nothing that waits is left out");
		prove(next == pi || end != next, "it comes to an end");
	}

	next = before;
	if (next - ci <= cqe) { /* as it begins with ci, and as the step before has left it */
		bool all = simhca_gate_renew(pi, ci, cqe, most, next, &end);

		prove(end - ci <= cqe && end - ci >= next - ci, "it goes on, within the CQ");
		prove(end - next <= most, "a part is no longer than it may be");
		prove(all || end != next, "it comes to an end");
	}
	return 0;
}
