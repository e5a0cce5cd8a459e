/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The clock that nobody sets. */
#ifndef SIMHCA_CLOCK_H
#define SIMHCA_CLOCK_H

#include <stdint.h>
#include <time.h>

/* CLOCK_MONOTONIC, ns. */
static inline uint64_t simhca_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#endif
