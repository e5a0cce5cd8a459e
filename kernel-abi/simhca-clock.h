/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Clocks, in ns. */
#ifndef SIMHCA_CLOCK_H
#define SIMHCA_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t simhca_clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The clock that nobody sets. */
static inline uint64_t simhca_now_ns(void)
{
	return simhca_clock_ns(CLOCK_MONOTONIC);
}

#endif
