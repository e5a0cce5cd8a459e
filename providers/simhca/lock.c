/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lock.h"
#include "simhca-clock.h"

#define SPINS_BEFORE_YIELD 128

/* Where the kernel knows no MADV_WIPEONFORK, after_fork() wipes it. */
static _Atomic uint32_t number_without_page = 1;
_Atomic uint32_t *shca_process_number = &number_without_page;
static _Atomic uint32_t last_number = 1;

/* Two threads of a child may be here at once; one number is the process's then. */
uint32_t shca_process_begin(void)
{
	uint32_t number = 0, next = atomic_fetch_add(&last_number, 1) + 1;

	return atomic_compare_exchange_strong(shca_process_number, &number, next) ? next : number;
}

static void after_fork(void)
{
	atomic_store(&number_without_page, 0);
}

static __attribute__((constructor)) void watch_forks(void)
{
	size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
	_Atomic uint32_t *page =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page != MAP_FAILED && !madvise((void *)page, bytes, MADV_WIPEONFORK)) {
		atomic_store(page, 1);
		shca_process_number = page;
		return;
	}
	if (page != MAP_FAILED)
		munmap((void *)page, bytes);
	pthread_atfork(NULL, NULL, after_fork);
}

static void pause_cpu(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

/* Yields, for the holder may need this CPU to go on. until: 0, or a time. */
static bool wait_until(struct shca_lock *lock, uint64_t until)
{
	const uint32_t process = shca_process();
	uint32_t holder;
	unsigned int spins = 0;

	for (;;) {
		holder = atomic_load_explicit(&lock->holder, memory_order_relaxed);
		if ((!holder || holder != process) &&
		    atomic_compare_exchange_weak_explicit(&lock->holder, &holder, process,
							  memory_order_acquire,
							  memory_order_relaxed))
			return true;
		if (++spins % SPINS_BEFORE_YIELD) {
			pause_cpu();
			continue;
		}
		if (until && simhca_now_ns() >= until)
			return false;
		sched_yield();
	}
}

/* The contended half of shca_lock(). */
void shca_lock_wait(struct shca_lock *lock)
{
	wait_until(lock, 0);
}

bool shca_lock_within(struct shca_lock *lock, uint64_t ns)
{
	return shca_trylock(lock) || wait_until(lock, simhca_now_ns() + ns);
}

/* Whether this call has made it; it is locked then. */
static bool make(pthread_mutex_t *mutex, _Atomic uint32_t *process, struct shca_lock *making)
{
	bool made = false;

	/* Acquire: pairs with the release below. */
	if (atomic_load_explicit(process, memory_order_acquire) == shca_process())
		return false;
	shca_lock(making);
	if (atomic_load_explicit(process, memory_order_relaxed) != shca_process()) {
		pthread_mutex_init(mutex, NULL);
		pthread_mutex_lock(mutex);
		atomic_store_explicit(process, shca_process(), memory_order_release);
		made = true;
	}
	shca_unlock(making);
	return made;
}

bool shca_mutex_lock(struct shca_mutex *mutex)
{
	if (make(&mutex->mutex, &mutex->process, &mutex->making))
		return true;
	pthread_mutex_lock(&mutex->mutex);
	return false;
}

void shca_mutex_unlock(struct shca_mutex *mutex)
{
	pthread_mutex_unlock(&mutex->mutex);
}

void shca_mutex_inherit(pthread_mutex_t *mutex, _Atomic uint32_t *process, struct shca_lock *making)
{
	if (make(mutex, process, making))
		pthread_mutex_unlock(mutex);
}
