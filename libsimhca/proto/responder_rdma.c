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

/* A QP grants each one-sided operation by its access flags; without it the request is invalid. */
static bool qp_grants(struct simhca_qp *qp, const struct simhca_packet *packet, uint32_t right,
		      enum simhca_reason without, struct simhca_reply *reply)
{
	if (qp->qpc->access & right)
		return true;
	simhca_refuse(qp, packet, SIMHCA_SYNDROME_NAK_INVALID, SIMHCA_WC_SUCCESS, without, reply);
	return false;
}

bool simhca_execute_write(struct simhca_worker *worker, struct simhca_qp *qp,
			  const struct simhca_packet *packet, struct simhca_reply *reply)
{
	struct simhca_sgl target;

	target.count = 0;
	if (!qp_grants(qp, packet, SIMHCA_ACCESS_REMOTE_WRITE, SIMHCA_REASON_QP_NO_REMOTE_WRITE,
		       reply))
		return false;
	if (packet->first) {
		qp->resp.va = packet->va;
		qp->resp.rkey = packet->rkey;
		qp->resp.left = packet->dma_length;
	}
	if (packet->last ? packet->length != qp->resp.left : packet->length >= qp->resp.left) {
		simhca_refuse(qp, packet, SIMHCA_SYNDROME_NAK_INVALID, SIMHCA_WC_SUCCESS,
			      SIMHCA_REASON_OPCODE_SEQUENCE, reply);
		return false;
	}
	/* The first packet's RETH speaks for the whole message: no byte is placed if it is wrong.
	 */
	if (packet->first && !packet->last &&
	    !simhca_memory_remote(worker, qp, packet, packet->dma_length,
				  SIMHCA_ACCESS_REMOTE_WRITE, NULL, reply))
		return false;
	if (!simhca_memory_remote(worker, qp, packet, packet->length, SIMHCA_ACCESS_REMOTE_WRITE,
				  &target, reply))
		return false;
	if (packet->has_imm && !simhca_recv_need(worker, qp, packet, reply))
		return false;
	if (!simhca_memory_write(worker, qp, packet, SIMHCA_REMOTE_MEMORY, &target, packet->payload,
				 packet->length, reply))
		return false;
	qp->resp.offset += packet->length;
	qp->resp.va += packet->length;
	qp->resp.left -= packet->length;
	return !packet->has_imm || simhca_recv_completes(qp, packet, qp->resp.offset, reply);
}

static bool grants_responses(struct simhca_qp *qp, const struct simhca_packet *packet,
			     struct simhca_reply *reply)
{
	if (qp->qpc->max_dest_rd_atomic && !packet->exceeds_rd_atomic)
		return true;
	simhca_refuse(qp, packet, SIMHCA_SYNDROME_NAK_INVALID, SIMHCA_WC_SUCCESS,
		      packet->exceeds_rd_atomic ? SIMHCA_REASON_RD_ATOMIC_EXCEEDED
						: SIMHCA_REASON_RESP_NO_RD_ATOMIC,
		      reply);
	return false;
}

bool simhca_read_respond(struct simhca_worker *worker, struct simhca_qp *qp,
			 const struct simhca_packet *packet, struct simhca_reply *reply)
{
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
	if (!simhca_memory_remote(worker, qp, packet, length, SIMHCA_ACCESS_REMOTE_READ, &source,
				  reply) ||
	    simhca_memory_is_elsewhere(worker, &source, reply) ||
	    !simhca_memory_is_there(worker, qp, packet, SIMHCA_RESPONDER_READ, &source, reply))
		return false;
	qp->resp.owed = response.last	  ? SIMHCA_OWES_NOTHING
			: reply->repeated ? SIMHCA_OWES_REPEATED
					  : SIMHCA_OWES_RESPONSE;
	qp->resp.read.psn =
		simhca_psn_add(packet->psn, simhca_psn_count(length, simhca_qp_mtu(qp)));
	qp->resp.read.rkey = packet->rkey;
	qp->resp.read.srqn = packet->srqn;
	qp->resp.read.va = packet->va + length;
	qp->resp.read.left = (uint32_t)(packet->dma_length - length);
	handover = simhca_respond(worker, qp, packet, &response);
	if (handover.outcome == SIMHCA_UNREADABLE) {
		qp->resp.read = before;
		qp->resp.owed = owed;
		simhca_memory_failed(worker, qp, packet, SIMHCA_RESPONDER_READ, &source,
				     handover.reason, reply);
		return false;
	}
	simhca_own_done(qp, SIMHCA_RESPONDER_READ);
	simhca_reply_nothing(reply, SIMHCA_REASON_NONE);
	return true;
}

bool simhca_execute_read(struct simhca_worker *worker, struct simhca_qp *qp,
			 const struct simhca_packet *packet, struct simhca_reply *reply)
{
	if (!qp_grants(qp, packet, SIMHCA_ACCESS_REMOTE_READ, SIMHCA_REASON_QP_NO_REMOTE_READ,
		       reply) ||
	    !grants_responses(qp, packet, reply))
		return false;
	/* All of it, so that a bad range yields nothing at all. */
	return (packet->dma_length <= simhca_qp_slice(qp) ||
		simhca_memory_remote(worker, qp, packet, packet->dma_length,
				     SIMHCA_ACCESS_REMOTE_READ, NULL, reply)) &&
	       simhca_read_respond(worker, qp, packet, reply);
}

/* The 8 bytes at packet->va that an atomic or an atomic write is about. */
static bool atomic_target(struct simhca_worker *worker, struct simhca_qp *qp,
			  const struct simhca_packet *packet, uint32_t access,
			  struct simhca_sgl *target, struct simhca_reply *reply)
{
	target->count = 0;
	if (packet->va & 7) {
		simhca_refuse(qp, packet, SIMHCA_SYNDROME_NAK_INVALID, SIMHCA_WC_SUCCESS,
			      SIMHCA_REASON_ATOMIC_UNALIGNED, reply);
		return false;
	}
	if (!simhca_memory_remote(worker, qp, packet, 8, access, target, reply) ||
	    simhca_memory_is_elsewhere(worker, target, reply))
		return false;
	if (target->count != 1) { /* a zero-based window that starts just before a page does */
		simhca_refuse(qp, packet, SIMHCA_SYNDROME_NAK_INVALID, SIMHCA_WC_SUCCESS,
			      SIMHCA_REASON_ATOMIC_UNALIGNED, reply);
		return false;
	}
	if (!simhca_is_exclusive(qp->device->fabric, target->seg[0].mm->atomicity)) {
		simhca_reply_not_accepted(reply, SIMHCA_BUSY, SIMHCA_REASON_NONE);
		return false;
	}
	return simhca_memory_is_there(worker, qp, packet, SIMHCA_RESPONDER_WRITE, target, reply);
}

/* What the operation makes of them; *old: what was there. */
static bool change(struct simhca_worker *worker, struct simhca_qp *qp,
		   const struct simhca_packet *packet, const struct simhca_sgl *target,
		   const struct simhca_atomic_op *op, uint64_t *old, struct simhca_reply *reply)
{
	enum simhca_reason reason;

	if (simhca_dma_atomic(&worker->mover, &target->seg[0], op, old, &reason)) {
		simhca_own_done(qp, SIMHCA_RESPONDER_WRITE);
		return true;
	}
	simhca_memory_failed(worker, qp, packet, SIMHCA_RESPONDER_WRITE, target, reason, reply);
	return false;
}

/* A write of 8 bytes that no other access sees in parts (IBTA vol. 1, A19). */
bool simhca_execute_atomic_write(struct simhca_worker *worker, struct simhca_qp *qp,
				 const struct simhca_packet *packet, struct simhca_reply *reply)
{
	struct simhca_atomic_op store = { .store = true };
	struct simhca_sgl target, value;
	enum simhca_reason reason;
	uint64_t old;

	if (!qp_grants(qp, packet, SIMHCA_ACCESS_REMOTE_WRITE, SIMHCA_REASON_QP_NO_REMOTE_WRITE,
		       reply) ||
	    !grants_responses(qp, packet, reply) ||
	    !atomic_target(worker, qp, packet, SIMHCA_ACCESS_REMOTE_WRITE, &target, reply))
		return false;
	value.count = 1;
	value.seg[0] = (struct simhca_seg){ .addr = (uintptr_t)&store.swap_add, .length = 8 };
	if (simhca_dma_copy(&value, packet->payload, 8, &worker->mover, &reason) != SIMHCA_DMA_OK) {
		simhca_reply_not_accepted(reply, SIMHCA_UNREADABLE, reason);
		return false;
	}
	return change(worker, qp, packet, &target, &store, &old, reply);
}

bool simhca_execute_atomic(struct simhca_worker *worker, struct simhca_qp *qp,
			   const struct simhca_packet *packet, struct simhca_reply *reply)
{
	struct simhca_sgl target;

	return qp_grants(qp, packet, SIMHCA_ACCESS_REMOTE_ATOMIC, SIMHCA_REASON_QP_NO_REMOTE_ATOMIC,
			 reply) &&
	       grants_responses(qp, packet, reply) &&
	       atomic_target(worker, qp, packet, SIMHCA_ACCESS_REMOTE_ATOMIC, &target, reply) &&
	       change(worker, qp, packet, &target, &packet->atomic, &reply->atomic_old, reply);
}

/*
 * FLUSH (IBTA vol. 1, A19): what this QP wrote before is where everybody sees it. The device keeps
 * nothing back: a copy is in its owner's memory when it ends, and requests are carried out one by
 * one. So there is nothing to do but to check, and to answer.
 */
bool simhca_execute_flush(struct simhca_worker *worker, struct simhca_qp *qp,
			  const struct simhca_packet *packet, struct simhca_reply *reply)
{
	uint32_t rights = 0;

	if (packet->flush_placement & SIMHCA_FLUSH_GLOBAL)
		rights |= SIMHCA_ACCESS_FLUSH_GLOBAL;
	if (packet->flush_placement & SIMHCA_FLUSH_PERSISTENT)
		rights |= SIMHCA_ACCESS_FLUSH_PERSISTENT;
	if ((rights & SIMHCA_ACCESS_FLUSH_GLOBAL) &&
	    !qp_grants(qp, packet, SIMHCA_ACCESS_FLUSH_GLOBAL, SIMHCA_REASON_QP_NO_FLUSH_GLOBAL,
		       reply))
		return false;
	if ((rights & SIMHCA_ACCESS_FLUSH_PERSISTENT) &&
	    !qp_grants(qp, packet, SIMHCA_ACCESS_FLUSH_PERSISTENT,
		       SIMHCA_REASON_QP_NO_FLUSH_PERSISTENT, reply))
		return false;
	return grants_responses(qp, packet, reply) &&
	       simhca_memory_remote(worker, qp, packet, packet->dma_length, rights, NULL, reply);
}
