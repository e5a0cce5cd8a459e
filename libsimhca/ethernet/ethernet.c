/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The Ethernet link: takes a frame from a RAW_PACKET QP to those who are to get it. */
#include <string.h>

#include "core/address.h"
#include "core/guard.h"
#include "dma/dma.h"
#include "ethernet.h"
#include "frame.h"
#include "link/deliver.h"
#include "link/traffic.h"
#include "proto/link.h"
#include "proto/own_memory.h"
#include "proto/qp.h"
#include "proto/responder_impl.h"
#include "proto/wqe.h"

#define MAX_FRAME (4096 + SIMHCA_FRAME_OVERHEAD)

void simhca_targets_add(struct simhca_targets *targets, const struct simhca_qp *qp,
			uint32_t flow_tag)
{
	uint64_t id = (uint64_t)qp->context->id << 32 | qp->qpn;

	for (uint32_t i = 0; i < targets->count; i++)
		if (targets->target[i].id == id)
			return;
	if (targets->count < SIMHCA_MAX_FRAME_COPIES)
		targets->target[targets->count++] = (struct simhca_target){
			.id = id, .device = qp->device, .qpn = qp->qpn, .flow_tag = flow_tag
		};
}

static void find_targets(const struct simhca_qp *qp, const struct simhca_frame *frame,
			 uint32_t length, struct simhca_targets *targets)
{
	struct simhca_device *device;

	targets->count = 0;
	for (device = qp->device->fabric->devices; device; device = device->next)
		if (simhca_port_is_active(device))
			simhca_flow_match(device, qp, frame, length, !qp->ethernet.copies->counted,
					  targets);
}

/* The target's QP or WQ if it is still there; the device may have gone as well. */
static struct simhca_qp *find_qp(struct simhca_fabric *fabric, const struct simhca_target *target)
{
	struct simhca_device *device;

	for (device = fabric->devices; device && device != target->device; device = device->next)
		;
	return device ? simhca_qp_numbered(device, target->qpn) : NULL;
}

static bool has_got_it(const struct simhca_frame_copies *copies, uint64_t id)
{
	for (uint32_t i = 0; i < copies->count; i++)
		if (copies->done[i] == id)
			return true;
	return false;
}

/* In *handover, what has to happen before those who could not accept the frame now can. */
static void deliver_to(struct simhca_worker *worker, struct simhca_qp *qp,
		       const struct simhca_target *target, struct simhca_packet *packet,
		       struct simhca_handover *handover)
{
	struct simhca_handover one = { .outcome = SIMHCA_ACCEPTED };
	struct simhca_engine *engine;
	struct simhca_qp *peer;

	/* The last delivery narrowed the guard, and this one may go to another context. */
	simhca_guard_widen(&worker->guard);
	peer = find_qp(qp->device->fabric, target);
	if (peer) {
		engine = peer->context->engine;
		packet->flow_tag = target->flow_tag;
		/* Memory that must be waited for: the frame goes on by its engine. */
		if (engine->config.may_block && !worker->engine->config.may_block) {
			one.outcome = SIMHCA_ELSEWHERE;
			one.engine = engine;
		} else {
			one = simhca_link_deliver(worker, peer, packet);
		}
	}
	if (one.outcome == SIMHCA_ELSEWHERE ||
	    (one.outcome == SIMHCA_BUSY && handover->outcome != SIMHCA_ELSEWHERE))
		*handover = one;
	else if (one.outcome != SIMHCA_BUSY && qp->ethernet.copies->count < SIMHCA_MAX_FRAME_COPIES)
		qp->ethernet.copies->done[qp->ethernet.copies->count++] = target->id;
}

static struct simhca_handover send_frame(struct simhca_worker *worker, struct simhca_qp *qp,
					 struct simhca_packet *packet)
{
	struct simhca_handover handover = { .outcome = SIMHCA_ACCEPTED };
	uint32_t length = (uint32_t)packet->length;
	struct simhca_sgl copy;
	struct simhca_targets targets;
	struct simhca_frame frame;
	uint8_t bytes[MAX_FRAME];

	/* One copy, by which the frame is judged and which all get: the sender may change its own.
	 */
	copy.count = 1;
	copy.seg[0] = (struct simhca_seg){ .addr = (uintptr_t)bytes, .length = length };
	simhca_guard_narrow(&worker->guard, packet->src_context, packet->src_context);
	if (!simhca_payload_reached(worker, packet) ||
	    simhca_dma_copy(&copy, packet->payload, length, &worker->mover, &handover.reason)) {
		handover.outcome = SIMHCA_UNREADABLE;
		return handover;
	}
	if (qp->ethernet.copies->index != qp->req.oldest) {
		qp->ethernet.copies->index = qp->req.oldest;
		qp->ethernet.copies->count = 0;
		qp->ethernet.copies->counted = false;
	}
	simhca_guard_widen(&worker->guard);
	simhca_frame_parse(bytes, length, &frame);
	if (packet->set_checksums)
		simhca_frame_set_checksums(bytes, &frame);
	find_targets(qp, &frame, length, &targets);
	qp->ethernet.copies->counted = true;

	packet->payload = &copy;
	packet->cvlan = frame.cvlan ? be16toh(frame.fields.vlan_tag) : 0;
	packet->has_cvlan = frame.cvlan;
	packet->checksums_ok = targets.count && simhca_frame_checksums_ok(bytes, &frame);
	for (uint32_t i = 0; i < targets.count; i++)
		if (!has_got_it(qp->ethernet.copies, targets.target[i].id))
			deliver_to(worker, qp, &targets.target[i], packet, &handover);
	return handover;
}

static struct simhca_handover request(struct simhca_worker *worker, struct simhca_qp *qp,
				      struct simhca_packet *packet)
{
	struct simhca_handover handover = { .outcome = SIMHCA_ACCEPTED };

	if (!simhca_link_is_up(qp))
		return handover;
	handover = send_frame(worker, qp, packet);
	if (handover.outcome == SIMHCA_ACCEPTED)
		simhca_stats_sent(worker, qp->device, packet);
	return handover;
}

static bool strips(const struct simhca_qp *qp, const struct simhca_packet *packet)
{
	return packet->has_cvlan && qp->ethernet.strip_cvlan;
}

/* A frame, for a RAW_PACKET QP or a WQ. Who has no buffer for it loses it. */
static void receive(struct simhca_request *request)
{
	struct simhca_qp *qp = request->qp;
	const struct simhca_packet *packet = request->packet;
	uint64_t addr = packet->payload->seg[0].addr, length = packet->length;
	struct simhca_sgl payload;
	struct simhca_cqe cqe;

	if (!simhca_recv_need(request))
		return;
	payload.count = 1;
	payload.seg[0] = (struct simhca_seg){ .addr = addr, .length = length };
	if (strips(qp, packet)) {
		payload.seg[0].length = SIMHCA_VLAN_OFFSET;
		addr += SIMHCA_VLAN_OFFSET + SIMHCA_VLAN_BYTES;
		length -= SIMHCA_VLAN_BYTES;
		payload.seg[payload.count++] =
			(struct simhca_seg){ .addr = addr, .length = length - SIMHCA_VLAN_OFFSET };
	}
	if (!simhca_recv_place(request, &payload, 0, length))
		return;
	cqe = simhca_recv_cqe(request, SIMHCA_WC_SUCCESS, SIMHCA_REASON_NONE, length);
	cqe.flow_tag = packet->flow_tag;
	cqe.cvlan = strips(qp, packet) ? packet->cvlan : 0;
	cqe.flags |= packet->checksums_ok ? SIMHCA_CQE_CSUM_OK : 0;
	qp->source->complete(qp, &cqe);
	simhca_reply_ack(request);
}

static enum simhca_reason check_frame(const struct simhca_qp *qp, const struct simhca_send *send)
{
	uint32_t mtu = simhca_mtu_bytes(atomic_load(&qp->device->mem->port.active_mtu));

	if (send->wqe.opcode != SIMHCA_WR_SEND)
		return SIMHCA_REASON_WQE_BAD_OPCODE;
	if (send->length < SIMHCA_FRAME_MIN)
		return SIMHCA_REASON_FRAME_TOO_SHORT;
	if (send->length > mtu + SIMHCA_FRAME_OVERHEAD)
		return SIMHCA_REASON_FRAME_TOO_LONG;
	return SIMHCA_REASON_NONE;
}

const struct simhca_link simhca_ethernet_link = {
	.slice = SIMHCA_LINK_SLICE,
	.window = 1,
	.request = request, /* nobody responds to a frame */
	.copies_bytes = sizeof(struct simhca_frame_copies),
	.receive = receive,
	.stops = true, /* as on ConnectX */
	.check = check_frame,
};
