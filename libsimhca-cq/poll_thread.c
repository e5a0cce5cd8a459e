/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Poll threads. One per context and completion vector has the CQs of SOFTIRQ, and polls them
 * itself; one per context has those of WORKQUEUE, and passes them on. It begins with the first of
 * its CQs and ends with the last.
 *
 * It sleeps in simhca_call_poll() on two descriptors: the channel that all its CQs have in common, and an
 * eventfd, by which other threads tell it to look again. While it has CQs that want a turn it
 * looks at both after each round of turns, and does not sleep.
 *
 * When the device is gone there are no events any more, neither for what waits in the CQs nor for
 * what is flushed later. Then it polls by the clock, at longer and longer intervals.
 */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "dispatch.h"

#define LOST_MS_MIN 1
#define LOST_MS_MAX 1000

#define VECTOR_OF_WORKQUEUE (-1)

struct shca_poller {
	struct ibv_context *context;
	int comp_vector;
	uint32_t process; /* where the thread lives */
	uint32_t refs;	  /* CQs, under pollers_lock */
	struct ibv_comp_channel *channel;
	int kick_fd; /* eventfd */
	pthread_t thread;
	atomic_bool stop;
	atomic_bool lost;	  /* no events come any more */
	struct shca_rotation own; /* of SOFTIRQ */
	struct shca_rotation *turns;
	LIST_ENTRY(shca_poller) link;

	pthread_mutex_t lock;
	LIST_HEAD(, shca_served) cqs;
	uint32_t destroying; /* CQs; the channel is not read meanwhile */
};

static struct shca_mutex pollers_lock;
static LIST_HEAD(, shca_poller) pollers;

void shca_poller_kick(struct shca_poller *poller)
{
	const uint64_t one = 1;

	while (simhca_call_write(poller->kick_fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

struct ibv_comp_channel *shca_poller_channel(const struct shca_poller *poller)
{
	return poller->channel;
}

void shca_poller_lost(struct shca_poller *poller)
{
	if (!atomic_exchange(&poller->lost, true))
		shca_poller_kick(poller);
}

/* ---------------------------------------------------------------------------- the thread */

/*
 * Everyone with an event wants a turn. False if the channel has failed.
 *
 * ibv_get_cq_event() looks into the CQ before it can be acknowledged, and a device that is dead
 * destroys without waiting for that; so nothing is read while a CQ is being destroyed. CQs that
 * we find are not: they are taken off under the lock first.
 */
static bool read_events(struct shca_poller *poller)
{
	struct shca_served *served;
	struct ibv_cq *cq;
	void *unused;
	bool failed = false;

	pthread_mutex_lock(&poller->lock);
	while (!poller->destroying) {
		errno = 0; /* as it stays at the end of the file */
		if (ibv_get_cq_event(poller->channel, &cq, &unused)) {
			failed = errno != EAGAIN && errno != EINTR;
			break;
		}
		ibv_ack_cq_events(cq, 1);
		served = shca_registry_find(cq);
		if (!served)
			continue;
		shca_registry_unlock(cq);
		shca_rotation_want(served);
	}
	pthread_mutex_unlock(&poller->lock);
	return !failed;
}

static void want_all(struct shca_poller *poller)
{
	struct shca_served *served;

	pthread_mutex_lock(&poller->lock);
	for (served = LIST_FIRST(&poller->cqs); served; served = LIST_NEXT(served, poller_link))
		shca_rotation_want(served);
	pthread_mutex_unlock(&poller->lock);
}

static bool is_destroying(struct shca_poller *poller)
{
	bool destroying;

	pthread_mutex_lock(&poller->lock);
	destroying = poller->destroying;
	pthread_mutex_unlock(&poller->lock);
	return destroying;
}

/* One turn for each CQ that wants one now. False in a child that a callback has forked. */
static bool run_round(struct shca_poller *poller)
{
	uint32_t turns = shca_rotation_length(&poller->own);
	struct shca_served *served;
	struct shca_run run;
	bool more;

	while (turns-- && (served = shca_rotation_take(&poller->own, &run))) {
		more = shca_served_turn(served, &run);
		if (poller->process != shca_process())
			return false;
		shca_rotation_end(served, &run, more);
	}
	return true;
}

static void *poll_thread(void *arg)
{
	struct shca_poller *poller = arg;
	struct pollfd fds[2] = { { .fd = poller->kick_fd, .events = POLLIN },
				 { .events = POLLIN } };
	bool has_channel = true, was_lost = false;
	int lost_ms = LOST_MS_MIN;
	int timeout, ready;
	uint64_t unused;

	while (!atomic_load(&poller->stop)) {
		if (shca_rotation_length(&poller->own))
			timeout = 0;
		else
			timeout = was_lost ? lost_ms : -1;
		fds[1].fd = has_channel && !is_destroying(poller) ? poller->channel->fd : -1;
		ready = simhca_call_poll(fds, 2, timeout);
		if (ready < 0)
			continue;
		if (fds[0].revents)
			simhca_call_read(poller->kick_fd, &unused, sizeof(unused));
		if (fds[1].revents && !read_events(poller)) {
			has_channel = false;
			atomic_store(&poller->lost, true);
		}
		if (!was_lost && atomic_load(&poller->lost)) {
			was_lost = true;
			want_all(poller);
		} else if (was_lost && !ready && timeout) {
			lost_ms = lost_ms * 2 < LOST_MS_MAX ? lost_ms * 2 : LOST_MS_MAX;
			want_all(poller);
		}
		if (!run_round(poller))
			break;
	}
	return NULL;
}

/* ------------------------------------------------------------------------------ its life */

static int open_channel(struct shca_poller *poller)
{
	int flags;

	poller->channel = ibv_create_comp_channel(poller->context);
	if (!poller->channel)
		return errno;
	flags = fcntl(poller->channel->fd, F_GETFL);
	if (flags < 0 || fcntl(poller->channel->fd, F_SETFL, flags | O_NONBLOCK))
		return errno;
	poller->kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return poller->kick_fd < 0 ? errno : 0;
}

static int start(struct shca_poller *poller)
{
	char name[16]; /* the kernel takes 15 characters */

	if (poller->comp_vector == VECTOR_OF_WORKQUEUE)
		snprintf(name, sizeof(name), "simhca-cq/wq");
	else
		snprintf(name, sizeof(name), "simhca-cq/%u",
			 (unsigned int)poller->comp_vector % 1000);
	return shca_start_thread(&poller->thread, name, poll_thread, poller);
}

/* The thread has ended, or never began. */
static void destroy(struct shca_poller *poller)
{
	if (poller->turns && poller->turns != &poller->own)
		shca_workqueue_put(poller->turns);
	if (poller->kick_fd >= 0)
		simhca_call_close(poller->kick_fd);
	if (poller->channel)
		ibv_destroy_comp_channel(poller->channel);
	shca_rotation_destroy(&poller->own);
	pthread_mutex_destroy(&poller->lock);
	free(poller);
}

static struct shca_poller *create(struct ibv_context *context, int comp_vector)
{
	struct shca_poller *poller = calloc(1, sizeof(*poller));
	int err;

	if (!poller)
		return shca_null(ENOMEM);
	poller->context = context;
	poller->comp_vector = comp_vector;
	poller->process = shca_process();
	poller->kick_fd = -1;
	pthread_mutex_init(&poller->lock, NULL);
	LIST_INIT(&poller->cqs);
	shca_rotation_init(&poller->own, NULL);
	err = open_channel(poller);
	if (!err) {
		poller->turns =
			comp_vector == VECTOR_OF_WORKQUEUE ? shca_workqueue_get() : &poller->own;
		err = poller->turns ? start(poller) : errno;
	}
	if (err) {
		destroy(poller);
		return shca_null(err);
	}
	return poller;
}

struct shca_poller *shca_poller_get(struct ibv_context *context, int comp_vector, bool workqueue)
{
	SIMHCA_NOT_CANCELLED;
	struct shca_poller *poller;

	if (workqueue)
		comp_vector = VECTOR_OF_WORKQUEUE;
	/* Those of a parent process belong to it. */
	if (shca_mutex_lock(&pollers_lock))
		LIST_INIT(&pollers);
	for (poller = LIST_FIRST(&pollers); poller; poller = LIST_NEXT(poller, link))
		if (poller->context == context && poller->comp_vector == comp_vector)
			break;
	if (!poller) {
		poller = create(context, comp_vector);
		if (poller)
			LIST_INSERT_HEAD(&pollers, poller, link);
	}
	if (poller)
		poller->refs++;
	shca_mutex_unlock(&pollers_lock);
	return poller;
}

/* Not called by the thread itself: a callback's own CQ is still there. */
void shca_poller_put(struct shca_poller *poller)
{
	SIMHCA_NOT_CANCELLED;
	bool last;

	shca_mutex_lock(&pollers_lock);
	last = !--poller->refs;
	if (last)
		LIST_REMOVE(poller, link);
	shca_mutex_unlock(&pollers_lock);
	if (!last)
		return;
	atomic_store(&poller->stop, true);
	shca_poller_kick(poller);
	pthread_join(poller->thread, NULL);
	destroy(poller);
}

void shca_poller_add(struct shca_poller *poller, struct shca_served *served)
{
	served->turns = poller->turns;
	pthread_mutex_lock(&poller->lock);
	LIST_INSERT_HEAD(&poller->cqs, served, poller_link);
	pthread_mutex_unlock(&poller->lock);
	shca_rotation_want(served);
	shca_poller_kick(poller);
}

void shca_poller_remove(struct shca_poller *poller, struct shca_served *served)
{
	pthread_mutex_lock(&poller->lock);
	LIST_REMOVE(served, poller_link);
	poller->destroying++;
	pthread_mutex_unlock(&poller->lock);
	shca_rotation_leave(served);
}

void shca_poller_gone(struct shca_poller *poller)
{
	pthread_mutex_lock(&poller->lock);
	poller->destroying--;
	pthread_mutex_unlock(&poller->lock);
	shca_poller_kick(poller);
}
