/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Memory that programs write while it is read: each atomic access finds anything there, each time.
 * To be included before what has such accesses.
 */
#ifndef SIMHCA_CBMC_ANY_MEMORY_H
#define SIMHCA_CBMC_ANY_MEMORY_H

#include <stdatomic.h>
#include <stdbool.h>

bool nondet_exchanged(void);

#undef atomic_load
#undef atomic_load_explicit
#undef atomic_store
#undef atomic_store_explicit
#undef atomic_compare_exchange_strong
#undef atomic_compare_exchange_strong_explicit

/* The access itself has to be one of memory that there is. */
#define atomic_load(from)                                                                          \
	({                                                                                         \
		__typeof__(*(from)) found = *(from), any;                                          \
		(void)found;                                                                       \
		any;                                                                               \
	})
#define atomic_load_explicit(from, order) atomic_load(from)
#define atomic_store(to, value) (*(to) = (value))
#define atomic_store_explicit(to, value, order) atomic_store(to, value)
#define atomic_compare_exchange_strong(at, expected, value)                                        \
	({                                                                                         \
		bool exchanged = nondet_exchanged();                                               \
		if (exchanged)                                                                     \
			*(at) = (value);                                                           \
		else                                                                               \
			*(expected) = atomic_load(at);                                             \
		exchanged;                                                                         \
	})
#define atomic_compare_exchange_strong_explicit(at, expected, value, success, failure)             \
	atomic_compare_exchange_strong(at, expected, value)

#endif
