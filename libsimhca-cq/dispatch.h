/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Completion callbacks: CQs that this library polls, and calls the `done` of each completion. It
 * uses nothing but ibv_*(), so it works on every verbs device, and knows of none.
 *
 *	dispatch.c		the public calls; what one turn of a CQ is
 *	registry.c		which CQs are served, by their ibv_cq
 *	users.c		who is inside of a CQ's callbacks; waiting until nobody is
 *	rotation.c		which CQ is to be polled next
 *	poll_thread.c	the threads that wait for events, and poll CQs of SOFTIRQ
 *	workqueue.c		the threads that poll CQs of WORKQUEUE
 *
 * A CQ is idle and armed, or waits for its turn, or has it. A turn polls until the CQ is empty and
 * armed, or the budget is used up; then the CQ goes to the end of the queue, so that CQs share a
 * thread fairly. An event makes an idle CQ wait for its turn. One that comes during the turn is
 * remembered, and is good for another turn: that is why none is lost.
 *
 * No lock is held while callbacks run. Locks, in the order of taking them: that of a poll thread,
 * that of a queue of turns or of a registry's bucket, that of a CQ's users. The locks of the lists
 * of threads (poll threads, then the workqueue's) and of waits are taken with none of these held;
 * inside of the latter, those of users.
 *
 * All belongs to the process that made it: a forked child has none of the threads. It can poll
 * DIRECT CQs that it has inherited, and forget the others. So all that it inherits is the registry,
 * whose buckets are whole at any moment; the other lists it begins anew.
 */
#ifndef SIMHCA_CQ_DISPATCH_H
#define SIMHCA_CQ_DISPATCH_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

/* The public calls are the only symbols of the library that others see. */
#pragma GCC visibility push(default)
#include <simhca/cq.h>
#pragma GCC visibility pop

#include "chain.h"
#include "lock.h"
#include "result.h"
#include "simhca-calls.h"

/* Completions that a CQ may deliver before another one has its turn. */
#define SHCA_TURN_BUDGET 64

struct shca_served;
struct shca_poller;

/* A thread that runs callbacks, or frees a CQ. */
struct shca_thread {
	struct shca_served *waits_for; /* the CQ that it is freeing */
};

/* One thread inside of the callbacks of one CQ; lives on that thread's stack. */
struct shca_run {
	struct shca_served *cq;
	struct shca_thread *thread;
	uint32_t process; /* shca_process() when it began */
	LIST_ENTRY(shca_run) link;
};

/* The threads inside of the callbacks of one CQ: one, but for DIRECT. */
struct shca_users {
	pthread_mutex_t lock;
	pthread_cond_t none;
	uint32_t process; /* to which lock and runs belong */
	LIST_HEAD(, shca_run) runs;
	atomic_bool closing; /* no further one may enter */
};

/* The CQs that want to be polled, the one that waits for longest first. */
struct shca_rotation {
	pthread_mutex_t lock;
	TAILQ_HEAD(, shca_served) ready;
	uint32_t length;
	uint64_t taken; /* turns, ever */
	/* Called with the lock held when somebody waits for a turn; may be NULL. */
	void (*added)(struct shca_rotation *turns);
};

enum shca_served_state {
	SHCA_SERVED_IDLE,
	SHCA_SERVED_READY, /* in turns->ready */
	SHCA_SERVED_RUNNING,
};

/* A CQ of simhcadv_alloc_cq(). */
struct shca_served {
	struct ibv_cq *cq;
	uint32_t process; /* shca_process() of the one that allocated it */
	enum simhcadv_poll_context poll_ctx;
	struct shca_users users;
	struct shca_chain bucket_link;

	/* But for DIRECT. state and again: under turns->lock. */
	struct shca_poller *poller;
	LIST_ENTRY(shca_served) poller_link;
	struct shca_rotation *turns;
	enum shca_served_state state;
	bool again; /* an event came during the turn */
	TAILQ_ENTRY(shca_served) ready_link;
};

/* dispatch.c: one turn, between taking it and ending it; whether the CQ wants another one. */
bool shca_served_turn(struct shca_served *served, const struct shca_run *run);
/* A thread that takes none of the program's signals. Returns 0 or errno. */
int shca_start_thread(pthread_t *thread, const char *name, void *(*run)(void *), void *arg);

/* registry.c: the CQ with its bucket locked, or NULL with nothing locked */
struct shca_served *shca_registry_find(const struct ibv_cq *cq);
void shca_registry_unlock(const struct ibv_cq *cq);
void shca_registry_add(struct shca_served *served);
void shca_registry_remove(struct shca_served *served);

/* users.c: false from enter if the CQ is being freed */
int shca_users_init(struct shca_users *users);
void shca_users_destroy(struct shca_users *users);
/* In a forked child, with the bucket locked: the threads of the parent are not in there. */
void shca_users_adopt(struct shca_users *users);
bool shca_users_enter(struct shca_served *served, struct shca_run *run);
void shca_users_exit(struct shca_run *run);
/* Nobody may enter from now on; returns 0, or EALREADY if that is so already. */
int shca_users_close(struct shca_served *served);
/* Wait until nobody is in there; EDEADLK if that would never come. */
int shca_users_wait(struct shca_served *served);
void shca_users_reopen(struct shca_served *served);

/* rotation.c */
void shca_rotation_init(struct shca_rotation *turns, void (*added)(struct shca_rotation *));
void shca_rotation_destroy(struct shca_rotation *turns);
void shca_rotation_want(struct shca_served *served);
/* The next CQ, entered; NULL if none wants a turn. */
struct shca_served *shca_rotation_take(struct shca_rotation *turns, struct shca_run *run);
struct shca_served *shca_rotation_take_locked(struct shca_rotation *turns, struct shca_run *run);
/* The turn is over. The CQ may be gone when this returns. */
void shca_rotation_end(struct shca_served *served, struct shca_run *run, bool more);
/* Nobody is inside of the CQ, and nobody may enter. */
void shca_rotation_leave(struct shca_served *served);
uint32_t shca_rotation_length(struct shca_rotation *turns);

/* poll_thread.c: NULL and errno on failure */
struct shca_poller *shca_poller_get(struct ibv_context *context, int comp_vector, bool workqueue);
void shca_poller_put(struct shca_poller *poller);
struct ibv_comp_channel *shca_poller_channel(const struct shca_poller *poller);
/* Polls the CQ once, and whenever it has events from now on. */
void shca_poller_add(struct shca_poller *poller, struct shca_served *served);
/* The CQ is about to be destroyed: its events are left alone. Followed by gone, or by add and gone.
 */
void shca_poller_remove(struct shca_poller *poller, struct shca_served *served);
void shca_poller_gone(struct shca_poller *poller);
/* There are no events any more: poll the CQs without, now and then. */
void shca_poller_lost(struct shca_poller *poller);
void shca_poller_kick(struct shca_poller *poller);

/* workqueue.c: NULL and errno on failure */
struct shca_rotation *shca_workqueue_get(void);
void shca_workqueue_put(struct shca_rotation *turns);

#endif
