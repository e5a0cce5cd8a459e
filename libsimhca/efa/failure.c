/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What failed, for simhca_ops.failure: with what is known of it beyond its status. */
#include <infiniband/verbs.h>
#include <stdio.h>

#include "core/lock.h"
#include "ends.h"
#include "memory/access_facts.h"

#define TEXT 192 /* bytes, NUL included */

/* As libefa translates it. */
static uint32_t wc_status(enum efa_status status)
{
	switch (status) {
	case EFA_STATUS_OK:
		return SIMHCA_WC_SUCCESS;
	case EFA_STATUS_FLUSHED:
		return SIMHCA_WC_WR_FLUSH_ERR;
	case EFA_STATUS_QP_INTERNAL:
	case EFA_STATUS_INVALID_OP:
	case EFA_STATUS_INVALID_AH:
		return SIMHCA_WC_LOC_QP_OP_ERR;
	case EFA_STATUS_INVALID_LKEY:
		return SIMHCA_WC_LOC_PROT_ERR;
	case EFA_STATUS_LOCAL_LENGTH:
		return SIMHCA_WC_LOC_LEN_ERR;
	case EFA_STATUS_BAD_ADDRESS:
		return SIMHCA_WC_REM_ACCESS_ERR;
	case EFA_STATUS_REMOTE_ABORT:
		return IBV_WC_REM_ABORT_ERR;
	case EFA_STATUS_BAD_DEST_QPN:
		return IBV_WC_REM_INV_RD_REQ_ERR;
	case EFA_STATUS_RNR:
		return SIMHCA_WC_RNR_RETRY_EXC_ERR;
	case EFA_STATUS_REMOTE_LENGTH:
		return SIMHCA_WC_REM_INV_REQ_ERR;
	case EFA_STATUS_BAD_STATUS:
		return SIMHCA_WC_BAD_RESP_ERR;
	case EFA_STATUS_UNRESPONSIVE:
	case EFA_STATUS_UNREACHABLE:
		return IBV_WC_RESP_TIMEOUT_ERR;
	case EFA_STATUS_UNKNOWN_PEER:
		return SIMHCA_WC_REM_OP_ERR;
	}
	return SIMHCA_WC_GENERAL_ERR;
}

enum efa_status efa_status_of(uint32_t status)
{
	for (uint32_t mine = EFA_STATUS_INVALID_OP; mine <= EFA_STATUS_UNKNOWN_PEER; mine++)
		if (wc_status((enum efa_status)mine) == status)
			return (enum efa_status)mine;
	return status == SIMHCA_WC_RETRY_EXC_ERR ? EFA_STATUS_UNRESPONSIVE : EFA_STATUS_QP_INTERNAL;
}

uint32_t efa_wr_opcode(const struct efa_send *send)
{
	switch (send->opcode) {
	case EFA_SEND:
		return send->has_imm ? SIMHCA_WR_SEND_WITH_IMM : SIMHCA_WR_SEND;
	case EFA_RDMA_READ:
		return SIMHCA_WR_RDMA_READ;
	case EFA_RDMA_WRITE:
		return send->has_imm ? SIMHCA_WR_RDMA_WRITE_WITH_IMM : SIMHCA_WR_RDMA_WRITE;
	}
	return SIMHCA_WR_SEND;
}

static struct simhca_failure about(const struct efa_qp *qp, enum simhca_failure_kind kind,
				   enum efa_status status, enum simhca_reason reason)
{
	return (struct simhca_failure){
		.kind = kind,
		.context = qp->context->id,
		.qpn = qp->qpn,
		.qp_type = qp->srd ? IBV_QPT_DRIVER : SIMHCA_QPT_UD,
		.pd = qp->pd->number,
		.status = wc_status(status),
		.reason = reason,
		.vendor_err = status,
		.rnr_retry = atomic_load(&qp->rnr_retry),
	};
}

static void tell(const struct efa_qp *qp, const struct simhca_failure *failure)
{
	simhca_failure_report(qp->context->device->fabric, failure);
}

/* The key, as who has that QP would see it. */
static void add_access(const struct efa_qp *whose, struct simhca_failure *failure, uint32_t key,
		       uint64_t va, uint64_t bytes)
{
	const struct simhca_key_use use = { .device = whose->context->device,
					    .pd = whose->pd->number,
					    .qpn = whose->qpn };

	simhca_failure_add_access(failure, &use, key, va, bytes);
}

/* Which of its own buffers it is, and why. */
static void find_sge(struct simhca_worker *worker, const struct efa_qp *qp,
		     const struct efa_send *send, struct simhca_failure *failure)
{
	const struct simhca_key_use use = efa_use_of(worker, qp, efa_own_access(send));

	for (uint32_t i = 0; i < send->num_sge; i++) {
		const struct simhca_sge *sge = &send->sge[i];
		enum simhca_reason reason =
			simhca_translate(&use, sge->lkey, sge->addr, sge->length, NULL);

		if (reason == SIMHCA_REASON_NONE)
			continue;
		failure->reason = reason;
		add_access(qp, failure, sge->lkey, sge->addr, sge->length);
		break;
	}
	simhca_key_release(worker, 0);
}

void efa_report(struct simhca_worker *worker, const struct efa_qp *qp, struct efa_qp *peer,
		const struct efa_message *message, enum efa_status status)
{
	const bool lost = !qp->srd && status >= EFA_STATUS_BAD_ADDRESS;
	const struct efa_send *send = &message->send;
	struct simhca_failure failure =
		about(qp, lost ? SIMHCA_LOST : SIMHCA_SEND_FAILED, status, message->reason);
	char text[TEXT];

	/* Who has ended hears of nothing. */
	if (status == EFA_STATUS_OK || status == EFA_STATUS_FLUSHED ||
	    message->reason == SIMHCA_REASON_PROCESS_GONE)
		return;
	failure.count = 1;
	failure.peer_qpn = send->dest_qpn;
	failure.opcode = efa_wr_opcode(send);
	failure.length = send->length;
	failure.text = message->why;
	if (status == EFA_STATUS_INVALID_LKEY) {
		find_sge(worker, qp, send, &failure);
	} else if (status == EFA_STATUS_BAD_ADDRESS && peer && send->opcode != EFA_SEND) {
		add_access(peer, &failure, send->rkey, send->remote_addr, send->length);
	} else if (status == EFA_STATUS_RNR && peer) {
		failure.empty.context = peer->context->id;
		pthread_mutex_lock(&peer->rq_lock);
		failure.empty.posted = peer->rq_ci;
		pthread_mutex_unlock(&peer->rq_lock);
	} else if (status == EFA_STATUS_BAD_DEST_QPN && peer &&
		   message->reason == SIMHCA_REASON_QKEY_MISMATCH) {
		snprintf(text, sizeof(text), "the message has Q_Key 0x%08x, and its QP 0x%08x",
			 send->qkey, atomic_load(&peer->qkey));
		failure.text = text;
	}
	tell(qp, &failure);
}

void efa_report_recv(const struct efa_qp *qp, uint32_t sender_qpn, enum efa_status status,
		     enum simhca_reason reason)
{
	struct simhca_failure failure = about(qp, SIMHCA_RECV_FAILED, status, reason);

	failure.peer_qpn = sender_qpn;
	tell(qp, &failure);
}
