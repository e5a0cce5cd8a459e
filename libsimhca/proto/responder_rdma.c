/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* One-sided operations: RDMA WRITE and READ, atomics, FLUSH. */
#include "dma/dma.h"
#include "link.h"
#include "own_memory.h"
#include "packet/packet.h"
#include "queue/psn.h"
#include "qp.h"
#include "responder_impl.h"
#include "simhca-info.h"

#define LATER_NS (20u * 1000u)

/* A request that the QP does not grant is invalid. */
static bool is_granted(struct simhca_request *request)
{
	enum simhca_reason reason = simhca_request_granted(request->packet, request->qp->qpc);

	if (reason != SIMHCA_REASON_NONE)
		simhca_refuse_invalid(request, reason);
	return reason == SIMHCA_REASON_NONE;
}

bool simhca_execute_write(struct simhca_request *request)
{
	struct simhca_qp *qp = request->qp;
	const struct simhca_packet *packet = request->packet;
	struct simhca_sgl target;

	target.count = 0;
	if (!is_granted(request))
		return false;
	if (packet->first) {
		qp->resp.va = packet->va;
		qp->resp.rkey = packet->rkey;
		qp->resp.left = packet->dma_length;
	}
	if (packet->last ? packet->length != qp->resp.left : packet->length >= qp->resp.left) {
		simhca_refuse_invalid(request, SIMHCA_REASON_OPCODE_SEQUENCE);
		return false;
	}
	/* The first packet's RETH speaks for the whole message: no byte is placed if it is wrong.
	 */
	if (packet->first && !packet->last &&
	    !simhca_memory_remote(request, packet->dma_length, NULL))
		return false;
	if (!simhca_memory_remote(request, packet->length, &target))
		return false;
	if (packet->has_imm && !simhca_recv_need(request))
		return false;
	if (!simhca_memory_write(request, SIMHCA_REMOTE_MEMORY, &target, packet->payload,
				 packet->length))
		return false;
	qp->resp.offset += packet->length;
	qp->resp.va += packet->length;
	qp->resp.left -= packet->length;
	return !packet->has_imm || simhca_recv_completes(request, qp->resp.offset);
}

bool simhca_read_respond(struct simhca_request *request)
{
	struct simhca_qp *qp = request->qp;
	const struct simhca_packet *packet = request->packet;
	uint64_t slice = simhca_qp_slice(qp);
	uint64_t length = packet->dma_length < slice ? packet->dma_length : slice;
	struct simhca_sgl source;
	struct simhca_packet response = {
		.op = SIMHCA_PKT_READ_RESPONSE,
		.first = packet->first,
		.last = length == packet->dma_length,
		.psn = packet->psn,
		.syndrome = SIMHCA_SYNDROME_ACK,
		.length = length,
		.payload = &source,
	};
	const struct simhca_read_owed before = qp->resp.read;
	const uint8_t owed = qp->resp.owed;
	struct simhca_handover handover;

	source.count = 0;
	if (!simhca_memory_remote(request, length, &source) ||
	    simhca_memory_is_elsewhere(request, &source) ||
	    !simhca_memory_is_there(request, SIMHCA_RESPONDER_READ, &source))
		return false;
	qp->resp.owed = response.last	    ? SIMHCA_OWES_NOTHING
			: request->repeated ? SIMHCA_OWES_REPEATED
					    : SIMHCA_OWES_RESPONSE;
	qp->resp.read.psn =
		simhca_psn_add(packet->psn, simhca_psn_count(length, simhca_qp_mtu(qp)));
	qp->resp.read.rkey = packet->rkey;
	qp->resp.read.srqn = packet->srqn;
	qp->resp.read.va = packet->va + length;
	qp->resp.read.left = (uint32_t)(packet->dma_length - length);
	handover = simhca_respond(request, &response);
	if (handover.outcome == SIMHCA_UNREADABLE) {
		qp->resp.read = before;
		qp->resp.owed = owed;
		simhca_memory_failed(request, SIMHCA_RESPONDER_READ, &source, handover.reason);
		return false;
	}
	simhca_own_done(qp, SIMHCA_RESPONDER_READ);
	simhca_reply_nothing(request, SIMHCA_REASON_NONE);
	return true;
}

bool simhca_execute_read(struct simhca_request *request)
{
	if (!is_granted(request))
		return false;
	/* All of it, so that a bad range yields nothing at all. */
	return (request->packet->dma_length <= simhca_qp_slice(request->qp) ||
		simhca_memory_remote(request, request->packet->dma_length, NULL)) &&
	       simhca_read_respond(request);
}

/* Programs write there, and may have no CPU: it does not count as lost, but on the wire. */
static void not_yet(struct simhca_request *request)
{
	if (request->packet->remote) {
		simhca_reply_not_accepted(request, SIMHCA_BUSY, SIMHCA_REASON_NONE);
	} else {
		simhca_reply_not_accepted(request, SIMHCA_LATE, SIMHCA_REASON_NONE);
		request->handover.delay_ns = LATER_NS;
	}
}

/* The 8 bytes at packet->va that an atomic or an atomic write is about. */
static bool atomic_target(struct simhca_request *request, struct simhca_sgl *target)
{
	target->count = 0;
	if (!simhca_memory_remote(request, 8, target) ||
	    simhca_memory_is_elsewhere(request, target))
		return false;
	if (target->count != 1) { /* a zero-based window that starts just before a page does */
		simhca_refuse_invalid(request, SIMHCA_REASON_ATOMIC_UNALIGNED);
		return false;
	}
	if (!simhca_dma_may_try_atomic(&target->seg[0])) {
		not_yet(request);
		return false;
	}
	return simhca_memory_is_there(request, SIMHCA_RESPONDER_WRITE, target);
}

/* What the operation makes of them; *old: what was there. */
static bool change(struct simhca_request *request, const struct simhca_sgl *target,
		   const struct simhca_atomic_op *op, uint64_t *old)
{
	enum simhca_reason reason;

	if (simhca_dma_atomic(&request->worker->mover, &target->seg[0], op, old, &reason)) {
		simhca_own_done(request->qp, SIMHCA_RESPONDER_WRITE);
		return true;
	}
	if (reason != SIMHCA_REASON_NONE)
		simhca_memory_failed(request, SIMHCA_RESPONDER_WRITE, target, reason);
	else
		not_yet(request);
	return false;
}

/* A write of 8 bytes that no other access sees in parts (IBTA vol. 1, A19). */
bool simhca_execute_atomic_write(struct simhca_request *request)
{
	struct simhca_atomic_op store = { .store = true };
	struct simhca_sgl target, value;
	enum simhca_reason reason;
	uint64_t old;

	if (!is_granted(request) || !atomic_target(request, &target))
		return false;
	value.count = 1;
	value.seg[0] = (struct simhca_seg){ .addr = (uintptr_t)&store.swap_add, .length = 8 };
	if (simhca_dma_copy(&value, request->packet->payload, 8, &request->worker->mover,
			    &reason) != SIMHCA_DMA_OK) {
		simhca_reply_not_accepted(request, SIMHCA_UNREADABLE, reason);
		return false;
	}
	return change(request, &target, &store, &old);
}

bool simhca_execute_atomic(struct simhca_request *request)
{
	struct simhca_sgl target;

	return is_granted(request) && atomic_target(request, &target) &&
	       change(request, &target, &request->packet->atomic, &request->atomic_old);
}

/*
 * FLUSH (IBTA vol. 1, A19): what this QP wrote before is where everybody sees it. The device keeps
 * nothing back: a copy is in its owner's memory when it ends, and requests are carried out one by
 * one. So there is nothing to do but to check, and to answer.
 */
bool simhca_execute_flush(struct simhca_request *request)
{
	return is_granted(request) &&
	       simhca_memory_remote(request, request->packet->dma_length, NULL);
}
