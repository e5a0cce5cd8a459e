/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Protection domains; parent domains over them are in domain.c. */
#include <stdio.h>
#include <stdlib.h>

#include "command.h"
#include "say.h"

static struct ibv_pd *new_pd(struct ibv_context *context)
{
	struct shca_pd *pd = calloc(1, sizeof(*pd));

	if (!pd)
		return shca_null(ENOMEM);
	pd->ibv_pd.context = context;
	atomic_init(&pd->refs, 1);
	return &pd->ibv_pd;
}

struct ibv_pd *shca_alloc_pd(struct ibv_context *context)
{
	struct ibv_pd *pd = new_pd(context);
	struct simhca_handle reply;
	int err;

	if (!pd)
		return NULL;
	err = shca_execute(to_sctx(context), &(struct shca_command){ .command = SIMHCA_CMD_ALLOC_PD,
								     .reply = &reply,
								     .reply_size = sizeof(reply) });
	if (err) {
		free(to_spd(pd));
		return shca_null(err);
	}
	pd->handle = reply.handle;
	return pd;
}

int shca_dealloc_pd(struct ibv_pd *ibv_pd)
{
	struct shca_pd *pd = to_spd(ibv_pd);
	char text[64];
	uint32_t refs;
	int err;

	if (pd->protection)
		return shca_dealloc_parent_domain(pd);
	refs = atomic_load_explicit(&pd->refs, memory_order_acquire);
	if (refs > 1) {
		snprintf(text, sizeof(text), "this PD is still used by %u parent domain%s",
			 refs - 1, refs == 2 ? "" : "s");
		return shca_say_busy(to_sctx(ibv_pd->context), SIMHCA_SAY_DEALLOC_PD, text);
	}
	err = shca_destroy(to_sctx(ibv_pd->context), SIMHCA_CMD_DEALLOC_PD, ibv_pd->handle, NULL);
	if (!err)
		free(pd);
	return err;
}

struct ibv_pd *shca_import_pd(struct ibv_context *context, uint32_t handle)
{
	struct ibv_pd *pd = new_pd(context);
	struct simhca_handle req = { .handle = handle };
	int err;

	if (!pd)
		return NULL;
	err = shca_command(to_sctx(context), SIMHCA_CMD_QUERY_PD, &req);
	if (err) {
		free(to_spd(pd));
		return shca_null(err);
	}
	pd->handle = handle;
	return pd;
}

/* There is no way to refuse it, whatever still uses it: parent domains keep it for themselves. */
void shca_unimport_pd(struct ibv_pd *ibv_pd)
{
	shca_pd_put(to_spd(ibv_pd));
}
