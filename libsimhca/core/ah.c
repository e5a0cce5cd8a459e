/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Address handles: checked and counted here; a UD work request carries the vector itself. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "av.h"
#include "context.h"
#include "device.h"
#include "pd.h"
#include "simhca-device.h"
#include "simhca-verbs.h"

struct simhca_ah {
	struct simhca_pd *pd;
};

bool simhca_av_has_source(struct simhca_device *device, const struct simhca_av *av)
{
	union simhca_gid gid;

	return !av->is_global || simhca_device_gid(device, av->sgid_index, &gid);
}

/*
 * On RoCE the GIDs are IP addresses, and a path leads from one to another of the same family:
 * Linux's rdma_resolve_ip() refuses others. For multicast groups any will do.
 */
static int check_family(struct simhca_device *device, const struct simhca_av *av,
			struct simhca_why *why)
{
	union simhca_gid source;

	if (simhca_gid_is_group(&av->dgid) || !simhca_device_gid(device, av->sgid_index, &source) ||
	    simhca_gid_is_ipv4(&source) == simhca_gid_is_ipv4(&av->dgid))
		return 0;
	return simhca_why(
		why, EINVAL,
		"sgid_index = %u is an IPv%d address and dgid is IPv%d: use the index of one "
		"of the peer's kind (show_gids, ibv_devinfo -v)",
		av->sgid_index, simhca_gid_is_ipv4(&source) ? 4 : 6,
		simhca_gid_is_ipv4(&av->dgid) ? 4 : 6);
}

int simhca_av_check(struct simhca_device *device, const struct simhca_av *av,
		    struct simhca_why *why)
{
	if (av->port_num != 1)
		return simhca_why(why, EINVAL, "port_num = %u: this device has port 1",
				  av->port_num);
	if (av->sl > 15)
		return simhca_why(why, EINVAL, "sl = %u: 0 to 15", av->sl);
	if (!av->is_global) {
		if (!device->config.infiniband)
			return simhca_why(
				why, EINVAL,
				"an address on Ethernet needs a GRH: set is_global and grh");
		return 0;
	}
	if (av->sgid_index >= SIMHCA_GID_ENTRIES)
		return simhca_why(why, EINVAL, "sgid_index = %u: the GID table has %u entries",
				  av->sgid_index, SIMHCA_GID_ENTRIES);
	if (!simhca_av_has_source(device, av))
		return simhca_why(why, ENODATA, "sgid_index = %u: that GID table entry is empty",
				  av->sgid_index);
	if (simhca_gid_is_empty(&av->dgid))
		return simhca_why(why, EINVAL, "dgid is all zeros: was it exchanged?");
	return device->config.infiniband ? 0 : check_family(device, av, why);
}

int simhca_create_ah(struct simhca_context *context, const struct simhca_create_ah_req *req,
		     struct simhca_handle *reply, struct simhca_why *why)
{
	struct simhca_pd *pd = simhca_object(context, SIMHCA_OBJ_PD, req->pd, why);
	struct simhca_ah *ah;
	int ret;

	if (!pd)
		return -ENOENT;
	ret = simhca_av_check(context->device, &req->av, why);
	if (ret)
		return ret;
	ah = calloc(1, sizeof(*ah));
	if (!ah)
		return simhca_why(why, ENOMEM, "out of memory");
	ah->pd = pd;
	ret = simhca_object_add(context, SIMHCA_OBJ_AH, ah, &reply->handle, why);
	if (ret)
		free(ah);
	else
		pd->users[SIMHCA_OBJ_AH]++;
	return ret;
}

int simhca_destroy_ah(struct simhca_context *context, uint32_t handle, struct simhca_why *why)
{
	struct simhca_ah *ah = simhca_object(context, SIMHCA_OBJ_AH, handle, why);

	if (!ah)
		return -ENOENT;
	ah->pd->users[SIMHCA_OBJ_AH]--;
	simhca_object_remove(context, SIMHCA_OBJ_AH, handle);
	free(ah);
	return 0;
}
