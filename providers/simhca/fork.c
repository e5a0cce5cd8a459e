/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What is held while the program forks, so that the child inherits lists that nobody is changing
 * and no mutex that a thread of the parent holds. The locks of queues need none of this (lock.h).
 *
 * libibverbs counts the CQs of a channel under its context's mutex and does not think of fork(): a
 * child that makes a CQ in an inherited context would wait for it for ever.
 */
#include "callbacks/dispatch.h"

static pthread_mutex_t contexts_lock = PTHREAD_MUTEX_INITIALIZER;
static LIST_HEAD(, shca_context) contexts;

void shca_fork_add(struct shca_context *ctx)
{
	pthread_mutex_lock(&contexts_lock);
	LIST_INSERT_HEAD(&contexts, ctx, link);
	pthread_mutex_unlock(&contexts_lock);
}

void shca_fork_remove(struct shca_context *ctx)
{
	pthread_mutex_lock(&contexts_lock);
	LIST_REMOVE(ctx, link);
	pthread_mutex_unlock(&contexts_lock);
}

/* Those of libibverbs last: poll threads open and close channels with a lock of theirs held. */
static void before_fork(void)
{
	struct shca_context *ctx;

	shca_pollers_before_fork();
	shca_workqueue_before_fork();
	shca_users_before_fork();
	shca_registry_before_fork();
	pthread_mutex_lock(&contexts_lock);
	for (ctx = LIST_FIRST(&contexts); ctx; ctx = LIST_NEXT(ctx, link))
		pthread_mutex_lock(&ctx->vctx.context.mutex);
}

static void after_fork(void)
{
	struct shca_context *ctx;

	for (ctx = LIST_FIRST(&contexts); ctx; ctx = LIST_NEXT(ctx, link))
		pthread_mutex_unlock(&ctx->vctx.context.mutex);
	pthread_mutex_unlock(&contexts_lock);
	shca_registry_after_fork();
	shca_users_after_fork();
	shca_workqueue_after_fork();
	shca_pollers_after_fork();
}

static __attribute__((constructor)) void watch_forks(void)
{
	pthread_atfork(before_fork, after_fork, after_fork);
}
