/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A page map: which pages of an on-demand region the device has in its table, and whether only for
 * reading or for writing too. Pages count from 0, the first of the region.
 *
 * It is a radix tree like a page table: 512 entries a level, as many levels as the region needs,
 * and leaves that are made when a page of them is first brought in. So a small region costs 136
 * bytes, and one that is the whole address space costs what of it was ever used. Nothing but the
 * end of the map frees a leaf; there is a bound on their number, beyond which pages are simply not
 * remembered.
 *
 * Engines look pages up without a lock, while page-fault workers add some and invalidations take
 * some away: the bits are atomic, and a page that leaves at this moment may still be seen. That is
 * as on hardware, where an access may be on its way; simhca_dma_copy() goes through the process's
 * own page tables in any case.
 */
#ifndef LIBSIMHCA_PAGE_MAP_H
#define LIBSIMHCA_PAGE_MAP_H

#include <stdbool.h>
#include <stdint.h>

#define SIMHCA_PAGE_SHIFT 12
#define SIMHCA_PAGE_BYTES (1ull << SIMHCA_PAGE_SHIFT)

struct simhca_page_map;

/* NULL when out of memory. */
struct simhca_page_map *simhca_page_map_create(uint64_t pages);
void simhca_page_map_destroy(struct simhca_page_map *map);

enum simhca_page_state {
	SIMHCA_PAGES_ABSENT,  /* one of them at least */
	SIMHCA_PAGES_PRESENT, /* all of them */
	/* All of them, as far as is known: no event tells when they leave, so whoever uses them has
	   to look whether they are still there. */
	SIMHCA_PAGES_UNSURE,
};
enum simhca_page_state simhca_page_map_look(const struct simhca_page_map *map, uint64_t first,
					    uint64_t count, bool write);
/*
 * Adds pages; unsure as above. Returns how many were not there before. What finds no memory is left
 * out.
 */
uint64_t simhca_page_map_add(struct simhca_page_map *map, uint64_t first, uint64_t count,
			     bool write, bool unsure);
/* Takes pages away; returns how many of them were there. */
uint64_t simhca_page_map_remove(struct simhca_page_map *map, uint64_t first, uint64_t count);
/* How many pages are there, at about this moment. */
uint64_t simhca_page_map_present(const struct simhca_page_map *map);

#endif
