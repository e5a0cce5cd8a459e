/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Handle tables: small integers for a context's objects, lowest free one first; and the numbers
 * that QPs and SRQs have in a device.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "handles.h"
#include "simhca-abi.h"
#include "table.h"

int simhca_handle_add(struct simhca_handles *handles, void *object, uint32_t *handle)
{
	uint32_t i = handles->hint;

	while (i < handles->room && handles->slot[i])
		i++;
	if (i == handles->room) {
		uint32_t room = handles->room ? handles->room * 2 : 16;
		void **slot = realloc(handles->slot, room * sizeof(*slot));

		if (!slot)
			return -ENOMEM;
		memset(slot + handles->room, 0, (room - handles->room) * sizeof(*slot));
		handles->slot = slot;
		handles->room = room;
	}
	handles->slot[i] = object;
	handles->hint = i + 1;
	handles->count++;
	*handle = i;
	return 0;
}

void *simhca_handle_get(const struct simhca_handles *handles, uint32_t handle)
{
	return handle < handles->room ? handles->slot[handle] : NULL;
}

void simhca_handle_remove(struct simhca_handles *handles, uint32_t handle)
{
	handles->slot[handle] = NULL;
	handles->count--;
	if (handle < handles->hint)
		handles->hint = handle;
}

bool simhca_numbers_init_plain(struct simhca_numbers *numbers, uint32_t slots)
{
	numbers->slots = slots;
	numbers->in_use = simhca_table_alloc(slots * sizeof(*numbers->in_use));
	return numbers->in_use;
}

bool simhca_numbers_init(struct simhca_numbers *numbers, uint32_t slots)
{
	numbers->generation = simhca_table_alloc(slots * sizeof(*numbers->generation));
	return simhca_numbers_init_plain(numbers, slots) && numbers->generation;
}

void simhca_numbers_free(struct simhca_numbers *numbers)
{
	simhca_table_free(numbers->generation, numbers->slots * sizeof(*numbers->generation));
	simhca_table_free(numbers->in_use, numbers->slots * sizeof(*numbers->in_use));
}

uint32_t simhca_number_alloc(struct simhca_numbers *numbers)
{
	/* QPN 0 and 1 are the specification's, the rest is margin; the last slot could be 0xffffff.
	 */
	const uint32_t first = numbers->generation ? 16 : 1, end = numbers->slots - 1;

	for (uint32_t n = first; n < end; n++) {
		uint32_t slot = numbers->next < first ? first : numbers->next;

		numbers->next = slot + 1 < end ? slot + 1 : first;
		if (numbers->in_use[slot])
			continue;
		numbers->in_use[slot] = true;
		if (!numbers->generation)
			return slot;
		return ((uint32_t)++numbers->generation[slot] << SIMHCA_QPN_GENERATION_SHIFT |
			slot) &
		       SIMHCA_QPN_MASK;
	}
	return 0;
}

void simhca_number_release(struct simhca_numbers *numbers, uint32_t number)
{
	numbers->in_use[number & (numbers->slots - 1)] = false;
}
