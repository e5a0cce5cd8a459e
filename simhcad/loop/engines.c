/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "base/thread.h"
#include "engines.h"
#include "simhca-clock.h"

/*
 * How long an idle engine polls. With CPUs to spare, until a program that got a message has most
 * likely answered. On two, next to nothing: who waits for what the engine did may wait for its CPU
 * as well, and waking it there is cheap.
 */
#define SPIN_US 50
#define SPIN_US_SCARCE 1

#define WATCH_INTERVAL 0.1  /* seconds in one step until a thread counts as stuck */
#define STUCK_INTERVAL 0.05 /* while there are some: more may follow */
#define THREADS 16	    /* of one engine, all but one on each CPU stuck */
#define END_SECONDS 2	    /* that a thread has to end */
#define END_TRIES 5	    /* if the threads are only kept from their CPUs */

/* What one of its threads is to run. */
struct engine_cpu {
	struct engine *engine;
	unsigned int cpu_index;
};

struct engine {
	struct engines *engines;
	struct simhca_engine *model;
	char name[16]; /* the kernel takes 15 characters */
	struct engine_cpu cpus[SIMHCA_MAX_ENGINE_CPUS];
	struct thread *thread[THREADS];
	unsigned int threads;
};

static void run(void *arg)
{
	const struct engine_cpu *cpu = arg;

	if (simhca_engine_run(cpu->engine->model, cpu->cpu_index))
		log_error("an engine thread has no memory to begin with");
}

/* 0 or an errno. */
static int start_thread(struct engine *engine, unsigned int cpu_index)
{
	struct thread *thread = thread_start(run, &engine->cpus[cpu_index], engine->name);

	if (!thread)
		return errno;
	engine->thread[engine->threads++] = thread;
	return 0;
}

struct engine *engine_start(struct engines *engines, bool may_block)
{
	struct simhca_engine_config config = { .spin_us = engines->spin_us,
					       .yields = engines->yields && !may_block,
					       .may_block = may_block,
					       .woken = engines->woken,
					       .woken_arg = engines->woken_arg };
	struct engine *engine = calloc(1, sizeof(*engine));
	unsigned int threads = 1;
	int ret = 0;

	if (!engine) {
		errno = ENOMEM;
		return NULL;
	}
	engine->engines = engines;
	if (!may_block && engines->num_cpus) {
		threads = config.num_cpus = engines->num_cpus;
		memcpy(config.cpu, engines->cpu, sizeof(config.cpu));
	}
	engine->model = simhca_engine_create(engines->fabric, &config);
	if (!engine->model) {
		ret = errno;
		free(engine);
		errno = ret;
		return NULL;
	}
	/* Beyond 10 engines the last digit stands for all: it is a name, no more. */
	if (may_block)
		snprintf(engine->name, sizeof(engine->name), "simhca-agent");
	else
		snprintf(engine->name, sizeof(engine->name), "simhca-engine/%u",
			 engines->count % 10);
	for (unsigned int i = 0; i < threads && !ret; i++) {
		engine->cpus[i].engine = engine;
		engine->cpus[i].cpu_index = i;
		ret = start_thread(engine, i);
	}
	if (!ret)
		return engine;
	engine_stop(engine);
	errno = ret;
	return NULL;
}

/* Takes the threads that have ended off the list. */
static void reap(struct engine *engine)
{
	for (unsigned int i = 0; i < engine->threads;) {
		if (thread_join(engine->thread[i], 0))
			engine->thread[i] = engine->thread[--engine->threads];
		else
			i++;
	}
}

static void tell_of_stuck(struct engines *engines)
{
	uint32_t contexts[ENGINES_STUCK_MOST];
	unsigned int count = 0;

	for (unsigned int i = 0; i < engines->count; i++)
		count += simhca_engine_stuck_in(engines->pool[i]->model, contexts + count,
						ENGINES_STUCK_MOST - count);
	if (engines->stuck && (count || engines->any_stuck))
		engines->stuck(engines->stuck_arg, contexts, count);
	if (engines->any_stuck == !!count)
		return;
	engines->any_stuck = count;
	engines->watch.repeat = count ? STUCK_INTERVAL : WATCH_INTERVAL;
	ev_timer_again(engines->loop, &engines->watch);
}

static void on_watch(struct ev_loop *loop, ev_timer *timer, int events)
{
	struct engines *engines = timer->data;

	for (unsigned int i = 0; i < engines->count; i++) {
		struct engine *engine = engines->pool[i];
		int cpu_index;

		reap(engine);
		cpu_index = simhca_engine_stuck(engine->model);
		if (cpu_index < 0 || engine->threads == THREADS)
			continue;
		log_warning("%s is stuck in a client's memory, or works for too long at a time: "
			    "another thread goes on for it",
			    engine->name);
		if (start_thread(engine, (unsigned int)cpu_index))
			log_error("%s: no thread could be started", engine->name);
	}
	tell_of_stuck(engines);
}

bool engine_halt(struct engine *engine)
{
	uint64_t until = simhca_now_ns() + END_SECONDS * 1000000000ull;
	unsigned int left = 0;

	simhca_engine_stop(engine->model);
	for (unsigned int i = 0; i < engine->threads; i++)
		if (!thread_join(engine->thread[i], until))
			engine->thread[left++] = engine->thread[i];
	engine->threads = left;
	return !left;
}

bool engine_end(struct engine *engine)
{
	simhca_engine_stop(engine->model);
	reap(engine);
	return !engine->threads;
}

void engine_stop(struct engine *engine)
{
	if (!engine_halt(engine)) {
		log_error("%s has not ended within %d s: it waits for a client's memory, or for a "
			  "CPU",
			  engine->name, END_SECONDS);
		engine->engines->abandoned = true;
		return;
	}
	simhca_engine_destroy(engine->model);
	free(engine);
}

double engine_cpu(const struct engine *engine)
{
	double sum = 0;

	for (unsigned int i = 0; i < engine->threads; i++) {
		struct timespec used;
		clockid_t clock;

		if (!pthread_getcpuclockid(thread_id(engine->thread[i]), &clock) &&
		    !clock_gettime(clock, &used))
			sum += (double)used.tv_sec + 1e-9 * (double)used.tv_nsec;
	}
	return sum;
}

struct simhca_engine *engine_model(const struct engine *engine)
{
	return engine->model;
}

/* Counts the CPUs that the daemon may run on. Notes which they are if an engine can have a thread on each. */
static unsigned int find_cpus(struct engines *engines)
{
	unsigned int count;
	cpu_set_t set;

	/* Fails on a host with more than 1,024 of them. */
	if (sched_getaffinity(0, sizeof(set), &set))
		return CPU_SETSIZE;
	count = (unsigned int)CPU_COUNT(&set);
	if (count < 2 || count > SIMHCA_MAX_ENGINE_CPUS)
		return count;
	for (uint32_t cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &set))
			engines->cpu[engines->num_cpus++] = cpu;
	return count;
}

int engines_start(struct engines *engines, struct simhca_fabric *fabric, struct ev_loop *loop,
		  uint32_t count, uint32_t spin_us, bool on_each_cpu)
{
	unsigned int cpus;

	cpus = find_cpus(engines);
	if (!on_each_cpu)
		engines->num_cpus = 0;
	if (!count)
		count = cpus <= 4 ? 1 : cpus < 12 ? 2 : cpus < 16 ? 3 : 4;
	if (spin_us == UINT32_MAX)
		spin_us = cpus <= 2 ? SPIN_US_SCARCE : SPIN_US;
	engines->fabric = fabric;
	engines->spin_us = spin_us;
	engines->yields = cpus <= 2 && !on_each_cpu;
	engines->pool = calloc(count, sizeof(*engines->pool));
	while (engines->pool && engines->count < count) {
		engines->pool[engines->count] = engine_start(engines, false);
		if (!engines->pool[engines->count])
			break;
		engines->count++;
	}
	if (engines->count < count) {
		log_error("engine thread %u of %u: %m", engines->count + 1, count);
		engines_stop(engines);
		return -1;
	}
	engines->loop = loop;
	ev_timer_init(&engines->watch, on_watch, WATCH_INTERVAL, WATCH_INTERVAL);
	engines->watch.data = engines;
	ev_timer_start(loop, &engines->watch);
	log_debug("%u engine threads, %u us of polling, %u CPUs", count, spin_us, cpus);
	return 0;
}

int engines_sleep_at(const struct engines *engines, unsigned int engine, uint32_t cpu_index)
{
	return simhca_engine_sleeps_at(engines->pool[engine]->model, cpu_index);
}

void engines_watch(struct engines *engines, bool watch)
{
	if (watch)
		ev_timer_again(engines->loop, &engines->watch);
	else
		ev_timer_stop(engines->loop, &engines->watch);
}

/* Two looks, END_SECONDS apart, are needed until it can say so. */
static bool is_stuck(struct engine *engine)
{
	uint32_t context;

	simhca_engine_stuck(engine->model);
	return simhca_engine_stuck_in(engine->model, &context, 1);
}

void engines_halt(struct engines *engines)
{
	if (engines->loop)
		ev_timer_stop(engines->loop, &engines->watch);
	for (unsigned int i = 0; i < engines->count; i++)
		for (int tries = 1; !engine_halt(engines->pool[i]) && tries < END_TRIES; tries++)
			if (is_stuck(engines->pool[i]))
				break;
}

void engines_stop(struct engines *engines)
{
	engines_halt(engines);
	for (unsigned int i = 0; i < engines->count; i++)
		engine_stop(engines->pool[i]);
	free(engines->pool);
	engines->pool = NULL;
	engines->count = 0;
}

struct simhca_engine *engines_pick(struct engines *engines)
{
	return engines->pool[engines->next++ % engines->count]->model;
}
