/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Whether the memory of an ordinary region is still what was registered. A NIC has pinned its pages
 * and goes on with them, whatever is mapped at their address later; this device goes by the address.
 * So a region that lint watches keeps what has left it, as the process's userfaultfd tells, and
 * whether any of that was used afterwards.
 */
#ifndef LIBSIMHCA_WATCH_H
#define LIBSIMHCA_WATCH_H

#include <stdatomic.h>
#include <stdint.h>

#include "simhca-device.h"

#define SIMHCA_WATCH_RANGES 8 /* that have left are kept, the first ones */

struct simhca_device;
struct simhca_pager;

struct simhca_watch {
	struct simhca_pager *pager;
	uint64_t addr, length; /* of the region, in its process's memory */
	struct {
		uint64_t start, end;
	} left[SIMHCA_WATCH_RANGES]; /* written once, before `ranges` counts it */
	_Atomic uint32_t ranges;
	_Atomic uint64_t used;		  /* an address there that was used afterwards; 0: none */
	struct simhca_watch *prev, *next; /* in the pager's list, under its lock */
};

/*
 * For [addr, addr + length) of mm, whose process has given a userfaultfd: *fd is that, by which the
 * process is to have the range looked after (UFFDIO_REGISTER), and the caller's. NULL: why says.
 */
struct simhca_watch *simhca_watch_create(struct simhca_device *device, struct simhca_mm *mm,
					 uint64_t addr, uint64_t length, int *fd,
					 struct simhca_why *why);
void simhca_watch_destroy(struct simhca_watch *watch); /* NULL is none */

/* [start, end) has left the process. Under the pager's lock. */
void simhca_watch_drop(struct simhca_watch *watch, uint64_t start, uint64_t end);

/* The device reads or writes [addr, addr + length) of the region. */
static inline void simhca_watch_use(struct simhca_watch *watch, uint64_t addr, uint64_t length)
{
	/* Acquire: the ranges that it counts are written. */
	uint32_t ranges = atomic_load_explicit(&watch->ranges, memory_order_acquire);

	for (uint32_t i = 0; i < ranges; i++) {
		uint64_t start = watch->left[i].start;

		/* relaxed: it is for who looks later. */
		if (addr < watch->left[i].end && start < addr + length)
			atomic_store_explicit(&watch->used, addr > start ? addr : start,
					      memory_order_relaxed);
	}
}

#endif
