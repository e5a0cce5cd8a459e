/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Datagrams. A program that is stopped within a step must not keep others from sending to the same QP,
 * so a step takes no owner word of the receiver: it claims a receive, and commits once, with its own
 * requester.
 *
 * The order is: the step notes in its program's memory what it begins; the receive is copied there and
 * claimed; header and data are placed; the CQE of the receive is reserved and filled, then that of the
 * send; the requester commits, with the numbers of both CQEs; the CQEs are published; events are
 * raised; the note is taken back. If the program ends before the commit, the device gives the receive
 * to the next datagram that it carries to that QP, and makes the reserved CQEs void. It does the same
 * for a step that cannot go on after its claim: such a step leaves its note, and rings.
 */
#include <string.h>

#include "core/mtu.h"
#include "step_impl.h"

#define DONE SIMHCA_STEP_DONE

/* Where a QP can send by itself; *unknown: a WQE that is for another destination. */
struct destinations {
	struct simhca_step *const *to;
	uint32_t count;
	const struct simhca_send_wqe **unknown;
};

/* A datagram, and where it goes. */
struct datagram {
	struct simhca_step *to;
	struct simhca_step_message msg;
	union simhca_gid sgid;
	uint8_t grh[SIMHCA_GRH_BYTES];
	struct simhca_step_list whole; /* what comes to the receive's memory */
	uint32_t cqe_index;	       /* of its receive */
};

/* ---------------------------------------------------------------------- before it begins */

static struct simhca_step *find(const struct destinations *dests, const struct simhca_send_wqe *wqe)
{
	for (uint32_t i = 0; i < dests->count; i++)
		if (dests->to[i]->peer.qpn == wqe->ud.dest_qpn &&
		    !memcmp(&dests->to[i]->peer.av, &wqe->ud.av, sizeof(wqe->ud.av)))
			return dests->to[i];
	return NULL;
}

/* Whether the device has nothing to recover of the last message. */
static bool is_at_rest(const struct simhca_step *step, const struct simhca_requester *req)
{
	return !req->wait && !atomic_load_explicit(&step->fastpath->dest, memory_order_relaxed);
}

/* Whether the device has no event to raise for another receiver, which the note cannot name too. */
static bool may_notify(const struct simhca_step *step)
{
	const struct simhca_fastpath *fastpath = step->fastpath;
	uint64_t limit = atomic_load_explicit(&fastpath->srq_limit, memory_order_relaxed);

	/* relaxed: the device changes these under the requester's owner word. */
	return (!limit || (uint32_t)limit == step->peer.qpn) &&
	       (!atomic_load_explicit(&fastpath->recv_events, memory_order_relaxed) ||
		atomic_load_explicit(&fastpath->event_peer, memory_order_relaxed) ==
			step->peer.qpn);
}

/*
 * The source GID of the header. False: there is none, or the table is being changed, which the device
 * announces by `fastpath_epoch` before it begins (simhca_device_set_gids).
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
	/* acquire: if these are from a change, the epoch that announces it is seen below. */
	atomic_thread_fence(memory_order_acquire);
	return atomic_load_explicit(&step->qpc->fastpath_epoch, memory_order_relaxed) ==
		       step->fastpath_epoch &&
	       memcmp(&datagram->sgid, &empty, sizeof(empty)) != 0;
}

/* Whether the destination takes the datagram. If not, the device drops or refuses it. */
static int check(struct datagram *datagram)
{
	const struct simhca_step *step = datagram->to;
	const struct simhca_step_message *msg = &datagram->msg;
	uint32_t state, mtu;

	/* A datagram raises no COMM_EST, so RTR is as good as RTS. */
	if (!simhca_step_may(step, &state) || (state != SIMHCA_QPS_RTR && state != SIMHCA_QPS_RTS))
		return SIMHCA_SLOW_STATE;
	if (!may_notify(step))
		return SIMHCA_SLOW_WAITS;
	if (simhca_qkey_of_send(&msg->wqe, step->qpc) != simhca_qkey(step->peer.qpc))
		return SIMHCA_SLOW_REQUEST;
	mtu = atomic_load_explicit(&step->device->port.active_mtu, memory_order_relaxed);
	if (msg->length > simhca_mtu_bytes(mtu) || !find_source(datagram))
		return SIMHCA_SLOW_REQUEST;
	if (!simhca_step_has_room(&step->peer.recv_cq) ||
	    (simhca_is_signaled(&msg->wqe, step->qpc) && !simhca_step_has_room(&step->send_cq)))
		return SIMHCA_SLOW_CQ;
	return DONE;
}

/* ----------------------------------------------------------------------------- the receive */

/* Notes what begins, for the device. */
static void begin(const struct simhca_step *step, const struct simhca_step_held *held,
		  uint32_t before)
{
	struct simhca_fastpath *fastpath = step->fastpath;

	simhca_store();
	atomic_store_explicit(&fastpath->index, held->req.oldest, memory_order_relaxed);
	simhca_store();
	atomic_store_explicit(&fastpath->before, before, memory_order_relaxed);
	simhca_store();
	/* release: the other fields mean nothing before. */
	atomic_store_explicit(&fastpath->dest, step->peer.qpn, memory_order_release);
}

static void finish(const struct simhca_step *step)
{
	simhca_store();
	/* release: all that the note was for is done before. */
	atomic_store_explicit(&step->fastpath->dest, 0, memory_order_release);
}

static int claim(const struct simhca_step *step, struct simhca_step_held *held,
		 struct simhca_step_message *msg)
{
	const struct simhca_srq_view queue = simhca_step_queue(step);
	uint32_t claimed;
	int why;

	begin(step, held, simhca_srq_claimed(&queue, step->peer.claimant));
	why = simhca_step_claim(step, held, (char *)step->fastpath->recv, msg, &claimed);
	if (why != DONE)
		finish(step);
	return why;
}

/* ----------------------------------------------------------------------------- the message */

static bool place(struct datagram *datagram)
{
	const struct simhca_step *step = datagram->to;
	struct simhca_step_message *msg = &datagram->msg;
	struct simhca_step_list *whole = &datagram->whole; /* large: only what is used is set */
	uint64_t bytes = msg->length;

	whole->count = 0;
	whole->mapped = false;
	if (msg->wqe.ud.av.is_global)
		simhca_grh_build(&msg->wqe.ud.av, &datagram->sgid, msg->length,
				 step->device->port.link_layer == 1, datagram->grh);
	else if (msg->stay_in_cq) /* who polls leaves these bytes of the buffer as they are */
		memset(datagram->grh, 0, sizeof(datagram->grh));
	if (msg->wqe.ud.av.is_global || msg->stay_in_cq) {
		whole->iov[whole->count++] = (struct iovec){ datagram->grh, sizeof(datagram->grh) };
		bytes += sizeof(datagram->grh);
	}
	memcpy(whole->iov + whole->count, msg->own.iov,
	       (size_t)msg->own.count * sizeof(whole->iov[0]));
	whole->count += msg->own.count;
	return !bytes || msg->stay_in_cq ||
	       simhca_step_copy(step, whole, &msg->there, bytes, false);
}

/* Publishes the CQE of the receive; whether an event is due for it. */
static bool publish_receive(const struct datagram *datagram, uint32_t matches)
{
	const struct simhca_step_events events = simhca_step_recv_events(datagram->to);

	simhca_cqe_publish(events.cq, datagram->cqe_index);
	simhca_step_name_event_peer(datagram->to);
	return simhca_step_disarm(&events, datagram->cqe_index, matches);
}

static void count(const struct datagram *datagram)
{
	struct simhca_qp_mem *peer = datagram->to->peer.mem;

	simhca_step_count(datagram->to, &datagram->msg);
	/* Several programs at a time add to these. */
	atomic_fetch_add_explicit(&peer->received, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&peer->received_bytes, SIMHCA_GRH_BYTES + datagram->msg.length,
				  memory_order_relaxed);
}

/* Commits, publishes both CQEs, and raises events. */
static void complete(struct datagram *datagram, struct simhca_step_held *held)
{
	struct simhca_step *step = datagram->to;
	const struct simhca_step_events events = simhca_step_recv_events(step);
	bool due;

	held->req.recv_cqe_index = datagram->cqe_index + 1;
	simhca_step_commit(step, held);
	due = publish_receive(datagram, simhca_step_matches(&datagram->msg));
	if (simhca_is_signaled(&datagram->msg.wqe, step->qpc))
		simhca_step_publish_send(step, held);
	if (due)
		simhca_step_notify(step, held, &events);
	finish(step);
	count(datagram);
}

static int carry(struct datagram *datagram, struct simhca_step_held *held)
{
	struct simhca_step *step = datagram->to;
	struct simhca_step_message *msg = &datagram->msg;
	const uint64_t bytes = SIMHCA_GRH_BYTES + msg->length;
	int why = check(datagram);
	bool data_fit;

	if (why == DONE)
		why = claim(step, held, msg);
	if (why != DONE)
		return why;
	if (!place(datagram))
		return SIMHCA_SLOW_COPY;
	if (!simhca_step_reserve_receive(step, held->name, msg, &datagram->cqe_index, &data_fit))
		return SIMHCA_SLOW_CQ;
	if (data_fit)
		simhca_step_write_receive(step, msg, bytes, &datagram->whole, datagram->cqe_index);
	if (!data_fit || !simhca_step_complete(step, held, msg)) {
		simhca_step_take_back(step, held, datagram->cqe_index);
		return SIMHCA_SLOW_CQ;
	}
	complete(datagram, held);
	return DONE;
}

/* ---------------------------------------------------------------------------------- the QP */

/* Reads the SQ's oldest WQE, and finds the step to its destination. */
static int look(const struct destinations *dests, const struct simhca_step_held *held,
		struct datagram *datagram)
{
	const struct simhca_step *own = dests->to[0];
	struct simhca_step_message *msg = &datagram->msg;
	int why;

	if (!is_at_rest(own, &held->req))
		return SIMHCA_SLOW_WAITS;
	why = simhca_step_read_send(own, held->req.oldest, msg);
	if (why != DONE)
		return why;
	simhca_step_make_packet(own, held->req.psn_next, msg);
	datagram->to = find(dests, &msg->wqe);
	if (datagram->to)
		return DONE;
	*dests->unknown = (const void *)simhca_ring_wqe(own->sq, held->req.oldest, own->sq_entries,
							own->sq_stride);
	return SIMHCA_SLOW_ADDRESS;
}

/* Called under the owner word. True: none is left, or *why says why the next is the device's. */
static bool carry_all(void *arg, struct simhca_step_held *held, int *why)
{
	const struct destinations *dests = arg;
	struct simhca_step *own = dests->to[0];
	struct datagram datagram;
	uint32_t pi, posted;
	uint64_t since;

	*why = simhca_step_look(own, held, &posted);
	if (*why != DONE)
		return true;
	pi = held->req.oldest + posted;
	for (uint32_t n = 0; *why == DONE && held->req.oldest != pi; n++) {
		if (n == SIMHCA_STEP_MESSAGES)
			return false;
		since = simhca_step_begins(own);
		*why = look(dests, held, &datagram);
		if (*why == DONE)
			*why = carry(&datagram, held);
		if (__builtin_expect(since && *why == DONE, 0))
			simhca_step_took(own, since);
	}
	return true;
}

bool simhca_step_datagrams(struct simhca_step *const to[], uint32_t count,
			   const struct simhca_send_wqe **unknown)
{
	struct destinations dests = { to, count, unknown };

	*unknown = NULL;
	return simhca_step_rounds(to[0], carry_all, &dests);
}
