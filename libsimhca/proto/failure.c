/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <stdio.h>

#include "failure.h"
#include "memory/access_facts.h"
#include "own_memory.h"
#include "packet/packet.h"
#include "qp.h"
#include "simhca-info.h"

#define REFUSAL_TEXT 192 /* bytes, NUL included */

/* Whose it is: an XRC target has the receives, and the memory, of the program whose SRQ a request names. */
static uint32_t context_of(const struct simhca_qp *qp)
{
	if (qp->context)
		return qp->context->id;
	return qp->responder.srq ? qp->responder.srq->context->id : 0;
}

static struct simhca_failure about(const struct simhca_qp *qp, enum simhca_failure_kind kind)
{
	return (struct simhca_failure){
		.kind = kind,
		.context = context_of(qp),
		.qpn = qp->qpn,
		.peer_qpn = qp->qpc->dest_qpn,
		.qp_type = qp->type,
		.by_wire = qp->link && qp->link->remote,
		.pd = qp->pd ? qp->pd->number : qp->responder.key_pd,
		.retry_cnt = qp->qpc->retry_cnt,
		.rnr_retry = qp->qpc->rnr_retry,
		.timeout = qp->qpc->timeout,
	};
}

static void tell(const struct simhca_qp *qp, const struct simhca_failure *failure)
{
	simhca_failure_report(qp->device->fabric, failure);
}

static void add_access(const struct simhca_qp *qp, struct simhca_failure *failure, uint32_t key,
		       uint64_t va, uint64_t bytes)
{
	struct simhca_key_use use = simhca_key_use_of(NULL, qp, failure->pd, 0);

	use.remote = true; /* an lkey may be looked at likewise */
	simhca_failure_add_access(failure, &use, key, va, bytes);
}

/* Which of its own buffers it is, if the reason is a buffer's. */
static void find_sge(struct simhca_worker *worker, const struct simhca_qp *qp,
		     const struct simhca_sge *sge, uint32_t num_sge, bool is_written,
		     struct simhca_failure *failure)
{
	const struct simhca_key_use use = simhca_key_use_of(
		worker, qp, failure->pd, is_written ? SIMHCA_ACCESS_LOCAL_WRITE : 0);

	if (failure->status != SIMHCA_WC_LOC_PROT_ERR)
		return;
	for (uint32_t i = 0; i < num_sge; i++) {
		if (simhca_translate(&use, sge[i].lkey, sge[i].addr, sge[i].length, NULL) !=
		    failure->reason)
			continue;
		add_access(qp, failure, sge[i].lkey, sge[i].addr, sge[i].length);
		return;
	}
}

/* The peer's queue, if the peer is one of this fabric's; by an XRC target, the SRQ that the request names. */
static void find_empty(const struct simhca_qp *qp, const struct simhca_send *send,
		       struct simhca_failure *failure)
{
	const struct simhca_qp *peer = qp->link->peer ? qp->link->peer(qp) : NULL;
	const struct simhca_srq *srq;
	bool xrc;

	if (failure->status != SIMHCA_WC_RNR_RETRY_EXC_ERR || !peer)
		return;
	xrc = peer->type == SIMHCA_QPT_XRC_RECV;
	srq = xrc ? simhca_xrc_srq(peer->device, send->wqe.srqn) : peer->srq;
	if (xrc ? !srq : !peer->context)
		return;
	failure->empty.context = srq ? srq->context->id : peer->context->id;
	failure->empty.srqn = srq ? srq->srqn : 0;
	failure->empty.limit_spent = srq && srq->limit_spent;
	failure->empty.posted = xrc ? simhca_srq_posted(&srq->view) : simhca_posted_receives(peer);
	failure->empty.dropped = srq ? 0 : peer->dropped_receives;
}

void simhca_report_send(struct simhca_worker *worker, const struct simhca_qp *qp,
			const struct simhca_send *send, uint32_t index,
			const struct simhca_flight *flight, enum simhca_wc_status status,
			enum simhca_reason reason)
{
	struct simhca_failure failure = about(qp, SIMHCA_SEND_FAILED);

	simhca_qp_log(qp, ": send WQE %u fails with status %u: %s", index, status,
		      simhca_reason_text(reason));
	failure.psn = flight->first;
	failure.last_psn = flight->last;
	failure.opcode = send->wqe.opcode;
	failure.status = status;
	failure.reason = reason;
	failure.wr_id = send->wqe.wr_id;
	failure.length =
		send->wqe.opcode == SIMHCA_WR_BIND_MW ? send->wqe.bind.length : send->length;
	if (qp->type == SIMHCA_QPT_UD)
		failure.peer_qpn = send->wqe.ud.dest_qpn;
	if (simhca_op_has(send->wqe.opcode, SIMHCA_OP_REMOTE)) {
		failure.key = send->wqe.rdma.rkey;
		failure.va = send->wqe.rdma.remote_addr;
		failure.bytes = send->length;
	}
	find_sge(worker, qp, send->sge, send->wqe.num_sge,
		 simhca_response_has_data(send->wqe.opcode), &failure);
	find_empty(qp, send, &failure);
	tell(qp, &failure);
}

void simhca_report_recv(struct simhca_worker *worker, const struct simhca_qp *qp,
			const struct simhca_recv *recv, uint64_t wr_id, uint32_t peer_qpn,
			enum simhca_wc_status status, enum simhca_reason reason)
{
	struct simhca_failure failure = about(qp, SIMHCA_RECV_FAILED);
	const struct simhca_srq *srq = qp->responder.srq;

	failure.peer_qpn = peer_qpn;
	failure.status = status;
	failure.reason = reason;
	failure.wr_id = wr_id;
	if (srq)
		failure.pd = srq->pd->number;
	if (recv)
		find_sge(worker, qp, recv->sge, recv->num_sge, true, &failure);
	tell(qp, &failure);
}

uint32_t simhca_request_opcode(const struct simhca_packet *packet)
{
	for (uint32_t opcode = 0; opcode < SIMHCA_OPCODES; opcode++) {
		const struct simhca_opcode *one = simhca_opcode(opcode);

		if (one->packet == packet->op && one->has && !(one->has & SIMHCA_OP_LOCAL) &&
		    !(one->has & SIMHCA_OP_IMM) == !packet->has_imm &&
		    !(one->has & SIMHCA_OP_INV) == !packet->has_inv)
			return opcode;
	}
	return SIMHCA_WR_SEND;
}

/*
 * What is peculiar to the Q_Key of a QP, which the datagram does not have. Who sends with one that has
 * the highest bit sends that of its own QP (10.2.5).
 */
static const char *what_of_qkey(uint32_t sent, uint32_t qkey)
{
	if (sent == __builtin_bswap32(qkey))
		return ", which is the same with its bytes reversed";
	if (qkey & SIMHCA_QKEY_CONTROLLED)
		return ", whose highest bit has senders put their own QP's in its place";
	return "";
}

/* The reason with the numbers that it is about, where the key and the range do not say them. */
static const char *in_numbers(const struct simhca_qp *qp, const struct simhca_packet *packet,
			      enum simhca_reason reason, char text[REFUSAL_TEXT])
{
	uint32_t qkey = simhca_qkey(qp->qpc);
	struct simhca_recv recv;

	if (reason == SIMHCA_REASON_QKEY_MISMATCH) {
		snprintf(text, REFUSAL_TEXT, "the datagram has Q_Key 0x%08x, and its QP 0x%08x%s",
			 packet->qkey, qkey, what_of_qkey(packet->qkey, qkey));
		return text;
	}
	if (reason == SIMHCA_REASON_PEER_NOT_READY)
		return "no receive was posted so far";
	if (reason != SIMHCA_REASON_RECV_TOO_SHORT || !qp->resp.have_recv ||
	    !simhca_recv_read(qp, &recv))
		return NULL;
	snprintf(text, REFUSAL_TEXT,
		 recv.wr_id < 1000000 ? "the message has %s%llu bytes%s, and the receive that was "
					"next %llu, wr_id %llu"
				      : "the message has %s%llu bytes%s, and the receive that was "
					"next %llu, wr_id 0x%llx",
		 packet->last ? "" : "more than ",
		 (unsigned long long)(qp->resp.offset + packet->length),
		 packet->transport == SIMHCA_QPT_UD ? " and 40 of its GRH" : "",
		 (unsigned long long)recv.length, (unsigned long long)recv.wr_id);
	return text;
}

void simhca_report_refusal(const struct simhca_qp *qp, const struct simhca_packet *packet,
			   const char *does, enum simhca_reason reason)
{
	struct simhca_failure failure = about(qp, SIMHCA_REQUEST_REFUSED);
	/* Only a first packet has a RETH; of a WRITE's others it is kept. */
	uint64_t va = packet->first ? packet->va : qp->resp.va;
	uint32_t rkey = packet->first ? packet->rkey : qp->resp.rkey;
	char memory[64] = "", text[REFUSAL_TEXT];

	failure.count = 1;
	failure.text = in_numbers(qp, packet, reason, text);
	failure.peer_qpn = packet->src_qpn;
	failure.peer_context = packet->src_context;
	failure.psn = failure.last_psn = packet->psn;
	failure.opcode = simhca_request_opcode(packet);
	failure.reason = reason;
	failure.length = packet->length;
	if (packet->op != SIMHCA_PKT_SEND) {
		snprintf(memory, sizeof(memory), "va 0x%llx, rkey 0x%08x, ", (unsigned long long)va,
			 rkey);
		add_access(qp, &failure, rkey, va, packet->dma_length ?: packet->length);
	}
	simhca_qp_log(qp, " %s a request of QP 0x%06x (%s%llu bytes): %s", does, packet->src_qpn,
		      memory, (unsigned long long)packet->length,
		      failure.text ? failure.text : simhca_reason_text(reason));
	tell(qp, &failure);
}

void simhca_report_silence(const struct simhca_qp *qp, enum simhca_reason reason,
			   const char *obstacle, const char *text)
{
	struct simhca_failure failure = about(qp, SIMHCA_NO_ANSWER);

	failure.reason = reason;
	failure.obstacle = obstacle;
	failure.text = text;
	tell(qp, &failure);
}

void simhca_report_lost(const struct simhca_qp *qp, const struct simhca_packet *packet,
			const char *obstacle, const char *text)
{
	struct simhca_failure failure = about(qp, SIMHCA_LOST);

	failure.count = 1;
	failure.peer_qpn = packet->dest_qpn;
	failure.opcode = simhca_request_opcode(packet);
	failure.reason = SIMHCA_REASON_NO_RESPONSE;
	failure.length = packet->length;
	failure.obstacle = obstacle;
	failure.text = text;
	tell(qp, &failure);
}

void simhca_report_flush(const struct simhca_qp *qp, uint32_t count)
{
	struct simhca_failure failure = about(qp, SIMHCA_FLUSHED);

	failure.status = SIMHCA_WC_WR_FLUSH_ERR;
	failure.reason = SIMHCA_REASON_FLUSHED;
	failure.count = count;
	tell(qp, &failure);
}
