/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <sched.h>
#include <time.h>

#include "guard.h"

bool simhca_guard_wait(struct simhca_guard *guard, unsigned int timeout_ms)
{
	uint64_t seen = atomic_load_explicit(&guard->count, memory_order_seq_cst);
	struct timespec nap = { .tv_nsec = 50 * 1000 };
	unsigned int naps = 0;

	if (!(seen & 1))
		return true;
	for (unsigned int spins = 0;; spins++) {
		/* acquire pairs with leave: the step's accesses are over when we go on. */
		if (atomic_load_explicit(&guard->count, memory_order_acquire) != seen)
			return true;
		if (spins < 64) {
			sched_yield();
		} else {
			if (naps++ >= timeout_ms * 20)
				return false;
			nanosleep(&nap, NULL);
		}
	}
}
