/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#ifndef SIMHCA_PROVIDER_PAGE_LIST_H
#define SIMHCA_PROVIDER_PAGE_LIST_H

#include "provider.h"

struct shca_page_list {
	struct simhcadv_page_list public; /* the application may write to it: for its eyes only */
	struct shca_context *ctx;
	uint32_t max_len;
	atomic_bool owned; /* by a work request in a send queue, or being freed */
	uint64_t pages[];  /* what the device reads */
};

static inline struct shca_page_list *to_spage_list(struct simhcadv_page_list *list)
{
	return SHCA_CONTAINER(struct shca_page_list, public, list);
}

/*
 * Take the list for the WQE with this index; the caller holds the SQ's lock. 0, EBUSY when it is
 * taken already, or ENOMEM.
 */
int shca_page_list_post(struct shca_sq *sq, uint32_t index, struct shca_page_list *list);

#endif
