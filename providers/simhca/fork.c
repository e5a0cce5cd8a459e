/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * libibverbs counts the CQs of a channel under its context's mutex and does not think of fork(): a
 * child that makes a CQ in an inherited context could wait for ever for a thread of its parent. So
 * a child makes these mutexes anew: after the fork, and before each command, should a handler of
 * the program's own come first. Our own locks need none of this (lock.h).
 */
#include "chain.h"
#include "provider.h"

static struct shca_mutex contexts_lock;
static struct shca_chain contexts;

static void lock_contexts(void)
{
	if (shca_mutex_lock(&contexts_lock))
		shca_chain_inherit(&contexts);
}

void shca_fork_add(struct shca_context *ctx)
{
	/* Its mutex is one of this process. */
	atomic_init(&ctx->process, shca_process());
	lock_contexts();
	shca_chain_add(&contexts, &ctx->link);
	shca_mutex_unlock(&contexts_lock);
}

void shca_fork_remove(struct shca_context *ctx)
{
	lock_contexts();
	shca_chain_remove(&ctx->link);
	shca_mutex_unlock(&contexts_lock);
}

void shca_fork_inherit(struct shca_context *ctx)
{
	shca_mutex_inherit(&ctx->vctx.context.mutex, &ctx->process, &ctx->inheriting);
}

static void after_fork(void)
{
	struct shca_chain *link;

	for (link = shca_chain_next(&contexts); link; link = shca_chain_next(link))
		shca_fork_inherit(SHCA_CONTAINER(struct shca_context, link, link));
}

static __attribute__((constructor)) void watch_forks(void)
{
	pthread_atfork(NULL, NULL, after_fork);
}
