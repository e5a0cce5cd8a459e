/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/lock.h"
#include "link/wire/share.h"

struct simhca_way {
	struct simhca_way *next;
	union simhca_gid address;
	uint32_t qps; /* under the lock */
	_Atomic uint32_t busy;
};

void simhca_ways_open(struct simhca_ways *ways)
{
	simhca_mutex_init(&ways->lock, SIMHCA_LOCK_WAYS);
	ways->first = NULL;
}

void simhca_ways_close(struct simhca_ways *ways)
{
	pthread_mutex_destroy(&ways->lock);
}

void simhca_share_join(struct simhca_ways *ways, struct simhca_share *share,
		       const union simhca_gid *address)
{
	struct simhca_way *way;

	simhca_share_leave(ways, share);
	pthread_mutex_lock(&ways->lock);
	for (way = ways->first; way; way = way->next)
		if (!memcmp(&way->address, address, sizeof(*address)))
			break;
	if (!way && (way = calloc(1, sizeof(*way)))) {
		way->address = *address;
		way->next = ways->first;
		ways->first = way;
	}
	if (way)
		way->qps++;
	pthread_mutex_unlock(&ways->lock);
	share->way = way; /* without memory it is alone */
}

void simhca_share_leave(struct simhca_ways *ways, struct simhca_share *share)
{
	struct simhca_way **link, *way = share->way;

	if (!way)
		return;
	simhca_share_set_busy(share, false);
	share->way = NULL;
	pthread_mutex_lock(&ways->lock);
	if (!--way->qps) {
		for (link = &ways->first; *link != way; link = &(*link)->next)
			;
		*link = way->next;
		free(way);
	}
	pthread_mutex_unlock(&ways->lock);
}

void simhca_share_set_busy(struct simhca_share *share, bool busy)
{
	if (!share->way || share->busy == busy)
		return;
	share->busy = busy;
	/* relaxed: a number by itself, which orders nothing. */
	atomic_fetch_add_explicit(&share->way->busy, busy ? 1u : -1u, memory_order_relaxed);
}

uint32_t simhca_share_count(const struct simhca_share *share)
{
	if (!share->way)
		return 1;
	return atomic_load_explicit(&share->way->busy, memory_order_relaxed) + !share->busy;
}
