/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <stdlib.h>

#include "exclusive.h"
#include "core/device.h"
#include "core/fabric.h"
#include "core/lock.h"
#include "core/steps.h"
#include "dma.h"

void simhca_exclusive_init(struct simhca_exclusive *exclusive)
{
	atomic_init(&exclusive->yes, false);
	simhca_mutex_init(&exclusive->lock, SIMHCA_LOCK_ALONE);
}

/* A slot can be that of several processes. */
static void tell(struct simhca_fabric *fabric, uint32_t slot, uint32_t by)
{
	pthread_rwlock_rdlock(&fabric->lock);
	atomic_fetch_add(&fabric->by_device[slot], by);
	for (struct simhca_device *device = fabric->devices; device; device = device->next)
		/* seq_cst: before the guards of programs on the fast path are looked at. */
		atomic_fetch_add(&device->mem->by_device[slot], by);
	pthread_rwlock_unlock(&fabric->lock);
}

void simhca_exclusive_end(struct simhca_fabric *fabric, struct simhca_atomicity *atomicity)
{
	struct simhca_exclusive *exclusive = &atomicity->exclusive;

	if (exclusive->told)
		tell(fabric, atomicity->slot, UINT32_MAX);
	free(exclusive->seen);
	pthread_mutex_destroy(&exclusive->lock);
}

bool simhca_is_exclusive(struct simhca_fabric *fabric, struct simhca_atomicity *atomicity)
{
	struct simhca_exclusive *exclusive = &atomicity->exclusive;
	bool yes;

	/* acquire: the accesses of those steps are over. */
	if (__builtin_expect(atomic_load_explicit(&exclusive->yes, memory_order_acquire), 1))
		return true;
	if (pthread_mutex_trylock(&exclusive->lock))
		return false;
	yes = atomic_load_explicit(&exclusive->yes, memory_order_relaxed);
	if (!exclusive->told)
		tell(fabric, atomicity->slot, 1);
	exclusive->told = true;
	if (!yes && !exclusive->seen)
		exclusive->seen = simhca_steps_see(fabric, atomicity->pid);
	if (exclusive->seen && simhca_steps_passed(fabric, exclusive->seen)) {
		yes = true;
		free(exclusive->seen);
		exclusive->seen = NULL;
		/* release: pairs with who goes on without the lock. */
		atomic_store_explicit(&exclusive->yes, true, memory_order_release);
	}
	pthread_mutex_unlock(&exclusive->lock);
	return yes;
}
