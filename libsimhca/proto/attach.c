/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "attach_impl.h"
#include "cq.h"
#include "core/av.h"
#include "core/context.h"
#include "core/fabric.h"
#include "dma/dma.h"
#include "link.h"
#include "qp.h"
#include "simhca-attach.h"
#include "simhca-device.h"
#include "simhca-info.h"
#include "srq.h"

/* ------------------------------------------------------------------------------ memory */

/* Whether programs carry messages of such QPs, or to them. */
static bool carries(const struct simhca_qp *qp)
{
	return (qp->type == SIMHCA_QPT_RC || qp->type == SIMHCA_QPT_UC ||
		qp->type == SIMHCA_QPT_UD) &&
	       (!qp->srq || qp->srq->type == SIMHCA_SRQT_BASIC);
}

int simhca_fastpath_init(struct simhca_qp *qp, uint64_t bytes, uint32_t *segment,
			 struct simhca_why *why)
{
	struct simhca_context *context = qp->context;

	if (context->device->config.fast_path && !qp->fastpath.none && carries(qp))
		qp->fastpath.steps.mem = simhca_context_alloc(
			context, simhca_fastpath_bytes(qp->type), &qp->fastpath.mem_ref, NULL);
	if (qp->fastpath.steps.mem && qp->srq && qp->type != SIMHCA_QPT_UD)
		qp->claimant = simhca_claimant_add(qp->srq->claimants);
	return simhca_context_place(context, bytes, qp->fastpath.steps.mem, &qp->fastpath.segment,
				    segment, why);
}

void simhca_fastpath_free(struct simhca_qp *qp)
{
	simhca_hand_back(qp);
	if (qp->srq && qp->claimant)
		simhca_claimant_remove(qp->srq->claimants, qp->claimant);
	if (qp->fastpath.steps.mem)
		simhca_context_free(qp->context, &qp->fastpath.mem_ref,
				    simhca_fastpath_bytes(qp->type));
	simhca_steps_free(&qp->fastpath.steps);
}

int simhca_fastpath_spare(const struct simhca_qp *qp, int *fd, struct simhca_why *why)
{
	*fd = -1;
	if (!qp->fastpath.handed_out)
		return 0;
	*fd = simhca_context_spare_file(qp->context, qp->fastpath.segment);
	if (*fd >= 0)
		return 0;
	return simhca_why(why, -*fd, "memory for the QP, whose own a peer has: %s", strerror(-*fd));
}

uint32_t simhca_fastpath_revoke(struct simhca_qp *qp, int fd)
{
	const uint64_t received = atomic_load_explicit(&qp->mem->received, memory_order_relaxed);
	const uint64_t bytes = atomic_load_explicit(&qp->mem->received_bytes, memory_order_relaxed);
	int error = -simhca_context_replace_file(qp->context, qp->fastpath.segment, fd);

	if (error) {
		close(fd);
		simhca_qp_log(qp, "its last peer still has its memory: %s", strerror(error));
		return 0;
	}
	/* They are of the QP's whole life. */
	atomic_store_explicit(&qp->mem->received, received, memory_order_relaxed);
	atomic_store_explicit(&qp->mem->received_bytes, bytes, memory_order_relaxed);
	simhca_hand_back(qp);
	return qp->fastpath.segment;
}

/* --------------------------------------------------------------------------- attaching */

int simhca_offer_memory(struct simhca_context *context, struct simhca_mm *mm,
			const struct simhca_offer_memory_req *req, struct simhca_why *why)
{
	if (!context->device->config.fast_path)
		return simhca_why(why, EOPNOTSUPP, "programs run no steps on this device");
	if (mm->agent)
		return simhca_why(why, EOPNOTSUPP, "the device reaches this memory by an agent");
	context->offer.mm = mm;
	context->offer.address = req->address;
	context->offer.secret = req->secret;
	return 0;
}

bool simhca_has_offered_memory(const struct simhca_context *context)
{
	return context->offer.mm;
}

static bool accepts_cqes(const struct simhca_cq *cq)
{
	return !cq->view.stamped && !cq->view.overruns && !cq->mod_count && !cq->overrun &&
	       !cq->shared.spare.base;
}

static bool counts(const struct simhca_qp *qp)
{
	for (uint32_t op = 0; op < SIMHCA_COUNTS_OPS; op++)
		if (qp->comp_cntr[op])
			return true;
	return false;
}

/* Whether programs on the fast path find the QP's receive WQEs. */
static bool gives_wqes(const struct simhca_qp *qp)
{
	if (qp->srq)
		return !qp->srq->shared.spare.base && (qp->claimant || qp->type == SIMHCA_QPT_UD);
	return qp->type != SIMHCA_QPT_UD || qp->rq_view.mem;
}

/*
 * Whether the asker may have the segments that the QP's queues lie in. What lies alone is for
 * whoever is attached. What lies beside other queues is for the process that has them all anyway.
 */
static bool may_have_segments(const struct simhca_qp *peer, const struct simhca_mm *asker)
{
	if (asker && asker->pid == peer->context->offer.mm->pid)
		return peer->fastpath.steps.mem && peer->recv_cq->shared.is_whole &&
		       (!peer->srq || peer->srq->shared.is_whole);
	return peer->fastpath.segment && peer->recv_cq->shared.segment &&
	       (!peer->srq || peer->srq->shared.segment);
}

/* Whom it sends to, on this device; or NULL. */
static struct simhca_qp *connected_to(const struct simhca_qp *qp)
{
	struct simhca_qp *peer = qp->link->peer ? qp->link->peer(qp) : NULL;

	return peer && peer->qpc->dest_qpn == qp->qpn && peer->link == qp->link ? peer : NULL;
}

static struct simhca_qp *addressed_by(const struct simhca_qp *qp, const struct simhca_av *av,
				      uint32_t qpn)
{
	if (!qp->link->find || simhca_av_check(qp->device, av, NULL))
		return NULL;
	return qp->link->find(qp, av, qpn);
}

struct simhca_qp *simhca_fastpath_peer(const struct simhca_qp *qp, const struct simhca_mm *asker,
				       const struct simhca_av *av, uint32_t qpn,
				       struct simhca_why *why)
{
	struct simhca_qp *peer = NULL;
	uint32_t state;

	if (atomic_load_explicit(&qp->device->fabric->tap, memory_order_relaxed)) {
		simhca_why(why, ENOTCONN, "packets are traced");
		return NULL;
	}
	if (!qp->fastpath.steps.mem || counts(qp) || !accepts_cqes(qp->send_cq)) {
		simhca_why(why, ENOTCONN, "only the device carries this QP's messages");
		return NULL;
	}
	if (simhca_inject_is_on(qp->device->fabric)) {
		simhca_why(why, ENOTCONN, "only the device has the faults that were asked for");
		return NULL;
	}
	if (simhca_qp_state(qp) == SIMHCA_QPS_RTS)
		peer = qp->type == SIMHCA_QPT_UD ? addressed_by(qp, av, qpn) : connected_to(qp);
	if (!peer || peer->device != qp->device || peer->type != qp->type) {
		simhca_why(why, ENOTCONN, "the QP is not connected");
		return NULL;
	}
	state = simhca_qp_state(peer);
	if ((state != SIMHCA_QPS_RTR && state != SIMHCA_QPS_RTS) || !accepts_cqes(peer->recv_cq) ||
	    !gives_wqes(peer) || counts(peer) || peer->qpc->path_mtu != qp->qpc->path_mtu ||
	    !peer->context->offer.mm || atomic_load(&peer->context->offer.mm->gone) ||
	    !may_have_segments(peer, asker)) {
		simhca_why(why, ENOTCONN, "only the device carries messages for the QP's peer");
		return NULL;
	}
	return peer;
}

int simhca_find_peer(struct simhca_context *context, const struct simhca_find_peer_req *req,
		     struct simhca_find_peer_reply *reply, struct simhca_why *why)
{
	struct simhca_qp *qp = simhca_object(context, SIMHCA_OBJ_QP, req->qp, why);
	struct simhca_qp *peer;

	if (!qp)
		return -ENOENT;
	peer = simhca_fastpath_peer(qp, context->offer.mm, &req->av, req->dest_qpn, why);
	if (!peer)
		return -ENOTCONN;
	if (context->offer.mm)
		reply->pid = (uint32_t)simhca_pid_seen_by(context->offer.mm->pid,
							  peer->context->offer.mm->pid);
	reply->address = peer->context->offer.address;
	return 0;
}

/* The number that both sides compare; it is 0 while nobody may. */
static uint32_t allow(struct simhca_qp *qp)
{
	uint32_t fastpath_epoch = atomic_load(&qp->qpc->fastpath_epoch);

	if (fastpath_epoch)
		return fastpath_epoch;
	while (!++qp->device->next_fastpath_epoch)
		;
	atomic_store(&qp->qpc->fastpath_epoch, qp->device->next_fastpath_epoch);
	return qp->device->next_fastpath_epoch;
}

uint64_t *simhca_fastpath_claimants(struct simhca_qp *qp)
{
	return qp->srq ? qp->srq->claimants : qp->left.claimants;
}

/* Among those that send to the peer. 0: they are too many, or those that it sends to; or no memory. */
static uint32_t enlist_sender(struct simhca_qp *qp, struct simhca_steps_with *with,
			      struct simhca_qp *peer)
{
	struct simhca_fabric *fabric = qp->device->fabric;
	struct simhca_steps_with before;
	bool again = simhca_steps_find(fabric, &qp->fastpath.steps, peer->qpn, &before);

	with->qpn = peer->qpn;
	with->life = peer->left.life;
	with->claimant =
		again ? before.claimant : simhca_claimant_add(simhca_fastpath_claimants(peer));
	if (!with->claimant)
		return 0;
	/* What it has left behind at the same queue is still to be recovered. */
	atomic_init(&with->recovered,
		    again && before.life == with->life
			    ? atomic_load(&before.recovered)
			    : simhca_srq_claimed(simhca_claimed_from(peer), with->claimant));
	if (simhca_steps_add(fabric, &qp->fastpath.steps, with))
		return with->claimant;
	simhca_claimant_remove(simhca_fastpath_claimants(peer), with->claimant);
	return 0;
}

void simhca_fastpath_remove_writers(struct simhca_fabric *fabric, struct simhca_steps_with *with,
				    uint32_t qpn)
{
	simhca_exclusive_remove_writer(fabric, &with->writer, SIMHCA_OWNER_PROGRAM | qpn);
	simhca_exclusive_remove_writer(fabric, &with->peer_writer, SIMHCA_OWNER_PROGRAM | qpn);
}

/* By what it writes to both memories from now on, if atomics are done there; false: by nothing. */
static bool add_writers(struct simhca_qp *qp, const struct simhca_mm *own,
			const struct simhca_qp *peer, struct simhca_steps_with *with)
{
	struct simhca_fabric *fabric = qp->device->fabric;
	struct simhca_steps_writer writer, peer_writer;

	/* Into its own memory go what was read, and the results of atomics. */
	writer.atomicity = NULL;
	if (qp->type == SIMHCA_QPT_RC && !simhca_exclusive_add_writer(own, &writer))
		return false;
	if (!simhca_exclusive_add_writer(peer->context->offer.mm, &peer_writer)) {
		simhca_exclusive_remove_writer(fabric, &writer, SIMHCA_OWNER_PROGRAM | qp->qpn);
		return false;
	}
	simhca_steps_find(fabric, &qp->fastpath.steps, simhca_fastpath_key(qp, peer), with);
	simhca_fastpath_remove_writers(fabric, with, qp->qpn); /* of when it was attached before */
	with->writer = writer;
	with->peer_writer = peer_writer;
	simhca_steps_add(fabric, &qp->fastpath.steps, with);
	return true;
}

/* By what number it claims from the peer's queue. False: it cannot be attached. */
static bool enlist(struct simhca_qp *qp, const struct simhca_mm *mm, struct simhca_qp *peer,
		   uint32_t *claimant)
{
	struct simhca_steps_with before, with = { .context = peer->context->id,
						  .pid = mm->pid,
						  .peer_pid = peer->context->offer.mm->pid };

	/* What it wrote by when it was attached before is its own until it has another. */
	if (simhca_steps_find(qp->device->fabric, &qp->fastpath.steps,
			      simhca_fastpath_key(qp, peer), &before)) {
		with.writer = before.writer;
		with.peer_writer = before.peer_writer;
	}

	/* Who waits for its steps reads both, so they are written once: before it is found there. */
	if (!qp->fastpath.steps.qpc) {
		qp->fastpath.steps.qpc = qp->qpc;
		qp->fastpath.steps.context = qp->context;
	}
	if (qp->type == SIMHCA_QPT_UD) {
		*claimant = enlist_sender(qp, &with, peer);
		if (!*claimant)
			return false;
	} else {
		if (!simhca_steps_add(qp->device->fabric, &qp->fastpath.steps, &with))
			return false;
		*claimant = peer->claimant;
		atomic_store(&peer->fastpath.whose, qp->qpn);
	}
	atomic_store(&qp->fastpath.attached, true);
	return true;
}

/* Where the peer's receive WQEs are; returns the segment's descriptor. */
static int show_receives(const struct simhca_qp *peer, struct simhca_attach_peer_reply *reply)
{
	const struct simhca_srq *srq = peer->srq;

	reply->data_may_stay = peer->data_may_stay;
	if (!srq) {
		reply->rq_entries = peer->rq_entries;
		reply->rq_stride = peer->rq_stride;
		reply->rq_max_sge = peer->qpc->max_recv_sge;
		reply->rq_pd = peer->qpc->pd;
		reply->rq = peer->rq_ref.offset;
		reply->claims = peer->claims_ref.offset;
		return simhca_context_segment(peer->context, peer->mem_ref.segment,
					      &reply->rq_size);
	}
	reply->is_srq = 1;
	reply->rq_entries = srq->view.entries;
	reply->rq_stride = srq->view.stride;
	reply->rq_max_sge = srq->view.max_sge;
	reply->rq_pd = srq->pd->number;
	reply->rq = srq->ring_ref.offset;
	reply->claims = srq->mem_ref.offset;
	return simhca_context_segment(peer->context, srq->mem_ref.segment, &reply->rq_size);
}

/* The CQs, and where the peer's queues are in the segments. */
static void show_queues(const struct simhca_qp *qp, const struct simhca_qp *peer,
			struct simhca_attach_peer_reply *reply)
{
	const struct simhca_cq *send = qp->send_cq, *recv = peer->recv_cq;

	reply->send_cqe = send->view.cqe;
	reply->send_entries = send->view.entries;
	reply->send_cq = send->mem_ref;
	reply->send_ring = send->ring_ref;
	reply->send_channel = send->channel;
	reply->send_event = send->user_handle.element;
	reply->state = peer->mem_ref.offset;
	reply->recv_cqe = recv->view.cqe;
	reply->recv_entries = recv->view.entries;
	reply->recv_cq = recv->mem_ref.offset;
	reply->recv_ring = recv->ring_ref.offset;
	reply->recv_data = recv->data_ref.offset;
	reply->recv_data_slots = recv->view.data_slots;
	reply->recv_channel = recv->channel;
	reply->recv_event = recv->user_handle.element;
}

static void show_segments(struct simhca_qp *peer, const struct simhca_mm *mm,
			  struct simhca_attach_peer_reply *reply, struct simhca_attached *attached)
{
	struct simhca_context *context = peer->context;

	attached->peer = context->arg;
	attached->own_pid = mm->pid;
	attached->peer_pid = context->offer.mm->pid;
	/* A process that has both ends has nothing to fear of itself, nor a descriptor to spare. */
	if (attached->own_pid != attached->peer_pid)
		simhca_hand_out(peer);
	attached->fds[0] = simhca_context_segment(context, peer->mem_ref.segment, &reply->qp_size);
	attached->fds[1] =
		simhca_context_segment(context, peer->recv_cq->mem_ref.segment, &reply->cq_size);
	attached->fds[2] = show_receives(peer, reply);
}

int simhca_attach_peer(struct simhca_context *context, const struct simhca_mm *mm,
		       const struct simhca_attach_peer_req *req,
		       struct simhca_attach_peer_reply *reply, struct simhca_attached *attached,
		       struct simhca_why *why)
{
	struct simhca_qp *qp = simhca_object(context, SIMHCA_OBJ_QP, req->qp, why);
	struct simhca_steps_with with;
	struct simhca_qp *peer;
	uint32_t claimant, epoch, peer_epoch;

	if (!qp)
		return -ENOENT;
	peer = simhca_fastpath_peer(qp, mm, &req->av, req->dest_qpn, why);
	if (!peer)
		return -ENOTCONN;
	if (memcmp(&req->secret, &peer->context->offer.secret, sizeof(req->secret)) != 0)
		return simhca_why(why, EPERM, "this is not what the memory of the peer has there");
	if (!enlist(qp, mm, peer, &claimant))
		return simhca_why(why, ENOSPC,
				  "the QP, or whom it sends to, is attached to as many "
				  "as it can be");
	epoch = allow(qp);
	peer_epoch = allow(peer);
	if (!add_writers(qp, mm, peer, &with))
		return simhca_why(why, ENOSPC,
				  "too many QPs write to the memory of one process on which "
				  "atomics are done");
	*reply = (struct simhca_attach_peer_reply){
		.peer = peer->qpn,
		.claimant = claimant,
		.fastpath_epoch = epoch,
		.peer_fastpath_epoch = peer_epoch,
		.mm = mm->number,
		.peer_mm = peer->context->offer.mm->number,
		.writer = with.writer.atomicity ? with.writer.number + 1 : 0,
		.peer_writer = with.peer_writer.atomicity ? with.peer_writer.number + 1 : 0,
	};
	show_queues(qp, peer, reply);
	show_segments(peer, mm, reply, attached);
	attached->writers = simhca_exclusive_file(&with.writer);
	attached->peer_writers = simhca_exclusive_file(&with.peer_writer);
	return 0;
}

void simhca_fastpath_usage(const struct simhca_qp *qp, struct simhca_usage_sum *sum)
{
	const struct simhca_fastpath *mem = qp->fastpath.steps.mem;
	uint64_t reads;

	sum->received += atomic_load_explicit(&qp->mem->received, memory_order_relaxed);
	sum->received_bytes += atomic_load_explicit(&qp->mem->received_bytes, memory_order_relaxed);
	if (!mem)
		return;
	for (int i = 0; i < SIMHCA_FASTPATH_LATENCIES; i++)
		sum->latency[i] += atomic_load_explicit(&mem->latency[i], memory_order_relaxed);
	reads = atomic_load_explicit(&mem->reads, memory_order_relaxed) +
		atomic_load_explicit(&mem->atomics, memory_order_relaxed);
	sum->messages += atomic_load_explicit(&mem->messages, memory_order_relaxed) - reads;
	sum->bytes += atomic_load_explicit(&mem->payload, memory_order_relaxed);
	sum->reads += reads;
	sum->read_bytes += atomic_load_explicit(&mem->read_payload, memory_order_relaxed);
}
