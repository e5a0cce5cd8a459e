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

bool simhca_memory_is_elsewhere(struct simhca_request *request, const struct simhca_sgl *sgl)
{
	if (request->worker->engine->config.may_block)
		return false;
	for (uint32_t i = 0; i < sgl->count; i++) {
		const struct simhca_mm *mm = sgl->seg[i].mm;

		if (mm && mm->kind == SIMHCA_MM_AGENT) {
			simhca_reply_not_accepted(request, SIMHCA_ELSEWHERE, SIMHCA_REASON_NONE);
			request->handover.engine = mm->engine;
			return true;
		}
	}
	return false;
}

void simhca_memory_refuse(struct simhca_request *request, enum simhca_memory memory,
			  enum simhca_reason reason)
{
	const struct simhca_packet *packet = request->packet;

	if (memory == SIMHCA_RECEIVE_BUFFER) {
		simhca_refuse(request, SIMHCA_SYNDROME_NAK_OPERATIONAL, SIMHCA_WC_LOC_PROT_ERR,
			      reason);
		return;
	}
	/*
	 * Whose write with immediate data it is hears of it by a receive, if it has one posted. A message that is
	 * longer than the path MTU fails by its first packet there, and only the last one takes a receive.
	 */
	if (packet->op == SIMHCA_PKT_WRITE && packet->has_imm &&
	    packet->length <= simhca_qp_mtu(request->qp) && simhca_is_reliable(packet->transport) &&
	    !simhca_recv_need(request) &&
	    !(request->kind == SIMHCA_NAK && SIMHCA_SYNDROME_IS_RNR(request->syndrome)))
		return; /* its ring is corrupt, and the QP has failed */
	simhca_refuse(request, SIMHCA_SYNDROME_NAK_ACCESS, SIMHCA_WC_SUCCESS, reason);
}

/* What has become of an access of ours means this for the request. */
static bool may_go_on(struct simhca_request *request, enum simhca_own_access access,
		      enum simhca_reach reach, enum simhca_memory memory, enum simhca_reason reason)
{
	switch (reach) {
	case SIMHCA_REACHED:
		return true;
	case SIMHCA_REACH_LATER:
		simhca_reply_not_accepted(request, SIMHCA_ABSENT, SIMHCA_REASON_NONE);
		request->handover.rnr_timer = simhca_own_timer(request->qp, access);
		return false;
	case SIMHCA_REACH_OTHER:
		simhca_reply_not_accepted(request, SIMHCA_UNREADABLE, reason);
		return false;
	case SIMHCA_REACH_FAILED:
		break;
	}
	if (reason == SIMHCA_REASON_PROCESS_GONE)
		simhca_reply_nothing(request, SIMHCA_REASON_NONE);
	else
		simhca_memory_refuse(request, memory, reason);
	return false;
}

bool simhca_memory_is_there(struct simhca_request *request, enum simhca_own_access access,
			    const struct simhca_sgl *sgl)
{
	enum simhca_reason reason = SIMHCA_REASON_NONE;
	enum simhca_reach reach =
		simhca_own_reach(request->worker, request->qp, access, sgl, &reason);

	return may_go_on(request, access, reach, SIMHCA_REMOTE_MEMORY, reason);
}

void simhca_memory_failed(struct simhca_request *request, enum simhca_own_access access,
			  const struct simhca_sgl *sgl, enum simhca_reason reason)
{
	enum simhca_reach reach =
		simhca_own_failed(request->worker, request->qp, access, sgl, &reason);

	may_go_on(request, access, reach, SIMHCA_REMOTE_MEMORY, reason);
}

bool simhca_memory_write(struct simhca_request *request, enum simhca_memory memory,
			 const struct simhca_sgl *target, const struct simhca_sgl *source,
			 uint64_t length)
{
	enum simhca_reason reason = SIMHCA_REASON_NONE;
	enum simhca_reach reach;

	if (simhca_memory_is_elsewhere(request, target))
		return false;
	reach = simhca_own_copy(request->worker, request->qp, SIMHCA_RESPONDER_WRITE, target,
				source, length, &reason);
	return may_go_on(request, SIMHCA_RESPONDER_WRITE, reach, memory, reason);
}

bool simhca_memory_remote(struct simhca_request *request, uint64_t length, struct simhca_sgl *sgl)
{
	struct simhca_qp *qp = request->qp;
	const struct simhca_packet *packet = request->packet;
	struct simhca_key_use use = {
		.worker = request->worker,
		.device = qp->device,
		.pd = qp->responder.key_pd,
		.qpn = qp->qpn,
		.access = simhca_rights_for(packet),
		.remote = true,
		.flush = packet->op == SIMHCA_PKT_FLUSH,
		.whole = packet->op == SIMHCA_PKT_FLUSH &&
			 packet->flush_selectivity == SIMHCA_FLUSH_MR,
	};
	enum simhca_reason reason;

	simhca_own_begin(request->worker);
	reason = packet->op == SIMHCA_PKT_WRITE
			 ? simhca_translate(&use, qp->resp.rkey, qp->resp.va, length, sgl)
			 : simhca_translate(&use, packet->rkey, packet->va, length, sgl);
	if (reason == SIMHCA_REASON_NONE)
		return true;
	simhca_memory_refuse(request, SIMHCA_REMOTE_MEMORY, reason);
	return false;
}
