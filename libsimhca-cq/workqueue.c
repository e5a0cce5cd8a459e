/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The workqueue: the threads of this process that poll CQs of WORKQUEUE, of all contexts. Callbacks
 * on them may block. As long as they do not, there are no more workers than CPUs that the process
 * may use; when CQs wait for a turn and none was taken for a while, the workers are blocked, and a
 * manager adds one, up to SHCA_WORKERS. Workers stay until the last CQ of WORKQUEUE is freed.
 *
 * An idle worker waits on `work`. The manager waits on `watch`, without a time-out unless CQs wait
 * while nobody is idle.
 */
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include "dispatch.h"

#define SHCA_WORKERS 64
#define BLOCKED_MS 5

struct workqueue {
	struct shca_rotation turns; /* its lock protects the rest */
	pthread_cond_t work;
	pthread_cond_t watch;
	uint32_t idle; /* workers */
	bool watched;  /* the manager is looking at the clock */
	bool stop;
	uint32_t process;
	uint32_t refs; /* poll threads, under workqueue_lock */
	uint32_t num_workers;
	uint32_t num_cpus;
	pthread_t manager;
	pthread_t workers[SHCA_WORKERS];
};

static struct shca_mutex workqueue_lock;
static struct workqueue *workqueue;

static struct workqueue *to_workqueue(struct shca_rotation *turns)
{
	return SHCA_CONTAINER(struct workqueue, turns, turns);
}

/* Locked. */
static void on_added(struct shca_rotation *turns)
{
	struct workqueue *wq = to_workqueue(turns);

	if (wq->idle) {
		pthread_cond_signal(&wq->work);
	} else if (!wq->watched && wq->num_workers < SHCA_WORKERS) {
		wq->watched = true;
		pthread_cond_signal(&wq->watch);
	}
}

static void *work(void *arg)
{
	struct workqueue *wq = arg;
	struct shca_served *served;
	struct shca_run run;
	bool more;

	pthread_mutex_lock(&wq->turns.lock);
	while (!wq->stop) {
		served = shca_rotation_take_locked(&wq->turns, &run);
		if (!served) {
			wq->idle++;
			pthread_cond_wait(&wq->work, &wq->turns.lock);
			wq->idle--;
			continue;
		}
		pthread_mutex_unlock(&wq->turns.lock);
		more = shca_served_turn(served, &run);
		/* A callback has forked, and this is the child. */
		if (wq->process != shca_process())
			return NULL;
		shca_rotation_end(served, &run, more);
		pthread_mutex_lock(&wq->turns.lock);
	}
	pthread_mutex_unlock(&wq->turns.lock);
	return NULL;
}

/* Locked, or before there is anyone else. */
static int add_worker(struct workqueue *wq)
{
	int err = shca_start_thread(&wq->workers[wq->num_workers], "simhca-worker", work, wq);

	if (!err)
		wq->num_workers++;
	return err;
}

/* Locked; lets go of the lock meanwhile. */
static void wait_a_while(struct workqueue *wq)
{
	struct timespec end;

	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_nsec += BLOCKED_MS * 1000000;
	if (end.tv_nsec >= 1000000000) {
		end.tv_nsec -= 1000000000;
		end.tv_sec++;
	}
	pthread_cond_clockwait(&wq->watch, &wq->turns.lock, CLOCK_MONOTONIC, &end);
}

static void *manage(void *arg)
{
	struct workqueue *wq = arg;
	uint64_t taken;

	pthread_mutex_lock(&wq->turns.lock);
	while (!wq->stop) {
		if (!wq->turns.length || wq->idle || wq->num_workers == SHCA_WORKERS) {
			wq->watched = false;
			pthread_cond_wait(&wq->watch, &wq->turns.lock);
		} else if (wq->num_workers < wq->num_cpus) {
			/* Should it fail, time will tell whether it matters. */
			if (add_worker(wq))
				wait_a_while(wq);
		} else {
			taken = wq->turns.taken;
			wait_a_while(wq);
			if (taken == wq->turns.taken && wq->turns.length && !wq->stop)
				add_worker(wq);
		}
	}
	pthread_mutex_unlock(&wq->turns.lock);
	return NULL;
}

static void stop_and_destroy(struct workqueue *wq, bool has_manager)
{
	SIMHCA_NOT_CANCELLED;
	uint32_t i;

	pthread_mutex_lock(&wq->turns.lock);
	wq->stop = true;
	pthread_cond_broadcast(&wq->work);
	pthread_cond_broadcast(&wq->watch);
	pthread_mutex_unlock(&wq->turns.lock);
	/* The manager first: it makes workers. */
	if (has_manager)
		pthread_join(wq->manager, NULL);
	for (i = 0; i < wq->num_workers; i++)
		pthread_join(wq->workers[i], NULL);
	pthread_cond_destroy(&wq->work);
	pthread_cond_destroy(&wq->watch);
	shca_rotation_destroy(&wq->turns);
	free(wq);
}

static uint32_t usable_cpus(void)
{
	cpu_set_t cpus;

	/* EINVAL: there are more than fit, so more than there can be workers. */
	if (sched_getaffinity(0, sizeof(cpus), &cpus) || CPU_COUNT(&cpus) > SHCA_WORKERS)
		return SHCA_WORKERS;
	return (uint32_t)CPU_COUNT(&cpus);
}

static struct workqueue *create(void)
{
	struct workqueue *wq = calloc(1, sizeof(*wq));
	int err;

	if (!wq)
		return shca_null(ENOMEM);
	wq->process = shca_process();
	wq->num_cpus = usable_cpus();
	shca_rotation_init(&wq->turns, on_added);
	pthread_cond_init(&wq->work, NULL);
	pthread_cond_init(&wq->watch, NULL);

	pthread_mutex_lock(&wq->turns.lock);
	err = add_worker(wq);
	pthread_mutex_unlock(&wq->turns.lock);
	if (!err)
		err = shca_start_thread(&wq->manager, "simhca-manager", manage, wq);
	if (err) {
		stop_and_destroy(wq, false);
		return shca_null(err);
	}
	return wq;
}

struct shca_rotation *shca_workqueue_get(void)
{
	struct workqueue *wq;

	/* That of a parent process is still in use by what the parent made. */
	if (shca_mutex_lock(&workqueue_lock))
		workqueue = NULL;
	if (!workqueue)
		workqueue = create();
	wq = workqueue;
	if (wq)
		wq->refs++;
	shca_mutex_unlock(&workqueue_lock);
	return wq ? &wq->turns : NULL;
}

/* Not called by a worker: the CQ whose callback it runs is still there. */
void shca_workqueue_put(struct shca_rotation *turns)
{
	struct workqueue *wq = to_workqueue(turns);
	bool last;

	shca_mutex_lock(&workqueue_lock);
	last = !--wq->refs;
	if (last)
		workqueue = NULL;
	shca_mutex_unlock(&workqueue_lock);
	if (last)
		stop_and_destroy(wq, true);
}
