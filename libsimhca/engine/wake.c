/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Where the threads of an engine sleep, and how they are woken there. */
#include <errno.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "engine.h"
#include "engine_impl.h"

int simhca_engine_cpus_open(struct simhca_engine *engine)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u64 = SIMHCA_WAKE_TAG };

	engine->num_cpus = engine->config.num_cpus ? engine->config.num_cpus : 1;
	for (uint32_t i = 0; i < engine->num_cpus; i++)
		engine->cpus[i] = (struct simhca_engine_cpu){ .epoll_fd = -1, .wake_fd = -1 };
	for (uint32_t i = 0; i < engine->num_cpus; i++) {
		struct simhca_engine_cpu *cpu = &engine->cpus[i];
		int error;

		cpu->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
		cpu->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		if (cpu->epoll_fd >= 0 && cpu->wake_fd >= 0 &&
		    !epoll_ctl(cpu->epoll_fd, EPOLL_CTL_ADD, cpu->wake_fd, &event))
			continue;
		error = errno;
		simhca_engine_cpus_close(engine);
		return -error;
	}
	return 0;
}

void simhca_engine_cpus_close(struct simhca_engine *engine)
{
	for (uint32_t i = 0; i < engine->num_cpus; i++) {
		if (engine->cpus[i].epoll_fd >= 0)
			close(engine->cpus[i].epoll_fd);
		if (engine->cpus[i].wake_fd >= 0)
			close(engine->cpus[i].wake_fd);
	}
}

static void wake_threads_of(struct simhca_engine_cpu *cpu)
{
	uint64_t one = 1;
	ssize_t ignored = write(cpu->wake_fd, &one, sizeof(one));

	(void)ignored; /* a full counter wakes as well */
}

void simhca_engine_wake_all(struct simhca_engine *engine)
{
	for (uint32_t i = 0; i < engine->num_cpus; i++)
		wake_threads_of(&engine->cpus[i]);
}

/* That of the CPU that the caller runs on. */
static uint32_t cpu_index_here(const struct simhca_engine *engine)
{
	int cpu = engine->num_cpus > 1 ? sched_getcpu() : -1;

	for (uint32_t i = 0; i < engine->num_cpus; i++)
		if (cpu >= 0 && engine->config.cpu[i] == (uint32_t)cpu)
			return i;
	return 0;
}

void simhca_engine_wake(struct simhca_engine *engine)
{
	/* seq_cst: the work was published before; the poller resigns and looks again.
	 */
	if (!atomic_load_explicit(&engine->poller.thread, memory_order_seq_cst))
		wake_threads_of(&engine->cpus[cpu_index_here(engine)]);
}

void simhca_engine_wake_cpu(struct simhca_engine *engine, uint32_t cpu_index)
{
	wake_threads_of(&engine->cpus[cpu_index]);
}
