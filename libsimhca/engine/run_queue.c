/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What an engine is to do: the tasks that are scheduled, and its timers. */
#include <stddef.h>
#include <time.h>
#include <utlist.h>

#include "core/fabric.h"
#include "core/lock.h"
#include "engine.h"
#include "engine_impl.h"
#include "simhca-clock.h"
#include "simhca-device.h"
#include "timer.h"

uint64_t simhca_engine_now(const struct simhca_engine *engine)
{
	if (engine->config.clock_ns)
		return engine->config.clock_ns(engine->config.clock_arg);
	return simhca_now_ns();
}

/* Who polls sees without the lock that there is nothing; before it sleeps it looks under it. */
static void unlock(struct simhca_engine *engine)
{
	atomic_store_explicit(&engine->has_tasks, engine->run_queue, memory_order_relaxed);
	atomic_store_explicit(&engine->has_timers, engine->timers.count, memory_order_relaxed);
	pthread_mutex_unlock(&engine->lock);
}

void simhca_engine_schedule(struct simhca_engine *engine, struct simhca_task *task)
{
	if (atomic_exchange(&task->queued, true))
		return;
	pthread_mutex_lock(&engine->lock);
	/* Under the lock: who sets dead and then takes the QP off the queue has the last word. */
	if (!atomic_load(&task->dead)) {
		atomic_store(&task->queue_engine, engine);
		DL_APPEND(engine->run_queue, task);
	}
	unlock(engine);
	simhca_engine_wake(engine);
}

struct simhca_task *simhca_next_task(struct simhca_engine *engine)
{
	struct simhca_task *task;

	if (!atomic_load_explicit(&engine->has_tasks, memory_order_relaxed))
		return NULL;
	pthread_mutex_lock(&engine->lock);
	task = engine->run_queue;
	if (task) {
		DL_DELETE(engine->run_queue, task);
		/*
		 * From here on a doorbell queues it again: nothing posted is overlooked. An
		 * exchange, for it acquires what those left who found the QP queued; a store would
		 * not.
		 */
		atomic_store(&task->queue_engine, NULL);
		atomic_exchange(&task->queued, false);
	}
	unlock(engine);
	return task;
}

void simhca_engine_forget(struct simhca_task *task)
{
	struct simhca_engine *engine = atomic_load(&task->queue_engine);

	if (!engine)
		return;
	pthread_mutex_lock(&engine->lock);
	if (atomic_load(&task->queue_engine) == engine) {
		DL_DELETE(engine->run_queue, task);
		atomic_store(&task->queue_engine, NULL);
	}
	unlock(engine);
}

static void task_timer_expired(struct simhca_engine *engine, struct simhca_timer *timer)
{
	struct simhca_task *task =
		(struct simhca_task *)((char *)timer - offsetof(struct simhca_task, timer));

	atomic_store(&task->timer_fired, timer->deadline_ns);
	simhca_engine_schedule(engine, task);
}

uint64_t simhca_engine_arm_timer(struct simhca_task *task, uint64_t delay_ns)
{
	struct simhca_engine *engine = task->engine;
	uint64_t deadline = simhca_engine_now(engine) + delay_ns;
	bool armed = true;

	pthread_mutex_lock(&engine->lock);
	task->timer.expired = task_timer_expired;
	/*
	 * Deadlines name waits, so a QP's next one differs from its last. It may be earlier: an RNR
	 * NAK's delay comes in place of the transport's timer.
	 */
	if (deadline == task->timer.deadline_ns)
		deadline++;
	if (!atomic_load(&task->dead))
		armed = !simhca_timer_arm(&engine->timers, &task->timer, deadline);
	unlock(engine);
	if (!armed)
		simhca_log(engine->fabric, SIMHCA_LOG_ERROR,
			   "QP 0x%06x: no memory for its timer: it waits without end", task->qpn);
	simhca_engine_wake(engine);
	return deadline;
}

void simhca_engine_cancel_timer(struct simhca_task *task)
{
	simhca_engine_stop_timer(task->engine, &task->timer);
}

bool simhca_engine_start_timer(struct simhca_engine *engine, struct simhca_timer *timer,
			       uint64_t delay_ns)
{
	uint64_t deadline = simhca_engine_now(engine) + delay_ns;
	int ret;

	pthread_mutex_lock(&engine->lock);
	ret = simhca_timer_arm(&engine->timers, timer, deadline);
	unlock(engine);
	simhca_engine_wake(engine);
	return !ret;
}

void simhca_engine_stop_timer(struct simhca_engine *engine, struct simhca_timer *timer)
{
	pthread_mutex_lock(&engine->lock);
	simhca_timer_cancel(&engine->timers, timer);
	unlock(engine);
}

bool simhca_fire_timers(struct simhca_engine *engine)
{
	bool fired = false;

	while (atomic_load_explicit(&engine->has_timers, memory_order_relaxed)) {
		struct simhca_timer *timer = NULL;

		pthread_mutex_lock(&engine->lock);
		if (engine->timers.count)
			timer = simhca_timers_expire(&engine->timers, simhca_engine_now(engine));
		unlock(engine);
		if (!timer)
			break;
		fired = true;
		timer->expired(engine, timer);
	}
	return fired;
}

uint64_t simhca_time_to_work(struct simhca_engine *engine)
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
