/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <stdatomic.h>
#include <stdlib.h>

#include "page_map.h"

#define LEVEL_SHIFT 9
#define ENTRIES (1u << LEVEL_SHIFT)
#define WORDS (ENTRIES / 64)
#define MOST_LEAVES (1u << 20) /* of one map: 140 MB */

/* 512 pages. What may be written may be read. */
struct leaf {
	_Atomic uint64_t read[WORDS];
	_Atomic uint64_t write[WORDS];
	atomic_bool unsure;
};

/* An inner node; its children are nodes or, on level 1, leaves. */
struct node {
	void *_Atomic child[ENTRIES];
};

struct simhca_page_map {
	uint64_t pages;
	unsigned int levels; /* of inner nodes */
	void *_Atomic root;
	_Atomic uint32_t leaves;
	_Atomic uint64_t present;
};

struct simhca_page_map *simhca_page_map_create(uint64_t pages)
{
	struct simhca_page_map *map = calloc(1, sizeof(*map));

	if (!map)
		return NULL;
	map->pages = pages;
	for (uint64_t rest = pages ? pages - 1 : 0; rest >> LEVEL_SHIFT; rest >>= LEVEL_SHIFT)
		map->levels++;
	return map;
}

static void free_level(void *entry, unsigned int level)
{
	struct node *node = entry;

	for (unsigned int i = 0; node && level && i < ENTRIES; i++)
		free_level(atomic_load_explicit(&node->child[i], memory_order_relaxed), level - 1);
	free(entry);
}

void simhca_page_map_destroy(struct simhca_page_map *map)
{
	if (!map)
		return;
	free_level(atomic_load(&map->root), map->levels);
	free(map);
}

static struct leaf *find_leaf(const struct simhca_page_map *map, uint64_t page)
{
	/* acquire, here and below: pairs with the release that published a zeroed node. */
	void *entry = atomic_load_explicit(&map->root, memory_order_acquire);

	for (unsigned int level = map->levels; entry && level; level--) {
		const struct node *node = entry;

		entry = atomic_load_explicit(
			&node->child[page >> (level * LEVEL_SHIFT) & (ENTRIES - 1)],
			memory_order_acquire);
	}
	return entry;
}

/* What the link points to, made if need be; several may try at once. */
static void *get_or_make(void *_Atomic *link, size_t size)
{
	void *entry = atomic_load_explicit(link, memory_order_acquire), *made;

	if (entry)
		return entry;
	made = calloc(1, size);
	if (!made)
		return NULL;
	if (atomic_compare_exchange_strong_explicit(link, &entry, made, memory_order_acq_rel,
						    memory_order_acquire))
		return made;
	free(made);
	return entry;
}

static struct leaf *make_leaf(struct simhca_page_map *map, uint64_t page)
{
	struct leaf *leaf = find_leaf(map, page);
	void *_Atomic *link = &map->root;

	if (leaf)
		return leaf;
	if (atomic_fetch_add_explicit(&map->leaves, 1, memory_order_relaxed) >= MOST_LEAVES) {
		atomic_fetch_sub_explicit(&map->leaves, 1, memory_order_relaxed);
		return NULL;
	}
	for (unsigned int level = map->levels; level; level--) {
		struct node *node = get_or_make(link, sizeof(*node));

		if (!node)
			return NULL;
		link = &node->child[page >> (level * LEVEL_SHIFT) & (ENTRIES - 1)];
	}
	return get_or_make(link, sizeof(struct leaf));
}

/* The bits of [first, first + count) that lie in one word; moves on by them. */
static uint64_t take_word(uint64_t *first, uint64_t *count, unsigned int *word)
{
	unsigned int bit = *first % 64;
	uint64_t bits = 64 - bit < *count ? 64 - bit : *count;
	uint64_t mask = (bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1) << bit;

	*word = (unsigned int)(*first % ENTRIES / 64);
	*first += bits;
	*count -= bits;
	return mask;
}

/* The pages of [first, first + count) that lie in one leaf. */
static uint64_t in_leaf(uint64_t first, uint64_t count)
{
	uint64_t left = ENTRIES - first % ENTRIES;

	return left < count ? left : count;
}

static bool outside(const struct simhca_page_map *map, uint64_t first, uint64_t count)
{
	return first >= map->pages || count > map->pages - first;
}

enum simhca_page_state simhca_page_map_look(const struct simhca_page_map *map, uint64_t first,
					    uint64_t count, bool write)
{
	enum simhca_page_state state = SIMHCA_PAGES_PRESENT;

	if (outside(map, first, count))
		return SIMHCA_PAGES_ABSENT;
	while (count) {
		uint64_t here = in_leaf(first, count);
		const struct leaf *leaf = find_leaf(map, first);

		if (!leaf)
			return SIMHCA_PAGES_ABSENT;
		count -= here;
		while (here) {
			unsigned int word;
			uint64_t mask = take_word(&first, &here, &word);

			if (mask &
			    ~atomic_load_explicit(write ? &leaf->write[word] : &leaf->read[word],
						  memory_order_relaxed))
				return SIMHCA_PAGES_ABSENT;
		}
		if (atomic_load_explicit(&leaf->unsure, memory_order_relaxed))
			state = SIMHCA_PAGES_UNSURE;
	}
	return state;
}

uint64_t simhca_page_map_add(struct simhca_page_map *map, uint64_t first, uint64_t count,
			     bool write, bool unsure)
{
	uint64_t added = 0;

	if (outside(map, first, count))
		return 0;
	while (count) {
		uint64_t here = in_leaf(first, count);
		struct leaf *leaf = make_leaf(map, first);

		count -= here;
		if (!leaf) {
			first += here;
			continue;
		}
		if (unsure)
			atomic_store_explicit(&leaf->unsure, true, memory_order_relaxed);
		while (here) {
			unsigned int word;
			uint64_t mask = take_word(&first, &here, &word);

			added += (uint64_t)__builtin_popcountll(
				mask & ~atomic_fetch_or(&leaf->read[word], mask));
			if (write)
				atomic_fetch_or(&leaf->write[word], mask);
		}
	}
	atomic_fetch_add_explicit(&map->present, added, memory_order_relaxed);
	return added;
}

/* Of one leaf: pages [first, first + count) of the map. */
static uint64_t remove_from(struct leaf *leaf, uint64_t first, uint64_t count)
{
	uint64_t removed = 0;

	while (count) {
		unsigned int word;
		uint64_t mask = take_word(&first, &count, &word);

		atomic_fetch_and(&leaf->write[word], ~mask);
		removed += (uint64_t)__builtin_popcountll(
			mask & atomic_fetch_and(&leaf->read[word], ~mask));
	}
	return removed;
}

/* base: the first page below entry. Whole subtrees that were never made cost one look. */
static uint64_t remove_below(void *entry, unsigned int level, uint64_t base, uint64_t first,
			     uint64_t last)
{
	struct node *node = entry;
	uint64_t removed = 0, span = UINT64_C(1) << (level * LEVEL_SHIFT);
	uint64_t from = first > base ? (first - base) / span : 0;

	if (!level)
		return remove_from(entry, first > base ? first : base,
				   (last < base + ENTRIES - 1 ? last : base + ENTRIES - 1) -
					   (first > base ? first : base) + 1);
	for (uint64_t i = from; i < ENTRIES && base + i * span <= last; i++) {
		void *child = atomic_load_explicit(&node->child[i], memory_order_acquire);

		if (child)
			removed += remove_below(child, level - 1, base + i * span, first, last);
	}
	return removed;
}

uint64_t simhca_page_map_remove(struct simhca_page_map *map, uint64_t first, uint64_t count)
{
	void *root = atomic_load_explicit(&map->root, memory_order_acquire);
	uint64_t removed;

	if (!root || !count || first >= map->pages)
		return 0;
	if (count > map->pages - first)
		count = map->pages - first;
	removed = remove_below(root, map->levels, 0, first, first + count - 1);
	atomic_fetch_sub_explicit(&map->present, removed, memory_order_relaxed);
	return removed;
}

uint64_t simhca_page_map_present(const struct simhca_page_map *map)
{
	return atomic_load_explicit(&map->present, memory_order_relaxed);
}
