/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Progress in context memory, by words, as a client can write them at any time; 8 bytes each. */
#ifndef LIBSIMHCA_WORDS_H
#define LIBSIMHCA_WORDS_H

#include <stddef.h>
#include <stdint.h>

#include "store.h"

typedef uint64_t __attribute__((may_alias)) simhca_word;

static inline void simhca_words_get(void *to, const void *from, size_t bytes)
{
	simhca_word *words = to;

#pragma GCC unroll 32
	for (size_t i = 0; i < bytes / 8; i++)
		words[i] = __atomic_load_n((const simhca_word *)from + i, __ATOMIC_RELAXED);
}

static inline void simhca_words_put(void *to, const void *from, size_t bytes)
{
	const simhca_word *words = from;

#pragma GCC unroll 32
	for (size_t i = 0; i < bytes / 8; i++) {
		simhca_store();
		__atomic_store_n((simhca_word *)to + i, words[i], __ATOMIC_RELAXED);
	}
}

#endif
