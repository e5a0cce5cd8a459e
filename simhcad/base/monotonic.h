/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The time by a clock that nobody sets. libev's ev_time() and ev_now() are the time of the day. */
#ifndef SIMHCAD_MONOTONIC_H
#define SIMHCAD_MONOTONIC_H

#include <stdint.h>
#include <time.h>

static inline uint64_t monotonic_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline double monotonic_s(void)
{
	return 1e-9 * (double)monotonic_ns();
}

#endif
