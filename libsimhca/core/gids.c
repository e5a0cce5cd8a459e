/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <string.h>

#include "av.h"
#include "gids.h"

void simhca_gids_set(struct simhca_gids *gids,
		     const struct simhca_gid_entry entries[SIMHCA_GID_ENTRIES])
{
	uint32_t next = atomic_load_explicit(&gids->generation, memory_order_relaxed) + 1;

	/*
	 * release, with the acquire fence of is_whole(): a reader of the generation before the last that
	 * has read a half stored below finds, afterwards, that its generation is over.
	 */
	atomic_thread_fence(memory_order_release);
	for (int i = 0; i < SIMHCA_GID_ENTRIES; i++) {
		uint64_t half[2];

		memcpy(half, &entries[i].gid, sizeof(half));
		for (int j = 0; j < 2; j++)
			atomic_store_explicit(&gids->half[next & 1][i][j], half[j],
					      memory_order_relaxed);
	}
	/* release, with begin(): who sees this generation sees its copy. */
	atomic_store_explicit(&gids->generation, next, memory_order_release);
}

static uint32_t begin(const struct simhca_gids *gids)
{
	/* acquire, with the store that publishes: the copy of this generation is seen whole. */
	return atomic_load_explicit(&gids->generation, memory_order_acquire);
}

/* Whether no change has begun to write to the copy of that generation while it was read. */
static bool is_whole(const struct simhca_gids *gids, uint32_t generation)
{
	/* acquire, with the release fence of simhca_gids_set(). */
	atomic_thread_fence(memory_order_acquire);
	return atomic_load_explicit(&gids->generation, memory_order_relaxed) == generation;
}

static union simhca_gid read_one(const struct simhca_gids *gids, uint32_t generation,
				 uint32_t index)
{
	const _Atomic uint64_t *from = gids->half[generation & 1][index];
	uint64_t half[2] = { atomic_load_explicit(&from[0], memory_order_relaxed),
			     atomic_load_explicit(&from[1], memory_order_relaxed) };
	union simhca_gid gid;

	memcpy(&gid, half, sizeof(gid));
	return gid;
}

union simhca_gid simhca_gids_get(const struct simhca_gids *gids, uint32_t index)
{
	union simhca_gid gid;
	uint32_t generation;

	do {
		generation = begin(gids);
		gid = read_one(gids, generation, index);
	} while (!is_whole(gids, generation));
	return gid;
}

bool simhca_gids_have(const struct simhca_gids *gids, const union simhca_gid *gid)
{
	uint32_t generation;
	bool have;

	if (simhca_gid_is_empty(gid))
		return false;
	do {
		generation = begin(gids);
		have = false;
		for (uint32_t i = 0; i < SIMHCA_GID_ENTRIES && !have; i++) {
			union simhca_gid one = read_one(gids, generation, i);

			have = !memcmp(&one, gid, sizeof(one));
		}
	} while (!is_whole(gids, generation));
	return have;
}
