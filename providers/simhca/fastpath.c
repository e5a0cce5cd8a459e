/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "attached.h"
#include "fastpath.h"
#include "command.h"
#include "descriptors.h"
#include "destinations.h"
#include "say.h"

/* Descriptors that come when a QP is attached: so many, and up to so many. */
#define NUM_SEGMENTS 3
#define NUM_CHANNELS 2

/* ------------------------------------------------------------------------------ secret */

/* A page of this process alone: a child has a zeroed one. */
static struct simhca_secret *secret_of_process(void)
{
	static struct shca_lock lock;
	static struct simhca_secret *page;
	struct simhca_secret *secret = NULL;

	shca_lock(&lock);
	if (!page) {
		void *mapped = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (mapped != MAP_FAILED && madvise(mapped, sizeof(*page), MADV_WIPEONFORK)) {
			munmap(mapped, sizeof(*page));
			mapped = MAP_FAILED;
		}
		page = mapped == MAP_FAILED ? NULL : mapped;
	}
	if (page && (page->word[0] || simhca_call_getrandom(page, sizeof(*page)) == sizeof(*page)))
		secret = page;
	shca_unlock(&lock);
	return secret;
}

void shca_fastpath_offer(struct shca_context *ctx)
{
	struct simhca_offer_memory_req req;
	const struct simhca_secret *secret;

	if (!ctx->dev->fast_path || ctx->no_fastpath)
		return;
	secret = secret_of_process();
	if (!secret)
		return;
	req.address = (uintptr_t)secret;
	req.secret = *secret;
	shca_command(ctx, SIMHCA_CMD_OFFER_MEMORY, &req);
}

/* ----------------------------------------------------------------------------- the peer */

void shca_detach(struct shca_attached *peer)
{
	if (!peer)
		return;
	if (peer->qp)
		munmap(peer->qp, peer->qp_size);
	if (peer->cq)
		munmap(peer->cq, peer->cq_size);
	if (peer->rq)
		munmap(peer->rq, peer->rq_size);
	shca_descriptors_put(peer->memory);
	shca_descriptors_put(peer->send_channel);
	shca_descriptors_put(peer->recv_channel);
	free(peer);
}

/* Whether [offset, offset + bytes) lies in a segment. */
static bool lies_in(uint64_t offset, uint64_t bytes, uint64_t size)
{
	return bytes <= size && offset <= size - bytes && !(offset % 64);
}

static bool map_segments(struct shca_attached *peer, const struct simhca_attach_peer_reply *reply,
			 const int *fds)
{
	const struct {
		uint64_t size;
		void **addr;
	} maps[NUM_SEGMENTS] = { { reply->qp_size, &peer->qp },
				 { reply->cq_size, &peer->cq },
				 { reply->rq_size, &peer->rq } };
	int err = 0;

	peer->qp_size = reply->qp_size;
	peer->cq_size = reply->cq_size;
	peer->rq_size = reply->rq_size;
	for (int i = 0; i < NUM_SEGMENTS; i++) /* each closes its descriptor */
		err |= shca_map_whole(fds[i], maps[i].size, PROT_READ | PROT_WRITE, maps[i].addr);
	return !err;
}

/* The peer's receive queue, or its SRQ. False: it is not where it should be. */
static bool map_receives(struct shca_attached *peer, const struct simhca_attach_peer_reply *reply)
{
	struct simhca_step *step = &peer->step;
	const uint64_t copy = reply->claimant ? SIMHCA_RECV_COPY_BYTES : 0;

	if (!lies_in(reply->state, sizeof(*step->peer.mem) + copy, reply->qp_size) ||
	    !lies_in(reply->rq, (uint64_t)reply->rq_entries * reply->rq_stride, reply->rq_size) ||
	    (reply->claimant &&
	     !lies_in(reply->claims, sizeof(*step->peer.claims), reply->rq_size)))
		return false;
	step->peer.mem = (void *)((char *)peer->qp + reply->state);
	step->peer.rq = (char *)peer->rq + reply->rq;
	step->peer.rq_entries = reply->rq_entries;
	step->peer.rq_stride = reply->rq_stride;
	step->peer.rq_max_sge = reply->rq_max_sge;
	step->peer.rq_pd = reply->rq_pd;
	step->peer.slot_data = reply->slot_data;
	step->peer.claimant = reply->claimant;
	step->peer.is_srq = reply->is_srq;
	if (reply->claimant)
		step->peer.claims = (void *)((char *)peer->rq + reply->claims);
	return true;
}

static bool map_peer(struct shca_qp *qp, struct shca_attached *peer,
		     const struct simhca_attach_peer_reply *reply, const int *fds)
{
	struct shca_cq *send_cq = to_scq(qp->vqp.qp.send_cq);
	struct simhca_step *step = &peer->step;

	if (!map_segments(peer, reply, fds) || !map_receives(peer, reply) ||
	    !lies_in(reply->recv_cq, sizeof(*step->peer.recv_cq.mem), reply->cq_size) ||
	    !lies_in(reply->recv_ring,
		     (uint64_t)reply->recv_entries * sizeof(*step->peer.recv_cq.ring),
		     reply->cq_size))
		return false;
	step->peer.recv_cq = (struct simhca_cq_view){
		.mem = (void *)((char *)peer->cq + reply->recv_cq),
		.ring = (void *)((char *)peer->cq + reply->recv_ring),
		.entries = reply->recv_entries,
		.cqe = reply->recv_cqe,
	};
	step->peer.qpc =
		qp->qpc - SIMHCA_QPN_SLOT(qp->vqp.qp.qp_num) + SIMHCA_QPN_SLOT(reply->peer);
	step->peer.fastpath_epoch = reply->peer_fastpath_epoch;
	step->peer.mm = reply->peer_mm;
	step->device = qp->ctx->dev;
	step->qpc = qp->qpc;
	step->mem = qp->mem;
	step->sq = (const char *)qp->sq.ring;
	step->sq_entries = qp->sq.mask + 1;
	step->sq_stride = qp->sq.stride;
	step->reads.most_ns = SIMHCA_STEP_READ_NS;
	step->fastpath = qp->fastpath;
	step->fastpath_epoch = reply->fastpath_epoch;
	step->mm = reply->mm;
	step->send_cq = (struct simhca_cq_view){
		.mem = shca_map(qp->ctx, &send_cq->own, &reply->send_cq,
				sizeof(*step->send_cq.mem)),
		.ring = shca_map(qp->ctx, &send_cq->own, &reply->send_ring,
				 (uint64_t)reply->send_entries * sizeof(*step->send_cq.ring)),
		.entries = reply->send_entries,
		.cqe = reply->send_cqe,
	};
	return step->send_cq.mem && step->send_cq.ring;
}

/* Those of the channels that have come, in their order. */
static void take_channels(struct shca_attached *peer, const struct simhca_attach_peer_reply *reply,
			  const int *fds)
{
	struct simhca_step *step = &peer->step;

	peer->recv_channel = shca_descriptors_of_channel(reply->recv_channel ? *fds++ : -1);
	peer->send_channel = shca_descriptors_of_channel(reply->send_channel ? *fds : -1);
	step->peer.recv_notify.fd = shca_descriptor(peer->recv_channel, 0);
	step->peer.recv_notify.record = reply->recv_event;
	step->send_notify.fd = shca_descriptor(peer->send_channel, 0);
	step->send_notify.record = reply->send_event;
}

/* What is said of the peer but by its device. */
static void take_peer(struct shca_attached *peer, const struct simhca_find_peer_req *find,
		      const struct simhca_find_peer_reply *found)
{
	peer->process = shca_process();
	peer->step.peer.memory = shca_descriptor(peer->memory, SHCA_MEMORY);
	peer->step.peer.pagemap = shca_descriptor(peer->memory, SHCA_PAGEMAP);
	peer->step.peer.pid = (pid_t)found->pid;
	peer->step.peer.av = find->av;
	peer->step.peer.qpn = find->dest_qpn;
}

struct shca_attached *shca_attach(struct shca_qp *qp, const struct simhca_send_wqe *wqe)
{
	struct simhca_find_peer_req find = { .qp = qp->vqp.qp.handle };
	struct simhca_attach_peer_req req = { .qp = qp->vqp.qp.handle };
	struct simhca_attach_peer_reply reply;
	struct simhca_find_peer_reply found;
	struct shca_attached *peer;
	int fds[NUM_SEGMENTS + NUM_CHANNELS], error;

	if (wqe) {
		find.av = req.av = wqe->ud.av;
		find.dest_qpn = req.dest_qpn = wqe->ud.dest_qpn;
	}
	if (shca_call(qp->ctx, SIMHCA_CMD_FIND_PEER, &find, &found))
		return NULL;
	peer = calloc(1, sizeof(*peer));
	if (!peer)
		return NULL;
	peer->memory = shca_descriptors_of_process(&found, &req.secret, &error);
	if (!peer->memory && error)
		shca_say_not_attached(qp->ctx, error);
	if (!peer->memory || shca_execute(qp->ctx, &(struct shca_command){
							   .command = SIMHCA_CMD_ATTACH_PEER,
							   .req = &req,
							   .req_size = sizeof(req),
							   .reply = &reply,
							   .reply_size = sizeof(reply),
							   .reply_fds = fds,
							   .num_reply_fds = NUM_SEGMENTS,
							   .more_reply_fds = NUM_CHANNELS,
						   })) {
		shca_detach(peer);
		return NULL;
	}
	take_peer(peer, &find, &found);
	take_channels(peer, &reply, fds + NUM_SEGMENTS);
	if (map_peer(qp, peer, &reply, fds))
		return peer;
	shca_detach(peer);
	return NULL;
}

bool shca_has_ended(const struct shca_attached *attached)
{
	const struct simhca_step *step = &attached->step;

	return atomic_load(&step->qpc->fastpath_epoch) != step->fastpath_epoch ||
	       atomic_load(&step->peer.qpc->fastpath_epoch) != step->peer.fastpath_epoch;
}

/* ------------------------------------------------------------------------------ the QP */

int shca_fastpath_init(struct shca_qp *qp, const struct simhca_mem_ref *ref)
{
	if (!ref->segment && !ref->offset)
		return 0;
	qp->fastpath = shca_map(qp->ctx, NULL, ref, sizeof(*qp->fastpath));
	return qp->fastpath ? 0 : errno;
}

static void detach(struct shca_qp *qp)
{
	shca_detach(qp->attached);
	qp->attached = NULL;
}

static void attach(struct shca_qp *qp)
{
	detach(qp);
	qp->attached = shca_attach(qp, NULL);
}

void shca_fastpath_free(struct shca_qp *qp)
{
	detach(qp);
	shca_destinations_end(qp);
}

void shca_fastpath_connected(struct shca_qp *qp)
{
	int error = errno;

	if (!qp->fastpath)
		return;
	shca_lock(&qp->sq.lock);
	if (qp->vqp.qp.qp_type == IBV_QPT_UD) {
		shca_destinations_begin(qp);
	} else {
		qp->next_try = qp->tries = SHCA_FIRST_TRY;
		attach(qp);
	}
	shca_unlock(&qp->sq.lock);
	errno = error;
}

static void try_again(struct shca_qp *qp)
{
	if (!qp->tries || --qp->next_try)
		return;
	attach(qp);
	if (qp->tries < SHCA_LAST_TRY)
		qp->tries *= 2;
	qp->next_try = qp->tries;
}

static bool run_connected(struct shca_qp *qp)
{
	if (!qp->attached)
		try_again(qp);
	if (!qp->attached || qp->attached->process != shca_process())
		return false;
	if (simhca_step(&qp->attached->step))
		return true;
	if (shca_has_ended(qp->attached)) {
		detach(qp);
		qp->next_try = qp->tries;
	}
	return false;
}

bool shca_fastpath_run(struct shca_qp *qp)
{
	int error = errno;
	bool all = qp->vqp.qp.qp_type == IBV_QPT_UD ? shca_destinations_run(qp) : run_connected(qp);

	errno = error;
	return all;
}
