/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The check of the order, in builds that have it. A lock's rank is found by its address, in a table
 * that only grows: whoever looks a lock up waits for nobody. What a thread holds is in memory of
 * its own.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "lock.h"

#define SLOTS (1u << 21)
#define MOST_HELD 16

static struct slot {
	_Atomic uintptr_t lock;
	_Atomic uint32_t rank;
} * table;

static _Thread_local struct {
	const void *lock;
	enum simhca_lock_rank rank;
} held[MOST_HELD];
static _Thread_local unsigned int num_held;

static const char *name_of(enum simhca_lock_rank rank)
{
#define SIMHCA_LOCK_NAME(name) #name,
	static const char *const names[] = { "none", SIMHCA_LOCKS(SIMHCA_LOCK_NAME) };

	return names[rank];
}

static void fail(enum simhca_lock_rank rank, const char *why, enum simhca_lock_rank other)
{
	fprintf(stderr, "lock %s%s%s (the order is in libsimhca/core/lock.h)\n", name_of(rank), why,
		other == SIMHCA_LOCK_NONE ? "" : name_of(other));
	abort();
}

/*
 * 32 MiB, of which a few pages are touched. It is mapped, as LeakSanitizer reads a program's variables,
 * and so each page of them, when that ends.
 */
__attribute__((constructor(101))) static void map_table(void)
{
	table = mmap(NULL, SLOTS * sizeof(*table), PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (table == MAP_FAILED)
		fail(SIMHCA_LOCK_NONE, ": no memory for the check", SIMHCA_LOCK_NONE);
}

/*
 * Its slot, or the first that is free; those of locks that are gone are taken again by address. Locks that
 * are near each other in memory are so here: a page of the table has more than one.
 */
static uint32_t find(const void *lock)
{
	uintptr_t key = (uintptr_t)lock, there;
	uint32_t slot = (uint32_t)((key >> 3) + (key >> 24) * 0x9e3779b1u) % SLOTS;

	for (uint32_t i = 0; i < SLOTS; i++, slot = (slot + 1) % SLOTS) {
		there = atomic_load_explicit(&table[slot].lock, memory_order_acquire);
		if (there == key || !there)
			return slot;
	}
	fail(SIMHCA_LOCK_NONE, ": more locks than the check knows", SIMHCA_LOCK_NONE);
	return 0;
}

static void put(const void *lock, enum simhca_lock_rank rank)
{
	uintptr_t none;
	uint32_t slot;

	do {
		slot = find(lock);
		none = 0;
	} while (!atomic_compare_exchange_strong(&table[slot].lock, &none, (uintptr_t)lock) &&
		 none != (uintptr_t)lock);
	atomic_store_explicit(&table[slot].rank, rank, memory_order_release);
}

static enum simhca_lock_rank rank_of(const void *lock)
{
	return (enum simhca_lock_rank)atomic_load_explicit(&table[find(lock)].rank,
							   memory_order_acquire);
}

/* waits: it may wait for it, so the order counts. */
static void take(const void *lock, bool waits)
{
	enum simhca_lock_rank rank = rank_of(lock);

	if (rank == SIMHCA_LOCK_NONE)
		fail(rank, ": it has no rank", SIMHCA_LOCK_NONE);
	for (unsigned int i = 0; i < num_held && waits; i++)
		if (held[i].rank >= rank)
			fail(rank, " is taken by who holds ", held[i].rank);
	if (num_held == MOST_HELD)
		fail(rank, ": too many are held", SIMHCA_LOCK_NONE);
	held[num_held].lock = lock;
	held[num_held++].rank = rank;
}

static void drop(const void *lock)
{
	unsigned int i = num_held;

	while (i && held[i - 1].lock != lock)
		i--;
	if (!i)
		fail(rank_of(lock), ": it is not held by who lets go of it", SIMHCA_LOCK_NONE);
	for (num_held--; i <= num_held; i++)
		held[i - 1] = held[i];
}

void simhca_mutex_init(pthread_mutex_t *lock, enum simhca_lock_rank rank)
{
	put(lock, rank);
	pthread_mutex_init(lock, NULL);
}

void simhca_rwlock_init(pthread_rwlock_t *lock, const pthread_rwlockattr_t *attr,
			enum simhca_lock_rank rank)
{
	put(lock, rank);
	pthread_rwlock_init(lock, attr);
}

int simhca_checked_lock(pthread_mutex_t *lock)
{
	take(lock, true);
	return pthread_mutex_lock(lock);
}

int simhca_checked_trylock(pthread_mutex_t *lock)
{
	int ret = pthread_mutex_trylock(lock);

	if (!ret)
		take(lock, false);
	return ret;
}

int simhca_checked_unlock(pthread_mutex_t *lock)
{
	drop(lock);
	return pthread_mutex_unlock(lock);
}

int simhca_checked_destroy(pthread_mutex_t *lock)
{
	put(lock, SIMHCA_LOCK_NONE);
	return pthread_mutex_destroy(lock);
}

int simhca_checked_rdlock(pthread_rwlock_t *lock)
{
	take(lock, true);
	return pthread_rwlock_rdlock(lock);
}

int simhca_checked_wrlock(pthread_rwlock_t *lock)
{
	take(lock, true);
	return pthread_rwlock_wrlock(lock);
}

int simhca_checked_trywrlock(pthread_rwlock_t *lock)
{
	int ret = pthread_rwlock_trywrlock(lock);

	if (!ret)
		take(lock, false);
	return ret;
}

int simhca_checked_rwunlock(pthread_rwlock_t *lock)
{
	drop(lock);
	return pthread_rwlock_unlock(lock);
}

int simhca_checked_rwdestroy(pthread_rwlock_t *lock)
{
	put(lock, SIMHCA_LOCK_NONE);
	return pthread_rwlock_destroy(lock);
}
