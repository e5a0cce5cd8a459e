/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Threads of an engine: how they join and leave it, and which CPUs they run on. */
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/guard.h"
#include "core/stats.h"
#include "engine_impl.h"
#include "worker.h"

/* Under the fabric's lock. */
static uint32_t take_stats_block(struct simhca_fabric *fabric)
{
	for (uint32_t block = 0; block < SIMHCA_STATS_SHARED; block++) {
		if (fabric->stats_blocks & 1u << block)
			continue;
		fabric->stats_blocks |= 1u << block;
		return block;
	}
	return SIMHCA_STATS_SHARED;
}

bool simhca_worker_init(struct simhca_worker *worker)
{
	worker->mover.scratch = aligned_alloc(4096, SIMHCA_DMA_SCRATCH);
	worker->send = calloc(1, SIMHCA_SEND_ROOM);
	return worker->mover.scratch && worker->send;
}

void simhca_worker_end(struct simhca_worker *worker)
{
	free(worker->mover.scratch);
	free(worker->send);
	free(worker->tap.bytes);
	free(worker->tap.payload);
	free(worker->faulty.payload);
	free(worker->outgoing.outbox);
}

struct simhca_worker *simhca_worker_join(struct simhca_engine *engine, uint32_t cpu_index)
{
	struct simhca_worker *worker = calloc(1, sizeof(*worker));

	if (!worker)
		return NULL;
	worker->engine = engine;
	worker->cpu_index = cpu_index;
	worker->tid = gettid();
	worker->thread = pthread_self();
	simhca_worker_pin(worker);
	if (!simhca_worker_init(worker)) {
		simhca_worker_end(worker);
		free(worker);
		return NULL;
	}
	pthread_rwlock_wrlock(&engine->fabric->lock);
	worker->next = engine->workers;
	engine->workers = worker;
	simhca_guard_add(engine->fabric, &worker->guard);
	worker->stats_block = take_stats_block(engine->fabric);
	pthread_rwlock_unlock(&engine->fabric->lock);
	return worker;
}

/* What fails here, because a CPU has gone, costs speed and no more. */
static void run_on(const struct simhca_engine *engine, uint32_t from, uint32_t to)
{
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	for (uint32_t i = from; i < to; i++)
		CPU_SET(engine->config.cpu[i], &cpus);
	sched_setaffinity(0, sizeof(cpus), &cpus);
}

void simhca_worker_pin(struct simhca_worker *worker)
{
	worker->unpinned = false;
	if (worker->engine->num_cpus > 1)
		run_on(worker->engine, worker->cpu_index, worker->cpu_index + 1);
}

void simhca_worker_unpin(struct simhca_worker *worker)
{
	worker->unpinned = true;
	if (worker->engine->num_cpus > 1)
		run_on(worker->engine, 0, worker->engine->num_cpus);
}

void simhca_worker_leave(struct simhca_worker *worker)
{
	struct simhca_engine *engine = worker->engine;
	struct simhca_worker **link;

	pthread_rwlock_wrlock(&engine->fabric->lock);
	for (link = &engine->workers; *link != worker; link = &(*link)->next)
		;
	*link = worker->next;
	simhca_guard_remove(engine->fabric, &worker->guard);
	if (worker->stats_block != SIMHCA_STATS_SHARED)
		engine->fabric->stats_blocks &= ~(1u << worker->stats_block);
	pthread_rwlock_unlock(&engine->fabric->lock);
	simhca_worker_end(worker);
	free(worker);
}

/* The newest of a CPU stays. */
bool simhca_worker_superfluous(const struct simhca_worker *worker)
{
	const struct simhca_engine *engine = worker->engine;
	const struct simhca_worker *other;

	pthread_rwlock_rdlock(&engine->fabric->lock);
	for (other = engine->workers; other->cpu_index != worker->cpu_index; other = other->next)
		;
	pthread_rwlock_unlock(&engine->fabric->lock);
	return other != worker;
}
