/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The requester (IBTA vol. 1, 9.4): takes send WQEs in order, checks them, and turns each into
 * request packets. How many messages are under way at a time is a matter of the link's window, of
 * max_rd_atomic and of fences.
 */
#include <infiniband/verbs.h>

#include "completer.h"
#include "core/context.h"
#include "core/device.h"
#include "core/guard.h"
#include "core/stats.h"
#include "injected.h"
#include "link.h"
#include "local_ops.h"
#include "memory/key.h"
#include "own_memory.h"
#include "packet/packet.h"
#include "queue/progress.h"
#include "qp.h"
#include "request.h"
#include "requester.h"
#include "silence.h"
#include "simhca-device.h"
#include "simhca-info.h"
#include "wqe.h"

/* A QP's turn ends after so many packets or bytes, so that QPs share an engine fairly. */
#define BUDGET_PACKETS 16
#define BUDGET_BYTES (512u * 1024u)
/* The context is suspended, as a thread is stuck in its program's memory: when to look again. */
#define SUSPENDED_NS (10 * 1000 * 1000)

/* Begins the message in worker->send. */
static void put_in_flight(struct simhca_worker *worker, struct simhca_qp *qp)
{
	struct simhca_requester *req = &qp->req;
	const struct simhca_send *send = worker->send;
	uint32_t index = req->oldest + req->count;
	struct simhca_flight *flight = simhca_flight(qp, req->count++);

	if (simhca_usage_is_due(qp->usage, index) && !qp->requester.fetching)
		simhca_usage_begin(qp->usage, index, simhca_engine_now(qp->context->engine));
	flight->opcode = send->wqe.opcode;
	flight->first = req->psn_next;
	if (!simhca_is_local_op(flight->opcode))
		req->psn_next = simhca_psn_add(req->psn_next,
					       simhca_psn_count(send->length, simhca_qp_mtu(qp)));
	flight->last = simhca_psn_add(req->psn_next, SIMHCA_PSN_MASK);
	simhca_progress_put_flight(qp->mem, index, flight);
	req->reads += simhca_is_read_like(flight->opcode);
	/* A fetch has the QP to itself. */
	req->alone = qp->requester.fetching || simhca_is_last_to_start(flight->opcode);
	req->revoked = false;
}

/* Nothing is under way: resets what is known of it. */
static void begin(struct simhca_qp *qp)
{
	struct simhca_requester *req = &qp->req;

	req->psn_una = req->psn_send = req->psn_sent = qp->requester.asked = req->psn_next;
	req->answered = req->went_back = false;
	req->busy = 0;
	req->retries = qp->qpc->retry_cnt;
	req->rnr_retries = qp->qpc->rnr_retry;
	req->why = SIMHCA_REASON_NO_RESPONSE;
}

/* Whether this WQE may begin beside what is under way. */
static bool may_begin(const struct simhca_qp *qp, const struct simhca_send_wqe *wqe)
{
	const struct simhca_requester *req = &qp->req;

	if (!req->count)
		return true;
	if (simhca_is_local_op(wqe->opcode))
		return false;
	if ((wqe->flags & SIMHCA_WQE_FENCE) && req->reads) /* IBTA vol. 1, 10.8.3.3 */
		return false;
	return !simhca_is_read_like(wqe->opcode) || req->reads < qp->qpc->max_rd_atomic;
}

/* A read whose key cannot be invalidated at its end does not begin. */
static enum simhca_reason check_invalidation(const struct simhca_qp *qp,
					     const struct simhca_send_wqe *wqe)
{
	const struct simhca_key_use use = simhca_key_use_of(NULL, qp, qp->qpc->pd, 0);

	if (wqe->opcode != SIMHCA_WR_RDMA_READ_WITH_INV)
		return SIMHCA_REASON_NONE;
	return simhca_key_may_invalidate(&use, wqe->imm_or_rkey);
}

/* Begins a fetch, if one still waits. It has the QP to itself. */
static bool start_fetch(struct simhca_worker *worker, struct simhca_qp *qp)
{
	if (!qp->source->fetch->start(qp))
		return false;
	qp->requester.fetching = true;
	qp->source->fetch->build_fetch(qp, worker->send);
	worker->send_of = qp;
	worker->send_index = qp->req.oldest;
	put_in_flight(worker, qp);
	return true;
}

/*
 * Whether the WQE that was read has to wait. *reason, and *status, are what is wrong with it, so
 * far and afterwards.
 */
static bool has_to_wait(struct simhca_worker *worker, struct simhca_qp *qp,
			enum simhca_reason *reason, enum simhca_wc_status *status)
{
	const struct simhca_send_wqe *wqe = &worker->send->wqe;

	if (*reason == SIMHCA_REASON_NONE) {
		if (!may_begin(qp, wqe))
			return true;
		*reason = check_invalidation(qp, wqe);
		*status = SIMHCA_WC_MW_BIND_ERR;
	}
	if (*reason != SIMHCA_REASON_NONE || !simhca_inject_is_on(qp->device->fabric))
		return false;
	if (qp->req.count)
		return true;
	switch (simhca_injected_start(worker, qp, status)) {
	case SIMHCA_INJECTED_NOTHING:
		break;
	case SIMHCA_INJECTED_WAIT:
		return true;
	case SIMHCA_INJECTED_FAILURE:
		*reason = SIMHCA_REASON_INJECTED;
		break;
	}
	return false;
}

/* Begins what is next: a fetch that waits, or a WQE. False: nothing begins now. */
static bool start_message(struct simhca_worker *worker, struct simhca_qp *qp)
{
	struct simhca_requester *req = &qp->req;
	enum simhca_wc_status status;
	enum simhca_reason reason;
	uint32_t posted;

	if (req->count && (req->alone || req->count == SIMHCA_MAX_FLIGHTS ||
			   simhca_qp_state(qp) == SIMHCA_QPS_SQD || simhca_fastpath_is_wanted(qp)))
		return false;
	if (!req->count)
		begin(qp);
	if (__builtin_expect(atomic_load_explicit(&qp->requester.fetch_waits, memory_order_acquire),
			     0)) {
		if (req->count)
			return false;
		if (start_fetch(worker, qp))
			return true;
	}
	if (!simhca_progress_sends(qp->mem, req->oldest, req->count, qp->sq_entries, &posted)) {
		simhca_qp_corrupt(qp);
		return false;
	}
	if (posted == req->count)
		return false;
	reason = simhca_flight_read(worker, qp, req->oldest + req->count);
	status = simhca_wqe_status(reason);
	if (has_to_wait(worker, qp, &reason, &status))
		return false;
	if (reason == SIMHCA_REASON_NONE) {
		put_in_flight(worker, qp);
		return true;
	}
	/* An error is reported once all messages before it have completed. */
	if (!req->count)
		simhca_complete_send(worker, qp, status, reason);
	return false;
}

static void send_again(struct simhca_qp *qp)
{
	qp->req.went_back = false;
	if (qp->link->lost)
		qp->link->lost(qp, true);
	simhca_go_back(qp);
}

/* Sends again if no answer has come in time. False: it was the last time, and the message failed. */
static bool try_again(struct simhca_worker *worker, struct simhca_qp *qp)
{
	struct simhca_requester *req = &qp->req;

	if (req->wait != SIMHCA_WAIT_ANSWER || atomic_load(&qp->task.timer_fired) != req->deadline)
		return true;
	if (qp->requester.adaptive) {
		req->wait = SIMHCA_WAIT_NOTHING;
		simhca_stats_once(qp->device, SIMHCA_STAT_ADP_RETRANS);
		send_again(qp);
		return true;
	}
	simhca_silence_unanswered(qp);
	if (!qp->qpc->timeout) { /* such a QP waits without end */
		req->deadline = UINT64_MAX;
		return true;
	}
	if (simhca_wait_rest(qp))
		return true;
	req->wait = SIMHCA_WAIT_NOTHING;
	simhca_stats_once(qp->device, SIMHCA_STAT_LOCAL_ACK_TIMEOUT);
	/* retry_cnt repetitions are allowed, so the last time-out is one more (9.7.6.1.3). */
	if (!req->retries--) {
		simhca_complete_send(worker, qp, SIMHCA_WC_RETRY_EXC_ERR, req->why);
		return false;
	}
	simhca_usage_add(&qp->usage->retries, 1);
	send_again(qp);
	return true;
}

/* Whether the QP may send now; in SQD it sends only what has begun before. */
static bool may_send(struct simhca_qp *qp)
{
	uint32_t state = simhca_qp_state(qp);

	if (state == SIMHCA_QPS_SQD && !qp->req.count) {
		qp->qpc->sq_draining = 0;
		if (qp->drained_event_due) {
			qp->drained_event_due = false;
			simhca_async_event(qp->context, qp->user_handle, qp->qpn,
					   IBV_EVENT_SQ_DRAINED);
		}
		return false;
	}
	return (state == SIMHCA_QPS_RTS || state == SIMHCA_QPS_SQD) && simhca_wait_is_over(qp);
}

/*
 * All is sent, or as much as may be under way: waits for answers. On a link by calls the responder sends what it
 * still owes of a READ response only when it is called again.
 */
static enum simhca_next await_answers(struct simhca_worker *worker, struct simhca_qp *qp,
				      uint64_t *bytes)
{
	struct simhca_requester *req = &qp->req;
	struct simhca_handover handover;
	bool more = false;

	if (!qp->link->pull || !req->count || req->psn_una == simhca_flight(qp, 0)->first)
		return simhca_wait_answer(qp);
	handover = qp->link->pull(worker, qp, &more);
	if (simhca_wait_link(qp, &handover))
		return SIMHCA_NEXT_WAIT;
	*bytes += qp->link->slice;
	return more ? SIMHCA_NEXT_PACKET : simhca_wait_answer(qp);
}

/* Where the data of the packet are, or where those of its first response go. */
static void place_data(struct simhca_worker *worker, const struct simhca_qp *qp, uint64_t offset,
		       bool is_oldest, struct simhca_sgl *sgl, struct simhca_packet *packet)
{
	if (!simhca_response_has_data(worker->send->wqe.opcode)) {
		packet->payload = sgl;
	} else if (qp->link->pull && is_oldest) {
		worker->landing.sgl = sgl;
		worker->landing.offset = offset;
		worker->landing.length = simhca_response_length(worker->send->length - offset);
	} else { /* its place is looked up again when the response comes */
		simhca_key_release(worker, 0);
	}
}

/* Hands the packet at psn_send, which counts as sent from here on, to the QP's link. */
static struct simhca_handover hand_over(struct simhca_worker *worker, struct simhca_qp *qp,
					struct simhca_packet *packet, uint64_t *bytes)
{
	struct simhca_requester *req = &qp->req;
	struct simhca_handover handover;

	simhca_requester_sent(req, simhca_request_psns(packet, qp->qpc->path_mtu));
	if (packet->op == SIMHCA_PKT_READ)
		qp->requester.asked = req->psn_send;
	*bytes += packet->op == SIMHCA_PKT_READ ? simhca_response_length(packet->dma_length)
						: packet->length;
	handover = qp->link->request(worker, qp, packet);
	worker->landing.sgl = NULL;
	if (handover.outcome == SIMHCA_ACCEPTED && handover.reason != SIMHCA_REASON_NONE)
		req->why = handover.reason;
	return handover;
}

/* Sends the packet at psn_send. On the local link its answer comes before this returns. */
static enum simhca_next send_packet(struct simhca_worker *worker, struct simhca_qp *qp,
				    uint64_t *bytes)
{
	struct simhca_requester *req = &qp->req;
	uint32_t psn = req->psn_send, younger = simhca_flight_at(qp, psn);
	enum simhca_own_access access;
	enum simhca_reach reach = SIMHCA_REACH_FAILED;
	struct simhca_handover handover;
	struct simhca_packet packet;
	struct simhca_sgl sgl;
	enum simhca_reason reason;
	uint64_t offset;

	if (!simhca_flight_load(worker, qp, younger))
		return SIMHCA_NEXT_WAIT;
	if (!simhca_gate_offset(simhca_flight(qp, younger), psn, worker->send->length,
				simhca_qp_mtu(qp), &offset)) {
		simhca_qp_corrupt(qp);
		return SIMHCA_NEXT_WAIT;
	}
	simhca_request_build(worker, qp, offset, &packet);
	access = simhca_response_has_data(worker->send->wqe.opcode) ? SIMHCA_REQUESTER_WRITE
								    : SIMHCA_REQUESTER_READ;
	reason = simhca_request_memory(worker, qp, offset, &packet, &sgl);
	if (reason == SIMHCA_REASON_NONE)
		reach = simhca_own_known(worker, qp, access, &reason);
	if (reach == SIMHCA_REACH_FAILED && younger) /* the older ones first */
		return await_answers(worker, qp, bytes);
	if (reach != SIMHCA_REACHED)
		return simhca_own_wait(worker, qp, access, reach, reason);
	packet.resumed = simhca_own_resumed(qp, access);
	place_data(worker, qp, offset, !younger, &sgl, &packet);

	handover = hand_over(worker, qp, &packet, bytes);
	if (handover.outcome != SIMHCA_UNREADABLE && !simhca_wait_link(qp, &handover)) {
		if (!simhca_is_reliable(qp->type)) /* nobody answers: sent is done */
			simhca_acknowledge(worker, qp, req->psn_send);
		return SIMHCA_NEXT_PACKET;
	}
	req->psn_send = psn;
	if (handover.outcome != SIMHCA_UNREADABLE)
		return SIMHCA_NEXT_WAIT;
	if (younger)
		return await_answers(worker, qp, bytes);
	reach = simhca_own_failed(worker, qp, access, &sgl, &handover.reason);
	return simhca_own_wait(worker, qp, access, reach, handover.reason);
}

/* Does the next thing that the QP can do. */
static enum simhca_next go_on(struct simhca_worker *worker, struct simhca_qp *qp, uint64_t *bytes)
{
	struct simhca_requester *req = &qp->req;

	if (atomic_load_explicit(&qp->context->suspended, memory_order_relaxed))
		return simhca_wait_for(qp, SIMHCA_WAIT_BUSY, SUSPENDED_NS);
	if (!try_again(worker, qp))
		return SIMHCA_NEXT_WAIT;
	if ((!req->count || req->psn_send == req->psn_next) && !start_message(worker, qp) &&
	    !req->count)
		return SIMHCA_NEXT_WAIT;
	if (req->answered || simhca_is_local_op(simhca_flight(qp, 0)->opcode))
		return simhca_local_run(worker, qp);
	if (qp->link->take_marks)
		qp->link->take_marks(qp);
	if (req->psn_send != req->psn_next && simhca_psns_under_way(qp) < simhca_window(qp) &&
	    simhca_request_may_read(qp))
		return send_packet(worker, qp, bytes);
	return await_answers(worker, qp, bytes);
}

bool simhca_requester_run(struct simhca_worker *worker, struct simhca_qp *qp)
{
	uint64_t bytes = 0;
	bool more = false;

	if (simhca_fastpath_has_yielded(qp) || !simhca_qp_begin(qp))
		return false;
	simhca_qp_recover(qp);
	worker->requester = qp;
	worker->send_of = NULL;
	for (unsigned int packets = 0; may_send(qp); packets++) {
		enum simhca_next next;

		/* Before the budget: messages of its size would never be left to the program. */
		if (packets && !qp->req.count && simhca_fastpath_yield(qp))
			break;
		if (packets >= BUDGET_PACKETS || bytes >= BUDGET_BYTES) {
			more = true;
			break;
		}
		/* The last packet has narrowed the guard, and this one may be for another context. */
		simhca_guard_widen(&worker->guard);
		next = go_on(worker, qp, &bytes);
		simhca_key_release(worker, 0);
		if (next == SIMHCA_NEXT_WAIT)
			break;
	}
	if (qp->req.wait == SIMHCA_WAIT_FAULT && qp->req.count &&
	    simhca_qp_state(qp) == SIMHCA_QPS_RTS)
		simhca_own_look_ahead(worker, qp);
	worker->requester = NULL;
	simhca_qp_end(qp);
	return more;
}
