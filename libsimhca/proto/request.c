/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The packets of requests (IBTA vol. 1, 9.4). */
#include "core/context.h"
#include "core/device.h"
#include "memory/key.h"
#include "own_memory.h"
#include "queue/opcode.h"
#include "request.h"
#include "srq.h"
#include "wqe.h"

#define QUARTER_MOST 16 /* PSNs, of a large window, that are sent before an answer is asked for */

/* Fills in where a packet goes: the QP's peer, or on UD what the work request says. */
static void fill_address(struct simhca_qp *qp, const struct simhca_send_wqe *wqe,
			 struct simhca_packet *packet)
{
	const struct simhca_devmem *mem = qp->device->mem;

	if (qp->type == SIMHCA_QPT_UD) {
		packet->av = &wqe->ud.av;
		packet->dest_qpn = wqe->ud.dest_qpn;
		packet->qkey = simhca_qkey_of_send(wqe, qp->qpc);
		if (packet->av->is_global)
			simhca_device_gid(qp->device, packet->av->sgid_index, &packet->sgid);
	} else {
		packet->av = &qp->qpc->av;
		packet->dest_qpn = qp->qpc->dest_qpn;
	}
	packet->src_qpn = qp->qpn;
	packet->src_context = qp->context->id;
	packet->slid = mem->port.lid; /* LMC is 0: path bits add nothing to it */
}

/*
 * A packet asks for an acknowledgement at the end of a message, when the window closes, and within long
 * messages four times in a window: so if the window closes by getting smaller, one is on its way.
 */
static bool wants_ack(const struct simhca_qp *qp, const struct simhca_packet *packet)
{
	uint32_t window = simhca_window(qp), quarter = window > 4 ? window / 4 : 1, after;

	if (quarter > QUARTER_MOST)
		quarter = QUARTER_MOST;
	if (packet->last)
		return true;
	after = simhca_psn_add(packet->psn, simhca_request_psns(packet, qp->qpc->path_mtu));
	return packet->psn / quarter != after / quarter ||
	       simhca_psn_distance(qp->req.psn_una, after) >= window;
}

/* How many bytes of payload the next packet has at most. */
static uint64_t slice_of(const struct simhca_qp *qp)
{
	uint64_t slice = simhca_qp_slice(qp), room;

	if (qp->link->window == 1)
		return slice;
	room = (uint64_t)(simhca_window(qp) - simhca_psns_under_way(qp)) * simhca_qp_mtu(qp);
	return slice < room ? slice : room;
}

void simhca_request_build(const struct simhca_worker *worker, struct simhca_qp *qp, uint64_t offset,
			  struct simhca_packet *packet)
{
	const struct simhca_send_wqe *wqe = &worker->send->wqe;
	uint64_t left = worker->send->length - offset, slice = slice_of(qp);

	*packet = (struct simhca_packet){
		.op = simhca_opcode(wqe->opcode)->packet,
		.transport = qp->type,
		.psn = qp->req.psn_send,
		.first = !offset,
		.mtu = qp->type == SIMHCA_QPT_UD ? 0 : qp->qpc->path_mtu,
	};
	fill_address(qp, wqe, packet);
	packet->srqn = wqe->srqn & SIMHCA_QPN_MASK;
	if (simhca_response_has_data(wqe->opcode)) {
		packet->first = packet->last = true;
	} else {
		packet->length = left < slice ? left : slice;
		packet->last = packet->length == left;
	}
	packet->solicited = packet->last && (wqe->flags & SIMHCA_WQE_SOLICITED);
	packet->has_imm = packet->last && simhca_op_has(wqe->opcode, SIMHCA_OP_IMM);
	packet->has_inv = packet->last && simhca_op_has(wqe->opcode, SIMHCA_OP_INV);
	packet->imm_or_rkey = wqe->imm_or_rkey;
	packet->set_checksums = wqe->flags & SIMHCA_WQE_IP_CSUM;
	if (packet->op != SIMHCA_PKT_SEND && packet->first) {
		packet->va = wqe->rdma.remote_addr + offset;
		packet->rkey = wqe->rdma.rkey;
		packet->dma_length = packet->op == SIMHCA_PKT_READ
					     ? simhca_request_read_length(qp, offset, left)
					     : left;
		packet->atomic.compare_swap = wqe->opcode == SIMHCA_WR_ATOMIC_CMP_AND_SWP;
		packet->atomic.compare = wqe->rdma.compare_add;
		packet->atomic.swap_add =
			packet->atomic.compare_swap ? wqe->rdma.swap : wqe->rdma.compare_add;
	}
	if (packet->op == SIMHCA_PKT_FLUSH) {
		packet->dma_length = wqe->flush.length;
		packet->flush_placement = wqe->flush.placement;
		packet->flush_selectivity = wqe->flush.selectivity;
	}
	packet->ack_req = wants_ack(qp, packet);
}

enum simhca_reason simhca_request_memory(struct simhca_worker *worker, struct simhca_qp *qp,
					 uint64_t offset, const struct simhca_packet *packet,
					 struct simhca_sgl *sgl)
{
	struct simhca_send *send = worker->send;
	uint64_t length = packet->length;
	struct simhca_key_use use = simhca_key_use_of(worker, qp, qp->qpc->pd, 0);

	sgl->count = 0;
	simhca_own_begin(worker);
	if (send->wqe.flags & SIMHCA_WQE_INLINE) {
		sgl->seg[0] = (struct simhca_seg){ .addr = (uintptr_t)send->data + offset,
						   .length = packet->length };
		sgl->count = 1;
		return SIMHCA_REASON_NONE;
	}
	if (simhca_response_has_data(send->wqe.opcode)) {
		use.access = SIMHCA_ACCESS_LOCAL_WRITE;
		length = simhca_response_length(send->length - offset);
	}
	if (qp->requester.fetching) /* for a buffer of its receives */
		use.pd = qp->responder.srq->pd->number;
	return simhca_translate_sges(&use, send->sge, send->wqe.num_sge, offset, length, sgl);
}
