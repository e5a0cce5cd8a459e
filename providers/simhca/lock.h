/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Locks that need nothing done when the program forks: neither before, where a handler of the
 * program's own could meet a lock that is held for its sake, nor after, where one could run first.
 *
 * Each process has a number, which a forked child finds to be missing as soon as it looks: the
 * kernel has wiped the page that it is in. A lock names the process of its holder, so that a child
 * that inherits one in the held state can tell that its holder, a thread that exists only in the
 * parent, will never release it, and takes it over.
 *
 *	shca_lock	that of a queue: held for a few hundred instructions
 *	shca_mutex	where a thread may have to sleep; each process makes its own
 */
#ifndef SHCA_PROVIDER_LOCK_H
#define SHCA_PROVIDER_LOCK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct shca_lock {
	_Atomic uint32_t holder; /* 0: free, else shca_process() of the holder */
	uint32_t unused;	 /* 1: a thread domain's: there is nobody to lock out */
};

/* 0 in a forked child that has not asked for its number yet. */
extern _Atomic uint32_t *shca_process_number;

uint32_t shca_process_begin(void);

/* The number of this process: no process has that of one that it descends from. */
static inline uint32_t shca_process(void)
{
	uint32_t number = atomic_load_explicit(shca_process_number, memory_order_relaxed);

	return __builtin_expect(number != 0, 1) ? number : shca_process_begin();
}

void shca_lock_wait(struct shca_lock *lock);

/* Likewise, for so long: false, if it could not be had. */
bool shca_lock_within(struct shca_lock *lock, uint64_t ns);

/* True if it was free. */
static inline bool shca_trylock(struct shca_lock *lock)
{
	uint32_t none = 0;

	if (lock->unused)
		return true;
	/* Acquire: what the last holder wrote is seen. */
	return atomic_compare_exchange_strong_explicit(&lock->holder, &none, shca_process(),
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

/* Zeroed, it is ready to be used. */
struct shca_mutex {
	pthread_mutex_t mutex;
	_Atomic uint32_t process; /* shca_process() of who made it */
	struct shca_lock making;
};

/*
 * True for the first to lock it in this process: a thread of the parent may have been changing what
 * it protects when the process was forked, and that is the parent's.
 */
bool shca_mutex_lock(struct shca_mutex *mutex);
void shca_mutex_unlock(struct shca_mutex *mutex);

/* In a forked child the first call makes a mutex anew that is not ours, as libibverbs' are. */
void shca_mutex_inherit(pthread_mutex_t *mutex, _Atomic uint32_t *process,
			struct shca_lock *making);

#endif
