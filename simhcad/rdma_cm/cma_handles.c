/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cma.h"

int cma_handle_add(struct cma_handles *handles, void *object, uint32_t *handle)
{
	while (handles->lowest < handles->room && handles->object[handles->lowest])
		handles->lowest++;
	if (handles->lowest == handles->room) {
		uint32_t room = handles->room ? 2 * handles->room : 64;
		void **grown = realloc(handles->object, room * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		memset(grown + handles->room, 0, (room - handles->room) * sizeof(*grown));
		handles->object = grown;
		handles->room = room;
	}
	*handle = handles->lowest++;
	handles->object[*handle] = object;
	return 0;
}

void *cma_handle_get(const struct cma_handles *handles, uint32_t handle)
{
	return handle < handles->room ? handles->object[handle] : NULL;
}

void cma_handle_remove(struct cma_handles *handles, uint32_t handle)
{
	handles->object[handle] = NULL;
	if (handle < handles->lowest)
		handles->lowest = handle;
}
