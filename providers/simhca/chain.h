/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A list that is whole after each store to it, so that a child that is forked while a thread of the
 * parent changes it can walk it all the same. Changes are made under a lock.
 */
#ifndef SHCA_PROVIDER_CHAIN_H
#define SHCA_PROVIDER_CHAIN_H

#include <stdatomic.h>

struct shca_chain {
	_Atomic(struct shca_chain *) next; /* of the list: its first element */
};

static inline struct shca_chain *shca_chain_next(const struct shca_chain *link)
{
	return atomic_load_explicit(&link->next, memory_order_acquire);
}

static inline void shca_chain_add(struct shca_chain *list, struct shca_chain *link)
{
	atomic_store_explicit(&link->next, shca_chain_next(list), memory_order_relaxed);
	/* Release: the element is complete before it is in the list. */
	atomic_store_explicit(&list->next, link, memory_order_release);
}

static inline void shca_chain_remove(struct shca_chain *list, struct shca_chain *link)
{
	while (list && shca_chain_next(list) != link)
		list = shca_chain_next(list);
	if (list)
		atomic_store_explicit(&list->next, shca_chain_next(link), memory_order_release);
}

#endif
