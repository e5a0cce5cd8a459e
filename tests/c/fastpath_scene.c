/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fastpath_scene.h"
#include "core/context.h"
#include "dma/dma.h"

const struct simhca_secret fastpath_secret = { { 0x1234567890abcdef, 42 } };
#define KILLED 77

static unsigned int stop_at; /* the process ends before this store; 0: at none */
void (*fastpath_at_store)(void);

void simhca_store(void)
{
	static unsigned int stores;

	if (fastpath_at_store)
		fastpath_at_store();
	if (stop_at && ++stores == stop_at)
		_exit(KILLED);
}

int fastpath_setup(void **state)
{
	const struct world_config config = { .device = { .fast_path = true, .slot_data = true } };

	*state = world_new(&config);
	return 0;
}

struct options fastpath_options(void)
{
	struct options options = default_options(IBV_QPT_RC);

	options.same_device = true;
	options.max_inline = 256;
	options.max_send_wr = 128;
	options.mr_access = SIMHCA_ACCESS_LOCAL_WRITE | SIMHCA_ACCESS_REMOTE_WRITE |
			    SIMHCA_ACCESS_REMOTE_READ | SIMHCA_ACCESS_REMOTE_ATOMIC;
	return options;
}

void fastpath_offer(struct client *client)
{
	const struct simhca_offer_memory_req req = { .address = (uintptr_t)&fastpath_secret,
						     .secret = fastpath_secret };

	assert_int_equal(simhca_offer_memory(client->context, client->mm, &req, NULL), 0);
}

struct pair *fastpath_pair(struct world *world, const struct options *options)
{
	struct pair *pair = pair_new(world, options);

	simhca_context_name(pair->b.client->context, getpid(), "test");
	fastpath_offer(pair->a.client);
	fastpath_offer(pair->b.client);
	return pair;
}

struct pair *fastpath_pair_of(struct world *world, enum ibv_qp_type type)
{
	struct options options = fastpath_options();
	struct pair *pair;

	options.type = type;
	pair = fastpath_pair(world, &options);
	run_until_idle(world);
	return pair;
}

struct pair *fastpath_rc_pair(struct world *world, bool slot_data)
{
	struct options options = fastpath_options();

	options.slot_data = slot_data;
	return fastpath_pair(world, &options);
}

struct pair *fastpath_pair_with_srq(struct world *world)
{
	struct options options = fastpath_options();

	options.srq_wr = 128;
	return fastpath_pair(world, &options);
}

static int attach_to(struct side *side, const struct side *peer, const struct simhca_secret *known,
		     struct simhca_attach_peer_reply *reply, struct simhca_attached *attached)
{
	struct simhca_attach_peer_req req = { .qp = side->qp->handle, .secret = *known };

	if (side->qp->type == IBV_QPT_UD) {
		req.av = av_to(side->world, 0, side->options.gid_index);
		req.dest_qpn = peer->qp->qpn;
	}
	return simhca_attach_peer(side->client->context, side->client->mm, &req, reply, attached,
				  NULL);
}

int fastpath_attach_with(struct side *side, const struct simhca_secret *known,
			 struct simhca_attach_peer_reply *reply)
{
	struct simhca_attached attached;

	return attach_to(side, side->peer, known, reply, &attached);
}

/* The file of writers, in which it is that one, plus 1; 0: there is none. */
static void map_writers(struct simhca_writing *writing, uint32_t which, int fd)
{
	assert_int_equal(which != 0, fd >= 0);
	if (!which)
		return;
	writing->there =
		mmap(NULL, sizeof(*writing->there), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(writing->there, MAP_FAILED);
	writing->mine = &writing->there->writer[which - 1];
}

struct simhca_step fastpath_attach(struct side *side)
{
	return fastpath_attach_to(side, side->peer);
}

struct simhca_step fastpath_attach_to(struct side *side, struct side *peer)
{
	struct simhca_find_peer_req find = { .qp = side->qp->handle };
	struct simhca_find_peer_reply found;
	struct simhca_attach_peer_reply reply;
	struct simhca_attached attached;
	struct simhca_step step;

	memset(&step, 0, sizeof(step));
	if (side->qp->type == IBV_QPT_UD) {
		find.av = step.peer.av = av_to(side->world, 0, side->options.gid_index);
		find.dest_qpn = step.peer.qpn = peer->qp->qpn;
	}
	assert_int_equal(simhca_find_peer(side->client->context, &find, &found, NULL), 0);
	assert_int_equal(found.pid, getpid());
	assert_ptr_equal(found.address, &fastpath_secret);
	assert_int_equal(attach_to(side, peer, &fastpath_secret, &reply, &attached), 0);
	assert_int_equal(reply.peer, peer->qp->qpn);
	assert_int_equal(reply.state, peer->qp->granted.state.offset);
	step.device = simhca_device_memory(side->world->device[0]);
	step.qpc = (const void *)((const char *)step.device + step.device->qpc_offset);
	step.peer.qpc = step.qpc + SIMHCA_QPN_SLOT(peer->qp->qpn);
	step.qpc += SIMHCA_QPN_SLOT(side->qp->qpn);
	step.mem = side->qp->state;
	step.sq = (const char *)side->qp->sq;
	step.sq_entries = side->qp->granted.sq_entries;
	step.sq_stride = side->qp->granted.sq_stride;
	step.send_cq = (struct simhca_cq_view){ .mem = side->send_cq->state,
						.ring = side->send_cq->ring,
						.entries = reply.send_entries,
						.cqe = reply.send_cqe };
	step.fastpath = client_at(side->client, &side->qp->granted.fastpath);
	step.fastpath_epoch = reply.fastpath_epoch;
	step.mm = reply.mm;
	step.peer.mem = peer->qp->state;
	step.peer.rq = (char *)peer->qp->rq;
	step.peer.rq_entries = reply.rq_entries;
	step.peer.rq_stride = reply.rq_stride;
	step.peer.rq_max_sge = reply.rq_max_sge;
	step.peer.rq_pd = reply.rq_pd;
	step.peer.data_may_stay = reply.data_may_stay;
	step.peer.claimant = reply.claimant;
	step.peer.is_srq = reply.is_srq;
	step.peer.claims = peer->qp->claims;
	if (peer->srq) {
		step.peer.claims = peer->srq->state;
		step.peer.rq = (char *)peer->srq->ring;
	}
	step.peer.recv_cq = (struct simhca_cq_view){ .mem = peer->recv_cq->state,
						     .ring = peer->recv_cq->ring,
						     .entries = reply.recv_entries,
						     .cqe = reply.recv_cqe,
						     .data = (char *)(uintptr_t)peer->recv_cq->data,
						     .data_slots = reply.recv_data_slots };
	step.send_notify.fd = step.peer.recv_notify.fd = -1;
	step.peer.fastpath_epoch = reply.peer_fastpath_epoch;
	step.peer.mm = reply.peer_mm;
	map_writers(&step.writing, reply.writer, attached.writers);
	map_writers(&step.peer.writing, reply.peer_writer, attached.peer_writers);
	step.peer.pid = (pid_t)found.pid;
	step.peer.memory = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	step.peer.pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	assert_true(step.peer.memory >= 0 && step.peer.pagemap >= 0);
	return step;
}

void fastpath_detach(const struct simhca_step *step)
{
	if (step->writing.there)
		munmap(step->writing.there, sizeof(*step->writing.there));
	if (step->peer.writing.there)
		munmap(step->peer.writing.there, sizeof(*step->peer.writing.there));
	close(step->peer.memory);
	close(step->peer.pagemap);
}

struct simhca_step fastpath_attach_another(struct side *side)
{
	struct simhca_mm *mm = side->client->mm;
	const pid_t pid = mm->pid;
	struct simhca_step step;

	mm->pid = getppid();
	step = fastpath_attach(side);
	mm->pid = pid;
	return step;
}

void fastpath_completes(struct cq *cq)
{
	struct simhca_cqe cqe;

	assert_true(cq_wait(cq, &cqe));
	assert_int_equal(cqe.status, SIMHCA_WC_SUCCESS);
}

struct fastpath_kept fastpath_keep(struct client *client, const struct simhca_mem_ref *ref)
{
	struct fastpath_kept kept;
	int fd = simhca_context_segment(client->context, ref->segment, &kept.size);

	assert_true(fd >= 0 && ref->segment >= SIMHCA_MAX_SEGMENTS);
	kept.addr = mmap(NULL, kept.size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(kept.addr, MAP_FAILED);
	return kept;
}

void fastpath_end(void)
{
	_exit(KILLED);
}

bool fastpath_run(struct simhca_step *step)
{
	const struct simhca_send_wqe *unknown;

	return step->peer.qpn ? simhca_step_datagrams(&step, 1, &unknown) : simhca_step(step);
}

bool fastpath_killed_at(struct simhca_step *step, unsigned int store)
{
	pid_t child = fork();
	int status;

	assert_true(child >= 0);
	if (!child) {
		stop_at = store;
		fastpath_run(step);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status) == KILLED;
}
