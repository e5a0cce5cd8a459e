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
#include "requester.h"
#include "silence.h"
#include "simhca-device.h"
#include "simhca-info.h"
#include "wqe.h"

/* A QP's turn ends after so many packets or bytes, so that QPs share an engine fairly. */
#define QUARTER_MOST 16 /* PSNs, of a large window, that are sent before an answer is asked for */
#define BUDGET_PACKETS 16
#define BUDGET_BYTES (512u * 1024u)

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
	struct simhca_key_use use = { .device = qp->device, .pd = qp->qpc->pd, .qpn = qp->qpn };

	if (wqe->opcode != SIMHCA_WR_RDMA_READ_WITH_INV)
		return SIMHCA_REASON_NONE;
	return simhca_key_may_invalidate(&use, wqe->imm_or_rkey);
}

/* Begins what is next: a fetch that waits, or a WQE. False: nothing begins now. */
static bool start_message(struct simhca_worker *worker, struct simhca_qp *qp)
{
	struct simhca_requester *req = &qp->req;
	const struct simhca_send_wqe *wqe = &worker->send->wqe;
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
		if (qp->source->fetch->start(qp)) {
			qp->requester.fetching = true;
			qp->source->fetch->build_fetch(qp, worker->send);
			worker->send_of = qp;
			worker->send_index = req->oldest;
			put_in_flight(worker, qp);
			return true;
		}
	}
	if (!simhca_progress_sends(qp->mem, req->oldest, req->count, qp->sq_entries, &posted)) {
		simhca_qp_corrupt(qp);
		return false;
	}
	if (posted == req->count)
		return false;
	reason = simhca_flight_read(worker, qp, req->oldest + req->count);
	status = simhca_wqe_status(reason);
	if (reason == SIMHCA_REASON_NONE) {
		if (!may_begin(qp, wqe))
			return false;
		reason = check_invalidation(qp, wqe);
		status = SIMHCA_WC_MW_BIND_ERR;
	}
	if (reason == SIMHCA_REASON_NONE && simhca_inject_is_on(qp->device->fabric)) {
		if (req->count)
			return false;
		switch (simhca_injected_start(worker, qp, &status)) {
		case SIMHCA_INJECTED_NOTHING:
			break;
		case SIMHCA_INJECTED_WAIT:
			return false;
		case SIMHCA_INJECTED_FAILURE:
			reason = SIMHCA_REASON_INJECTED;
			break;
		}
	}
	if (reason == SIMHCA_REASON_NONE) {
		put_in_flight(worker, qp);
		return true;
	}
	/* An error is reported once all messages before it have completed. */
	if (!req->count)
		simhca_complete_send(worker, qp, status, reason);
	return false;
}

/* Fills in where a packet goes: the QP's peer, or on UD what the work request says. */
static void fill_address(struct simhca_qp *qp, const struct simhca_send_wqe *wqe,
			 struct simhca_packet *packet)
{
	const struct simhca_devmem *mem = qp->device->mem;

	if (qp->type == SIMHCA_QPT_UD) {
		packet->av = &wqe->ud.av;
		packet->dest_qpn = wqe->ud.dest_qpn;
		packet->qkey = simhca_qkey_of_send(wqe, qp->qpc);
		if (packet->av->is_global)
			simhca_device_gid(qp->device, packet->av->sgid_index, &packet->sgid);
	} else {
		packet->av = &qp->qpc->av;
		packet->dest_qpn = qp->qpc->dest_qpn;
	}
	packet->src_qpn = qp->qpn;
	packet->src_context = qp->context->id;
	packet->slid = mem->port.lid; /* LMC is 0: path bits add nothing to it */
}

/* How many PSNs may be under way now. */
static uint32_t window_of(const struct simhca_qp *qp)
{
	return qp->link->window_now ? qp->link->window_now(qp) : qp->link->window;
}

/*
 * A packet asks for an acknowledgement at the end of a message, when the window closes, and within long
 * messages four times in a window: so if the window closes by getting smaller, one is on its way.
 */
static bool wants_ack(const struct simhca_qp *qp, const struct simhca_packet *packet)
{
	uint32_t window = window_of(qp), quarter = window > 4 ? window / 4 : 1, after;

	if (quarter > QUARTER_MOST)
		quarter = QUARTER_MOST;
	if (packet->last)
		return true;
	after = simhca_psn_add(packet->psn, simhca_request_psns(packet, qp->qpc->path_mtu));
	return packet->psn / quarter != after / quarter ||
	       simhca_psn_distance(qp->req.psn_una, after) >= window;
}

/* PSNs that a READ request asks for at most: a power of two, and no more than the window. */
static uint32_t most_of_read(const struct simhca_qp *qp)
{
	uint32_t most = qp->link->read, window = window_of(qp);

	while (most > window && most > 1)
		most /= 2;
	return most;
}

/*
 * The bytes that a READ request asks for from that offset on. A request that is repeated has to lie
 * within one that was sent before, or the responder does not answer it. So requests begin at multiples
 * of their largest size, those of a smaller window lie within those of a larger one, and a repeated one
 * ends where the request that it repeats did, and never behind what was sent.
 */
static uint64_t read_length(const struct simhca_qp *qp, uint64_t offset, uint64_t left)
{
	uint64_t mtu = simhca_qp_mtu(qp), part = most_of_read(qp) * mtu;
	int32_t again = simhca_psn_cmp(qp->requester.asked, qp->req.psn_send);

	if (!part)
		return left;
	if (again <= 0)
		again = simhca_psn_cmp(qp->req.psn_sent, qp->req.psn_send);
	if (again > 0 && left > (uint64_t)again * mtu)
		left = (uint64_t)again * mtu;
	if (left > part - offset % part)
		return part - offset % part;
	return left;
}

/* How many PSNs are sent and not acknowledged. */
static uint32_t in_flight(const struct simhca_qp *qp)
{
	return simhca_psn_distance(qp->req.psn_una, qp->req.psn_send);
}

/* How many bytes of payload the next packet has at most. */
static uint64_t slice_of(const struct simhca_qp *qp)
{
	uint64_t slice = simhca_qp_slice(qp), room;

	if (qp->link->window == 1)
		return slice;
	room = (uint64_t)(window_of(qp) - in_flight(qp)) * simhca_qp_mtu(qp);
	return slice < room ? slice : room;
}

/* Builds the packet at psn_send, of the message in worker->send, without its payload. */
static void build_packet(const struct simhca_worker *worker, struct simhca_qp *qp, uint64_t offset,
			 struct simhca_packet *packet)
{
	const struct simhca_send_wqe *wqe = &worker->send->wqe;
	uint64_t left = worker->send->length - offset, slice = slice_of(qp);

	*packet = (struct simhca_packet){
		.op = simhca_opcode(wqe->opcode)->packet,
		.transport = qp->type,
		.psn = qp->req.psn_send,
		.first = !offset,
		.mtu = qp->type == SIMHCA_QPT_UD ? 0 : qp->qpc->path_mtu,
	};
	fill_address(qp, wqe, packet);
	packet->srqn = wqe->srqn & SIMHCA_QPN_MASK;
	if (simhca_response_has_data(wqe->opcode)) {
		packet->first = packet->last = true;
	} else {
		packet->length = left < slice ? left : slice;
		packet->last = packet->length == left;
	}
	packet->solicited = packet->last && (wqe->flags & SIMHCA_WQE_SOLICITED);
	packet->has_imm = packet->last && simhca_op_has(wqe->opcode, SIMHCA_OP_IMM);
	packet->has_inv = packet->last && simhca_op_has(wqe->opcode, SIMHCA_OP_INV);
	packet->imm_or_rkey = wqe->imm_or_rkey;
	packet->set_checksums = wqe->flags & SIMHCA_WQE_IP_CSUM;
	if (packet->op != SIMHCA_PKT_SEND && packet->first) {
		packet->va = wqe->rdma.remote_addr + offset;
		packet->rkey = wqe->rdma.rkey;
		packet->dma_length =
			packet->op == SIMHCA_PKT_READ ? read_length(qp, offset, left) : left;
		packet->atomic.compare_swap = wqe->opcode == SIMHCA_WR_ATOMIC_CMP_AND_SWP;
		packet->atomic.compare = wqe->rdma.compare_add;
		packet->atomic.swap_add =
			packet->atomic.compare_swap ? wqe->rdma.swap : wqe->rdma.compare_add;
	}
	if (packet->op == SIMHCA_PKT_FLUSH) {
		packet->dma_length = wqe->flush.length;
		packet->flush_placement = wqe->flush.placement;
		packet->flush_selectivity = wqe->flush.selectivity;
	}
	packet->ack_req = wants_ack(qp, packet);
}

/* The bytes of the first response to a read from that offset on. */
static uint64_t response_length(const struct simhca_send *send, uint64_t offset)
{
	uint64_t left = send->length - offset;

	return left < SIMHCA_LINK_SLICE ? left : SIMHCA_LINK_SLICE;
}

/* Finds the memory that a packet is made of; of a read, where its first response goes. */
static enum simhca_reason own_memory(struct simhca_worker *worker, struct simhca_qp *qp,
				     uint64_t offset, const struct simhca_packet *packet,
				     struct simhca_sgl *sgl)
{
	struct simhca_send *send = worker->send;
	uint64_t length = packet->length;
	struct simhca_key_use use = {
		.worker = worker, .device = qp->device, .pd = qp->qpc->pd, .qpn = qp->qpn
	};

	sgl->count = 0;
	simhca_own_begin(worker);
	if (send->wqe.flags & SIMHCA_WQE_INLINE) {
		sgl->seg[0] = (struct simhca_seg){ .addr = (uintptr_t)send->data + offset,
						   .length = packet->length };
		sgl->count = 1;
		return SIMHCA_REASON_NONE;
	}
	if (simhca_response_has_data(send->wqe.opcode)) {
		use.access = SIMHCA_ACCESS_LOCAL_WRITE;
		length = response_length(send, offset);
	}
	if (qp->requester.fetching) /* for a buffer of its receives */
		use.pd = qp->responder.srq->pd->number;
	return simhca_translate_sges(&use, send->sge, send->wqe.num_sge, offset, length, sgl);
}

#define LOOKED_AHEAD 256u /* WQEs */

bool simhca_exceeds_rd_atomic(const struct simhca_worker *worker, struct simhca_qp *qp,
			      uint32_t most)
{
	uint32_t index = worker->send_index, reads = 0, posted;

	if (worker->send->wqe.flags & SIMHCA_WQE_EXCEEDS_RD_ATOMIC)
		return true;
	if (qp->requester.exceeding.found &&
	    qp->requester.exceeding.index - index < SIMHCA_MAX_QP_WR)
		return qp->requester.exceeding.index == index;
	qp->requester.exceeding.found = false;
	if (!most || qp->requester.fetching ||
	    !simhca_progress_sends(qp->mem, qp->req.oldest, qp->req.count, qp->sq_entries, &posted))
		return false;
	posted = qp->req.oldest + posted - index;
	for (uint32_t n = 1; n < posted && n < LOOKED_AHEAD; n++) {
		struct simhca_send_wqe wqe;

		simhca_sq_header(qp, index + n, &wqe);
		/* These wait for the answers, and so does all behind them. */
		if (simhca_is_local_op(wqe.opcode) || (wqe.flags & SIMHCA_WQE_FENCE))
			break;
		if (!simhca_is_read_like(wqe.opcode))
			continue;
		if (++reads == qp->qpc->max_rd_atomic)
			break;
		if (reads == most) {
			qp->requester.exceeding.found = true;
			qp->requester.exceeding.index = index + n;
			break;
		}
	}
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
	struct simhca_sgl payload;
	enum simhca_reason reason;
	uint64_t offset;

	if (!simhca_flight_load(worker, qp, younger))
		return SIMHCA_NEXT_WAIT;
	if (!simhca_gate_offset(simhca_flight(qp, younger), psn, worker->send->length,
				simhca_qp_mtu(qp), &offset)) {
		simhca_qp_corrupt(qp);
		return SIMHCA_NEXT_WAIT;
	}
	build_packet(worker, qp, offset, &packet);
	access = simhca_response_has_data(worker->send->wqe.opcode) ? SIMHCA_REQUESTER_WRITE
								    : SIMHCA_REQUESTER_READ;
	reason = own_memory(worker, qp, offset, &packet, &payload);
	if (reason == SIMHCA_REASON_NONE)
		reach = simhca_own_known(worker, qp, access, &reason);
	if (reach == SIMHCA_REACH_FAILED && younger) /* the older ones first */
		return await_answers(worker, qp, bytes);
	if (reach != SIMHCA_REACHED)
		return simhca_own_wait(worker, qp, access, reach, reason);
	packet.resumed = simhca_own_resumed(qp, access);
	if (!simhca_response_has_data(worker->send->wqe.opcode)) {
		packet.payload = &payload;
	} else if (qp->link->pull && !younger) {
		worker->landing.sgl = &payload;
		worker->landing.offset = offset;
		worker->landing.length = response_length(worker->send, offset);
	} else { /* its place is looked up again when the response comes */
		simhca_key_release(worker, 0);
	}

	simhca_requester_sent(req, simhca_request_psns(&packet, qp->qpc->path_mtu));
	if (packet.op == SIMHCA_PKT_READ)
		qp->requester.asked = req->psn_send;
	*bytes += packet.op != SIMHCA_PKT_READ		  ? packet.length
		  : packet.dma_length < SIMHCA_LINK_SLICE ? packet.dma_length
							  : SIMHCA_LINK_SLICE;
	handover = qp->link->request(worker, qp, &packet);
	worker->landing.sgl = NULL;
	if (handover.outcome == SIMHCA_ACCEPTED && handover.reason != SIMHCA_REASON_NONE)
		req->why = handover.reason;
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
	reach = simhca_own_failed(worker, qp, access, &payload, &handover.reason);
	return simhca_own_wait(worker, qp, access, reach, handover.reason);
}

/* How many requests of reads and atomics are without a complete answer. */
static uint32_t reads_under_way(struct simhca_qp *qp)
{
	const struct simhca_requester *req = &qp->req;
	uint32_t oldest = simhca_flight(qp, 0)->first, requests = 0;
	uint32_t from = simhca_psn_distance(oldest, req->psn_una);
	uint32_t to = simhca_psn_distance(oldest, req->psn_send);

	for (uint32_t i = 0; i < req->count; i++) {
		const struct simhca_flight *flight = simhca_flight(qp, i);
		uint32_t first = simhca_psn_distance(oldest, flight->first);
		uint32_t end = simhca_psn_distance(oldest, flight->last) + 1;

		if (first >= to)
			break;
		if (end <= from || !simhca_is_read_like(flight->opcode))
			continue;
		requests += ((end < to ? end : to) - 1 - first) / qp->link->read -
			    ((first < from ? from : first) - first) / qp->link->read + 1;
	}
	return requests;
}

/*
 * Nothing paces the responses to one request, so a long read is several requests. As many are under way
 * as the window has room for and the responder takes. A repeated request has to lie within one of them
 * (read_length()), so requests that a small window has made smaller go one by one, until one begins at
 * a multiple of the link's size again.
 */
static bool may_send_read(struct simhca_qp *qp)
{
	const struct simhca_requester *req = &qp->req;
	const struct simhca_flight *flight;
	uint32_t part;

	if (!qp->link->read || req->psn_send == req->psn_una)
		return true;
	flight = simhca_flight(qp, simhca_flight_at(qp, req->psn_send));
	if (!simhca_is_read_like(flight->opcode))
		return true;
	if (reads_under_way(qp) >= qp->qpc->max_rd_atomic)
		return false;
	part = simhca_psn_distance(flight->first, req->psn_send) % qp->link->read;
	return req->psn_send == flight->first ||
	       (!part && in_flight(qp) + qp->link->read <= window_of(qp));
}

/* Does the next thing that the QP can do. */
static enum simhca_next go_on(struct simhca_worker *worker, struct simhca_qp *qp, uint64_t *bytes)
{
	struct simhca_requester *req = &qp->req;

	if (atomic_load_explicit(&qp->context->suspended, memory_order_relaxed))
		return simhca_wait_suspended(qp);
	if (!try_again(worker, qp))
		return SIMHCA_NEXT_WAIT;
	if ((!req->count || req->psn_send == req->psn_next) && !start_message(worker, qp) &&
	    !req->count)
		return SIMHCA_NEXT_WAIT;
	if (req->answered || simhca_is_local_op(simhca_flight(qp, 0)->opcode))
		return simhca_local_run(worker, qp);
	if (qp->link->take_marks)
		qp->link->take_marks(qp);
	if (req->psn_send != req->psn_next && in_flight(qp) < window_of(qp) && may_send_read(qp))
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
