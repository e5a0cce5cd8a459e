/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The messages of an EFA device, each from its sender's memory to its receiver's, and how they complete.
 *
 * SRD is a reliable datagram without order: a message whose receiver is not ready waits, and others
 * pass it. UD drops it.
 */
#include <infiniband/verbs.h>
#include <string.h>

#include "core/address.h"
#include "core/av.h"
#include "core/gids.h"
#include "core/lock.h"
#include "inject/inject.h"
#include "link/tap.h"
#include "memory/key.h"
#include "objects.h"
#include "packet/grh.h"

#define RNR_FOR_EVER 7u
#define TOO_LONG                                                                                   \
	"the message is longer than EFA's MTU of 8928 bytes (of RDMA: than 1 GiB, or than its "    \
	"buffer), or it has too many buffers"

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

static void complete_send(struct efa_qp *qp, uint16_t req_id, uint32_t opcode,
			  enum efa_status status)
{
	struct efa_cqe cqe = send_cqe(qp, req_id, opcode, status);

	efa_complete(qp->send_cq, &cqe);
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

/* Whether a message may find a receive. */
static bool has_recv(struct efa_qp *qp)
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

	efa_put_cqe(qp->send_cq, &cqe);
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
	efa_show(qp);
	if (qp->sq_entries && efa_posted(qp->sq_doorbell, qp->sq_ci, qp->sq_entries, &posted))
		for (; posted; posted--) {
			efa_read_once(&wqe, &qp->sq[qp->sq_ci++ & (qp->sq_entries - 1)],
				      sizeof(wqe));
			flush_send(qp, wqe.req_id, wqe.control);
		}
	/* So many at most as the ring holds: the program can go on posting meanwhile. */
	for (uint32_t i = 0; i < qp->rq_entries && claim(qp, &recv) == CLAIMED; i++) {
		cqe = recv_cqe(qp, recv.req_id, EFA_STATUS_FLUSHED);
		efa_put_cqe(qp->recv_cq, &cqe);
	}
	efa_cq_look(qp->send_cq);
	efa_cq_look(qp->recv_cq);
}

/* -------------------------------------------------------------------------------- messages */

/* A message fails, or not: remembers why. */
static enum efa_status because(struct efa_message *message, enum efa_status status,
			       enum simhca_reason reason, const char *why)
{
	message->reason = reason;
	message->why = why;
	return status;
}

/* peer NULL: it has none, or that is not the point. */
static enum efa_outcome finish(struct simhca_worker *worker, struct efa_qp *qp,
			       const struct efa_message *message, struct efa_qp *peer,
			       enum efa_status status)
{
	const struct efa_send *send = &message->send;

	efa_report(worker, qp, peer, message, status);
	efa_count_sent(worker, qp, message, status);
	/* What is sent by UD is gone; what becomes of it nobody tells. */
	complete_send(qp, send->req_id, send->opcode,
		      !qp->srd && status >= EFA_STATUS_BAD_ADDRESS ? EFA_STATUS_OK : status);
	return EFA_DONE;
}

static union simhca_gid own_gid(const struct efa_qp *qp)
{
	return simhca_gids_get(&qp->context->device->gids, 0);
}

/* What is wrong with the QP that a message has found. */
static enum efa_status judge_peer(const struct efa_qp *qp, struct efa_message *message,
				  const struct efa_qp *peer)
{
	if (!peer)
		return because(
			message, EFA_STATUS_BAD_DEST_QPN, SIMHCA_REASON_NO_RESPONSE,
			"the port that the address handle leads to has no QP of this number");
	if (peer->srd != qp->srd)
		return because(message, EFA_STATUS_BAD_DEST_QPN, SIMHCA_REASON_NO_RESPONSE,
			       "the QP that it is for is of another type: SRD and UD do not meet");
	if (atomic_load(&peer->qkey) != message->send.qkey)
		return because(message, EFA_STATUS_BAD_DEST_QPN, SIMHCA_REASON_QKEY_MISMATCH, NULL);
	switch (atomic_load(&peer->state)) {
	case SIMHCA_QPS_RTR:
	case SIMHCA_QPS_RTS:
		return EFA_STATUS_OK;
	}
	return because(message, EFA_STATUS_BAD_DEST_QPN, SIMHCA_REASON_NO_RESPONSE,
		       "the QP that it is for is in none of the states RTR and RTS");
}

/* The QP that a message is for, and what is wrong if there is none. Inside a guard, not narrowed. */
static enum efa_status find_peer(struct efa_qp *qp, struct efa_message *message,
				 struct efa_qp **peer)
{
	const struct efa_send *send = &message->send;
	struct simhca_device *device;
	union simhca_gid gid;

	*peer = NULL;
	if (!efa_ah_gid(qp->context->efa, send->ah, &gid))
		return because(message, EFA_STATUS_INVALID_AH, SIMHCA_REASON_NO_RESPONSE,
			       "the address handle does not exist any more");
	for (device = qp->context->device->fabric->devices; device; device = device->next)
		if (device->efa_qps && simhca_gids_have(&device->gids, &gid))
			break;
	if (!device)
		return because(message, EFA_STATUS_BAD_ADDRESS, SIMHCA_REASON_NO_RESPONSE,
			       "no EFA device of this daemon has the address handle's GID");
	if (!simhca_port_is_active(device) || !simhca_port_is_active(qp->context->device))
		return because(message, EFA_STATUS_BAD_ADDRESS, SIMHCA_REASON_NO_RESPONSE,
			       "a port is down: the sender's, or that with the address handle's "
			       "GID");
	*peer = send->dest_qpn && send->dest_qpn <= device->config.max_qp
			? atomic_load(&device->efa_qps[send->dest_qpn - 1])
			: NULL;
	return judge_peer(qp, message, *peer);
}

/* Again later, or an error. */
static enum efa_outcome not_ready(struct simhca_worker *worker, struct efa_qp *qp,
				  struct efa_message *message, struct efa_qp *peer)
{
	uint32_t most = atomic_load(&qp->rnr_retry);

	efa_count_not_ready(qp, peer);
	if (qp->srd && (most == RNR_FOR_EVER || message->retries++ < most))
		return EFA_WAITS;
	message->reason = SIMHCA_REASON_PEER_NOT_READY;
	return finish(worker, qp, message, peer, EFA_STATUS_RNR);
}

static bool is_suspended(const struct efa_qp *qp)
{
	return atomic_load_explicit(&qp->context->suspended, memory_order_relaxed);
}

/* Copies to or from one program's memory; the guard keeps what is of these two alone. */
static enum simhca_dma_result copy(struct simhca_worker *worker, const struct efa_qp *qp,
				   const struct efa_qp *other, const struct simhca_sgl *target,
				   const struct simhca_sgl *source, uint64_t length,
				   enum simhca_reason *reason)
{
	simhca_guard_narrow(&worker->guard, qp->context->id, other->context->id);
	return simhca_dma_copy(target, source, length, &worker->mover, reason);
}

static void our_memory(struct simhca_sgl *sgl, void *data, uint32_t length)
{
	sgl->count = 1;
	sgl->seg[0] = (struct simhca_seg){ .addr = (uintptr_t)data, .length = length };
}

static struct simhca_key_use use_of(struct simhca_worker *worker, const struct efa_qp *qp,
				    uint32_t access)
{
	return (struct simhca_key_use){
		.worker = worker,
		.device = qp->context->device,
		.pd = qp->pd->number,
		.qpn = qp->qpn,
		.access = access,
		.remote = access & (SIMHCA_ACCESS_REMOTE_READ | SIMHCA_ACCESS_REMOTE_WRITE),
	};
}

/* So that what is wrong with the sender's buffers shows, whether the receiver is ready or not. */
static bool may_send(struct simhca_worker *worker, struct efa_qp *qp, const struct efa_send *send)
{
	const struct simhca_key_use use = use_of(worker, qp, 0);
	bool may = true;

	for (uint32_t i = 0; i < send->num_sge && may; i++)
		may = simhca_translate(&use, send->sge[i].lkey, send->sge[i].addr,
				       send->sge[i].length, NULL) == SIMHCA_REASON_NONE;
	simhca_key_release(worker, 0);
	return may;
}

/* From the sender's memory to the bounce buffer: what goes wrong there is the sender's alone. */
static enum efa_status gather(struct simhca_worker *worker, struct efa_qp *qp,
			      struct efa_message *message, uint8_t *bounce)
{
	const struct efa_send *send = &message->send;
	const struct simhca_key_use use = use_of(worker, qp, 0);
	struct simhca_sgl from = { .count = 0 }, to;
	enum simhca_reason reason;
	bool copied;

	if (send->is_inline)
		memcpy(bounce, send->data, send->length);
	if (send->is_inline || !send->length)
		return EFA_STATUS_OK;
	if (simhca_translate_sges(&use, send->sge, send->num_sge, 0, send->length, &from) !=
	    SIMHCA_REASON_NONE) {
		simhca_key_release(worker, 0);
		return EFA_STATUS_INVALID_LKEY;
	}
	our_memory(&to, bounce, send->length);
	copied = copy(worker, qp, qp, &to, &from, send->length, &reason) == SIMHCA_DMA_OK;
	simhca_key_release(worker, 0);
	simhca_guard_widen(&worker->guard);
	return copied ? EFA_STATUS_OK : because(message, EFA_STATUS_INVALID_LKEY, reason, NULL);
}

/* To the receiver's memory. The guard is narrow afterwards. */
static enum efa_status place(struct simhca_worker *worker, struct efa_qp *qp,
			     struct efa_message *message, struct efa_qp *peer,
			     const struct efa_recv *recv, uint8_t *data, uint32_t length)
{
	const struct simhca_key_use use = use_of(worker, peer, SIMHCA_ACCESS_LOCAL_WRITE);
	struct simhca_sgl from, to = { .count = 0 };
	enum simhca_reason reason = SIMHCA_REASON_NONE;
	bool copied;

	if (length > recv->length)
		return because(message, EFA_STATUS_REMOTE_LENGTH, SIMHCA_REASON_RECV_TOO_SHORT,
			       NULL);
	if (length)
		reason = simhca_translate_sges(&use, recv->sge, recv->num_sge, 0, length, &to);
	our_memory(&from, data, length);
	copied = reason == SIMHCA_REASON_NONE &&
		 (!length || copy(worker, qp, peer, &to, &from, length, &reason) == SIMHCA_DMA_OK);
	simhca_key_release(worker, 0);
	return copied ? EFA_STATUS_OK : because(message, EFA_STATUS_BAD_STATUS, reason, NULL);
}

/* What comes in at a UD QP has a GRH before it. Returns where it begins. */
static uint8_t *put_grh(const struct efa_qp *qp, const struct efa_qp *peer, uint8_t *bounce,
			uint32_t *length)
{
	union simhca_gid gid = own_gid(qp);
	struct simhca_av av = { .dgid = own_gid(peer), .is_global = 1, .hop_limit = 255 };

	if (qp->srd)
		return bounce + SIMHCA_GRH_BYTES;
	simhca_grh_build(&av, &gid, *length, true, bounce);
	*length += SIMHCA_GRH_BYTES;
	return bounce;
}

/* recv NULL: it took none. */
static void complete_message(struct efa_qp *qp, struct efa_qp *peer, const struct efa_send *send,
			     const struct efa_recv *recv, uint32_t length)
{
	union simhca_gid gid = own_gid(qp);
	struct efa_cqe cqe = {
		.req_id = recv ? recv->req_id : 0,
		.flags = EFA_CQE_RECV | opcode_flags(send->opcode) |
			 (send->has_imm ? EFA_CQE_HAS_IMM : 0) | (recv ? 0 : EFA_CQE_UNSOLICITED),
		.qpn = (uint16_t)peer->qpn,
		.length = (uint16_t)length,
		.ah = efa_ah_of(peer->context->efa, &gid),
		.src_qpn = (uint16_t)qp->qpn,
		.imm = send->imm,
	};

	if (send->opcode == EFA_RDMA_WRITE)
		cqe.length_high = (uint16_t)(length >> 16);
	else
		memcpy(cqe.src_gid, gid.raw, sizeof(cqe.src_gid));
	if (recv)
		efa_count_received(peer, send->length);
	efa_complete(peer->recv_cq, &cqe);
}

/* The message that finds the receiver's ring so is told that there is no such QP. */
static enum efa_outcome broken(struct simhca_worker *worker, struct efa_qp *qp,
			       struct efa_message *message, struct efa_qp *peer)
{
	efa_fail(peer);
	return finish(worker, qp, message, peer,
		      because(message, EFA_STATUS_BAD_DEST_QPN, SIMHCA_REASON_RING_CORRUPT,
			      "the ring of receives of the QP that it is for makes no sense"));
}

/* Takes a receive of the peer's. False: *outcome is what becomes of the message without one. */
static bool take_recv(struct simhca_worker *worker, struct efa_qp *qp, struct efa_message *message,
		      struct efa_qp *peer, struct efa_recv *recv, enum efa_outcome *outcome)
{
	switch (claim(peer, recv)) {
	case CLAIMED:
		return true;
	case EMPTY:
		*outcome = not_ready(worker, qp, message, peer);
		break;
	case BROKEN:
		*outcome = broken(worker, qp, message, peer);
		break;
	}
	return false;
}

static void fail_recv(const struct efa_qp *qp, const struct efa_message *message,
		      struct efa_qp *peer, const struct efa_recv *recv, enum efa_status status)
{
	enum efa_status own = status == EFA_STATUS_REMOTE_LENGTH ? EFA_STATUS_LOCAL_LENGTH
								 : EFA_STATUS_INVALID_LKEY;

	struct efa_cqe cqe = recv_cqe(peer, recv->req_id, own);

	efa_report_recv(peer, qp, recv->req_id, own, message->reason);
	efa_complete(peer->recv_cq, &cqe);
}

static enum efa_outcome carry_message(struct simhca_worker *worker, struct efa_qp *qp,
				      struct efa_message *message, struct efa_qp *peer)
{
	uint8_t *bounce = qp->context->efa->bounce, *data;
	const struct efa_send *send = &message->send;
	uint32_t length = send->length;
	enum efa_status status;
	struct efa_recv recv;
	enum efa_outcome outcome;

	if (!message->checked && !may_send(worker, qp, send))
		return finish(worker, qp, message, NULL, EFA_STATUS_INVALID_LKEY);
	message->checked = true;
	if (qp->srd && !has_recv(peer))
		return not_ready(worker, qp, message, peer);
	status = gather(worker, qp, message, bounce + SIMHCA_GRH_BYTES);
	/* The guard was narrow meanwhile, and did not keep the peer. */
	if (status != EFA_STATUS_OK)
		return finish(worker, qp, message, NULL, status);
	status = find_peer(qp, message, &peer);
	if (status != EFA_STATUS_OK)
		return finish(worker, qp, message, peer, status);
	if (!take_recv(worker, qp, message, peer, &recv, &outcome))
		return outcome;
	if (message->corrupt && length)
		bounce[SIMHCA_GRH_BYTES + message->corrupt_at % length] ^= 1;
	data = put_grh(qp, peer, bounce, &length);
	status = place(worker, qp, message, peer, &recv, data, length);
	if (simhca_tap_is_on(worker->engine->fabric))
		efa_trace_send(worker, qp, message, peer, bounce + SIMHCA_GRH_BYTES, status);
	if (status == EFA_STATUS_OK)
		complete_message(qp, peer, send, &recv, length);
	else
		fail_recv(qp, message, peer, &recv, status);
	return finish(worker, qp, message, peer, status);
}

/*
 * The next `length` bytes of an RDMA operation. The guard is narrow afterwards, unless there are none.
 */
static enum efa_status move_slice(struct simhca_worker *worker, struct efa_qp *qp,
				  struct efa_message *message, struct efa_qp *peer, uint32_t length)
{
	const struct efa_send *send = &message->send;
	const bool writes = send->opcode == EFA_RDMA_WRITE;
	const struct simhca_key_use local = use_of(worker, qp,
						   writes ? 0 : SIMHCA_ACCESS_LOCAL_WRITE),
				    remote = use_of(worker, peer,
						    writes ? SIMHCA_ACCESS_REMOTE_WRITE
							   : SIMHCA_ACCESS_REMOTE_READ);
	const enum simhca_dma_result remote_fault = writes ? SIMHCA_DMA_TARGET : SIMHCA_DMA_SOURCE;
	struct simhca_sgl here = { .count = 0 }, there = { .count = 0 };
	enum simhca_dma_result result = SIMHCA_DMA_OK;
	enum efa_status status = EFA_STATUS_OK;
	enum simhca_reason reason;

	if (!length) {
		if (!send->length && simhca_tap_is_on(worker->engine->fabric))
			efa_trace_rdma(worker, qp, message, peer, NULL, 0);
		return EFA_STATUS_OK;
	}
	if (simhca_translate_sges(&local, send->sge, 1, message->done, length, &here) !=
	    SIMHCA_REASON_NONE)
		status = EFA_STATUS_INVALID_LKEY;
	else if ((reason = simhca_translate(&remote, send->rkey, send->remote_addr + message->done,
					    length, &there)))
		status = because(message, EFA_STATUS_BAD_ADDRESS, reason, NULL);
	else
		result = copy(worker, qp, peer, writes ? &there : &here, writes ? &here : &there,
			      length, &reason);
	/* What is wrong with its own memory shows in no packet. */
	if (simhca_tap_is_on(worker->engine->fabric)) {
		if (status == EFA_STATUS_BAD_ADDRESS || result == remote_fault)
			efa_trace_refusal(worker, qp, message, peer);
		else if (status == EFA_STATUS_OK && result == SIMHCA_DMA_OK)
			efa_trace_rdma(worker, qp, message, peer, writes ? &here : &there, length);
	}
	simhca_key_release(worker, 0);
	if (result == SIMHCA_DMA_OK)
		return status;
	return because(message,
		       result == remote_fault ? EFA_STATUS_BAD_ADDRESS : EFA_STATUS_INVALID_LKEY,
		       reason, NULL);
}

/* Whether there will be a receive for what comes at the end of the operation. */
static bool takes_recv(const struct efa_send *send, const struct efa_qp *peer)
{
	return send->has_imm && !peer->unsolicited;
}

/* All bytes have been moved. */
static enum efa_outcome end_rdma(struct simhca_worker *worker, struct efa_qp *qp,
				 struct efa_message *message, struct efa_qp *peer)
{
	const struct efa_send *send = &message->send;
	struct efa_recv recv;
	enum efa_outcome outcome;

	if (takes_recv(send, peer)) {
		if (!take_recv(worker, qp, message, peer, &recv, &outcome))
			return outcome;
		complete_message(qp, peer, send, &recv, send->length);
	} else if (send->has_imm) {
		complete_message(qp, peer, send, NULL, send->length);
	}
	return finish(worker, qp, message, peer, EFA_STATUS_OK);
}

/* A slice of it. */
static enum efa_outcome carry_rdma(struct simhca_worker *worker, struct efa_qp *qp,
				   struct efa_message *message, struct efa_qp *peer)
{
	const union simhca_gid gid = own_gid(qp);
	uint32_t left = message->send.length - message->done;
	uint32_t length = left < SIMHCA_LINK_SLICE ? left : SIMHCA_LINK_SLICE;
	enum efa_status status;

	if (efa_ah_of(peer->context->efa, &gid) == EFA_NO_AH)
		return finish(worker, qp, message, peer,
			      because(message, EFA_STATUS_UNKNOWN_PEER, SIMHCA_REASON_NO_RESPONSE,
				      "the other program has no address handle that leads back, "
				      "without which EFA carries no RDMA"));
	if (!message->done && takes_recv(&message->send, peer) && !has_recv(peer))
		return not_ready(worker, qp, message, peer);
	status = move_slice(worker, qp, message, peer, length);
	if (status != EFA_STATUS_OK)
		return finish(worker, qp, message, peer, status);
	message->done += length;
	return message->done < message->send.length ? EFA_GOES_ON
						    : end_rdma(worker, qp, message, peer);
}

/* What rules of faults have for a message; false: nothing. */
static bool injected(struct simhca_worker *worker, struct efa_qp *qp, struct efa_message *message,
		     struct efa_qp *peer, uint64_t now, enum efa_outcome *outcome)
{
	enum efa_injection injection = efa_injected_send(qp, message, now);

	if (injection == EFA_INJECTED_NOTHING && !message->done)
		injection = efa_injected_arrival(qp, message);
	switch (injection) {
	case EFA_INJECTED_NOTHING:
		return false;
	case EFA_INJECTED_DELAY:
		*outcome = EFA_GOES_ON;
		return true;
	case EFA_INJECTED_LOSS:
		*outcome = finish(worker, qp, message, peer, EFA_STATUS_OK);
		return true;
	case EFA_INJECTED_NOT_READY:
		*outcome = not_ready(worker, qp, message, peer);
		return true;
	case EFA_INJECTED_FAILURE:
		*outcome = finish(worker, qp, message, peer, message->injected);
		return true;
	}
	return false;
}

enum efa_outcome efa_carry(struct simhca_worker *worker, struct efa_qp *qp,
			   struct efa_message *message, uint64_t now)
{
	enum efa_status status;
	enum efa_outcome outcome;
	struct efa_qp *peer;

	status = find_peer(qp, message, &peer);
	if (status != EFA_STATUS_OK)
		return finish(worker, qp, message, peer, status);
	if (is_suspended(peer))
		return EFA_WAITS;
	if (simhca_inject_is_on(qp->context->device->fabric) &&
	    injected(worker, qp, message, peer, now, &outcome))
		return outcome;
	outcome = message->send.opcode == EFA_SEND ? carry_message(worker, qp, message, peer)
						   : carry_rdma(worker, qp, message, peer);
	simhca_guard_widen(&worker->guard);
	return outcome;
}

void efa_refuse(struct simhca_worker *worker, struct efa_qp *qp, struct efa_message *message,
		const struct efa_send_wqe *wqe, enum efa_status status)
{
	const bool bad_opcode = status == EFA_STATUS_INVALID_OP;

	because(message, status,
		bad_opcode ? SIMHCA_REASON_WQE_BAD_OPCODE : SIMHCA_REASON_MSG_TOO_LONG,
		bad_opcode ? NULL : TOO_LONG);
	efa_report(worker, qp, NULL, message, status);
	efa_count_sent(worker, qp, message, status);
	complete_send(qp, wqe->req_id, wqe->control, status);
}
