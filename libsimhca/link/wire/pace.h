/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * How fast a QP sends at most: the static rate of an address (IBTA vol. 1, 9.11.1), on the wire and
 * with all headers. What it did not use of it within SIMHCA_PACE_CREDIT_NS it may make up for.
 */
#ifndef LIBSIMHCA_PACE_H
#define LIBSIMHCA_PACE_H

#include <stdint.h>

#define SIMHCA_PACE_CREDIT_NS 1000000u

struct simhca_pace {
	uint64_t free_at; /* when what was sent so far is through */
};

/*
 * A packet of so many bytes wants to go by an address of that rate (enum ibv_rate). Returns for how
 * many ns it has to wait; 0: it goes.
 */
uint64_t simhca_pace(struct simhca_pace *pace, uint8_t static_rate, uint64_t bytes,
		     uint64_t now_ns);

#endif
