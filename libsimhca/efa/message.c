/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The messages of an EFA device, each from its sender's memory to its receiver's, and how they complete.
 *
 * SRD is a reliable datagram without order: a message whose receiver is not ready waits, and others
 * pass it. UD drops it.
 */
#include <string.h>

#include "core/address.h"
#include "inject/inject.h"
#include "link/tap.h"
#include "memory/key.h"
#include "ends.h"
#include "wire.h"

#define TOO_LONG                                                                                   \
	"the message is longer than the port's max_msg_sz (of RDMA: than max_rdma_size, or than "  \
	"its buffer), or it has too many buffers"

/* -------------------------------------------------------------------------------- messages */

/*
 * The QP that a message is for, and what is wrong if there is none. *gid: where it is; OK without a
 * peer: elsewhere. Inside a guard, not narrowed.
 */
static enum efa_status find_peer(struct efa_qp *qp, struct efa_message *message,
				 struct efa_qp **peer, union simhca_gid *gid)
{
	const struct simhca_device *own = qp->context->device;
	const struct efa_send *send = &message->send;
	struct simhca_device *device;

	*peer = NULL;
	if (!efa_ah_gid(qp->context->efa, send->ah, gid))
		return efa_because(message, EFA_STATUS_INVALID_AH, SIMHCA_REASON_NO_RESPONSE,
				   "the address handle does not exist any more");
	device = efa_device_at(own, gid);
	if (own->config.wire && (!device || own->fabric->wire->ops.always))
		device = NULL;
	else if (!device)
		return efa_because(message, EFA_STATUS_BAD_ADDRESS, SIMHCA_REASON_NO_RESPONSE,
				   "no EFA device of this daemon has the address handle's GID");
	if ((device && !simhca_port_is_active(device)) || !simhca_port_is_active(own))
		return efa_because(message, EFA_STATUS_BAD_ADDRESS, SIMHCA_REASON_NO_RESPONSE,
				   "a port is down: the sender's, or that with the address "
				   "handle's GID");
	if (!device)
		return EFA_STATUS_OK;
	*peer = efa_qp_numbered(device, send->dest_qpn);
	return efa_judge_peer(qp->srd, message, *peer);
}

static bool is_suspended(const struct efa_qp *qp)
{
	return atomic_load_explicit(&qp->context->suspended, memory_order_relaxed);
}

/* Takes a receive of the peer's. False: *outcome is what becomes of the message without one. */
static bool take_recv(struct simhca_worker *worker, struct efa_qp *qp, struct efa_message *message,
		      struct efa_qp *peer, struct efa_recv *recv, enum efa_outcome *outcome)
{
	enum efa_status status = efa_take_recv(peer, message, recv);

	if (status == EFA_STATUS_OK)
		return true;
	*outcome = status == EFA_STATUS_RNR ? efa_not_ready(worker, qp, message, peer)
					    : efa_finish(worker, qp, message, peer, status);
	return false;
}

static struct efa_sender sender_of(const struct efa_qp *qp)
{
	return (struct efa_sender){ .gid = efa_own_gid(qp), .qpn = qp->qpn };
}

static enum efa_outcome carry_message(struct simhca_worker *worker, struct efa_qp *qp,
				      struct efa_message *message, struct efa_qp *peer)
{
	uint8_t *bounce = qp->context->efa->bounce, *data;
	const struct efa_sender sender = sender_of(qp);
	const struct efa_send *send = &message->send;
	uint32_t length = send->length;
	enum efa_status status;
	struct efa_recv recv;
	enum efa_outcome outcome;
	union simhca_gid gid;

	if (!message->checked && !efa_may_send(worker, qp, send))
		return efa_finish(worker, qp, message, NULL, EFA_STATUS_INVALID_LKEY);
	message->checked = true;
	if (qp->srd && !efa_has_recv(peer))
		return efa_not_ready(worker, qp, message, peer);
	status = efa_gather(worker, qp, message, bounce + SIMHCA_GRH_BYTES);
	/* The guard was narrow meanwhile, and did not keep the peer. */
	if (status != EFA_STATUS_OK)
		return efa_finish(worker, qp, message, NULL, status);
	status = find_peer(qp, message, &peer, &gid);
	if (status != EFA_STATUS_OK)
		return efa_finish(worker, qp, message, peer, status);
	if (!peer) /* it has got another address meanwhile */
		return EFA_GOES_ON;
	if (!take_recv(worker, qp, message, peer, &recv, &outcome))
		return outcome;
	data = efa_put_grh(&sender, peer, bounce, &length);
	status = efa_place(worker, qp, message, peer, &recv, data, length);
	if (simhca_tap_is_on(worker->engine->fabric))
		efa_trace_send(worker, qp, message, peer, bounce + SIMHCA_GRH_BYTES, status);
	if (status == EFA_STATUS_OK)
		efa_complete_recv(&sender, peer, send, &recv, length);
	else
		efa_fail_recv(&sender, message, peer, &recv, status);
	return efa_finish(worker, qp, message, peer, status);
}

/*
 * The next `length` bytes of an RDMA operation. The guard is narrow afterwards, unless there are none.
 */
static enum efa_status move_slice(struct simhca_worker *worker, struct efa_qp *qp,
				  struct efa_message *message, struct efa_qp *peer, uint32_t length)
{
	const struct efa_send *send = &message->send;
	const bool writes = send->opcode == EFA_RDMA_WRITE;
	const struct simhca_key_use local = efa_use_of(worker, qp, efa_own_access(send)),
				    remote = efa_use_of(worker, peer, efa_remote_access(send));
	const enum simhca_dma_result remote_fault = writes ? SIMHCA_DMA_TARGET : SIMHCA_DMA_SOURCE;
	struct simhca_sgl here, there;
	enum simhca_dma_result result = SIMHCA_DMA_OK;
	enum efa_status status = EFA_STATUS_OK;
	enum simhca_reason reason;

	here.count = there.count = 0;
	if (!length) {
		if (!send->length && simhca_tap_is_on(worker->engine->fabric))
			efa_trace_rdma(worker, qp, message, peer, NULL, 0);
		return EFA_STATUS_OK;
	}
	if (send->is_inline)
		efa_our_memory(&here, message->send.data, length);
	else if (simhca_translate_sges(&local, send->sge, 1, message->done, length, &here) !=
		 SIMHCA_REASON_NONE)
		status = EFA_STATUS_INVALID_LKEY;
	if (status == EFA_STATUS_OK) {
		reason = simhca_translate(&remote, send->rkey, send->remote_addr + message->done,
					  length, &there);
		if (reason != SIMHCA_REASON_NONE)
			status = efa_because(message, EFA_STATUS_BAD_ADDRESS, reason, NULL);
		else
			result = efa_copy(worker, qp, peer, writes ? &there : &here,
					  writes ? &here : &there, length, &reason);
	}
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
	return result == remote_fault ? efa_peer_fault(message, EFA_STATUS_BAD_ADDRESS, reason)
				      : efa_because(message, EFA_STATUS_INVALID_LKEY, reason, NULL);
}

/* All bytes have been moved. */
static enum efa_outcome end_rdma(struct simhca_worker *worker, struct efa_qp *qp,
				 struct efa_message *message, struct efa_qp *peer)
{
	const struct efa_sender sender = sender_of(qp);
	const struct efa_send *send = &message->send;
	struct efa_recv recv;
	enum efa_outcome outcome;

	if (efa_rdma_takes_recv(send, peer)) {
		if (!take_recv(worker, qp, message, peer, &recv, &outcome))
			return outcome;
		efa_complete_recv(&sender, peer, send, &recv, send->length);
	} else if (send->has_imm) {
		efa_complete_recv(&sender, peer, send, NULL, send->length);
	}
	return efa_finish(worker, qp, message, peer, EFA_STATUS_OK);
}

/* A slice of it. */
static enum efa_outcome carry_rdma(struct simhca_worker *worker, struct efa_qp *qp,
				   struct efa_message *message, struct efa_qp *peer)
{
	const union simhca_gid gid = efa_own_gid(qp);
	uint32_t left = message->send.length - message->done;
	uint32_t length = left < SIMHCA_LINK_SLICE ? left : SIMHCA_LINK_SLICE;
	enum efa_status status = efa_judge_way_back(message, peer, &gid);

	if (status != EFA_STATUS_OK)
		return efa_finish(worker, qp, message, peer, status);
	if (!message->done && efa_rdma_takes_recv(&message->send, peer) && !efa_has_recv(peer))
		return efa_not_ready(worker, qp, message, peer);
	status = move_slice(worker, qp, message, peer, length);
	if (status != EFA_STATUS_OK)
		return efa_finish(worker, qp, message, peer, status);
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
		*outcome = efa_finish(worker, qp, message, peer, EFA_STATUS_OK);
		return true;
	case EFA_INJECTED_NOT_READY:
		*outcome = efa_not_ready(worker, qp, message, peer);
		return true;
	case EFA_INJECTED_FAILURE:
		*outcome = efa_finish(worker, qp, message, peer, message->injected);
		return true;
	}
	return false;
}

enum efa_outcome efa_carry(struct simhca_worker *worker, struct efa_qp *qp,
			   struct efa_message *message, uint64_t now)
{
	enum efa_status status;
	enum efa_outcome outcome;
	union simhca_gid gid;
	struct efa_qp *peer;

	status = find_peer(qp, message, &peer, &gid);
	if (status != EFA_STATUS_OK)
		return efa_finish(worker, qp, message, peer, status);
	if (peer && is_suspended(peer))
		return EFA_WAITS;
	if (simhca_inject_is_on(qp->context->device->fabric) &&
	    injected(worker, qp, message, peer, now, &outcome))
		return outcome;
	if (!peer)
		return efa_wire_begin(worker, qp, message, &gid, now);
	outcome = message->send.opcode == EFA_SEND ? carry_message(worker, qp, message, peer)
						   : carry_rdma(worker, qp, message, peer);
	simhca_guard_widen(&worker->guard);
	return outcome;
}

void efa_refuse(struct simhca_worker *worker, struct efa_qp *qp, struct efa_message *message,
		const struct efa_send_wqe *wqe, enum efa_status status)
{
	const bool bad_opcode = status == EFA_STATUS_INVALID_OP;

	efa_because(message, status,
		    bad_opcode ? SIMHCA_REASON_WQE_BAD_OPCODE : SIMHCA_REASON_MSG_TOO_LONG,
		    bad_opcode ? NULL : TOO_LONG);
	efa_report(worker, qp, NULL, message, status);
	efa_count_sent(worker, qp, message, status);
	efa_complete_send(qp, wqe->req_id, wqe->control, status);
}
