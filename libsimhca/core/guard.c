/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "backoff.h"
#include "context.h"
#include "fabric.h"
#include "guard.h"
#include "steps.h"

static bool holds(struct simhca_guard *guard, uint64_t seen, uint32_t context)
{
	uint64_t contexts;

	/* acquire pairs with leave: the step's accesses are over when we go on. */
	if (atomic_load_explicit(&guard->count, memory_order_acquire) != seen)
		return false;
	contexts = atomic_load_explicit(&guard->contexts, memory_order_seq_cst);
	return context == SIMHCA_GUARD_ANY || contexts == SIMHCA_GUARD_ANY ||
	       contexts >> 32 == context || (uint32_t)contexts == context;
}

/* False: the step under way has not ended, and still holds what is this context's. */
static bool guard_wait(const struct simhca_fabric *fabric, struct simhca_guard *guard,
		       uint32_t context)
{
	uint64_t seen = atomic_load_explicit(&guard->count, memory_order_seq_cst);
	struct simhca_backoff backoff = { 0 };

	if (!(seen & 1))
		return true;
	while (holds(guard, seen, context))
		if (!simhca_backoff(&backoff, fabric))
			return false;
	return true;
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

/* A program's step, which may hold what is this context's. If the program has ended so has it. */
static bool steps_wait(const struct simhca_fabric *fabric, const struct simhca_steps *steps,
		       uint32_t context)
{
	/* seq_cst, as with guards of ours. */
	uint32_t seen = atomic_load_explicit(&steps->mem->guard, memory_order_seq_cst);
	struct simhca_backoff backoff = { 0 };

	if (!(seen & 1) || !simhca_steps_are_with(steps, context))
		return true;
	/* acquire: the step's accesses are over when we go on. */
	while (atomic_load_explicit(&steps->mem->guard, memory_order_acquire) == seen &&
	       !atomic_load(&steps->context->dead))
		if (!simhca_backoff(&backoff, fabric))
			return false;
	return true;
}

bool simhca_fabric_synchronize(struct simhca_fabric *fabric, uint32_t context_id)
{
	struct simhca_guard *guard;
	struct simhca_steps *steps;
	bool quiet = true;

	pthread_rwlock_rdlock(&fabric->lock);
	for (guard = fabric->guards; guard && quiet; guard = guard->next)
		quiet = guard_wait(fabric, guard, context_id);
	for (steps = fabric->steps; steps && quiet; steps = steps->next)
		quiet = steps_wait(fabric, steps, context_id);
	pthread_rwlock_unlock(&fabric->lock);
	return quiet;
}
