/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The lock of a queue: held for a few hundred instructions, by threads of one process.
 *
 * The word names the holder's process by a number that every fork() changes in the child, so
 * that a child that inherits a lock in the held state can tell that its holder, a thread that
 * exists only in the parent, will never release it, and takes it over.
 */
#ifndef SHCA_PROVIDER_LOCK_H
#define SHCA_PROVIDER_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct shca_lock {
	_Atomic uint32_t holder; /* 0: free, else shca_process of the holder */
	uint32_t unused;	 /* 1: a thread domain's: there is nobody to lock out */
};

/* The number of this process: 1, and one more in each generation of forked children. */
extern uint32_t shca_process;

void shca_lock_wait(struct shca_lock *lock);

/* True if it was free. */
static inline bool shca_trylock(struct shca_lock *lock)
{
	uint32_t none = 0;

	if (lock->unused)
		return true;
	/* Acquire: what the last holder wrote is seen. */
	return atomic_compare_exchange_strong_explicit(&lock->holder, &none, shca_process,
						       memory_order_acquire, memory_order_relaxed);
}

static inline void shca_lock(struct shca_lock *lock)
{
	if (!shca_trylock(lock))
		shca_lock_wait(lock);
}

static inline void shca_unlock(struct shca_lock *lock)
{
	if (!lock->unused)
		atomic_store_explicit(&lock->holder, 0, memory_order_release);
}

#endif
