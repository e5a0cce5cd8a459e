/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * On-demand paging.
 *
 *   odp     what an ON_DEMAND region has beyond an ordinary one: a page map, and counters
 *   fault   an access of a QP to pages that are not in the map: the QP stops there until a worker
 *           has brought them in. A QP has four, one for each of {requester, responder} x {read,
 *           write}, and each has a life: IDLE, QUEUED, RESOLVING, then RESUMED or FAILED, until the
 *           QP has taken notice.
 *   advice  a prefetch: the same work, for nobody in particular
 *   pager   of a process: the line of its faults and advices, and the userfaultfd that tells which
 *           pages the program drops
 *
 * The page map decides when an access faults. It does not decide which bytes an access finds: they
 * come through the process's own page tables, as with every region. So a page that has left the
 * process without our knowing costs no wrong data; at worst the copy fails, and that is a fault
 * like any other, whose handler finds out whether the address still means something.
 *
 * A worker may wait for a program's memory for as long as that program likes. It holds no lock
 * then; a pager's work occupies two workers at most, so other programs' faults are served on; and
 * whoever wants a QP or region out of the way gets -EAGAIN while a fault of it is being resolved.
 *
 * Locks: faults.lock (the line, states, users); then an engine's lock. pager->lock (its regions)
 * and fabric->pager_lock (the pagers, their descriptors). None is held while a program's memory is
 * waited for.
 */
#ifndef LIBSIMHCA_ODP_H
#define LIBSIMHCA_ODP_H

#include "dma/dma.h"
#include "page_map.h"
#include "simhca-device.h"

struct simhca_device;
struct simhca_pager;

enum simhca_odp_count {
	SIMHCA_ODP_FAULTS,
	SIMHCA_ODP_FAULT_PAGES,
	SIMHCA_ODP_FAILURES,
	SIMHCA_ODP_INVALIDATIONS,
	SIMHCA_ODP_INVALIDATED_PAGES,
	SIMHCA_ODP_PREFETCHES,
	SIMHCA_ODP_PREFETCHED_PAGES,
	SIMHCA_ODP_WATCHED_PAGES,
	SIMHCA_ODP_CHECKED_PAGES,
	SIMHCA_ODP_COUNTS,
};

struct simhca_odp {
	struct simhca_device *device;
	struct simhca_mm *mm;
	struct simhca_pager *pager;
	struct simhca_page_map *map;
	uint64_t addr, length; /* of the region, in the owner's memory */
	uint64_t base;	       /* of page 0 */
	bool writable;
	/* Goes up before pages leave the map: who adds some looks whether it still is what it was.
	 */
	_Atomic uint64_t epoch;
	uint32_t users; /* faults and advices queued or under way; under faults.lock */
	struct simhca_odp *prev, *next; /* in the pager's list, under its lock */
	_Atomic uint64_t count[SIMHCA_ODP_COUNTS];
};

/* For a region of mm, not yet in use. NULL: why says. */
struct simhca_odp *simhca_odp_create(struct simhca_device *device, struct simhca_mm *mm,
				     uint64_t addr, uint64_t length, uint32_t access,
				     struct simhca_why *why);
/*
 * The region is withdrawn, and no step uses it any more. Takes its work out of the line, and
 * returns whether none is under way; then it may be destroyed.
 */
bool simhca_odp_close(struct simhca_odp *odp);
void simhca_odp_destroy(struct simhca_odp *odp);

void simhca_odp_add(struct simhca_odp *odp, enum simhca_odp_count which, uint64_t n);
/* Counts, as commands tell of them. */
void simhca_odp_counters(struct simhca_odp_counters *to,
			 const _Atomic uint64_t from[SIMHCA_ODP_COUNTS]);
/* The pages that [addr, addr + length) touches. */
static inline uint64_t simhca_odp_pages(const struct simhca_odp *odp, uint64_t addr,
					uint64_t length, uint64_t *first)
{
	*first = (addr - odp->base) >> SIMHCA_PAGE_SHIFT;
	return ((addr + length - 1 - odp->base) >> SIMHCA_PAGE_SHIFT) - *first + 1;
}

/* Pages that the program has dropped leave the map. */
void simhca_odp_invalidate(struct simhca_odp *odp, uint64_t start, uint64_t end);
/*
 * Brings [addr, addr + length) in: 0, or the reason. For a page-fault worker, which may wait here.
 * fault false: only what is in the process's page tables already. *pages: how many were new.
 */
enum simhca_reason simhca_odp_bring_in(struct simhca_odp *odp, uint64_t addr, uint64_t length,
				       bool write, bool fault, uint64_t *pages);
/*
 * Whether all on-demand memory of the list is still in the process's page tables, where no event
 * would have told otherwise. What is not leaves the map. May wait for the program's memory, as a
 * copy may.
 */
bool simhca_odp_verify_some(const struct simhca_sgl *sgl, struct simhca_mover *mover);
static inline bool simhca_odp_verify(const struct simhca_sgl *sgl, struct simhca_mover *mover)
{
	for (uint32_t i = 0; i < sgl->count; i++)
		if (sgl->seg[i].odp)
			return simhca_odp_verify_some(sgl, mover);
	return true;
}

#endif
