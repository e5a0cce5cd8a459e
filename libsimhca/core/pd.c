/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Protection domains: a number that keys and QPs must share (IBTA vol. 1, 10.2.3). */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "context.h"
#include "pd.h"
#include "simhca-device.h"
#include "simhca-verbs.h"

static void free_pd(struct simhca_device *device, struct simhca_pd *pd)
{
	if (pd->number)
		simhca_number_release(&device->pdns, pd->number);
	free(pd);
}

int simhca_alloc_pd(struct simhca_context *context, struct simhca_handle *reply,
		    struct simhca_why *why)
{
	struct simhca_pd *pd = calloc(1, sizeof(*pd));
	int ret;

	if (!pd)
		return simhca_why(why, ENOMEM, "out of memory");
	pd->number = simhca_number_alloc(&context->device->pdns);
	ret = pd->number ? simhca_object_add(context, SIMHCA_OBJ_PD, pd, &reply->handle, why)
			 : simhca_why(why, ENOMEM, "all PD numbers are in use");
	if (ret)
		free_pd(context->device, pd);
	return ret;
}

int simhca_query_pd(struct simhca_context *context, uint32_t handle, struct simhca_why *why)
{
	return simhca_object(context, SIMHCA_OBJ_PD, handle, why) ? 0 : -ENOENT;
}

uint32_t simhca_pd_users(const struct simhca_pd *pd)
{
	uint32_t users = 0;

	for (int i = 0; i < SIMHCA_OBJ_TYPES; i++)
		users += pd->users[i];
	return users;
}

/* "2 MRs, 1 QP" */
static void name_users(const struct simhca_pd *pd, char *text, size_t size)
{
	static const char *const names[SIMHCA_OBJ_TYPES] = {
		[SIMHCA_OBJ_MR] = "MR",	    [SIMHCA_OBJ_MW] = "MW",	[SIMHCA_OBJ_AH] = "AH",
		[SIMHCA_OBJ_QP] = "QP",	    [SIMHCA_OBJ_SRQ] = "SRQ",	[SIMHCA_OBJ_WQ] = "WQ",
		[SIMHCA_OBJ_EFA_AH] = "AH", [SIMHCA_OBJ_EFA_QP] = "QP",
	};
	size_t used = 0;

	for (int i = 0; i < SIMHCA_OBJ_TYPES && used < size; i++)
		if (pd->users[i])
			used += (size_t)snprintf(text + used, size - used, "%s%u %s%s",
						 used ? ", " : "", pd->users[i],
						 names[i] ?: "other", pd->users[i] == 1 ? "" : "s");
}

int simhca_dealloc_pd(struct simhca_context *context, uint32_t handle, struct simhca_why *why)
{
	struct simhca_pd *pd = simhca_object(context, SIMHCA_OBJ_PD, handle, why);
	char users[SIMHCA_CMD_MESSAGE] = "";

	if (!pd)
		return -ENOENT;
	if (simhca_pd_users(pd)) {
		name_users(pd, users, sizeof(users));
		return simhca_why(why, EBUSY, "this PD is still used by %.100s", users);
	}
	simhca_object_remove(context, SIMHCA_OBJ_PD, handle);
	free_pd(context->device, pd);
	return 0;
}
