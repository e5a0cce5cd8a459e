/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What the objects of a context are made with: memory that programs map, and lists. */
#include <errno.h>

#include "objects.h"

int efa_out_of_memory(struct simhca_why *why)
{
	return simhca_why(why, ENOMEM, "out of memory");
}

int efa_make_memory(struct simhca_context *context, uint64_t bytes, struct efa_memory *memory,
		    struct simhca_why *why)
{
	char *base;

	memory->bytes = bytes + EFA_PAGE; /* segments are given out in smaller units */
	base = simhca_context_alloc(context, memory->bytes, &memory->ref, why);
	if (!base)
		return -ENOMEM;
	memory->offset = efa_whole_pages(memory->ref.offset);
	memory->base = base + (memory->offset - memory->ref.offset);
	return 0;
}

struct simhca_efa *efa_of(struct simhca_context *context, struct simhca_why *why)
{
	if (!context->efa)
		simhca_why(why, EINVAL, "this context is no EFA driver's");
	return context->efa;
}

/* ------------------------------------------------------------------------------------ lists */

void efa_list_add(struct efa_list *list, void *item)
{
	uint32_t count = atomic_load(&list->count);

	atomic_store(&list->items[count], item);
	atomic_store(&list->count, count + 1);
}

/* The last one takes its place. */
void efa_list_remove(struct efa_list *list, const void *item)
{
	uint32_t count = atomic_load(&list->count);

	for (uint32_t i = 0; i < count; i++) {
		if (atomic_load(&list->items[i]) != item)
			continue;
		atomic_store(&list->items[i], atomic_load(&list->items[count - 1]));
		atomic_store(&list->count, count - 1);
		return;
	}
}
