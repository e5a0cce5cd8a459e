/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Flow steering: which frames go to which RAW_PACKET QPs. A device has one table, whose order is
 * that in which flows are asked:
 *
 *	NORMAL		by priority, then by age. The first that matches takes the frame, together
 *			with those of the same priority that ask for exactly the same; a DONT_TRAP
 *			flow that matches gets the frame and lets it go on.
 *	MC_DEFAULT	frames to a group address that no NORMAL flow took
 *	ALL_DEFAULT	all frames that no NORMAL flow took
 *	SNIFFER		all frames
 *
 * The table is written by control functions and read by engines, under flow_lock.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "core/context.h"
#include "ethernet.h"
#include "frame.h"
#include "simhca-device.h"
#include "simhca-verbs.h"

#define TAG_LIMIT (1u << 24) /* as wide as hardware has it */

struct simhca_counters {
	uint32_t users;
	_Atomic uint64_t packets, bytes;
};

struct simhca_flow {
	struct simhca_qp *qp;
	struct simhca_counters *counters;
	uint32_t rank; /* sort key: NORMAL by priority, then MC_DEFAULT, ALL_DEFAULT, SNIFFER */
	uint32_t type, flags, tag;
	struct simhca_frame_fields value, mask; /* value has no bit that mask lacks */
	struct simhca_flow *next;
};

/* -------------------------------------------------------------------------------- matching */

#define FIELD_WORDS (sizeof(struct simhca_frame_fields) / sizeof(uint32_t))

static bool matches(const struct simhca_flow *flow, const struct simhca_frame_fields *fields)
{
	uint32_t have[FIELD_WORDS], mask[FIELD_WORDS], want[FIELD_WORDS], wrong = 0;

	memcpy(have, fields, sizeof(have));
	memcpy(mask, &flow->mask, sizeof(mask));
	memcpy(want, &flow->value, sizeof(want));
	for (size_t i = 0; i < FIELD_WORDS; i++)
		wrong |= (have[i] & mask[i]) ^ want[i];
	return !wrong;
}

static bool same_match(const struct simhca_flow *a, const struct simhca_flow *b)
{
	return a->rank == b->rank && !memcmp(&a->value, &b->value, sizeof(a->value)) &&
	       !memcmp(&a->mask, &b->mask, sizeof(a->mask));
}

static bool takes(const struct simhca_flow *flow, const struct simhca_flow *taken_by,
		  const struct simhca_frame *frame)
{
	switch (flow->type) {
	case SIMHCA_FLOW_NORMAL:
		return (!taken_by || same_match(flow, taken_by)) && matches(flow, &frame->fields);
	case SIMHCA_FLOW_MC_DEFAULT:
		return !taken_by && simhca_frame_is_multicast(frame);
	case SIMHCA_FLOW_ALL_DEFAULT:
		return !taken_by;
	default:
		return true;
	}
}

void simhca_flow_match(struct simhca_device *device, const struct simhca_qp *sender,
		       const struct simhca_frame *frame, uint32_t length, bool count,
		       struct simhca_targets *targets)
{
	const struct simhca_flow *taken_by = NULL;

	pthread_rwlock_rdlock(&device->flow_lock);
	for (struct simhca_flow *flow = device->flows; flow; flow = flow->next) {
		if (!takes(flow, taken_by, frame))
			continue;
		if (flow->type == SIMHCA_FLOW_NORMAL && !(flow->flags & SIMHCA_FLOW_DONT_TRAP))
			taken_by = flow;
		if (count && flow->counters) {
			atomic_fetch_add_explicit(&flow->counters->packets, 1,
						  memory_order_relaxed);
			atomic_fetch_add_explicit(&flow->counters->bytes, length,
						  memory_order_relaxed);
		}
		if (flow->qp != sender && !(flow->flags & SIMHCA_FLOW_DROP))
			simhca_targets_add(targets,
					   flow->qp->ethernet.rss
						   ? simhca_rss_wq(flow->qp->ethernet.rss, frame)
						   : flow->qp,
					   flow->tag);
	}
	pthread_rwlock_unlock(&device->flow_lock);
}

/* -------------------------------------------------------------------------- the table */

static int check_layers(const struct simhca_create_flow_req *req, struct simhca_why *why)
{
	const struct simhca_frame_fields *value = &req->value, *mask = &req->mask;
	uint32_t layers = value->layers & mask->layers;
	uint16_t type = ntohs(value->ether_type);
	uint8_t proto = layers & SIMHCA_LAYER_IPV6 ? value->next_hdr : value->proto;
	uint8_t proto_mask = layers & SIMHCA_LAYER_IPV6 ? mask->next_hdr : mask->proto;

	if ((layers & SIMHCA_LAYER_IPV4) && (layers & SIMHCA_LAYER_IPV6))
		return simhca_why(why, EINVAL, "a frame is not IPv4 and IPv6 at once");
	if ((layers & SIMHCA_LAYER_TCP) && (layers & SIMHCA_LAYER_UDP))
		return simhca_why(why, EINVAL, "a frame is not TCP and UDP at once");
	if (mask->ether_type == 0xffff && (((layers & SIMHCA_LAYER_IPV4) && type != 0x0800) ||
					   ((layers & SIMHCA_LAYER_IPV6) && type != 0x86dd)))
		return simhca_why(why, EINVAL, "ether_type 0x%04x contradicts the IP spec", type);
	if (proto_mask == 0xff && (((layers & SIMHCA_LAYER_TCP) && proto != IPPROTO_TCP) ||
				   ((layers & SIMHCA_LAYER_UDP) && proto != IPPROTO_UDP)))
		return simhca_why(why, EINVAL, "protocol %u contradicts the TCP or UDP spec",
				  proto);
	return 0;
}

/* The errnos are those of mlx5. */
static int check_request(const struct simhca_create_flow_req *req, struct simhca_why *why)
{
	static const struct simhca_frame_fields nothing;
	const uint32_t known =
		SIMHCA_FLOW_DONT_TRAP | SIMHCA_FLOW_DROP | SIMHCA_FLOW_TAG | SIMHCA_FLOW_COUNT;

	if (req->type > SIMHCA_FLOW_SNIFFER)
		return simhca_why(why, EINVAL, "flow type %u: 0 to 3", req->type);
	if (req->priority >= SIMHCA_FLOW_PRIORITIES)
		return simhca_why(why, ENOSPC, "priority %u: 0 to %u", req->priority,
				  SIMHCA_FLOW_PRIORITIES - 1);
	if (req->port != 1)
		return simhca_why(why, EINVAL, "port %u: only 1", req->port);
	if (req->flags & ~known)
		return simhca_why(why, EINVAL, "flow flags 0x%x are not known", req->flags);
	if ((req->flags & SIMHCA_FLOW_TAG) && req->tag >= TAG_LIMIT)
		return simhca_why(why, EINVAL, "flow tag 0x%x: 24 bits", req->tag);
	if (req->type == SIMHCA_FLOW_NORMAL) {
		if ((req->flags & SIMHCA_FLOW_DROP) && (req->flags & SIMHCA_FLOW_DONT_TRAP))
			return simhca_why(why, EINVAL, "a flow cannot drop and let pass");
		return check_layers(req, why);
	}
	if (req->flags & (SIMHCA_FLOW_DROP | SIMHCA_FLOW_DONT_TRAP))
		return simhca_why(why, EINVAL, "only a NORMAL flow drops, or lets pass");
	if (req->type != SIMHCA_FLOW_SNIFFER && (req->flags & SIMHCA_FLOW_TAG))
		return simhca_why(why, EINVAL, "a default flow has no tag");
	if (memcmp(&req->mask, &nothing, sizeof(nothing)))
		return simhca_why(why, EINVAL, "only a NORMAL flow looks at headers");
	return 0;
}

static uint32_t rank(const struct simhca_create_flow_req *req)
{
	switch (req->type) {
	case SIMHCA_FLOW_NORMAL:
		return req->priority;
	case SIMHCA_FLOW_MC_DEFAULT:
		return SIMHCA_FLOW_PRIORITIES;
	case SIMHCA_FLOW_ALL_DEFAULT:
		return SIMHCA_FLOW_PRIORITIES + 1;
	default:
		return SIMHCA_FLOW_PRIORITIES + 2;
	}
}

static void keep_what_counts(struct simhca_flow *flow, const struct simhca_create_flow_req *req)
{
	const uint8_t *value = (const uint8_t *)&req->value, *mask = (const uint8_t *)&req->mask;
	uint8_t *kept = (uint8_t *)&flow->value;

	flow->mask = req->mask;
	for (size_t i = 0; i < sizeof(flow->value); i++)
		kept[i] = value[i] & mask[i];
}

/* Files a flow behind all of its rank; -EEXIST if one that asks for the same does otherwise. */
static int insert(struct simhca_device *device, struct simhca_flow *flow, struct simhca_why *why)
{
	const uint32_t action = SIMHCA_FLOW_DROP | SIMHCA_FLOW_DONT_TRAP;
	struct simhca_flow **link = &device->flows;

	for (; *link && (*link)->rank <= flow->rank; link = &(*link)->next)
		if (flow->type == SIMHCA_FLOW_NORMAL && same_match(*link, flow) &&
		    (((*link)->flags ^ flow->flags) & action || (*link)->tag != flow->tag))
			return simhca_why(why, EEXIST,
					  "a flow with the same match has another tag or action");
	pthread_rwlock_wrlock(&device->flow_lock);
	flow->next = *link;
	*link = flow;
	pthread_rwlock_unlock(&device->flow_lock);
	return 0;
}

static void unlink_flow(struct simhca_device *device, struct simhca_flow *flow)
{
	struct simhca_flow **link = &device->flows;

	pthread_rwlock_wrlock(&device->flow_lock);
	while (*link != flow)
		link = &(*link)->next;
	*link = flow->next;
	pthread_rwlock_unlock(&device->flow_lock);
}

int simhca_create_flow(struct simhca_context *context, const struct simhca_create_flow_req *req,
		       struct simhca_handle *reply, struct simhca_why *why)
{
	struct simhca_qp *qp = simhca_object(context, SIMHCA_OBJ_QP, req->qp, why);
	struct simhca_counters *counters = NULL;
	struct simhca_flow *flow;
	int ret;

	if (!qp)
		return -ENOENT;
	if (qp->type != SIMHCA_QPT_RAW_PACKET)
		return simhca_why(why, EINVAL, "a flow leads to a RAW_PACKET QP");
	ret = check_request(req, why);
	if (ret)
		return ret;
	if (req->flags & SIMHCA_FLOW_COUNT) {
		counters = simhca_object(context, SIMHCA_OBJ_COUNTERS, req->counters, why);
		if (!counters)
			return -ENOENT;
	}
	flow = calloc(1, sizeof(*flow));
	if (!flow)
		return simhca_why(why, ENOMEM, "out of memory");
	flow->qp = qp;
	flow->counters = counters;
	flow->rank = rank(req);
	flow->type = req->type;
	flow->flags = req->flags;
	flow->tag = req->flags & SIMHCA_FLOW_TAG ? req->tag : 0;
	keep_what_counts(flow, req);
	ret = simhca_object_add(context, SIMHCA_OBJ_FLOW, flow, &reply->handle, why);
	if (ret)
		goto fail;
	ret = insert(context->device, flow, why);
	if (ret) {
		simhca_object_remove(context, SIMHCA_OBJ_FLOW, reply->handle);
		goto fail;
	}
	qp->users++;
	if (counters)
		counters->users++;
	return 0;
fail:
	free(flow);
	return ret;
}

int simhca_destroy_flow(struct simhca_context *context, uint32_t handle, struct simhca_why *why)
{
	struct simhca_flow *flow = simhca_object(context, SIMHCA_OBJ_FLOW, handle, why);

	if (!flow)
		return -ENOENT;
	unlink_flow(context->device, flow);
	flow->qp->users--;
	if (flow->counters)
		flow->counters->users--;
	simhca_object_remove(context, SIMHCA_OBJ_FLOW, handle);
	free(flow);
	return 0;
}

/* ------------------------------------------------------------------------------ counters */

int simhca_create_counters(struct simhca_context *context, struct simhca_handle *reply,
			   struct simhca_why *why)
{
	struct simhca_counters *counters = calloc(1, sizeof(*counters));
	int ret;

	if (!counters)
		return simhca_why(why, ENOMEM, "out of memory");
	ret = simhca_object_add(context, SIMHCA_OBJ_COUNTERS, counters, &reply->handle, why);
	if (ret)
		free(counters);
	return ret;
}

int simhca_read_counters(struct simhca_context *context, uint32_t handle,
			 struct simhca_read_counters_reply *reply, struct simhca_why *why)
{
	struct simhca_counters *counters = simhca_object(context, SIMHCA_OBJ_COUNTERS, handle, why);

	if (!counters)
		return -ENOENT;
	reply->packets = atomic_load_explicit(&counters->packets, memory_order_relaxed);
	reply->bytes = atomic_load_explicit(&counters->bytes, memory_order_relaxed);
	return 0;
}

int simhca_destroy_counters(struct simhca_context *context, uint32_t handle, struct simhca_why *why)
{
	struct simhca_counters *counters = simhca_object(context, SIMHCA_OBJ_COUNTERS, handle, why);

	if (!counters)
		return -ENOENT;
	if (counters->users)
		return simhca_why(why, EBUSY, "%u flows still count with these counters",
				  counters->users);
	simhca_object_remove(context, SIMHCA_OBJ_COUNTERS, handle);
	free(counters);
	return 0;
}
