/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A list that can be walked after each store to it, so that a child that is forked while a thread of
 * the parent changes it can walk it all the same. Changes are made under a lock. Before a child's
 * first change it has to call shca_chain_inherit(): the change that was under way may have left an
 * element that does not know which one is before it.
 */
#ifndef SHCA_PROVIDER_CHAIN_H
#define SHCA_PROVIDER_CHAIN_H

#include <stdatomic.h>
#include <stddef.h>

/* What has the member that ptr points to. */
#define SHCA_CONTAINER(type, member, ptr) ((type *)((char *)(ptr)-offsetof(type, member)))

struct shca_chain {
	_Atomic(struct shca_chain *) next;   /* of the list: its first element */
	_Atomic(struct shca_chain *) before; /* an element, or the list; nobody walks that way */
};

static inline struct shca_chain *shca_chain_next(const struct shca_chain *link)
{
	return atomic_load_explicit(&link->next, memory_order_acquire);
}

static inline void shca_chain_add(struct shca_chain *list, struct shca_chain *link)
{
	struct shca_chain *first = shca_chain_next(list);

	atomic_store_explicit(&link->next, first, memory_order_relaxed);
	atomic_store_explicit(&link->before, list, memory_order_relaxed);
	/* Release: the element is complete before it is in the list. */
	atomic_store_explicit(&list->next, link, memory_order_release);
	if (first)
		atomic_store_explicit(&first->before, link, memory_order_relaxed);
}

static inline void shca_chain_remove(struct shca_chain *link)
{
	struct shca_chain *next = shca_chain_next(link);
	struct shca_chain *before = atomic_load_explicit(&link->before, memory_order_relaxed);

	atomic_store_explicit(&before->next, next, memory_order_release);
	if (next)
		atomic_store_explicit(&next->before, before, memory_order_relaxed);
}

static inline void shca_chain_inherit(struct shca_chain *list)
{
	for (struct shca_chain *link = list, *next; (next = shca_chain_next(link)); link = next)
		atomic_store_explicit(&next->before, link, memory_order_relaxed);
}

#endif
