/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <stdlib.h>

#include "command.h"

struct ibv_pd *shca_alloc_pd(struct ibv_context *context)
{
	struct shca_context *ctx = to_sctx(context);
	struct simhca_handle reply;
	struct ibv_pd *pd;
	int err;

	pd = calloc(1, sizeof(*pd));
	if (!pd)
		return shca_null(ENOMEM);
	err = shca_execute(ctx, &(struct shca_command){ .command = SIMHCA_CMD_ALLOC_PD,
							.reply = &reply,
							.reply_size = sizeof(reply) });
	if (err) {
		free(pd);
		return shca_null(err);
	}
	pd->context = context;
	pd->handle = reply.handle;
	return pd;
}

int shca_dealloc_pd(struct ibv_pd *pd)
{
	int err = shca_destroy(to_sctx(pd->context), SIMHCA_CMD_DEALLOC_PD, pd->handle, NULL);

	if (!err)
		free(pd);
	return err;
}
