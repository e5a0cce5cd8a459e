/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The commands of rdma_user_cm.h: what comes in is taken apart, what goes out is put together. */
#include <endian.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stddef.h>
#include <string.h>

#include <rdma/ib_user_sa.h>

#include "cma.h"

#define HANDLER(name) static int name(struct ucma_call *call, struct simhca_why *why)

/* Stores the answer, as much of it as the program has room for; too little room is ENOSPC. */
static int respond(struct ucma_call *call, const void *response, size_t size, size_t least,
		   struct simhca_why *why)
{
	if (call->out < least)
		return simhca_why(why, ENOSPC, "the response has %zu bytes, there is room for %u",
				  least, call->out);
	call->answer->reply.length = (uint32_t)(call->out < size ? call->out : size);
	memcpy(call->answer->response, response, call->answer->reply.length);
	return 0;
}

static int find_id(struct ucma_call *call, uint32_t handle, struct cma_id **id,
		   struct simhca_why *why)
{
	int ret = cma_id_find(call->file, handle, id);

	if (ret == -ENOENT)
		return simhca_why(why, ENOENT, "there is no id %u", handle);
	if (ret)
		return simhca_why(why, EINVAL, "id %u is of another event channel", handle);
	return 0;
}

/* One that knows its device. */
static int find_with_device(struct ucma_call *call, uint32_t handle, struct cma_id **id,
			    struct simhca_why *why)
{
	int ret = find_id(call, handle, id, why);

	if (!ret && !(*id)->device)
		return simhca_why(why, EINVAL, "id %u has no device yet", handle);
	return ret;
}

/* An address of the program's, which says how long it is; size 0 is none. */
static int take_addr(union cma_addr *addr, const void *bytes, size_t size, struct simhca_why *why)
{
	memset(addr, 0, sizeof(*addr));
	if (!size)
		return 0;
	if (size > sizeof(*addr))
		return simhca_why(why, EINVAL, "an address of %zu bytes", size);
	memcpy(addr, bytes, size);
	if (addr->sa.sa_family && cma_addr_size(addr) != size)
		return simhca_why(why, EINVAL, "an address of family %u has not %zu bytes",
				  addr->sa.sa_family, size);
	return 0;
}

/* Those of the commands for IP have room for IPv6, whatever they are. */
static void take_ip(union cma_addr *addr, const struct sockaddr_in6 *bytes)
{
	memset(addr, 0, sizeof(*addr));
	memcpy(addr, bytes, sizeof(*bytes));
	if (addr->sa.sa_family == AF_INET)
		memset(addr->in.sin_zero, 0,
		       sizeof(*bytes) - offsetof(struct sockaddr_in, sin_zero));
}

/* ---------------------------------------------------------------------------------------- life */

HANDLER(create_id)
{
	const struct rdma_ucm_create_id *cmd = (const void *)call->payload;
	struct rdma_ucm_create_id_resp resp;
	uint8_t qp_type = cmd->qp_type;
	struct cma_id *id;

	if (call->out < sizeof(resp))
		return simhca_why(why, ENOSPC, "no room for the id");
	switch (cmd->ps) {
	case RDMA_PS_TCP:
		qp_type = IBV_QPT_RC;
		break;
	case RDMA_PS_UDP:
	case RDMA_PS_IPOIB:
		qp_type = IBV_QPT_UD;
		break;
	case RDMA_PS_IB:
		break;
	default:
		return simhca_why(why, EINVAL, "there is no port space 0x%x", cmd->ps);
	}
	id = cma_id_create(call->file, cmd->uid, cmd->ps, qp_type);
	if (!id)
		return simhca_why(why, ENOMEM, "no memory, or the program has %u ids and groups",
				  CMA_OBJECTS);
	resp.id = id->handle;
	return respond(call, &resp, sizeof(resp), sizeof(resp), why);
}

HANDLER(destroy_id)
{
	struct rdma_ucm_destroy_id_resp resp = { .events_reported = call->id->events_reported };
	int ret = respond(call, &resp, sizeof(resp), sizeof(resp), why);

	if (ret)
		return ret;
	cma_notify_waits(call->id, "rdma_destroy_id()");
	cma_id_destroy(call->id);
	return 0;
}

HANDLER(migrate_id)
{
	const struct rdma_ucm_migrate_id *cmd = (const void *)call->payload;
	struct rdma_ucm_migrate_resp resp;
	uint64_t number = call->request->file;
	struct cma_file *from;
	struct cma_id *id;
	int ret;

	HASH_FIND(hh, call->file->cma->by_number, &number, sizeof(number), from);
	if (!from)
		return simhca_why(why, EINVAL, "descriptor %u is no event channel", cmd->fd);
	ret = cma_id_find(from, cmd->id, &id);
	if (ret)
		return simhca_why(why, -ret, "id %u is not of that event channel", cmd->id);
	resp.events_reported = id->events_reported;
	ret = respond(call, &resp, sizeof(resp), sizeof(resp), why);
	if (!ret)
		cma_notify_waits(id, "rdma_migrate_id()");
	if (!ret && from != call->file)
		call->answer->reply.old_take = cma_file_migrate(id, call->file);
	return ret;
}

/* ------------------------------------------------------------------------------------ addresses */

HANDLER(bind_ip)
{
	const struct rdma_ucm_bind_ip *cmd = (const void *)call->payload;
	union cma_addr addr;

	take_ip(&addr, &cmd->addr);
	return cma_bind(call->id, &addr, why);
}

HANDLER(bind_any_family)
{
	const struct rdma_ucm_bind *cmd = (const void *)call->payload;
	union cma_addr addr;
	struct cma_id *id;
	int ret;

	if (cmd->reserved || !cmd->addr_size)
		return simhca_why(why, EINVAL, "there is no address");
	ret = take_addr(&addr, &cmd->addr, cmd->addr_size, why);
	if (!ret)
		ret = find_id(call, cmd->id, &id, why);
	return ret ? ret : cma_bind(id, &addr, why);
}

HANDLER(resolve_ip)
{
	const struct rdma_ucm_resolve_ip *cmd = (const void *)call->payload;
	union cma_addr src, dst;

	take_ip(&src, &cmd->src_addr);
	take_ip(&dst, &cmd->dst_addr);
	return cma_resolve_addr(call->id, &src, &dst, cmd->timeout_ms, why);
}

HANDLER(resolve_addr)
{
	const struct rdma_ucm_resolve_addr *cmd = (const void *)call->payload;
	union cma_addr src, dst;
	struct cma_id *id;
	int ret;

	if (cmd->reserved || !cmd->dst_size)
		return simhca_why(why, EINVAL, "there is no destination");
	ret = take_addr(&src, &cmd->src_addr, cmd->src_size, why);
	if (!ret)
		ret = take_addr(&dst, &cmd->dst_addr, cmd->dst_size, why);
	if (!ret)
		ret = find_id(call, cmd->id, &id, why);
	return ret ? ret : cma_resolve_addr(id, &src, &dst, cmd->timeout_ms, why);
}

HANDLER(resolve_route)
{
	const struct rdma_ucm_resolve_route *cmd = (const void *)call->payload;

	return cma_resolve_route(call->id, cmd->timeout_ms, why);
}

HANDLER(listen_on)
{
	const struct rdma_ucm_listen *cmd = (const void *)call->payload;

	return cma_listen(call->id, (int)cmd->backlog, why);
}

/* ---------------------------------------------------------------------------------- connections */

HANDLER(connect_to)
{
	const struct rdma_ucm_connect *cmd = (const void *)call->payload;
	struct rdma_ucm_ece ece = { 0 };
	struct cma_id *id;
	int ret;

	if (!cmd->conn_param.valid)
		return simhca_why(why, EINVAL, "there are no connection parameters");
	ret = find_with_device(call, cmd->id, &id, why);
	if (ret)
		return ret;
	if (call->in >= sizeof(*cmd))
		ece = cmd->ece;
	return cma_connect(id, &cmd->conn_param, &ece, why);
}

HANDLER(accept_it)
{
	const struct rdma_ucm_accept *cmd = (const void *)call->payload;
	struct rdma_ucm_ece ece = { 0 };
	struct cma_id *id = call->id;
	uint64_t before;
	int ret;

	if (!cmd->conn_param.valid)
		return cma_accept(id, NULL, NULL, why);
	if (call->in >= sizeof(*cmd))
		ece = cmd->ece;
	before = id->uid;
	id->uid = cmd->uid;
	ret = cma_accept(id, &cmd->conn_param, &ece, why);
	if (ret)
		id->uid = before;
	return ret;
}

HANDLER(reject_it)
{
	const struct rdma_ucm_reject *cmd = (const void *)call->payload;
	uint8_t reason = cmd->reason ? cmd->reason : SIMHCA_CM_REJ_CONSUMER;
	struct cma_id *id;
	int ret;

	if (reason != SIMHCA_CM_REJ_CONSUMER && reason != SIMHCA_CM_REJ_VENDOR_OPTION)
		return simhca_why(why, EINVAL, "reason %u is not a user's", reason);
	ret = find_with_device(call, cmd->id, &id, why);
	return ret ? ret : cma_reject(id, reason, cmd->private_data, cmd->private_data_len, why);
}

HANDLER(disconnect)
{
	return cma_disconnect(call->id, why);
}

HANDLER(notify)
{
	const struct rdma_ucm_notify *cmd = (const void *)call->payload;

	return cma_notify(call->id, cmd->event, why);
}

HANDLER(init_qp_attr)
{
	const struct rdma_ucm_init_qp_attr *cmd = (const void *)call->payload;
	struct ib_uverbs_qp_attr attr;
	struct cma_id *id;
	int ret;

	if (cmd->qp_state > IBV_QPS_ERR)
		return simhca_why(why, EINVAL, "there is no QP state %u", cmd->qp_state);
	ret = find_with_device(call, cmd->id, &id, why);
	if (!ret)
		ret = cma_init_qp_attr(id, cmd->qp_state, &attr, why);
	return ret ? ret : respond(call, &attr, sizeof(attr), sizeof(attr), why);
}

/* -------------------------------------------------------------------------------------- queries */

static uint64_t node_guid(const struct cma_id *id)
{
	return id->device ? simhca_device_memory(id->device->model)->attr.node_guid : 0;
}

static const union simhca_gid *own_gid(const struct cma_id *id)
{
	return &id->device->gids[id->sgid_index].gid;
}

/* Big endian, as the subnet administrator would send it (IBTA vol. 1, 15.2.5.16). */
static void pack_path(const struct cma_id *id, uint8_t rec[64])
{
	const struct simhca_cm_path *path = &id->path;
	uint32_t label = htobe32((path->flow_label & 0xfffff) << 8 | path->hop_limit);
	uint16_t dlid = htobe16(path->dlid), slid = htobe16(path->slid), pkey = htobe16(path->pkey);

	memset(rec, 0, 64);
	memcpy(rec + 8, &path->dgid, 16);
	memcpy(rec + 24, &path->sgid, 16);
	memcpy(rec + 40, &dlid, 2);
	memcpy(rec + 42, &slid, 2);
	memcpy(rec + 44, &label, 4);
	rec[48] = path->traffic_class;
	rec[49] = 0x80 | 1; /* reversible; one path */
	memcpy(rec + 50, &pkey, 2);
	rec[53] = path->sl & 0xf;
	rec[54] = (uint8_t)(2 << 6 | path->mtu); /* exactly, here and below */
	rec[55] = (uint8_t)(2 << 6 | path->rate);
	rec[56] = (uint8_t)(2 << 6 | path->packet_life);
}

/* The same for the older command, field by field. */
static void user_path(const struct cma_id *id, struct ib_user_path_rec *rec)
{
	const struct simhca_cm_path *path = &id->path;

	memcpy(rec->dgid, &path->dgid, sizeof(rec->dgid));
	memcpy(rec->sgid, &path->sgid, sizeof(rec->sgid));
	rec->dlid = htobe16(path->dlid);
	rec->slid = htobe16(path->slid);
	rec->flow_label = htobe32(path->flow_label);
	rec->reversible = 1;
	rec->mtu = path->mtu;
	rec->pkey = htobe16(path->pkey);
	rec->hop_limit = path->hop_limit;
	rec->traffic_class = path->traffic_class;
	rec->numb_path = 1;
	rec->sl = path->sl;
	rec->mtu_selector = rec->rate_selector = rec->packet_life_time_selector = 2;
	rec->rate = path->rate;
	rec->packet_life_time = path->packet_life;
}

HANDLER(query_route)
{
	struct rdma_ucm_query_route_resp resp;
	const struct cma_id *id = call->id;

	memset(&resp, 0, sizeof(resp));
	memcpy(&resp.src_addr, &id->src, sizeof(resp.src_addr));
	memcpy(&resp.dst_addr, &id->dst, sizeof(resp.dst_addr));
	if (id->device) {
		resp.node_guid = node_guid(id);
		resp.port_num = 1;
		resp.ibdev_index = id->device->number;
		if (id->has_path) {
			resp.num_paths = 1;
			user_path(id, &resp.ib_route[0]);
		} else {
			memcpy(resp.ib_route[0].sgid, own_gid(id), 16);
			memcpy(resp.ib_route[0].dgid, &id->path.dgid, 16);
			resp.ib_route[0].pkey = htobe16(CMA_PKEY);
		}
	}
	return respond(call, &resp, sizeof(resp),
		       offsetof(struct rdma_ucm_query_route_resp, ibdev_index), why);
}

static void fill_device(const struct cma_id *id, struct rdma_ucm_query_addr_resp *resp)
{
	if (!id->device)
		return;
	resp->node_guid = node_guid(id);
	resp->port_num = 1;
	resp->pkey = htobe16(CMA_PKEY);
	resp->ibdev_index = id->device->number;
}

static int query_addr(struct ucma_call *call, const struct cma_id *id, struct simhca_why *why)
{
	struct rdma_ucm_query_addr_resp resp;

	memset(&resp, 0, sizeof(resp));
	resp.src_size = (uint16_t)cma_addr_size(&id->src);
	resp.dst_size = (uint16_t)cma_addr_size(&id->dst);
	memcpy(&resp.src_addr, &id->src, sizeof(id->src));
	memcpy(&resp.dst_addr, &id->dst, sizeof(id->dst));
	fill_device(id, &resp);
	return respond(call, &resp, sizeof(resp),
		       offsetof(struct rdma_ucm_query_addr_resp, ibdev_index), why);
}

static void gid_addr(const struct cma_id *id, const union cma_addr *addr,
		     const union simhca_gid *gid, struct cma_sockaddr_ib *ib)
{
	ib->family = AF_IB;
	ib->pkey = htobe16(CMA_PKEY);
	if (id->device)
		ib->gid = *gid;
	ib->sid = htobe64(cma_service_id(id, addr));
	ib->sid_mask = htobe64(UINT64_MAX);
}

static int query_gid(struct ucma_call *call, const struct cma_id *id, struct simhca_why *why)
{
	struct rdma_ucm_query_addr_resp resp;
	union cma_addr src = { .in.sin_family = 0 }, dst = { .in.sin_family = 0 };

	memset(&resp, 0, sizeof(resp));
	fill_device(id, &resp);
	if (id->src.sa.sa_family == AF_IB)
		src = id->src;
	else
		gid_addr(id, &id->src, id->device ? own_gid(id) : NULL, &src.ib);
	if (id->dst.sa.sa_family == AF_IB)
		dst = id->dst;
	else
		gid_addr(id, &id->dst, &id->path.dgid, &dst.ib);
	resp.src_size = resp.dst_size = sizeof(src.ib);
	memcpy(&resp.src_addr, &src, sizeof(src));
	memcpy(&resp.dst_addr, &dst, sizeof(dst));
	return respond(call, &resp, sizeof(resp),
		       offsetof(struct rdma_ucm_query_addr_resp, ibdev_index), why);
}

static int query_path(struct ucma_call *call, const struct cma_id *id, struct simhca_why *why)
{
	struct ib_path_rec_data path = { 0 };
	struct rdma_ucm_query_path_resp head = { 0 };
	uint8_t resp[sizeof(head) + sizeof(path)];
	size_t size = sizeof(head);

	if (id->has_path) {
		head.num_paths = 1;
		path.flags = IB_PATH_GMP | IB_PATH_PRIMARY | IB_PATH_BIDIRECTIONAL;
		pack_path(id, (uint8_t *)path.path_rec);
		if (call->out >= sizeof(resp))
			size = sizeof(resp);
	}
	memcpy(resp, &head, sizeof(head));
	memcpy(resp + sizeof(head), &path, sizeof(path));
	return respond(call, resp, size, sizeof(head), why);
}

HANDLER(query)
{
	const struct rdma_ucm_query *cmd = (const void *)call->payload;

	switch (cmd->option) {
	case RDMA_USER_CM_QUERY_ADDR:
		return query_addr(call, call->id, why);
	case RDMA_USER_CM_QUERY_PATH:
		return query_path(call, call->id, why);
	case RDMA_USER_CM_QUERY_GID:
		return query_gid(call, call->id, why);
	default:
		return simhca_why(why, ENOSYS, "there is no query %u", cmd->option);
	}
}

/* -------------------------------------------------------------------------------------- options */

HANDLER(get_option)
{
	return simhca_why(why, ENOSYS, "GET_OPTION was never there");
}

static int wrong_length(const struct rdma_ucm_set_option *cmd, size_t size, struct simhca_why *why)
{
	if (cmd->optlen == size)
		return 0;
	return simhca_why(why, EINVAL, "option %u has %zu bytes, not %u", cmd->optname, size,
			  cmd->optlen);
}

static int set_id_option(struct ucma_call *call, struct cma_id *id, struct simhca_why *why)
{
	const struct rdma_ucm_set_option *cmd = (const void *)call->payload;
	bool byte =
		cmd->optname == RDMA_OPTION_ID_TOS || cmd->optname == RDMA_OPTION_ID_ACK_TIMEOUT;
	int value = 0, ret;

	if (cmd->optname > RDMA_OPTION_ID_ACK_TIMEOUT)
		return simhca_why(why, ENOSYS, "there is no option %u", cmd->optname);
	ret = wrong_length(cmd, byte ? 1 : sizeof(value), why);
	if (ret)
		return ret;
	memcpy(&value, call->option, cmd->optlen);
	switch (cmd->optname) {
	case RDMA_OPTION_ID_TOS:
		id->tos = (uint8_t)value;
		return 0;
	case RDMA_OPTION_ID_REUSEADDR:
		/* Linux: it is given up only before the id is bound. */
		if (id->state == CMA_LISTEN || (id->state != CMA_IDLE && !value))
			return simhca_why(why, EINVAL, "the id is used already");
		id->reuseaddr = value;
		return 0;
	case RDMA_OPTION_ID_AFONLY:
		if (id->state != CMA_IDLE && id->state != CMA_BOUND)
			return simhca_why(why, EINVAL, "the id is used already");
		id->afonly = value;
		id->afonly_set = true;
		return 0;
	default:
		if (id->qp_type != IBV_QPT_RC && id->qp_type != IBV_QPT_XRC_SEND)
			return simhca_why(why, EINVAL, "only RC and XRC_SEND have a time-out");
		id->ack_timeout = (uint8_t)value;
		id->ack_timeout_set = true;
		return 0;
	}
}

/* ibacm's path instead of one that is resolved: what is fixed here stays as it is. */
static int set_path(struct ucma_call *call, struct cma_id *id, struct simhca_why *why)
{
	const struct rdma_ucm_set_option *cmd = (const void *)call->payload;
	struct ib_path_rec_data data;
	uint32_t want = IB_PATH_GMP | IB_PATH_PRIMARY | IB_PATH_BIDIRECTIONAL;
	size_t i;
	int ret;

	if (!cmd->optlen || cmd->optlen % sizeof(data))
		return simhca_why(why, EINVAL, "path records have %zu bytes each", sizeof(data));
	for (i = 0; i < cmd->optlen; i += sizeof(data)) {
		memcpy(&data, call->option + i, sizeof(data));
		if (data.flags == want)
			break;
	}
	if (i >= cmd->optlen)
		return simhca_why(why, EINVAL, "no record is of a primary path in both directions");
	if (!id->device)
		return simhca_why(why, EINVAL, "the address has to be resolved first");
	ret = cma_resolve_route(id, 1, why);
	if (!ret)
		id->path.sl = ((const uint8_t *)data.path_rec)[53] & 0xf;
	return ret;
}

HANDLER(set_option)
{
	const struct rdma_ucm_set_option *cmd = (const void *)call->payload;

	if (cmd->optlen > call->request->option)
		return simhca_why(why, EINVAL, "an option of %u bytes", cmd->optlen);
	if (cmd->level == RDMA_OPTION_ID)
		return set_id_option(call, call->id, why);
	if (cmd->level == RDMA_OPTION_IB && cmd->optname == RDMA_OPTION_IB_PATH)
		return set_path(call, call->id, why);
	return simhca_why(why, ENOSYS, "there is no option %u of level %u", cmd->optname,
			  cmd->level);
}

/* ------------------------------------------------------------------------------------ multicast */

static int join(struct ucma_call *call, uint32_t handle, uint64_t uid, const union cma_addr *addr,
		uint16_t flags, struct simhca_why *why)
{
	struct rdma_ucm_create_id_resp resp = { 0 };
	struct cma_id *id;
	int ret = find_with_device(call, handle, &id, why);

	if (!ret && call->out < sizeof(resp))
		ret = simhca_why(why, ENOSPC, "no room for the handle");
	if (!ret)
		ret = cma_join(id, uid, addr, flags, &resp.id, why);
	return ret ? ret : respond(call, &resp, sizeof(resp), sizeof(resp), why);
}

HANDLER(join_ip)
{
	const struct rdma_ucm_join_ip_mcast *cmd = (const void *)call->payload;
	union cma_addr addr;

	take_ip(&addr, &cmd->addr);
	return join(call, cmd->id, cmd->uid, &addr, RDMA_MC_JOIN_FLAG_FULLMEMBER, why);
}

HANDLER(join_any_family)
{
	const struct rdma_ucm_join_mcast *cmd = (const void *)call->payload;
	union cma_addr addr;
	int ret = take_addr(&addr, &cmd->addr, cmd->addr_size, why);

	if (!ret && !cmd->addr_size)
		return simhca_why(why, EINVAL, "there is no group");
	return ret ? ret : join(call, cmd->id, cmd->uid, &addr, cmd->join_flags, why);
}

HANDLER(leave)
{
	const struct rdma_ucm_destroy_id *cmd = (const void *)call->payload;
	struct rdma_ucm_destroy_id_resp resp;
	int ret;

	if (call->out < sizeof(resp))
		return simhca_why(why, ENOSPC, "no room for the number of events");
	ret = cma_leave(call->file, cmd->id, &resp.events_reported);
	if (ret)
		return simhca_why(why, -ret, "this event channel has joined no group %u", cmd->id);
	return respond(call, &resp, sizeof(resp), sizeof(resp), why);
}

/* ------------------------------------------------------------------------- of later releases */

HANDLER(resolve_ib_service)
{
	return simhca_why(why, EINVAL, "there is no subnet administrator to ask for services");
}

/* An event of the program's own, which comes back by GET_EVENT. */
HANDLER(write_cm_event)
{
	const struct simhca_ucma_write_cm_event *cmd = (const void *)call->payload;
	struct cma_id *id = call->id;
	struct cma_event event;

	if (cmd->event != SIMHCA_UCMA_EVENT_USER && cmd->event != SIMHCA_UCMA_EVENT_INTERNAL)
		return simhca_why(why, EINVAL, "event %u is not a program's", cmd->event);
	if (id->file->program->events >= CMA_EVENTS)
		return simhca_why(why, ENOMEM, "%u events wait to be fetched",
				  id->file->program->events);
	memset(&event, 0, sizeof(event));
	event.id = id;
	event.resp.uid = id->uid;
	event.resp.id = id->handle;
	event.resp.event = cmd->event;
	event.resp.status = cmd->status;
	memcpy(&event.resp.param, &cmd->param.arg, sizeof(cmd->param.arg));
	cma_file_queue(id->file, &event);
	return 0;
}

/* ----------------------------------------------------------------------------------- dispatch */

#define COMMAND(name, type, handler)                                                               \
	[RDMA_USER_CM_CMD_##                                                                       \
		name] = { "rdma_cm " #name, sizeof(struct rdma_ucm_##type), handler, NULL, 0 }
#define COMMAND_OF_ID(name, type, handler, find)                                                   \
	[RDMA_USER_CM_CMD_##name] = { "rdma_cm " #name, sizeof(struct rdma_ucm_##type), handler,   \
				      find, offsetof(struct rdma_ucm_##type, id) }

static const struct {
	const char *name;
	uint16_t in; /* bytes of the payload that have to be there */
	int (*handler)(struct ucma_call *call, struct simhca_why *why);
	/* Finds call->id before all else, if not NULL; where in the payload its number is. */
	int (*find)(struct ucma_call *call, uint32_t handle, struct cma_id **id,
		    struct simhca_why *why);
	uint16_t id;
} commands[SIMHCA_UCMA_COUNT] = {
	COMMAND(CREATE_ID, create_id, create_id),
	COMMAND_OF_ID(DESTROY_ID, destroy_id, destroy_id, find_id),
	COMMAND_OF_ID(BIND_IP, bind_ip, bind_ip, find_id),
	COMMAND_OF_ID(RESOLVE_IP, resolve_ip, resolve_ip, find_id),
	COMMAND_OF_ID(RESOLVE_ROUTE, resolve_route, resolve_route, find_with_device),
	COMMAND_OF_ID(QUERY_ROUTE, query, query_route, find_id),
	[RDMA_USER_CM_CMD_CONNECT] = { "rdma_cm CONNECT", offsetof(struct rdma_ucm_connect, ece),
				       connect_to, NULL, 0 },
	COMMAND_OF_ID(LISTEN, listen, listen_on, find_id),
	[RDMA_USER_CM_CMD_ACCEPT] = { "rdma_cm ACCEPT", offsetof(struct rdma_ucm_accept, ece),
				      accept_it, find_with_device,
				      offsetof(struct rdma_ucm_accept, id) },
	COMMAND(REJECT, reject, reject_it),
	COMMAND_OF_ID(DISCONNECT, disconnect, disconnect, find_with_device),
	COMMAND(INIT_QP_ATTR, init_qp_attr, init_qp_attr),
	[RDMA_USER_CM_CMD_GET_OPTION] = { "rdma_cm GET_OPTION", 0, get_option, NULL, 0 },
	COMMAND_OF_ID(SET_OPTION, set_option, set_option, find_id),
	COMMAND_OF_ID(NOTIFY, notify, notify, find_with_device),
	COMMAND(JOIN_IP_MCAST, join_ip_mcast, join_ip),
	COMMAND(LEAVE_MCAST, destroy_id, leave),
	COMMAND(MIGRATE_ID, migrate_id, migrate_id),
	COMMAND_OF_ID(QUERY, query, query, find_id),
	COMMAND(BIND, bind, bind_any_family),
	COMMAND(RESOLVE_ADDR, resolve_addr, resolve_addr),
	COMMAND(JOIN_MCAST, join_mcast, join_any_family),
	[SIMHCA_UCMA_RESOLVE_IB_SERVICE] = { "rdma_cm RESOLVE_IB_SERVICE", 0, resolve_ib_service,
					     NULL, 0 },
	[SIMHCA_UCMA_WRITE_CM_EVENT] = { "rdma_cm WRITE_CM_EVENT",
					 offsetof(struct simhca_ucma_write_cm_event, param) +
						 sizeof(uint64_t),
					 write_cm_event, find_id,
					 offsetof(struct simhca_ucma_write_cm_event, id) },
};

int ucma_call(struct ucma_call *call, uint32_t command, struct simhca_why *why)
{
	uint32_t handle;
	int ret = 0;

	if (!commands[command].handler)
		return simhca_why(why, EINVAL, "there is no command %u", command);
	if (call->in < commands[command].in)
		return simhca_why(why, EINVAL, "%s has %u bytes, not %u", commands[command].name,
				  commands[command].in, call->in);
	if (commands[command].find) {
		memcpy(&handle, call->payload + commands[command].id, sizeof(handle));
		ret = commands[command].find(call, handle, &call->id, why);
	}
	if (!ret)
		ret = commands[command].handler(call, why);
	if (ret)
		cma_notify_refusal(call->file, commands[command].name, -ret, why);
	return ret;
}
