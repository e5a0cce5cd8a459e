/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "core/lock.h"
#include "thread.h"

struct thread {
	pthread_t id;
	void (*run)(void *arg);
	void *arg;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	bool ended; /* but for its last few instructions */
};

static void *start(void *arg)
{
	struct thread *thread = arg;

	thread->run(thread->arg);
	pthread_mutex_lock(&thread->lock);
	thread->ended = true;
	pthread_cond_signal(&thread->wake);
	pthread_mutex_unlock(&thread->lock);
	return NULL;
}

static void give_back(struct thread *thread)
{
	pthread_cond_destroy(&thread->wake);
	pthread_mutex_destroy(&thread->lock);
	free(thread);
}

struct thread *thread_start(void (*run)(void *arg), void *arg, const char *name)
{
	struct thread *thread = calloc(1, sizeof(*thread));
	sigset_t all, before;
	int ret;

	if (!thread)
		return NULL;
	thread->run = run;
	thread->arg = arg;
	simhca_mutex_init(&thread->lock, SIMHCA_LOCK_THREAD);
	pthread_cond_init(&thread->wake, NULL);
	sigfillset(&all);
	sigdelset(&all, SIGBUS); /* of its own accesses (libsimhca's bus_error.h) */
	pthread_sigmask(SIG_SETMASK, &all, &before);
	ret = pthread_create(&thread->id, NULL, start, thread);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (ret) {
		give_back(thread);
		errno = ret;
		return NULL;
	}
	pthread_setname_np(thread->id, name);
	return thread;
}

bool thread_join(struct thread *thread, uint64_t until)
{
	const struct timespec time = { .tv_sec = (time_t)(until / 1000000000u),
				       .tv_nsec = (long)(until % 1000000000u) };
	int ret = 0;
	bool ended;

	pthread_mutex_lock(&thread->lock);
	while (!thread->ended && !ret)
		ret = pthread_cond_clockwait(&thread->wake, &thread->lock, CLOCK_MONOTONIC, &time);
	ended = thread->ended;
	pthread_mutex_unlock(&thread->lock);
	if (!ended)
		return false;
	pthread_join(thread->id, NULL);
	give_back(thread);
	return true;
}

pthread_t thread_id(const struct thread *thread)
{
	return thread->id;
}
