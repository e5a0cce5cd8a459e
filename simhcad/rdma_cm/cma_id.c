/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Ids up to the point where they know a way to the peer: bind, resolve, listen. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "cma.h"
#include "device/netif.h"

#define HOP_LIMIT 64

static void on_resolving(struct ev_loop *loop, ev_timer *timer, int events);

void cma_set_state(struct cma_id *id, enum cma_state state)
{
	id->file->cma->in_state[id->state]--;
	id->state = state;
	id->file->cma->in_state[id->state]++;
}

struct cma_id *cma_id_create(struct cma_file *file, uint64_t uid, uint16_t ps, uint8_t qp_type)
{
	struct cma_id *id = NULL;

	if (file->program->objects < CMA_OBJECTS)
		id = calloc(1, sizeof(*id));
	if (!id)
		return NULL;
	if (cma_handle_add(&file->cma->ids, id, &id->handle)) {
		free(id);
		return NULL;
	}
	id->file = file;
	id->uid = uid;
	id->ps = ps;
	id->qp_type = qp_type;
	id->psn = simhca_cm_psn(file->cma->cm);
	ev_timer_init(&id->resolving, on_resolving, 0, 0);
	id->resolving.data = id;
	DL_APPEND(file->ids, id);
	file->program->objects++;
	file->cma->num_ids++;
	file->cma->in_state[id->state]++;
	return id;
}

/* Events that were not fetched go with it, and so do requests that came to it by them. */
void cma_id_drop_event(struct cma_event *event)
{
	if (event->request)
		cma_id_destroy(event->request); /* and the event */
	else
		cma_event_free(event);
}

void cma_id_destroy(struct cma_id *id)
{
	struct cma_file *file = id->file;

	while (id->events)
		cma_id_drop_event(id->events);
	while (id->mcs)
		cma_mc_free(id->mcs);
	ev_timer_stop(file->cma->daemon->loop, &id->resolving);
	cma_port_release(id);
	if (id->listener)
		cma_file_forget_request(id);
	if (id->cm)
		simhca_cm_id_destroy(id->cm, false);
	cma_handle_remove(&file->cma->ids, id->handle);
	DL_DELETE(file->ids, id);
	file->program->objects--;
	file->cma->num_ids--;
	file->cma->in_state[id->state]--;
	free(id);
}

int cma_id_find(struct cma_file *file, uint32_t handle, struct cma_id **id)
{
	*id = cma_handle_get(&file->cma->ids, handle);
	if (!*id)
		return -ENOENT;
	return (*id)->file == file ? 0 : -EINVAL;
}

void cma_attach(struct cma_id *id, struct device *device, uint8_t sgid_index)
{
	id->device = device;
	id->sgid_index = sgid_index;
}

/* What Linux says on Ethernet to an address or a port space that InfiniBand alone has; 0: it has it there as well. */
static int infiniband_only(const struct cma_id *id, const struct device *device, int family)
{
	if (!device || device->options->settings.infiniband)
		return 0;
	if (family == AF_IB)
		return ENODEV;
	return id->ps == RDMA_PS_IPOIB ? EINVAL : 0;
}

#define INFINIBAND_ONLY                                                                            \
	"AF_IB addresses and RDMA_PS_IPOIB are for InfiniBand: use an IP address, and RDMA_PS_UDP"

/* --------------------------------------------------------------------------------------- bind */

static int check_local(struct cma_id *id, const union cma_addr *addr, struct simhca_why *why)
{
	struct cma *cma = id->file->cma;
	char text[CMA_ADDR_TEXT];
	uint8_t sgid_index;
	struct device *device;
	int error;

	if (cma_addr_is_link_local(addr) && !addr->in6.sin6_scope_id)
		return simhca_why(why, EINVAL, "%s is link-local and has no scope",
				  cma_addr_print(addr, text));
	/* Where a device is on the loopback interface, its addresses are as good as any others. */
	device = cma_addr_device(cma, addr, &sgid_index);
	error = infiniband_only(id, device, addr->sa.sa_family);
	if (error)
		return simhca_why(why, error, INFINIBAND_ONLY);
	if (device) {
		cma_attach(id, device, sgid_index);
		return 0;
	}
	if (cma_addr_is_any(addr))
		return 0;
	/* A scope names the interface, whatever addresses that has. */
	if (addr->sa.sa_family != AF_IB && !cma_addr_is_link_local(addr)) {
		union simhca_gid gid;

		cma_addr_gid(addr, &gid);
		if (cma_addr_is_mapped(addr) ||
		    !netif_has_address(cma->daemon->netif, NULL, gid.raw))
			return simhca_why(why, EADDRNOTAVAIL, "no network interface has %s",
					  cma_addr_print(addr, text));
	}
	return simhca_why(
		why, ENODEV,
		"no device is on the interface of %s: bind to an address that `simhca status` "
		"shows, or have a device there: `simhca run --netdev NAME`",
		cma_addr_print(addr, text));
}

int cma_bind(struct cma_id *id, const union cma_addr *addr, struct simhca_why *why)
{
	int ret;

	if (addr->sa.sa_family != AF_INET && addr->sa.sa_family != AF_INET6 &&
	    addr->sa.sa_family != AF_IB)
		return simhca_why(why, EAFNOSUPPORT, "address family %u", addr->sa.sa_family);
	if (id->state != CMA_IDLE)
		return simhca_why(why, EINVAL, "the id is bound already");
	ret = check_local(id, addr, why);
	if (ret)
		return ret;
	id->src = *addr;
	id->dst.sa.sa_family = addr->sa.sa_family;
	if (!id->afonly_set)
		id->afonly = addr->sa.sa_family == AF_INET;
	ret = cma_port_bind(id, why);
	if (ret) {
		memset(&id->src, 0, sizeof(id->src));
		memset(&id->dst, 0, sizeof(id->dst));
		id->device = NULL;
		return ret;
	}
	cma_set_state(id, CMA_BOUND);
	return 0;
}

int cma_listen(struct cma_id *id, int backlog, struct simhca_why *why)
{
	union cma_addr any = { .in = { .sin_family = AF_INET } };
	int ret;

	if (id->state == CMA_IDLE) {
		ret = cma_bind(id, &any, why);
		if (ret)
			return ret;
	}
	if (id->state != CMA_BOUND)
		return simhca_why(why, EINVAL,
				  id->state == CMA_LISTEN
					  ? "the id listens already"
					  : "the id connects, or resolves an address: who listens "
					    "has an id for that alone");
	ret = cma_port_listen(id, why);
	if (ret)
		return ret;
	id->backlog = SIMHCA_UCMA_MAX_BACKLOG;
	if (backlog > 0 && backlog < SIMHCA_UCMA_MAX_BACKLOG)
		id->backlog = (unsigned int)backlog;
	cma_set_state(id, CMA_LISTEN);
	return 0;
}

/* ------------------------------------------------------------------------------------ resolve */

/* A destination on this fabric, or on its device's wire: fills the path's far end. */
static bool find_destination(struct cma_id *id, struct simhca_cm_path *path)
{
	struct device *device;
	uint8_t index;

	if (cma_addr_is_multicast(&id->dst)) {
		cma_mgid(id, &id->dst, &path->dgid);
		path->dlid = cma_mlid(&path->dgid);
		return true;
	}
	device = cma_addr_device(id->file->cma, &id->dst, &index);
	/* Loopback is the device itself, whatever its addresses are. */
	if (!device && cma_addr_is_any(&id->dst)) {
		device = id->device;
		index = id->sgid_index;
	}
	/* Whether it is there shows when it is asked. */
	if (!device && id->device->options->settings.wire) {
		cma_addr_gid(&id->dst, &path->dgid);
		path->dlid = 0xffff;
		return true;
	}
	if (!device ||
	    device->options->settings.infiniband != id->device->options->settings.infiniband)
		return false;
	path->dgid = device->gids[index].gid;
	path->dlid = simhca_device_memory(device->model)->port.lid;
	return true;
}

/*
 * 0, or why an id gets no address: less than 0, the call fails with that errno; more than 0, ADDR_ERROR brings it;
 * ETIMEDOUT when the time is over. ENODATA: the neighbour has not answered yet. So it is in the functions below.
 *
 * The source that the kernel routes packets to the destination from; its device is the id's if that has none yet. An
 * address of this daemon's is reached without a route as well.
 */
static int find_route(struct cma_id *id, bool is_here, struct simhca_why *why)
{
	char to[CMA_ADDR_TEXT], from[CMA_ADDR_TEXT];
	struct device *device;
	union cma_addr src;
	uint8_t index;
	const char *failed;
	int ret = cma_route(id, &src, &failed);

	if (ret && is_here)
		return 0;
	if (ret && failed)
		return simhca_why(why, -ret,
				  "the kernel cannot be asked for a route from %s to %s: %s fails",
				  cma_addr_print(&id->src, from), cma_addr_print(&id->dst, to),
				  failed);
	if (ret)
		return simhca_why(why, -ret,
				  "the kernel routes nothing to %s: `ip route get ADDRESS` has to "
				  "name a route",
				  cma_addr_print(&id->dst, to));
	if (id->device)
		return 0;
	/* Several devices can have the address, where they are on one interface. */
	device = is_here ? NULL : cma_wire_device(id->file->cma, &src, &index);
	if (!device)
		device = cma_addr_device(id->file->cma, &src, &index);
	if (!device && is_here)
		return 0;
	if (!device) {
		device = cma_interface_device(id->file->cma, &src, &index);
		if (!device)
			return -simhca_why(why, ENODEV,
					   "packets to %s leave from %s, where no device is",
					   cma_addr_print(&id->dst, to),
					   cma_addr_print(&src, from));
		cma_attach(id, device, index);
		return 0;
	}
	cma_attach(id, device, index);
	if (id->src.sa.sa_family == AF_INET)
		id->src.in.sin_addr = src.in.sin_addr;
	else
		id->src.in6.sin6_addr = src.in6.sin6_addr;
	return 0;
}

/*
 * Who is not bound to a device, and not routed, sends from the destination's own, if it is here, and by the same address.
 * Who is routed from an address without a GID sends from that of the GID.
 */
static void find_source(struct cma_id *id, struct device *device, uint8_t index)
{
	const bool is_here = device;

	if (!id->device) {
		if (!device)
			device = cma_any_device(id->file->cma, &id->dst, &index);
		if (!device)
			return;
		cma_attach(id, device, index);
	}
	if (!cma_addr_is_zero(&id->src))
		return;
	if (!is_here)
		cma_addr_of_source(id->device, id->sgid_index, &id->dst, &id->src);
	else if (id->src.sa.sa_family == AF_INET)
		id->src.in.sin_addr = id->dst.in.sin_addr;
	else
		id->src.in6.sin6_addr = id->dst.in6.sin6_addr;
}

/* Whether packets to its destination are the kernel's to route: those that leave the host, or could. */
static bool is_routed(struct cma_id *id, const struct device *here)
{
	if (id->dst.sa.sa_family == AF_IB || cma_addr_is_any(&id->dst))
		return false;
	/* For a device to send from, which an id that is bound to one has. */
	if (here)
		return !id->device && !here->options->settings.infiniband;
	return id->device ? id->device->options->settings.wire : cma_has_wire(id->file->cma);
}

/* What Linux says on Ethernet to what InfiniBand alone has, but for loopback, which has no route. */
static int resolve_on_ethernet(struct cma_id *id, struct simhca_why *why)
{
	uint8_t index;

	if (id->device->options->settings.infiniband || cma_addr_is_any(&id->dst))
		return 0;
	if (id->dst.sa.sa_family == AF_IB)
		return cma_addr_device(id->file->cma, &id->dst, &index)
			       ? 0
			       : simhca_why(why, ENODEV, INFINIBAND_ONLY);
	return id->ps == RDMA_PS_IPOIB ? -simhca_why(why, EINVAL, INFINIBAND_ONLY) : 0;
}

static int try_resolve(struct cma_id *id, struct simhca_why *why)
{
	uint8_t index = 0;
	struct device *here = cma_addr_device(id->file->cma, &id->dst, &index);
	const bool routed = is_routed(id, here);
	int ret;

	if (routed) {
		ret = find_route(id, here, why);
		if (ret)
			return ret;
	}
	find_source(id, here, index);
	if (!id->device)
		return simhca_why(why, ENODEV, "no device has an active port");
	ret = resolve_on_ethernet(id, why);
	if (!ret && routed && !here && id->device->options->settings.wire)
		ret = cma_neighbour(id, why);
	if (ret)
		return ret;
	memset(&id->path, 0, sizeof(id->path));
	return find_destination(id, &id->path) ? 0 : ETIMEDOUT;
}

/* As try_resolve(); an id that gets no address keeps the source that it had. */
static int resolve(struct cma_id *id, struct simhca_why *why)
{
	struct device *device = id->device;
	union cma_addr src = id->src;
	int ret = try_resolve(id, why);

	if (ret) {
		id->device = device;
		id->src = src;
	}
	return ret;
}

/* The kernel is asked again whether the neighbour has answered, which most do at once. */
#define FIRST_PAUSE 0.001 /* seconds, and then twice as many, up to */
#define LAST_PAUSE 0.1
/* Of all ids that wait, however many a program has: others use the event loop as well. */
#define LOOKS_PER_SECOND 1000.0

/* Until it is looked again: for a neighbour several times, for an address of this daemon's when the time is over. */
static void wait_for(struct cma_id *id, int what)
{
	struct cma *cma = id->file->cma;
	ev_tstamp left = id->give_up - ev_now(cma->daemon->loop);
	ev_tstamp pause = cma->in_state[CMA_ADDR_QUERY] / LOOKS_PER_SECOND;

	if (pause < id->pause)
		pause = id->pause;
	if (pause > left || what != ENODATA)
		pause = left;
	id->pause = 2 * id->pause < LAST_PAUSE ? 2 * id->pause : LAST_PAUSE;
	ev_timer_set(&id->resolving, pause, 0);
	ev_timer_start(cma->daemon->loop, &id->resolving);
}

static void on_resolving(struct ev_loop *loop, ev_timer *timer, int events)
{
	struct cma_id *id = timer->data;
	const bool is_over = ev_now(loop) >= id->give_up;
	struct simhca_why why = { 0 };
	int ret = resolve(id, &why);

	if (!ret) {
		cma_set_state(id, CMA_ADDR_RESOLVED);
		cma_event(id, CMA_EV_ADDR_RESOLVED, 0);
		return;
	}
	if (!is_over && (ret == ENODATA || ret == ETIMEDOUT)) {
		wait_for(id, ret);
		return;
	}
	if (ret == ENODATA)
		cma_notify_failure(id, CMA_NO_NEIGHBOUR, ETIMEDOUT, "%s", why.text);
	cma_set_state(id, CMA_BOUND);
	cma_event(id, CMA_EV_ADDR_ERROR, is_over ? -ETIMEDOUT : -abs(ret));
}

/* Whether it is an address of ours in the wrong byte order. */
static bool is_reversed(struct cma *cma, const union cma_addr *addr)
{
	union cma_addr reversed = *addr;
	uint8_t index;

	if (addr->sa.sa_family != AF_INET)
		return false;
	reversed.in.sin_addr.s_addr = __builtin_bswap32(addr->in.sin_addr.s_addr);
	return cma_addr_is_loopback(&reversed) || cma_addr_device(cma, &reversed, &index);
}

/* An id that is bound to nothing is bound as its destination wants it. */
static int bind_source(struct cma_id *id, const union cma_addr *src, const union cma_addr *dst,
		       struct simhca_why *why)
{
	union cma_addr from = *src;

	if (!from.sa.sa_family) {
		from.sa.sa_family = dst->sa.sa_family;
		/* IPv6: of the same link. AF_IB: any port of the destination's space. */
		if (dst->sa.sa_family == AF_INET6)
			from.in6.sin6_scope_id = dst->in6.sin6_scope_id;
		if (dst->sa.sa_family == AF_IB) {
			from.ib.pkey = dst->ib.pkey;
			from.ib.sid = dst->ib.sid & htobe64(~UINT64_C(0xffff));
			from.ib.sid_mask = htobe64(~UINT64_C(0xffff));
		}
	}
	return cma_bind(id, &from, why);
}

/* Whether the id may look for that destination now. */
static int check_resolves(const struct cma_id *id, const union cma_addr *dst,
			  struct simhca_why *why)
{
	if (id->state == CMA_DISCONNECT)
		return simhca_why(why, EINVAL, CMA_CONNECTS_ONCE);
	if (id->state != CMA_BOUND)
		return simhca_why(why, EINVAL, "the id is connected, or resolves already");
	if (id->src.sa.sa_family != dst->sa.sa_family)
		return simhca_why(why, EINVAL, "source and destination are of different families");
	return 0;
}

static void resolve_later(struct cma_id *id, uint32_t timeout_ms, int what)
{
	cma_set_state(id, CMA_ADDR_QUERY);
	id->give_up = ev_now(id->file->cma->daemon->loop) + timeout_ms / 1000.0;
	id->pause = FIRST_PAUSE;
	wait_for(id, what);
}

/* No device of this daemon has the destination. One that gets the address before the time is over is found. */
static void nobody_has_it(const struct cma_id *id)
{
	struct cma *cma = id->file->cma;
	char text[CMA_ADDR_TEXT];

	cma_notify_failure(id, CMA_NO_DEVICE, 0, "no device of this daemon has %s; %s",
			   cma_addr_print(&id->dst, text),
			   is_reversed(cma, &id->dst)
				   ? "with its bytes reversed one has it: use htonl(), "
				     "or inet_pton() alone"
				   : "see the GIDs of `simhca status`");
}

int cma_resolve_addr(struct cma_id *id, const union cma_addr *src, const union cma_addr *dst,
		     uint32_t timeout_ms, struct simhca_why *why)
{
	int ret = 0;

	if (dst->sa.sa_family != AF_INET && dst->sa.sa_family != AF_INET6 &&
	    dst->sa.sa_family != AF_IB)
		return simhca_why(why, EAFNOSUPPORT, "address family %u", dst->sa.sa_family);
	if (id->state == CMA_IDLE)
		ret = bind_source(id, src, dst, why);
	if (!ret)
		ret = check_resolves(id, dst, why);
	if (ret)
		return ret;
	id->dst = *dst;
	ret = resolve(id, why);
	if (!ret) {
		cma_set_state(id, CMA_ADDR_RESOLVED);
		cma_event(id, CMA_EV_ADDR_RESOLVED, 0);
		return 0;
	}
	if (ret < 0)
		return ret;
	if (ret == ETIMEDOUT)
		nobody_has_it(id);
	if (ret == ETIMEDOUT || ret == ENODATA) {
		resolve_later(id, timeout_ms, ret);
		return 0;
	}
	cma_notify_failure(id, CMA_NO_DEVICE, ret, "%s", why->text);
	cma_event(id, CMA_EV_ADDR_ERROR, -ret);
	return 0;
}

/* RoCE asks nobody: all of a path is known here. */
int cma_resolve_route(struct cma_id *id, uint32_t timeout_ms, struct simhca_why *why)
{
	const struct simhca_devmem *memory;
	struct simhca_cm_path *path = &id->path;
	bool infiniband;

	if (!timeout_ms)
		return simhca_why(why, EINVAL, "the time-out is 0");
	if (id->state == CMA_ROUTE_RESOLVED || id->state == CMA_CONNECT)
		return simhca_why(why, EINVAL, "the route is resolved already");
	if (id->state == CMA_DISCONNECT)
		return simhca_why(why, EINVAL, CMA_CONNECTS_ONCE);
	if (id->state != CMA_ADDR_RESOLVED)
		return simhca_why(why, EINVAL, "the address has to be resolved first");
	infiniband = id->device->options->settings.infiniband;
	if (!infiniband && (id->dst.sa.sa_family == AF_IB || id->ps == RDMA_PS_IPOIB))
		return simhca_why(why, ENODEV, INFINIBAND_ONLY);
	memory = simhca_device_memory(id->device->model);
	path->port = id->device;
	path->ca_guid = be64toh(memory->attr.node_guid);
	path->sgid = id->device->gids[id->sgid_index].gid;
	path->slid = memory->port.lid;
	path->pkey = CMA_PKEY;
	path->hop_limit = HOP_LIMIT;
	path->traffic_class = id->tos;
	path->mtu = (uint8_t)memory->port.active_mtu;
	path->packet_life = infiniband ? CMA_PACKET_LIFE_INFINIBAND : CMA_PACKET_LIFE_ETHERNET;
	/* On InfiniBand it is the subnet manager that knows how long packets take. */
	if (!infiniband && id->ack_timeout_set && id->ack_timeout)
		path->packet_life = id->ack_timeout - 1;
	if (!infiniband) {
		path->slid = path->dlid = 0xffff;
		path->flow_label =
			(cma_addr_port(&id->src) * 31u + cma_addr_port(&id->dst)) & 0xfffff;
	}
	id->has_path = true;
	cma_set_state(id, CMA_ROUTE_RESOLVED);
	cma_event(id, CMA_EV_ROUTE_RESOLVED, 0);
	return 0;
}
