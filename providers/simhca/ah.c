/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Address handles. The device checks the address once, when the handle is made; a send WQE then
 * carries a copy of it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "say.h"

void shca_av_from_attr(struct simhca_av *av, const struct ibv_ah_attr *attr)
{
	memset(av, 0, sizeof(*av));
	av->dlid = attr->dlid;
	av->sl = attr->sl;
	av->src_path_bits = attr->src_path_bits;
	av->static_rate = attr->static_rate;
	av->port_num = attr->port_num;
	if (!attr->is_global)
		return; /* the application need not have set grh */
	av->is_global = 1;
	memcpy(av->dgid.raw, attr->grh.dgid.raw, sizeof(av->dgid.raw));
	av->flow_label = attr->grh.flow_label;
	av->sgid_index = attr->grh.sgid_index;
	av->hop_limit = attr->grh.hop_limit;
	av->traffic_class = attr->grh.traffic_class;
}

void shca_av_to_attr(const struct simhca_av *av, struct ibv_ah_attr *attr)
{
	memset(attr, 0, sizeof(*attr));
	attr->dlid = av->dlid;
	attr->sl = av->sl;
	attr->src_path_bits = av->src_path_bits;
	attr->static_rate = av->static_rate;
	attr->port_num = av->port_num;
	attr->is_global = av->is_global;
	memcpy(attr->grh.dgid.raw, av->dgid.raw, sizeof(av->dgid.raw));
	attr->grh.flow_label = av->flow_label;
	attr->grh.sgid_index = av->sgid_index;
	attr->grh.hop_limit = av->hop_limit;
	attr->grh.traffic_class = av->traffic_class;
}

struct ibv_ah *shca_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	struct simhca_create_ah_req req = { .pd = pd->handle };
	struct simhca_handle reply;
	struct shca_ah *ah;
	int err;

	ah = calloc(1, sizeof(*ah));
	if (!ah)
		return shca_null(ENOMEM);
	shca_av_from_attr(&ah->av, attr);
	req.av = ah->av;
	err = shca_call(to_sctx(pd->context), SIMHCA_CMD_CREATE_AH, &req, &reply);
	if (err) {
		free(ah);
		return shca_null(err);
	}
	ah->ibv_ah.handle = reply.handle;
	return &ah->ibv_ah;
}

#define MOST_KEPT 64

/* The last ones that were destroyed, of the process. No lock, which a fork could find held. */
static struct {
	struct shca_ah *_Atomic ah[MOST_KEPT];
	atomic_uint next;
} kept;

/*
 * A post with a handle that has just been destroyed finds that, and not memory that is something else
 * by now: this one is kept, and the oldest of those kept is freed.
 */
static void keep(struct shca_ah *ah)
{
	unsigned int place = atomic_fetch_add_explicit(&kept.next, 1, memory_order_relaxed);

	atomic_store_explicit(&ah->is_destroyed, true, memory_order_relaxed);
	free(atomic_exchange(&kept.ah[place % MOST_KEPT], ah));
}

int shca_destroy_ah(struct ibv_ah *ibv_ah)
{
	struct shca_context *ctx = to_sctx(ibv_ah->context);
	int err;

	/* Another one may have its handle by now. */
	if (shca_ah_is_destroyed(ibv_ah))
		return shca_say_command(ctx, SIMHCA_CMD_DESTROY_AH, EINVAL,
					"the address handle was destroyed before; with other "
					"devices its memory is freed twice");
	err = shca_destroy(ctx, SIMHCA_CMD_DESTROY_AH, ibv_ah->handle, NULL);
	if (!err)
		keep(to_sah(ibv_ah));
	return err;
}
