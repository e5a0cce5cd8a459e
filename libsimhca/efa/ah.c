/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Address handles: each names a GID, and work requests name the GID by a number. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/av.h"
#include "core/gids.h"
#include "core/lock.h"
#include "objects.h"

struct simhca_device *efa_device_at(const struct simhca_device *own, const union simhca_gid *gid)
{
	struct simhca_device *device;

	for (device = own->fabric->devices; device; device = device->next)
		if (device->efa_qps && simhca_gids_have(&device->gids, gid))
			break;
	return device;
}

bool efa_ah_gid(struct simhca_efa *efa, uint16_t number, union simhca_gid *gid)
{
	bool found;

	pthread_mutex_lock(&efa->ah_lock);
	found = number < efa->ahs_used && efa->ahs[number].users;
	if (found)
		*gid = efa->ahs[number].gid;
	pthread_mutex_unlock(&efa->ah_lock);
	return found;
}

/* Under the lock. A free number if there is none with this GID; EFA_AHS: there is none either. */
static uint32_t find_ah(const struct simhca_efa *efa, const union simhca_gid *gid)
{
	uint32_t empty = efa->ahs_used;

	for (uint32_t i = 0; i < efa->ahs_used; i++) {
		if (!efa->ahs[i].users)
			empty = i;
		else if (!memcmp(&efa->ahs[i].gid, gid, sizeof(*gid)))
			return i;
	}
	return empty;
}

uint16_t efa_ah_of(struct simhca_efa *efa, const union simhca_gid *gid)
{
	uint32_t number;
	bool found;

	pthread_mutex_lock(&efa->ah_lock);
	number = find_ah(efa, gid);
	found = number < efa->ahs_used && efa->ahs[number].users;
	pthread_mutex_unlock(&efa->ah_lock);
	return found ? (uint16_t)number : EFA_NO_AH;
}

static int take_number(struct simhca_efa *efa, const union simhca_gid *gid, uint16_t *number,
		       struct simhca_why *why)
{
	uint32_t found;

	pthread_mutex_lock(&efa->ah_lock);
	found = find_ah(efa, gid);
	if (found < EFA_AHS) {
		efa->ahs[found].gid = *gid;
		efa->ahs[found].users++;
		if (found == efa->ahs_used)
			efa->ahs_used++;
		*number = (uint16_t)found;
	}
	pthread_mutex_unlock(&efa->ah_lock);
	return found < EFA_AHS
		       ? 0
		       : simhca_why(why, ENOMEM,
				    "the address handles of a context lead to at most %u GIDs",
				    EFA_AHS);
}

static void put_number(struct simhca_efa *efa, uint16_t number)
{
	pthread_mutex_lock(&efa->ah_lock);
	efa->ahs[number].users--;
	pthread_mutex_unlock(&efa->ah_lock);
}

int simhca_efa_create_ah(struct simhca_context *context, uint32_t pd_handle,
			 const union simhca_gid *gid, uint32_t *handle, uint16_t *number,
			 struct simhca_why *why)
{
	struct simhca_efa *efa = efa_of(context, why);
	struct simhca_pd *pd;
	struct efa_ah *ah;
	int ret;

	if (!efa)
		return -EINVAL;
	pd = simhca_object(context, SIMHCA_OBJ_PD, pd_handle, why);
	if (!pd)
		return -ENOENT;
	if (simhca_gid_is_empty(gid))
		return simhca_why(why, EINVAL, "dgid is all zeros: was it exchanged?");
	ah = calloc(1, sizeof(*ah));
	if (!ah)
		return efa_out_of_memory(why);
	ah->pd = pd;
	ret = take_number(efa, gid, &ah->number, why);
	if (ret) {
		free(ah);
		return ret;
	}
	ret = simhca_object_add(context, SIMHCA_OBJ_EFA_AH, ah, handle, why);
	if (ret) {
		put_number(efa, ah->number);
		free(ah);
		return ret;
	}
	pd->users[SIMHCA_OBJ_EFA_AH]++;
	*number = ah->number;
	return 0;
}

int simhca_efa_destroy_ah(struct simhca_context *context, uint32_t handle, struct simhca_why *why)
{
	struct efa_ah *ah = simhca_object(context, SIMHCA_OBJ_EFA_AH, handle, why);

	if (!ah)
		return -ENOENT;
	put_number(context->efa, ah->number);
	ah->pd->users[SIMHCA_OBJ_EFA_AH]--;
	simhca_object_remove(context, SIMHCA_OBJ_EFA_AH, handle);
	free(ah);
	return 0;
}
