/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Doorbells: how an engine learns of work, awake and asleep. The contexts that are active are
 * polled, by whichever thread of the engine is awake; the others are armed, and a doorbell there
 * writes to one of the context's eventfds, which wakes a thread on its CPU.
 */
#include <errno.h>
#include <limits.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>
#include <utlist.h>

#include "engine.h"
#include "engine_impl.h"
#include "simhca-device.h"

#define COME_TAG (1ull << 32) /* and a descriptor of somebody else's */
#define IDLE_ROUNDS 4096      /* rounds without a doorbell until a context is armed again */
#define EVENTS 64

/* -------------------------------------------------------------------------- doorbells */

static uint64_t take_bits(_Atomic uint64_t *word)
{
	if (!atomic_load_explicit(word, memory_order_relaxed))
		return 0;
	return atomic_exchange_explicit(word, 0, memory_order_seq_cst);
}

/*
 * Queues every QP whose bit is set; from the top of the tree down (see simhca-abi.h). A client can set
 * all bits at any time, and others wait meanwhile: it is looked for no more QPs than it has ever had.
 */
static bool take_doorbells(struct simhca_engine *engine, struct simhca_context *context)
{
	/* seq_cst: a QP's slot is counted before its client knows of it, and can ring. */
	const uint32_t slots = atomic_load(&context->doorbell_slots);
	struct simhca_ctx_mem *mem = context->mem;
	uint64_t top = take_bits(&mem->top);
	bool rang = false;

	for (; top; top &= top - 1) {
		uint32_t m = (uint32_t)__builtin_ctzll(top);
		uint64_t mid;

		if (m * 4096 >= slots)
			break; /* bits that mean nothing */
		for (mid = take_bits(&mem->mid[m]); mid; mid &= mid - 1) {
			uint32_t l = m * 64 + (uint32_t)__builtin_ctzll(mid);
			uint64_t leaf;

			if (l * 64 >= slots)
				break;
			for (leaf = take_bits(&mem->leaf[l]); leaf; leaf &= leaf - 1) {
				struct simhca_task *task = atomic_load(
					&context->doorbell[l * 64 +
							   (uint32_t)__builtin_ctzll(leaf)]);

				if (task)
					simhca_engine_schedule(engine, task);
				rang = true;
			}
		}
	}
	return rang;
}

/* ------------------------------------------------------ contexts; all under context_lock */

static void activate(struct simhca_engine *engine, struct simhca_context *context)
{
	if (context->rings)
		simhca_engine_schedule(engine, context->rings);
	atomic_store_explicit(&context->mem->armed, 0, memory_order_seq_cst);
	context->idle_rounds = 0;
	if (!context->active) {
		context->active = true;
		DL_APPEND2(engine->active, context, active_prev, active_next);
	}
}

/* From now on a doorbell writes to the eventfd; false if one rang just before. */
static bool stop_polling(struct simhca_engine *engine, struct simhca_context *context)
{
	atomic_store_explicit(&context->mem->armed, 1, memory_order_seq_cst);
	if (atomic_load_explicit(&context->mem->top, memory_order_seq_cst)) {
		atomic_store_explicit(&context->mem->armed, 0, memory_order_seq_cst);
		context->idle_rounds = 0;
		return false;
	}
	context->active = false;
	DL_DELETE2(engine->active, context, active_prev, active_next);
	return true;
}

bool simhca_doorbells_poll(struct simhca_engine *engine)
{
	struct simhca_context *context, *next;
	bool rang = false;

	pthread_mutex_lock(&engine->context_lock);
	DL_FOREACH_SAFE2(engine->active, context, next, active_next)
	{
		if (take_doorbells(engine, context)) {
			context->idle_rounds = 0;
			rang = true;
		} else if (++context->idle_rounds > IDLE_ROUNDS) {
			stop_polling(engine, context);
		}
	}
	pthread_mutex_unlock(&engine->context_lock);
	return rang;
}

bool simhca_doorbells_arm(struct simhca_engine *engine)
{
	struct simhca_context *context, *next;
	bool quiet = true;

	pthread_mutex_lock(&engine->context_lock);
	DL_FOREACH_SAFE2(engine->active, context, next, active_next)
	quiet &= stop_polling(engine, context);
	pthread_mutex_unlock(&engine->context_lock);
	return quiet;
}

void simhca_engine_wait(struct simhca_engine *engine, uint32_t cpu_index, uint64_t timeout_ns,
			struct simhca_worker *worker)
{
	struct timespec timeout = { .tv_sec = (time_t)(timeout_ns / 1000000000u),
				    .tv_nsec = (long)(timeout_ns % 1000000000u) };
	void (*come)(void *arg, int fd);
	struct epoll_event events[EVENTS];
	uint64_t count;
	void *come_arg;
	ssize_t ignored;
	int n;

	n = epoll_pwait2(engine->cpus[cpu_index].epoll_fd, events, EVENTS,
			 timeout_ns == UINT64_MAX ? NULL : &timeout, NULL);
	if (n < 0 && errno == ENOSYS) /* Linux before 5.11: whole milliseconds, rounded up */
		n = epoll_wait(engine->cpus[cpu_index].epoll_fd, events, EVENTS,
			       timeout_ns == UINT64_MAX ? -1
			       : timeout_ns / 1000000u > INT_MAX
				       ? INT_MAX
				       : (int)((timeout_ns + 999999u) / 1000000u));
	if (n <= 0)
		return;
	pthread_mutex_lock(&engine->context_lock);
	come = engine->come;
	come_arg = engine->come_arg;
	for (int i = 0; i < n; i++) {
		uint32_t id = (uint32_t)events[i].data.u64;
		struct simhca_context *context;

		if (events[i].data.u64 & COME_TAG)
			continue;
		if (id == SIMHCA_WAKE_TAG) {
			if (atomic_load(&engine->stop))
				continue; /* it stays readable: every thread is to end */
			/* Nor does the poller take from a thread on its way what wakes it. */
			if (simhca_poller_has_invited(engine, cpu_index))
				continue;
			ignored = read(engine->cpus[cpu_index].wake_fd, &count, sizeof(count));
			(void)ignored;
			continue;
		}
		HASH_FIND(hh, engine->contexts, &id, sizeof(id), context);
		if (context)
			activate(engine, context);
	}
	pthread_mutex_unlock(&engine->context_lock);
	for (int i = 0; i < n; i++) {
		if (!(events[i].data.u64 & COME_TAG))
			continue;
		/* If nobody works it is for us to do so: no need to wake anybody. */
		if (worker)
			simhca_poller_become(worker);
		come(come_arg, (int)(uint32_t)events[i].data.u64);
	}
}

int simhca_engine_listen(struct simhca_engine *engine, int fd, void (*come)(void *arg, int fd),
			 void *arg)
{
	/* What comes wakes one thread. */
	struct epoll_event event = { .events = EPOLLIN | EPOLLEXCLUSIVE,
				     .data.u64 = COME_TAG | (uint32_t)fd };
	int ret = 0;

	pthread_mutex_lock(&engine->context_lock);
	engine->come = come;
	engine->come_arg = arg;
	for (uint32_t i = 0; i < engine->num_cpus && !ret; i++)
		if (epoll_ctl(engine->cpus[i].epoll_fd, EPOLL_CTL_ADD, fd, &event))
			ret = -errno;
	pthread_mutex_unlock(&engine->context_lock);
	return ret;
}

int simhca_doorbells_open(struct simhca_context *context)
{
	while (context->doorbells < context->engine->num_cpus) {
		int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

		if (fd < 0)
			return -errno;
		context->doorbell_fd[context->doorbells++] = fd;
	}
	return 0;
}

void simhca_doorbells_close(struct simhca_context *context)
{
	while (context->doorbells)
		close(context->doorbell_fd[--context->doorbells]);
}

void simhca_context_doorbells(const struct simhca_context *context,
			      struct simhca_doorbells *doorbells)
{
	doorbells->count = context->doorbells;
	for (uint32_t i = 0; i < context->doorbells; i++) {
		doorbells->eventfd[i].fd = context->doorbell_fd[i];
		doorbells->eventfd[i].cpu = context->engine->config.cpu[i];
	}
}

void simhca_context_ring(struct simhca_context *context)
{
	struct simhca_engine *engine = context->engine;

	pthread_mutex_lock(&engine->context_lock);
	activate(engine, context);
	pthread_mutex_unlock(&engine->context_lock);
	simhca_engine_wake(engine);
}

void simhca_engine_rings(struct simhca_context *context, struct simhca_task *task)
{
	pthread_mutex_lock(&context->engine->context_lock);
	context->rings = task;
	pthread_mutex_unlock(&context->engine->context_lock);
}

/* Takes the descriptor out of what the first `count` CPUs' threads wait for. */
static void stop_listening(struct simhca_engine *engine, uint32_t count, int fd)
{
	for (uint32_t i = 0; i < count; i++)
		epoll_ctl(engine->cpus[i].epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

int simhca_engine_rings_by(struct simhca_context *context, int fd)
{
	/* Edge-triggered: each store that is to be noticed is an event of its own. */
	struct epoll_event event = { .events = EPOLLIN | EPOLLET, .data.u64 = context->id };
	struct simhca_engine *engine = context->engine;
	int ret = 0;

	pthread_mutex_lock(&engine->context_lock);
	for (uint32_t i = 0; i < engine->num_cpus && !ret; i++)
		if (epoll_ctl(engine->cpus[i].epoll_fd, EPOLL_CTL_ADD, fd, &event)) {
			ret = -errno;
			stop_listening(engine, i, fd);
		}
	if (!ret)
		context->rings_fd = fd;
	pthread_mutex_unlock(&engine->context_lock);
	return ret;
}

int simhca_engine_attach(struct simhca_engine *engine, struct simhca_context *context)
{
	/* Edge-triggered: the counter is never read, each write is an event of its own. */
	struct epoll_event event = { .events = EPOLLIN | EPOLLET, .data.u64 = context->id };
	int ret = 0;

	pthread_mutex_lock(&engine->context_lock);
	HASH_ADD(hh, engine->contexts, id, sizeof(context->id), context);
	atomic_store_explicit(&context->mem->armed, 1, memory_order_seq_cst);
	for (uint32_t i = 0; i < engine->num_cpus && !ret; i++)
		if (epoll_ctl(engine->cpus[i].epoll_fd, EPOLL_CTL_ADD, context->doorbell_fd[i],
			      &event))
			ret = -errno; /* the user has as many watches as the system allows */
	pthread_mutex_unlock(&engine->context_lock);
	if (ret)
		simhca_engine_detach(engine, context);
	return ret;
}

void simhca_engine_detach(struct simhca_engine *engine, struct simhca_context *context)
{
	pthread_mutex_lock(&engine->context_lock);
	for (uint32_t i = 0; i < engine->num_cpus; i++)
		epoll_ctl(engine->cpus[i].epoll_fd, EPOLL_CTL_DEL, context->doorbell_fd[i], NULL);
	/* The program may have a copy, which would keep it there. */
	if (context->rings_fd >= 0)
		stop_listening(engine, engine->num_cpus, context->rings_fd);
	context->rings_fd = -1;
	context->rings = NULL;
	HASH_DEL(engine->contexts, context);
	if (context->active)
		DL_DELETE2(engine->active, context, active_prev, active_next);
	context->active = false;
	pthread_mutex_unlock(&engine->context_lock);
}
