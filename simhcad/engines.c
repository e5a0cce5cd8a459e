/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engines.h"
#include "log.h"

#define DEFAULT_SPIN_US 50

struct engine {
	struct simhca_engine *model;
	pthread_t thread;
};

static void *run(void *arg)
{
	simhca_engine_run(arg);
	return NULL;
}

/* Without signals, which are the main thread's business. */
static int start_thread(struct engine *engine, const char *name)
{
	sigset_t all, before;
	int ret;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	ret = pthread_create(&engine->thread, NULL, run, engine->model);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (ret)
		return ret;
	pthread_setname_np(engine->thread, name);
	return 0;
}

struct engine *engine_start(struct engines *engines, bool may_block)
{
	struct simhca_engine_config config = { .spin_us = engines->spin_us,
					       .may_block = may_block };
	struct engine *engine = calloc(1, sizeof(*engine));
	char name[16] = "simhca-agent"; /* the kernel takes 15 characters */
	int ret;

	if (!engine) {
		errno = ENOMEM;
		return NULL;
	}
	engine->model = simhca_engine_create(engines->fabric, &config);
	if (!engine->model) {
		ret = errno;
		free(engine);
		errno = ret;
		return NULL;
	}
	/* Beyond 10 engines the last digit stands for all: it is a name, no more. */
	if (!may_block)
		snprintf(name, sizeof(name), "simhca-engine/%u", engines->count % 10);
	ret = start_thread(engine, name);
	if (ret) {
		simhca_engine_destroy(engine->model);
		free(engine);
		errno = ret;
		return NULL;
	}
	return engine;
}

void engine_stop(struct engine *engine)
{
	simhca_engine_stop(engine->model);
	pthread_join(engine->thread, NULL);
	simhca_engine_destroy(engine->model);
	free(engine);
}

struct simhca_engine *engine_model(const struct engine *engine)
{
	return engine->model;
}

static unsigned int cpus_available(void)
{
	cpu_set_t set;

	/* Fails on a host with more than 1,024 of them. */
	if (sched_getaffinity(0, sizeof(set), &set))
		return CPU_SETSIZE;
	return (unsigned int)CPU_COUNT(&set);
}

int engines_start(struct engines *engines, struct simhca_fabric *fabric, uint32_t count,
		  uint32_t spin_us)
{
	unsigned int cpus = cpus_available();

	if (!count)
		count = cpus <= 4 ? 1 : cpus < 12 ? 2 : cpus < 16 ? 3 : 4;
	if (spin_us == UINT32_MAX)
		spin_us = cpus <= 2 ? 0 : DEFAULT_SPIN_US;
	memset(engines, 0, sizeof(*engines));
	engines->fabric = fabric;
	engines->spin_us = spin_us;
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
	log_debug("%u engine threads, %u us of polling, %u CPUs", count, spin_us, cpus);
	return 0;
}

void engines_stop(struct engines *engines)
{
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
