/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The place of any message under way, by any ring index, is one of flight[].
 *
 * mutant(place_by_index): s/(oldest + younger) % SIMHCA_MAX_FLIGHTS/oldest + younger/
 */
#include "proof.h"
#include "queue/gate.h"

int main(void)
{
	ANY(uint32_t, oldest);
	ANY(uint32_t, younger);

	prove(simhca_gate_place(oldest, younger) < SIMHCA_MAX_FLIGHTS, "in it");
	return 0;
}
