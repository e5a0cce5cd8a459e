/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The two ends of a message: how it is taken from its sender's memory and completes there, and how its
 * receiver gets it, wherever the sender is. Under the work lock of who carries it, inside a guard.
 */
#ifndef LIBSIMHCA_EFA_ENDS_H
#define LIBSIMHCA_EFA_ENDS_H

#include "core/gids.h"
#include "memory/key.h"
#include "objects.h"

/* A message fails, or not: remembers why. */
static inline enum efa_status efa_because(struct efa_message *message, enum efa_status status,
					  enum simhca_reason reason, const char *why)
{
	message->reason = reason;
	message->why = why;
	return status;
}

/*
 * What is wrong with the receiver's memory. The memory of a program that has ended goes before its
 * QPs do; the sender is told what it would be told a moment later.
 */
static inline enum efa_status efa_peer_fault(struct efa_message *message, enum efa_status status,
					     enum simhca_reason reason)
{
	if (reason == SIMHCA_REASON_PROCESS_GONE)
		return efa_because(message, EFA_STATUS_BAD_DEST_QPN, SIMHCA_REASON_NO_RESPONSE,
				   "the program of the QP that it is for has ended");
	return efa_because(message, status, reason, NULL);
}

static inline union simhca_gid efa_own_gid(const struct efa_qp *qp)
{
	return simhca_gids_get(&qp->context->device->gids, 0);
}

static inline void efa_our_memory(struct simhca_sgl *sgl, void *data, uint32_t length)
{
	sgl->count = 1;
	sgl->seg[0] = (struct simhca_seg){ .addr = (uintptr_t)data, .length = length };
}

/* Copies to or from one program's memory; the guard keeps what is of these two alone. */
enum simhca_dma_result efa_copy(struct simhca_worker *worker, const struct efa_qp *qp,
				const struct efa_qp *other, const struct simhca_sgl *target,
				const struct simhca_sgl *source, uint64_t length,
				enum simhca_reason *reason);
static inline struct simhca_key_use efa_use_of(struct simhca_worker *worker,
					       const struct efa_qp *qp, uint32_t access)
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
/* The rights that a message needs of its sender's own memory, and of the memory that its rkey names. */
static inline uint32_t efa_own_access(const struct efa_send *send)
{
	return send->opcode == EFA_RDMA_READ ? SIMHCA_ACCESS_LOCAL_WRITE : 0;
}
static inline uint32_t efa_remote_access(const struct efa_send *send)
{
	return send->opcode == EFA_RDMA_WRITE ? SIMHCA_ACCESS_REMOTE_WRITE
					      : SIMHCA_ACCESS_REMOTE_READ;
}

/* ------------------------------------------------------------------------------- the sender */

void efa_complete_send(struct efa_qp *qp, uint16_t req_id, uint32_t opcode, enum efa_status status);
/* peer NULL: it has none, or is not here, or that is not the point. */
enum efa_outcome efa_finish(struct simhca_worker *worker, struct efa_qp *qp,
			    const struct efa_message *message, struct efa_qp *peer,
			    enum efa_status status);
/* The peer has no receive: again later, or an error. Likewise. */
enum efa_outcome efa_not_ready(struct simhca_worker *worker, struct efa_qp *qp,
			       struct efa_message *message, struct efa_qp *peer);
/* So that what is wrong with the sender's buffers shows, whether the receiver is ready or not. */
bool efa_may_send(struct simhca_worker *worker, struct efa_qp *qp, const struct efa_send *send);
/*
 * From the sender's memory to the bounce buffer, with the wrong bit of a rule of faults. What goes wrong there is
 * the sender's alone.
 */
enum efa_status efa_gather(struct simhca_worker *worker, struct efa_qp *qp,
			   struct efa_message *message, uint8_t *bounce);

/* ----------------------------------------------------------------------------- the receiver */

/* From whom a message comes; a key of tables. */
struct efa_sender {
	union simhca_gid gid;
	uint64_t qpn;
};
static_assert(sizeof(struct efa_sender) == 24, "a key has no holes");

/* What is wrong with the QP that a message has found; srd: it was sent by such a one. */
enum efa_status efa_judge_peer(bool srd, struct efa_message *message, const struct efa_qp *peer);
/* Whether the program of the QP has an address handle to the sender, without which EFA carries no RDMA. */
enum efa_status efa_judge_way_back(struct efa_message *message, const struct efa_qp *peer,
				   const union simhca_gid *sender);
#define EFA_NO_WAY_BACK                                                                            \
	"the other program has no address handle that leads back, without which EFA carries no "   \
	"RDMA"
/* Whether a message may find a receive. */
bool efa_has_recv(struct efa_qp *qp);
/* Takes the oldest receive. RNR: there is none, of which nothing is remembered yet. */
enum efa_status efa_take_recv(struct efa_qp *peer, struct efa_message *message,
			      struct efa_recv *recv);
/* Whether an RDMA operation takes a receive when all its bytes are there. */
static inline bool efa_rdma_takes_recv(const struct efa_send *send, const struct efa_qp *peer)
{
	return send->has_imm && !peer->unsolicited;
}
/* To the receiver's memory. The guard is narrow afterwards, to it and the other. */
enum efa_status efa_place(struct simhca_worker *worker, const struct efa_qp *other,
			  struct efa_message *message, struct efa_qp *peer,
			  const struct efa_recv *recv, uint8_t *data, uint32_t length);
/*
 * What comes in at a UD QP has a GRH before it, for which there is room in front of the message. Returns
 * where it begins.
 */
uint8_t *efa_put_grh(const struct efa_sender *sender, const struct efa_qp *peer, uint8_t *bounce,
		     uint32_t *length);
/* recv NULL: it took none. */
void efa_complete_recv(const struct efa_sender *sender, struct efa_qp *peer,
		       const struct efa_send *send, const struct efa_recv *recv, uint32_t length);
void efa_fail_recv(const struct efa_sender *sender, const struct efa_message *message,
		   struct efa_qp *peer, const struct efa_recv *recv, enum efa_status status);

#endif
