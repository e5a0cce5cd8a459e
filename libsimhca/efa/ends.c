/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The two ends of a message: how it is taken from its sender's memory and completes there, and how its
 * receiver gets it, wherever the sender is.
 */
#include <string.h>

#include "core/lock.h"
#include "ends.h"
#include "wire.h"
#include "memory/key.h"
#include "packet/grh.h"

#define RNR_FOR_EVER 7u

/* ------------------------------------------------------------------------------ completions */

static uint8_t opcode_flags(uint32_t opcode)
{
	return (uint8_t)((opcode & EFA_CQE_OPCODE_MASK) << EFA_CQE_OPCODE_SHIFT);
}

static struct efa_cqe send_cqe(const struct efa_qp *qp, uint16_t req_id, uint32_t opcode,
			       enum efa_status status)
{
	return (struct efa_cqe){ .req_id = req_id,
				 .status = (uint8_t)status,
				 .flags = EFA_CQE_SEND | opcode_flags(opcode),
				 .qpn = (uint16_t)qp->qpn };
}

static struct efa_cqe recv_cqe(const struct efa_qp *qp, uint16_t req_id, enum efa_status status)
{
	return (struct efa_cqe){ .req_id = req_id,
				 .status = (uint8_t)status,
				 .flags = EFA_CQE_RECV,
				 .qpn = (uint16_t)qp->qpn,
				 .ah = EFA_NO_AH };
}

void efa_complete_send(struct efa_qp *qp, uint16_t req_id, uint32_t opcode, enum efa_status status)
{
	struct efa_cqe cqe = send_cqe(qp, req_id, opcode, status);

	efa_complete(qp->send_cq, qp->send_sub, &cqe);
}

/* ------------------------------------------------------------------------ the ends of a QP */

enum claim { CLAIMED, EMPTY, BROKEN };

/* The oldest receive is the caller's. */
static enum claim claim(struct efa_qp *qp, struct efa_recv *recv)
{
	enum claim claimed = EMPTY;
	uint32_t posted, count;

	pthread_mutex_lock(&qp->rq_lock);
	if (!qp->rq_entries) {
		posted = 0;
	} else if (!efa_posted(qp->rq_doorbell, (uint16_t)qp->rq_ci, qp->rq_entries, &posted)) {
		posted = 0;
		claimed = BROKEN;
	}
	if (posted) {
		count = efa_judge_recv(qp->rq, qp->rq_entries, qp->rq_ci, posted, recv);
		qp->rq_ci += count;
		claimed = count ? CLAIMED : BROKEN;
	}
	pthread_mutex_unlock(&qp->rq_lock);
	return claimed;
}

uint32_t efa_recvs(struct efa_qp *qp, bool *any_yet)
{
	uint32_t posted = 0;

	pthread_mutex_lock(&qp->rq_lock);
	if (qp->rq_entries &&
	    !efa_posted(qp->rq_doorbell, (uint16_t)qp->rq_ci, qp->rq_entries, &posted))
		posted = qp->rq_entries; /* as the message will find that takes one */
	*any_yet = posted || qp->rq_ci;
	pthread_mutex_unlock(&qp->rq_lock);
	return posted;
}

bool efa_has_recv(struct efa_qp *qp)
{
	bool any_yet;

	return efa_recvs(qp, &any_yet);
}

void efa_fail(struct efa_qp *qp)
{
	if (atomic_exchange(&qp->state, SIMHCA_QPS_ERR) != SIMHCA_QPS_ERR)
		simhca_log(qp->context->device->fabric, SIMHCA_LOG_WARNING,
			   "EFA QP %u of context %u: its rings make no sense; it is in ERR now",
			   qp->qpn, qp->context->id);
}

static void flush_send(struct efa_qp *qp, uint16_t req_id, uint32_t opcode)
{
	struct efa_cqe cqe = send_cqe(qp, req_id, opcode, EFA_STATUS_FLUSHED);

	efa_put_cqe(qp->send_cq, qp->send_sub, &cqe);
}

/* One event tells of all of it: a program could arm for each CQE anew, and each is a system call. */
void efa_flush(struct efa_qp *qp)
{
	struct efa_send_wqe wqe;
	struct efa_recv recv;
	struct efa_cqe cqe;
	uint32_t posted = 0;

	for (uint32_t i = 0; i < qp->count; i++)
		flush_send(qp, qp->messages[i].send.req_id, qp->messages[i].send.opcode);
	qp->count = qp->waiting = 0;
	qp->late_ns = 0;
	while (qp->flights) {
		flush_send(qp, qp->flights->message.send.req_id, qp->flights->message.send.opcode);
		efa_flight_free(qp, qp->flights);
	}
	efa_show(qp);
	if (qp->sq_entries && efa_posted(qp->sq_doorbell, qp->sq_ci, qp->sq_entries, &posted))
		for (; posted; posted--) {
			efa_read_once(&wqe, efa_send_at(qp, qp->sq_ci++), sizeof(wqe));
			flush_send(qp, wqe.req_id, wqe.control);
		}
	/* So many at most as the ring holds: the program can go on posting meanwhile. */
	for (uint32_t i = 0; i < qp->rq_entries && claim(qp, &recv) == CLAIMED; i++) {
		cqe = recv_cqe(qp, recv.req_id, EFA_STATUS_FLUSHED);
		efa_put_cqe(qp->recv_cq, qp->recv_sub, &cqe);
	}
	efa_cq_look(qp->send_cq);
	efa_cq_look(qp->recv_cq);
}

/* ------------------------------------------------------------------------------- the sender */

enum efa_outcome efa_finish(struct simhca_worker *worker, struct efa_qp *qp,
			    const struct efa_message *message, struct efa_qp *peer,
			    enum efa_status status)
{
	const struct efa_send *send = &message->send;

	efa_report(worker, qp, peer, message, status);
	efa_count_sent(worker, qp, message, status);
	/* What is sent by UD is gone; what becomes of it nobody tells. */
	efa_complete_send(qp, send->req_id, send->opcode,
			  !qp->srd && status >= EFA_STATUS_BAD_ADDRESS ? EFA_STATUS_OK : status);
	return EFA_DONE;
}

enum simhca_dma_result efa_copy(struct simhca_worker *worker, const struct efa_qp *qp,
				const struct efa_qp *other, const struct simhca_sgl *target,
				const struct simhca_sgl *source, uint64_t length,
				enum simhca_reason *reason)
{
	simhca_guard_narrow(&worker->guard, qp->context->id, other->context->id);
	return simhca_dma_copy(target, source, length, &worker->mover, reason);
}

bool efa_may_send(struct simhca_worker *worker, struct efa_qp *qp, const struct efa_send *send)
{
	const struct simhca_key_use use = efa_use_of(worker, qp, 0);
	bool may = true;

	for (uint32_t i = 0; i < send->num_sge && may; i++)
		may = simhca_translate(&use, send->sge[i].lkey, send->sge[i].addr,
				       send->sge[i].length, NULL) == SIMHCA_REASON_NONE;
	simhca_key_release(worker, 0);
	return may;
}

static enum efa_status gather(struct simhca_worker *worker, struct efa_qp *qp,
			      struct efa_message *message, uint8_t *bounce)
{
	const struct efa_send *send = &message->send;
	const struct simhca_key_use use = efa_use_of(worker, qp, 0);
	struct simhca_sgl from, to;
	enum simhca_reason reason;
	bool copied;

	from.count = 0;
	if (send->is_inline)
		memcpy(bounce, send->data, send->length);
	if (send->is_inline || !send->length)
		return EFA_STATUS_OK;
	if (simhca_translate_sges(&use, send->sge, send->num_sge, 0, send->length, &from) !=
	    SIMHCA_REASON_NONE) {
		simhca_key_release(worker, 0);
		return EFA_STATUS_INVALID_LKEY;
	}
	efa_our_memory(&to, bounce, send->length);
	copied = efa_copy(worker, qp, qp, &to, &from, send->length, &reason) == SIMHCA_DMA_OK;
	simhca_key_release(worker, 0);
	simhca_guard_widen(&worker->guard);
	return copied ? EFA_STATUS_OK : efa_because(message, EFA_STATUS_INVALID_LKEY, reason, NULL);
}

enum efa_status efa_gather(struct simhca_worker *worker, struct efa_qp *qp,
			   struct efa_message *message, uint8_t *bounce)
{
	enum efa_status status = gather(worker, qp, message, bounce);

	if (status == EFA_STATUS_OK && message->corrupt && message->send.length)
		bounce[message->corrupt_at % message->send.length] ^= 1;
	return status;
}

enum efa_outcome efa_not_ready(struct simhca_worker *worker, struct efa_qp *qp,
			       struct efa_message *message, struct efa_qp *peer)
{
	uint32_t most = atomic_load(&qp->rnr_retry);

	efa_count_not_ready(qp, peer);
	if (qp->srd && (most == RNR_FOR_EVER || message->retries++ < most))
		return EFA_WAITS;
	message->reason = SIMHCA_REASON_PEER_NOT_READY;
	return efa_finish(worker, qp, message, peer, EFA_STATUS_RNR);
}

/* ----------------------------------------------------------------------------- the receiver */

enum efa_status efa_judge_peer(bool srd, struct efa_message *message, const struct efa_qp *peer)
{
	if (!peer)
		return efa_because(
			message, EFA_STATUS_BAD_DEST_QPN, SIMHCA_REASON_NO_RESPONSE,
			"the port that the address handle leads to has no QP of this number");
	if (peer->srd != srd)
		return efa_because(
			message, EFA_STATUS_BAD_DEST_QPN, SIMHCA_REASON_NO_RESPONSE,
			"the QP that it is for is of another type: SRD and UD do not meet");
	if (atomic_load(&peer->qkey) != message->send.qkey)
		return efa_because(message, EFA_STATUS_BAD_DEST_QPN, SIMHCA_REASON_QKEY_MISMATCH,
				   NULL);
	switch (atomic_load(&peer->state)) {
	case SIMHCA_QPS_RTR:
	case SIMHCA_QPS_RTS:
		return EFA_STATUS_OK;
	}
	return efa_because(message, EFA_STATUS_BAD_DEST_QPN, SIMHCA_REASON_NO_RESPONSE,
			   "the QP that it is for is in none of the states RTR and RTS");
}

enum efa_status efa_judge_way_back(struct efa_message *message, const struct efa_qp *peer,
				   const union simhca_gid *sender)
{
	if (efa_ah_of(peer->context->efa, sender) != EFA_NO_AH)
		return EFA_STATUS_OK;
	return efa_because(message, EFA_STATUS_UNKNOWN_PEER, SIMHCA_REASON_NO_RESPONSE,
			   EFA_NO_WAY_BACK);
}

enum efa_status efa_take_recv(struct efa_qp *peer, struct efa_message *message,
			      struct efa_recv *recv)
{
	switch (claim(peer, recv)) {
	case CLAIMED:
		return EFA_STATUS_OK;
	case EMPTY:
		return EFA_STATUS_RNR;
	case BROKEN:
		break;
	}
	/* The message that finds the receiver's ring so is told that there is no such QP. */
	efa_fail(peer);
	return efa_because(message, EFA_STATUS_BAD_DEST_QPN, SIMHCA_REASON_RING_CORRUPT,
			   "the ring of receives of the QP that it is for makes no sense");
}

enum efa_status efa_place(struct simhca_worker *worker, const struct efa_qp *other,
			  struct efa_message *message, struct efa_qp *peer,
			  const struct efa_recv *recv, uint8_t *data, uint32_t length)
{
	const struct simhca_key_use use = efa_use_of(worker, peer, SIMHCA_ACCESS_LOCAL_WRITE);
	struct simhca_sgl from, to;
	enum simhca_reason reason = SIMHCA_REASON_NONE;
	bool copied;

	to.count = 0;
	if (length > recv->length)
		return efa_because(message, EFA_STATUS_REMOTE_LENGTH, SIMHCA_REASON_RECV_TOO_SHORT,
				   NULL);
	if (length)
		reason = simhca_translate_sges(&use, recv->sge, recv->num_sge, 0, length, &to);
	efa_our_memory(&from, data, length);
	copied = reason == SIMHCA_REASON_NONE &&
		 (!length ||
		  efa_copy(worker, other, peer, &to, &from, length, &reason) == SIMHCA_DMA_OK);
	simhca_key_release(worker, 0);
	return copied ? EFA_STATUS_OK : efa_peer_fault(message, EFA_STATUS_BAD_STATUS, reason);
}

uint8_t *efa_put_grh(const struct efa_sender *sender, const struct efa_qp *peer, uint8_t *bounce,
		     uint32_t *length)
{
	struct simhca_av av = { .dgid = efa_own_gid(peer), .is_global = 1, .hop_limit = 255 };

	if (peer->srd)
		return bounce + SIMHCA_GRH_BYTES;
	simhca_grh_build(&av, &sender->gid, *length, true, bounce);
	*length += SIMHCA_GRH_BYTES;
	return bounce;
}

void efa_complete_recv(const struct efa_sender *sender, struct efa_qp *peer,
		       const struct efa_send *send, const struct efa_recv *recv, uint32_t length)
{
	struct efa_cqe cqe = {
		.req_id = recv ? recv->req_id : 0,
		.flags = EFA_CQE_RECV | opcode_flags(send->opcode) |
			 (send->has_imm ? EFA_CQE_HAS_IMM : 0) | (recv ? 0 : EFA_CQE_UNSOLICITED),
		.qpn = (uint16_t)peer->qpn,
		.length = (uint16_t)length,
		.ah = efa_ah_of(peer->context->efa, &sender->gid),
		.src_qpn = (uint16_t)sender->qpn,
		.imm = send->imm,
	};

	if (send->opcode == EFA_RDMA_WRITE)
		cqe.length_high = (uint16_t)(length >> 16);
	else
		memcpy(cqe.src_gid, sender->gid.raw, sizeof(cqe.src_gid));
	if (recv)
		efa_count_received(peer, send->length);
	efa_complete(peer->recv_cq, peer->recv_sub, &cqe);
}

void efa_fail_recv(const struct efa_sender *sender, const struct efa_message *message,
		   struct efa_qp *peer, const struct efa_recv *recv, enum efa_status status)
{
	enum efa_status own = status == EFA_STATUS_REMOTE_LENGTH ? EFA_STATUS_LOCAL_LENGTH
								 : EFA_STATUS_INVALID_LKEY;
	struct efa_cqe cqe = recv_cqe(peer, recv->req_id, own);

	if (status == EFA_STATUS_BAD_DEST_QPN) /* its program has ended */
		return;

	efa_report_recv(peer, (uint32_t)sender->qpn, own, message->reason);
	efa_complete(peer->recv_cq, peer->recv_sub, &cqe);
}
