/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The requester (IBTA vol. 1, 9.4): takes send WQEs in order, checks them, and turns each into
 * request packets. One WQE is under way at a time: on the local link an answer comes with the
 * call, so the next can wait for it, and fences hold by themselves.
 */
#include <infiniband/verbs.h>
#include <string.h>

#include "av.h"
#include "odp.h"
#include "psn.h"

/* A turn ends after so many packets or bytes, so that QPs share an engine fairly. */
#define BUDGET_PACKETS 16
#define BUDGET_BYTES (512u * 1024u)

/* When another engine still works on a QP that is to be flushed. */
#define FLUSH_RETRY_NS (100 * 1000)

/* Operations by transport (IBTA vol. 1, table 38). */
static bool transport_has(uint32_t type, uint32_t opcode)
{
	switch (opcode) {
	case SIMHCA_WR_SEND:
		return true;
	case SIMHCA_WR_SEND_WITH_IMM:
		return type != SIMHCA_QPT_RAW_PACKET;
	case SIMHCA_WR_RDMA_WRITE:
	case SIMHCA_WR_RDMA_WRITE_WITH_IMM:
	case SIMHCA_WR_SEND_WITH_INV:
	case SIMHCA_WR_LOCAL_INV:
	case SIMHCA_WR_BIND_MW:
	case SIMHCA_WR_FAST_REG:
		return simhca_is_reliable(type) || type == SIMHCA_QPT_UC;
	case SIMHCA_WR_RDMA_READ:
	case SIMHCA_WR_RDMA_READ_WITH_INV:
	case SIMHCA_WR_ATOMIC_CMP_AND_SWP:
	case SIMHCA_WR_ATOMIC_FETCH_AND_ADD:
	case SIMHCA_WR_ATOMIC_WRITE:
	case SIMHCA_WR_FLUSH:
		return simhca_is_reliable(type);
	default:
		return false;
	}
}

static bool is_atomic(uint32_t opcode)
{
	return opcode == SIMHCA_WR_ATOMIC_CMP_AND_SWP || opcode == SIMHCA_WR_ATOMIC_FETCH_AND_ADD;
}

static bool takes_response(uint32_t opcode)
{
	return opcode == SIMHCA_WR_RDMA_READ || opcode == SIMHCA_WR_RDMA_READ_WITH_INV ||
	       is_atomic(opcode);
}

static enum simhca_reason check_frame(const struct simhca_qp *qp)
{
	uint32_t mtu = simhca_mtu_bytes(atomic_load(&qp->device->mem->port.active_mtu));

	if (qp->req.send->length < SIMHCA_FRAME_MIN)
		return SIMHCA_REASON_FRAME_TOO_SHORT;
	if (qp->req.send->length > mtu + SIMHCA_FRAME_OVERHEAD)
		return SIMHCA_REASON_FRAME_TOO_LONG;
	return SIMHCA_REASON_NONE;
}

/* It moves no data, and takes a resource of the responder like a read (IBTA vol. 1, A19). */
static enum simhca_reason check_flush(struct simhca_qp *qp)
{
	const uint8_t both = SIMHCA_FLUSH_GLOBAL | SIMHCA_FLUSH_PERSISTENT;
	struct simhca_send *send = qp->req.send;

	send->length = 0;
	if (!send->wqe.flush.placement || (send->wqe.flush.placement & ~both) ||
	    send->wqe.flush.selectivity > SIMHCA_FLUSH_MR)
		return SIMHCA_REASON_FLUSH_BAD_TYPE;
	return qp->qpc->max_rd_atomic ? SIMHCA_REASON_NONE : SIMHCA_REASON_READ_NOT_ENABLED;
}

static enum simhca_reason check_wqe(struct simhca_qp *qp)
{
	struct simhca_send *send = qp->req.send;
	uint32_t opcode = send->wqe.opcode;

	if (!transport_has(qp->type, opcode))
		return SIMHCA_REASON_WQE_BAD_OPCODE;
	if (simhca_is_local_op(opcode)) {
		send->length = 0;
		return SIMHCA_REASON_NONE;
	}
	if (opcode == SIMHCA_WR_FLUSH)
		return check_flush(qp);
	if (takes_response(opcode)) {
		if (send->wqe.flags & SIMHCA_WQE_INLINE)
			return SIMHCA_REASON_WQE_BAD_OPCODE;
		if (!qp->qpc->max_rd_atomic)
			return SIMHCA_REASON_READ_NOT_ENABLED;
	}
	if (opcode == SIMHCA_WR_ATOMIC_WRITE) {
		if (!qp->qpc->max_rd_atomic)
			return SIMHCA_REASON_READ_NOT_ENABLED;
		if (!send->wqe.num_sge && !(send->wqe.flags & SIMHCA_WQE_INLINE)) {
			memcpy(send->data, &send->wqe.rdma.swap, 8);
			send->wqe.flags |= SIMHCA_WQE_INLINE;
			send->length = 8;
		}
	}
	if ((is_atomic(opcode) || opcode == SIMHCA_WR_ATOMIC_WRITE) && send->length != 8)
		return SIMHCA_REASON_ATOMIC_BAD_LENGTH;
	if (send->length > SIMHCA_MAX_MSG_SIZE)
		return SIMHCA_REASON_MSG_TOO_LONG;
	if (qp->type == SIMHCA_QPT_UD) {
		uint32_t mtu = atomic_load(&qp->device->mem->port.active_mtu);

		if (send->length > simhca_mtu_bytes(mtu))
			return SIMHCA_REASON_MSG_TOO_LONG;
		if (!simhca_av_has_source(qp->device, &send->wqe.ud.av))
			return SIMHCA_REASON_AV_BAD_GID_INDEX;
	}
	return qp->type == SIMHCA_QPT_RAW_PACKET ? check_frame(qp) : SIMHCA_REASON_NONE;
}

/* The status for what a WQE itself does wrong. */
static enum simhca_wc_status local_status(enum simhca_reason reason)
{
	switch (reason) {
	case SIMHCA_REASON_MSG_TOO_LONG:
	case SIMHCA_REASON_FRAME_TOO_SHORT:
	case SIMHCA_REASON_FRAME_TOO_LONG:
	case SIMHCA_REASON_ATOMIC_BAD_LENGTH:
		return SIMHCA_WC_LOC_LEN_ERR;
	default:
		return SIMHCA_WC_LOC_QP_OP_ERR;
	}
}

static void begin_request(struct simhca_qp *qp)
{
	qp->req.started = true;
	qp->req.answered = false;
	qp->req.revoked = false;
	qp->req.busy = 0;
	qp->req.offset = 0;
	qp->req.retries = qp->qpc->retry_cnt;
	qp->req.rnr_retries = qp->qpc->rnr_retry;
	qp->req.why = SIMHCA_REASON_NO_RESPONSE;
}

/* Takes up what is next: a rendezvous that waits, or the oldest WQE. */
static bool start_wqe(struct simhca_qp *qp)
{
	uint32_t ci = atomic_load_explicit(&qp->mem->sq_ci, memory_order_relaxed);
	/* acquire: pairs with the client's release after it wrote the WQE. */
	uint32_t pi = atomic_load_explicit(&qp->mem->sq_pi, memory_order_acquire);
	enum simhca_reason reason;

	if (__builtin_expect(atomic_load_explicit(&qp->rndv_waits, memory_order_acquire), 0) &&
	    simhca_rndv_start(qp)) {
		begin_request(qp);
		return true;
	}
	if (pi == ci)
		return false;
	if (pi - ci > qp->sq_entries) {
		simhca_qp_corrupt(qp);
		return false;
	}
	begin_request(qp);
	qp->req.index = ci;
	qp->mem->sq_next = ci + 1;
	reason = simhca_sq_load(qp, ci, qp->req.send);
	if (reason == SIMHCA_REASON_NONE)
		reason = check_wqe(qp);
	if (reason != SIMHCA_REASON_NONE) {
		simhca_complete_send(qp, local_status(reason), reason);
		return false;
	}
	/* A read that cannot end as it should does not begin. */
	if (qp->req.send->wqe.opcode == SIMHCA_WR_RDMA_READ_WITH_INV) {
		struct simhca_key_use use = { .device = qp->device,
					      .pd = qp->qpc->pd,
					      .qpn = qp->qpn };

		reason = simhca_key_may_invalidate(&use, qp->req.send->wqe.imm_or_rkey);
		if (reason != SIMHCA_REASON_NONE) {
			simhca_complete_send(qp, SIMHCA_WC_MW_BIND_ERR, reason);
			return false;
		}
	}
	return true;
}

static enum simhca_packet_op packet_op(uint32_t opcode)
{
	switch (opcode) {
	case SIMHCA_WR_RDMA_WRITE:
	case SIMHCA_WR_RDMA_WRITE_WITH_IMM:
		return SIMHCA_PKT_WRITE;
	case SIMHCA_WR_RDMA_READ:
	case SIMHCA_WR_RDMA_READ_WITH_INV:
		return SIMHCA_PKT_READ;
	case SIMHCA_WR_ATOMIC_CMP_AND_SWP:
		return SIMHCA_PKT_COMPARE_SWAP;
	case SIMHCA_WR_ATOMIC_FETCH_AND_ADD:
		return SIMHCA_PKT_FETCH_ADD;
	case SIMHCA_WR_ATOMIC_WRITE:
		return SIMHCA_PKT_ATOMIC_WRITE;
	case SIMHCA_WR_FLUSH:
		return SIMHCA_PKT_FLUSH;
	default:
		return SIMHCA_PKT_SEND;
	}
}

/* The address part of a packet: a connected QP's own, or the work request's on UD. */
static void fill_address(struct simhca_qp *qp, struct simhca_packet *packet)
{
	const struct simhca_send_wqe *wqe = &qp->req.send->wqe;
	const struct simhca_devmem *mem = qp->device->mem;

	if (qp->type == SIMHCA_QPT_UD) {
		packet->av = &wqe->ud.av;
		packet->dest_qpn = wqe->ud.dest_qpn;
		/* A Q_Key with the top bit set means the QP's own (IBTA vol. 1, 10.2.5). */
		packet->qkey = wqe->ud.qkey & 0x80000000u ? qp->qpc->qkey : wqe->ud.qkey;
		if (packet->av->is_global)
			simhca_device_gid(qp->device, packet->av->sgid_index, &packet->sgid);
	} else {
		packet->av = &qp->qpc->av;
		packet->dest_qpn = qp->qpc->dest_qpn;
	}
	packet->src_qpn = qp->qpn;
	packet->src_context = qp->context->id;
	packet->slid = mem->port.lid | packet->av->src_path_bits;
	packet->pkey = SIMHCA_DEFAULT_PKEY;
}

/* The next packet of the current WQE; not NONE: a local buffer is at fault. */
static enum simhca_reason build_packet(struct simhca_worker *worker, struct simhca_qp *qp,
				       struct simhca_packet *packet)
{
	struct simhca_send *send = qp->req.send;
	const struct simhca_send_wqe *wqe = &send->wqe;
	uint64_t left = send->length - qp->req.offset;
	struct simhca_key_use use = {
		.worker = worker, .device = qp->device, .pd = qp->qpc->pd, .qpn = qp->qpn
	};

	packet->op = packet_op(wqe->opcode);
	packet->transport = qp->type;
	packet->length = left < SIMHCA_LINK_SLICE ? left : SIMHCA_LINK_SLICE;
	packet->psn = qp->mem->sq_psn & SIMHCA_PSN_MASK;
	packet->first = !qp->req.offset;
	packet->last = packet->length == left;
	packet->solicited = packet->last && (wqe->flags & SIMHCA_WQE_SOLICITED);
	packet->has_imm = packet->last && (wqe->opcode == SIMHCA_WR_SEND_WITH_IMM ||
					   wqe->opcode == SIMHCA_WR_RDMA_WRITE_WITH_IMM);
	packet->has_inv = packet->last && wqe->opcode == SIMHCA_WR_SEND_WITH_INV;
	packet->imm_or_rkey = wqe->imm_or_rkey;
	packet->xrc_srqn = wqe->xrc_srqn & SIMHCA_QPN_MASK;
	packet->set_checksums = wqe->flags & SIMHCA_WQE_IP_CSUM;
	packet->qkey = 0;
	packet->mtu = qp->type == SIMHCA_QPT_UD ? 0 : qp->qpc->path_mtu;
	if (qp->type != SIMHCA_QPT_UD) {
		packet->va = wqe->rdma.remote_addr + qp->req.offset;
		packet->rkey = wqe->rdma.rkey;
		packet->dma_length = left;
		packet->atomic = (struct simhca_atomic_op){
			.compare_swap = wqe->opcode == SIMHCA_WR_ATOMIC_CMP_AND_SWP,
			.compare = wqe->rdma.compare_add,
			.swap_add = wqe->opcode == SIMHCA_WR_ATOMIC_CMP_AND_SWP
					    ? wqe->rdma.swap
					    : wqe->rdma.compare_add,
		};
	}
	if (packet->op == SIMHCA_PKT_FLUSH) {
		packet->dma_length = wqe->flush.length;
		packet->flush_placement = wqe->flush.placement;
		packet->flush_selectivity = wqe->flush.selectivity;
	}
	fill_address(qp, packet);

	packet->payload.count = 0;
	packet->resumed = false;
	worker->num_absent = 0;
	if (wqe->flags & SIMHCA_WQE_INLINE) {
		packet->payload.seg[0] =
			(struct simhca_seg){ .addr = (uintptr_t)send->data + qp->req.offset,
					     .length = packet->length };
		packet->payload.count = 1;
		return SIMHCA_REASON_NONE;
	}
	if (takes_response(wqe->opcode))
		use.access = SIMHCA_ACCESS_LOCAL_WRITE;
	if (qp->req.rndv) /* a tagged buffer */
		use.pd = qp->srq->pd->number;
	return simhca_translate_sges(&use, send->sge, wqe->num_sge, qp->req.offset, packet->length,
				     &packet->payload);
}

/* The time that the QP waited for has passed; false if it has not. */
static bool wait_is_over(struct simhca_qp *qp)
{
	if (qp->req.wait == SIMHCA_WAIT_NOTHING)
		return true;
	if (qp->req.wait == SIMHCA_WAIT_FAULT) {
		if (simhca_fault_under_way(qp, qp->req.fault))
			return false;
		qp->req.wait = SIMHCA_WAIT_NOTHING;
		return true;
	}
	/* A timer that fired for an earlier wait does not count. */
	if (atomic_load(&qp->timer_fired) != qp->req.deadline)
		return false;
	if (qp->req.wait == SIMHCA_WAIT_ANSWER) {
		simhca_stats_once(qp->device, SIMHCA_STAT_LOCAL_ACK_TIMEOUT);
		simhca_silence_unanswered(qp);
	}
	/* retry_cnt repetitions are allowed, so the last time-out is one more (9.7.6.1.3). */
	if (qp->req.wait == SIMHCA_WAIT_ANSWER && !qp->req.retries--) {
		qp->req.wait = SIMHCA_WAIT_NOTHING;
		simhca_complete_send(qp, SIMHCA_WC_RETRY_EXC_ERR, qp->req.why);
		return false;
	}
	qp->req.wait = SIMHCA_WAIT_NOTHING;
	return true;
}

/* Whether the QP may send now: in SQD only what was begun before. */
static bool may_send(struct simhca_qp *qp)
{
	uint32_t state = simhca_qp_state(qp);

	if (state == SIMHCA_QPS_SQD && !qp->req.started) {
		qp->qpc->sq_draining = 0;
		if (qp->drained_event_due) {
			qp->drained_event_due = false;
			simhca_async_event(qp->context, qp->user_handle, IBV_EVENT_SQ_DRAINED);
		}
		return false;
	}
	return (state == SIMHCA_QPS_RTS || state == SIMHCA_QPS_SQD) && wait_is_over(qp);
}

/*
 * The requester has stopped at a page fault of one direction. A device has other messages under
 * way at that moment: the next one of the other direction raises its fault now, so that the two
 * are resolved side by side, be it posted already or while the requester stands.
 */
static void look_ahead(struct simhca_worker *worker, struct simhca_qp *qp)
{
	uint32_t pi = atomic_load_explicit(&qp->mem->sq_pi, memory_order_acquire);
	bool was_response = qp->req.fault == SIMHCA_REQUESTER_WRITE;

	if (pi - qp->req.index > qp->sq_entries || qp->req.rndv ||
	    simhca_fault_raised(qp, was_response ? SIMHCA_REQUESTER_READ : SIMHCA_REQUESTER_WRITE))
		return;
	simhca_guard_widen(&worker->guard);
	for (uint32_t index = qp->req.index + 1; index != pi; index++) {
		struct simhca_key_use use = {
			.worker = worker, .device = qp->device, .pd = qp->qpc->pd, .qpn = qp->qpn
		};
		struct simhca_sgl sgl = { .count = 0 };
		struct simhca_send send;
		enum simhca_reason reason;
		bool response;

		/* What is wrong with it shows when it is its turn. */
		if (simhca_sq_load(qp, index, &send) != SIMHCA_REASON_NONE)
			return;
		response = takes_response(send.wqe.opcode);
		/* A local operation has no SGEs, and so no length. */
		if (response == was_response || (send.wqe.flags & SIMHCA_WQE_INLINE) ||
		    !send.length)
			continue;
		if (response)
			use.access = SIMHCA_ACCESS_LOCAL_WRITE;
		worker->num_absent = 0;
		reason = simhca_translate_sges(
			&use, send.sge, send.wqe.num_sge, 0,
			send.length < SIMHCA_LINK_SLICE ? send.length : SIMHCA_LINK_SLICE, &sgl);
		if (reason == SIMHCA_REASON_NONE)
			simhca_fault_take(worker, qp,
					  response ? SIMHCA_REQUESTER_WRITE : SIMHCA_REQUESTER_READ,
					  &reason);
		return;
	}
}

/* Sends the next packet of the current WQE and takes its answer. */
static enum simhca_next send_packet(struct simhca_worker *worker, struct simhca_qp *qp,
				    uint64_t *bytes)
{
	struct simhca_reply reply = { .answer = SIMHCA_ANSWER_NONE,
				      .reason = SIMHCA_REASON_NO_RESPONSE };
	struct simhca_packet packet;
	enum simhca_fault_context context;
	enum simhca_fault_verdict verdict;
	enum simhca_reason reason;

	reason = build_packet(worker, qp, &packet);
	if (reason != SIMHCA_REASON_NONE) {
		simhca_complete_send(qp, SIMHCA_WC_LOC_PROT_ERR, reason);
		return SIMHCA_NEXT_WAIT;
	}
	context = simhca_requester_context(&packet);
	verdict = simhca_fault_take(worker, qp, context, &reason);
	if (verdict != SIMHCA_FAULT_GO)
		return simhca_wait_fault(qp, context, verdict, reason);
	packet.resumed = simhca_fault_resumed(qp, context);
	simhca_link_request(worker, qp, &packet, &reply);
	if (reply.answer == SIMHCA_ANSWER_ELSEWHERE) {
		simhca_engine_schedule(reply.engine, qp);
		return SIMHCA_NEXT_WAIT;
	}
	*bytes += packet.length;
	return simhca_completer_run(worker, qp, &packet, &reply);
}

bool simhca_requester_run(struct simhca_worker *worker, struct simhca_qp *qp)
{
	uint64_t bytes = 0;
	bool more = false;

	if (!simhca_qp_begin(qp))
		return false;
	for (unsigned int packets = 0; may_send(qp); packets++) {
		enum simhca_next next;

		if (packets >= BUDGET_PACKETS || bytes >= BUDGET_BYTES) {
			more = true;
			break;
		}
		if (!qp->req.started && !start_wqe(qp))
			break;
		/* The last packet narrowed the guard, and this one may go to another context. */
		simhca_guard_widen(&worker->guard);
		if (simhca_is_local_op(qp->req.send->wqe.opcode) || qp->req.answered)
			next = simhca_local_run(worker, qp);
		else
			next = send_packet(worker, qp, &bytes);
		simhca_key_release(worker, 0);
		if (next == SIMHCA_NEXT_WAIT)
			break;
	}
	if (qp->req.wait == SIMHCA_WAIT_FAULT && qp->req.started &&
	    simhca_qp_state(qp) == SIMHCA_QPS_RTS) {
		look_ahead(worker, qp);
		simhca_key_release(worker, 0);
	}
	simhca_qp_end(qp);
	return more;
}

void simhca_flush_cqe(struct simhca_cq *cq, const struct simhca_qp *qp, uint64_t wr_id,
		      uint8_t opcode, uint32_t index, uint8_t flags)
{
	struct simhca_cqe cqe = {
		.wr_id = wr_id,
		.qpn = qp->qpn,
		.vendor_err = SIMHCA_REASON_FLUSHED,
		.wqe_index = index,
		.opcode = opcode,
		.status = SIMHCA_WC_WR_FLUSH_ERR,
		.flags = flags,
	};

	simhca_cq_push(cq, &cqe, false);
	simhca_stats_once(qp->device, flags & SIMHCA_CQE_RECV ? SIMHCA_STAT_RESP_CQE_FLUSH
							      : SIMHCA_STAT_REQ_CQE_FLUSH);
}

static void flush_sq(struct simhca_qp *qp)
{
	uint32_t ci = atomic_load(&qp->mem->sq_ci), pi = atomic_load(&qp->mem->sq_pi);

	qp->req.started = false;
	simhca_rndv_drop_all(qp, true);
	qp->req.wait = SIMHCA_WAIT_NOTHING;
	simhca_engine_cancel_timer(qp);
	if (pi - ci > qp->sq_entries)
		pi = ci; /* nonsense: nothing that could be named */
	for (; ci != pi; ci++) {
		struct simhca_send_wqe wqe;

		memcpy(&wqe, qp->sq + (size_t)(ci & (qp->sq_entries - 1)) * qp->sq_stride,
		       sizeof(wqe));
		atomic_store(&qp->mem->sq_ci, ci + 1);
		simhca_flush_cqe(qp->send_cq, qp, wqe.wr_id, SIMHCA_WC_SEND, ci, 0);
	}
}

/* The receive that a message had taken, but not completed. */
static void flush_message(struct simhca_qp *qp)
{
	struct simhca_cqe cqe = {
		.wr_id = qp->resp.recv.wr_id,
		.qpn = qp->qpn,
		.vendor_err = SIMHCA_REASON_FLUSHED,
		.opcode = SIMHCA_WC_RECV,
		.status = SIMHCA_WC_WR_FLUSH_ERR,
		.flags = SIMHCA_CQE_RECV | (qp->srq ? SIMHCA_CQE_SRQ : 0),
	};

	qp->resp.in_message = false;
	if (!qp->resp.have_recv)
		return;
	qp->resp.have_recv = false;
	if (qp->srq && qp->srq->tags)
		simhca_tm_fill_cqe(qp, &cqe);
	simhca_stats_once(qp->device, SIMHCA_STAT_RESP_CQE_FLUSH);
	simhca_cq_push(simhca_recv_cq(qp, qp->srq), &cqe, false);
}

static void flush_rq(struct simhca_qp *qp)
{
	struct simhca_recv recv;

	flush_message(qp);
	if (qp->srq)
		return; /* its WQEs belong to the other QPs as well */
	/* Once around the ring: a client that posts on meanwhile rings for the rest. */
	for (uint32_t i = 0; i < qp->rq_entries && simhca_rq_take(qp, &recv) == SIMHCA_TAKE_OK; i++)
		simhca_flush_cqe(qp->recv_cq, qp, recv.wr_id, SIMHCA_WC_RECV, 0, SIMHCA_CQE_RECV);
}

void simhca_flush(struct simhca_qp *qp)
{
	if (simhca_qp_begin_both(qp, false)) {
		simhca_engine_arm_timer(qp, FLUSH_RETRY_NS);
		return;
	}
	switch (simhca_qp_state(qp)) {
	case SIMHCA_QPS_ERR:
		/* No page fault of a dead QP: the end of the last one brings us here again. */
		if (!simhca_faults_disable(qp))
			break;
		flush_sq(qp);
		flush_rq(qp);
		if (qp->last_wqe_event_due) {
			qp->last_wqe_event_due = false;
			simhca_async_event(qp->context, qp->user_handle,
					   IBV_EVENT_QP_LAST_WQE_REACHED);
		}
		break;
	case SIMHCA_QPS_SQE:
		flush_sq(qp);
		break;
	}
	simhca_qp_end_both(qp);
}
