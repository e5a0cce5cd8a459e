/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What proofs share: values that CBMC takes to be any, and what is to be shown of them. */
#ifndef SIMHCA_CBMC_PROOF_H
#define SIMHCA_CBMC_PROOF_H

#include <stdbool.h>
#include <stdint.h>

/* A variable of that type that has any value. */
#define ANY(type, name)                                                                            \
	type nondet_##name(void);                                                                  \
	type name = nondet_##name()

#define assume(condition) __CPROVER_assume(condition)
#define prove(condition, says) __CPROVER_assert(condition, says)

/* Of a ring: none, or any power of two that a device can have, and more. */
static inline bool is_ring(uint32_t entries)
{
	return !(entries & (entries - 1)) && entries <= 1u << 20;
}

/* Of a CQ: any power of two that a device can have. */
static inline bool is_cq(uint32_t entries)
{
	return entries && !(entries & (entries - 1)) && entries <= 1u << 22;
}

/* Bytes of a path MTU (enum ibv_mtu: 1 to 5). */
static inline bool is_mtu(uint32_t mtu)
{
	return mtu >= 256 && mtu <= 4096 && !(mtu & (mtu - 1));
}

#endif
