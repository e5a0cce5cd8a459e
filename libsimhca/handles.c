/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Handle tables: small integers for a context's objects, lowest free one first. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

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
