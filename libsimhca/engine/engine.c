/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Engines: who works when. An engine polls the doorbells of its active contexts, runs the QPs
 * that rang, fires timers, and when nothing is left arms its contexts and sleeps (doorbells.c).
 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>

#include "core/fabric.h"
#include "core/guard.h"
#include "core/lock.h"
#include "core/stats.h"
#include "engine.h"
#include "engine_impl.h"
#include "simhca-device.h"
#include "timer.h"

#define RUNS_PER_ROUND 32     /* QPs between two looks at the doorbells */
#define ROUNDS_PER_LISTEN 32  /* rounds between two looks at the eventfds while busy */
#define YIELDING_NS 50000u    /* without work, until it sleeps */
#define LONG_YIELD_NS 500000u /* a time slice, not just a program's poll */

/* ------------------------------------------------------------------------------ the loop */

static bool run_tasks(struct simhca_worker *worker)
{
	struct simhca_engine *engine = worker->engine;
	bool worked = false;

	for (int i = 0; i < RUNS_PER_ROUND; i++) {
		struct simhca_task *task;

		/* The guard is entered before the task is looked up, and left after every run. */
		simhca_guard_enter(&worker->guard);
		task = simhca_next_task(engine);
		if (task && task->run(worker, task))
			simhca_engine_schedule(engine, task);
		simhca_guard_leave(&worker->guard);
		if (!task)
			break;
		worked = true;
		/* Who was taken for stuck leaves the rest to the poller. */
		if (worker != &engine->by_hand && !simhca_is_poller(worker))
			break;
	}
	return worked;
}

static bool one_round(struct simhca_worker *worker)
{
	bool worked = false;

	simhca_guard_enter(&worker->guard);
	worked |= simhca_doorbells_poll(worker->engine);
	worked |= simhca_fire_timers(worker->engine);
	simhca_guard_leave(&worker->guard);
	worked |= run_tasks(worker);
	return worked;
}

bool simhca_engine_poll(struct simhca_engine *engine)
{
	struct simhca_worker *nobody = NULL;
	bool worked;

	for (uint32_t i = 0; i < engine->num_cpus; i++)
		simhca_engine_wait(engine, i, 0, NULL);
	/* The poller for this round: nobody is to be woken for what it leaves to the next one. */
	atomic_compare_exchange_strong(&engine->poller.thread, &nobody, &engine->by_hand);
	worked = one_round(&engine->by_hand);
	simhca_poller_resign(&engine->by_hand);
	return worked;
}

/*
 * Who sees that all sleep lets the engine doze first, and a thread is awake before it looks whether
 * the engine dozes (both seq_cst): one of the two sees the other.
 */
static void sleep_for(struct simhca_worker *worker, uint64_t timeout)
{
	struct simhca_engine *engine = worker->engine;

	worker->slept = true;
	atomic_store(&worker->asleep, true);
	simhca_engine_wait(engine, worker->cpu_index, timeout, worker);
	atomic_store(&worker->asleep, false);
	if (atomic_load(&engine->dozes) && atomic_exchange(&engine->dozes, false))
		engine->config.woken(engine->config.woken_arg);
}

static void sleep_until_work(struct simhca_worker *worker)
{
	struct simhca_engine *engine = worker->engine;
	uint64_t timeout;

	if (worker->unpinned)
		simhca_worker_pin(worker);
	simhca_poller_consider(worker);
	simhca_poller_resign(worker);
	if (!simhca_doorbells_arm(engine))
		return;
	timeout = simhca_time_to_work(engine); /* looks at the run queue after it has resigned */
	if (!timeout || atomic_load(&engine->stop))
		return;
	sleep_for(worker, timeout);
}

/* Somebody else works. */
static void wait_for_turn(struct simhca_worker *worker)
{
	if (worker->unpinned)
		simhca_worker_pin(worker);
	sleep_for(worker, UINT64_MAX);
}

/* It has found something. */
static void go_on(struct simhca_worker *worker)
{
	simhca_poller_found(worker);
	if (worker->idle_ns && worker->yields)
		simhca_spin_done(&worker->worth, true);
	worker->idle_ns = 0;
}

/* True: to look again. Others may be programs that compute, and then it has been away for long. */
static bool let_others_go(struct simhca_worker *worker, uint64_t now)
{
	if (worker->yields && now - worker->idle_ns < YIELDING_NS) {
		sched_yield();
		if (simhca_engine_now(worker->engine) - now < LONG_YIELD_NS)
			return true;
	}
	if (worker->yields)
		simhca_spin_done(&worker->worth, false);
	return false;
}

/* It has found nothing. True: to look again. */
static bool linger(struct simhca_worker *worker)
{
	const struct simhca_engine *engine = worker->engine;
	uint64_t spin_ns = simhca_poller_spin_ns(worker), now;

	if (!spin_ns)
		return false;
	now = simhca_engine_now(engine);
	if (!worker->idle_ns) {
		worker->idle_ns = now;
		worker->yields = engine->config.yields && simhca_spin_wanted(&worker->worth);
	}
	if (now - worker->idle_ns < spin_ns || let_others_go(worker, now))
		return true;
	worker->idle_ns = 0;
	return false;
}

int simhca_engine_run(struct simhca_engine *engine, uint32_t cpu_index)
{
	struct simhca_worker *worker = simhca_worker_join(engine, cpu_index);

	if (!worker)
		return -ENOMEM;
	while (!atomic_load_explicit(&engine->stop, memory_order_acquire)) {
		bool is_poller = simhca_poller_become(worker);

		/* Contexts that are armed ring only the eventfd: look there too when never idle. */
		if (!is_poller || worker->rounds++ % ROUNDS_PER_LISTEN == 0 ||
		    (worker->idle_ns && worker->yields)) {
			if (simhca_worker_superfluous(worker))
				break;
			if (!is_poller) {
				wait_for_turn(worker);
				continue;
			}
			for (uint32_t i = 0; i < engine->num_cpus; i++)
				simhca_engine_wait(engine, i, 0, NULL);
		}
		if (one_round(worker))
			go_on(worker);
		else if (!linger(worker))
			sleep_until_work(worker);
	}
	simhca_poller_resign(worker);
	simhca_worker_leave(worker);
	/* What we were about to do, whoever stays has to find: wake it, for it may be asleep. */
	simhca_engine_wake_all(engine);
	return 0;
}

void simhca_engine_stop(struct simhca_engine *engine)
{
	atomic_store_explicit(&engine->stop, true, memory_order_seq_cst);
	simhca_engine_wake_all(engine);
}

struct simhca_engine *simhca_engine_create(struct simhca_fabric *fabric,
					   const struct simhca_engine_config *config)
{
	struct simhca_engine *engine = calloc(1, sizeof(*engine));
	int ret;

	if (!engine)
		return NULL;
	engine->fabric = fabric;
	engine->config = *config;
	engine->by_hand.engine = engine;
	engine->by_hand.stats_block = SIMHCA_STATS_SHARED;
	ret = simhca_worker_init(&engine->by_hand) ? simhca_engine_cpus_open(engine) : -ENOMEM;
	if (ret) {
		simhca_worker_end(&engine->by_hand);
		free(engine);
		errno = -ret;
		return NULL;
	}
	simhca_poller_init(engine);
	simhca_mutex_init(&engine->lock, SIMHCA_LOCK_ENGINE);
	simhca_mutex_init(&engine->context_lock, SIMHCA_LOCK_CONTEXTS);
	pthread_rwlock_wrlock(&fabric->lock);
	simhca_guard_add(fabric, &engine->by_hand.guard);
	engine->next = fabric->engines;
	fabric->engines = engine;
	if (!engine->next)
		atomic_store(&fabric->first_engine, engine);
	pthread_rwlock_unlock(&fabric->lock);
	return engine;
}

void simhca_engine_destroy(struct simhca_engine *engine)
{
	struct simhca_engine **link;

	if (!engine)
		return;
	pthread_rwlock_wrlock(&engine->fabric->lock);
	for (link = &engine->fabric->engines; *link != engine; link = &(*link)->next)
		;
	*link = engine->next;
	if (atomic_load(&engine->fabric->first_engine) == engine) {
		struct simhca_engine *first = engine->fabric->engines;

		while (first && first->next)
			first = first->next;
		atomic_store(&engine->fabric->first_engine, first);
	}
	simhca_guard_remove(engine->fabric, &engine->by_hand.guard);
	pthread_rwlock_unlock(&engine->fabric->lock);
	simhca_engine_cpus_close(engine);
	simhca_timers_free(&engine->timers);
	pthread_mutex_destroy(&engine->lock);
	pthread_mutex_destroy(&engine->context_lock);
	simhca_worker_end(&engine->by_hand);
	free(engine);
}
