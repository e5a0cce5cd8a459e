/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Who is inside of a CQ's callbacks. To free a CQ is to let nobody in any more and to wait until
 * those inside have left. A callback may free CQs, too, so such waits can form a circle: that of a
 * callback which frees its own CQ, or of two that free each other's. The one who would close the
 * circle gets EDEADLK.
 */
#include "dispatch.h"

static _Thread_local struct shca_thread self;

/* Protects waits_for of all threads. */
static struct shca_mutex waits_lock;

int shca_users_init(struct shca_users *users)
{
	int err = pthread_mutex_init(&users->lock, NULL);

	if (err)
		return err;
	err = pthread_cond_init(&users->none, NULL);
	if (err) {
		pthread_mutex_destroy(&users->lock);
		return err;
	}
	users->process = shca_process();
	LIST_INIT(&users->runs);
	atomic_init(&users->closing, false);
	return 0;
}

void shca_users_destroy(struct shca_users *users)
{
	pthread_cond_destroy(&users->none);
	pthread_mutex_destroy(&users->lock);
}

void shca_users_adopt(struct shca_users *users)
{
	if (users->process != shca_process())
		shca_users_init(users);
}

bool shca_users_enter(struct shca_served *served, struct shca_run *run)
{
	struct shca_users *users = &served->users;
	bool entered = false;

	run->cq = served;
	run->thread = &self;
	run->process = shca_process();
	pthread_mutex_lock(&users->lock);
	if (!atomic_load_explicit(&users->closing, memory_order_relaxed)) {
		LIST_INSERT_HEAD(&users->runs, run, link);
		entered = true;
	}
	pthread_mutex_unlock(&users->lock);
	return entered;
}

void shca_users_exit(struct shca_run *run)
{
	struct shca_users *users = &run->cq->users;

	/* A callback has forked, and this is the child. */
	if (run->process != shca_process())
		return;
	pthread_mutex_lock(&users->lock);
	LIST_REMOVE(run, link);
	if (LIST_EMPTY(&users->runs))
		pthread_cond_broadcast(&users->none);
	pthread_mutex_unlock(&users->lock);
}

int shca_users_close(struct shca_served *served)
{
	struct shca_users *users = &served->users;
	bool closing;

	pthread_mutex_lock(&users->lock);
	closing = atomic_exchange_explicit(&users->closing, true, memory_order_relaxed);
	pthread_mutex_unlock(&users->lock);
	return closing ? EALREADY : 0;
}

/*
 * Whether those inside of the CQ wait for this thread, maybe by way of others. Each CQ on the way
 * is being freed, so nobody enters it meanwhile; and who waits began to before we took the lock of
 * waits. As no circle was ever closed, this comes to an end.
 */
static bool waits_for_us(struct shca_served *served)
{
	struct shca_users *users = &served->users;
	const struct shca_run *run;
	bool found = false;

	pthread_mutex_lock(&users->lock);
	for (run = LIST_FIRST(&users->runs); run; run = LIST_NEXT(run, link))
		if (run->thread == &self ||
		    (run->thread->waits_for && waits_for_us(run->thread->waits_for))) {
			found = true;
			break;
		}
	pthread_mutex_unlock(&users->lock);
	return found;
}

int shca_users_wait(struct shca_served *served)
{
	SIMHCA_NOT_CANCELLED;
	struct shca_users *users = &served->users;
	bool circle;

	shca_mutex_lock(&waits_lock);
	circle = waits_for_us(served);
	if (!circle)
		self.waits_for = served;
	shca_mutex_unlock(&waits_lock);
	if (circle)
		return EDEADLK;

	pthread_mutex_lock(&users->lock);
	while (!LIST_EMPTY(&users->runs))
		pthread_cond_wait(&users->none, &users->lock);
	pthread_mutex_unlock(&users->lock);

	shca_mutex_lock(&waits_lock);
	self.waits_for = NULL;
	shca_mutex_unlock(&waits_lock);
	return 0;
}

void shca_users_reopen(struct shca_served *served)
{
	pthread_mutex_lock(&served->users.lock);
	atomic_store_explicit(&served->users.closing, false, memory_order_relaxed);
	pthread_mutex_unlock(&served->users.lock);
}
