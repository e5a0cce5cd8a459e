/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Datagrams. Whoever is stopped in a step must not be in the way of others who send to the same QP,
 * so no owner word of that QP is acquired: its receives are reserved, and what is done is committed
 * once, with the requester.
 *
 * In order: the program's memory says what begins; the receive is copied there, and reserved;
 * header and data are placed; the CQE of the receive is reserved and has its fields, then that of
 * the send; the requester commits, and names both CQEs; the CQEs are published; events; the
 * program's memory says that it is over. If it ends before the commit the receive is the device's,
 * for the next datagram that it carries to that QP, and the reserved CQEs are void. So it is if the
 * step cannot go on once the receive is claimed: then it leaves what it has said, and rings.
 */
#include <string.h>

#include "packet/grh.h"
#include "packet/packet.h"
#include "queue/progress.h"
#include "step_impl.h"

#define DONE SIMHCA_STEP_DONE

/* What is done under the requester's owner word. */
struct held {
	uint32_t name, generation;
	struct simhca_requester req;
	bool events; /* the device is to raise one */
};

/* A datagram, and where it goes. */
struct datagram {
	struct simhca_step *to;
	struct simhca_step_message msg;
	union simhca_gid sgid;
	uint32_t cqe_index; /* of its receive */
};

/* ---------------------------------------------------------------------- before it begins */

static struct simhca_step *find(struct simhca_step *const to[], uint32_t count,
				const struct simhca_send_wqe *wqe)
{
	for (uint32_t i = 0; i < count; i++)
		if (to[i]->peer.qpn == wqe->ud.dest_qpn &&
		    !memcmp(&to[i]->peer.av, &wqe->ud.av, sizeof(wqe->ud.av)))
			return to[i];
	return NULL;
}

/* What the last message has left behind is recovered by the device first. */
static bool is_at_rest(const struct simhca_step *step, const struct simhca_requester *req)
{
	return !req->wait && !atomic_load_explicit(&step->fastpath->dest, memory_order_relaxed);
}

/* The device has no event to raise for another than that one. */
static bool may_notify(const struct simhca_step *step)
{
	const struct simhca_fastpath *fastpath = step->fastpath;
	uint64_t limit = atomic_load_explicit(&fastpath->srq_limit, memory_order_relaxed);

	/*
	 * relaxed: the device changes them under the requester's owner word, or has done what they
	 * ask for.
	 */
	return (!limit || limit == step->peer.qpn) &&
	       (!atomic_load_explicit(&fastpath->recv_events, memory_order_relaxed) ||
		atomic_load_explicit(&fastpath->told_to, memory_order_relaxed) == step->peer.qpn);
}

/*
 * The GID that it is sent from, which the header has. False: there is none, or the table is being
 * changed, which the device says by `fastpath_epoch` before it begins to (simhca_device_set_gids).
 */
static bool find_source(struct datagram *datagram)
{
	static const union simhca_gid empty;
	const struct simhca_av *av = &datagram->msg.wqe.ud.av;
	const struct simhca_step *step = datagram->to;
	const union simhca_gid *from;

	if (!av->is_global)
		return true;
	if (av->sgid_index >= SIMHCA_GID_ENTRIES)
		return false;
	from = &step->device->gids[av->sgid_index].gid;
	datagram->sgid.global.subnet_prefix =
		__atomic_load_n(&from->global.subnet_prefix, __ATOMIC_RELAXED);
	datagram->sgid.global.interface_id =
		__atomic_load_n(&from->global.interface_id, __ATOMIC_RELAXED);
	/* acquire: if that is of a change, `fastpath_epoch` is as it was made before. */
	atomic_thread_fence(memory_order_acquire);
	return atomic_load_explicit(&step->qpc->fastpath_epoch, memory_order_relaxed) ==
		       step->fastpath_epoch &&
	       memcmp(&datagram->sgid, &empty, sizeof(empty)) != 0;
}

/* Whether it is one that the destination takes; what is not is the device's to drop, or refuse. */
static int check(struct datagram *datagram)
{
	const struct simhca_step *step = datagram->to;
	const struct simhca_step_message *msg = &datagram->msg;
	uint32_t qkey = msg->wqe.ud.qkey, state;

	/* No event tells of the first datagram in RTR. */
	if (!simhca_step_may(step, &state) || (state != SIMHCA_QPS_RTR && state != SIMHCA_QPS_RTS))
		return SIMHCA_SLOW_STATE;
	if (!may_notify(step))
		return SIMHCA_SLOW_WAITS;
	/* The top bit: the QP's own (IBTA vol. 1, 10.2.5). */
	if ((qkey & 0x80000000u ? simhca_qkey(step->qpc) : qkey) != simhca_qkey(step->peer.qpc))
		return SIMHCA_SLOW_REQUEST;
	if (msg->length > 128u << atomic_load_explicit(&step->device->port.active_mtu,
						       memory_order_relaxed) ||
	    !find_source(datagram))
		return SIMHCA_SLOW_REQUEST;
	if (!simhca_step_has_room(&step->peer.recv_cq) ||
	    (simhca_step_is_signaled(step, msg) && !simhca_step_has_room(&step->send_cq)))
		return SIMHCA_SLOW_CQ;
	return DONE;
}

/* ----------------------------------------------------------------------------- the receive */

/* From here on the device knows what is under way. */
static void begin(const struct simhca_step *step, const struct held *held, uint32_t before)
{
	struct simhca_fastpath *fastpath = step->fastpath;

	simhca_store();
	atomic_store_explicit(&fastpath->index, held->req.oldest, memory_order_relaxed);
	simhca_store();
	atomic_store_explicit(&fastpath->before, before, memory_order_relaxed);
	simhca_store();
	/* release: the others say nothing before. */
	atomic_store_explicit(&fastpath->dest, step->peer.qpn, memory_order_release);
}

static void finish(const struct simhca_step *step)
{
	simhca_store();
	/* release: all of it is done. */
	atomic_store_explicit(&step->fastpath->dest, 0, memory_order_release);
}

/* The memory of the receive. */
static bool finds_memory(const struct simhca_step *step, struct simhca_step_message *msg)
{
	return simhca_step_add_sges(step, msg->recv.sge, msg->recv.num_sge,
				    SIMHCA_GRH_BYTES + msg->length, SIMHCA_ACCESS_LOCAL_WRITE,
				    step->peer.rq_pd, step->peer.mm, msg->there, &msg->num_there);
}

static int claim(const struct simhca_step *step, struct held *held, struct simhca_step_message *msg)
{
	const struct simhca_srq_view queue = simhca_step_queue(step);
	uint64_t head;

	begin(step, held, simhca_srq_claimed(&queue, step->peer.claimant));
	for (int i = 0; i < SIMHCA_STEP_CLAIM_TRIES; i++) {
		if (simhca_recv_look(&queue, &head, &msg->recv) || !finds_memory(step, msg))
			break;
		if (!simhca_recv_take(&queue, head, step->peer.claimant,
				      (char *)step->fastpath->recv, &msg->recv))
			continue;
		held->events |= simhca_step_reaches_limit(step);
		return DONE;
	}
	finish(step);
	return SIMHCA_SLOW_RECEIVE;
}

/* ----------------------------------------------------------------------------- the message */

/* Without the first bytes of it. */
static void skip(struct iovec *iov, int *count, size_t bytes)
{
	int i = 0;

	while (i < *count && bytes >= iov[i].iov_len)
		bytes -= iov[i++].iov_len;
	*count -= i;
	memmove(iov, iov + i, (size_t)*count * sizeof(*iov));
	if (*count) {
		iov->iov_base = (char *)iov->iov_base + bytes;
		iov->iov_len -= bytes;
	}
}

static bool place(struct datagram *datagram)
{
	const struct simhca_step *step = datagram->to;
	struct simhca_step_message *msg = &datagram->msg;
	struct iovec own[SIMHCA_MAX_SGE + 1];
	uint8_t grh[SIMHCA_GRH_BYTES];
	uint64_t bytes = msg->length;
	int count = 0;

	if (msg->wqe.ud.av.is_global) {
		simhca_grh_build(&msg->wqe.ud.av, &datagram->sgid, msg->length,
				 step->device->port.link_layer == 1, grh);
		own[count++] = (struct iovec){ grh, sizeof(grh) };
		bytes += sizeof(grh);
	} else {
		skip(msg->there, &msg->num_there, SIMHCA_GRH_BYTES);
	}
	memcpy(own + count, msg->own, (size_t)msg->num_own * sizeof(own[0]));
	count += msg->num_own;
	return !bytes ||
	       simhca_step_copy(step, own, count, msg->there, msg->num_there, bytes, false);
}

static struct simhca_cqe receive_cqe(const struct datagram *datagram)
{
	const struct simhca_step *step = datagram->to;
	const struct simhca_step_message *msg = &datagram->msg;
	struct simhca_cqe cqe = {
		.wr_id = msg->recv.wr_id,
		.qpn = step->peer.qpn,
		.src_qpn = atomic_load_explicit(&step->qpc->qpn, memory_order_relaxed),
		.byte_len = SIMHCA_GRH_BYTES + msg->length,
		.opcode = SIMHCA_WC_RECV,
		.flags = SIMHCA_CQE_RECV,
		.sl = msg->wqe.ud.av.sl,
		.slid = step->device->port.lid,
	};

	if (simhca_op_has(msg->wqe.opcode, SIMHCA_OP_IMM)) {
		cqe.flags |= SIMHCA_CQE_IMM;
		cqe.imm_or_rkey = msg->wqe.imm_or_rkey;
	}
	if (msg->wqe.flags & SIMHCA_WQE_SOLICITED)
		cqe.flags |= SIMHCA_CQE_SOLICITED;
	if (step->peer.is_srq)
		cqe.flags |= SIMHCA_CQE_SRQ;
	if (msg->wqe.ud.av.is_global) {
		cqe.flags |= SIMHCA_CQE_GRH;
		if (step->device->port.link_layer != 1)
			cqe.sl = simhca_grh_of_roce(&msg->wqe.ud.av);
	}
	return cqe;
}

/* Its receive has a CQE, which nobody sees yet. */
static bool write_receive(struct datagram *datagram, const struct held *held)
{
	const struct simhca_cqe cqe = receive_cqe(datagram);
	const struct simhca_cq_view *cq = &datagram->to->peer.recv_cq;

	if (!simhca_cqe_reserve(cq, held->name, &datagram->cqe_index))
		return false;
	simhca_store();
	simhca_cqe_write(simhca_cq_slot(cq, datagram->cqe_index), &cqe);
	return true;
}

static void notify_receiver(const struct datagram *datagram, struct held *held, bool due)
{
	const struct simhca_step_events events = simhca_step_recv_events(datagram->to);

	if (due)
		held->events |= !simhca_step_raise(datagram->to->fastpath, &events);
}

/* Publishes the CQE of the receive; whether an event is due for it. */
static bool publish_receive(const struct datagram *datagram, uint32_t matches)
{
	const struct simhca_step_events events = simhca_step_recv_events(datagram->to);

	simhca_step_publish(events.cq, datagram->cqe_index);
	simhca_store();
	/* Before one can be due. */
	atomic_store_explicit(&datagram->to->fastpath->told_to, datagram->to->peer.qpn,
			      memory_order_release);
	return simhca_step_disarm(&events, matches);
}

/* No CQE could be reserved for the send: that of the receive becomes void. */
static void take_back(const struct datagram *datagram, struct held *held)
{
	simhca_store();
	simhca_cq_slot(&datagram->to->peer.recv_cq, datagram->cqe_index)->qpn = SIMHCA_VOID_QPN;
	/* Somebody may have looked for those behind it in vain. */
	notify_receiver(datagram, held, publish_receive(datagram, SIMHCA_ARM_BITS));
}

/* As packets count on a wire (IBTA vol. 1, chapter 9.2). */
static void count(const struct datagram *datagram)
{
	const struct simhca_step_message *msg = &datagram->msg;
	struct simhca_fastpath *fastpath = datagram->to->fastpath;
	struct simhca_qp_mem *peer = datagram->to->peer.mem;

	simhca_step_add(&fastpath->bytes,
			16 + 8 + ((msg->length + 3) & ~3u) +
				(simhca_op_has(msg->wqe.opcode, SIMHCA_OP_IMM) ? 4 : 0));
	simhca_step_add(&fastpath->payload, msg->length);
	simhca_step_add(&fastpath->packets, 1);
	simhca_step_add(&fastpath->messages, 1);
	/* Several programs at a time add to these. */
	atomic_fetch_add_explicit(&peer->received, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&peer->received_bytes, SIMHCA_GRH_BYTES + msg->length,
				  memory_order_relaxed);
}

/* Both CQEs are written. */
static void complete(struct datagram *datagram, struct held *held)
{
	struct simhca_step *step = datagram->to;
	const struct simhca_step_events send = simhca_step_send_events(step);
	bool signaled = simhca_step_is_signaled(step, &datagram->msg), due;

	held->req.recv_cqe_index = datagram->cqe_index + 1;
	simhca_step_commit_requester(step, &held->req, &held->generation);
	due = publish_receive(datagram, simhca_step_matches(&datagram->msg));
	if (signaled) {
		simhca_step_publish(&step->send_cq, held->req.cqe_index - 1);
		if (simhca_step_disarm(&send, SIMHCA_ARM_NEXT))
			held->events |= !simhca_step_raise(step->fastpath, &send);
	}
	notify_receiver(datagram, held, due);
	finish(step);
	count(datagram);
}

static int carry(struct datagram *datagram, struct held *held)
{
	struct simhca_step *step = datagram->to;
	struct simhca_requester req = held->req;
	int why = check(datagram);

	if (why == DONE)
		why = claim(step, held, &datagram->msg);
	if (why != DONE)
		return why;
	if (!place(datagram))
		return SIMHCA_SLOW_COPY;
	if (!write_receive(datagram, held))
		return SIMHCA_SLOW_CQ;
	if (!simhca_step_complete(step, &req, &datagram->msg)) {
		take_back(datagram, held);
		return SIMHCA_SLOW_CQ;
	}
	held->req = req;
	complete(datagram, held);
	return DONE;
}

/* ---------------------------------------------------------------------------------- the QP */

/* What the SQ's oldest WQE asks for. */
static int look(struct simhca_step *const to[], uint32_t num, const struct held *held,
		struct datagram *datagram, const struct simhca_send_wqe **unknown)
{
	const struct simhca_step *own = to[0];
	struct simhca_step_message *msg = &datagram->msg;
	int why;

	if (!is_at_rest(own, &held->req))
		return SIMHCA_SLOW_WAITS;
	why = simhca_step_read_send(own, held->req.oldest, msg);
	if (why != DONE)
		return why;
	if (!simhca_op_has(msg->wqe.opcode, SIMHCA_OP_UNCONNECTED))
		return SIMHCA_SLOW_REQUEST;
	datagram->to = find(to, num, &msg->wqe);
	if (datagram->to)
		return DONE;
	*unknown = (const void *)(own->sq +
				  (size_t)simhca_ring_slot(held->req.oldest, own->sq_entries) *
					  own->sq_stride);
	return SIMHCA_SLOW_ADDRESS;
}

/* Under the owner word. True: nothing is left, but what *why says. */
static bool run(struct simhca_step *const to[], uint32_t num, struct held *held, int *why,
		const struct simhca_send_wqe **unknown)
{
	const struct simhca_step *own = to[0];
	struct datagram datagram;
	uint32_t pi, posted;
	uint64_t since;

	*why = DONE;
	/* What makes no sense is the device's to refuse. */
	if (!simhca_progress_requester(own->mem, held->generation, own->sq_entries, &held->req,
				       NULL))
		*why = SIMHCA_SLOW_WAITS;
	else if (!simhca_progress_sends(own->mem, held->req.oldest, 0, own->sq_entries, &posted))
		*why = SIMHCA_SLOW_REQUEST;
	if (*why != DONE)
		return true;
	pi = held->req.oldest + posted;
	for (uint32_t n = 0; *why == DONE && held->req.oldest != pi; n++) {
		if (n == SIMHCA_STEP_MESSAGES)
			return false;
		since = simhca_step_begins(to[0]);
		*why = look(to, num, held, &datagram, unknown);
		if (*why == DONE)
			*why = carry(&datagram, held);
		if (__builtin_expect(since && *why == DONE, 0))
			simhca_step_took(to[0], since);
	}
	return true;
}

bool simhca_step_datagrams(struct simhca_step *const to[], uint32_t count,
			   const struct simhca_send_wqe **unknown)
{
	struct simhca_step *own = to[0];
	struct simhca_fastpath *fastpath = own->fastpath;
	bool all = false, wanted = false;
	int why = DONE;
	uint32_t left = simhca_step_most_rounds(own);

	*unknown = NULL;
	while (!all && why == DONE && !wanted && left--) {
		struct held held; /* run() fills what is large */

		held.name = simhca_step_name(own);
		held.events = false;
		/* seq_cst: it is seen before anything of the device's is looked at. */
		atomic_fetch_add_explicit(&fastpath->guard, 1, memory_order_seq_cst);
		why = SIMHCA_SLOW_OWNER;
		if (simhca_step_acquire_own(own, held.name, &held.generation)) {
			all = run(to, count, &held, &why, unknown);
			wanted = simhca_step_end(&own->mem->req_owner, held.name);
		}
		/* release: all that the step did is over. */
		atomic_fetch_add_explicit(&fastpath->guard, 1, memory_order_release);
		if (held.events) {
			simhca_step_add(&fastpath->handed[SIMHCA_SLOW_EVENT], 1);
			wanted = true;
		}
	}
	if (why != DONE)
		simhca_step_add(&fastpath->handed[why], 1);
	if (why == SIMHCA_SLOW_WAITS)
		atomic_store_explicit(&fastpath->wants, 1, memory_order_relaxed);
	return all && why == DONE && !wanted;
}
