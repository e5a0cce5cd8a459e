/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <stdlib.h>

#include "exclusive.h"
#include "core/device.h"
#include "core/fabric.h"
#include "core/lock.h"
#include "core/steps.h"
#include "dma.h"

void simhca_exclusive_init(struct simhca_exclusive *alone)
{
	atomic_init(&alone->yes, false);
	simhca_mutex_init(&alone->lock, SIMHCA_LOCK_ALONE);
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
	struct simhca_exclusive *alone = &atomicity->alone;

	if (alone->told)
		tell(fabric, atomicity->slot, UINT32_MAX);
	free(alone->seen);
	pthread_mutex_destroy(&alone->lock);
}

bool simhca_is_exclusive(struct simhca_fabric *fabric, struct simhca_atomicity *atomicity)
{
	struct simhca_exclusive *alone = &atomicity->alone;
	bool yes;

	/* acquire: the accesses of those steps are over. */
	if (__builtin_expect(atomic_load_explicit(&alone->yes, memory_order_acquire), 1))
		return true;
	if (pthread_mutex_trylock(&alone->lock))
		return false;
	yes = atomic_load_explicit(&alone->yes, memory_order_relaxed);
	if (!alone->told)
		tell(fabric, atomicity->slot, 1);
	alone->told = true;
	if (!yes && !alone->seen)
		alone->seen = simhca_steps_see(fabric, atomicity->pid);
	if (alone->seen && simhca_steps_passed(fabric, alone->seen)) {
		yes = true;
		free(alone->seen);
		alone->seen = NULL;
		/* release: pairs with who goes on without the lock. */
		atomic_store_explicit(&alone->yes, true, memory_order_release);
	}
	pthread_mutex_unlock(&alone->lock);
	return yes;
}
