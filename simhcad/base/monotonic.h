/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The time by a clock that nobody sets. libev's ev_time() and ev_now() are the time of the day. */
#ifndef SIMHCAD_MONOTONIC_H
#define SIMHCAD_MONOTONIC_H

#include "simhca-clock.h"

static inline double monotonic_s(void)
{
	return 1e-9 * (double)simhca_now_ns();
}

#endif
