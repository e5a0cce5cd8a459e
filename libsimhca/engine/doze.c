/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Whether all threads of all engines sleep, and who is told when one wakes up. */
#include "core/device.h"
#include "engine_impl.h"
#include "simhca-device.h"
#include "worker.h"

static void programs_see(struct simhca_fabric *fabric, uint32_t dozes)
{
	struct simhca_device *device;

	pthread_rwlock_rdlock(&fabric->lock);
	for (device = fabric->devices; device; device = device->next)
		atomic_store(&device->mem->dozes, dozes);
	pthread_rwlock_unlock(&fabric->lock);
}

static bool all_sleep(const struct simhca_engine *engine)
{
	const struct simhca_worker *worker;

	for (worker = engine->workers; worker; worker = worker->next)
		if (!atomic_load(&worker->asleep))
			return false;
	return true;
}

bool simhca_engines_doze(struct simhca_fabric *fabric)
{
	struct simhca_engine *engine;
	bool all = true;

	programs_see(fabric, 1);
	pthread_rwlock_rdlock(&fabric->lock);
	for (engine = fabric->engines; engine && all; engine = engine->next) {
		if (!engine->config.woken)
			continue;
		atomic_store(&engine->dozes, true);
		all = all_sleep(engine);
	}
	pthread_rwlock_unlock(&fabric->lock);
	if (!all)
		simhca_engines_attend(fabric);
	return all;
}

void simhca_engines_attend(struct simhca_fabric *fabric)
{
	struct simhca_engine *engine;

	programs_see(fabric, 0);
	pthread_rwlock_rdlock(&fabric->lock);
	for (engine = fabric->engines; engine; engine = engine->next)
		atomic_store(&engine->dozes, false);
	pthread_rwlock_unlock(&fabric->lock);
}

int simhca_engine_sleeps_at(const struct simhca_engine *engine, uint32_t cpu_index)
{
	return cpu_index < engine->num_cpus ? engine->cpus[cpu_index].epoll_fd : -1;
}
