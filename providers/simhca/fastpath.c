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
#define NUM_WRITERS 2
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

/* A part of a segment; one of 0 bytes is not there. */
struct part {
	uint64_t offset, bytes;
};
#define PARTS 3

static void close_window(const struct shca_window *window)
{
	if (window->base)
		munmap(window->base, window->size);
}

/* So that all parts are seen, of a segment of that size. False: they do not lie in it. */
static bool open_window(struct shca_window *window, int fd, uint64_t size,
			const struct part part[PARTS])
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t from = UINT64_MAX, to = 0;
	void *base;

	for (int i = 0; i < PARTS; i++) {
		const struct part *one = &part[i];

		if (!one->bytes)
			continue;
		if (one->bytes > size || one->offset > size - one->bytes || one->offset % 64)
			return false;
		from = one->offset < from ? one->offset : from;
		to = one->offset + one->bytes > to ? one->offset + one->bytes : to;
	}
	if (from >= to)
		return false;
	from -= from % page;
	base = shca_map_file(fd, from, to - from, PROT_READ | PROT_WRITE);
	if (base == MAP_FAILED)
		return false;
	*window = (struct shca_window){ .base = base, .from = from, .size = to - from };
	return true;
}

static void *seen_through(const struct shca_window *window, uint64_t offset)
{
	return window->base + (offset - window->from);
}

void shca_detach(struct shca_attached *peer)
{
	if (!peer)
		return;
	close_window(&peer->qp);
	close_window(&peer->cq);
	close_window(&peer->rq);
	close_window(&peer->writers);
	close_window(&peer->peer_writers);
	shca_mapped_end(&peer->mapped);
	shca_descriptors_put(peer->memory);
	shca_descriptors_put(peer->send_channel);
	shca_descriptors_put(peer->recv_channel);
	free(peer);
}

static bool map_segments(struct shca_attached *peer, const struct simhca_attach_peer_reply *reply,
			 const int *fds)
{
	const uint64_t copy = reply->claimant ? SIMHCA_RECV_COPY_BYTES : 0;
	const struct {
		struct shca_window *window;
		uint64_t size;
		struct part part[PARTS];
	} maps[NUM_SEGMENTS] = {
		{ &peer->qp,
		  reply->qp_size,
		  { { reply->state, sizeof(*peer->step.peer.mem) + copy } } },
		{ &peer->cq,
		  reply->cq_size,
		  { { reply->recv_cq, sizeof(*peer->step.peer.recv_cq.mem) },
		    { reply->recv_ring,
		      (uint64_t)reply->recv_entries * sizeof(*peer->step.peer.recv_cq.ring) },
		    { reply->recv_data, (uint64_t)reply->recv_data_slots * SIMHCA_CQ_DATA } } },
		{ &peer->rq,
		  reply->rq_size,
		  { { reply->rq, (uint64_t)reply->rq_entries * reply->rq_stride },
		    { reply->claims, reply->claimant ? sizeof(*peer->step.peer.claims) : 0 } } },
	};
	bool all = true;

	for (int i = 0; i < NUM_SEGMENTS; i++) {
		/* A QP that receives nothing has no such queue. */
		if (maps[i].part[0].bytes || maps[i].part[1].bytes)
			all &= open_window(maps[i].window, fds[i], maps[i].size, maps[i].part);
		simhca_call_close(fds[i]);
	}
	return all;
}

/* Of which it is that one, plus 1; 0: no such file has come. The others that have follow it. */
static bool map_writers(struct shca_window *window, struct simhca_writing *writing, uint32_t which,
			const int **fds)
{
	const uint64_t size = sizeof(*writing->there);
	bool mapped;

	if (!which)
		return true;
	mapped = which <= SIMHCA_WRITERS &&
		 open_window(window, **fds, size, (struct part[PARTS]){ { 0, size } });
	simhca_call_close(*(*fds)++);
	if (mapped) {
		writing->there = (struct simhca_writers *)window->base;
		writing->mine = &writing->there->writer[which - 1];
	}
	return mapped;
}

/* The peer's receive queue, or its SRQ. */
static void find_receives(struct shca_attached *peer, const struct simhca_attach_peer_reply *reply)
{
	struct simhca_step *step = &peer->step;

	step->peer.mem = seen_through(&peer->qp, reply->state);
	step->peer.rq = peer->rq.base ? seen_through(&peer->rq, reply->rq) : NULL;
	step->peer.rq_entries = reply->rq_entries;
	step->peer.rq_stride = reply->rq_stride;
	step->peer.rq_max_sge = reply->rq_max_sge;
	step->peer.rq_pd = reply->rq_pd;
	step->peer.data_may_stay = reply->data_may_stay;
	step->peer.claimant = reply->claimant;
	step->peer.is_srq = reply->is_srq;
	if (reply->claimant)
		step->peer.claims = seen_through(&peer->rq, reply->claims);
}

static bool map_peer(struct shca_qp *qp, struct shca_attached *peer,
		     const struct simhca_attach_peer_reply *reply, const int *fds)
{
	struct shca_cq *send_cq = to_scq(qp->vqp.qp.send_cq);
	struct simhca_step *step = &peer->step;

	if (!map_segments(peer, reply, fds))
		return false;
	find_receives(peer, reply);
	step->peer.recv_cq = (struct simhca_cq_view){
		.mem = seen_through(&peer->cq, reply->recv_cq),
		.ring = seen_through(&peer->cq, reply->recv_ring),
		.entries = reply->recv_entries,
		.cqe = reply->recv_cqe,
		.data_slots = reply->recv_data_slots,
	};
	if (reply->recv_data_slots)
		step->peer.recv_cq.data = seen_through(&peer->cq, reply->recv_data);
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
	peer->step.regions = &peer->mapped.step;
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
	int fds[NUM_SEGMENTS + NUM_WRITERS + NUM_CHANNELS], error;
	const int *more = fds + NUM_SEGMENTS;
	bool mapped;

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
	if (!peer->memory ||
	    shca_execute(qp->ctx, &(struct shca_command){
					  .command = SIMHCA_CMD_ATTACH_PEER,
					  .req = &req,
					  .req_size = sizeof(req),
					  .reply = &reply,
					  .reply_size = sizeof(reply),
					  .reply_fds = fds,
					  .num_reply_fds = NUM_SEGMENTS,
					  .more_reply_fds = NUM_WRITERS + NUM_CHANNELS,
				  })) {
		shca_detach(peer);
		return NULL;
	}
	take_peer(peer, &find, &found);
	mapped = map_writers(&peer->writers, &peer->step.writing, reply.writer, &more);
	mapped &= map_writers(&peer->peer_writers, &peer->step.peer.writing, reply.peer_writer,
			      &more);
	take_channels(peer, &reply, more);
	mapped &= map_peer(qp, peer, &reply, fds);
	if (mapped)
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
	qp->fastpath = shca_map(qp->ctx, NULL, ref, simhca_fastpath_bytes(qp->vqp.qp.qp_type));
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
	bool all;

	if (!qp->attached)
		try_again(qp);
	if (!qp->attached || qp->attached->process != shca_process())
		return false;
	all = simhca_step(&qp->attached->step);
	shca_mapped_look(&qp->attached->mapped);
	if (!all && shca_has_ended(qp->attached)) {
		detach(qp);
		qp->next_try = qp->tries;
	} else if (qp->attached->mapped.step.wanted.key) {
		shca_mapped_want(qp, &qp->attached->mapped, NULL, 0);
	}
	return all;
}

bool shca_fastpath_run(struct shca_qp *qp)
{
	int error = errno;
	bool all = qp->vqp.qp.qp_type == IBV_QPT_UD ? shca_destinations_run(qp) : run_connected(qp);

	errno = error;
	return all;
}
