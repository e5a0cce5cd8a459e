/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What steps of connected QPs (step.c) and of datagrams (step_ud.c) have in common. */
#ifndef LIBSIMHCA_STEP_IMPL_H
#define LIBSIMHCA_STEP_IMPL_H

#include <assert.h>
#include <sys/uio.h>

#include "message/done.h"
#include "packet/traffic.h"
#include "queue/atomic_op.h"
#include "queue/recv.h"
#include "simhca-clock.h"
#include "step.h"

/* The message is done. Other values say why it is not: enum simhca_slow_reason. */
#define SIMHCA_STEP_DONE (-1)
/* Messages that a step carries before it releases the owner words, which others may want. */
#define SIMHCA_STEP_MESSAGES 64u
/* Bytes of a packet of the local link: each counts for one acknowledgement. */
#define SIMHCA_STEP_LINK_BYTES (256u * 1024u)

/* For functions that are called in one place, and that gcc takes for too large to inline. */
#define SIMHCA_STEP_INLINE inline __attribute__((always_inline))

/* Memory, piece by piece. */
struct simhca_step_list {
	int count;
	/* All of it lies in regions of files, as they are mapped here; false: of the peer's none does. */
	bool mapped;
	struct iovec iov[SIMHCA_MAX_SGE + 1]; /* a datagram has a header as well */
};

/* What a key is used for: its region's PD and address space, and the access that it has to grant. */
struct simhca_step_rights {
	uint32_t pd, mm, access;
	bool own;     /* the key is of this program's */
	bool by_file; /* what lies in a file may be reached where that is mapped, and in no other way */
};

/* A message, as it was read. */
struct simhca_step_message {
	struct simhca_send_wqe wqe;
	struct simhca_packet packet;
	uint32_t length, psns;
	uint64_t old;		     /* what an atomic has found */
	struct simhca_step_list own; /* in this program's memory: what is sent, or where it goes */
	struct simhca_step_list there; /* in the peer's memory */
	bool stay_in_cq; /* the data, until the peer polls; not: they are placed at once */
	struct simhca_recv recv;
};

/* The three below compare: these are the opcodes that the fast path carries, in this order. */
static_assert(SIMHCA_PKT_WRITE < SIMHCA_PKT_READ && SIMHCA_PKT_READ < SIMHCA_PKT_COMPARE_SWAP &&
		      SIMHCA_PKT_COMPARE_SWAP < SIMHCA_PKT_FETCH_ADD &&
		      SIMHCA_PKT_FETCH_ADD < SIMHCA_PKT_ATOMIC_WRITE,
	      "enum simhca_packet_op has another order");

/* Whether max_rd_atomic counts it: reads, atomics and atomic writes. */
static inline bool simhca_step_is_read_like(const struct simhca_step_message *msg)
{
	return msg->packet.op >= SIMHCA_PKT_READ;
}

static inline bool simhca_step_fetches(const struct simhca_step_message *msg)
{
	return simhca_step_is_read_like(msg) && msg->packet.op != SIMHCA_PKT_ATOMIC_WRITE;
}

static inline bool simhca_step_is_atomic(const struct simhca_step_message *msg)
{
	return msg->packet.op > SIMHCA_PKT_READ;
}

/* The requester, under its owner word. Nobody sees what has changed before it is committed. */
struct simhca_step_held {
	uint32_t name, generation;
	struct simhca_requester req;
	bool changed; /* since it was committed */
	bool events;  /* the device has to raise an event */
};

/* How a CQ's events are raised; `due` and `notifying` count those that the device has to raise. */
struct simhca_step_events {
	const struct simhca_cq_view *cq;
	const struct simhca_notify *notify;
	_Atomic uint32_t *due, *notifying;
};

/* relaxed: a counter that one thread at a time writes, and that orders nothing. */
static inline void simhca_step_add(_Atomic uint64_t *count, uint64_t n)
{
	atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + n,
			      memory_order_relaxed);
}

/* ------------------------------------------------------------------------- owner words */

/* Acquires the owner word of the QP's requester; waits a moment if the device has it. */
bool simhca_step_acquire_own(struct simhca_step *step, struct simhca_step_held *held);
/* Releases an owner word. True: the device wants it. */
bool simhca_step_end(struct simhca_owner *word, uint32_t name);

static inline void simhca_step_commit(struct simhca_step *step, struct simhca_step_held *held)
{
	if (held->changed)
		simhca_progress_commit_requester(step->mem, &held->generation, &held->req);
	held->changed = false;
}

/* Whether QP and peer are still those that were attached, and the QP may send; *peer_state. */
bool simhca_step_may(const struct simhca_step *step, uint32_t *peer_state);
/* The requester as it was committed, and how many WQEs it has to carry. */
static inline int simhca_step_look(const struct simhca_step *step, struct simhca_step_held *held,
				   uint32_t *posted)
{
	/* What makes no sense is the device's to refuse. */
	if (!simhca_progress_requester(step->mem, held->generation, step->sq_entries, &held->req,
				       NULL))
		return SIMHCA_SLOW_WAITS;
	return simhca_progress_sends(step->mem, held->req.oldest, 0, step->sq_entries, posted)
		       ? SIMHCA_STEP_DONE
		       : SIMHCA_SLOW_REQUEST;
}

/* ------------------------------------------------------------------------- the message */

/*
 * Turns a message that was read into the one packet that it would be on the local link. It sets only
 * what done.h and packet/traffic.h look at: to clear the rest would take longer than to set these.
 */
static inline void simhca_step_make_packet(const struct simhca_step *step, uint32_t psn,
					   struct simhca_step_message *msg)
{
	const struct simhca_send_wqe *wqe = &msg->wqe;
	const struct simhca_opcode *opcode = simhca_opcode(wqe->opcode);
	struct simhca_packet *packet = &msg->packet;

	packet->transport = atomic_load_explicit(&step->qpc->type, memory_order_relaxed);
	packet->first = packet->last = true;
	packet->solicited = wqe->flags & SIMHCA_WQE_SOLICITED;
	packet->has_imm = opcode->has & SIMHCA_OP_IMM;
	packet->has_inv = false;
	packet->exceeds_rd_atomic = false;
	packet->mtu = step->qpc->path_mtu;
	packet->psn = psn;
	packet->src_qpn = atomic_load_explicit(&step->qpc->qpn, memory_order_relaxed);
	packet->va = wqe->rdma.remote_addr;
	packet->dma_length = msg->length;
	packet->rkey = wqe->rdma.rkey;
	packet->imm_or_rkey = wqe->imm_or_rkey;
	packet->slid = step->device->port.lid;
	packet->av = packet->transport == SIMHCA_QPT_UD ? &wqe->ud.av : &step->qpc->av;
	packet->length = simhca_step_fetches(msg) ? 0 : msg->length;
}

/* Finds the memory of [offset, offset + length) of an SGE list that has so many bytes. */
bool simhca_step_find_sges(const struct simhca_step *step, const struct simhca_sge *sge,
			   uint32_t num_sge, uint64_t offset, uint64_t length,
			   struct simhca_step_rights rights, struct simhca_step_list *list);
/* Reads the send WQE, and finds its memory. */
int simhca_step_read_send(const struct simhca_step *step, uint32_t index,
			  struct simhca_step_message *msg);
/* The queue that the peer's receives are claimed from. */
struct simhca_srq_view simhca_step_queue(const struct simhca_step *step);
/*
 * Claims a receive of that queue for the message, after it was copied, and finds its memory. *claim:
 * the queue's index behind it.
 */
int simhca_step_claim(const struct simhca_step *step, struct simhca_step_held *held, char *copy,
		      struct simhca_step_message *msg, uint32_t *claim);
/* Finds the peer's memory that an RDMA operation reads, writes to or changes: enum simhca_slow_reason. */
int simhca_step_find_remote(const struct simhca_step *step, struct simhca_step_message *msg);
/* The pieces of a list, one behind the other, to memory that has room for them. */
static inline void simhca_step_gather(char *to, const struct simhca_step_list *list)
{
	simhca_store();
	for (int i = 0; i < list->count; to += list->iov[i++].iov_len)
		memcpy(to, list->iov[i].iov_base, list->iov[i].iov_len);
}

/* Copies all. False: some or none of it was copied, and nobody is told of it. */
bool simhca_step_copy(const struct simhca_step *step, const struct simhca_step_list *own,
		      const struct simhca_step_list *there, uint64_t bytes, bool read);
/* Likewise, by the kernel alone: memory that is not mapped here, of a process without writer slots. */
bool simhca_step_move(const struct simhca_step *step, const struct iovec *own, int num_own,
		      const struct iovec *there, int num_there, uint64_t bytes, bool read);
/* Likewise, where the peer's is mapped. False: memory of the one or the other is not there. */
bool simhca_step_copy_mapped(const struct simhca_step *step, const struct simhca_step_list *own,
			     const struct simhca_step_list *there, uint64_t bytes, bool read);
/* False: an atomic on that memory is still under way, so nothing may be written there now. */
bool simhca_step_writing_begin(const struct simhca_writing *writing);
/*
 * Whether the program can carry out the atomic that was found, by one instruction in a region that it has
 * mapped (on-chip memory may be registered from any byte on), or with the others kept off: without
 * writer slots only the device can do that.
 */
static inline bool simhca_step_may_try_atomic(const struct simhca_step *step,
					      const struct simhca_step_message *msg)
{
	return msg->there.mapped ? !((uintptr_t)msg->there.iov[0].iov_base & 7)
				 : step->peer.writing.there != NULL;
}
/* Carries out an atomic; msg->old: what was there before. False: it has changed nothing. */
bool simhca_step_atomic(const struct simhca_step *step, uint32_t name,
			struct simhca_step_message *msg);
/* Then stores msg->old where the message wants it. False: an atomic there is under way. */
bool simhca_step_place_result(const struct simhca_step *step,
			      const struct simhca_step_message *msg);
/* Counts a message that is done, as the packets and acknowledgements that a wire would carry. */
static inline void simhca_step_count(const struct simhca_step *step,
				     const struct simhca_step_message *msg)
{
	const struct simhca_packet *packet = &msg->packet;
	struct simhca_traffic traffic = simhca_traffic_of(packet), back;
	struct simhca_fastpath *fastpath = step->fastpath;
	struct simhca_packet answer = { .op = SIMHCA_PKT_ACK, .first = true, .last = true };
	uint32_t answers = packet->transport == SIMHCA_QPT_RC;

	if (packet->op == SIMHCA_PKT_READ) {
		answer.op = SIMHCA_PKT_READ_RESPONSE;
		answer.mtu = packet->mtu;
		answer.length = msg->length;
		simhca_step_add(&fastpath->reads, 1);
		simhca_step_add(&fastpath->read_payload, msg->length);
	} else if (simhca_step_fetches(msg)) {
		answer.op = SIMHCA_PKT_ATOMIC_ACK;
		simhca_step_add(&fastpath->atomics, 1);
		simhca_step_add(&fastpath->read_payload, msg->length);
	} else {
		if (packet->op == SIMHCA_PKT_ATOMIC_WRITE)
			answer.op = SIMHCA_PKT_READ_RESPONSE;
		if (packet->op == SIMHCA_PKT_WRITE || packet->op == SIMHCA_PKT_ATOMIC_WRITE)
			simhca_step_add(&fastpath->writes, 1);
		simhca_step_add(&fastpath->payload, msg->length);
		if (answers && msg->length > SIMHCA_STEP_LINK_BYTES)
			answers =
				(msg->length + SIMHCA_STEP_LINK_BYTES - 1) / SIMHCA_STEP_LINK_BYTES;
	}
	back = simhca_traffic_of(&answer);
	simhca_step_add(&fastpath->bytes, traffic.bytes + answers * back.bytes);
	simhca_step_add(&fastpath->packets, traffic.packets + answers * back.packets);
	simhca_step_add(&fastpath->messages, 1);
}

/* ---------------------------------------------------------------------------- its time */

/*
 * The time at which the next message begins; 0: it is not timed. Timed are the first messages, and then
 * one in 64 on average, at random.
 */
static inline uint64_t simhca_step_begins(struct simhca_step *step)
{
	if (__builtin_expect(step->sample.until != 0, 1)) {
		step->sample.until--;
		return 0;
	}
	return simhca_now_ns();
}
/* The message that began then is done. */
void simhca_step_took(struct simhca_step *step, uint64_t since_ns);

/* --------------------------------------------------------------------------- completions */

bool simhca_step_has_room(const struct simhca_cq_view *cq);
/*
 * Reserves the CQE of the receive. False: no CQE could be reserved. *data_fit: what stays in the CQ has
 * room there. If not, as others have filled a quarter of that since the claim, the CQE is to be made void.
 */
static inline bool simhca_step_reserve_receive(const struct simhca_step *step, uint32_t name,
					       const struct simhca_step_message *msg,
					       uint32_t *cqe_index, bool *data_fit)
{
	const struct simhca_cq_view *cq = &step->peer.recv_cq;

	if (!simhca_cqe_reserve(cq, name, cqe_index))
		return false;
	*data_fit = !msg->stay_in_cq || simhca_cq_has_data(cq, *cqe_index);
	return true;
}

/* Fills it; bytes: of the message, as the receiver sees them; data: what stays in the CQ, if they do. */
static inline void simhca_step_write_receive(const struct simhca_step *step,
					     const struct simhca_step_message *msg, uint64_t bytes,
					     const struct simhca_step_list *data,
					     uint32_t cqe_index)
{
	const struct simhca_cq_view *cq = &step->peer.recv_cq;
	struct simhca_cqe cqe = simhca_cqe_of_receive(
		&msg->packet, msg->recv.wr_id, msg->recv.record,
		atomic_load_explicit(&step->peer.qpc->qpn, memory_order_relaxed), bytes,
		step->device->port.link_layer == 1 /* InfiniBand */);

	if (step->peer.is_srq)
		cqe.flags |= SIMHCA_CQE_SRQ;
	if (msg->stay_in_cq) {
		cqe.in_slot = SIMHCA_CQE_IN_CQ;
		simhca_step_gather(simhca_cq_data(cq, cqe_index), data);
	}
	simhca_store();
	simhca_cqe_write(simhca_cq_slot(cq, cqe_index), &cqe);
}

/* Likewise of the send, if it is signaled; and moves the requester past the message. */
bool simhca_step_complete(const struct simhca_step *step, struct simhca_step_held *held,
			  const struct simhca_step_message *msg);
static inline struct simhca_step_events simhca_step_recv_events(const struct simhca_step *step)
{
	return (struct simhca_step_events){ &step->peer.recv_cq, &step->peer.recv_notify,
					    &step->fastpath->recv_events,
					    &step->fastpath->recv_notifying };
}

/* The kinds of arming for which an arriving message raises an event. */
static inline uint32_t simhca_step_matches(const struct simhca_step_message *msg)
{
	return SIMHCA_ARM_NEXT | (msg->wqe.flags & SIMHCA_WQE_SOLICITED ? SIMHCA_ARM_SOLICITED : 0);
}

bool simhca_step_disarm_armed(const struct simhca_step_events *events, uint32_t cqe_index,
			      uint32_t matches, uint32_t arm);
/*
 * After a CQE was published: whether the CQ was armed for it, or for what it has held up; then it is
 * armed no more.
 */
static inline bool simhca_step_disarm(const struct simhca_step_events *events, uint32_t cqe_index,
				      uint32_t matches)
{
	uint32_t arm;

	/*
	 * A full barrier stands between publishing the CQE and reading `arm`, and in the CQ's owner
	 * between arming and polling: so one of the two sees what the other did.
	 */
	atomic_thread_fence(memory_order_seq_cst);
	arm = atomic_load_explicit(&events->cq->mem->arm, memory_order_seq_cst);
	return __builtin_expect(arm & SIMHCA_ARM_BITS, 0) &&
	       simhca_step_disarm_armed(events, cqe_index, matches, arm);
}
/* Raises the event that simhca_step_disarm() says is due; false: it is left to the device. */
bool simhca_step_raise(struct simhca_fastpath *fastpath, const struct simhca_step_events *events);
static inline void simhca_step_notify(const struct simhca_step *step, struct simhca_step_held *held,
				      const struct simhca_step_events *events)
{
	held->events |= !simhca_step_raise(step->fastpath, events);
}

/*
 * Whose CQ may get an event, for the device; before one can be due. A datagram's requester has several
 * such peers.
 */
static inline void simhca_step_name_event_peer(const struct simhca_step *step)
{
	simhca_store();
	atomic_store_explicit(&step->fastpath->event_peer, step->peer.qpn, memory_order_release);
}

/* The receive does not complete by this step: its CQE, which was reserved, is void. */
void simhca_step_take_back(const struct simhca_step *step, struct simhca_step_held *held,
			   uint32_t cqe_index);
/* Publishes the CQE of the send, and raises the event that is due for it. */
static inline void simhca_step_publish_send(struct simhca_step *step, struct simhca_step_held *held)
{
	const struct simhca_step_events events = { &step->send_cq, &step->send_notify,
						   &step->fastpath->send_events,
						   &step->fastpath->send_notifying };

	simhca_cqe_publish(&step->send_cq, held->req.cqe_index - 1);
	if (simhca_step_disarm(&events, held->req.cqe_index - 1, SIMHCA_ARM_NEXT))
		simhca_step_notify(step, held, &events);
}

/* ------------------------------------------------------------------------------- the step */

/*
 * Calls carry() under the QP's owner word until nothing is left, or until it says why it has stopped.
 * An attached peer can set the requester back each time, so the number of calls has a limit, which is
 * enough for a full queue. Returns false if the doorbell has to be rung.
 */
static SIMHCA_STEP_INLINE bool
simhca_step_rounds(struct simhca_step *step,
		   bool (*carry)(void *arg, struct simhca_step_held *held, int *why), void *arg)
{
	struct simhca_fastpath *fastpath = step->fastpath;
	uint32_t left = step->sq_entries / SIMHCA_STEP_MESSAGES + 2;
	bool all = false, wanted = false;
	int why = SIMHCA_STEP_DONE;

	while (!all && why == SIMHCA_STEP_DONE && !wanted && left--) {
		struct simhca_step_held held; /* simhca_step_look() fills what is large */

		held.name = SIMHCA_OWNER_PROGRAM |
			    atomic_load_explicit(&step->qpc->qpn, memory_order_relaxed);
		held.changed = held.events = false;
		/* seq_cst: the guard is seen before the step reads anything of the device's. */
		atomic_fetch_add_explicit(&fastpath->guard, 1, memory_order_seq_cst);
		why = SIMHCA_SLOW_OWNER;
		if (simhca_step_acquire_own(step, &held)) {
			all = carry(arg, &held, &why);
			simhca_step_commit(step, &held);
			wanted = simhca_step_end(&step->mem->req_owner, held.name);
		}
		/* release: all that the step did is over. */
		atomic_fetch_add_explicit(&fastpath->guard, 1, memory_order_release);
		if (held.events) {
			simhca_step_add(&fastpath->handed[SIMHCA_SLOW_EVENT], 1);
			wanted = true;
		}
	}
	if (why != SIMHCA_STEP_DONE)
		simhca_step_add(&fastpath->handed[why], 1);
	if (why == SIMHCA_SLOW_WAITS)
		atomic_store_explicit(&fastpath->wants, 1, memory_order_relaxed);
	return all && why == SIMHCA_STEP_DONE && !wanted;
}

#endif
