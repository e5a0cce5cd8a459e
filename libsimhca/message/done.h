/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What a message leaves behind when it is done: how far the responder is, and the CQEs of both
 * sides. Engines and the fast path have it from here, so it does not matter which of them carried
 * the message.
 */
#ifndef LIBSIMHCA_MESSAGE_DONE_H
#define LIBSIMHCA_MESSAGE_DONE_H

#include "packet/grh.h"
#include "packet/packet.h"
#include "queue/progress.h"
#include "queue/psn.h"

/* Operations whose answer a duplicate of the request is given again (9.7.5.1.4). */
static inline bool simhca_is_remembered(enum simhca_packet_op op)
{
	return op == SIMHCA_PKT_READ || op == SIMHCA_PKT_COMPARE_SWAP || op == SIMHCA_PKT_FETCH_ADD;
}

/*
 * The responder has carried out a request that takes so many PSNs, and expects what comes after it.
 * old: what an atomic has found.
 */
static inline void simhca_responder_did(struct simhca_responder *resp, struct simhca_qp_mem *mem,
					const struct simhca_packet *packet, uint32_t psns,
					uint64_t old)
{
	if (packet->op == SIMHCA_PKT_SEND || packet->op == SIMHCA_PKT_WRITE) {
		resp->in_message = !packet->last;
		resp->write = packet->op == SIMHCA_PKT_WRITE;
	}
	if (simhca_is_remembered(packet->op)) {
		const struct simhca_answered one = {
			.va = packet->va,
			.length = packet->dma_length,
			.old = old,
			.psn = packet->psn,
			.op = (uint8_t)packet->op,
			.rkey = packet->rkey,
		};

		simhca_progress_put_answered(mem, resp->answers++, &one);
	}
	resp->epsn = simhca_psn_add(packet->psn, psns);
	resp->psns_done += psns;
	if (resp->psns_done > SIMHCA_PSN_DUPLICATES)
		resp->psns_done = SIMHCA_PSN_DUPLICATES;
	if (packet->last)
		resp->msn = simhca_psn_add(resp->msn, 1);
}

/* The CQE of a receive, with the WQE's ID and record, that a packet completes well. */
static inline struct simhca_cqe simhca_cqe_of_receive(const struct simhca_packet *packet,
						      uint64_t wr_id, uint32_t record, uint32_t qpn,
						      uint64_t bytes, bool infiniband)
{
	bool has_grh = packet->transport == SIMHCA_QPT_UD && packet->av->is_global;

	return (struct simhca_cqe){
		.wr_id = wr_id,
		.qpn = qpn,
		.src_qpn = packet->src_qpn,
		.byte_len = (uint32_t)bytes,
		.wqe_index = record,
		.imm_or_rkey = packet->has_imm || packet->has_inv ? packet->imm_or_rkey : 0,
		.opcode = packet->op == SIMHCA_PKT_WRITE ? SIMHCA_WC_RECV_RDMA_WITH_IMM
							 : SIMHCA_WC_RECV,
		.flags = SIMHCA_CQE_RECV | (packet->has_imm ? SIMHCA_CQE_IMM : 0) |
			 (packet->has_inv ? SIMHCA_CQE_INV : 0) |
			 (packet->solicited ? SIMHCA_CQE_SOLICITED : 0) |
			 (has_grh ? SIMHCA_CQE_GRH : 0),
		.sl = has_grh && !infiniband ? simhca_grh_of_roce(packet->av) : packet->av->sl,
		.slid = packet->slid,
	};
}

/* That of a send of so many bytes, at that index of its queue, which went well. */
static inline struct simhca_cqe simhca_cqe_of_send(const struct simhca_send_wqe *wqe, uint32_t qpn,
						   uint32_t index, uint64_t bytes)
{
	return (struct simhca_cqe){
		.wr_id = wqe->wr_id,
		.qpn = qpn,
		.byte_len = (uint32_t)bytes,
		.wqe_index = index,
		.opcode = simhca_opcode(wqe->opcode)->wc,
	};
}

static inline bool simhca_is_signaled(const struct simhca_send_wqe *wqe,
				      const struct simhca_qpc *qpc)
{
	return (wqe->flags & SIMHCA_WQE_SIGNALED) || qpc->sq_sig_all;
}

#endif
