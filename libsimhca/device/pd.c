/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Protection domains: a number that keys and QPs must share (IBTA vol. 1, 10.2.3). */
#include <errno.h>
#include <stdlib.h>

#include "context.h"
#include "pd.h"
#include "simhca.h"

int simhca_alloc_pd(struct simhca_context *context, struct simhca_handle *reply,
		    struct simhca_why *why)
{
	struct simhca_pd *pd = calloc(1, sizeof(*pd));
	int ret;

	if (!pd)
		return simhca_why(why, ENOMEM, "out of memory");
	pd->number = context->device->next_pd;
	ret = simhca_object_add(context, SIMHCA_OBJ_PD, pd, &reply->handle, why);
	if (ret)
		free(pd);
	else if (!++context->device->next_pd)
		context->device->next_pd = 1;
	return ret;
}

int simhca_query_pd(struct simhca_context *context, uint32_t handle, struct simhca_why *why)
{
	return simhca_object(context, SIMHCA_OBJ_PD, handle, why) ? 0 : -ENOENT;
}

int simhca_dealloc_pd(struct simhca_context *context, uint32_t handle, struct simhca_why *why)
{
	struct simhca_pd *pd = simhca_object(context, SIMHCA_OBJ_PD, handle, why);

	if (!pd)
		return -ENOENT;
	if (pd->users)
		return simhca_why(why, EBUSY,
				  "this PD is still used by %u object%s: MRs, MWs, QPs, SRQs, AHs",
				  pd->users, pd->users == 1 ? "" : "s");
	simhca_object_remove(context, SIMHCA_OBJ_PD, handle);
	free(pd);
	return 0;
}
