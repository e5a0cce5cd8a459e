/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Threads of an engine that do not come out of a step, in the memory of a client mostly. */
#include <poll.h>
#include <stdio.h>
#include <time.h>

#include "core/guard.h"
#include "core/proc_stat.h"
#include "engine_impl.h"
#include "simhca-device.h"
#include "worker.h"

#define MOST_STEP_NS 100000000u /* of CPU time, far more than any step takes */

/* Nanoseconds of CPU time that the thread has used. */
static uint64_t cpu_time(const struct simhca_worker *worker)
{
	struct timespec used = { 0 };
	clockid_t clock;

	if (!pthread_getcpuclockid(worker->thread, &clock))
		clock_gettime(clock, &used);
	return (uint64_t)used.tv_sec * 1000000000u + (uint64_t)used.tv_nsec;
}

static bool is_runnable(pid_t tid)
{
	char path[64], text[SIMHCA_PROC_STAT];
	const char *state;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)tid);
	state = simhca_proc_stat(path, text);
	/* Without /proc there is only what its guard says. */
	return state && *state == 'R';
}

/*
 * Whether it has been in one step since the last look, and does not come out of it. It has if it
 * has used up CPU time that no step takes, whatever it does there: a client can have its page faults
 * tried again and again. Else it is only held up if it sleeps in a client's memory, where it can be
 * only if its guard is narrow; a thread that is runnable is no more than kept from the CPU, on a
 * host with more to do than CPUs for seconds.
 */
static bool is_stuck(struct simhca_worker *worker)
{
	uint64_t count = atomic_load(&worker->guard.count);
	bool held_up;

	if (!(count & 1) || count != worker->watched) {
		worker->watched = count;
		worker->watched_cpu_ns = cpu_time(worker);
		return false;
	}
	held_up = cpu_time(worker) - worker->watched_cpu_ns > MOST_STEP_NS ||
		  (atomic_load(&worker->guard.contexts) != SIMHCA_GUARD_ANY &&
		   !is_runnable(worker->tid));
	/* It may have moved while we looked at its state. */
	return held_up && atomic_load(&worker->guard.count) == count;
}

/*
 * A thread that is kept from the CPU that it is bound to does not hear what rings there. What
 * waits there for a whole interval is heard by us.
 */
static bool listen_for_the_deaf(struct simhca_engine *engine)
{
	bool heard = false;

	for (uint32_t i = 0; i < engine->num_cpus; i++) {
		struct simhca_engine_cpu *cpu = &engine->cpus[i];
		struct pollfd waits = { .fd = cpu->epoll_fd, .events = POLLIN };
		bool readable = poll(&waits, 1, 0) == 1;

		if (readable && cpu->was_readable) {
			simhca_engine_wait(engine, i, 0, NULL);
			heard = true;
		}
		cpu->was_readable = readable;
	}
	return heard;
}

int simhca_engine_stuck(struct simhca_engine *engine)
{
	bool stuck[SIMHCA_MAX_ENGINE_CPUS] = { false }, well[SIMHCA_MAX_ENGINE_CPUS] = { false };
	bool any = engine->num_cpus > 1 && listen_for_the_deaf(engine);
	struct simhca_worker *worker;
	int found = -1;

	pthread_rwlock_rdlock(&engine->fabric->lock);
	for (worker = engine->workers; worker; worker = worker->next) {
		worker->stuck = is_stuck(worker);
		if (!worker->stuck) {
			well[worker->cpu_index] = true;
			continue;
		}
		stuck[worker->cpu_index] = any = true;
		simhca_poller_resign(worker);
	}
	pthread_rwlock_unlock(&engine->fabric->lock);
	for (uint32_t i = 0; i < engine->num_cpus && found < 0; i++)
		if (stuck[i] && !well[i])
			found = (int)i;
	/* Those who sleep do not know that who polled for all is stuck, nor what others missed. */
	if (any)
		simhca_engine_wake_all(engine);
	return found;
}

unsigned int simhca_engine_stuck_in(struct simhca_engine *engine, uint32_t *contexts,
				    unsigned int room)
{
	const struct simhca_worker *worker;
	unsigned int count = 0;

	pthread_rwlock_rdlock(&engine->fabric->lock);
	for (worker = engine->workers; worker && count < room; worker = worker->next) {
		uint32_t context =
			atomic_load_explicit(&worker->mover.context, memory_order_relaxed);

		if (worker->stuck && context)
			contexts[count++] = context;
	}
	pthread_rwlock_unlock(&engine->fabric->lock);
	return count;
}
