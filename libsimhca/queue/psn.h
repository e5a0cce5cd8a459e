/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Packet sequence numbers: 24 bits, compared as serial numbers (IBTA vol. 1, 9.7.2). */
#ifndef LIBSIMHCA_PSN_H
#define LIBSIMHCA_PSN_H

#include <stdint.h>

#include "simhca-abi.h"

static inline uint32_t simhca_psn_add(uint32_t psn, uint32_t n)
{
	return (psn + n) & SIMHCA_PSN_MASK;
}

/* So many PSNs before the expected one are those of duplicates (9.7.1). */
#define SIMHCA_PSN_DUPLICATES 0x800000u

/* < 0: a is older than b, 0: the same, > 0: newer; the window is half the number space. */
static inline int32_t simhca_psn_cmp(uint32_t a, uint32_t b)
{
	return (int32_t)((a - b) << 8) >> 8;
}

/* How far it is from one PSN on to another, 0 to SIMHCA_PSN_MASK. */
static inline uint32_t simhca_psn_distance(uint32_t from, uint32_t to)
{
	return (to - from) & SIMHCA_PSN_MASK;
}

/* PSNs that a message of this many bytes takes; an empty one takes one. mtu is a power of two. */
static inline uint32_t simhca_psn_count(uint64_t bytes, uint32_t mtu)
{
	return bytes ? (uint32_t)((bytes + mtu - 1) >> __builtin_ctz(mtu)) : 1;
}

#endif
