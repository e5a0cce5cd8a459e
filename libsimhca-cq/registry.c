/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The CQs of simhcadv_alloc_cq() by their ibv_cq, which belongs to whatever provider the device
 * has, so that nothing can be attached to it.
 */
#include "dispatch.h"

#define BUCKETS 32

static struct bucket {
	struct shca_mutex lock;
	struct shca_chain cqs;
} buckets[BUCKETS];

static struct bucket *bucket_of(const struct ibv_cq *cq)
{
	/* Fibonacci hashing; allocations have their entropy in the middle bits. */
	return &buckets[((uintptr_t)cq >> 4) * 0x9e3779b97f4a7c15u >> 59];
}

static void lock_bucket(struct bucket *bucket)
{
	if (shca_mutex_lock(&bucket->lock))
		shca_chain_inherit(&bucket->cqs);
}

struct shca_served *shca_registry_find(const struct ibv_cq *cq)
{
	struct bucket *bucket = bucket_of(cq);
	struct shca_served *served;
	struct shca_chain *link;

	lock_bucket(bucket);
	for (link = shca_chain_next(&bucket->cqs); link; link = shca_chain_next(link)) {
		served = SHCA_CONTAINER(struct shca_served, bucket_link, link);
		if (served->cq == cq)
			return served;
	}
	shca_mutex_unlock(&bucket->lock);
	return NULL;
}

void shca_registry_unlock(const struct ibv_cq *cq)
{
	shca_mutex_unlock(&bucket_of(cq)->lock);
}

void shca_registry_add(struct shca_served *served)
{
	struct bucket *bucket = bucket_of(served->cq);

	lock_bucket(bucket);
	shca_chain_add(&bucket->cqs, &served->bucket_link);
	shca_mutex_unlock(&bucket->lock);
}

void shca_registry_remove(struct shca_served *served)
{
	struct bucket *bucket = bucket_of(served->cq);

	lock_bucket(bucket);
	shca_chain_remove(&served->bucket_link);
	shca_mutex_unlock(&bucket->lock);
}
