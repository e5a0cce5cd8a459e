/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* On-demand regions: what of them is in the device's table, and how that changes. */
#include <errno.h>
#include <stdlib.h>
#include <utlist.h>

#include "core/device.h"
#include "dma/dma.h"
#include "engine/worker.h"
#include "odp.h"
#include "page_in.h"
#include "page_map.h"
#include "pager.h"
#include "simhca-device.h"
#include "simhca-verbs.h"

/* A map for the whole address space of any process there is. */
#define MOST_PAGES (UINT64_C(1) << 45)
/* Times that a range is brought in anew because pages of the region were dropped meanwhile. */
#define ATTEMPTS 3

void simhca_odp_add(struct simhca_odp *odp, enum simhca_odp_count which, uint64_t n)
{
	atomic_fetch_add_explicit(&odp->count[which], n, memory_order_relaxed);
	atomic_fetch_add_explicit(&odp->device->odp_count[which], n, memory_order_relaxed);
}

struct simhca_odp *simhca_odp_create(struct simhca_device *device, struct simhca_mm *mm,
				     uint64_t addr, uint64_t length, uint32_t access,
				     struct simhca_why *why)
{
	struct simhca_odp *odp = calloc(1, sizeof(*odp));
	uint64_t pages;

	if (!odp) {
		simhca_why(why, ENOMEM, "out of memory");
		return NULL;
	}
	odp->device = device;
	odp->mm = mm;
	odp->addr = addr;
	odp->length = length;
	odp->base = addr & ~(SIMHCA_PAGE_BYTES - 1);
	odp->writable = access & SIMHCA_ACCESS_LOCAL_WRITE;
	pages = length ? ((addr + length - 1 - odp->base) >> SIMHCA_PAGE_SHIFT) + 1 : 1;
	odp->map = simhca_page_map_create(pages < MOST_PAGES ? pages : MOST_PAGES);
	odp->pager = odp->map ? simhca_pager_of(device->fabric, mm) : NULL;
	if (!odp->pager) {
		simhca_why(why, ENOMEM, "out of memory");
		simhca_page_map_destroy(odp->map);
		free(odp);
		return NULL;
	}
	pthread_mutex_lock(&odp->pager->lock);
	DL_APPEND(odp->pager->regions, odp);
	pthread_mutex_unlock(&odp->pager->lock);
	return odp;
}

void simhca_odp_destroy(struct simhca_odp *odp)
{
	if (!odp)
		return;
	pthread_mutex_lock(&odp->pager->lock);
	DL_DELETE(odp->pager->regions, odp);
	pthread_mutex_unlock(&odp->pager->lock);
	simhca_page_map_destroy(odp->map);
	free(odp);
}

void simhca_odp_invalidate(struct simhca_odp *odp, uint64_t start, uint64_t end)
{
	uint64_t last = odp->length ? odp->addr + odp->length - 1 : odp->addr, removed;

	if (start < odp->base)
		start = odp->base;
	if (start >= end || start > last)
		return;
	/* seq_cst, before the bits: see simhca_odp_bring_in(). */
	atomic_fetch_add_explicit(&odp->epoch, 1, memory_order_seq_cst);
	removed = simhca_page_map_remove(odp->map, (start - odp->base) >> SIMHCA_PAGE_SHIFT,
					 ((end - 1 - start) >> SIMHCA_PAGE_SHIFT) + 1);
	if (!removed)
		return;
	simhca_odp_add(odp, SIMHCA_ODP_INVALIDATIONS, 1);
	simhca_odp_add(odp, SIMHCA_ODP_INVALIDATED_PAGES, removed);
}

static enum simhca_reason reason_of(int error)
{
	return error == EACCES ? SIMHCA_REASON_FAULT_NOT_WRITABLE
			       : simhca_dma_reason(error, SIMHCA_REASON_FAULT_NOT_MAPPED);
}

/* With the access that the region grants: what is read first is written to later, as a rule. */
static int page_in(struct simhca_odp *odp, uint64_t addr, uint64_t pages, bool *write)
{
	bool needed = *write;
	int error;

	*write = needed || odp->writable;
	error = simhca_page_in(odp->mm, addr, pages, *write);
	if (error == EACCES && !needed) {
		*write = false;
		error = simhca_page_in(odp->mm, addr, pages, false);
	}
	return error;
}

/* Without faulting: runs of pages that are there already, for reading. */
static uint64_t add_resident(struct simhca_odp *odp, uint64_t first, uint64_t count, bool unsure)
{
	uint64_t added = 0;

	while (count) {
		unsigned int pages = count < 64 ? (unsigned int)count : 64;
		uint64_t there = simhca_pages_resident(
			odp->mm, odp->base + (first << SIMHCA_PAGE_SHIFT), pages);

		for (unsigned int i = 0; i < pages; i++)
			if (there >> i & 1)
				added += simhca_page_map_add(odp->map, first + i, 1, false, unsure);
		first += pages;
		count -= pages;
	}
	return added;
}

enum simhca_reason simhca_odp_bring_in(struct simhca_odp *odp, uint64_t addr, uint64_t length,
				       bool write, bool fault, uint64_t *pages)
{
	uint64_t first, count = simhca_odp_pages(odp, addr, length, &first);
	uint64_t start = odp->base + (first << SIMHCA_PAGE_SHIFT);

	*pages = 0;
	for (int i = 0; i < ATTEMPTS; i++) {
		/*
		 * seq_cst, as in simhca_odp_invalidate(): if pages are dropped after this and
		 * before we look again, we take ours back; if later, they are taken from us.
		 */
		uint64_t epoch = atomic_load_explicit(&odp->epoch, memory_order_seq_cst), added;
		bool watched = simhca_pager_watch(odp->pager, odp, start,
						  start + (count << SIMHCA_PAGE_SHIFT));
		bool writable = write;

		if (fault) {
			int error = page_in(odp, start, count, &writable);

			if (error)
				return reason_of(error);
			added = simhca_page_map_add(odp->map, first, count, writable, !watched);
		} else {
			added = add_resident(odp, first, count, !watched);
		}
		if (atomic_load_explicit(&odp->epoch, memory_order_seq_cst) == epoch) {
			*pages = added;
			simhca_odp_add(
				odp, watched ? SIMHCA_ODP_WATCHED_PAGES : SIMHCA_ODP_CHECKED_PAGES,
				added);
			break;
		}
		simhca_page_map_remove(odp->map, first, count);
	}
	return SIMHCA_REASON_NONE;
}

/* Takes those pages out of the map that are not in the process's page tables; were there any? */
static bool drop_missing(struct simhca_odp *odp, uint64_t first, uint64_t count)
{
	uint64_t dropped = 0;
	bool missing = false;

	while (count) {
		unsigned int pages = count < 64 ? (unsigned int)count : 64;
		uint64_t there = simhca_pages_resident(
			odp->mm, odp->base + (first << SIMHCA_PAGE_SHIFT), pages);

		for (unsigned int i = 0; i < pages; i++) {
			if (there >> i & 1)
				continue;
			missing = true;
			dropped += simhca_page_map_remove(odp->map, first + i, 1);
		}
		first += pages;
		count -= pages;
	}
	if (dropped) {
		simhca_odp_add(odp, SIMHCA_ODP_INVALIDATIONS, 1);
		simhca_odp_add(odp, SIMHCA_ODP_INVALIDATED_PAGES, dropped);
	}
	return missing;
}

bool simhca_odp_verify_some(const struct simhca_sgl *sgl, struct simhca_mover *mover)
{
	bool whole = true;

	for (uint32_t i = 0; i < sgl->count; i++) {
		const struct simhca_seg *seg = &sgl->seg[i];
		uint64_t first, count;

		if (!seg->odp)
			continue;
		count = simhca_odp_pages(seg->odp, seg->addr, seg->length, &first);
		if (simhca_page_map_look(seg->odp->map, first, count, false) != SIMHCA_PAGES_UNSURE)
			continue;
		simhca_mover_is_in(mover, seg->mm->context);
		whole &= !drop_missing(seg->odp, first, count);
		simhca_mover_is_in(mover, 0);
	}
	return whole;
}

void simhca_odp_counters(struct simhca_odp_counters *to,
			 const _Atomic uint64_t from[SIMHCA_ODP_COUNTS])
{
	*to = (struct simhca_odp_counters){
		.faults = from[SIMHCA_ODP_FAULTS],
		.fault_pages = from[SIMHCA_ODP_FAULT_PAGES],
		.failures = from[SIMHCA_ODP_FAILURES],
		.invalidations = from[SIMHCA_ODP_INVALIDATIONS],
		.invalidated_pages = from[SIMHCA_ODP_INVALIDATED_PAGES],
		.prefetches = from[SIMHCA_ODP_PREFETCHES],
		.prefetched_pages = from[SIMHCA_ODP_PREFETCHED_PAGES],
		.watched_pages = from[SIMHCA_ODP_WATCHED_PAGES],
		.checked_pages = from[SIMHCA_ODP_CHECKED_PAGES],
	};
}

void simhca_query_odp(const struct simhca_device *device, struct simhca_odp_counters *counters)
{
	simhca_odp_counters(counters, device->odp_count);
}
