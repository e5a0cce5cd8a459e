/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The responder (IBTA vol. 1, 9.7.4): takes request packets, checks sequence, operation and
 * rights, places or fetches the data, completes receives, and answers.
 */
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <string.h>

#include "comp_cntr.h"
#include "cq.h"
#include "device/av.h"
#include "device/context.h"
#include "device/stats.h"
#include "dma/dma.h"
#include "engine/stats.h"
#include "ethernet/frame.h"
#include "link.h"
#include "memory/key.h"
#include "packet.h"
#include "paging/fault.h"
#include "paging/odp.h"
#include "psn.h"
#include "qp.h"
#include "receive/tag_match.h"
#include "receive/xrc.h"
#include "responder.h"
#include "simhca.h"
#include "srq.h"
#include "turn.h"
#include "wqe.h"

static const struct simhca_handover taken = { .outcome = SIMHCA_TAKEN };

/* What comes of a request: what the requester is to hear, or what the link is to know. */
struct reply {
	enum {
		SILENCE,   /* nobody there; or the response has been sent */
		RESPONSE,  /* an acknowledgement, or the result of an atomic */
		NAK,	   /* of that syndrome */
		NOT_TAKEN, /* as if it had never come: handover */
	} kind;
	uint8_t syndrome;
	bool repeated;		   /* to a duplicate */
	enum simhca_reason reason; /* of a NAK: the precise cause */
	uint64_t atomic_old;
	bool advanced; /* the QP's progress says that the request is done */
	uint32_t psns; /* of the request, as its sender counts them */
	struct simhca_handover handover;
};

static void acknowledge(struct reply *reply)
{
	reply->kind = RESPONSE;
}

/* reason: why, if that is known. */
static void be_silent(struct reply *reply, enum simhca_reason reason)
{
	reply->kind = SILENCE;
	reply->handover = (struct simhca_handover){ .outcome = SIMHCA_TAKEN, .reason = reason };
}

static void send_nak(struct reply *reply, uint8_t syndrome, enum simhca_reason reason)
{
	reply->kind = NAK;
	reply->syndrome = syndrome;
	reply->reason = reason;
}

static void do_not_take(struct reply *reply, enum simhca_outcome outcome, enum simhca_reason reason)
{
	reply->kind = NOT_TAKEN;
	reply->handover.outcome = outcome;
	reply->handover.reason = reason;
}

/* Where its receives come from; an XRC_RECV QP's is what the packet at hand names. */
static struct simhca_srq *srq_of(const struct simhca_qp *qp)
{
	return qp->type == SIMHCA_QPT_XRC_RECV ? qp->xrc_srq : qp->srq;
}

/* The PD that keys are checked against: on XRC, for RDMA too, it is the SRQ's (annex A14). */
static uint32_t pd_of(const struct simhca_qp *qp)
{
	return qp->type == SIMHCA_QPT_XRC_RECV ? qp->xrc_srq->pd->number : qp->qpc->pd;
}

static bool strips(const struct simhca_qp *qp, const struct simhca_packet *packet)
{
	return packet->has_cvlan && qp->strip_cvlan;
}

/*
 * A RoCE frame has no service level, but its completion tells which header the first 40 bytes hold
 * (annex A17.4.5.1). Where, the annex leaves open; clients look where ConnectX puts it, in sl:
 * bit 3 is set with a UDP header, the others are 1 for IPv6 and 2 for IPv4.
 */
static uint8_t roce_header(const struct simhca_packet *packet)
{
	return 1 << 3 | (simhca_gid_is_ipv4(&packet->av->dgid) ? 2 : 1);
}

/* False: the CQ had no room for it. */
static bool complete_recv(struct simhca_qp *qp, const struct simhca_packet *packet,
			  enum simhca_wc_status status, enum simhca_reason reason, uint64_t bytes)
{
	const struct simhca_srq *srq = srq_of(qp);
	struct simhca_cqe cqe = {
		.wr_id = simhca_recv_id(qp),
		.qpn = qp->qpn,
		.src_qpn = packet->src_qpn,
		.byte_len = (uint32_t)bytes,
		.imm_or_rkey = packet->has_imm || packet->has_inv ? packet->imm_or_rkey : 0,
		.vendor_err = reason,
		.opcode = packet->op == SIMHCA_PKT_WRITE ? SIMHCA_WC_RECV_RDMA_WITH_IMM
							 : SIMHCA_WC_RECV,
		.status = (uint8_t)status,
		.flags = SIMHCA_CQE_RECV,
		.sl = packet->av->sl,
		.slid = packet->slid,
	};

	if (srq)
		cqe.flags |= SIMHCA_CQE_SRQ;
	if (packet->has_imm)
		cqe.flags |= SIMHCA_CQE_IMM;
	if (packet->has_inv && status == SIMHCA_WC_SUCCESS)
		cqe.flags |= SIMHCA_CQE_INV;
	if (packet->solicited)
		cqe.flags |= SIMHCA_CQE_SOLICITED;
	if (packet->transport == SIMHCA_QPT_UD && packet->av->is_global) {
		cqe.flags |= SIMHCA_CQE_GRH;
		if (!qp->device->config.infiniband)
			cqe.sl = roce_header(packet);
	}
	if (packet->transport == SIMHCA_QPT_RAW_PACKET && status == SIMHCA_WC_SUCCESS) {
		cqe.flow_tag = packet->flow_tag;
		cqe.cvlan = strips(qp, packet) ? packet->cvlan : 0;
		cqe.flags |= packet->checksums_ok ? SIMHCA_CQE_CSUM_OK : 0;
	}
	simhca_recv_done(qp);
	if (status == SIMHCA_WC_SUCCESS) {
		simhca_count(qp, SIMHCA_COUNTS_RECV, 1, bytes);
	} else {
		simhca_count_error(qp, SIMHCA_COUNTS_RECV);
		simhca_stats_once(qp->device, SIMHCA_STAT_RESP_CQE_ERROR);
	}
	if (status == SIMHCA_WC_LOC_LEN_ERR)
		simhca_stats_once(qp->device, SIMHCA_STAT_RESP_LOCAL_LENGTH);
	if (srq && srq->tags) {
		simhca_tm_fill_cqe(qp, &cqe);
	} else if (srq && srq->cq) {
		cqe.flags |= SIMHCA_CQE_SRQ_CQ;
		cqe.wqe_index = srq->srqn;
	}
	return simhca_cq_push_of(simhca_recv_cq(qp, srq), &cqe, packet->solicited, qp,
				 simhca_responder_completes);
}

/* What is told of a request that is refused or dropped. */
static void tell(const struct simhca_qp *qp, const struct simhca_packet *packet, const char *does,
		 enum simhca_reason reason)
{
	char memory[64] = "";

	if (packet->op == SIMHCA_PKT_WRITE)
		snprintf(memory, sizeof(memory), "va 0x%llx, rkey 0x%08x, ",
			 (unsigned long long)qp->resp.va, qp->resp.rkey);
	else if (packet->op != SIMHCA_PKT_SEND)
		snprintf(memory, sizeof(memory), "va 0x%llx, rkey 0x%08x, ",
			 (unsigned long long)packet->va, packet->rkey);
	simhca_qp_log(qp, " %s a request of QP 0x%06x (%s%llu bytes): %s", does, packet->src_qpn,
		      memory, (unsigned long long)packet->length, simhca_reason_text(reason));
}

/*
 * Unreliable, and the requester's fault: silently dropped, and the QP goes on. A receive that the
 * message had taken is there for the next one (IBTA vol. 1, 9.9.3, class D). One of an SRQ cannot
 * go back, nor wait for this QP's next message, so it fails (class E).
 */
static void drop(struct simhca_qp *qp, const struct simhca_packet *packet,
		 enum simhca_wc_status status, enum simhca_reason reason)
{
	tell(qp, packet, "drops", reason);
	qp->resp.in_message = false;
	if (qp->resp.have_recv && srq_of(qp))
		complete_recv(qp, packet, status, reason, 0);
	else if (status == SIMHCA_WC_LOC_LEN_ERR)
		simhca_stats_once(qp->device, SIMHCA_STAT_RESP_LOCAL_LENGTH);
}

/*
 * The request is refused for good: a NAK, and this side's QP fails as well. The consumer hears
 * of it once: by the receive that failed (status), by the one that the message had taken, or, if
 * there is none, by an asynchronous event (IBTA vol. 1, 9.9.3, class C).
 */
static void refuse(struct simhca_qp *qp, const struct simhca_packet *packet,
		   enum simhca_syndrome nak, enum simhca_wc_status status,
		   enum simhca_reason reason, struct reply *reply)
{
	send_nak(reply, nak, reason);
	if (nak == SIMHCA_SYNDROME_NAK_ACCESS)
		simhca_stats_once(qp->device, SIMHCA_STAT_RESP_REMOTE_ACCESS);
	/* Its own memory is the QP's fault. Frames that are too long stop a queue, as on ConnectX.
	 */
	if (nak != SIMHCA_SYNDROME_NAK_OPERATIONAL && !simhca_is_reliable(packet->transport) &&
	    packet->transport != SIMHCA_QPT_RAW_PACKET) {
		drop(qp, packet, status, reason);
		return;
	}
	tell(qp, packet, "refuses", reason);
	/* It has been answered before. Who asks again may have been heard already, and gone on. */
	if (reply->repeated)
		return;
	if (packet->op == SIMHCA_PKT_WRITE)
		simhca_count_error(qp, SIMHCA_COUNTS_REMOTE_WRITE);
	else if (packet->op == SIMHCA_PKT_READ)
		simhca_count_error(qp, SIMHCA_COUNTS_REMOTE_READ);
	if (status == SIMHCA_WC_SUCCESS && qp->resp.have_recv)
		status = nak == SIMHCA_SYNDROME_NAK_ACCESS ? SIMHCA_WC_LOC_ACCESS_ERR
							   : SIMHCA_WC_REM_INV_REQ_ERR;
	if (status != SIMHCA_WC_SUCCESS)
		complete_recv(qp, packet, status, reason, 0);
	else
		simhca_qp_event(qp, nak == SIMHCA_SYNDROME_NAK_ACCESS ? IBV_EVENT_QP_ACCESS_ERR
								      : IBV_EVENT_QP_REQ_ERR);
	simhca_qp_fail(qp, SIMHCA_QPS_ERR);
}

/* Takes a receive WQE for the current message unless one is held; false: reply is filled. */
static bool need_recv(struct simhca_worker *worker, struct simhca_qp *qp,
		      const struct simhca_packet *packet, struct reply *reply)
{
	struct simhca_srq *srq = srq_of(qp);
	enum simhca_take take;

	if (qp->resp.have_recv)
		return true;
	if (!srq)
		take = simhca_rq_peek(qp);
	else if (srq->tags && packet->op == SIMHCA_PKT_SEND)
		take = simhca_tm_take(worker, qp, packet);
	else
		take = simhca_srq_take(srq, qp->held);
	switch (take) {
	case SIMHCA_TAKE_OK:
		qp->resp.have_recv = true;
		return true;
	case SIMHCA_TAKE_EMPTY:
		send_nak(reply, SIMHCA_SYNDROME_RNR_NAK | qp->qpc->min_rnr_timer,
			 SIMHCA_REASON_PEER_NOT_READY);
		return false;
	case SIMHCA_TAKE_CORRUPT:
		break;
	}
	if (qp->type == SIMHCA_QPT_XRC_RECV) { /* it is the SRQ that is broken, and its owner's */
		simhca_async_event(srq->context, srq->user_handle, IBV_EVENT_SRQ_ERR);
		refuse(qp, packet, SIMHCA_SYNDROME_NAK_OPERATIONAL, SIMHCA_WC_SUCCESS,
		       SIMHCA_REASON_RING_CORRUPT, reply);
		return false;
	}
	simhca_qp_corrupt(qp);
	be_silent(reply, SIMHCA_REASON_NONE);
	return false;
}

/* Memory behind an agent may only be waited for by an engine made for that. */
static bool belongs_elsewhere(struct simhca_worker *worker, const struct simhca_sgl *sgl,
			      struct reply *reply)
{
	if (worker->engine->config.may_block)
		return false;
	for (uint32_t i = 0; i < sgl->count; i++) {
		const struct simhca_mm *mm = sgl->seg[i].mm;

		if (mm && mm->kind == SIMHCA_MM_AGENT) {
			do_not_take(reply, SIMHCA_ELSEWHERE, SIMHCA_REASON_NONE);
			reply->handover.engine = mm->engine;
			return true;
		}
	}
	return false;
}

/* The memory at our end that a request is about. */
enum memory { RECEIVE_BUFFER, REMOTE_MEMORY };

/* What is wrong with it is told to the receive that it belongs to; or that it would complete. */
static void refuse_memory(struct simhca_worker *worker, struct simhca_qp *qp,
			  const struct simhca_packet *packet, enum memory memory,
			  enum simhca_reason reason, struct reply *reply)
{
	if (memory == RECEIVE_BUFFER) {
		refuse(qp, packet, SIMHCA_SYNDROME_NAK_OPERATIONAL, SIMHCA_WC_LOC_PROT_ERR, reason,
		       reply);
		return;
	}
	/* Whose write with immediate data it is hears of it by a receive, if it has one posted. */
	if (packet->op == SIMHCA_PKT_WRITE && packet->has_imm &&
	    simhca_is_reliable(packet->transport) && !need_recv(worker, qp, packet, reply) &&
	    !(reply->kind == NAK && SIMHCA_SYNDROME_IS_RNR(reply->syndrome)))
		return; /* its ring is corrupt, and the QP has failed */
	refuse(qp, packet, SIMHCA_SYNDROME_NAK_ACCESS, SIMHCA_WC_SUCCESS, reason, reply);
}

/* What a fault of ours means for the request; false: reply is filled. */
static bool went_on(struct simhca_worker *worker, struct simhca_qp *qp,
		    const struct simhca_packet *packet, enum simhca_fault_context context,
		    enum simhca_fault_verdict verdict, enum memory memory,
		    enum simhca_reason reason, struct reply *reply)
{
	switch (verdict) {
	case SIMHCA_FAULT_GO:
		return true;
	case SIMHCA_FAULT_WAIT:
		do_not_take(reply, SIMHCA_ABSENT, SIMHCA_REASON_NONE);
		reply->handover.rnr_timer = simhca_fault_rnr_timer(&qp->faults, context);
		return false;
	case SIMHCA_FAULT_ERROR:
		break;
	}
	if (reason == SIMHCA_REASON_PROCESS_GONE)
		be_silent(reply, SIMHCA_REASON_NONE);
	else
		refuse_memory(worker, qp, packet, memory, reason, reply);
	return false;
}

/*
 * Whether the pages of a packet's memory at our end are there; if not, their fault is raised, and
 * the answer is to come back, or, if it cannot be resolved, that the memory is refused.
 */
static bool pages_there(struct simhca_worker *worker, struct simhca_qp *qp,
			const struct simhca_packet *packet, enum simhca_fault_context context,
			const struct simhca_sgl *sgl, enum memory memory, struct reply *reply)
{
	enum simhca_reason reason = SIMHCA_REASON_NONE;
	enum simhca_fault_verdict verdict =
		simhca_fault_take(worker, &qp->faults, context, &reason);

	if (verdict == SIMHCA_FAULT_GO && !simhca_fault_resumed(&qp->faults, context) &&
	    !simhca_odp_verify(sgl))
		verdict = simhca_fault_take_copy(worker, &qp->faults, context, sgl, &reason);
	return went_on(worker, qp, packet, context, verdict, memory, reason, reply);
}

/*
 * A copy that failed: at the requester's end (ours: NULL) it is the requester's error; at ours it
 * is the end of a process (nobody answers) or refused.
 */
static void copy_failed(struct simhca_worker *worker, struct simhca_qp *qp,
			const struct simhca_packet *packet, enum simhca_fault_context context,
			const struct simhca_sgl *ours, enum memory memory,
			enum simhca_reason reason, struct reply *reply)
{
	enum simhca_fault_verdict verdict;

	if (!ours) {
		do_not_take(reply, SIMHCA_UNREADABLE, reason);
		return;
	}
	verdict = simhca_fault_take_copy(worker, &qp->faults, context, ours, &reason);
	/* As if it had not been raised: the request comes again. */
	if (verdict == SIMHCA_FAULT_GO)
		verdict = SIMHCA_FAULT_WAIT;
	went_on(worker, qp, packet, context, verdict, memory, reason, reply);
}

/* The receive WQE of the message; false: it is none any more, and reply is filled. */
static bool read_recv(struct simhca_qp *qp, struct simhca_recv *recv, struct reply *reply)
{
	if (simhca_recv_read(qp, recv))
		return true;
	simhca_qp_corrupt(qp);
	be_silent(reply, SIMHCA_REASON_NONE);
	return false;
}

/* Puts the packet's payload at offset of the receive buffers; false: reply is filled. */
static bool place_in_recv(struct simhca_worker *worker, struct simhca_qp *qp,
			  const struct simhca_packet *packet, const struct simhca_sgl *payload,
			  uint64_t offset, uint64_t length, struct reply *reply)
{
	struct simhca_key_use use = {
		.worker = worker,
		.device = qp->device,
		/* The SRQ's buffers are the SRQ's PD's (IBTA vol. 1, 10.2.9.4). */
		.pd = srq_of(qp) ? srq_of(qp)->pd->number : qp->qpc->pd,
		.qpn = qp->qpn,
		.access = SIMHCA_ACCESS_LOCAL_WRITE,
	};
	struct simhca_sgl target;
	enum simhca_dma_result result;
	enum simhca_reason reason;
	struct simhca_recv recv;

	if (!read_recv(qp, &recv, reply))
		return false;
	target.count = 0;
	worker->num_absent = 0;
	if (offset > recv.length || length > recv.length - offset) {
		refuse(qp, packet, SIMHCA_SYNDROME_NAK_INVALID, SIMHCA_WC_LOC_LEN_ERR,
		       SIMHCA_REASON_RECV_TOO_SHORT, reply);
		return false;
	}
	reason = simhca_translate_sges(&use, recv.sge, recv.num_sge, offset, length, &target);
	if (reason != SIMHCA_REASON_NONE) {
		refuse_memory(worker, qp, packet, RECEIVE_BUFFER, reason, reply);
		return false;
	}
	if (belongs_elsewhere(worker, &target, reply) ||
	    !pages_there(worker, qp, packet, SIMHCA_RESPONDER_WRITE, &target, RECEIVE_BUFFER,
			 reply))
		return false;
	result = simhca_dma_copy(&target, payload, length, worker->scratch, &reason);
	if (result == SIMHCA_DMA_OK) {
		simhca_fault_over(&qp->faults, SIMHCA_RESPONDER_WRITE);
		return true;
	}
	copy_failed(worker, qp, packet, SIMHCA_RESPONDER_WRITE,
		    result == SIMHCA_DMA_TARGET ? &target : NULL, RECEIVE_BUFFER, reason, reply);
	return false;
}

/*
 * The key of a SEND_WITH_INV cannot be invalidated. The message itself has arrived, and is
 * acknowledged; only then this side fails, by its receive (IBTA vol. 1, 9.9.3, class J).
 */
static void fail_invalidate(struct simhca_qp *qp, const struct simhca_packet *packet,
			    enum simhca_reason reason, struct reply *reply)
{
	simhca_qp_log(qp, " cannot invalidate key 0x%08x for QP 0x%06x: %s", packet->imm_or_rkey,
		      packet->src_qpn, simhca_reason_text(reason));
	acknowledge(reply);
	complete_recv(qp, packet, SIMHCA_WC_LOC_ACCESS_ERR, reason, 0);
	simhca_qp_fail(qp, SIMHCA_QPS_ERR);
}

/*
 * Ends a SEND_WITH_INV, whose data are placed. First the key is void; the message is complete when
 * no access by it is under way any more. Until then the requester asks again.
 */
static bool invalidate(struct simhca_worker *worker, struct simhca_qp *qp,
		       const struct simhca_packet *packet, struct reply *reply)
{
	struct simhca_key_use use = { .device = qp->device, .pd = pd_of(qp), .qpn = qp->qpn };
	enum simhca_reason reason;

	simhca_key_release(worker, 0); /* our own accesses are over: it may be the buffer's key */
	if (!qp->resp.revoked) {
		reason = simhca_key_invalidate(&use, packet->imm_or_rkey);
		if (reason != SIMHCA_REASON_NONE) {
			fail_invalidate(qp, packet, reason, reply);
			return false;
		}
		qp->resp.revoked = true;
		qp->resp.revoked_psn = packet->psn;
	}
	if (!simhca_key_idle(&use, packet->imm_or_rkey)) {
		do_not_take(reply, SIMHCA_BUSY, SIMHCA_REASON_NONE);
		return false;
	}
	qp->resp.revoked = false;
	return true;
}

/* PSNs of a request: those of a read are the ones of its response. */
static uint32_t psns_of(const struct simhca_packet *packet, uint32_t mtu /* enum ibv_mtu */)
{
	return simhca_psn_count(packet->op == SIMHCA_PKT_READ ? packet->dma_length : packet->length,
				simhca_mtu_bytes(mtu));
}

static bool is_remembered(enum simhca_packet_op op)
{
	return op == SIMHCA_PKT_READ || op == SIMHCA_PKT_COMPARE_SWAP || op == SIMHCA_PKT_FETCH_ADD;
}

static void remember(struct simhca_qp *qp, const struct simhca_packet *packet,
		     const struct reply *reply)
{
	const struct simhca_answered one = {
		.va = packet->va,
		.length = packet->dma_length,
		.old = reply->atomic_old,
		.psn = packet->psn,
		.op = (uint8_t)packet->op,
		.rkey = packet->rkey,
	};

	/* Read when it is committed; the one that it takes the place of is too old to be asked for.
	 */
	simhca_turn_put(&qp->mem->answered[qp->resp.answers++ % SIMHCA_MAX_RD_ATOMIC], &one,
			sizeof(one));
}

/* Of a responder's progress, what a packet that is done changes. */
struct place {
	uint32_t epsn, msn, taken, answers;
	uint8_t in_message, write;
};

static struct place place_of(const struct simhca_qp *qp)
{
	return (struct place){
		.epsn = qp->resp.epsn,
		.msn = qp->resp.msn,
		.taken = qp->resp.taken,
		.answers = qp->resp.answers,
		.in_message = qp->resp.in_message,
		.write = qp->resp.write,
	};
}

/* The packet's PSNs are taken: it is done, or as good as done. */
static void advance(struct simhca_qp *qp, const struct simhca_packet *packet, struct reply *reply)
{
	reply->advanced = true;
	if (packet->op == SIMHCA_PKT_SEND || packet->op == SIMHCA_PKT_WRITE) {
		qp->resp.in_message = !packet->last;
		qp->resp.write = packet->op == SIMHCA_PKT_WRITE;
	}
	if (is_remembered(packet->op))
		remember(qp, packet, reply);
	qp->resp.epsn = simhca_psn_add(packet->psn, reply->psns);
	qp->resp.taken += reply->psns;
	if (qp->resp.taken > SIMHCA_PSN_DUPLICATES)
		qp->resp.taken = SIMHCA_PSN_DUPLICATES;
	if (packet->last)
		qp->resp.msn = simhca_psn_add(qp->resp.msn, 1);
}

/* It is not done after all. */
static void retreat(struct simhca_qp *qp, const struct place *before, struct reply *reply)
{
	reply->advanced = false;
	qp->resp.epsn = before->epsn;
	qp->resp.msn = before->msn;
	qp->resp.taken = before->taken;
	qp->resp.answers = before->answers;
	qp->resp.in_message = before->in_message;
	qp->resp.write = before->write;
}

/*
 * A message whose completion is lost has not arrived, as nobody will hear of it. That the CQ was
 * full has failed its QPs; a target is not one of those.
 */
static bool completes(struct simhca_qp *qp, const struct simhca_packet *packet, uint64_t bytes,
		      struct reply *reply)
{
	const struct place before = place_of(qp);

	/* First, as the completion is told of when the message's progress is committed. */
	advance(qp, packet, reply);
	if (complete_recv(qp, packet, SIMHCA_WC_SUCCESS, SIMHCA_REASON_NONE, bytes))
		return true;
	retreat(qp, &before, reply);
	if (qp->type == SIMHCA_QPT_XRC_RECV)
		refuse(qp, packet, SIMHCA_SYNDROME_NAK_OPERATIONAL, SIMHCA_WC_SUCCESS,
		       SIMHCA_REASON_XRC_CQ_ERROR, reply);
	else
		send_nak(reply, SIMHCA_SYNDROME_NAK_OPERATIONAL, SIMHCA_REASON_RECV_CQ_ERROR);
	return false;
}

/* Whether the message at hand has matched an entry of a tag list. */
static bool is_tagged(const struct simhca_qp *qp)
{
	return qp->srq && qp->srq->tags && simhca_tm_matched(&qp->resp.tm);
}

static uint64_t tagged_bytes(const struct simhca_qp *qp)
{
	if (qp->resp.tm.kind == SIMHCA_TM_RNDV)
		return 0; /* so far */
	return qp->resp.offset - SIMHCA_TMH_BYTES;
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

/* The same for a tagged buffer: eager data without their header, of a rendezvous nothing yet. */
static bool place_tagged(struct simhca_worker *worker, struct simhca_qp *qp,
			 const struct simhca_packet *packet, struct reply *reply)
{
	const uint64_t header = packet->first ? SIMHCA_TMH_BYTES : 0;
	struct simhca_sgl data;

	if (qp->resp.tm.kind == SIMHCA_TM_RNDV)
		return true;
	skip(&data, packet->payload, header);
	return place_in_recv(worker, qp, packet, &data, qp->resp.offset + header - SIMHCA_TMH_BYTES,
			     packet->length - header, reply);
}

static bool execute_send(struct simhca_worker *worker, struct simhca_qp *qp,
			 const struct simhca_packet *packet, struct reply *reply)
{
	bool tagged;

	if (!need_recv(worker, qp, packet, reply))
		return false;
	tagged = is_tagged(qp);
	/* Unless this very packet was here before, and only had to wait for others to end. */
	if (!packet->has_inv || qp->resp.revoked_psn != packet->psn)
		qp->resp.revoked = false;
	if (!qp->resp.revoked && (tagged ? !place_tagged(worker, qp, packet, reply)
					 : !place_in_recv(worker, qp, packet, packet->payload,
							  qp->resp.offset, packet->length, reply)))
		return false;
	if (packet->has_inv && !invalidate(worker, qp, packet, reply))
		return false;
	qp->resp.offset += packet->length;
	if (!packet->last)
		return true;
	if (!completes(qp, packet, tagged ? tagged_bytes(qp) : qp->resp.offset, reply))
		return false;
	if (tagged && qp->resp.tm.kind == SIMHCA_TM_RNDV)
		simhca_rndv_add(qp);
	return true;
}

/* An rkey's memory, for a one-sided operation; sgl NULL: only checked. False: reply is filled. */
static bool remote_memory(struct simhca_worker *worker, struct simhca_qp *qp,
			  const struct simhca_packet *packet, uint64_t length, uint32_t right,
			  struct simhca_sgl *sgl, struct reply *reply)
{
	struct simhca_key_use use = {
		.worker = worker,
		.device = qp->device,
		.pd = pd_of(qp),
		.qpn = qp->qpn,
		.access = right,
		.remote = true,
		.flush = packet->op == SIMHCA_PKT_FLUSH,
		.whole = packet->op == SIMHCA_PKT_FLUSH &&
			 packet->flush_selectivity == SIMHCA_FLUSH_MR,
	};
	enum simhca_reason reason;

	worker->num_absent = 0;
	reason = packet->op == SIMHCA_PKT_WRITE
			 ? simhca_translate(&use, qp->resp.rkey, qp->resp.va, length, sgl)
			 : simhca_translate(&use, packet->rkey, packet->va, length, sgl);
	if (reason == SIMHCA_REASON_NONE)
		return true;
	refuse_memory(worker, qp, packet, REMOTE_MEMORY, reason, reply);
	return false;
}

/* A QP grants each one-sided operation by its access flags; without it the request is invalid. */
static bool qp_grants(struct simhca_qp *qp, const struct simhca_packet *packet, uint32_t right,
		      enum simhca_reason without, struct reply *reply)
{
	if (qp->qpc->access & right)
		return true;
	refuse(qp, packet, SIMHCA_SYNDROME_NAK_INVALID, SIMHCA_WC_SUCCESS, without, reply);
	return false;
}

static bool execute_write(struct simhca_worker *worker, struct simhca_qp *qp,
			  const struct simhca_packet *packet, struct reply *reply)
{
	struct simhca_sgl target;
	enum simhca_dma_result result;
	enum simhca_reason reason;

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
		refuse(qp, packet, SIMHCA_SYNDROME_NAK_INVALID, SIMHCA_WC_SUCCESS,
		       SIMHCA_REASON_OPCODE_SEQUENCE, reply);
		return false;
	}
	/* The first packet's RETH speaks for the whole message: no byte is placed if it is wrong.
	 */
	if (packet->first && !packet->last &&
	    !remote_memory(worker, qp, packet, packet->dma_length, SIMHCA_ACCESS_REMOTE_WRITE, NULL,
			   reply))
		return false;
	if (!remote_memory(worker, qp, packet, packet->length, SIMHCA_ACCESS_REMOTE_WRITE, &target,
			   reply))
		return false;
	if (packet->has_imm && !need_recv(worker, qp, packet, reply))
		return false;
	if (belongs_elsewhere(worker, &target, reply) ||
	    !pages_there(worker, qp, packet, SIMHCA_RESPONDER_WRITE, &target, REMOTE_MEMORY, reply))
		return false;
	result =
		simhca_dma_copy(&target, packet->payload, packet->length, worker->scratch, &reason);
	if (result != SIMHCA_DMA_OK) {
		copy_failed(worker, qp, packet, SIMHCA_RESPONDER_WRITE,
			    result == SIMHCA_DMA_TARGET ? &target : NULL, REMOTE_MEMORY, reason,
			    reply);
		return false;
	}
	simhca_fault_over(&qp->faults, SIMHCA_RESPONDER_WRITE);
	qp->resp.offset += packet->length;
	qp->resp.va += packet->length;
	qp->resp.left -= packet->length;
	return !packet->has_imm || completes(qp, packet, qp->resp.offset, reply);
}

static bool grants_responses(struct simhca_qp *qp, const struct simhca_packet *packet,
			     struct reply *reply)
{
	if (qp->qpc->max_dest_rd_atomic)
		return true;
	refuse(qp, packet, SIMHCA_SYNDROME_NAK_INVALID, SIMHCA_WC_SUCCESS,
	       SIMHCA_REASON_RESP_NO_RD_ATOMIC, reply);
	return false;
}

/* Sends a response by the QP's link; its destination is the source of what it answers. */
static struct simhca_handover respond(struct simhca_worker *worker, struct simhca_qp *qp,
				      const struct simhca_packet *request,
				      struct simhca_packet *response)
{
	response->transport = qp->type;
	response->dest_qpn = request->src_qpn;
	response->src_qpn = qp->qpn;
	response->msn = qp->resp.msn;
	response->mtu = qp->qpc->path_mtu;
	/* Who hears of it counts on it. */
	simhca_responder_commit(qp);
	return qp->link->respond(worker, qp, response);
}

/* Bytes that a packet brings at most. */
static uint64_t slice_of(const struct simhca_qp *qp)
{
	return qp->link->slice ? qp->link->slice : simhca_qp_mtu(qp);
}

/* Sends the next piece of a read's response: of all that the request asks for, or is left of it. */
static bool respond_to_read(struct simhca_worker *worker, struct simhca_qp *qp,
			    const struct simhca_packet *packet, struct reply *reply)
{
	uint64_t slice = slice_of(qp);
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
	if (!remote_memory(worker, qp, packet, length, SIMHCA_ACCESS_REMOTE_READ, &source, reply) ||
	    belongs_elsewhere(worker, &source, reply) ||
	    !pages_there(worker, qp, packet, SIMHCA_RESPONDER_READ, &source, REMOTE_MEMORY, reply))
		return false;
	qp->resp.owed = response.last	  ? SIMHCA_OWES_NOTHING
			: reply->repeated ? SIMHCA_OWES_REPEATED
					  : SIMHCA_OWES_RESPONSE;
	qp->resp.read.psn =
		simhca_psn_add(packet->psn, simhca_psn_count(length, simhca_qp_mtu(qp)));
	qp->resp.read.rkey = packet->rkey;
	qp->resp.read.srqn = packet->xrc_srqn;
	qp->resp.read.va = packet->va + length;
	qp->resp.read.left = (uint32_t)(packet->dma_length - length);
	handover = respond(worker, qp, packet, &response);
	if (handover.outcome == SIMHCA_UNREADABLE) {
		qp->resp.read = before;
		qp->resp.owed = owed;
		copy_failed(worker, qp, packet, SIMHCA_RESPONDER_READ, &source, REMOTE_MEMORY,
			    handover.reason, reply);
		return false;
	}
	simhca_fault_over(&qp->faults, SIMHCA_RESPONDER_READ);
	be_silent(reply, SIMHCA_REASON_NONE);
	return true;
}

static bool execute_read(struct simhca_worker *worker, struct simhca_qp *qp,
			 const struct simhca_packet *packet, struct reply *reply)
{
	if (!qp_grants(qp, packet, SIMHCA_ACCESS_REMOTE_READ, SIMHCA_REASON_QP_NO_REMOTE_READ,
		       reply) ||
	    !grants_responses(qp, packet, reply))
		return false;
	/* All of it, so that a bad range yields nothing at all. */
	return (packet->dma_length <= slice_of(qp) ||
		remote_memory(worker, qp, packet, packet->dma_length, SIMHCA_ACCESS_REMOTE_READ,
			      NULL, reply)) &&
	       respond_to_read(worker, qp, packet, reply);
}

/* The 8 bytes at packet->va that an atomic or an atomic write is about. */
static bool atomic_target(struct simhca_worker *worker, struct simhca_qp *qp,
			  const struct simhca_packet *packet, uint32_t access,
			  struct simhca_sgl *target, struct reply *reply)
{
	target->count = 0;
	if (packet->va & 7) {
		refuse(qp, packet, SIMHCA_SYNDROME_NAK_INVALID, SIMHCA_WC_SUCCESS,
		       SIMHCA_REASON_ATOMIC_UNALIGNED, reply);
		return false;
	}
	if (!remote_memory(worker, qp, packet, 8, access, target, reply) ||
	    belongs_elsewhere(worker, target, reply))
		return false;
	if (target->count != 1) { /* a zero-based window that starts just before a page does */
		refuse(qp, packet, SIMHCA_SYNDROME_NAK_INVALID, SIMHCA_WC_SUCCESS,
		       SIMHCA_REASON_ATOMIC_UNALIGNED, reply);
		return false;
	}
	return pages_there(worker, qp, packet, SIMHCA_RESPONDER_WRITE, target, REMOTE_MEMORY,
			   reply);
}

/* A write of 8 bytes that no other access sees in parts (IBTA vol. 1, A19). */
static bool execute_atomic_write(struct simhca_worker *worker, struct simhca_qp *qp,
				 const struct simhca_packet *packet, struct reply *reply)
{
	struct simhca_atomic_op store = { .store = true };
	struct simhca_sgl target, value;
	enum simhca_dma_result result;
	enum simhca_reason reason;
	uint64_t old;

	if (!qp_grants(qp, packet, SIMHCA_ACCESS_REMOTE_WRITE, SIMHCA_REASON_QP_NO_REMOTE_WRITE,
		       reply) ||
	    !grants_responses(qp, packet, reply) ||
	    !atomic_target(worker, qp, packet, SIMHCA_ACCESS_REMOTE_WRITE, &target, reply))
		return false;
	value.count = 1;
	value.seg[0] = (struct simhca_seg){ .addr = (uintptr_t)&store.swap_add, .length = 8 };
	result = simhca_dma_copy(&value, packet->payload, 8, worker->scratch, &reason);
	if (result == SIMHCA_DMA_OK &&
	    !simhca_dma_atomic(target.seg[0].mm, target.seg[0].addr, &store, &old, &reason))
		result = SIMHCA_DMA_TARGET;
	if (result != SIMHCA_DMA_OK) {
		copy_failed(worker, qp, packet, SIMHCA_RESPONDER_WRITE,
			    result == SIMHCA_DMA_TARGET ? &target : NULL, REMOTE_MEMORY, reason,
			    reply);
		return false;
	}
	simhca_fault_over(&qp->faults, SIMHCA_RESPONDER_WRITE);
	return true;
}

static bool execute_atomic(struct simhca_worker *worker, struct simhca_qp *qp,
			   const struct simhca_packet *packet, struct reply *reply)
{
	struct simhca_sgl target;
	enum simhca_reason reason;
	uint64_t old;

	if (!qp_grants(qp, packet, SIMHCA_ACCESS_REMOTE_ATOMIC, SIMHCA_REASON_QP_NO_REMOTE_ATOMIC,
		       reply) ||
	    !grants_responses(qp, packet, reply) ||
	    !atomic_target(worker, qp, packet, SIMHCA_ACCESS_REMOTE_ATOMIC, &target, reply))
		return false;
	if (!simhca_dma_atomic(target.seg[0].mm, target.seg[0].addr, &packet->atomic, &old,
			       &reason)) {
		copy_failed(worker, qp, packet, SIMHCA_RESPONDER_WRITE, &target, REMOTE_MEMORY,
			    reason, reply);
		return false;
	}
	simhca_fault_over(&qp->faults, SIMHCA_RESPONDER_WRITE);
	reply->atomic_old = old;
	return true;
}

/*
 * FLUSH (IBTA vol. 1, A19): what this QP wrote before is where everybody sees it. The device keeps
 * nothing back: a copy is in its owner's memory when it ends, and requests are carried out one by
 * one. So there is nothing to do but to check, and to answer.
 */
static bool execute_flush(struct simhca_worker *worker, struct simhca_qp *qp,
			  const struct simhca_packet *packet, struct reply *reply)
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
	       remote_memory(worker, qp, packet, packet->dma_length, rights, NULL, reply);
}

/* XRC: whether the SRQ that the packet names may be delivered to; false: reply is filled. */
static bool has_xrc_srq(struct simhca_qp *qp, const struct simhca_packet *packet,
			struct reply *reply)
{
	enum simhca_syndrome nak = SIMHCA_SYNDROME_NAK_ACCESS;
	struct simhca_srq *srq = qp->xrc_srq;
	enum simhca_reason reason;

	if (!reply->repeated && packet->xrc_srqn != qp->resp.srqn) {
		nak = SIMHCA_SYNDROME_NAK_INVALID;
		reason = SIMHCA_REASON_OPCODE_SEQUENCE;
	} else if (!srq) {
		if (!reply->repeated) /* a receive went with the SRQ that it was taken from */
			qp->resp.have_recv = false;
		reason = SIMHCA_REASON_XRC_NO_SRQ;
	} else if (srq->domain->xrcd != qp->xrcd) {
		reason = SIMHCA_REASON_XRC_OTHER_DOMAIN;
	} else if (atomic_load_explicit(&srq->cq->mem->overrun, memory_order_relaxed)) {
		nak = SIMHCA_SYNDROME_NAK_OPERATIONAL;
		reason = SIMHCA_REASON_XRC_CQ_ERROR;
	} else {
		return true;
	}
	refuse(qp, packet, nak, SIMHCA_WC_SUCCESS, reason, reply);
	return false;
}

/* Carries out a packet that is in sequence; false: not done, and reply says why. */
static bool execute(struct simhca_worker *worker, struct simhca_qp *qp,
		    const struct simhca_packet *packet, struct reply *reply)
{
	switch (packet->op) {
	case SIMHCA_PKT_SEND:
		return execute_send(worker, qp, packet, reply);
	case SIMHCA_PKT_WRITE:
		return execute_write(worker, qp, packet, reply);
	case SIMHCA_PKT_READ:
		return execute_read(worker, qp, packet, reply);
	case SIMHCA_PKT_COMPARE_SWAP:
	case SIMHCA_PKT_FETCH_ADD:
		return execute_atomic(worker, qp, packet, reply);
	case SIMHCA_PKT_ATOMIC_WRITE:
		return execute_atomic_write(worker, qp, packet, reply);
	case SIMHCA_PKT_FLUSH:
		return execute_flush(worker, qp, packet, reply);
	case SIMHCA_PKT_ACK: /* no requests */
	case SIMHCA_PKT_READ_RESPONSE:
	case SIMHCA_PKT_ATOMIC_ACK:
		break;
	}
	be_silent(reply, SIMHCA_REASON_NONE);
	return false;
}

static void count_request(struct simhca_worker *worker, struct simhca_qp *qp,
			  const struct simhca_packet *packet)
{
	if (packet->op == SIMHCA_PKT_WRITE)
		simhca_count(qp, SIMHCA_COUNTS_REMOTE_WRITE, packet->last, packet->length);
	else if (packet->op == SIMHCA_PKT_READ)
		simhca_count(qp, SIMHCA_COUNTS_REMOTE_READ, 1, packet->dma_length);
	if (!packet->first)
		return;
	switch (packet->op) {
	case SIMHCA_PKT_WRITE:
	case SIMHCA_PKT_ATOMIC_WRITE:
		simhca_stats_add(worker, qp->device, SIMHCA_STAT_RX_WRITE, 1);
		break;
	case SIMHCA_PKT_READ:
		simhca_stats_add(worker, qp->device, SIMHCA_STAT_RX_READ, 1);
		break;
	case SIMHCA_PKT_COMPARE_SWAP:
	case SIMHCA_PKT_FETCH_ADD:
		simhca_stats_add(worker, qp->device, SIMHCA_STAT_RX_ATOMIC, 1);
		break;
	default:
		break;
	}
}

/* Not answered, so that it does not count as done; the requester's timer decides. Told once. */
static void ignore(struct simhca_qp *qp, const struct simhca_packet *packet,
		   enum simhca_reason reason, struct reply *reply)
{
	be_silent(reply, reason);
	if (qp->resp.told_psn)
		return;
	qp->resp.told_psn = true;
	simhca_qp_log(qp,
		      " ignores PSN 0x%06x of QP 0x%06x (rq_psn is 0x%06x, now expected "
		      "0x%06x): %s",
		      packet->psn, packet->src_qpn, qp->qpc->rq_psn, qp->resp.epsn,
		      simhca_reason_text(reason));
}

/* Finds the latest read or atomic that a PSN is of; false: none that is remembered. */
static bool answered(const struct simhca_qp *qp, uint32_t psn, struct simhca_answered *one)
{
	for (uint32_t i = 1; i <= SIMHCA_MAX_RD_ATOMIC; i++) {
		uint32_t psns = 1;

		simhca_turn_get(one,
				&qp->mem->answered[(qp->resp.answers - i) % SIMHCA_MAX_RD_ATOMIC],
				sizeof(*one));
		if (one->op == SIMHCA_PKT_READ)
			psns = simhca_psn_count(one->length, simhca_qp_mtu(qp));
		if (is_remembered(one->op) &&
		    simhca_psn_add(psn, SIMHCA_PSN_MASK + 1 - one->psn) < psns)
			return true;
	}
	return false;
}

/* Whether a read asks for the rest of that one, or for less. */
static bool is_part_of(const struct simhca_qp *qp, const struct simhca_packet *packet,
		       const struct simhca_answered *read)
{
	uint64_t offset = (uint64_t)simhca_psn_cmp(packet->psn, read->psn) * simhca_qp_mtu(qp);

	return read->op == SIMHCA_PKT_READ && packet->rkey == read->rkey &&
	       packet->va == read->va + offset && packet->dma_length <= read->length - offset;
}

/* A packet that came before: its answer is given again, its effect is not (9.7.5.1.4). */
static void repeat(struct simhca_worker *worker, struct simhca_qp *qp,
		   const struct simhca_packet *packet, struct reply *reply)
{
	struct simhca_answered original;

	reply->repeated = true;
	switch (packet->op) {
	case SIMHCA_PKT_SEND:
	case SIMHCA_PKT_WRITE:
	case SIMHCA_PKT_ATOMIC_WRITE:
	case SIMHCA_PKT_FLUSH:
		acknowledge(reply);
		break;
	case SIMHCA_PKT_READ:
		if (!answered(qp, packet->psn, &original) || !is_part_of(qp, packet, &original)) {
			ignore(qp, packet, SIMHCA_REASON_PSN_REUSED, reply);
			return;
		}
		if (qp->type == SIMHCA_QPT_XRC_RECV && !has_xrc_srq(qp, packet, reply))
			return;
		if (!execute_read(worker, qp, packet, reply))
			return;
		break;
	case SIMHCA_PKT_COMPARE_SWAP:
	case SIMHCA_PKT_FETCH_ADD:
		if (!answered(qp, packet->psn, &original) || original.op != packet->op) {
			be_silent(reply, SIMHCA_REASON_ATOMIC_FORGOTTEN);
			return;
		}
		reply->atomic_old = original.old;
		acknowledge(reply);
		break;
	case SIMHCA_PKT_ACK: /* no requests */
	case SIMHCA_PKT_READ_RESPONSE:
	case SIMHCA_PKT_ATOMIC_ACK:
		return;
	}
	count_request(worker, qp, packet);
}

/*
 * A packet `back` PSNs before the expected one. Acknowledging means that it was done; so it is a
 * duplicate only if all its PSNs were taken before, in this connection (IBTA vol. 1, 9.7.1).
 */
static void run_old(struct simhca_worker *worker, struct simhca_qp *qp,
		    const struct simhca_packet *packet, uint32_t back, struct reply *reply)
{
	if (back > qp->resp.taken) {
		simhca_stats_add(worker, qp->device, SIMHCA_STAT_OUT_OF_SEQUENCE, 1);
		ignore(qp, packet, SIMHCA_REASON_PSN_BEFORE_START, reply);
	} else if (reply->psns <= back) {
		simhca_stats_add(worker, qp->device, SIMHCA_STAT_DUPLICATE_REQUEST, 1);
		repeat(worker, qp, packet, reply);
	} else if (packet->op == SIMHCA_PKT_SEND || packet->op == SIMHCA_PKT_WRITE) {
		/* On a wire the first packet that is new is a middle or last one of no message. */
		refuse(qp, packet, SIMHCA_SYNDROME_NAK_INVALID, SIMHCA_WC_SUCCESS,
		       SIMHCA_REASON_PSN_REUSED, reply);
	} else {
		ignore(qp, packet, SIMHCA_REASON_PSN_REUSED, reply);
	}
}

/* Whether a packet continues, or begins, a message as it should. */
static bool continues(const struct simhca_qp *qp, const struct simhca_packet *packet)
{
	if (packet->op == SIMHCA_PKT_SEND || packet->op == SIMHCA_PKT_WRITE) {
		if (packet->first)
			return !qp->resp.in_message;
		return qp->resp.in_message && qp->resp.write == (packet->op == SIMHCA_PKT_WRITE);
	}
	return !qp->resp.in_message;
}

static bool in_sequence_rc(struct simhca_worker *worker, struct simhca_qp *qp,
			   const struct simhca_packet *packet, struct reply *reply)
{
	int32_t order = simhca_psn_cmp(packet->psn, qp->resp.epsn);

	if (order > 0) {
		simhca_stats_add(worker, qp->device, SIMHCA_STAT_OUT_OF_SEQUENCE, 1);
		if (!qp->resp.nak_sent)
			send_nak(reply, SIMHCA_SYNDROME_NAK_PSN, SIMHCA_REASON_PSN_SEQUENCE);
		qp->resp.nak_sent = true;
		return false;
	}
	if (order < 0) {
		run_old(worker, qp, packet, (uint32_t)-order, reply);
		return false;
	}
	qp->resp.nak_sent = false;
	if (!continues(qp, packet)) {
		refuse(qp, packet, SIMHCA_SYNDROME_NAK_INVALID, SIMHCA_WC_SUCCESS,
		       SIMHCA_REASON_OPCODE_SEQUENCE, reply);
		return false;
	}
	return true;
}

/* Unreliable: a gap loses the message it falls into, the next first packet starts anew (9.8.2.2.1).
 */
static bool in_sequence_uc(struct simhca_qp *qp, const struct simhca_packet *packet)
{
	if (packet->first) {
		qp->resp.in_message = false;
		return true;
	}
	if (packet->psn == qp->resp.epsn && continues(qp, packet))
		return true;
	qp->resp.in_message = false;
	return false;
}

/* The packets of a message are full, but for the last, and no message is too long (9.7.4.1.6). */
static enum simhca_reason check_length(const struct simhca_qp *qp,
				       const struct simhca_packet *packet)
{
	if (packet->dma_length > SIMHCA_MAX_MSG_SIZE &&
	    (packet->op == SIMHCA_PKT_WRITE || packet->op == SIMHCA_PKT_READ))
		return SIMHCA_REASON_MSG_TOO_LONG;
	if (packet->first && packet->last)
		return SIMHCA_REASON_NONE;
	if (!packet->length)
		return SIMHCA_REASON_OPCODE_SEQUENCE;
	if (!packet->last && packet->length % simhca_qp_mtu(qp))
		return SIMHCA_REASON_PATH_MTU_DIFFERS;
	return SIMHCA_REASON_NONE;
}

static void run_connected(struct simhca_worker *worker, struct simhca_qp *qp,
			  const struct simhca_packet *packet, struct reply *reply)
{
	enum simhca_reason reason;
	struct place before;

	/* Both ends would count on differently, until one takes what is new for a duplicate. */
	if (packet->mtu != qp->qpc->path_mtu && reply->psns != psns_of(packet, qp->qpc->path_mtu)) {
		refuse(qp, packet, SIMHCA_SYNDROME_NAK_INVALID, SIMHCA_WC_SUCCESS,
		       SIMHCA_REASON_PATH_MTU_DIFFERS, reply);
		return;
	}
	if (simhca_is_reliable(packet->transport) ? !in_sequence_rc(worker, qp, packet, reply)
						  : !in_sequence_uc(qp, packet))
		return;
	reason = check_length(qp, packet);
	if (__builtin_expect(reason != SIMHCA_REASON_NONE, 0)) {
		refuse(qp, packet, SIMHCA_SYNDROME_NAK_INVALID, SIMHCA_WC_SUCCESS, reason, reply);
		return;
	}
	if (qp->type == SIMHCA_QPT_XRC_RECV && !has_xrc_srq(qp, packet, reply))
		return;
	if (packet->first)
		qp->resp.offset = 0;
	before = place_of(qp);
	/* A read counts as complete when its response begins (9.7.7.1), which tells so. */
	if (packet->op == SIMHCA_PKT_READ)
		advance(qp, packet, reply);
	acknowledge(reply);
	if (!execute(worker, qp, packet, reply)) {
		if (reply->advanced)
			retreat(qp, &before, reply);
		return;
	}
	if (!reply->advanced)
		advance(qp, packet, reply);
	count_request(worker, qp, packet);
}

/*
 * The 40 bytes before a datagram: a GRH (IBTA vol. 1, 8.3), or on RoCE v2 the IP header, which
 * for IPv4 stands in the last 20 of them (annex A17.4.5.2).
 */
static void build_grh(const struct simhca_packet *packet, bool infiniband,
		      uint8_t grh[SIMHCA_GRH_BYTES])
{
	const struct simhca_av *av = packet->av;
	/* BTH, DETH, data, ICRC; and on RoCE v2 the UDP header before them. */
	uint16_t payload = (uint16_t)(12 + 8 + packet->length + 4 + (infiniband ? 0 : 8));
	uint32_t word;

	memset(grh, 0, SIMHCA_GRH_BYTES);
	if (!infiniband && simhca_gid_is_ipv4(&av->dgid)) {
		uint8_t *ip = grh + 20;
		uint16_t half;

		ip[0] = 0x45;
		ip[1] = av->traffic_class;
		half = htons((uint16_t)(20 + payload));
		memcpy(ip + 2, &half, 2);
		ip[6] = 0x40; /* do not fragment */
		ip[8] = av->hop_limit;
		ip[9] = 17; /* UDP */
		memcpy(ip + 12, packet->sgid.raw + 12, 4);
		memcpy(ip + 16, av->dgid.raw + 12, 4);
		half = htons(simhca_checksum_end(simhca_checksum_add(0, ip, 20)));
		memcpy(ip + 10, &half, 2);
		return;
	}
	word = htonl(6u << 28 | (uint32_t)av->traffic_class << 20 | (av->flow_label & 0xfffff));
	memcpy(grh, &word, 4);
	grh[4] = (uint8_t)(payload >> 8);
	grh[5] = (uint8_t)payload;
	grh[6] = infiniband ? 0x1b /* IBA transport */ : 17 /* UDP */;
	grh[7] = av->hop_limit;
	memcpy(grh + 8, packet->sgid.raw, 16);
	memcpy(grh + 24, av->dgid.raw, 16);
}

static void run_datagram(struct simhca_worker *worker, struct simhca_qp *qp,
			 const struct simhca_packet *packet, struct reply *reply)
{
	uint8_t grh[SIMHCA_GRH_BYTES];
	struct simhca_sgl header;
	struct simhca_recv recv;

	if (packet->qkey != qp->qpc->qkey) { /* dropped and counted (IBTA vol. 1, 10.2.5) */
		atomic_fetch_add(&qp->device->mem->port.qkey_viol_cntr, 1);
		return;
	}
	if (!need_recv(worker, qp, packet, reply))
		return;
	qp->resp.offset = 0;
	if (!read_recv(qp, &recv, reply))
		return;
	if (SIMHCA_GRH_BYTES + packet->length > recv.length) {
		refuse(qp, packet, SIMHCA_SYNDROME_NAK_INVALID, SIMHCA_WC_LOC_LEN_ERR,
		       SIMHCA_REASON_RECV_TOO_SHORT, reply);
		return;
	}
	if (packet->av->is_global) {
		build_grh(packet, qp->device->config.infiniband, grh);
		header.count = 1;
		header.seg[0] =
			(struct simhca_seg){ .addr = (uintptr_t)grh, .length = sizeof(grh) };
		if (!place_in_recv(worker, qp, packet, &header, 0, sizeof(grh), reply))
			return;
	}
	if (!place_in_recv(worker, qp, packet, packet->payload, SIMHCA_GRH_BYTES, packet->length,
			   reply))
		return;
	complete_recv(qp, packet, SIMHCA_WC_SUCCESS, SIMHCA_REASON_NONE,
		      SIMHCA_GRH_BYTES + packet->length);
	acknowledge(reply);
}

/* An Ethernet frame, for a RAW_PACKET QP or a WQ. Who has no buffer for it loses it. */
static void run_frame(struct simhca_worker *worker, struct simhca_qp *qp,
		      const struct simhca_packet *packet, struct reply *reply)
{
	uint64_t addr = packet->payload->seg[0].addr, length = packet->length;
	struct simhca_sgl payload;

	if (!need_recv(worker, qp, packet, reply))
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
	if (!place_in_recv(worker, qp, packet, &payload, 0, length, reply))
		return;
	complete_recv(qp, packet, SIMHCA_WC_SUCCESS, SIMHCA_REASON_NONE, length);
	acknowledge(reply);
}

/* Tells the requester what came of its request. */
static struct simhca_handover give(struct simhca_worker *worker, struct simhca_qp *qp,
				   const struct simhca_packet *packet, const struct reply *reply)
{
	struct simhca_packet response;

	if (reply->kind == NOT_TAKEN || reply->kind == SILENCE)
		return reply->handover;
	if (reply->kind == NAK && SIMHCA_SYNDROME_IS_RNR(reply->syndrome))
		simhca_stats_add(worker, qp->device, SIMHCA_STAT_OUT_OF_BUFFER, 1);
	if (!simhca_is_reliable(packet->transport) || (reply->kind == RESPONSE && !packet->ack_req))
		return taken;
	response = (struct simhca_packet){
		.op = SIMHCA_PKT_ACK,
		.psn = packet->psn,
		.first = true,
		.last = true,
		.syndrome = SIMHCA_SYNDROME_ACK,
	};
	if (reply->kind == NAK) {
		response.syndrome = reply->syndrome;
		response.reason = reply->reason;
		if (reply->syndrome == SIMHCA_SYNDROME_NAK_PSN)
			response.psn = qp->resp.epsn;
	} else {
		response.psn = simhca_psn_add(packet->psn, reply->psns - 1);
		if (packet->op == SIMHCA_PKT_COMPARE_SWAP || packet->op == SIMHCA_PKT_FETCH_ADD) {
			response.op = SIMHCA_PKT_ATOMIC_ACK;
			response.atomic_old = reply->atomic_old;
		} else if (packet->op == SIMHCA_PKT_ATOMIC_WRITE ||
			   packet->op == SIMHCA_PKT_FLUSH) {
			response.op = SIMHCA_PKT_READ_RESPONSE;
		}
	}
	respond(worker, qp, packet, &response);
	return taken;
}

struct simhca_handover simhca_responder_run(struct simhca_worker *worker, struct simhca_qp *qp,
					    const struct simhca_packet *packet)
{
	uint32_t state = simhca_qp_state(qp);
	struct reply reply = { .kind = SILENCE, .psns = psns_of(packet, packet->mtu) };

	if (state < SIMHCA_QPS_RTR || state == SIMHCA_QPS_ERR)
		return taken;
	if (packet->transport == SIMHCA_QPT_RAW_PACKET) {
		run_frame(worker, qp, packet, &reply);
		return give(worker, qp, packet, &reply);
	}
	if (state == SIMHCA_QPS_RTR && !qp->resp.comm_est && packet->transport != SIMHCA_QPT_UD) {
		qp->resp.comm_est = true;
		simhca_qp_event(qp, IBV_EVENT_COMM_EST);
	}
	/* Who asks for something else has given up what it still was to get. */
	qp->resp.owed = SIMHCA_OWES_NOTHING;
	if (packet->transport == SIMHCA_QPT_UD)
		run_datagram(worker, qp, packet, &reply);
	else
		run_connected(worker, qp, packet, &reply);
	return give(worker, qp, packet, &reply);
}

struct simhca_handover simhca_responder_continue(struct simhca_worker *worker, struct simhca_qp *qp)
{
	const struct simhca_packet rest = {
		.op = SIMHCA_PKT_READ,
		.transport = qp->type,
		.psn = qp->resp.read.psn,
		.src_qpn = qp->qpc->dest_qpn,
		.xrc_srqn = qp->resp.read.srqn,
		.va = qp->resp.read.va,
		.rkey = qp->resp.read.rkey,
		.dma_length = qp->resp.read.left,
	};
	struct reply reply = { .kind = SILENCE, .repeated = qp->resp.owed == SIMHCA_OWES_REPEATED };
	uint32_t state = simhca_qp_state(qp);

	if (state < SIMHCA_QPS_RTR || state == SIMHCA_QPS_ERR)
		qp->resp.owed = SIMHCA_OWES_NOTHING;
	else if ((qp->type == SIMHCA_QPT_XRC_RECV && !has_xrc_srq(qp, &rest, &reply)) ||
		 (!respond_to_read(worker, qp, &rest, &reply) && reply.kind != NOT_TAKEN))
		qp->resp.owed = SIMHCA_OWES_NOTHING;
	return give(worker, qp, &rest, &reply);
}
