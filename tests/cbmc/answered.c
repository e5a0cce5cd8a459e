/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A read or an atomic that was answered, as a program wrote it, and a request that repeats it: what
 * is asked for is a part of what was.
 *
 * mutant(any_length): s/return one->length <= SIMHCA_MAX_MSG_SIZE;/return true;/
 * mutant(more_than_the_rest): s/ \&\& length <= read->length - offset//
 * mutant(elsewhere): s/va == read->va + offset \&\& //
 */
#include "proof.h"
#include "queue/gate.h"

int main(void)
{
	ANY(struct simhca_answered, one);
	ANY(uint32_t, psn);
	ANY(uint64_t, va);
	ANY(uint64_t, length);
	ANY(uint32_t, mtu);
	ANY(bool, is_read);

	assume(is_mtu(mtu) && psn <= SIMHCA_PSN_MASK);
	if (!simhca_gate_answered(&one))
		return 0;
	prove(simhca_answered_psns(&one, is_read, mtu) <= SIMHCA_MESSAGE_PSNS, "a message's PSNs");
	if (simhca_psn_distance(one.psn, psn) >= simhca_answered_psns(&one, true, mtu) ||
	    !simhca_answered_covers(&one, psn, va, length, mtu))
		return 0;
	prove(va - one.va <= one.length && length <= one.length - (va - one.va),
	      "within what was answered");
	return 0;
}
