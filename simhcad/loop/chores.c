/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <utlist.h>

#include "chores.h"
#include "core/lock.h"
#include "base/log.h"
#include "simhca-clock.h"

#define MOST_THREADS 256  /* most of which sleep in a file or in memory that a client made */
#define SHARE 8		  /* threads that sleep for one process */
#define PROGRAM_SHARE 64  /* and for one program */
#define IDLE 2		  /* threads that stay when there is no work */
#define QUICK_NS 1000000  /* what takes longer may never end */
#define STACK (64u << 10) /* bytes */
#define END_SECONDS 2

/* A chore that is being done, as its thread holds it: the chore itself may be gone afterwards. */
struct running {
	struct owner owner;
	uint64_t since; /* CLOCK_MONOTONIC, ns */
	struct running *prev, *next;
};

struct chores {
	struct ev_loop *loop;
	ev_async async; /* there is something in finished */
	pthread_mutex_t lock;
	pthread_cond_t wake, ended;
	struct chore *queue;
	struct chore *finished;
	struct running *running; /* the latest last */
	unsigned int threads;
	unsigned int busy;     /* threads, each with one chore */
	unsigned int watching; /* threads that see whether what others have begun takes long */
	bool stopping;
};

static void *work(void *arg);

/* Locked. 0 or an errno. */
static int start_thread(struct chores *chores)
{
	pthread_attr_t attr;
	sigset_t all, before;
	pthread_t thread;
	int ret;

	/* Signals are the main thread's business. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	ret = pthread_create(&thread, &attr, work, chores);
	pthread_attr_destroy(&attr);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (ret)
		return ret;
	pthread_setname_np(thread, "simhca-chores");
	chores->threads++;
	return 0;
}

/*
 * Locked. Those that are busy may never come back: there shall be one that is not, if it can be,
 * and that looks at the queue.
 */
static void wake_thread(struct chores *chores)
{
	if (chores->watching)
		return;
	if (chores->threads == chores->busy && chores->threads < MOST_THREADS)
		start_thread(chores);
	pthread_cond_signal(&chores->wake);
}

static bool has_its_share(const struct chores *chores, const struct owner *owner)
{
	unsigned int process = 0, program = 0;
	const struct running *running;

	DL_FOREACH (chores->running, running) {
		process += running->owner.process == owner->process;
		program += running->owner.program == owner->program;
	}
	return process >= SHARE || program >= PROGRAM_SHARE;
}

/* Locked. The first whose owner has not got its share already. */
static struct chore *next_chore(const struct chores *chores)
{
	struct chore *chore;
	pid_t too_many = 0; /* mostly one process has many in a row */

	DL_FOREACH (chores->queue, chore) {
		if (!chore->owner.process)
			return chore;
		if (chore->owner.process == too_many)
			continue;
		if (!has_its_share(chores, &chore->owner))
			return chore;
		too_many = chore->owner.process;
	}
	return NULL;
}

/*
 * Locked. Waits as long as another thread has just begun something: mostly it is done soon, and
 * that thread takes what comes next. False: nobody has.
 */
static bool leave_it_to_another(struct chores *chores)
{
	struct timespec until;
	uint64_t end;

	if (!chores->running)
		return false;
	end = chores->running->prev->since + QUICK_NS;
	if (simhca_now_ns() >= end)
		return false;
	until.tv_sec = (time_t)(end / 1000000000);
	until.tv_nsec = (long)(end % 1000000000);
	chores->watching++;
	pthread_cond_clockwait(&chores->wake, &chores->lock, CLOCK_MONOTONIC, &until);
	chores->watching--;
	return true;
}

static void *work(void *arg)
{
	struct chores *chores = arg;

	pthread_mutex_lock(&chores->lock);
	for (;;) {
		struct chore *chore = next_chore(chores);
		void (*done)(struct chore * chore);
		struct running running;

		/* The others were for those who did not come back. */
		if (!chore && (chores->stopping || chores->threads - chores->busy > IDLE))
			break;
		if (!chore) {
			pthread_cond_wait(&chores->wake, &chores->lock);
			continue;
		}
		if (leave_it_to_another(chores))
			continue;
		DL_DELETE(chores->queue, chore);
		chores->busy++;
		if (chores->queue)
			wake_thread(chores);
		running = (struct running){ .owner = chore->owner, .since = simhca_now_ns() };
		done = chore->done; /* the chore may be gone afterwards */
		DL_APPEND(chores->running, &running);
		pthread_mutex_unlock(&chores->lock);
		chore->work(chore);
		pthread_mutex_lock(&chores->lock);
		DL_DELETE(chores->running, &running);
		chores->busy--;
		if (done) {
			DL_APPEND(chores->finished, chore);
			if (!chores->stopping)
				ev_async_send(chores->loop, &chores->async);
		}
	}
	chores->threads--;
	pthread_cond_signal(&chores->ended);
	pthread_mutex_unlock(&chores->lock);
	return NULL;
}

void chores_add(struct chores *chores, struct chore *list)
{
	pthread_mutex_lock(&chores->lock);
	DL_CONCAT(chores->queue, list);
	wake_thread(chores);
	pthread_mutex_unlock(&chores->lock);
}

static void tell_of_finished(struct chores *chores)
{
	struct chore *list, *chore, *next;

	pthread_mutex_lock(&chores->lock);
	list = chores->finished;
	chores->finished = NULL;
	pthread_mutex_unlock(&chores->lock);
	DL_FOREACH_SAFE (list, chore, next)
		chore->done(chore);
}

static void on_finished(struct ev_loop *loop, ev_async *async, int events)
{
	tell_of_finished(async->data);
}

struct chores *chores_start(struct ev_loop *loop)
{
	struct chores *chores = calloc(1, sizeof(*chores));
	int ret = 0;

	if (!chores)
		return NULL;
	chores->loop = loop;
	simhca_mutex_init(&chores->lock, SIMHCA_LOCK_CHORES);
	pthread_cond_init(&chores->wake, NULL);
	pthread_cond_init(&chores->ended, NULL);
	ev_async_init(&chores->async, on_finished);
	chores->async.data = chores;
	pthread_mutex_lock(&chores->lock);
	while (!ret && chores->threads < IDLE)
		ret = start_thread(chores);
	pthread_mutex_unlock(&chores->lock);
	if (!chores->threads) {
		log_error("the threads for what can sleep: %s", strerror(ret));
		free(chores);
		return NULL;
	}
	ev_async_start(loop, &chores->async);
	return chores;
}

void chores_stop(struct chores *chores)
{
	struct timespec until;
	bool ended;

	if (!chores)
		return;
	ev_async_stop(chores->loop, &chores->async);
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += END_SECONDS;
	pthread_mutex_lock(&chores->lock);
	chores->stopping = true;
	pthread_cond_broadcast(&chores->wake);
	while (chores->threads &&
	       !pthread_cond_clockwait(&chores->ended, &chores->lock, CLOCK_MONOTONIC, &until))
		;
	ended = !chores->threads;
	pthread_mutex_unlock(&chores->lock);
	tell_of_finished(chores);
	if (ended)
		free(chores); /* else a thread that is stuck still looks at it */
}
