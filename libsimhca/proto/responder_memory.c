/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The memory at a responder's end that a request is about: whether it may be used, and is there. */
#include "dma/dma.h"
#include "link.h"
#include "memory/key.h"
#include "own_memory.h"
#include "packet/packet.h"
#include "qp.h"
#include "responder_impl.h"
#include "simhca-info.h"

bool simhca_memory_is_elsewhere(struct simhca_worker *worker, const struct simhca_sgl *sgl,
				struct simhca_reply *reply)
{
	if (worker->engine->config.may_block)
		return false;
	for (uint32_t i = 0; i < sgl->count; i++) {
		const struct simhca_mm *mm = sgl->seg[i].mm;

		if (mm && mm->kind == SIMHCA_MM_AGENT) {
			simhca_reply_not_accepted(reply, SIMHCA_ELSEWHERE, SIMHCA_REASON_NONE);
			reply->handover.engine = mm->engine;
			return true;
		}
	}
	return false;
}

void simhca_memory_refuse(struct simhca_worker *worker, struct simhca_qp *qp,
			  const struct simhca_packet *packet, enum simhca_memory memory,
			  enum simhca_reason reason, struct simhca_reply *reply)
{
	if (memory == SIMHCA_RECEIVE_BUFFER) {
		simhca_refuse(qp, packet, SIMHCA_SYNDROME_NAK_OPERATIONAL, SIMHCA_WC_LOC_PROT_ERR,
			      reason, reply);
		return;
	}
	/* Whose write with immediate data it is hears of it by a receive, if it has one posted. */
	if (packet->op == SIMHCA_PKT_WRITE && packet->has_imm &&
	    simhca_is_reliable(packet->transport) && !simhca_recv_need(worker, qp, packet, reply) &&
	    !(reply->kind == SIMHCA_NAK && SIMHCA_SYNDROME_IS_RNR(reply->syndrome)))
		return; /* its ring is corrupt, and the QP has failed */
	simhca_refuse(qp, packet, SIMHCA_SYNDROME_NAK_ACCESS, SIMHCA_WC_SUCCESS, reason, reply);
}

/* What has become of an access of ours means this for the request; false: reply is filled. */
static bool may_go_on(struct simhca_worker *worker, struct simhca_qp *qp,
		      const struct simhca_packet *packet, enum simhca_own_access access,
		      enum simhca_reach reach, enum simhca_memory memory, enum simhca_reason reason,
		      struct simhca_reply *reply)
{
	switch (reach) {
	case SIMHCA_REACHED:
		return true;
	case SIMHCA_REACH_LATER:
		simhca_reply_not_accepted(reply, SIMHCA_ABSENT, SIMHCA_REASON_NONE);
		reply->handover.rnr_timer = simhca_own_timer(qp, access);
		return false;
	case SIMHCA_REACH_OTHER:
		simhca_reply_not_accepted(reply, SIMHCA_UNREADABLE, reason);
		return false;
	case SIMHCA_REACH_FAILED:
		break;
	}
	if (reason == SIMHCA_REASON_PROCESS_GONE)
		simhca_reply_nothing(reply, SIMHCA_REASON_NONE);
	else
		simhca_memory_refuse(worker, qp, packet, memory, reason, reply);
	return false;
}

bool simhca_memory_is_there(struct simhca_worker *worker, struct simhca_qp *qp,
			    const struct simhca_packet *packet, enum simhca_own_access access,
			    const struct simhca_sgl *sgl, struct simhca_reply *reply)
{
	enum simhca_reason reason = SIMHCA_REASON_NONE;
	enum simhca_reach reach = simhca_own_reach(worker, qp, access, sgl, &reason);

	return may_go_on(worker, qp, packet, access, reach, SIMHCA_REMOTE_MEMORY, reason, reply);
}

void simhca_memory_failed(struct simhca_worker *worker, struct simhca_qp *qp,
			  const struct simhca_packet *packet, enum simhca_own_access access,
			  const struct simhca_sgl *sgl, enum simhca_reason reason,
			  struct simhca_reply *reply)
{
	enum simhca_reach reach = simhca_own_failed(worker, qp, access, sgl, &reason);

	may_go_on(worker, qp, packet, access, reach, SIMHCA_REMOTE_MEMORY, reason, reply);
}

bool simhca_memory_write(struct simhca_worker *worker, struct simhca_qp *qp,
			 const struct simhca_packet *packet, enum simhca_memory memory,
			 const struct simhca_sgl *target, const struct simhca_sgl *source,
			 uint64_t length, struct simhca_reply *reply)
{
	enum simhca_reason reason = SIMHCA_REASON_NONE;
	enum simhca_reach reach;

	if (simhca_memory_is_elsewhere(worker, target, reply))
		return false;
	reach = simhca_own_copy(worker, qp, SIMHCA_RESPONDER_WRITE, target, source, length,
				&reason);
	return may_go_on(worker, qp, packet, SIMHCA_RESPONDER_WRITE, reach, memory, reason, reply);
}

bool simhca_memory_remote(struct simhca_worker *worker, struct simhca_qp *qp,
			  const struct simhca_packet *packet, uint64_t length, uint32_t right,
			  struct simhca_sgl *sgl, struct simhca_reply *reply)
{
	struct simhca_key_use use = {
		.worker = worker,
		.device = qp->device,
		.pd = qp->responder.key_pd,
		.qpn = qp->qpn,
		.access = right,
		.remote = true,
		.flush = packet->op == SIMHCA_PKT_FLUSH,
		.whole = packet->op == SIMHCA_PKT_FLUSH &&
			 packet->flush_selectivity == SIMHCA_FLUSH_MR,
	};
	enum simhca_reason reason;

	simhca_own_begin(worker);
	reason = packet->op == SIMHCA_PKT_WRITE
			 ? simhca_translate(&use, qp->resp.rkey, qp->resp.va, length, sgl)
			 : simhca_translate(&use, packet->rkey, packet->va, length, sgl);
	if (reason == SIMHCA_REASON_NONE)
		return true;
	simhca_memory_refuse(worker, qp, packet, SIMHCA_REMOTE_MEMORY, reason, reply);
	return false;
}
