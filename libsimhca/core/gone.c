/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <pthread.h>
#include <stdlib.h>

#include "fabric.h"
#include "gone.h"
#include "lock.h"
#include "simhca-clock.h"

#define PLACES 1024   /* a power of two */
#define SUCCESSORS 16 /* that are followed */

struct gone_key {
	struct simhca_gone_key was; /* key 0: none */
	uint32_t next;		    /* the key that the same memory got; 0: none yet */
	uint64_t time_ns;
};

struct simhca_gone {
	pthread_mutex_t lock; /* held for moments */
	struct gone_key by_index[PLACES];
	uint32_t by_addr[PLACES]; /* the key that went last */
};

struct simhca_gone *simhca_gone_create(void)
{
	struct simhca_gone *gone = calloc(1, sizeof(*gone));

	if (gone)
		simhca_mutex_init(&gone->lock, SIMHCA_LOCK_GONE);
	return gone;
}

void simhca_gone_free(struct simhca_gone *gone)
{
	if (gone)
		pthread_mutex_destroy(&gone->lock);
	free(gone);
}

static uint32_t *place_of_addr(struct simhca_gone *gone, uint32_t pd, uint64_t addr)
{
	uint64_t mixed = (addr ^ (uint64_t)pd << 48) * 0x9e3779b97f4a7c15ull;

	return &gone->by_addr[mixed >> 54];
}

static struct gone_key *find(struct simhca_gone *gone, uint32_t pd, uint32_t key)
{
	struct gone_key *found = &gone->by_index[SIMHCA_KEY_INDEX(key) % PLACES];

	return found->was.key == key && key && found->was.pd == pd ? found : NULL;
}

void simhca_gone_add(struct simhca_gone *gone, const struct simhca_gone_key *region)
{
	pthread_mutex_lock(&gone->lock);
	gone->by_index[SIMHCA_KEY_INDEX(region->key) % PLACES] =
		(struct gone_key){ .was = *region, .time_ns = simhca_now_ns() };
	if (!region->window && !region->changed)
		*place_of_addr(gone, region->pd, region->addr) = region->key;
	pthread_mutex_unlock(&gone->lock);
}

void simhca_gone_follow(struct simhca_gone *gone, const struct simhca_gone_key *region)
{
	struct gone_key *before;

	pthread_mutex_lock(&gone->lock);
	before = find(gone, region->pd, *place_of_addr(gone, region->pd, region->addr));
	if (before && before->was.addr == region->addr && before->was.length == region->length)
		before->next = region->key;
	pthread_mutex_unlock(&gone->lock);
}

static bool in_range(const struct simhca_failure *failure, uint64_t iova, uint64_t length)
{
	const uint64_t offset = failure->va - iova;

	return failure->va >= iova && offset <= length && failure->bytes <= length - offset;
}

/* The key is alive, and the access is one that it granted before it was changed, and does not now. */
static bool is_by_change(const struct simhca_failure *failure, const struct simhca_gone_key *was)
{
	const struct simhca_key_facts *now = &failure->entry;

	return was->changed && in_range(failure, was->iova, was->length) &&
	       (!now->has_range || !in_range(failure, now->iova, now->length) ||
		(was->access & ~now->access));
}

void simhca_gone_facts(struct simhca_gone *gone, const struct simhca_failure *failure,
		       struct simhca_gone_facts *facts)
{
	const bool alive =
		failure->entry.key == failure->key && failure->entry.type != SIMHCA_MPT_FREE;
	const struct gone_key *found, *next;

	*facts = (struct simhca_gone_facts){ 0 };
	pthread_mutex_lock(&gone->lock);
	found = find(gone, failure->pd, failure->key);
	if (found && (!alive || is_by_change(failure, &found->was))) {
		facts->was = true;
		facts->ago_ns = simhca_now_ns() - found->time_ns;
		facts->iova = found->was.iova;
		facts->length = found->was.length;
		facts->window = found->was.window;
		facts->changed = alive;
		facts->now_key = found->next;
		/* The key that followed may be gone as well: the last of the row is the one to name. */
		for (int i = 0; i < SUCCESSORS; i++) {
			next = find(gone, failure->pd, facts->now_key);
			if (!next || next->was.changed)
				break;
			facts->now_key = next->next;
		}
	}
	pthread_mutex_unlock(&gone->lock);
}
