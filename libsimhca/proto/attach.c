/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <infiniband/verbs.h>
#include <string.h>
#include <unistd.h>

#include "attach.h"
#include "cq.h"
#include "core/av.h"
#include "core/context.h"
#include "core/fabric.h"
#include "dma/dma.h"
#include "engine/engine.h"
#include "link.h"
#include "memory/key.h"
#include "queue/progress.h"
#include "qp.h"
#include "simhca-attach.h"
#include "simhca-device.h"
#include "simhca-info.h"
#include "srq.h"
#include "owner.h"

/* How long what is posted is left to the program: it posts again meanwhile, or not so soon. */
#define LEFT_NS 20000
/* It was worth it if the program carried so many messages meanwhile, or so many bytes. */
#define WORTH_MESSAGES 8
#define WORTH_BYTES (1u << 16)
#define EVENTS_AT_ONCE 64u     /* until others have the engine */
#define MOST_EVENTS (1u << 16) /* that are believed to be due */

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

/* Its peer, if the two can do without the device; or NULL, and why says what is in the way. */
static struct simhca_qp *peer_of(const struct simhca_qp *qp, const struct simhca_mm *asker,
				 const struct simhca_av *av, uint32_t qpn, struct simhca_why *why)
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
	peer = peer_of(qp, context->offer.mm, &req->av, req->dest_qpn, why);
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

/* The numbers by which those that send to a UD QP claim its receives. */
static uint64_t *claimants_of(struct simhca_qp *qp)
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
	with->claimant = again ? before.claimant : simhca_claimant_add(claimants_of(peer));
	if (!with->claimant)
		return 0;
	/* What it has left behind at the same queue is still to be recovered. */
	atomic_init(&with->recovered,
		    again && before.life == with->life
			    ? atomic_load(&before.recovered)
			    : simhca_srq_claimed(simhca_claimed_from(peer), with->claimant));
	if (simhca_steps_add(fabric, &qp->fastpath.steps, with))
		return with->claimant;
	simhca_claimant_remove(claimants_of(peer), with->claimant);
	return 0;
}

/* Which of those that it is with the peer is. */
static uint32_t key_of(const struct simhca_qp *qp, const struct simhca_qp *peer)
{
	return qp->type == SIMHCA_QPT_UD ? peer->qpn : 0;
}

static uint32_t name_of(uint32_t qpn)
{
	return SIMHCA_OWNER_PROGRAM | qpn;
}

/* It does not write there any more. */
static void remove_writers(struct simhca_fabric *fabric, struct simhca_steps_with *with,
			   uint32_t qpn)
{
	simhca_exclusive_remove_writer(fabric, &with->writer, name_of(qpn));
	simhca_exclusive_remove_writer(fabric, &with->peer_writer, name_of(qpn));
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
		simhca_exclusive_remove_writer(fabric, &writer, name_of(qp->qpn));
		return false;
	}
	simhca_steps_find(fabric, &qp->fastpath.steps, key_of(qp, peer), with);
	remove_writers(fabric, with, qp->qpn); /* of when it was attached before */
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
	if (simhca_steps_find(qp->device->fabric, &qp->fastpath.steps, key_of(qp, peer), &before)) {
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
	peer = peer_of(qp, mm, &req->av, req->dest_qpn, why);
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
		.send_cqe = qp->send_cq->view.cqe,
		.send_entries = qp->send_cq->view.entries,
		.recv_cqe = peer->recv_cq->view.cqe,
		.recv_entries = peer->recv_cq->view.entries,
		.send_cq = qp->send_cq->mem_ref,
		.send_ring = qp->send_cq->ring_ref,
		.state = peer->mem_ref.offset,
		.recv_cq = peer->recv_cq->mem_ref.offset,
		.recv_ring = peer->recv_cq->ring_ref.offset,
		.recv_data = peer->recv_cq->data_ref.offset,
		.recv_data_slots = peer->recv_cq->view.data_slots,
		.recv_channel = peer->recv_cq->channel,
		.send_channel = qp->send_cq->channel,
		.recv_event = peer->recv_cq->user_handle.element,
		.send_event = qp->send_cq->user_handle.element,
		.writer = with.writer.atomicity ? with.writer.number + 1 : 0,
		.peer_writer = with.peer_writer.atomicity ? with.peer_writer.number + 1 : 0,
	};
	*attached = (struct simhca_attached){
		.peer = peer->context->arg,
		.own_pid = mm->pid,
		.peer_pid = peer->context->offer.mm->pid,
	};
	/* A process that has both ends has nothing to fear of itself, nor a descriptor to spare. */
	if (attached->own_pid != attached->peer_pid)
		simhca_hand_out(peer);
	attached->fds[0] =
		simhca_context_segment(peer->context, peer->mem_ref.segment, &reply->qp_size);
	attached->fds[1] = simhca_context_segment(peer->context, peer->recv_cq->mem_ref.segment,
						  &reply->cq_size);
	attached->fds[2] = show_receives(peer, reply);
	attached->writers = simhca_exclusive_file(&with.writer);
	attached->peer_writers = simhca_exclusive_file(&with.peer_writer);
	return 0;
}

/* ----------------------------------------------------------------- regions that are mapped */

/* Whose regions the sender may map: by a QP, which is attached if they are its peer's. */
struct region_user {
	uint32_t owner;	 /* number of the memory of who has registered them */
	uint32_t pds[2]; /* of the QP, and of its receives */
};

static struct region_user user_of(const struct simhca_qp *qp, const struct simhca_mm *mm)
{
	const uint32_t pd = qp->qpc->pd;

	return (struct region_user){ mm->number, { pd, qp->srq ? qp->srq->pd->number : pd } };
}

/* False: the sender has not proven that it may write to the peer's memory, or the peer has changed. */
static bool find_peers_regions(struct simhca_qp *qp, const struct simhca_mm *mm,
			       const struct simhca_map_region_req *req, struct region_user *user,
			       struct simhca_why *why)
{
	struct simhca_qp *peer = peer_of(qp, mm, &req->av, req->dest_qpn, why);
	struct simhca_steps_with with;

	if (!peer || !atomic_load(&qp->qpc->fastpath_epoch) ||
	    !atomic_load(&peer->qpc->fastpath_epoch) ||
	    !simhca_steps_find(qp->device->fabric, &qp->fastpath.steps, key_of(qp, peer), &with) ||
	    with.context != peer->context->id || with.pid != mm->pid ||
	    with.peer_pid != peer->context->offer.mm->pid)
		return false;
	*user = user_of(peer, peer->context->offer.mm);
	return true;
}

int simhca_map_region(struct simhca_context *context, const struct simhca_mm *mm,
		      const struct simhca_map_region_req *req,
		      struct simhca_map_region_reply *reply, int *fd, struct simhca_why *why)
{
	struct simhca_qp *qp = simhca_object(context, SIMHCA_OBJ_QP, req->qp, why);
	const struct simhca_mpt *mpt;
	struct simhca_key *region;
	struct region_user user;
	uint32_t pd;

	if (!qp)
		return -ENOENT;
	if (req->own)
		user = user_of(qp, mm);
	else if (!find_peers_regions(qp, mm, req, &user, why))
		return simhca_why(why, ENOTCONN, "the QP is not attached to its peer");
	mpt = simhca_mpt_find(context->device, req->key);
	region = mpt && atomic_load(&mpt->state) == SIMHCA_MPT_MR &&
				 atomic_load(&mpt->key) == req->key
			 ? simhca_key_of(context->device, req->key)
			 : NULL;
	if (!region)
		return simhca_why(why, ENOENT, "there is no such region any more");
	pd = atomic_load(&mpt->pd);
	if (region->file.owner != user.owner || (pd != user.pds[0] && pd != user.pds[1]))
		return simhca_why(why, EPERM, "it is no region that the sender may map");
	*reply = (struct simhca_map_region_reply){
		.offset = region->file.offset,
		.length = mpt->length,
		.file = mpt->file,
		.access = mpt->access,
		.may_fail = region->file.may_fail,
	};
	*fd = region->file.fd;
	region->file.mapped = true;
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

/* ----------------------------------------------------------------------- handing back */

/* Whether a step can do anything with the next WQE at all. */
static bool is_for_fast_path(const struct simhca_qp *qp)
{
	struct simhca_send_wqe wqe;

	simhca_sq_header(qp, qp->req.oldest, &wqe);
	return simhca_op_has(wqe.opcode, SIMHCA_OP_FAST_PATH);
}

/* If the last time was in vain, it is tried more seldom. */
static bool is_worth_it(struct simhca_fastpath_yielding *leaving, const struct simhca_fastpath *mem)
{
	uint64_t messages = atomic_load_explicit(&mem->messages, memory_order_relaxed);
	uint64_t bytes = atomic_load_explicit(&mem->bytes, memory_order_relaxed);

	if (!simhca_spin_wanted(&leaving->worth))
		return false;
	simhca_spin_done(&leaving->worth, messages - leaving->messages >= WORTH_MESSAGES ||
						  bytes - leaving->bytes >= WORTH_BYTES);
	leaving->messages = messages;
	leaving->bytes = bytes;
	return true;
}

bool simhca_fastpath_is_wanted(const struct simhca_qp *qp)
{
	const struct simhca_fastpath *mem = qp->fastpath.steps.mem;

	return mem && atomic_load_explicit(&mem->wants, memory_order_relaxed) &&
	       atomic_load(&qp->qpc->fastpath_epoch);
}

bool simhca_fastpath_yield(struct simhca_qp *qp)
{
	struct simhca_fastpath *mem = qp->fastpath.steps.mem;
	uint32_t posted;

	if (!simhca_fastpath_is_wanted(qp))
		return false;
	atomic_store_explicit(&mem->wants, 0, memory_order_relaxed);
	if (qp->req.wait != SIMHCA_WAIT_NOTHING ||
	    !simhca_progress_sends(qp->mem, qp->req.oldest, 0, qp->sq_entries, &posted) ||
	    !posted || !is_for_fast_path(qp) || !is_worth_it(&qp->fastpath.yielding, mem))
		return false;
	atomic_store_explicit(&mem->left, 1, memory_order_relaxed);
	atomic_store(&qp->fastpath.yielding.until, simhca_engine_arm_timer(&qp->task, LEFT_NS));
	return true;
}

bool simhca_fastpath_has_yielded(struct simhca_qp *qp)
{
	/* relaxed: who sees what was before runs the QP too early, or comes again.
	 */
	uint64_t until = atomic_load_explicit(&qp->fastpath.yielding.until, memory_order_relaxed);

	if (!until)
		return false;
	if (atomic_load_explicit(&qp->fastpath.steps.mem->left, memory_order_relaxed) &&
	    atomic_load(&qp->task.timer_fired) != until)
		return true;
	atomic_compare_exchange_strong(&qp->fastpath.yielding.until, &until, 0);
	return false;
}

/* ----------------------------------------------------------------------------- the end */

/* How many are left: a client that lies makes work for itself. */
static uint32_t raise_events(_Atomic uint32_t *due, struct simhca_cq *cq)
{
	uint32_t events, now;

	if (!atomic_load_explicit(due, memory_order_relaxed))
		return 0;
	events = atomic_exchange(due, 0);
	if (!cq)
		return 0;
	if (events > MOST_EVENTS)
		events = MOST_EVENTS;
	now = events < EVENTS_AT_ONCE ? events : EVENTS_AT_ONCE;
	for (uint32_t i = 0; i < now; i++)
		simhca_cq_notify(cq);
	if (events > now)
		atomic_fetch_add(due, events - now);
	return events - now;
}

/* What was consumed, and for no message that is committed, is for the next one. */
static void take_over_claim(struct simhca_qp *qp)
{
	if (!simhca_responder_acquire(qp))
		return;
	if (simhca_responder_has_claim(qp)) {
		qp->resp.claim = simhca_srq_claimed(&qp->srq->view, qp->claimant);
		qp->resp.have_recv = true;
	}
	simhca_responder_release(qp);
}

/*
 * The program has ended, and its requester with it: in the middle of a step the peer's responder
 * either has the message or has not, and a CQE of a message that it has is published.
 */
static bool recover_peer(const struct simhca_qp *qp, struct simhca_qp *peer)
{
	uint32_t name = SIMHCA_OWNER_PROGRAM | qp->qpn, holder;

	if (atomic_load(&peer->fastpath.whose) != qp->qpn)
		return true;
	holder = atomic_load_explicit(&peer->mem->resp_owner.holder, memory_order_acquire);
	if ((holder & ~SIMHCA_OWNER_WANTED) != name)
		return true;
	if (!simhca_side_try_lock(&peer->resp_lock, false))
		return false;
	simhca_cq_repair(peer->recv_cq, name, simhca_responder_last_cqe(peer));
	atomic_compare_exchange_strong(&peer->mem->resp_owner.holder, &holder, 0);
	if (peer->claimant)
		take_over_claim(peer);
	simhca_side_unlock(&peer->resp_lock);
	simhca_engine_schedule(peer->context->engine, &peer->task);
	return true;
}

/* Who is attached, and of whom its program says that events are due; or NULL. */
static struct simhca_qp *told_of(struct simhca_qp *qp, uint32_t qpn)
{
	struct simhca_steps_with with;
	struct simhca_qp *peer;

	if (qp->type != SIMHCA_QPT_UD) {
		peer = qp->link->peer ? qp->link->peer(qp) : NULL;
		return peer && peer->qpc->dest_qpn == qp->qpn ? peer : NULL;
	}
	peer = simhca_qp_numbered(qp->device, qpn);
	return peer && simhca_steps_find(qp->device->fabric, &qp->fastpath.steps, qpn, &with)
		       ? peer
		       : NULL;
}

/* Of the SRQ that its receives come from, if it has one. */
static void check_limit(const struct simhca_qp *peer)
{
	if (peer && peer->srq)
		simhca_srq_check_limit(peer->srq);
}

/* How many are left. */
static uint32_t raise_all(struct simhca_qp *qp)
{
	struct simhca_fastpath *mem = qp->fastpath.steps.mem;
	uint32_t left = 0, qpn;
	struct simhca_qp *peer;

	if (atomic_load_explicit(&mem->srq_limit, memory_order_relaxed)) {
		qpn = (uint32_t)atomic_exchange(&mem->srq_limit, 0);
		check_limit(told_of(qp, qpn));
	}
	/* The peer's first: it may sleep, and who rang does not. acquire: whose they are. */
	if (atomic_load_explicit(&mem->recv_events, memory_order_acquire)) {
		qpn = atomic_load_explicit(&mem->event_peer, memory_order_relaxed);
		peer = told_of(qp, qpn);
		left = raise_events(&mem->recv_events, peer ? peer->recv_cq : NULL);
	}
	return left + raise_events(&mem->send_events, qp->send_cq);
}

bool simhca_fastpath_rang(struct simhca_qp *qp)
{
	struct simhca_fastpath *mem = qp->fastpath.steps.mem;
	uint32_t left;

	if (!atomic_load_explicit(&qp->fastpath.attached, memory_order_relaxed))
		return false;
	/*
	 * A datagram says whom they are for: none is under way while the device holds the
	 * requester.
	 */
	if (qp->type != SIMHCA_QPT_UD ||
	    !atomic_load_explicit(&mem->recv_events, memory_order_relaxed))
		return raise_all(qp);
	if (!simhca_qp_begin(qp)) /* who has it has the QP looked at again */
		return false;
	left = raise_all(qp);
	simhca_qp_end(qp);
	return left;
}

/* It ended while it raised one: that is there, or not. */
static void notify_again(_Atomic uint32_t *notifying, _Atomic uint32_t *due)
{
	if (atomic_exchange(notifying, 0))
		atomic_fetch_add(due, 1);
}

/* It sends to nobody any more. */
static void leave_destinations(const struct simhca_qp *qp)
{
	const struct simhca_steps *steps = &qp->fastpath.steps;

	for (uint32_t i = 0; i < steps->num_with; i++) {
		struct simhca_qp *peer = simhca_qp_numbered(qp->device, steps->with[i].qpn);

		/* Of one that goes itself it is forgotten afterwards. */
		if (!peer)
			continue;
		/* It may have ended before it could say so. */
		check_limit(peer);
		simhca_claimant_remove(claimants_of(peer), steps->with[i].claimant);
	}
}

/* It ended in the middle of a step, with a peer that is connected to it. */
static bool leave_peer(struct simhca_qp *qp)
{
	struct simhca_qp *peer = qp->link->peer ? qp->link->peer(qp) : NULL;

	if (!peer || !atomic_load(&qp->context->dead))
		return true;
	if (!recover_peer(qp, peer))
		return false;
	check_limit(told_of(qp, peer->qpn));
	return true;
}

bool simhca_fastpath_recover(struct simhca_qp *qp)
{
	struct simhca_fabric *fabric = qp->device->fabric;
	struct simhca_steps *steps = NULL;
	struct simhca_qp *sender;

	while ((steps = simhca_steps_next_ended(fabric, steps, qp->context->id))) {
		sender = (struct simhca_qp *)((char *)steps -
					      offsetof(struct simhca_qp, fastpath.steps));
		if (!(qp->type == SIMHCA_QPT_UD ? simhca_qp_recover_at(sender, qp)
						: recover_peer(sender, qp)))
			return false;
	}
	return true;
}

void simhca_fastpath_forget(struct simhca_qp *qp)
{
	struct simhca_steps_with was;
	uint32_t sender;

	while (simhca_steps_forget(qp->device->fabric, qp->qpn, &was, &sender)) {
		simhca_claimant_remove(claimants_of(qp), was.claimant);
		remove_writers(qp->device->fabric, &was, sender);
	}
}

bool simhca_fastpath_detach(struct simhca_qp *qp)
{
	struct simhca_fastpath *mem = qp->fastpath.steps.mem;

	if (!atomic_load(&qp->fastpath.attached))
		return true;
	simhca_qp_recover(qp);
	if (qp->type != SIMHCA_QPT_UD && !leave_peer(qp))
		return false;
	notify_again(&mem->recv_notifying, &mem->recv_events);
	notify_again(&mem->send_notifying, &mem->send_events);
	/* Its program saw the completion at once, and need not have waited for the doorbell. */
	if (raise_all(qp))
		return false;
	simhca_steps_remove(qp->device->fabric, &qp->fastpath.steps);
	if (qp->type == SIMHCA_QPT_UD)
		leave_destinations(qp);
	for (uint32_t i = 0; i < qp->fastpath.steps.num_with; i++)
		remove_writers(qp->device->fabric, &qp->fastpath.steps.with[i], qp->qpn);
	return true;
}

void simhca_fastpath_gone(struct simhca_context *context)
{
	const struct simhca_steps *steps;

	pthread_rwlock_rdlock(&context->device->fabric->lock);
	for (steps = context->device->fabric->steps; steps; steps = steps->next) {
		const uint32_t name = name_of(steps->qpc->qpn);

		for (uint32_t i = 0; steps->context == context && i < steps->num_with; i++) {
			simhca_exclusive_let_go(&steps->with[i].writer, name);
			simhca_exclusive_let_go(&steps->with[i].peer_writer, name);
		}
	}
	pthread_rwlock_unlock(&context->device->fabric->lock);
}

bool simhca_fastpath_stop(struct simhca_fabric *fabric)
{
	simhca_steps_end(fabric, 0);
	return simhca_steps_are_over(fabric);
}
