/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Connections in which something waits: a requester a, a responder b. */
#include <endian.h>
#include <infiniband/tm_types.h>
#include <sys/mman.h>

#include "../c/frames.h"
#include "../c/lossy.h"
#include "../c/paging.h"
#include "../c/xrc.h"
#include "core/handles.h"
#include "liar.h"
#include "proto/cq.h"

#define TAG 0x7a67

static struct lossy lossy;

void poll_some(struct scene *scene, unsigned int most)
{
	if (scene->world->threaded)
		return;
	while (most-- && world_poll(scene->world))
		;
}

/* ----------------------------------------------------------------------- what is posted */

static struct simhca_send_wqe wqe_of(const struct scene *scene, const struct side *side,
				     uint8_t opcode)
{
	const struct side *peer = side->peer;
	struct simhca_send_wqe wqe = {
		.wr_id = 1, .opcode = opcode, .flags = SIMHCA_WQE_SIGNALED, .num_sge = 1
	};

	if (side->qp->type == IBV_QPT_UD) {
		wqe.ud.av = av_to(side->world, peer->client->device_index, 0);
		wqe.ud.dest_qpn = peer->qp->qpn;
		wqe.ud.qkey = side->options.qkey;
	} else {
		wqe.rdma.remote_addr = peer->mr->iova;
		wqe.rdma.rkey = peer->mr->rkey;
	}
	if (opcode == SIMHCA_WR_RDMA_READ_WITH_INV)
		wqe.imm_or_rkey = scene->inv->rkey;
	if (peer->srq)
		wqe.srqn = peer->srq->srqn;
	return wqe;
}

static void put_wqe(struct side *side, const struct simhca_send_wqe *wqe, const void *body,
		    size_t size)
{
	struct qp *qp = side->qp;
	uint32_t pi = atomic_load(&qp->state->sq_pi);
	uint8_t *slot;

	if (qp->sq) {
		slot = qp->sq + (size_t)(pi & (qp->granted.sq_entries - 1)) * qp->granted.sq_stride;
		memcpy(slot, wqe, sizeof(*wqe));
		memcpy(slot + sizeof(*wqe), body, size);
	}
	atomic_store(&qp->state->sq_pi, pi + 1);
	qp_ring(qp);
}

static void post_raw(struct scene *scene, struct side *side, uint8_t opcode)
{
	struct simhca_send_wqe wqe = wqe_of(scene, side, opcode);
	struct simhca_sge one = sge(side->mr, 0, 64);

	if (has_memory(side))
		put_wqe(side, &wqe, &one, sizeof(one));
}

static void send_inline(struct scene *scene, struct side *side)
{
	struct simhca_send_wqe wqe = wqe_of(scene, side, SIMHCA_WR_SEND);
	uint8_t body[INLINE];

	memset(body, 'A', sizeof(body));
	wqe.flags |= SIMHCA_WQE_INLINE;
	wqe.num_sge = 0;
	wqe.inline_len = INLINE;
	put_wqe(side, &wqe, body, sizeof(body));
}

static void recv_raw(struct side *side)
{
	struct simhca_recv_wqe wqe = { .wr_id = 1, .num_sge = 1 };
	struct simhca_sge one = sge(side->mr, 0, BUFFER);
	_Atomic uint32_t *pi = side->srq ? &side->srq->state->pi : rq_pi_of(side->qp);
	uint32_t entries = side->srq ? side->srq->entries : side->qp->granted.rq_entries;
	uint32_t stride = side->srq ? side->srq->stride : side->qp->granted.rq_stride;
	uint8_t *ring = side->srq ? side->srq->ring : side->qp->rq, *slot;
	uint32_t at = atomic_load(pi);

	if (ring) {
		slot = ring + (size_t)(at & (entries - 1)) * stride;
		memcpy(slot, &wqe, sizeof(wqe));
		memcpy(slot + sizeof(wqe), &one, sizeof(one));
	}
	atomic_store(pi, at + 1);
	if (has_memory(side))
		qp_ring(side->qp);
}

/* ------------------------------------------------------------------------ their states */

static void idle(struct scene *scene)
{
	recv_raw(&scene->bad->b);
	recv_raw(&scene->bad->b);
	poll_some(scene, 8);
}

/* No receive is there. */
static void waits_rnr(struct scene *scene)
{
	send_inline(scene, &scene->bad->a);
	post_raw(scene, &scene->bad->a, SIMHCA_WR_RDMA_WRITE);
	poll_some(scene, 8);
}

static void waits_answer_to(struct scene *scene, uint8_t opcode)
{
	assert_int_equal(0, qp_move(scene->bad->b.qp, IBV_QPS_RESET));
	post_raw(scene, &scene->bad->a, opcode);
	post_raw(scene, &scene->bad->a, SIMHCA_WR_SEND);
	poll_some(scene, 8);
}

static void waits_answer(struct scene *scene)
{
	waits_answer_to(scene, SIMHCA_WR_SEND);
}

static void waits_read(struct scene *scene)
{
	waits_answer_to(scene, SIMHCA_WR_RDMA_READ);
}

/* A key that can be invalidated; by work requests before the connection is made anew. */
static void waits_read_inv(struct scene *scene)
{
	struct side *a = &scene->bad->a;
	static uint64_t page;

	if (!scene->inv)
		scene->inv = fast_mr_new(a->client, a->client->pd, 1);
	if (!atomic_load(&mpt_of(a->client, scene->inv->lkey)->valid)) {
		page = a->mr->iova & ~4095ull;
		qp_fast_reg(a->qp, 1, scene->inv, &page, 1, 0, 64, SIMHCA_ACCESS_LOCAL_WRITE);
		poll_some(scene, 8);
		scene_renew(scene);
	}
	waits_answer_to(scene, SIMHCA_WR_RDMA_READ_WITH_INV);
}

static void many_under_way(struct scene *scene)
{
	lossy.lost = 1000;
	post_raw(scene, &scene->bad->a, SIMHCA_WR_SEND);
	post_raw(scene, &scene->bad->a, SIMHCA_WR_RDMA_READ);
	post_raw(scene, &scene->bad->a, SIMHCA_WR_RDMA_WRITE);
	poll_some(scene, 8);
	lossy.lost = 0;
	recv_raw(&scene->bad->b);
}

static void waits_fault(struct scene *scene)
{
	recv_raw(&scene->bad->b);
	post_raw(scene, &scene->bad->a, SIMHCA_WR_SEND);
	post_raw(scene, &scene->bad->a, SIMHCA_WR_SEND);
	poll_some(scene, 8);
}

static void waits_fault_write(struct scene *scene)
{
	post_raw(scene, &scene->bad->a, SIMHCA_WR_RDMA_WRITE);
	post_raw(scene, &scene->bad->a, SIMHCA_WR_RDMA_READ);
	poll_some(scene, 8);
}

static void waits_fault_read(struct scene *scene)
{
	post_raw(scene, &scene->bad->a, SIMHCA_WR_RDMA_READ);
	post_raw(scene, &scene->bad->a, SIMHCA_WR_SEND);
	poll_some(scene, 8);
}

static void drains(struct scene *scene)
{
	waits_rnr(scene);
	assert_int_equal(0, qp_move(scene->bad->a.qp, IBV_QPS_SQD));
}

static void drained(struct scene *scene)
{
	idle(scene);
	assert_int_equal(0, qp_move(scene->bad->a.qp, IBV_QPS_SQD));
	poll_some(scene, 8);
}

static void flushes(struct scene *scene)
{
	waits_rnr(scene);
	assert_int_equal(0, qp_move(scene->bad->a.qp, IBV_QPS_ERR));
	poll_some(scene, 8);
	post_raw(scene, &scene->bad->a, SIMHCA_WR_SEND);
}

/* A work request that an unreliable sender cannot carry out. */
static void stops(struct scene *scene)
{
	idle(scene);
	post_raw(scene, &scene->bad->a, 77);
	post_raw(scene, &scene->bad->a, SIMHCA_WR_SEND);
	poll_some(scene, 8);
}

/* b has a message for a's tag, whose data a fetches; b's pages are not there. */
static void fetches(struct scene *scene)
{
	struct side *a = &scene->bad->a, *b = &scene->bad->b;
	struct simhca_srq_op_req add = { .srq = scene->srq->handle,
					 .opcode = SIMHCA_SRQ_TAG_ADD,
					 .recv_wr_id = 5,
					 .tag = TAG,
					 .mask = UINT64_MAX,
					 .num_sge = 1,
					 .sge = { sge(a->mr, 0, 512) } };
	struct simhca_send_wqe wqe = wqe_of(scene, b, SIMHCA_WR_SEND);
	struct simhca_handle entry;
	struct {
		struct ibv_tmh tmh;
		struct ibv_rvh rvh;
		char more[32];
	} request = { .tmh = { .opcode = IBV_TMH_RNDV, .tag = htobe64(TAG) },
		      .rvh = { .va = htobe64(b->mr->iova),
			       .rkey = htobe32(b->mr->rkey),
			       .len = htobe32(256) } };

	simhca_srq_op(a->client->context, &add, &entry, NULL); /* or the list is full of it */
	wqe.flags |= SIMHCA_WQE_INLINE;
	wqe.num_sge = 0;
	wqe.inline_len = sizeof(request);
	put_wqe(b, &wqe, &request, sizeof(request));
	poll_some(scene, 8);
}

static void fetches_in_sqd(struct scene *scene)
{
	fetches(scene);
	assert_int_equal(0, qp_move(scene->bad->a.qp, IBV_QPS_SQD));
}

/* ------------------------------------------------------------------------ how they are made */

static void make_plain(struct scene *scene, struct options *options)
{
	scene->bad = pair_unconnected(scene->world, options);
	scene->srq = scene->bad->b.srq;
}

static void make_srq(struct scene *scene, struct options *options)
{
	options->srq_wr = RING;
	make_plain(scene, options);
}

static void make_without_sq(struct scene *scene, struct options *options)
{
	options->max_send_wr = options->max_send_sge = options->max_inline = 0;
	make_plain(scene, options);
}

static void make_without_rq(struct scene *scene, struct options *options)
{
	options->max_recv_wr = options->max_recv_sge = 0;
	make_plain(scene, options);
}

static void make_without_queues(struct scene *scene, struct options *options)
{
	options->max_recv_wr = options->max_recv_sge = 0;
	make_without_sq(scene, options);
}

static void absent_memory(struct side *side)
{
	side->mr = on_demand(side->client, pages(1), PAGE, ODP);
}

static void make_absent(struct scene *scene, struct options *options)
{
	make_plain(scene, options);
	absent_memory(&scene->bad->a);
}

static void make_peer_absent(struct scene *scene, struct options *options)
{
	make_plain(scene, options);
	absent_memory(&scene->bad->b);
}

static void make_with_fastpath(struct scene *scene, struct options *options)
{
	make_plain(scene, options);
	for (unsigned int i = 0; i < 2; i++) {
		struct side *side = i ? &scene->bad->b : &scene->bad->a;

		scene->fastpath[i] = client_at(side->client, &side->qp->granted.fastpath);
		simhca_context_name(side->client->context, getpid(), "liar");
		fastpath_offer(side->client);
	}
}

static void make_with_fastpath_srq(struct scene *scene, struct options *options)
{
	options->srq_wr = RING;
	make_with_fastpath(scene, options);
}

static void make_moved(struct scene *scene, struct options *options)
{
	make_with_fastpath(scene, options);
	moved_make(scene);
}

static void make_xrc(struct scene *scene, struct options *options)
{
	struct pair *pair = world_alloc(scene->world, sizeof(*pair));
	struct client *server = client_new(scene->world, 0);
	struct side *b = &pair->b;

	scene->xrcd = xrcd_open(server, -1);
	options->type = IBV_QPT_XRC_SEND;
	side_make(&pair->a, client_new(scene->world, 0), options, NULL);
	*b = (struct side){ .world = scene->world, .client = server, .options = *options };
	b->options.type = IBV_QPT_XRC_RECV;
	b->send_cq = cq_new(server, CQ_RING);
	b->recv_cq = cq_new(server, CQ_RING);
	b->srq = xrc_srq_new(server, scene->xrcd, b->recv_cq, RING);
	b->mr = mr_new(server, BUFFER, ALL_ACCESS);
	b->qp = target_new(server, scene->xrcd);
	pair->a.peer = b;
	b->peer = &pair->a;
	scene->bad = pair;
	scene->srq = b->srq;
	scene->srq_cq = b->recv_cq;
}

static void make_tagged(struct scene *scene, struct options *options)
{
	struct pair *pair = world_alloc(scene->world, sizeof(*pair));
	struct client *receiver = client_new(scene->world, 0);

	scene->srq_cq = cq_new(receiver, CQ_RING);
	scene->srq = tm_srq_new(receiver, scene->srq_cq, RING, 64);
	side_make(&pair->a, receiver, options, scene->srq);
	side_make(&pair->b, client_new(scene->world, 0), options, NULL);
	absent_memory(&pair->b);
	pair->a.peer = &pair->b;
	pair->b.peer = &pair->a;
	scene->bad = pair;
}

/* Whatever frame a sends is b's. */
static void make_raw(struct scene *scene, struct options *options)
{
	struct simhca_create_flow_req flow;

	make_plain(scene, options);
	flow = flow_to(scene->bad->b.qp);
	flow_new(scene->bad->b.client, &flow);
}

static void make_raw_srq(struct scene *scene, struct options *options)
{
	options->srq_wr = RING;
	make_raw(scene, options);
}

#define WAITS_RECV                                                                                 \
	{                                                                                          \
		ACT_RECV, ACT_TIME, ACT_POST                                                       \
	}
#define WAITS_STEP                                                                                 \
	{                                                                                          \
		ACT_STEP, ACT_POST, ACT_STEP                                                       \
	}
#define WAITS_MOVE                                                                                 \
	{                                                                                          \
		ACT_MOVE, ACT_STEP, ACT_MOVE                                                       \
	}
#define WAITS_TIME                                                                                 \
	{                                                                                          \
		ACT_TIME, ACT_TIME, ACT_POST                                                       \
	}
#define WAITS_POST                                                                                 \
	{                                                                                          \
		ACT_POST, ACT_ANSWER, ACT_TIME                                                     \
	}
#define WAITS_RTS                                                                                  \
	{                                                                                          \
		ACT_RTS, ACT_TIME, ACT_RECV                                                        \
	}
#define WAITS_PAGES                                                                                \
	{                                                                                          \
		ACT_TIME, ACT_PAGES, ACT_POST                                                      \
	}

const struct scene_kind scene_kinds[] = {
	{ "rc-rnr", IBV_QPT_RC, make_plain, waits_rnr, WAITS_RECV, false, false, NULL },
	{ "rc-idle", IBV_QPT_RC, make_plain, idle, WAITS_POST, false, false, NULL },
	{ "rc-answer", IBV_QPT_RC, make_plain, waits_answer, WAITS_TIME, false, false, NULL },
	{ "rc-read", IBV_QPT_RC, make_plain, waits_read, WAITS_TIME, false, false, NULL },
	{ "rc-read-inv", IBV_QPT_RC, make_plain, waits_read_inv, WAITS_TIME, false, false, NULL },
	{ "rc-many", IBV_QPT_RC, make_plain, many_under_way, WAITS_TIME, false, true, NULL },
	{ "rc-fault", IBV_QPT_RC, make_absent, waits_fault, WAITS_PAGES, false, false, NULL },
	{ "rc-fault-write", IBV_QPT_RC, make_absent, waits_fault_write, WAITS_PAGES, false, false,
	  NULL },
	{ "rc-fault-read", IBV_QPT_RC, make_absent, waits_fault_read, WAITS_PAGES, false, false,
	  NULL },
	{ "rc-fault-peer", IBV_QPT_RC, make_peer_absent, waits_fault_write, WAITS_PAGES, false,
	  false, NULL },
	{ "rc-drains", IBV_QPT_RC, make_plain, drains, WAITS_RTS, false, false, NULL },
	{ "rc-drained", IBV_QPT_RC, make_plain, drained, WAITS_RTS, false, false, NULL },
	{ "rc-flushes", IBV_QPT_RC, make_plain, flushes, WAITS_POST, false, false, NULL },
	{ "rc-no-sq", IBV_QPT_RC, make_without_sq, idle, WAITS_POST, false, false, NULL },
	{ "rc-no-rq", IBV_QPT_RC, make_without_rq, waits_rnr, WAITS_RECV, false, false, NULL },
	{ "rc-no-queues", IBV_QPT_RC, make_without_queues, idle, WAITS_POST, false, false, NULL },
	{ "rc-srq-rnr", IBV_QPT_RC, make_srq, waits_rnr, WAITS_RECV, false, false, NULL },
	{ "rc-srq-idle", IBV_QPT_RC, make_srq, idle, WAITS_POST, false, false, NULL },
	{ "rc-fastpath", IBV_QPT_RC, make_with_fastpath, idle, WAITS_STEP, true, false, NULL },
	{ "rc-fastpath-srq", IBV_QPT_RC, make_with_fastpath_srq, waits_rnr, WAITS_STEP, true, false,
	  NULL },
	{ "rc-moved", IBV_QPT_RC, make_moved, idle, WAITS_MOVE, true, false, NULL },
	{ "uc-idle", IBV_QPT_UC, make_plain, idle, WAITS_POST, false, false, NULL },
	{ "uc-fault", IBV_QPT_UC, make_absent, waits_fault, WAITS_PAGES, false, false, NULL },
	{ "uc-stops", IBV_QPT_UC, make_plain, stops, WAITS_RTS, false, false, NULL },
	{ "uc-drained", IBV_QPT_UC, make_plain, drained, WAITS_RTS, false, false, NULL },
	{ "ud-idle", IBV_QPT_UD, make_plain, idle, WAITS_POST, false, false, NULL },
	{ "ud-fault", IBV_QPT_UD, make_absent, waits_fault, WAITS_PAGES, false, false, NULL },
	{ "ud-fastpath", IBV_QPT_UD, make_with_fastpath, idle, WAITS_STEP, true, false, NULL },
	{ "ud-fastpath-srq", IBV_QPT_UD, make_with_fastpath_srq, idle, WAITS_STEP, true, false,
	  NULL },
	{ "raw-idle", IBV_QPT_RAW_PACKET, make_raw, idle, WAITS_POST, false, false, NULL },
	{ "raw-stops", IBV_QPT_RAW_PACKET, make_raw, stops, WAITS_RTS, false, false, NULL },
	{ "raw-srq", IBV_QPT_RAW_PACKET, make_raw_srq, idle, WAITS_POST, false, false, NULL },
	{ "xrc-rnr", IBV_QPT_XRC_RECV, make_xrc, waits_rnr, WAITS_RECV, false, false, NULL },
	{ "xrc-idle", IBV_QPT_XRC_RECV, make_xrc, idle, WAITS_POST, false, false, NULL },
	{ "tm-fetches", IBV_QPT_RC, make_tagged, fetches, WAITS_PAGES, false, false, NULL },
	{ "tm-fetches-sqd", IBV_QPT_RC, make_tagged, fetches_in_sqd, WAITS_RTS, false, false,
	  NULL },
	{ "efa-idle", IBV_QPT_DRIVER, efa_make_plain, efa_idle, WAITS_POST, false, false,
	  &efa_rings },
	{ "efa-rnr", IBV_QPT_DRIVER, efa_make_plain, efa_waits_rnr, WAITS_RECV, false, false,
	  &efa_rings },
	{ "efa-writes", IBV_QPT_DRIVER, efa_make_plain, efa_writes, WAITS_POST, false, false,
	  &efa_rings },
	{ "efa-reads", IBV_QPT_DRIVER, efa_make_notified, efa_reads, WAITS_POST, false, false,
	  &efa_rings },
	{ "efa-unsolicited", IBV_QPT_DRIVER, efa_make_unsolicited, efa_writes, WAITS_POST, false,
	  false, &efa_rings },
	{ "efa-flushes", IBV_QPT_DRIVER, efa_make_notified, efa_flushes, WAITS_POST, false, false,
	  &efa_rings },
	{ "efa-no-sq", IBV_QPT_DRIVER, efa_make_without_sq, efa_idle, WAITS_POST, false, false,
	  &efa_rings },
	{ "efa-no-rq", IBV_QPT_DRIVER, efa_make_without_rq, efa_waits_rnr, WAITS_RECV, false, false,
	  &efa_rings },
	{ "efa-ud", IBV_QPT_UD, efa_make_plain, efa_idle, WAITS_POST, false, false, &efa_rings },
	{ "efa-ud-notified", IBV_QPT_UD, efa_make_notified, efa_idle, WAITS_POST, false, false,
	  &efa_rings },
};
const unsigned int num_scene_kinds = ARRAY_SIZE(scene_kinds);

/* --------------------------------------------------------------------- there and back */

static const struct rings verbs_rings;

/* As lies name them; a region that is on demand is made anew with its pages. */
static void name_sides(struct scene *scene)
{
	for (unsigned int i = 0; i < 2; i++) {
		const struct side *side = i ? &scene->bad->b : &scene->bad->a;

		scene->mr[i] = side->mr;
		scene->qpn[i] = side->qp->qpn;
	}
}

static void add_part(struct scene *scene, void *at, size_t size, bool is_queue)
{
	struct part *part = &scene->part[scene->parts++];

	assert_true(scene->parts <= ARRAY_SIZE(scene->part));
	part->at = at;
	part->size = size;
	part->is_queue = is_queue;
	if (!part->copy)
		part->copy = world_alloc(scene->world, 16384);
	assert_true(size <= 16384);
}

static void add_cq(struct scene *scene, struct cq *cq)
{
	add_part(scene, cq->state, sizeof(*cq->state), true);
	add_part(scene, cq->ring, cq->entries * sizeof(*cq->ring), true);
}

static void list_parts(struct scene *scene)
{
	scene->parts = 0;
	for (unsigned int i = 0; i < 2; i++) {
		struct side *side = i ? &scene->bad->b : &scene->bad->a;
		struct qp *qp = side->qp;

		add_cq(scene, side->send_cq);
		add_cq(scene, side->recv_cq);
		if (!has_memory(side))
			continue;
		add_part(scene, qp->state, sizeof(*qp->state), false);
		if (qp->sq)
			add_part(scene, qp->sq,
				 (size_t)qp->granted.sq_entries * qp->granted.sq_stride, false);
		if (qp->rq)
			add_part(scene, qp->rq,
				 (size_t)qp->granted.rq_entries * qp->granted.rq_stride, false);
		if (qp->claims)
			add_part(scene, qp->claims, sizeof(*qp->claims), false);
	}
	if (scene->srq) {
		add_part(scene, scene->srq->state, sizeof(*scene->srq->state), true);
		add_part(scene, scene->srq->ring, (size_t)scene->srq->entries * scene->srq->stride,
			 true);
	}
	if (scene->srq_cq && scene->srq_cq != scene->bad->b.recv_cq)
		add_cq(scene, scene->srq_cq);
	if (scene->moved) {
		size_t size;
		void *claim = moved_claim(scene->moved, &size);

		add_part(scene, claim, size, true);
	}
}

static void make_rings(struct scene *scene, struct options *options)
{
	scene->good = pair_new(scene->world, options);
	scene->honest_mr[0] = scene->good->a.mr;
	scene->honest_mr[1] = scene->good->b.mr;
	scene->honest_qpn[0] = scene->good->a.qp->qpn;
	scene->honest_qpn[1] = scene->good->b.qp->qpn;
	oracle_begin(scene);
	options->type = scene->kind->type;
	options->max_send_wr = options->max_recv_wr = RING;
	options->max_send_sge = options->max_recv_sge = 2;
	options->max_inline = INLINE;
	options->cqe = CQ_RING;
	options->buffer = BUFFER;
	options->path_mtu = IBV_MTU_256;
	options->slot_data = scene->kind->fast_path;
	options->access = ALL_ACCESS;
	scene->kind->make(scene, options);
	name_sides(scene);
}

struct scene *scene_new(const struct scene_kind *kind, unsigned int threads)
{
	const struct world_config config = { .threads = threads,
					     .device = { .fast_path = kind->fast_path,
							 .slot_data = kind->fast_path,
							 .efa = kind->rings == &efa_rings } };
	struct scene *scene = calloc(1, sizeof(*scene));
	struct options options = default_options(IBV_QPT_RC);

	assert_non_null(scene);
	scene->kind = kind;
	scene->rings = kind->rings ? kind->rings : &verbs_rings;
	scene->world = world_new(&config);
	lossy = (struct lossy){ .seed = 1 };
	if (kind->lossy)
		lossy_use(scene->world, &lossy);
	options.same_device = true;
	options.max_inline = NEIGHBOUR;
	scene->rings->make(scene, &options);
	scene->broken = true;
	return scene;
}

void scene_free(struct scene *scene)
{
	for (unsigned int i = 0; scene->attached && i < 2; i++)
		fastpath_detach(&scene->step[i]);
	if (scene->moved)
		moved_end(scene->moved);
	world_free(scene->world);
	free(scene);
}

static uint32_t state_of(const struct scene *scene, unsigned int i)
{
	const struct qp *qp = i ? scene->bad->b.qp : scene->bad->a.qp;
	const struct simhca_devmem *mem = simhca_device_memory(scene->world->device[0]);
	const struct simhca_qpc *qpc = (const void *)((const char *)mem + mem->qpc_offset);

	return atomic_load(&qpc[SIMHCA_QPN_SLOT(qp->qpn)].state);
}

static void empty_cq(struct cq *cq)
{
	struct simhca_cq *device =
		simhca_object(cq->client->context, SIMHCA_OBJ_CQ, cq->handle, NULL);

	assert_non_null(device);
	/* There is no other way back from an overrun than another CQ. */
	device->overrun = false;
	device->solicited = 0;
	memset(cq->state, 0, sizeof(*cq->state));
	memset(cq->ring, 0, cq->entries * sizeof(*cq->ring));
	cq->ci = 0;
}

static void empty_queues(struct scene *scene)
{
	struct side *sides[] = { &scene->bad->a, &scene->bad->b };

	for (unsigned int i = 0; i < 2; i++) {
		empty_cq(sides[i]->send_cq);
		empty_cq(sides[i]->recv_cq);
		forget_events(sides[i]->client);
	}
	if (scene->srq_cq)
		empty_cq(scene->srq_cq);
	if (scene->srq)
		memset(scene->srq->state, 0, sizeof(*scene->srq->state));
	for (unsigned int i = 0; i < 2; i++)
		if (scene->fastpath[i])
			memset(scene->fastpath[i], 0, sizeof(*scene->fastpath[i]));
}

static void attach(struct scene *scene)
{
	struct side *sides[] = { &scene->bad->a, &scene->bad->b };

	for (unsigned int i = 0; i < 2; i++) {
		if (scene->attached)
			fastpath_detach(&scene->step[i]);
		scene->step[i] = fastpath_attach(sides[i]);
	}
	scene->attached = true;
}

/* Of programs, one of which believes what the other has written. */
static void run_steps(struct scene *scene)
{
	post_raw(scene, &scene->bad->a, SIMHCA_WR_SEND);
	post_raw(scene, &scene->bad->b, SIMHCA_WR_RDMA_WRITE);
	for (unsigned int i = 0; scene->attached && i < 4; i++)
		if (!fastpath_run(&scene->step[i % 2]))
			qp_ring(i % 2 ? scene->bad->b.qp : scene->bad->a.qp);
}

/* By messages to and from a region of b's: short ones, and an atomic. */
static void use_region(struct scene *scene, struct mr *mr)
{
	struct side *a = &scene->bad->a, *b = &scene->bad->b;
	struct simhca_send_wqe add = {
		.wr_id = 1,
		.opcode = SIMHCA_WR_ATOMIC_FETCH_AND_ADD,
		.flags = SIMHCA_WQE_SIGNALED,
		.num_sge = 1,
		.rdma = { .remote_addr = mr->iova, .compare_add = 1, .rkey = mr->rkey }
	};
	struct simhca_sge sum = sge(a->mr, 0, 8);
	struct mr *own = b->mr;

	put_wqe(a, &add, &sum, sizeof(sum));
	b->mr = mr;
	post_raw(scene, a, SIMHCA_WR_RDMA_WRITE);
	post_raw(scene, a, SIMHCA_WR_RDMA_READ);
	b->mr = own;
	poll_some(scene, 8);
	recv_raw(a);
	b->mr = mr;
	post_raw(scene, b, SIMHCA_WR_SEND);
	b->mr = own;
}

static void fresh_pages(struct side *side)
{
	struct mr *mr = side->mr;

	if (!(mpt_of(side->client, mr->lkey)->access & SIMHCA_ACCESS_ON_DEMAND) || !present(mr))
		return;
	assert_int_equal(0, mr_gone(mr));
	munmap(mr->addr, PAGE);
	absent_memory(side);
}

static void end_turn(struct simhca_owner *turn)
{
	if (atomic_load(&turn->holder) & SIMHCA_OWNER_PROGRAM)
		atomic_store(&turn->holder, 0);
}

/* A command waits for a program that is in a step, as long as that is said to be so. */
static void end_steps(struct scene *scene)
{
	for (unsigned int i = 0; i < 2; i++) {
		struct side *side = i ? &scene->bad->b : &scene->bad->a;

		if (!scene->fastpath[i])
			continue;
		atomic_store(&scene->fastpath[i]->guard, 0);
		end_turn(&side->qp->state->req_owner);
		end_turn(&side->qp->state->resp_owner);
	}
}

static int reset(struct qp *qp)
{
	return qp_move(qp, IBV_QPS_RESET);
}

static void renew(struct scene *scene)
{
	struct side *a = &scene->bad->a, *b = &scene->bad->b;

	end_steps(scene);
	if (reset(a->qp) || reset(b->qp))
		caught("the QP cannot be reset");
	poll_some(scene, 8);
	empty_queues(scene);
	fresh_pages(a);
	fresh_pages(b);
	qp_connect(a->qp, 0, b->qp->qpn, &a->options);
	qp_connect(b->qp, 0, a->qp->qpn, &b->options);
	if (scene->kind->fast_path)
		attach(scene);
}

static void remember(struct scene *scene)
{
	name_sides(scene);
	if (!scene->listed) {
		list_parts(scene);
		fields_list(scene);
		scene->listed = true;
	}
	for (unsigned int i = 0; i < scene->parts; i++)
		memcpy(scene->part[i].copy, scene->part[i].at, scene->part[i].size);
}

static void take_back(struct simhca_owner *turn, uint32_t generation)
{
	uint32_t counts = atomic_load(&turn->generation) & 1;

	atomic_store(&turn->generation, (generation & ~1u) + 2 + counts);
}

static void bring_back(struct scene *scene)
{
	struct side *sides[] = { &scene->bad->a, &scene->bad->b };
	uint32_t generation[2][2] = { { 0 } };

	for (unsigned int i = 0; i < 2; i++) {
		generation[i][0] = atomic_load(&sides[i]->qp->state->req_owner.generation);
		generation[i][1] = atomic_load(&sides[i]->qp->state->resp_owner.generation);
	}
	for (unsigned int i = 0; i < scene->parts; i++)
		memcpy(scene->part[i].at, scene->part[i].copy, scene->part[i].size);
	for (unsigned int i = 0; i < 2; i++) {
		if (!has_memory(sides[i]))
			continue;
		take_back(&sides[i]->qp->state->req_owner, generation[i][0]);
		take_back(&sides[i]->qp->state->resp_owner, generation[i][1]);
	}
}

uint32_t scene_state(const struct scene *scene, unsigned int side)
{
	return scene->rings->state(scene, side);
}

void scene_renew(struct scene *scene)
{
	scene->rings->renew(scene);
}

void scene_enter(struct scene *scene)
{
	scene->fresh = scene->broken || scene_state(scene, 0) != scene->state[0] ||
		       scene_state(scene, 1) != scene->state[1];
	if (!scene->fresh) {
		scene->rings->bring_back(scene);
		return;
	}
	scene->broken = false;
	scene_renew(scene);
	scene->kind->enter(scene);
	scene->rings->remember(scene);
	for (unsigned int i = 0; i < 2; i++)
		scene->state[i] = scene_state(scene, i);
}

/* ------------------------------------------------------------------------ what happens */

static void move(struct scene *scene, enum ibv_qp_state state)
{
	qp_move(scene->bad->a.qp, state); /* which may be impossible */
}

static void act_on(struct scene *scene, enum act act)
{
	struct side *a = &scene->bad->a, *b = &scene->bad->b;
	struct simhca_qp_attr none = { 0 };
	struct simhca_qp_info info;
	struct mr *mr;

	if (!scene->world->threaded)
		end_steps(scene);
	switch (act) {
	case ACT_NOTHING:
	case ACTS:
		break;
	case ACT_TIME:
		atomic_fetch_add(&scene->world->now, SEC);
		break;
	case ACT_RECV:
		recv_raw(b);
		break;
	case ACT_POST:
		post_raw(scene, a, SIMHCA_WR_SEND);
		break;
	case ACT_ANSWER:
		recv_raw(a);
		post_raw(scene, b, SIMHCA_WR_RDMA_WRITE);
		break;
	case ACT_QUERY:
		for (unsigned int i = 0; i < 2; i++) {
			struct client *client = i ? b->client : a->client;
			uint32_t handle = 0;

			while (simhca_next_qp(client->context, &handle, &info))
				handle++;
		}
		break;
	case ACT_SQD:
		move(scene, IBV_QPS_SQD);
		break;
	case ACT_NO_READS:
		none.qp_state = IBV_QPS_SQD;
		if (scene_state(scene, 0) == SIMHCA_QPS_SQD)
			qp_modify(a->qp, SIMHCA_QP_STATE | SIMHCA_QP_MAX_QP_RD_ATOMIC, none);
		break;
	case ACT_RTS:
		if (scene_state(scene, 0) != SIMHCA_QPS_RTS)
			move(scene, IBV_QPS_RTS);
		break;
	case ACT_ERR:
		move(scene, IBV_QPS_ERR);
		break;
	case ACT_PEER_ERR:
		qp_move(b->qp, IBV_QPS_ERR);
		break;
	case ACT_STEP:
		run_steps(scene);
		break;
	case ACT_MOVE:
		mr = scene->moved ? moved_register(scene) : NULL;
		if (mr)
			use_region(scene, mr);
		break;
	case ACT_PAGES:
		for (int i = 0; i < 4 && simhca_faults_poll(scene->world->fabric); i++)
			poll_some(scene, 8);
		scene->broken = true;
		break;
	case ACT_RESIZE:
		if (scene->kind->fast_path) /* no program is given those that were resized */
			break;
		cq_resize(a->send_cq, a->send_cq->cqe == CQ_RING ? CQ_RING / 2 : CQ_RING);
		cq_resize(b->recv_cq, b->recv_cq->cqe == CQ_RING ? CQ_RING / 2 : CQ_RING);
		if (scene->srq && scene->kind->type != IBV_QPT_XRC_RECV)
			srq_modify(scene->srq, SIMHCA_SRQ_MAX_WR,
				   scene->srq->max_wr == RING ? RING / 2 : RING, 0);
		scene->listed = false;
		scene->broken = true;
		break;
	}
	poll_some(scene, 16);
}

void scene_act(struct scene *scene, enum act act)
{
	scene->rings->act(scene, act);
}

/* ------------------------------------------------------------------------- of such rings */

static void ring_both(struct scene *scene)
{
	for (unsigned int i = 0; i < 2; i++) {
		struct side *side = i ? &scene->bad->b : &scene->bad->a;

		if (has_memory(side))
			qp_ring(side->qp);
	}
}

/* What a receive needs, and has: of a connection that was made anew. */
static bool works(struct scene *scene)
{
	struct pair *bad = scene->bad;
	struct simhca_cqe cqe;

	recv_raw(&bad->b);
	if (!bad->a.qp->sq || bad->b.srq)
		return true;
	post_raw(scene, &bad->a, SIMHCA_WR_SEND);
	return !bad->b.qp->rq || cq_wait(bad->b.recv_cq, &cqe) ||
	       (mpt_of(bad->a.client, bad->a.mr->lkey)->access & SIMHCA_ACCESS_ON_DEMAND) ||
	       (mpt_of(bad->b.client, bad->b.mr->lkey)->access & SIMHCA_ACCESS_ON_DEMAND);
}

static const struct rings verbs_rings = {
	.make = make_rings,
	.renew = renew,
	.remember = remember,
	.bring_back = bring_back,
	.list_fields = fields_of_rings,
	.consistent = lie_of_rings,
	.state = state_of,
	.ring = ring_both,
	.act = act_on,
	.works = works,
	.refuse = gates_refuse,
	.check_progress = oracle_progress,
	.check = oracle_check,
	.post_honest = honest_post,
	.take_honest = honest_take,
	.revive = revive,
	.send_honest = send_honest,
};
