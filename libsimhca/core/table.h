/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Large tables of which most entries are never used. They are mapped and not calloc()ed: a heap
 * that has a free block of the size would have to clear all of it, and each of its pages with it.
 */
#ifndef LIBSIMHCA_TABLE_H
#define LIBSIMHCA_TABLE_H

#include <stddef.h>
#include <sys/mman.h>

/* Zeros; NULL: out of memory. */
static inline void *simhca_table_alloc(size_t bytes)
{
	void *table = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return table == MAP_FAILED ? NULL : table;
}

static inline void simhca_table_free(void *table, size_t bytes)
{
	if (table)
		munmap(table, bytes);
}

#endif
