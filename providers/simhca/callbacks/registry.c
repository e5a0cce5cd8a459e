/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The CQs of simhcadv_alloc_cq() by their ibv_cq, which belongs to whatever provider the device
 * has, so that nothing can be attached to it.
 */
#include "dispatch.h"

/* ThreadSanitizer cannot count more than 64 locks that one thread holds, as fork() does. */
#define BUCKETS 32

static struct bucket {
	pthread_mutex_t lock;
	LIST_HEAD(, shca_served) cqs;
} buckets[BUCKETS] = { [0 ... BUCKETS - 1] = { .lock = PTHREAD_MUTEX_INITIALIZER } };

static struct bucket *bucket_of(const struct ibv_cq *cq)
{
	/* Fibonacci hashing; allocations have their entropy in the middle bits. */
	return &buckets[((uintptr_t)cq >> 4) * 0x9e3779b97f4a7c15u >> 59];
}

struct shca_served *shca_registry_find(const struct ibv_cq *cq)
{
	struct bucket *bucket = bucket_of(cq);
	struct shca_served *served;

	pthread_mutex_lock(&bucket->lock);
	for (served = LIST_FIRST(&bucket->cqs); served; served = LIST_NEXT(served, bucket_link))
		if (served->cq == cq)
			return served;
	pthread_mutex_unlock(&bucket->lock);
	return NULL;
}

void shca_registry_unlock(const struct ibv_cq *cq)
{
	pthread_mutex_unlock(&bucket_of(cq)->lock);
}

void shca_registry_add(struct shca_served *served)
{
	struct bucket *bucket = bucket_of(served->cq);

	pthread_mutex_lock(&bucket->lock);
	LIST_INSERT_HEAD(&bucket->cqs, served, bucket_link);
	pthread_mutex_unlock(&bucket->lock);
}

void shca_registry_remove(struct shca_served *served)
{
	struct bucket *bucket = bucket_of(served->cq);

	pthread_mutex_lock(&bucket->lock);
	LIST_REMOVE(served, bucket_link);
	pthread_mutex_unlock(&bucket->lock);
}

/* Around fork(): the child inherits lists that nobody is changing. */
void shca_registry_before_fork(void)
{
	for (int i = 0; i < BUCKETS; i++)
		pthread_mutex_lock(&buckets[i].lock);
}

void shca_registry_after_fork(void)
{
	for (int i = BUCKETS - 1; i >= 0; i--)
		pthread_mutex_unlock(&buckets[i].lock);
}
