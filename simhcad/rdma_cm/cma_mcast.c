/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Multicast groups: an address becomes a GID; the library attaches the QP to it itself. */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "cma.h"

#define HOP_LIMIT 64
#define MLID_FIRST 0xc000
#define MLIDS 0x3fff

static bool is_mgid(const union cma_addr *addr)
{
	return addr->in6.sin6_addr.s6_addr[0] == 0xff && addr->in6.sin6_addr.s6_addr[2] == 0xa0 &&
	       addr->in6.sin6_addr.s6_addr[3] == 0x1b;
}

/* RFC 4391, section 4, with the signature of rdma_cm's UDP port space in place of IPoIB's. */
static void ib_mgid(const struct cma_id *id, const union cma_addr *addr, union simhca_gid *mgid)
{
	bool v4 = addr->sa.sa_family == AF_INET;

	memset(mgid, 0, sizeof(*mgid));
	mgid->raw[0] = 0xff;
	mgid->raw[1] = 0x12;
	mgid->raw[2] = v4 ? 0x40 : 0x60;
	mgid->raw[3] = id->ps == RDMA_PS_UDP ? 0x01 : 0x1b;
	mgid->raw[4] = CMA_PKEY >> 8;
	mgid->raw[5] = CMA_PKEY & 0xff;
	if (v4) {
		memcpy(mgid->raw + 12, &addr->in.sin_addr, 4);
		mgid->raw[12] &= 0x0f;
	} else {
		memcpy(mgid->raw + 6, addr->in6.sin6_addr.s6_addr + 6, 10);
	}
}

void cma_mgid(const struct cma_id *id, const union cma_addr *addr, union simhca_gid *mgid)
{
	if (cma_addr_is_zero(addr))
		memset(mgid, 0, sizeof(*mgid));
	else if (addr->sa.sa_family == AF_IB || (addr->sa.sa_family == AF_INET6 && is_mgid(addr)))
		memcpy(mgid, &addr->in6.sin6_addr, sizeof(*mgid));
	else if (id->device->options->settings.infiniband)
		ib_mgid(id, addr, mgid);
	else
		cma_addr_gid(addr, mgid);
}

uint16_t cma_mlid(const union simhca_gid *mgid)
{
	uint32_t sum = 0;

	for (size_t i = 0; i < sizeof(mgid->raw); i++)
		sum = sum * 31 + mgid->raw[i];
	return (uint16_t)(MLID_FIRST + sum % MLIDS);
}

static void queue_joined(struct cma_mc *mc, const union simhca_gid *mgid)
{
	struct cma_id *id = mc->id;
	struct cma_event event = { .id = id, .mc = mc };
	struct rdma_ucm_ud_param *ud = &event.resp.param.ud;

	event.resp.uid = mc->uid;
	event.resp.id = mc->handle;
	event.resp.event = CMA_EV_MULTICAST_JOIN;
	ud->qp_num = SIMHCA_MCAST_QPN;
	ud->qkey = id->qkey ? id->qkey : CMA_UDP_QKEY;
	ud->ah_attr.is_global = 1;
	ud->ah_attr.port_num = 1;
	memcpy(ud->ah_attr.grh.dgid, mgid, sizeof(*mgid));
	ud->ah_attr.grh.sgid_index = id->sgid_index;
	ud->ah_attr.grh.hop_limit = HOP_LIMIT;
	ud->ah_attr.grh.traffic_class = id->tos;
	if (id->device->options->settings.infiniband)
		ud->ah_attr.dlid = cma_mlid(mgid);
	cma_file_queue(id->file, &event);
}

int cma_join(struct cma_id *id, uint64_t uid, const union cma_addr *addr, uint16_t flags,
	     uint32_t *handle, struct simhca_why *why)
{
	union simhca_gid mgid;
	struct cma_mc *mc;

	if (id->qp_type != IBV_QPT_UD || !id->device ||
	    (id->state != CMA_BOUND && id->state != CMA_ADDR_RESOLVED))
		return simhca_why(why, EINVAL,
				  "only a UD id that is bound to a device joins a group");
	if (flags >= RDMA_MC_JOIN_FLAG_RESERVED)
		return simhca_why(why, EINVAL, "join flags %u", flags);
	if (cma_addr_is_zero(addr) && !id->device->options->settings.infiniband)
		return simhca_why(why, EINVAL, "the group's address is zero");
	if (id->file->program->objects >= CMA_OBJECTS)
		return simhca_why(why, ENOMEM, "the program has %u ids and groups",
				  id->file->program->objects);
	mc = calloc(1, sizeof(*mc));
	if (!mc || cma_handle_add(&id->file->cma->mcs, mc, &mc->handle)) {
		free(mc);
		return simhca_why(why, ENOMEM, "out of memory");
	}
	mc->uid = uid;
	mc->id = id;
	DL_APPEND(id->mcs, mc);
	id->file->program->objects++;
	cma_mgid(id, addr, &mgid);
	mc->mgid = mgid;
	queue_joined(mc, &mgid);
	*handle = mc->handle;
	return 0;
}

int cma_leave(struct cma_file *file, uint32_t handle, uint32_t *events)
{
	struct cma_mc *mc = cma_handle_get(&file->cma->mcs, handle);

	if (!mc)
		return -ENOENT;
	if (mc->id->file != file)
		return -EINVAL;
	cma_file_drop_joined(mc);
	*events = mc->events_reported;
	mc->id->events_reported -= mc->events_reported;
	cma_mc_free(mc);
	return 0;
}

bool cma_has_joined(const struct cma *cma, const union simhca_gid *mgid)
{
	for (uint32_t i = 0; i < cma->mcs.room; i++) {
		const struct cma_mc *mc = cma->mcs.object[i];

		if (mc && !memcmp(&mc->mgid, mgid, sizeof(*mgid)))
			return true;
	}
	return false;
}

void cma_mc_free(struct cma_mc *mc)
{
	cma_handle_remove(&mc->id->file->cma->mcs, mc->handle);
	DL_DELETE(mc->id->mcs, mc);
	mc->id->file->program->objects--;
	free(mc);
}
