/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Engines: who works when. An engine polls the doorbells of its active contexts, runs the QPs
 * that rang, fires timers, and when nothing is left arms its contexts and sleeps. A doorbell
 * at an armed context writes to the context's eventfd, which wakes the engine.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>
#include <utlist.h>

#include "model.h"

#define WAKE_TAG 0u	     /* epoll tag of wake_fd; contexts' ids begin at 1 */
#define RUNS_PER_ROUND 32    /* QPs between two looks at the doorbells */
#define ROUNDS_PER_LISTEN 32 /* rounds between two looks at the eventfds while busy */
#define IDLE_ROUNDS 4096     /* rounds without a doorbell until a context is armed again */
#define EVENTS 64

uint64_t simhca_engine_now(const struct simhca_engine *engine)
{
	struct timespec now;

	if (engine->config.clock_ns)
		return engine->config.clock_ns(engine->config.clock_arg);
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void rouse(struct simhca_engine *engine)
{
	uint64_t one = 1;
	ssize_t ignored = write(engine->wake_fd, &one, sizeof(one));

	(void)ignored; /* a full counter wakes as well */
}

static void wake(struct simhca_engine *engine)
{
	/* seq_cst: the work was published before; the engine says that it sleeps and looks again.
	 */
	if (atomic_load_explicit(&engine->sleepers, memory_order_seq_cst))
		rouse(engine);
}

/* ------------------------------------------------------------------ run queue and timers */

void simhca_engine_schedule(struct simhca_engine *engine, struct simhca_qp *qp)
{
	if (atomic_exchange(&qp->queued, true))
		return;
	pthread_mutex_lock(&engine->lock);
	/* Under the lock: who sets dead and then takes the QP off the queue has the last word. */
	if (!atomic_load(&qp->dead)) {
		atomic_store(&qp->queue_engine, engine);
		DL_APPEND(engine->run_queue, qp);
	}
	pthread_mutex_unlock(&engine->lock);
	wake(engine);
}

static struct simhca_qp *next_qp(struct simhca_engine *engine)
{
	struct simhca_qp *qp;

	pthread_mutex_lock(&engine->lock);
	qp = engine->run_queue;
	if (qp) {
		DL_DELETE(engine->run_queue, qp);
		/* From here on a doorbell queues it again: nothing posted is overlooked. */
		atomic_store(&qp->queue_engine, NULL);
		atomic_store(&qp->queued, false);
	}
	pthread_mutex_unlock(&engine->lock);
	return qp;
}

void simhca_engine_forget_qp(struct simhca_qp *qp)
{
	struct simhca_engine *engine = atomic_load(&qp->queue_engine);

	if (!engine)
		return;
	pthread_mutex_lock(&engine->lock);
	if (atomic_load(&qp->queue_engine) == engine) {
		DL_DELETE(engine->run_queue, qp);
		atomic_store(&qp->queue_engine, NULL);
	}
	pthread_mutex_unlock(&engine->lock);
}

static void qp_timer_expired(struct simhca_engine *engine, struct simhca_timer *timer)
{
	struct simhca_qp *qp =
		(struct simhca_qp *)((char *)timer - offsetof(struct simhca_qp, timer));

	atomic_store(&qp->timer_fired, timer->deadline_ns);
	simhca_engine_schedule(engine, qp);
}

uint64_t simhca_engine_arm_timer(struct simhca_qp *qp, uint64_t delay_ns)
{
	struct simhca_engine *engine = qp->context->engine;
	uint64_t deadline = simhca_engine_now(engine) + delay_ns;

	pthread_mutex_lock(&engine->lock);
	qp->timer.expired = qp_timer_expired;
	/* Deadlines name waits, so a QP's next one differs from its last. */
	if (deadline <= qp->timer.deadline_ns)
		deadline = qp->timer.deadline_ns + 1;
	if (!atomic_load(&qp->dead) && simhca_timer_arm(&engine->timers, &qp->timer, deadline))
		simhca_log(engine->fabric, SIMHCA_LOG_ERROR,
			   "QP 0x%06x: no memory for its timer: it waits without end", qp->qpn);
	pthread_mutex_unlock(&engine->lock);
	wake(engine);
	return deadline;
}

void simhca_engine_cancel_timer(struct simhca_qp *qp)
{
	simhca_engine_stop_timer(qp->context->engine, &qp->timer);
}

bool simhca_engine_start_timer(struct simhca_engine *engine, struct simhca_timer *timer,
			       uint64_t delay_ns)
{
	uint64_t deadline = simhca_engine_now(engine) + delay_ns;
	int ret;

	pthread_mutex_lock(&engine->lock);
	ret = simhca_timer_arm(&engine->timers, timer, deadline);
	pthread_mutex_unlock(&engine->lock);
	wake(engine);
	return !ret;
}

void simhca_engine_stop_timer(struct simhca_engine *engine, struct simhca_timer *timer)
{
	pthread_mutex_lock(&engine->lock);
	simhca_timer_cancel(&engine->timers, timer);
	pthread_mutex_unlock(&engine->lock);
}

static bool fire_timers(struct simhca_engine *engine)
{
	bool fired = false;

	for (;;) {
		struct simhca_timer *timer = NULL;

		/* Without a clock call while nothing waits. */
		pthread_mutex_lock(&engine->lock);
		if (engine->timers.count)
			timer = simhca_timers_expire(&engine->timers, simhca_engine_now(engine));
		pthread_mutex_unlock(&engine->lock);
		if (!timer)
			return fired;
		fired = true;
		timer->expired(engine, timer);
	}
}

/* -------------------------------------------------------------------------- doorbells */

static uint64_t take_bits(_Atomic uint64_t *word)
{
	if (!atomic_load_explicit(word, memory_order_relaxed))
		return 0;
	return atomic_exchange_explicit(word, 0, memory_order_seq_cst);
}

/* Queues every QP whose bit is set; from the top of the tree down (see simhca-abi.h). */
static bool take_doorbells(struct simhca_engine *engine, struct simhca_context *context)
{
	struct simhca_ctx_mem *mem = context->mem;
	uint64_t top = take_bits(&mem->top);
	bool rang = false;

	for (; top; top &= top - 1) {
		uint32_t m = (uint32_t)__builtin_ctzll(top);
		uint64_t mid;

		if (m >= SIMHCA_DB_MIDS)
			break; /* bits that mean nothing */
		for (mid = take_bits(&mem->mid[m]); mid; mid &= mid - 1) {
			uint32_t l = m * 64 + (uint32_t)__builtin_ctzll(mid);
			uint64_t leaf;

			for (leaf = take_bits(&mem->leaf[l]); leaf; leaf &= leaf - 1) {
				struct simhca_qp *qp = atomic_load(
					&context->doorbell[l * 64 +
							   (uint32_t)__builtin_ctzll(leaf)]);

				if (qp)
					simhca_engine_schedule(engine, qp);
				rang = true;
			}
		}
	}
	return rang;
}

/* ------------------------------------------------------ contexts; all under context_lock */

static void activate(struct simhca_engine *engine, struct simhca_context *context)
{
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

static bool poll_contexts(struct simhca_engine *engine)
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

/* Arms every context; false if one has work after all. */
static bool arm_all(struct simhca_engine *engine)
{
	struct simhca_context *context, *next;
	bool quiet = true;

	pthread_mutex_lock(&engine->context_lock);
	DL_FOREACH_SAFE2(engine->active, context, next, active_next)
	quiet &= stop_polling(engine, context);
	pthread_mutex_unlock(&engine->context_lock);
	return quiet;
}

/* Waits up to timeout_ns for doorbells at armed contexts, and polls those that rang. */
static void listen_for_doorbells(struct simhca_engine *engine, uint64_t timeout_ns)
{
	struct timespec timeout = { .tv_sec = (time_t)(timeout_ns / 1000000000u),
				    .tv_nsec = (long)(timeout_ns % 1000000000u) };
	struct epoll_event events[EVENTS];
	uint64_t count;
	ssize_t ignored;
	int n;

	n = epoll_pwait2(engine->epoll_fd, events, EVENTS,
			 timeout_ns == UINT64_MAX ? NULL : &timeout, NULL);
	if (n < 0 && errno == ENOSYS) /* Linux before 5.11: whole milliseconds, rounded up */
		n = epoll_wait(engine->epoll_fd, events, EVENTS,
			       timeout_ns == UINT64_MAX ? -1
			       : timeout_ns / 1000000u > INT_MAX
				       ? INT_MAX
				       : (int)((timeout_ns + 999999u) / 1000000u));
	if (n <= 0)
		return;
	pthread_mutex_lock(&engine->context_lock);
	for (int i = 0; i < n; i++) {
		uint32_t id = events[i].data.u32;
		struct simhca_context *context;

		if (id == WAKE_TAG) {
			if (atomic_load(&engine->stop))
				continue; /* it stays readable: every thread is to end */
			ignored = read(engine->wake_fd, &count, sizeof(count));
			(void)ignored;
			continue;
		}
		HASH_FIND(hh, engine->contexts, &id, sizeof(id), context);
		if (context)
			activate(engine, context);
	}
	pthread_mutex_unlock(&engine->context_lock);
}

void simhca_engine_attach(struct simhca_engine *engine, struct simhca_context *context)
{
	/* Edge-triggered: the counter is never read, each write is an event of its own. */
	struct epoll_event event = { .events = EPOLLIN | EPOLLET, .data.u32 = context->id };

	pthread_mutex_lock(&engine->context_lock);
	HASH_ADD(hh, engine->contexts, id, sizeof(context->id), context);
	atomic_store_explicit(&context->mem->armed, 1, memory_order_seq_cst);
	if (epoll_ctl(engine->epoll_fd, EPOLL_CTL_ADD, context->doorbell_fd, &event))
		activate(engine, context); /* no room for the event: poll it instead */
	pthread_mutex_unlock(&engine->context_lock);
}

void simhca_engine_detach(struct simhca_engine *engine, struct simhca_context *context)
{
	pthread_mutex_lock(&engine->context_lock);
	epoll_ctl(engine->epoll_fd, EPOLL_CTL_DEL, context->doorbell_fd, NULL);
	HASH_DEL(engine->contexts, context);
	if (context->active)
		DL_DELETE2(engine->active, context, active_prev, active_next);
	context->active = false;
	pthread_mutex_unlock(&engine->context_lock);
}

/* ------------------------------------------------------------------------------ the loop */

static bool run_qps(struct simhca_worker *worker)
{
	struct simhca_engine *engine = worker->engine;
	bool worked = false;

	for (int i = 0; i < RUNS_PER_ROUND; i++) {
		struct simhca_qp *qp;

		/* The guard is entered before the QP is looked up, and left after every turn. */
		simhca_guard_enter(&worker->guard);
		qp = next_qp(engine);
		if (qp && simhca_qp_step(worker, qp))
			simhca_engine_schedule(engine, qp);
		simhca_guard_leave(&worker->guard);
		if (!qp)
			break;
		worked = true;
	}
	return worked;
}

static bool one_round(struct simhca_worker *worker)
{
	bool worked = false;

	simhca_guard_enter(&worker->guard);
	worked |= poll_contexts(worker->engine);
	worked |= fire_timers(worker->engine);
	simhca_guard_leave(&worker->guard);
	worked |= run_qps(worker);
	return worked;
}

bool simhca_engine_poll(struct simhca_engine *engine)
{
	listen_for_doorbells(engine, 0);
	return one_round(&engine->poller);
}

static uint64_t time_to_timer(struct simhca_engine *engine)
{
	uint64_t next, now;

	pthread_mutex_lock(&engine->lock);
	next = engine->run_queue ? 0 : simhca_timers_next(&engine->timers);
	pthread_mutex_unlock(&engine->lock);
	if (next == UINT64_MAX)
		return UINT64_MAX;
	now = simhca_engine_now(engine);
	return next > now ? next - now : 0;
}

static void sleep_until_work(struct simhca_engine *engine)
{
	uint64_t timeout;

	if (!arm_all(engine))
		return;
	atomic_fetch_add_explicit(&engine->sleepers, 1, memory_order_seq_cst);
	timeout = time_to_timer(engine); /* looks at the run queue after saying that we sleep */
	if (timeout && !atomic_load(&engine->stop))
		listen_for_doorbells(engine, timeout);
	atomic_fetch_sub_explicit(&engine->sleepers, 1, memory_order_seq_cst);
}

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

static struct simhca_worker *worker_join(struct simhca_engine *engine)
{
	struct simhca_worker *worker = calloc(1, sizeof(*worker));

	if (!worker)
		return NULL;
	worker->engine = engine;
	worker->scratch = aligned_alloc(4096, SIMHCA_DMA_SCRATCH);
	if (!worker->scratch) {
		free(worker);
		return NULL;
	}
	pthread_rwlock_wrlock(&engine->fabric->lock);
	worker->next = engine->workers;
	engine->workers = worker;
	engine->worker_count++;
	worker->stats_block = take_stats_block(engine->fabric);
	pthread_rwlock_unlock(&engine->fabric->lock);
	return worker;
}

static void worker_leave(struct simhca_worker *worker)
{
	struct simhca_engine *engine = worker->engine;
	struct simhca_worker **link;

	pthread_rwlock_wrlock(&engine->fabric->lock);
	for (link = &engine->workers; *link != worker; link = &(*link)->next)
		;
	*link = worker->next;
	engine->worker_count--;
	if (worker->stats_block != SIMHCA_STATS_SHARED)
		engine->fabric->stats_blocks &= ~(1u << worker->stats_block);
	pthread_rwlock_unlock(&engine->fabric->lock);
	free(worker->scratch);
	free(worker);
}

/* Another thread stood in while this one was stuck: one of the two has to go. */
static bool superfluous(struct simhca_worker *worker)
{
	struct simhca_engine *engine = worker->engine;
	bool go;

	pthread_rwlock_rdlock(&engine->fabric->lock);
	go = engine->worker_count > 1 && engine->workers != worker;
	pthread_rwlock_unlock(&engine->fabric->lock);
	return go;
}

int simhca_engine_run(struct simhca_engine *engine)
{
	struct simhca_worker *worker = worker_join(engine);
	const uint64_t spin_ns = engine->config.spin_us * 1000ull;
	uint64_t idle_since = 0;

	if (!worker)
		return -ENOMEM;
	while (!atomic_load_explicit(&engine->stop, memory_order_acquire)) {
		/* Contexts that are armed ring only the eventfd: look there too when never idle. */
		if (worker->rounds++ % ROUNDS_PER_LISTEN == 0) {
			if (superfluous(worker))
				break;
			listen_for_doorbells(engine, 0);
		}
		if (one_round(worker)) {
			idle_since = 0;
			continue;
		}
		if (spin_ns) {
			uint64_t now = simhca_engine_now(engine);

			if (!idle_since)
				idle_since = now;
			if (now - idle_since < spin_ns)
				continue;
			idle_since = 0;
		}
		sleep_until_work(engine);
	}
	worker_leave(worker);
	/* What we were about to do, whoever stays has to find: wake it, for it may be asleep. */
	rouse(engine);
	return 0;
}

bool simhca_engine_stuck(struct simhca_engine *engine)
{
	struct simhca_worker *worker;
	bool all, any = false;

	pthread_rwlock_rdlock(&engine->fabric->lock);
	all = engine->workers != NULL;
	for (worker = engine->workers; worker; worker = worker->next) {
		uint64_t count = atomic_load(&worker->guard.count);

		if ((count & 1) && count == worker->watched)
			any = true;
		else
			all = false;
		worker->watched = count;
	}
	pthread_rwlock_unlock(&engine->fabric->lock);
	/* One that sleeps does not know that the one who polled for both is stuck. */
	if (any && !all)
		rouse(engine);
	return all;
}

void simhca_engine_stop(struct simhca_engine *engine)
{
	atomic_store_explicit(&engine->stop, true, memory_order_seq_cst);
	rouse(engine);
}

struct simhca_engine *simhca_engine_create(struct simhca_fabric *fabric,
					   const struct simhca_engine_config *config)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u32 = WAKE_TAG };
	struct simhca_engine *engine = calloc(1, sizeof(*engine));
	int error;

	if (!engine)
		return NULL;
	engine->fabric = fabric;
	engine->config = *config;
	engine->poller.engine = engine;
	engine->poller.stats_block = SIMHCA_STATS_SHARED;
	engine->poller.scratch = aligned_alloc(4096, SIMHCA_DMA_SCRATCH);
	engine->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	engine->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (!engine->poller.scratch || engine->epoll_fd < 0 || engine->wake_fd < 0 ||
	    epoll_ctl(engine->epoll_fd, EPOLL_CTL_ADD, engine->wake_fd, &event)) {
		error = errno;
		if (engine->epoll_fd >= 0)
			close(engine->epoll_fd);
		if (engine->wake_fd >= 0)
			close(engine->wake_fd);
		free(engine->poller.scratch);
		free(engine);
		errno = error;
		return NULL;
	}
	pthread_mutex_init(&engine->lock, NULL);
	pthread_mutex_init(&engine->context_lock, NULL);
	pthread_rwlock_wrlock(&fabric->lock);
	engine->number = fabric->engines ? fabric->engines->number + 1 : 1;
	engine->next = fabric->engines;
	fabric->engines = engine;
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
	pthread_rwlock_unlock(&engine->fabric->lock);
	close(engine->epoll_fd);
	close(engine->wake_fd);
	simhca_timers_free(&engine->timers);
	pthread_mutex_destroy(&engine->lock);
	pthread_mutex_destroy(&engine->context_lock);
	free(engine->poller.scratch);
	free(engine);
}
