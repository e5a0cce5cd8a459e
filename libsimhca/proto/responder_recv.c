/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Messages that consume a receive: SEND, and the end of a write with immediate data.
 */

#include "comp_cntr.h"
#include "injected.h"
#include "link.h"
#include "memory/key.h"
#include "own_memory.h"
#include "packet/packet.h"
#include "qp.h"
#include "responder_impl.h"
#include "wqe.h"

bool simhca_recv_wqe(struct simhca_request *request, struct simhca_recv *recv)
{
	if (simhca_recv_read(request->qp, recv))
		return true;
	simhca_qp_corrupt(request->qp);
	simhca_reply_nothing(request, SIMHCA_REASON_NONE);
	return false;
}

/*
 * What was registered by FAST_REG may be invalid, and its memory free, by the time that the program polls;
 * or it is valid again, by another key.
 */
static bool is_ordinary(const struct simhca_qp *qp, uint32_t lkey)
{
	const struct simhca_mpt *mpt = simhca_mpt_of(qp->device->mem, lkey);

	return mpt && atomic_load_explicit(&mpt->state, memory_order_relaxed) == SIMHCA_MPT_MR;
}

/*
 * Whether the data may stay in the slot of the receive until the program polls. The poll copies them to
 * the receive's first SGE by its address, so that has to be ordinary memory of the program.
 */
static bool fits_slot(const struct simhca_qp *qp, const struct simhca_packet *packet,
		      const struct simhca_recv *recv, const struct simhca_sgl *target)
{
	const struct simhca_seg *seg = &target->seg[0];

	/* Who counts its receives may look at their data without a poll. */
	return qp->slot_data && !qp->comp_cntr[SIMHCA_COUNTS_RECV] && packet->first &&
	       packet->last && simhca_recv_may_wait(recv, 0, packet->length) &&
	       target->count == 1 && seg->addr == recv->sge[0].addr && !seg->odp &&
	       !seg->mm->mapping && seg->mm->pid == qp->context->pid &&
	       is_ordinary(qp, recv->sge[0].lkey);
}

bool simhca_recv_place(struct simhca_request *request, const struct simhca_sgl *payload,
		       uint64_t offset, uint64_t length)
{
	struct simhca_qp *qp = request->qp;
	/* Buffers of an SRQ belong to the SRQ's PD (IBTA vol. 1, 10.2.9.4). */
	const uint32_t pd = qp->responder.srq ? qp->responder.srq->pd->number : qp->qpc->pd;
	const struct simhca_key_use use =
		simhca_key_use_of(request->worker, qp, pd, SIMHCA_ACCESS_LOCAL_WRITE);
	struct simhca_sgl target;
	enum simhca_reason reason;
	struct simhca_recv recv;

	if (!simhca_recv_wqe(request, &recv))
		return false;
	target.count = 0;
	simhca_own_begin(request->worker);
	if (offset > recv.length || length > recv.length - offset) {
		simhca_refuse(request, SIMHCA_SYNDROME_NAK_INVALID, SIMHCA_WC_LOC_LEN_ERR,
			      SIMHCA_REASON_RECV_TOO_SHORT);
		return false;
	}
	reason = simhca_translate_sges(&use, recv.sge, recv.num_sge, offset, length, &target);
	if (reason != SIMHCA_REASON_NONE) {
		simhca_memory_refuse(request, SIMHCA_RECEIVE_BUFFER, reason);
		return false;
	}
	qp->responder.in_slot = fits_slot(qp, request->packet, &recv, &target);
	if (qp->responder.in_slot)
		target.seg[0] = (struct simhca_seg){ .addr = (uintptr_t)simhca_slot_data(qp),
						     .length = length };
	return simhca_memory_write(request, SIMHCA_RECEIVE_BUFFER, &target, payload, length);
}

/*
 * The key of a SEND_WITH_INV cannot be invalidated: this side fails, by the receive that the
 * message consumed, and answers nothing, neither an ACK nor a NAK (IBTA vol. 1, 9.9.6.3, class J).
 * The requester finds a QP that is in error when it tries again.
 */
static void fail_invalidate(struct simhca_request *request, enum simhca_reason reason)
{
	simhca_qp_log(request->qp, " cannot invalidate key 0x%08x for QP 0x%06x: %s",
		      request->packet->imm_or_rkey, request->packet->src_qpn,
		      simhca_reason_text(reason));
	simhca_reply_nothing(request, reason);
	simhca_recv_complete(request, SIMHCA_WC_LOC_ACCESS_ERR, reason, 0);
	simhca_qp_fail(request->qp, SIMHCA_QPS_ERR);
}

/*
 * Ends a SEND_WITH_INV, whose data are placed: invalidates the key, and completes the message once no
 * access by that key is under way. Until then the requester sends the packet again.
 */
static bool invalidate(struct simhca_request *request)
{
	struct simhca_qp *qp = request->qp;
	const struct simhca_packet *packet = request->packet;
	const struct simhca_key_use use =
		simhca_key_use_of(request->worker, qp, qp->responder.key_pd, 0);
	enum simhca_reason reason;
	bool again;

	/* This packet's own access is over, and may have been by that very key. */
	simhca_key_release(request->worker, 0);
	reason = simhca_key_revoke(&use, packet->imm_or_rkey, &qp->resp.revoked, &again);
	if (reason != SIMHCA_REASON_NONE) {
		fail_invalidate(request, reason);
		return false;
	}
	qp->resp.revoked_psn = packet->psn;
	if (again) {
		simhca_reply_not_accepted(request, SIMHCA_BUSY, SIMHCA_REASON_NONE);
		return false;
	}
	qp->resp.revoked = false;
	return true;
}

bool simhca_recv_completes(struct simhca_request *request, uint64_t bytes)
{
	struct simhca_qp *qp = request->qp;
	const struct simhca_place before = simhca_place_of(qp);

	if (simhca_inject_is_on(qp->device->fabric) && simhca_injected_receive(request, bytes))
		return false;
	/* Before the CQE, since one commit makes both visible. */
	simhca_responder_advance(request);
	if (simhca_recv_complete(request, SIMHCA_WC_SUCCESS, SIMHCA_REASON_NONE, bytes))
		return true;
	simhca_responder_retreat(request, &before);
	if (qp->source->flush)
		simhca_refuse(request, SIMHCA_SYNDROME_NAK_OPERATIONAL, SIMHCA_WC_SUCCESS,
			      qp->source->no_room);
	else
		simhca_reply_nak(request, SIMHCA_SYNDROME_NAK_OPERATIONAL, qp->source->no_room);
	return false;
}

/* The part of a list after its first bytes. */
static void skip(struct simhca_sgl *to, const struct simhca_sgl *from, uint64_t bytes)
{
	uint32_t i = 0;

	while (i < from->count && bytes >= from->seg[i].length)
		bytes -= from->seg[i++].length;
	to->count = 0;
	for (; i < from->count; i++, bytes = 0) {
		to->seg[to->count] = from->seg[i];
		to->seg[to->count].addr += bytes;
		to->seg[to->count++].length -= bytes;
	}
}

/* A function by itself, as it needs one list more on the stack. */
static __attribute__((noinline)) bool place_rest(struct simhca_request *request,
						 const struct simhca_recv_part *part)
{
	struct simhca_sgl rest;

	skip(&rest, request->packet->payload, part->skip);
	return simhca_recv_place(request, &rest, part->offset, part->length);
}

static bool place_part(struct simhca_request *request, const struct simhca_recv_part *part)
{
	if (part->none)
		return true;
	if (part->skip)
		return place_rest(request, part);
	return simhca_recv_place(request, request->packet->payload, part->offset, part->length);
}

bool simhca_execute_send(struct simhca_request *request)
{
	struct simhca_qp *qp = request->qp;
	const struct simhca_packet *packet = request->packet;
	struct simhca_recv_part part = { .offset = qp->resp.offset, .length = packet->length };

	if (!simhca_recv_need(request))
		return false;
	if (qp->source->part)
		qp->source->part(qp, packet, &part);
	/* A packet that only waited for others to end has invalidated its key already. */
	if (!packet->has_inv || qp->resp.revoked_psn != packet->psn)
		qp->resp.revoked = false;
	/* The data of such a packet are where it was placed, which may be the slot. */
	if (!qp->resp.revoked)
		qp->responder.in_slot = false;
	if (!qp->resp.revoked && !place_part(request, &part))
		return false;
	if (packet->has_inv && !invalidate(request))
		return false;
	qp->resp.offset += packet->length;
	return !packet->last || simhca_recv_completes(request, part.offset + part.length);
}
