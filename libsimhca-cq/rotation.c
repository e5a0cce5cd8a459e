/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Which CQ is polled next: one after the other. */
#include "dispatch.h"

void shca_rotation_init(struct shca_rotation *turns, void (*added)(struct shca_rotation *))
{
	pthread_mutex_init(&turns->lock, NULL);
	TAILQ_INIT(&turns->ready);
	turns->length = 0;
	turns->taken = 0;
	turns->added = added;
}

void shca_rotation_destroy(struct shca_rotation *turns)
{
	pthread_mutex_destroy(&turns->lock);
}

static void append(struct shca_rotation *turns, struct shca_served *served)
{
	served->state = SHCA_SERVED_READY;
	TAILQ_INSERT_TAIL(&turns->ready, served, ready_link);
	turns->length++;
	if (turns->added)
		turns->added(turns);
}

static void take_off(struct shca_rotation *turns, struct shca_served *served)
{
	served->state = SHCA_SERVED_IDLE;
	TAILQ_REMOVE(&turns->ready, served, ready_link);
	turns->length--;
}

void shca_rotation_want(struct shca_served *served)
{
	struct shca_rotation *turns = served->turns;

	pthread_mutex_lock(&turns->lock);
	if (served->state == SHCA_SERVED_IDLE)
		append(turns, served);
	else if (served->state == SHCA_SERVED_RUNNING)
		served->again = true;
	pthread_mutex_unlock(&turns->lock);
}

struct shca_served *shca_rotation_take_locked(struct shca_rotation *turns, struct shca_run *run)
{
	struct shca_served *served;

	while ((served = TAILQ_FIRST(&turns->ready))) {
		take_off(turns, served);
		/* One that is being freed has no turn; should it stay, it asks anew. */
		if (!shca_users_enter(served, run))
			continue;
		served->state = SHCA_SERVED_RUNNING;
		served->again = false;
		turns->taken++;
		if (turns->length && turns->added)
			turns->added(turns);
		return served;
	}
	return NULL;
}

struct shca_served *shca_rotation_take(struct shca_rotation *turns, struct shca_run *run)
{
	struct shca_served *served;

	pthread_mutex_lock(&turns->lock);
	served = shca_rotation_take_locked(turns, run);
	pthread_mutex_unlock(&turns->lock);
	return served;
}

void shca_rotation_end(struct shca_served *served, struct shca_run *run, bool more)
{
	struct shca_rotation *turns = served->turns;

	pthread_mutex_lock(&turns->lock);
	served->state = SHCA_SERVED_IDLE;
	if (more || served->again)
		append(turns, served);
	/* Inside of the lock: who frees the CQ takes it, too, after it was awaited here. */
	shca_users_exit(run);
	pthread_mutex_unlock(&turns->lock);
}

void shca_rotation_leave(struct shca_served *served)
{
	struct shca_rotation *turns = served->turns;

	pthread_mutex_lock(&turns->lock);
	if (served->state == SHCA_SERVED_READY)
		take_off(turns, served);
	pthread_mutex_unlock(&turns->lock);
}

uint32_t shca_rotation_length(struct shca_rotation *turns)
{
	uint32_t length;

	pthread_mutex_lock(&turns->lock);
	length = turns->length;
	pthread_mutex_unlock(&turns->lock);
	return length;
}
