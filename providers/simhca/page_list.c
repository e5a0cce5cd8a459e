/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Page lists of fast registration, and to whom each belongs. Posting takes a list for the slot of
 * its work request in the send queue; polling, resetting or destroying gives it back with the slot.
 * In between a second post of the list, and the attempt to free it, are refused.
 */
#include <stdlib.h>

#include "page_list.h"
#include "say.h"

struct simhcadv_page_list *simhcadv_alloc_page_list(struct ibv_context *context,
						    uint32_t max_page_list_len)
{
	struct shca_page_list *list;
	uint32_t most;

	if (!shca_is_ours(context->device))
		return shca_null(EOPNOTSUPP);
	most = to_sctx(context)->dev->attr.max_fast_reg_page_list_len;
	if (!max_page_list_len || max_page_list_len > most) {
		shca_warn(to_sctx(context), "max_page_list_len = %u: 1 to %u\n", max_page_list_len,
			  most);
		return shca_null(EINVAL);
	}
	list = calloc(1, sizeof(*list) + max_page_list_len * sizeof(list->pages[0]));
	if (!list)
		return shca_null(ENOMEM);
	list->ctx = to_sctx(context);
	list->max_len = max_page_list_len;
	list->public.page_list = list->pages;
	list->public.max_page_list_len = max_page_list_len;
	return &list->public;
}

/* Acquire: pairs with the release in give_back(); the device has read the pages. */
static bool take(struct shca_page_list *list)
{
	bool owned = false;

	return atomic_compare_exchange_strong_explicit(&list->owned, &owned, true,
						       memory_order_acquire, memory_order_relaxed);
}

static void give_back(struct shca_page_list *list)
{
	atomic_store_explicit(&list->owned, false, memory_order_release);
}

int simhcadv_free_page_list(struct simhcadv_page_list *public)
{
	struct shca_page_list *list = to_spage_list(public);

	if (!take(list))
		return shca_say_busy(list->ctx, SIMHCA_SAY_FREE_PAGE_LIST,
				     "a work request that has this page list was posted, and its "
				     "completion, or that of a later one, was not polled");
	free(list);
	return 0;
}

static struct shca_page_list **slots(struct shca_sq *sq)
{
	struct shca_page_list **lists = atomic_load_explicit(&sq->page_lists, memory_order_relaxed);

	if (lists)
		return lists;
	lists = calloc((size_t)sq->mask + 1, sizeof(lists[0]));
	/* Release: who finds the array finds it zeroed. */
	atomic_store_explicit(&sq->page_lists, lists, memory_order_release);
	return lists;
}

int shca_page_list_post(struct shca_sq *sq, uint32_t index, struct shca_page_list *list)
{
	struct shca_page_list **lists = slots(sq);

	if (!lists)
		return ENOMEM;
	if (!take(list))
		return EBUSY;
	lists[index & sq->mask] = list;
	return 0;
}

void shca_page_lists_return(struct shca_sq *sq, uint32_t from, uint32_t to)
{
	struct shca_page_list **lists = atomic_load_explicit(&sq->page_lists, memory_order_acquire);

	for (; lists && from != to; from++) {
		if (lists[from & sq->mask]) {
			give_back(lists[from & sq->mask]);
			lists[from & sq->mask] = NULL;
		}
	}
}

void shca_page_lists_free(struct shca_sq *sq)
{
	shca_page_lists_return(sq, 0, sq->mask + 1);
	free(atomic_load_explicit(&sq->page_lists, memory_order_relaxed));
}
