/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A step changes nothing before it knows that it can carry the whole message. What the peer can write
 * it reads once, by the gates that the device uses; what these refuse it leaves to the device, which
 * then fails the QP.
 *
 * The order is: a receive is claimed, if it comes from an SRQ; the data are placed; the CQE of the
 * peer's receive is reserved and filled; on UC that of the send, too; the responder commits, with the
 * number of its CQE and of what was consumed; that CQE is published. Then the requester does the same. If
 * the program ends between the two commits, its QP ends with it.
 *
 * What cannot go on is left to the device. If the message has not come yet, the device goes on with the receive
 * that was claimed, and a CQE that was reserved is void. If it has come, and only the sender cannot complete
 * it, the device sends it again, and a reliable responder takes it for the duplicate that it is.
 */
#include <string.h>
#include <sys/uio.h>

#include "core/mtu.h"
#include "simhca-clock.h"
#include "step_impl.h"

/* Longer messages are the device's: a copy of so many bytes takes 250 us, under two owner words. */
#define MOST_BYTES (4u << 20)
/* How often a step looks at an owner word that the device holds: longer than a message takes. */
#define OWNER_LOOKS 4000
/* How many writes of a list go by one system call: one more costs less than half of a call. */
#define GATHERED_LEAST 3
#define GATHERED_MOST 64
#define GATHERED_BYTES (256u * 1024u)
/* The time is taken of the first messages, and then of one after a gap of up to 127. */
#define SAMPLE_ALL_OF 64
#define SAMPLE_SHIFT 25
#define SAMPLE_WEIGHT 4
/* How often another may claim the receive first, before the message is left to the device. */
#define CLAIM_TRIES 64

/* What a step changes under both owner words. Nobody sees it before it is committed. */
struct held {
	struct simhca_step_held *own;
	struct simhca_responder resp;
	uint32_t resp_generation;
	bool resp_changed;
	bool wakes; /* the peer's event is due, and not yet raised */
};

#define DONE SIMHCA_STEP_DONE

/* ------------------------------------------------------------------------- owner words */

static bool acquire_word(struct simhca_owner *word, uint32_t name, uint32_t *generation)
{
	uint32_t none = 0;

	simhca_store();
	/* acquire: pairs with the release by the holder before, which wrote the copy. */
	if (!atomic_compare_exchange_strong_explicit(&word->holder, &none, name,
						     memory_order_acquire, memory_order_relaxed))
		return false;
	*generation = atomic_load_explicit(&word->generation, memory_order_relaxed);
	return true;
}

bool simhca_step_end(struct simhca_owner *word, uint32_t name)
{
	uint32_t holder = name;

	simhca_store();
	/* release: the copies are written before. Only the holder releases the word. */
	if (atomic_compare_exchange_strong_explicit(&word->holder, &holder, 0, memory_order_acq_rel,
						    memory_order_relaxed))
		return false;
	holder = name | SIMHCA_OWNER_WANTED;
	atomic_compare_exchange_strong_explicit(&word->holder, &holder, 0, memory_order_acq_rel,
						memory_order_relaxed);
	return true;
}

static void commit_responder(struct simhca_step *step, struct held *held)
{
	if (held->resp_changed)
		simhca_progress_commit_responder(step->peer.mem, &held->resp_generation,
						 &held->resp);
	held->resp_changed = false;
}

bool simhca_step_may(const struct simhca_step *step, uint32_t *peer_state)
{
	*peer_state = atomic_load(&step->peer.qpc->state);
	/* seq_cst, after the guard was entered: whoever changes the epoch looks at the guard then. */
	return atomic_load(&step->qpc->fastpath_epoch) == step->fastpath_epoch &&
	       atomic_load(&step->peer.qpc->fastpath_epoch) == step->peer.fastpath_epoch &&
	       atomic_load(&step->qpc->state) == SIMHCA_QPS_RTS &&
	       atomic_load(&step->device->port.state) == 4 /* IBV_PORT_ACTIVE */;
}

/* Whether no message is under way on either side, so that a whole one can begin. */
static int look(const struct simhca_step *step, uint32_t peer_state, struct held *held,
		uint32_t *posted)
{
	const struct simhca_requester *req = &held->own->req;
	const struct simhca_responder *resp = &held->resp;
	int why = simhca_step_look(step, held->own, posted);

	if (why != DONE)
		return why;
	if (!simhca_progress_responder(step->peer.mem, held->resp_generation, step->peer.rq_entries,
				       step->peer.claims, &held->resp))
		return SIMHCA_SLOW_WAITS;
	/* The first message to come in RTR is an event. */
	if (peer_state != SIMHCA_QPS_RTS && !(peer_state == SIMHCA_QPS_RTR && resp->comm_est))
		return SIMHCA_SLOW_STATE;
	if (req->wait || resp->in_message || resp->have_recv || resp->nak_sent || resp->owed ||
	    resp->epsn != req->psn_next)
		return SIMHCA_SLOW_WAITS;
	return DONE;
}

static bool copy(const struct simhca_step *step, const struct simhca_step_message *msg)
{
	if (!msg->length || msg->stay_in_cq)
		return true;
	return simhca_step_copy(step, &msg->own, &msg->there, msg->length,
				simhca_step_is_read_like(msg));
}

/* ------------------------------------------------------------------------- the message */

static bool is_send(const struct simhca_step_message *msg)
{
	return msg->packet.op == SIMHCA_PKT_SEND;
}

/* Whether a receive of the peer's completes by it. */
static bool consumes_receive(const struct simhca_step_message *msg)
{
	return is_send(msg) || msg->packet.has_imm;
}

int simhca_step_read_send(const struct simhca_step *step, uint32_t index,
			  struct simhca_step_message *msg)
{
	const struct simhca_qpc *qpc = step->qpc;
	const char *slot = simhca_ring_wqe(step->sq, index, step->sq_entries, step->sq_stride);
	const struct simhca_sge *sge = (const struct simhca_sge *)(slot + sizeof(msg->wqe));
	const uint32_t type = atomic_load_explicit(&qpc->type, memory_order_relaxed);
	struct simhca_step_rights rights = { .pd = qpc->pd, .mm = step->mm, .own = true };
	bool in_sges = false;
	uint64_t length;
	uint32_t bytes;

	msg->stay_in_cq = false;
	msg->own.mapped = false;
	if (simhca_send_load(slot, qpc->max_send_sge, qpc->max_inline, &msg->wqe, &bytes) !=
		    SIMHCA_REASON_NONE ||
	    !simhca_op_has(msg->wqe.opcode, SIMHCA_OP_FAST_PATH))
		return SIMHCA_SLOW_REQUEST;
	/* A CQ that is armed later has to tell of this message, too, and only the device can. */
	if ((msg->wqe.flags & SIMHCA_WQE_SOLICITED) && step->device->attr.event_at_arm)
		return SIMHCA_SLOW_REQUEST;
	msg->own.count = 1;
	if (msg->wqe.flags & SIMHCA_WQE_INLINE) {
		length = bytes;
		msg->own.iov[0] = (struct iovec){ (void *)sge, length };
	} else if (msg->wqe.opcode == SIMHCA_WR_ATOMIC_WRITE && !msg->wqe.num_sge) {
		length = sizeof(msg->wqe.rdma.swap);
		msg->own.iov[0] = (struct iovec){ &msg->wqe.rdma.swap, length };
	} else {
		length = simhca_gate_length(sge, msg->wqe.num_sge);
		in_sges = true;
	}
	if (length > MOST_BYTES || simhca_gate_operation(&msg->wqe, type, length,
							 qpc->max_rd_atomic) != SIMHCA_REASON_NONE)
		return SIMHCA_SLOW_REQUEST;
	msg->packet.op = simhca_opcode(msg->wqe.opcode)->packet;
	msg->length = (uint32_t)length;
	msg->old = 0;
	if (simhca_step_fetches(msg))
		rights.access = SIMHCA_ACCESS_LOCAL_WRITE;
	if (in_sges &&
	    !simhca_step_find_sges(step, sge, msg->wqe.num_sge, 0, length, rights, &msg->own))
		return SIMHCA_SLOW_MEMORY;
	msg->psns = simhca_psn_count(msg->length, simhca_mtu_bytes(qpc->path_mtu));
	return DONE;
}

/* Bytes of the receive's memory that are before the data. */
static uint64_t header_bytes(const struct simhca_step_message *msg)
{
	return msg->packet.transport == SIMHCA_QPT_UD ? SIMHCA_GRH_BYTES : 0;
}

/* How many of them nothing is written to: a header without a GRH. */
static uint64_t unused_bytes(const struct simhca_step_message *msg)
{
	return msg->packet.av->is_global ? 0 : header_bytes(msg);
}

/* Finds the memory of the receive that a SEND is written to. */
static bool finds_memory(const struct simhca_step *step, struct simhca_step_message *msg)
{
	const struct simhca_step_rights rights = { step->peer.rq_pd, step->peer.mm,
						   SIMHCA_ACCESS_LOCAL_WRITE, false, false };
	const uint64_t end = header_bytes(msg) + msg->length;
	uint64_t offset;

	if (!is_send(msg))
		return true;
	if (msg->recv.length < end)
		return false;
	offset = unused_bytes(msg);
	return simhca_step_find_sges(step, msg->recv.sge, msg->recv.num_sge, offset, end - offset,
				     rights, &msg->there);
}

/*
 * Whether the data may stay in the CQ. The poller copies them to the first SGE, by the address that it has
 * posted. A quarter of the room is for those who reserve a CQE until this message has one.
 */
static bool may_stay(const struct simhca_step *step, const struct simhca_step_message *msg)
{
	const struct simhca_cq_view *cq = &step->peer.recv_cq;

	return is_send(msg) && simhca_recv_may_wait(&msg->recv, header_bytes(msg), msg->length) &&
	       !msg->there.mapped &&
	       (uintptr_t)msg->there.iov[0].iov_base == msg->recv.sge[0].addr + unused_bytes(msg) &&
	       simhca_cq_has_data(cq, simhca_cq_producer(cq) + cq->data_slots / 4);
}

/* The next of the peer's own receives. */
static int find_own(const struct simhca_step *step, const struct simhca_responder *resp,
		    struct simhca_step_message *msg)
{
	uint32_t posted;
	char *slot;

	if (!simhca_progress_recvs(step->peer.mem, resp->rq_ci, step->peer.rq_entries, &posted) ||
	    !posted)
		return SIMHCA_SLOW_RECEIVE;
	slot = (char *)simhca_ring_wqe(step->peer.rq, resp->rq_ci, step->peer.rq_entries,
				       step->peer.rq_stride);
	if (!simhca_recv_load(slot, step->peer.rq_max_sge, &msg->recv) || !finds_memory(step, msg))
		return SIMHCA_SLOW_RECEIVE;
	msg->stay_in_cq = step->peer.data_may_stay && may_stay(step, msg);
	return DONE;
}

struct simhca_srq_view simhca_step_queue(const struct simhca_step *step)
{
	return (struct simhca_srq_view){ .mem = step->peer.claims,
					 .ring = step->peer.rq,
					 .entries = step->peer.rq_entries,
					 .stride = step->peer.rq_stride,
					 .max_sge = step->peer.rq_max_sge };
}

/*
 * Whether fewer receives are left than the SRQ's limit. The device has to report it, whatever is posted
 * before it is told.
 */
static bool reaches_limit(const struct simhca_step *step, const struct simhca_srq_view *srq)
{
	uint64_t limit = step->peer.is_srq ? simhca_srq_is_below(srq) : 0;

	if (!limit)
		return false;
	atomic_store(&step->fastpath->srq_limit,
		     limit << 32 |
			     atomic_load_explicit(&step->peer.qpc->qpn, memory_order_relaxed));
	return true;
}

int simhca_step_claim(const struct simhca_step *step, struct simhca_step_held *held, char *copy,
		      struct simhca_step_message *msg, uint32_t *claim)
{
	const struct simhca_srq_view queue = simhca_step_queue(step);
	uint64_t head;

	for (int i = 0; i < CLAIM_TRIES; i++) {
		if (simhca_recv_look(&queue, &head, &msg->recv) || !finds_memory(step, msg))
			return SIMHCA_SLOW_RECEIVE;
		if (!simhca_recv_take(&queue, head, step->peer.claimant, copy, &msg->recv))
			continue;
		msg->stay_in_cq =
			step->peer.data_may_stay && msg->recv.record && may_stay(step, msg);
		*claim = simhca_srq_ci(head) + 1;
		held->events |= reaches_limit(step, &queue);
		return DONE;
	}
	return SIMHCA_SLOW_RECEIVE;
}

/*
 * Copies the data of the writes from index `from` on, up to `pi`, by one system call. It completes
 * none of them: a write that then cannot complete is copied again. Returns the first index whose
 * data it has not copied.
 */
static uint32_t write_ahead(const struct simhca_step *step, uint32_t from, uint32_t pi)
{
	struct iovec own[GATHERED_MOST], there[GATHERED_MOST];
	uint64_t bytes = 0;
	struct simhca_step_message msg;
	int count = 0;
	const struct simhca_send_wqe *first =
		(const void *)simhca_ring_wqe(step->sq, from, step->sq_entries, step->sq_stride);

	/* The opcode is only a hint here: each WQE is read by its gate below. */
	if (pi - from < GATHERED_LEAST || first->opcode != SIMHCA_WR_RDMA_WRITE)
		return from;
	/* An atomic may come in between, and a second copy would undo it. */
	if (step->peer.writing.there)
		return from;
	while (count < GATHERED_MOST && from + (uint32_t)count != pi &&
	       simhca_step_read_send(step, from + (uint32_t)count, &msg) == DONE &&
	       msg.wqe.opcode == SIMHCA_WR_RDMA_WRITE && msg.own.count == 1 && msg.length &&
	       msg.length <= GATHERED_BYTES - bytes &&
	       simhca_step_find_remote(step, &msg) == DONE && !msg.there.mapped) {
		own[count] = msg.own.iov[0];
		there[count++] = msg.there.iov[0];
		bytes += msg.length;
	}
	if (count < GATHERED_LEAST ||
	    !simhca_step_move(step, own, count, there, count, bytes, false))
		return from;
	return from + (uint32_t)count;
}

bool simhca_step_has_room(const struct simhca_cq_view *cq)
{
	uint32_t pi = simhca_cq_producer(cq);

	return !atomic_load_explicit(&cq->mem->overrun, memory_order_relaxed) &&
	       simhca_cq_has_room(cq, pi) && simhca_cqe_may_reserve(SIMHCA_OWNER_PROGRAM, pi);
}

/* ------------------------------------------------------------------------- what it does */

/*
 * Wakes the peer, after the message has completed here as well: a program with one channel for both
 * of its CQs may count on getting its own completion before the answer (ib_send_lat -e does).
 */
static void wake_peer(const struct simhca_step *step, struct held *held)
{
	struct simhca_step_events events;

	if (!held->wakes)
		return;
	held->wakes = false;
	events = simhca_step_recv_events(step);
	simhca_step_notify(step, held->own, &events);
}

/* Moves the peer's responder past the message. */
static void advance(struct simhca_step *step, struct held *held,
		    const struct simhca_step_message *msg)
{
	simhca_responder_did(&held->resp, step->peer.mem, &msg->packet, msg->psns, msg->old);
	held->resp_changed = true;
}

/* Whether the responder drops a message that comes a second time. */
static bool knows_duplicates(const struct simhca_step *step)
{
	return simhca_is_reliable(atomic_load_explicit(&step->qpc->type, memory_order_relaxed));
}

/* The message is the device's, which goes on with the receive that was claimed for it. */
static int leave(const struct simhca_step *step, struct held *held,
		 const struct simhca_step_message *msg, enum simhca_slow_reason why)
{
	if (consumes_receive(msg) && step->peer.claims)
		held->resp.have_recv = held->resp_changed = true;
	return why;
}

/* The message completes on both sides; that of the sender is not published yet. */
static int complete_both(struct simhca_step *step, struct held *held,
			 const struct simhca_step_message *msg)
{
	const bool may_come_again = knows_duplicates(step);
	struct simhca_step_events events;
	uint32_t cqe_index;
	bool data_fit;

	if (!simhca_step_reserve_receive(step, held->own->name, msg, &cqe_index, &data_fit))
		return leave(step, held, msg, SIMHCA_SLOW_CQ);
	if (data_fit)
		simhca_step_write_receive(step, msg, msg->length, &msg->own, cqe_index);
	/* A responder that would take the message again gets it only once the sender's part is sure. */
	if (!data_fit || (!may_come_again && !simhca_step_complete(step, held->own, msg))) {
		simhca_step_take_back(step, held->own, cqe_index);
		return leave(step, held, msg, SIMHCA_SLOW_CQ);
	}
	advance(step, held, msg);
	if (!step->peer.claims)
		held->resp.rq_ci++;
	held->resp.cqe_index = cqe_index + 1;
	simhca_step_add(&step->peer.mem->received, 1);
	simhca_step_add(&step->peer.mem->received_bytes, msg->length);
	commit_responder(step, held);
	simhca_cqe_publish(&step->peer.recv_cq, cqe_index);
	events = simhca_step_recv_events(step);
	held->wakes = simhca_step_disarm(&events, cqe_index, simhca_step_matches(msg));
	return may_come_again && !simhca_step_complete(step, held->own, msg) ? SIMHCA_SLOW_CQ
									     : DONE;
}

bool simhca_step_complete(const struct simhca_step *step, struct simhca_step_held *held,
			  const struct simhca_step_message *msg)
{
	const struct simhca_cqe cqe =
		simhca_cqe_of_send(&msg->wqe,
				   atomic_load_explicit(&step->qpc->qpn, memory_order_relaxed),
				   held->req.oldest, msg->length);
	bool signaled = simhca_is_signaled(&msg->wqe, step->qpc);
	struct simhca_requester *req = &held->req;
	uint32_t cqe_index;

	if (signaled && !simhca_cqe_reserve(&step->send_cq, held->name, &cqe_index))
		return false;
	req->oldest++;
	req->psn_next = simhca_psn_add(req->psn_next, msg->psns);
	req->psn_una = req->psn_send = req->psn_sent = req->psn_next;
	held->changed = true;
	if (!signaled)
		return true;
	simhca_store();
	simhca_cqe_write(simhca_cq_slot(&step->send_cq, cqe_index), &cqe);
	req->cqe_index = cqe_index + 1;
	return true;
}

/* Of a message that consumes no receive: only the sender's side completes. */
static int complete_one(struct simhca_step *step, struct held *held,
			const struct simhca_step_message *msg)
{
	if (!simhca_step_complete(step, held->own, msg))
		return SIMHCA_SLOW_CQ;
	advance(step, held, msg);
	return DONE;
}

/* An atomic counts once it is carried out, whether or not its result can be stored, or its CQE reserved. */
static int finish_atomic(struct simhca_step *step, struct held *held,
			 struct simhca_step_message *msg)
{
	if (!simhca_step_atomic(step, held->own->name, msg))
		return SIMHCA_SLOW_COPY;
	advance(step, held, msg);
	if (!simhca_step_place_result(step, msg))
		return SIMHCA_SLOW_COPY;
	return simhca_step_complete(step, held->own, msg) ? DONE : SIMHCA_SLOW_CQ;
}

/* Places the data, and completes both sides. */
static int finish(struct simhca_step *step, struct held *held, struct simhca_step_message *msg,
		  bool written)
{
	int why;

	if (simhca_step_is_atomic(msg))
		why = finish_atomic(step, held, msg);
	else if (!written && !copy(step, msg))
		why = leave(step, held, msg, SIMHCA_SLOW_COPY);
	else
		why = consumes_receive(msg) ? complete_both(step, held, msg)
					    : complete_one(step, held, msg);
	if (why != DONE || !simhca_is_signaled(&msg->wqe, step->qpc))
		return why;
	commit_responder(step, held);
	simhca_step_commit(step, held->own);
	simhca_step_publish_send(step, held->own);
	return DONE;
}

/*
 * Of 64 messages one is timed, and counts as four: the device times one in 16, and both ways of a QP
 * are added up in one histogram.
 */
void simhca_step_took(struct simhca_step *step, uint64_t since_ns)
{
	uint64_t ns = simhca_now_ns() - since_ns;
	uint32_t bucket = simhca_latency_bucket(ns), last = SIMHCA_FASTPATH_LATENCIES - 1;
	_Atomic uint32_t *count = &step->fastpath->latency[bucket < last ? bucket : last];
	uint32_t weight = 1;

	if (step->sample.times < SAMPLE_ALL_OF) {
		step->sample.times++;
	} else {
		step->sample.random = step->sample.random * 1664525 + 1013904223;
		step->sample.until = step->sample.random >> SAMPLE_SHIFT;
		weight = SAMPLE_WEIGHT;
	}
	/* relaxed: a number by itself, which one thread at a time writes. */
	atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + weight,
			      memory_order_relaxed);
}

/*
 * Whether this read would be one more than the responder takes at a time; then the device refuses it.
 * Here a read is done before the post returns. On hardware the reads are under way together that a
 * program posts without polling for any of them, and within about the time that one takes.
 */
static bool exceeds_rd_atomic(struct simhca_step *step, const struct simhca_send_wqe *wqe,
			      uint32_t index, uint32_t posted)
{
	uint32_t most = step->peer.qpc->max_dest_rd_atomic, ci;
	struct simhca_send_wqe *slot;

	if (step->qpc->max_rd_atomic <= most)
		return false;
	if (posted > most)
		return true; /* the device lets it pass if a fence stands between them */
	ci = atomic_load_explicit(&step->send_cq.mem->ci, memory_order_relaxed);
	if ((wqe->flags & SIMHCA_WQE_FENCE) || step->reads.ci != ci ||
	    simhca_now_ns() - step->reads.ended_ns > step->reads.most_ns)
		step->reads.count = 0;
	step->reads.ci = ci;
	if (step->reads.count++ < most)
		return false;
	slot = (void *)(uintptr_t)simhca_ring_wqe(step->sq, index, step->sq_entries,
						  step->sq_stride);
	slot->flags |= SIMHCA_WQE_EXCEEDS_RD_ATOMIC;
	return true;
}

/* Carries the next of `posted` messages; written: its data are in place already. */
static SIMHCA_STEP_INLINE int carry(struct simhca_step *step, struct held *held, uint32_t posted,
				    bool written)
{
	struct simhca_step_message msg;
	int why = simhca_step_read_send(step, held->own->req.oldest, &msg);

	if (why != DONE)
		return why;
	simhca_step_make_packet(step, held->resp.epsn, &msg);
	if (consumes_receive(&msg)) {
		if (!step->peer.claims)
			why = find_own(step, &held->resp, &msg);
		if (why == DONE && !simhca_step_has_room(&step->peer.recv_cq))
			why = SIMHCA_SLOW_CQ;
	}
	if (why == DONE && !is_send(&msg))
		why = simhca_step_find_remote(step, &msg);
	if (why == DONE && simhca_step_is_read_like(&msg) &&
	    exceeds_rd_atomic(step, &msg.wqe, held->own->req.oldest, posted))
		why = SIMHCA_SLOW_REQUEST;
	if (why == DONE && simhca_is_signaled(&msg.wqe, step->qpc) &&
	    !simhca_step_has_room(&step->send_cq))
		why = SIMHCA_SLOW_CQ;
	if (why == DONE && consumes_receive(&msg) && step->peer.claims)
		/* The copy behind the peer's progress tells the device of it, if this step ends. */
		why = simhca_step_claim(step, held->own, (char *)(step->peer.mem + 1), &msg,
					&held->resp.claim);
	if (why != DONE)
		return why;
	why = finish(step, held, &msg, written);
	if (simhca_step_is_read_like(&msg) && step->reads.count)
		step->reads.ended_ns = simhca_now_ns();
	wake_peer(step, held);
	if (why == DONE)
		simhca_step_count(step, &msg);
	return why;
}

/*
 * Carries messages under both owner words. True: none is left, or *why says why the next one is the
 * device's.
 */
static SIMHCA_STEP_INLINE bool run(struct simhca_step *step, uint32_t peer_state, struct held *held,
				   int *why)
{
	const struct simhca_requester *req = &held->own->req;
	uint32_t pi, written, posted;
	uint64_t since;
	bool ahead, was_ahead;

	*why = look(step, peer_state, held, &posted);
	if (*why != DONE)
		return true;
	written = req->oldest;
	pi = req->oldest + posted;
	for (uint32_t n = 0; *why == DONE && req->oldest != pi; n++) {
		if (n == SIMHCA_STEP_MESSAGES)
			return false;
		was_ahead = written != req->oldest;
		/* How long a message took that was copied with others nobody knows. */
		since = was_ahead ? 0 : simhca_step_begins(step);
		if (!was_ahead)
			written = write_ahead(step, written, pi);
		ahead = written != req->oldest;
		*why = carry(step, held, pi - req->oldest, ahead);
		if (__builtin_expect(since && *why == DONE, 0))
			simhca_step_took(step, since);
		if (!ahead)
			written = req->oldest;
	}
	return true;
}

/*
 * The device has the owner word while the program posts more. Asked by `wants`, it releases the word
 * after the message that it is at: within microseconds, unless its thread has no CPU.
 */
static bool wait_for_device(struct simhca_step *step, struct simhca_step_held *held)
{
	struct simhca_owner *word = &step->mem->req_owner;
	bool acquired = false;

	atomic_store_explicit(&step->fastpath->wants, 1, memory_order_relaxed);
	if (!simhca_spin_wanted(&step->spin))
		return false;
	for (int i = 0; i < OWNER_LOOKS && !acquired; i++)
		acquired = !atomic_load_explicit(&word->holder, memory_order_relaxed) &&
			   acquire_word(word, held->name, &held->generation);
	simhca_spin_done(&step->spin, acquired);
	return acquired;
}

bool simhca_step_acquire_own(struct simhca_step *step, struct simhca_step_held *held)
{
	struct simhca_fastpath *fastpath = step->fastpath;

	if (!acquire_word(&step->mem->req_owner, held->name, &held->generation) &&
	    !wait_for_device(step, held))
		return false;
	/* relaxed, as `wants` is above: nothing depends on these hints. */
	if (atomic_load_explicit(&fastpath->left, memory_order_relaxed))
		atomic_store_explicit(&fastpath->left, 0, memory_order_relaxed);
	return true;
}

/* Called under the requester's owner word; takes the responder's as well. */
static SIMHCA_STEP_INLINE bool carry_all(void *arg, struct simhca_step_held *own, int *why)
{
	struct simhca_step *step = arg;
	struct simhca_owner *word = &step->peer.mem->resp_owner;
	struct held held; /* look() fills what is large */
	uint32_t state;
	bool all;

	held.own = own;
	held.resp_changed = held.wakes = false;

	/* Before its memory is touched: the peer's queues may have been replaced. */
	if (!simhca_step_may(step, &state)) {
		*why = SIMHCA_SLOW_STATE;
		return false;
	}
	if (!acquire_word(word, own->name, &held.resp_generation)) {
		*why = SIMHCA_SLOW_OWNER;
		return false;
	}
	all = run(step, state, &held, why);
	commit_responder(step, &held);
	simhca_step_end(word, own->name);
	return all;
}

bool simhca_step(struct simhca_step *step)
{
	return simhca_step_rounds(step, carry_all, step);
}
