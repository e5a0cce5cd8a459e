/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <pthread.h>
#include <sched.h>

#include "lock.h"

#define SPINS_BEFORE_YIELD 128

uint32_t shca_process = 1;

static void count_generation(void)
{
	shca_process++;
}

static __attribute__((constructor)) void watch_forks(void)
{
	pthread_atfork(NULL, NULL, count_generation);
}

static void pause_cpu(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

/* The contended half of shca_lock(). Yields, for the holder may need this CPU to go on. */
void shca_lock_wait(struct shca_lock *lock)
{
	uint32_t holder;
	unsigned int spins = 0;

	for (;;) {
		holder = atomic_load_explicit(&lock->holder, memory_order_relaxed);
		if ((!holder || holder != shca_process) &&
		    atomic_compare_exchange_weak_explicit(&lock->holder, &holder, shca_process,
							  memory_order_acquire,
							  memory_order_relaxed))
			return;
		if (++spins % SPINS_BEFORE_YIELD)
			pause_cpu();
		else
			sched_yield();
	}
}
