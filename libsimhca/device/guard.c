/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <sched.h>
#include <time.h>

#include "fabric.h"
#include "guard.h"

#define YIELDS 64
#define NAPS 20
#define NAP_NS (50 * 1000)

static bool holds(struct simhca_guard *guard, uint64_t seen, uint32_t context)
{
	uint64_t contexts;

	/* acquire pairs with leave: the step's accesses are over when we go on. */
	if (atomic_load_explicit(&guard->count, memory_order_acquire) != seen)
		return false;
	contexts = atomic_load_explicit(&guard->contexts, memory_order_seq_cst);
	return contexts == SIMHCA_GUARD_ANY || contexts >> 32 == context ||
	       (uint32_t)contexts == context;
}

bool simhca_guard_wait(struct simhca_guard *guard, uint32_t context)
{
	uint64_t seen = atomic_load_explicit(&guard->count, memory_order_seq_cst);
	struct timespec nap = { .tv_nsec = NAP_NS };

	if (!(seen & 1))
		return true;
	for (int i = 0; i < YIELDS + NAPS; i++) {
		if (!holds(guard, seen, context))
			return true;
		if (i < YIELDS)
			sched_yield();
		else
			nanosleep(&nap, NULL);
	}
	return !holds(guard, seen, context);
}

void simhca_guard_add(struct simhca_fabric *fabric, struct simhca_guard *guard)
{
	guard->next = fabric->guards;
	fabric->guards = guard;
}

void simhca_guard_remove(struct simhca_fabric *fabric, struct simhca_guard *guard)
{
	struct simhca_guard **link = &fabric->guards;

	while (*link != guard)
		link = &(*link)->next;
	*link = guard->next;
}

bool simhca_fabric_synchronize(struct simhca_fabric *fabric, uint32_t context_id)
{
	struct simhca_guard *guard;
	bool quiet = true;

	pthread_rwlock_rdlock(&fabric->lock);
	for (guard = fabric->guards; guard && quiet; guard = guard->next)
		quiet = simhca_guard_wait(guard, context_id);
	pthread_rwlock_unlock(&fabric->lock);
	return quiet;
}
