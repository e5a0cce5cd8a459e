/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include <utlist.h>

#include "log.h"
#include "releaser.h"

#define MOST_THREADS 64	       /* most of which sleep in a file that a client made */
#define STACK (64u << 10)      /* bytes */
#define UNMAP_BYTES (8u << 20) /* at a time: the address space is locked meanwhile */
#define BATCH 64	       /* descriptors that wait for the others of their batch */
#define BATCH_SECONDS 0.002
#define END_SECONDS 2

struct release {
	void *base;
	uint64_t size;
	int fd;
	struct release *prev, *next;
};

struct releaser {
	struct ev_loop *loop;
	pthread_mutex_t lock;
	pthread_cond_t wake, done;
	struct release *queue;
	unsigned int threads;
	unsigned int busy; /* threads, each with one release */
	bool stopping;

	/* main thread */
	int batch[BATCH];
	unsigned int batched;
	ev_timer flush;
};

static void let_go(const struct release *release)
{
	char *base = release->base;

	for (uint64_t at = 0; at < release->size; at += UNMAP_BYTES) {
		uint64_t left = release->size - at;

		/* Pieces of a mapping of huge pages that do not divide this: all at once, then. */
		if (munmap(base + at, left < UNMAP_BYTES ? left : UNMAP_BYTES)) {
			munmap(base + at, left);
			break;
		}
	}
	if (release->fd >= 0)
		close(release->fd);
}

static void *work(void *arg);

/*
 * Locked. Those that are busy may never come back: there shall be one that is not. 0 or an errno.
 */
static int have_thread(struct releaser *releaser)
{
	pthread_attr_t attr;
	sigset_t all, before;
	pthread_t thread;
	int ret;

	if (releaser->threads > releaser->busy || releaser->threads == MOST_THREADS)
		return 0;
	/* Signals are the main thread's business. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	ret = pthread_create(&thread, &attr, work, releaser);
	pthread_attr_destroy(&attr);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (ret)
		return ret;
	pthread_setname_np(thread, "simhca-release");
	releaser->threads++;
	return 0;
}

static void *work(void *arg)
{
	struct releaser *releaser = arg;

	pthread_mutex_lock(&releaser->lock);
	for (;;) {
		struct release *release = releaser->queue;

		/* One waits for work, the others were for those who did not come back. */
		if (!release && (releaser->stopping || releaser->threads - releaser->busy > 1))
			break;
		if (!release) {
			pthread_cond_wait(&releaser->wake, &releaser->lock);
			continue;
		}
		DL_DELETE(releaser->queue, release);
		releaser->busy++;
		if (releaser->queue)
			have_thread(releaser);
		pthread_mutex_unlock(&releaser->lock);
		let_go(release);
		free(release);
		pthread_mutex_lock(&releaser->lock);
		releaser->busy--;
	}
	releaser->threads--;
	pthread_cond_signal(&releaser->done);
	pthread_mutex_unlock(&releaser->lock);
	return NULL;
}

/* Takes the list. */
static void append(struct releaser *releaser, struct release *list)
{
	pthread_mutex_lock(&releaser->lock);
	DL_CONCAT(releaser->queue, list);
	have_thread(releaser);
	pthread_cond_signal(&releaser->wake);
	pthread_mutex_unlock(&releaser->lock);
}

static struct release *release_new(void *base, uint64_t size, int fd)
{
	struct release *release = malloc(sizeof(*release));

	if (release)
		*release = (struct release){ .base = base, .size = size, .fd = fd };
	else
		log_error("out of memory: a client's descriptor stays open");
	return release;
}

void releaser_take(struct releaser *releaser, void *base, uint64_t size, int fd)
{
	struct release *release, *list = NULL;

	if (!size && fd < 0)
		return;
	release = release_new(base, size, fd);
	if (!release)
		return;
	DL_APPEND(list, release);
	append(releaser, list);
}

/* ------------------------------------------------------------------------- the main thread */

static void flush(struct releaser *releaser)
{
	struct release *release, *list = NULL;

	ev_timer_stop(releaser->loop, &releaser->flush);
	while (releaser->batched) {
		release = release_new(NULL, 0, releaser->batch[--releaser->batched]);
		if (release)
			DL_APPEND(list, release);
	}
	if (list)
		append(releaser, list);
}

static void on_flush(struct ev_loop *loop, ev_timer *timer, int events)
{
	flush(timer->data);
}

void releaser_close(struct releaser *releaser, int fd)
{
	/* Every command brings a descriptor: a thread is not woken for each. */
	releaser->batch[releaser->batched++] = fd;
	if (releaser->batched == BATCH) {
		flush(releaser);
	} else if (!ev_is_active(&releaser->flush)) {
		ev_timer_set(&releaser->flush, BATCH_SECONDS, 0);
		ev_timer_start(releaser->loop, &releaser->flush);
	}
}

struct releaser *releaser_start(struct ev_loop *loop)
{
	struct releaser *releaser = calloc(1, sizeof(*releaser));
	int ret;

	if (!releaser)
		return NULL;
	releaser->loop = loop;
	ev_timer_init(&releaser->flush, on_flush, 0, 0);
	releaser->flush.data = releaser;
	pthread_mutex_init(&releaser->lock, NULL);
	pthread_cond_init(&releaser->wake, NULL);
	pthread_cond_init(&releaser->done, NULL);
	pthread_mutex_lock(&releaser->lock);
	ret = have_thread(releaser);
	pthread_mutex_unlock(&releaser->lock);
	if (ret) {
		log_error("the thread that closes clients' files: %s", strerror(ret));
		free(releaser);
		return NULL;
	}
	return releaser;
}

void releaser_stop(struct releaser *releaser)
{
	struct timespec until;
	bool ended;

	if (!releaser)
		return;
	flush(releaser);
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += END_SECONDS;
	pthread_mutex_lock(&releaser->lock);
	releaser->stopping = true;
	pthread_cond_broadcast(&releaser->wake);
	while (releaser->threads &&
	       !pthread_cond_timedwait(&releaser->done, &releaser->lock, &until))
		;
	ended = !releaser->threads;
	pthread_mutex_unlock(&releaser->lock);
	if (ended)
		free(releaser); /* else a thread that is stuck still looks at it */
}
