/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Flow steering, and the counters of flows. A rule of verbs is a list of headers, each with values
 * and masks; that of the device is one struct with all fields, and another with all masks.
 */
#include <stdlib.h>
#include <string.h>

#include "say.h"
#include "command.h"

#define MAX_SPECS 10 /* as the kernel has it */
#define MAX_COUNTER_POINTS 64

/* Where ibv_read_counters() is to put which number. */
struct counter_point {
	enum ibv_counter_description what;
	uint32_t index;
};

struct shca_counters {
	struct ibv_counters counters;
	struct shca_lock lock;
	uint32_t handle;
	uint32_t num_points;
	uint32_t num_values; /* that a reader has to make room for */
	bool bound;	     /* a flow counts with it: nothing is attached any more */
	struct counter_point point[MAX_COUNTER_POINTS];
};

static struct shca_counters *to_scounters(struct ibv_counters *counters)
{
	return SHCA_CONTAINER(struct shca_counters, counters, counters);
}

/* A spec as it stands in the list, which need not be aligned. */
union spec {
	struct ibv_flow_spec any;
	struct ibv_flow_spec_eth eth;
	struct ibv_flow_spec_ipv4 ipv4;
	struct ibv_flow_spec_ipv4_ext ipv4_ext;
	struct ibv_flow_spec_ipv6 ipv6;
	struct ibv_flow_spec_tcp_udp tcp_udp;
	struct ibv_flow_spec_action_tag tag;
	struct ibv_flow_spec_counter_action count;
};

static void add_eth(struct simhca_frame_fields *to, const struct ibv_flow_eth_filter *from)
{
	memcpy(to->dst_mac, from->dst_mac, sizeof(to->dst_mac));
	memcpy(to->src_mac, from->src_mac, sizeof(to->src_mac));
	to->ether_type = from->ether_type;
	to->vlan_tag = from->vlan_tag;
}

static void add_ipv4(struct simhca_frame_fields *to, const struct ibv_flow_ipv4_ext_filter *from)
{
	to->src_ip = from->src_ip;
	to->dst_ip = from->dst_ip;
	to->proto = from->proto;
	to->tos = from->tos;
	to->ttl = from->ttl;
	to->ip_flags = from->flags;
}

static void add_ipv6(struct simhca_frame_fields *to, const struct ibv_flow_ipv6_filter *from)
{
	memcpy(to->src_ip6, from->src_ip, sizeof(to->src_ip6));
	memcpy(to->dst_ip6, from->dst_ip, sizeof(to->dst_ip6));
	to->flow_label = from->flow_label;
	to->next_hdr = from->next_hdr;
	to->traffic_class = from->traffic_class;
	to->hop_limit = from->hop_limit;
}

static void add_ports(struct simhca_frame_fields *to, const struct ibv_flow_tcp_udp_filter *from)
{
	to->src_port = from->src_port;
	to->dst_port = from->dst_port;
}

/* The flow is for frames with this header. */
static void require(struct simhca_create_flow_req *req, uint32_t layer)
{
	req->value.layers |= layer;
	req->mask.layers |= layer;
}

/* Bytes of a spec of this type; 0: there is no such type, or not here. */
static size_t spec_size(uint32_t type)
{
	switch (type) {
	case IBV_FLOW_SPEC_ETH:
		return sizeof(struct ibv_flow_spec_eth);
	case IBV_FLOW_SPEC_IPV4:
		return sizeof(struct ibv_flow_spec_ipv4);
	case IBV_FLOW_SPEC_IPV4_EXT:
		return sizeof(struct ibv_flow_spec_ipv4_ext);
	case IBV_FLOW_SPEC_IPV6:
		return sizeof(struct ibv_flow_spec_ipv6);
	case IBV_FLOW_SPEC_TCP:
	case IBV_FLOW_SPEC_UDP:
		return sizeof(struct ibv_flow_spec_tcp_udp);
	case IBV_FLOW_SPEC_ACTION_TAG:
		return sizeof(struct ibv_flow_spec_action_tag);
	case IBV_FLOW_SPEC_ACTION_DROP:
		return sizeof(struct ibv_flow_spec_action_drop);
	case IBV_FLOW_SPEC_ACTION_COUNT:
		return sizeof(struct ibv_flow_spec_counter_action);
	default:
		return 0;
	}
}

static bool is_elsewhere(uint32_t type)
{
	switch (type & ~(uint32_t)IBV_FLOW_SPEC_INNER) {
	case IBV_FLOW_SPEC_ESP:
	case IBV_FLOW_SPEC_VXLAN_TUNNEL:
	case IBV_FLOW_SPEC_GRE:
	case IBV_FLOW_SPEC_MPLS:
	case IBV_FLOW_SPEC_ACTION_HANDLE:
		return true;
	default:
		return (type & IBV_FLOW_SPEC_INNER) &&
		       spec_size(type & ~(uint32_t)IBV_FLOW_SPEC_INNER);
	}
}

/* Headers and actions of which a flow has at most one, by the bit that stands for them. */
static uint32_t kind_of(uint32_t type)
{
	switch (type) {
	case IBV_FLOW_SPEC_IPV4_EXT:
		return 1u << (IBV_FLOW_SPEC_IPV4 >> 4);
	case IBV_FLOW_SPEC_IPV6: /* beside IPv4 it is the device that refuses it */
		return 1u << 8;
	case IBV_FLOW_SPEC_UDP:
		return 1u << 9;
	default:
		return 1u << (type >= IBV_FLOW_SPEC_ACTION_TAG
				      ? 16 + (type - IBV_FLOW_SPEC_ACTION_TAG)
				      : type >> 4);
	}
}

static int add_spec(struct simhca_create_flow_req *req, const union spec *spec,
		    struct shca_counters **counters)
{
	struct ibv_flow_ipv4_ext_filter ipv4 = {};

	switch (spec->any.hdr.type) {
	case IBV_FLOW_SPEC_ETH:
		add_eth(&req->value, &spec->eth.val);
		add_eth(&req->mask, &spec->eth.mask);
		if (spec->eth.mask.vlan_tag)
			require(req, SIMHCA_LAYER_VLAN);
		return 0;
	case IBV_FLOW_SPEC_IPV4:
		ipv4.src_ip = spec->ipv4.val.src_ip;
		ipv4.dst_ip = spec->ipv4.val.dst_ip;
		add_ipv4(&req->value, &ipv4);
		ipv4.src_ip = spec->ipv4.mask.src_ip;
		ipv4.dst_ip = spec->ipv4.mask.dst_ip;
		add_ipv4(&req->mask, &ipv4);
		require(req, SIMHCA_LAYER_IPV4);
		return 0;
	case IBV_FLOW_SPEC_IPV4_EXT:
		add_ipv4(&req->value, &spec->ipv4_ext.val);
		add_ipv4(&req->mask, &spec->ipv4_ext.mask);
		require(req, SIMHCA_LAYER_IPV4);
		return 0;
	case IBV_FLOW_SPEC_IPV6:
		add_ipv6(&req->value, &spec->ipv6.val);
		add_ipv6(&req->mask, &spec->ipv6.mask);
		require(req, SIMHCA_LAYER_IPV6);
		return 0;
	case IBV_FLOW_SPEC_TCP:
	case IBV_FLOW_SPEC_UDP:
		add_ports(&req->value, &spec->tcp_udp.val);
		add_ports(&req->mask, &spec->tcp_udp.mask);
		require(req, spec->any.hdr.type == IBV_FLOW_SPEC_TCP ? SIMHCA_LAYER_TCP
								     : SIMHCA_LAYER_UDP);
		return 0;
	case IBV_FLOW_SPEC_ACTION_TAG:
		req->flags |= SIMHCA_FLOW_TAG;
		req->tag = spec->tag.tag_id;
		return 0;
	case IBV_FLOW_SPEC_ACTION_DROP:
		req->flags |= SIMHCA_FLOW_DROP;
		return 0;
	case IBV_FLOW_SPEC_ACTION_COUNT:
		if (!spec->count.counters)
			return EINVAL;
		*counters = to_scounters(spec->count.counters);
		req->flags |= SIMHCA_FLOW_COUNT;
		req->counters = (*counters)->handle;
		return 0;
	default:
		return EINVAL;
	}
}

/* The specs that follow attr, put together. */
static int add_specs(struct simhca_create_flow_req *req, const struct ibv_flow_attr *attr,
		     struct shca_counters **counters)
{
	const uint8_t *next = (const uint8_t *)(attr + 1);
	uint32_t kinds = 0, kind;
	union spec spec;
	unsigned int i;
	int err;

	if (attr->num_of_specs > MAX_SPECS)
		return EINVAL;
	for (i = 0; i < attr->num_of_specs; i++) {
		memcpy(&spec, next, offsetof(struct ibv_flow_spec, hdr) + sizeof(spec.any.hdr));
		if (is_elsewhere(spec.any.hdr.type))
			return EOPNOTSUPP;
		if (!spec_size(spec.any.hdr.type) ||
		    spec.any.hdr.size != spec_size(spec.any.hdr.type))
			return EINVAL;
		memcpy(&spec, next, spec.any.hdr.size);
		next += spec.any.hdr.size;
		kind = kind_of(spec.any.hdr.type);
		err = kinds & kind ? EINVAL : add_spec(req, &spec, counters);
		if (err)
			return err;
		kinds |= kind;
	}
	return 0;
}

struct ibv_flow *shca_create_flow(struct ibv_qp *qp, struct ibv_flow_attr *attr)
{
	struct shca_context *ctx = to_sctx(qp->context);
	struct simhca_create_flow_req req = {
		.qp = qp->handle,
		.type = (uint32_t)attr->type,
		.priority = attr->priority,
		.port = attr->port,
	};
	struct shca_counters *counters = NULL;
	struct simhca_handle reply;
	struct ibv_flow *flow;
	int err;

	if (attr->flags & IBV_FLOW_ATTR_FLAGS_EGRESS)
		return shca_say_not_made(ctx, SIMHCA_CMD_CREATE_FLOW, EOPNOTSUPP,
					 "flags has IBV_FLOW_ATTR_FLAGS_EGRESS: flows are of what "
					 "comes in");
	if (attr->comp_mask || (attr->flags & ~(uint32_t)IBV_FLOW_ATTR_FLAGS_DONT_TRAP))
		return shca_say_not_made(ctx, SIMHCA_CMD_CREATE_FLOW, EINVAL,
					 "comp_mask or flags has bits that are not known");
	if (attr->flags & IBV_FLOW_ATTR_FLAGS_DONT_TRAP)
		req.flags |= SIMHCA_FLOW_DONT_TRAP;
	err = add_specs(&req, attr, &counters);
	if (err)
		return shca_say_not_made(ctx, SIMHCA_CMD_CREATE_FLOW, err,
					 err == EOPNOTSUPP
						 ? "a spec is of a type that this device has not"
						 : "num_of_specs, or the type or size of a "
						   "spec, is wrong; each kind comes once");
	flow = calloc(1, sizeof(*flow));
	if (!flow)
		return shca_null(ENOMEM);
	err = shca_call(ctx, SIMHCA_CMD_CREATE_FLOW, &req, &reply);
	if (err) {
		free(flow);
		return shca_null(err);
	}
	flow->context = qp->context;
	flow->handle = reply.handle;
	if (counters) {
		shca_lock(&counters->lock);
		counters->bound = true;
		shca_unlock(&counters->lock);
	}
	return flow;
}

int shca_destroy_flow(struct ibv_flow *flow)
{
	int err = shca_destroy(to_sctx(flow->context), SIMHCA_CMD_DESTROY_FLOW, flow->handle, NULL);

	if (!err)
		free(flow);
	return err;
}

/* ------------------------------------------------------------------------------ counters */

struct ibv_counters *shca_create_counters(struct ibv_context *context,
					  struct ibv_counters_init_attr *attr)
{
	struct shca_context *ctx = to_sctx(context);
	struct simhca_handle reply;
	struct shca_counters *counters;
	int err;

	if (attr->comp_mask)
		return shca_null(EOPNOTSUPP);
	counters = calloc(1, sizeof(*counters));
	if (!counters)
		return shca_null(ENOMEM);
	err = shca_execute(ctx, &(struct shca_command){
					.command = SIMHCA_CMD_CREATE_COUNTERS,
					.reply = &reply,
					.reply_size = sizeof(reply),
				});
	if (err) {
		free(counters);
		return shca_null(err);
	}
	counters->counters.context = context;
	counters->handle = reply.handle;
	return &counters->counters;
}

int shca_destroy_counters(struct ibv_counters *ibv_counters)
{
	struct shca_counters *counters = to_scounters(ibv_counters);
	int err = shca_destroy(to_sctx(ibv_counters->context), SIMHCA_CMD_DESTROY_COUNTERS,
			       counters->handle, NULL);

	if (!err)
		free(counters);
	return err;
}

/* Before the flow is made that counts; a flow that exists takes none, as with mlx5. */
int shca_attach_counters(struct ibv_counters *ibv_counters, struct ibv_counter_attach_attr *attr,
			 struct ibv_flow *flow)
{
	struct shca_counters *counters = to_scounters(ibv_counters);
	int err = 0;

	if (flow || attr->comp_mask)
		return shca_result(EOPNOTSUPP);
	if (attr->counter_desc != IBV_COUNTER_PACKETS && attr->counter_desc != IBV_COUNTER_BYTES)
		return shca_result(EOPNOTSUPP);
	if (attr->index >= UINT16_MAX)
		return shca_result(EINVAL);
	shca_lock(&counters->lock);
	if (counters->bound) {
		err = EBUSY;
	} else if (counters->num_points == MAX_COUNTER_POINTS) {
		err = ENOMEM;
	} else {
		counters->point[counters->num_points++] = (struct counter_point){
			.what = attr->counter_desc,
			.index = attr->index,
		};
		if (attr->index >= counters->num_values)
			counters->num_values = attr->index + 1;
	}
	shca_unlock(&counters->lock);
	return shca_result(err);
}

int shca_read_counters(struct ibv_counters *ibv_counters, uint64_t *values, uint32_t num_values,
		       uint32_t flags)
{
	struct shca_counters *counters = to_scounters(ibv_counters);
	struct simhca_handle req = { .handle = counters->handle };
	struct simhca_read_counters_reply reply;
	uint32_t i;
	int err;

	if (flags & ~(uint32_t)IBV_READ_COUNTERS_ATTR_PREFER_CACHED)
		return shca_result(EINVAL);
	err = shca_call(to_sctx(ibv_counters->context), SIMHCA_CMD_READ_COUNTERS, &req, &reply);
	if (err)
		return err;
	shca_lock(&counters->lock);
	if (num_values < counters->num_values) {
		err = EINVAL;
	} else {
		memset(values, 0, num_values * sizeof(*values));
		for (i = 0; i < counters->num_points; i++)
			values[counters->point[i].index] +=
				counters->point[i].what == IBV_COUNTER_PACKETS ? reply.packets
									       : reply.bytes;
	}
	shca_unlock(&counters->lock);
	return shca_result(err);
}
