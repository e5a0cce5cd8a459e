/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* "did you mean": the known word that a mistyped one is closest to. */
#ifndef SIMHCA_CLOSEST_H
#define SIMHCA_CLOSEST_H

#include <stddef.h>

struct closest {
	const char *word;
	size_t distance;
	const char *best; /* NULL: none is close */
};

static inline struct closest closest_to(const char *word)
{
	return (struct closest){ .word = word };
}

/* A known word. It stays the caller's. */
void closest_try(struct closest *closest, const char *known);

#endif
