/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The poller: which thread of an engine works. An engine has a thread on each of its
 * CPUs, asleep there, and the one that a doorbell wakes works for all; the others sleep on. So work
 * goes on where the program is that asked for it, and is done by one thread at a time, as by an
 * engine with one thread: completions keep their order.
 *
 * What a thread leaves to the poller it publishes before it looks for one; the poller resigns
 * before it looks a last time and sleeps. One of the two sees the other.
 *
 * A program that has a CPU's time to itself and posts again and again is slowed down by an engine
 * that works on that very CPU, while another may be idle. Whether it is nobody tells; so the engine
 * tries. When the thread of one CPU has been woken several times in a row, each soon after it fell
 * asleep, that of another CPU is invited: it polls for longer, for the program is not in its way.
 * Each attempt waits for twice as many wake-ups as the last, until one was good: the thread found
 * work several times without sleeping. A thread that works on and on is left to the kernel to
 * place.
 */
#include "engine.h"
#include "engine_impl.h"

#define STREAK_NS 50000u    /* from falling asleep to waking up: somebody posts again and again */
#define LONG_SPIN_NS 10000u /* an invited thread polls for so long, and one that found a lot */
#define WAIT_NS 50000u	    /* for the poller to hand over */
#define GOOD 8u		    /* times that a thread finds work without sleeping: it is well placed */
#define LEAST_STREAK 8u	    /* wake-ups on one CPU before another is invited */
#define MOST_STREAK 1024u
#define UNPIN_NS 1000000u /* who has worked for so long without sleeping may run on any CPU */
#define LOOK_AT_CLOCK 32u /* times that it found work */

static bool pass(_Atomic(struct simhca_worker *) *place, struct simhca_worker *from,
		 struct simhca_worker *to)
{
	return atomic_compare_exchange_strong_explicit(place, &from, to, memory_order_seq_cst,
						       memory_order_seq_cst);
}

bool simhca_is_poller(const struct simhca_worker *worker)
{
	/* acquire: what the poller before us left in the engine. */
	return atomic_load_explicit(&worker->engine->poller.thread, memory_order_acquire) == worker;
}

/* The thread woke up, and is the one to work. */
static void begin(struct simhca_worker *worker, bool took_over)
{
	struct simhca_poller *poller = &worker->engine->poller;

	if (worker->engine->num_cpus == 1 || !worker->slept)
		return;
	worker->slept = false;
	worker->awake_ns = simhca_engine_now(worker->engine);
	worker->took_over = took_over;
	worker->finds = 0;
	if (poller->last_cpu_index == worker->cpu_index &&
	    worker->awake_ns - poller->released_ns < STREAK_NS)
		poller->streak++;
	else
		poller->streak = 0;
	poller->last_cpu_index = worker->cpu_index;
}

/* Stands for a successor who is being made the poller. */
static struct simhca_worker claimed;

/* Waits for the poller to finish its round. */
static bool succeed(struct simhca_worker *worker)
{
	struct simhca_engine *engine = worker->engine;
	struct simhca_poller *poller = &engine->poller;
	uint64_t end = simhca_engine_now(engine) + WAIT_NS;

	if (!pass(&poller->successor, NULL, worker))
		return false;
	while (!simhca_is_poller(worker) && !pass(&poller->thread, NULL, worker))
		if (simhca_engine_now(engine) > end)
			break;
	/* Whoever has claimed us is about to make us the poller; or finds that it is not any more.
	 */
	while (!pass(&poller->successor, worker, NULL) &&
	       atomic_load(&poller->successor) == &claimed)
		;
	return simhca_is_poller(worker);
}

bool simhca_poller_become(struct simhca_worker *worker)
{
	struct simhca_engine *engine = worker->engine;
	struct simhca_poller *poller = &engine->poller;
	struct simhca_worker *successor;
	uint32_t invited;

	if (simhca_is_poller(worker)) {
		successor = atomic_load_explicit(&poller->successor, memory_order_relaxed);
		/* Claimed, it waits for nothing else; and it looks at all there is. */
		if (!successor || successor == &claimed ||
		    !pass(&poller->successor, successor, &claimed))
			return true;
		/* We can have been replaced just now. */
		atomic_store(&poller->successor,
			     pass(&poller->thread, worker, successor) ? NULL : successor);
		return false;
	}
	invited = worker->cpu_index + 1;
	if (engine->num_cpus > 1 && atomic_compare_exchange_strong(&poller->invited, &invited, 0) &&
	    succeed(worker)) {
		begin(worker, true);
		return true;
	}
	if (!pass(&poller->thread, NULL, worker))
		return false;
	begin(worker, false);
	return true;
}

void simhca_poller_init(struct simhca_engine *engine)
{
	engine->poller.invite_after = LEAST_STREAK;
}

void simhca_poller_resign(struct simhca_worker *worker)
{
	pass(&worker->engine->poller.thread, worker, NULL);
}

void simhca_poller_found(struct simhca_worker *worker)
{
	struct simhca_engine *engine = worker->engine;

	if (engine->num_cpus == 1 || ++worker->finds % LOOK_AT_CLOCK || worker->unpinned)
		return;
	if (simhca_engine_now(engine) - worker->awake_ns > UNPIN_NS)
		simhca_worker_unpin(worker);
}

uint64_t simhca_poller_spin_ns(const struct simhca_worker *worker)
{
	const struct simhca_engine *engine = worker->engine;

	if (engine->num_cpus > 1 && (worker->took_over || worker->finds >= GOOD))
		return LONG_SPIN_NS;
	return engine->config.spin_us * 1000ull;
}

bool simhca_poller_has_invited(const struct simhca_engine *engine, uint32_t cpu_index)
{
	return atomic_load(&engine->poller.invited) == cpu_index + 1;
}

void simhca_poller_consider(struct simhca_worker *worker)
{
	struct simhca_engine *engine = worker->engine;
	struct simhca_poller *poller = &engine->poller;

	/* It can have been replaced, being taken for stuck. */
	if (engine->num_cpus == 1 || !simhca_is_poller(worker))
		return;
	if (worker->took_over && worker->finds >= GOOD)
		poller->invite_after = LEAST_STREAK;
	if (!worker->took_over && poller->streak >= poller->invite_after) {
		uint32_t cpu_index = (worker->cpu_index + 1) % engine->num_cpus;

		poller->streak = 0;
		if (poller->invite_after < MOST_STREAK)
			poller->invite_after *= 2;
		atomic_store(&poller->invited, cpu_index + 1);
		simhca_engine_wake_cpu(engine, cpu_index);
	}
	poller->released_ns = simhca_engine_now(engine);
}
