/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A CQ and an SRQ that a peer had get other memory when no peer uses them any more: who keeps the old
 * one mapped writes where nobody reads, and what waits is there.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "fastpath_scene.h"
#include "core/context.h"
#include "dma/dma.h"
#include "proto/qp.h"

#define LENGTH 100u
#define BUFFER (SIMHCA_GRH_BYTES + LENGTH)
#define PARTS 8192u /* CQEs that are copied at a time */

static struct simhca_qp *model_qp(const struct side *side)
{
	return simhca_object(side->client->context, SIMHCA_OBJ_QP, side->qp->handle, NULL);
}

/* A queue as its client and the model know it, and what a former peer has of it. */
struct queue {
	struct client *client;
	struct simhca_queue_req req;
	const struct simhca_mem_ref *ref;
	struct simhca_shared *shared;
	struct cq *cq; /* or NULL */
	struct srq *srq;
	struct simhca_cq *model; /* of a CQ */
	struct fastpath_kept kept;
	uint8_t *mapped;
};

static void keep(struct queue *queue)
{
	queue->kept = fastpath_keep(queue->client, queue->ref);
	queue->mapped = (uint8_t *)client_at(queue->client, queue->ref) - queue->ref->offset;
}

static struct queue cq_of(struct client *client, struct cq *cq)
{
	struct queue queue = { .client = client,
			       .cq = cq,
			       .req = { .handle = cq->handle, .kind = SIMHCA_QUEUE_CQ } };

	queue.model = simhca_object(client->context, SIMHCA_OBJ_CQ, cq->handle, NULL);
	queue.ref = &queue.model->mem_ref;
	queue.shared = &queue.model->shared;
	keep(&queue);
	return queue;
}

static struct queue srq_of(struct client *client, struct srq *srq)
{
	struct queue queue = { .client = client,
			       .srq = srq,
			       .req = { .handle = srq->handle, .kind = SIMHCA_QUEUE_SRQ } };
	struct simhca_srq *model =
		simhca_object(client->context, SIMHCA_OBJ_SRQ, srq->handle, NULL);

	queue.ref = &model->mem_ref;
	queue.shared = &model->shared;
	keep(&queue);
	return queue;
}

static void forget(struct queue *queue)
{
	munmap(queue->kept.addr, queue->kept.size);
}

static void scribble(const struct queue *queue, int byte)
{
	memset(queue->kept.addr, byte, queue->kept.size);
}

/* The first half: as the provider does it. Where threads are watched the client has the model's map. */
static int map_new(const struct queue *queue)
{
	struct simhca_renew_queue_reply reply;
	int fd, ret = simhca_renew_queue(queue->client->context, &queue->req, &reply, &fd, NULL);
	uint8_t *new;

	if (ret)
		return ret;
	assert_int_equal(reply.size, queue->kept.size);
	new = mmap(NULL, reply.size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(new, MAP_FAILED);
	if (queue->cq)
		atomic_store(&((struct simhca_cq_mem *)(new + queue->ref->offset))->ci,
			     queue->cq->ci);
	else
		atomic_store(&((struct simhca_srq_mem *)(new + queue->ref->offset))->pi,
			     queue->srq->pi);
	munmap(new, reply.size);
	if (!UNDER_TSAN)
		assert_ptr_equal(mmap(queue->mapped, queue->kept.size, PROT_READ | PROT_WRITE,
				      MAP_SHARED | MAP_FIXED, fd, 0),
				 queue->mapped);
	return 0;
}

static int move(const struct queue *queue)
{
	return simhca_move_queue(queue->client->context, &queue->req, NULL);
}

static void renew(const struct queue *queue)
{
	assert_int_equal(map_new(queue), 0);
	assert_int_equal(patiently(move(queue)), 0);
	assert_false(simhca_is_to_be_renewed(queue->shared));
}

static void messages_pass(struct pair *pair, const struct queue *queue, int byte)
{
	for (uint32_t i = 0; i < 20; i++) {
		recv_into(&pair->b, 1, 0, BUFFER);
		scribble(queue, byte);
		send_from(&pair->a, 3, BUFFER, LENGTH);
		scribble(queue, byte);
		fastpath_completes(pair->a.send_cq);
		scribble(queue, byte);
		fastpath_completes(pair->b.recv_cq);
	}
}

/* A peer of b's that has gone: it has kept what it was given. */
static struct pair *former_peer(struct world *world)
{
	struct pair *pair = fastpath_pair_of(world, IBV_QPT_RC);
	struct simhca_step step = fastpath_attach_another(&pair->a);

	assert_int_equal(simhca_queues_to_renew(model_qp(&pair->b), false), 0);
	fastpath_detach(&step);
	return pair;
}

static void cq_after_reset(void **state)
{
	struct pair *pair = former_peer(*state);
	struct queue queue = cq_of(pair->b.client, pair->b.recv_cq);
	struct simhca_step step;

	assert_int_equal(map_new(&queue), -EINVAL); /* the peer has it still */
	assert_int_equal(move(&queue), -EINVAL);
	assert_int_equal(qp_move(pair->b.qp, IBV_QPS_RESET), 0);
	assert_int_equal(simhca_queues_to_renew(model_qp(&pair->b), false), SIMHCA_RENEW_RECV_CQ);
	renew(&queue);
	assert_int_equal(simhca_queues_to_renew(model_qp(&pair->b), false), 0);
	pair_reconnect(pair);
	messages_pass(pair, &queue, 0xff);
	messages_pass(pair, &queue, 0);
	/* Who is attached now carries into what the CQ has now, which can be taken back again. */
	step = fastpath_attach_another(&pair->a);
	for (uint32_t i = 0; i < 5; i++) {
		recv_into(&pair->b, 1, 0, BUFFER);
		send_from(&pair->a, 3, BUFFER, LENGTH);
		assert_true(fastpath_run(&step));
		fastpath_completes(pair->a.send_cq);
		fastpath_completes(pair->b.recv_cq);
	}
	fastpath_detach(&step);
	assert_int_equal(qp_move(pair->b.qp, IBV_QPS_RESET), 0);
	renew(&queue);
	pair_reconnect(pair);
	messages_pass(pair, &queue, 0xff);
	forget(&queue);
}

/* The reply says what is to be renewed once the QP has gone, as nobody can ask then. */
static void when_the_qp_is_destroyed(void **state)
{
	struct pair *pair = former_peer(*state);
	struct queue queue = cq_of(pair->b.client, pair->b.recv_cq);
	struct simhca_identity identity;

	assert_int_equal(simhca_qp_identity(pair->b.client->context, pair->b.qp->handle, &identity,
					    NULL),
			 0);
	assert_int_equal(identity.renew, SIMHCA_RENEW_RECV_CQ);
	assert_int_equal(
		patiently(simhca_destroy_qp(pair->b.client->context, pair->b.qp->handle, NULL)), 0);
	renew(&queue);
	forget(&queue);
}

static uint64_t brought; /* by the message of the CQE that was polled last */

/* As a peer leaves it that has sent 8 bytes, which stay in the CQ while there is room. */
static void put(const struct queue *queue, uint64_t id)
{
	const struct simhca_cq_view *view = &queue->model->view;
	const struct simhca_sge into = { .addr = (uintptr_t)&brought, .length = sizeof(brought) };
	struct simhca_cqe cqe = { .wr_id = id,
				  .qpn = 7,
				  .byte_len = sizeof(brought),
				  .wqe_index = record_new(&into, 1, false),
				  .flags = SIMHCA_CQE_RECV };

	if (simhca_cq_has_data(view, simhca_cq_producer(view))) {
		cqe.in_slot = SIMHCA_CQE_IN_CQ;
		memcpy(simhca_cq_data(view, simhca_cq_producer(view)), &id, sizeof(id));
	}
	assert_true(simhca_cq_push(queue->model, &cqe));
}

static void finds(const struct queue *queue, uint64_t id)
{
	struct simhca_cqe cqe;

	assert_true(cq_poll(queue->cq, &cqe));
	assert_int_equal(cqe.wr_id, id);
	if (cqe.in_slot)
		assert_int_equal(brought, id);
}

static struct queue to_be_renewed(struct world *world)
{
	struct pair *pair = former_peer(world);

	assert_int_equal(qp_move(pair->b.qp, IBV_QPS_RESET), 0);
	return cq_of(pair->b.client, pair->b.recv_cq);
}

/* In their order; also those that come before the device has moved, and behind the wrap. */
static void what_waits_is_there(void **state)
{
	struct queue queue = to_be_renewed(*state);
	struct simhca_cqe cqe;

	/* Its next one is the last before the counter wraps. */
	queue.cq->ci = UINT32_MAX - 1;
	atomic_store(&queue.cq->state->ci, UINT32_MAX - 1);
	atomic_store(&queue.cq->state->pi, UINT32_MAX - 1);
	put(&queue, 10);
	put(&queue, 11);
	put(&queue, 12);
	finds(&queue, 10);
	assert_int_equal(map_new(&queue), 0);
	put(&queue, 13);
	assert_int_equal(move(&queue), 0);
	put(&queue, 14);
	scribble(&queue, 0xff);
	for (uint64_t id = 11; id < 15; id++)
		finds(&queue, id);
	assert_false(cq_poll(queue.cq, &cqe));
	forget(&queue);
}

/* No fresh slot looks as if the last CQE before the counter wraps were there. */
static void nothing_is_there_at_the_wrap(void **state)
{
	struct queue queue = to_be_renewed(*state);
	struct simhca_cqe cqe;

	queue.cq->ci = UINT32_MAX;
	atomic_store(&queue.cq->state->pi, UINT32_MAX);
	renew(&queue);
	assert_false(cq_poll(queue.cq, &cqe));
	put(&queue, 10);
	finds(&queue, 10);
	forget(&queue);
}

/* A former peer has claimed what it never published, and says that the CQ is in error. */
static void what_it_left_is_void(void **state)
{
	struct queue queue = to_be_renewed(*state);
	struct simhca_cqe cqe;
	uint32_t cqe_index;

	put(&queue, 10);
	assert_true(simhca_cqe_reserve(&queue.model->view, SIMHCA_OWNER_PROGRAM | 99, &cqe_index));
	simhca_cq_slot(&queue.model->view, cqe_index)->qpn = 7;
	put(&queue, 12);
	atomic_store(&queue.cq->state->overrun, 1);
	renew(&queue);
	assert_int_equal(atomic_load(&queue.cq->state->overrun), 0);
	finds(&queue, 10);
	assert_true(cq_poll(queue.cq, &cqe));
	assert_int_equal(cqe.qpn, SIMHCA_VOID_QPN);
	finds(&queue, 12);
	forget(&queue);
}

/* Indices that make no sense, of either kind: the CQ is as if it were empty, and works. */
static void indices_that_lie(void **state)
{
	static const uint32_t lies[] = { 1u << 31, UINT32_MAX, 1000000 };

	for (uint32_t i = 0; i < 3; i++) {
		struct queue queue = to_be_renewed(*state);
		struct simhca_cqe cqe;

		queue.cq->ci = 5;
		atomic_store(&queue.cq->state->pi, 5 + lies[i]);
		atomic_store(&queue.cq->state->ci, lies[i]);
		renew(&queue);
		assert_false(cq_poll(queue.cq, &cqe));
		put(&queue, 10);
		finds(&queue, 10);
		forget(&queue);
	}
}

/* A CQ with so many CQEs, whose client has mapped the new memory. */
static struct queue one_that_waits_with(struct world *world, uint32_t cqes)
{
	struct options options = fastpath_options();
	struct simhca_step step;
	struct queue queue;
	struct pair *pair;

	options.cqe = 3 * PARTS;
	pair = fastpath_pair(world, &options);
	step = fastpath_attach_another(&pair->a);
	fastpath_detach(&step);
	assert_int_equal(qp_move(pair->b.qp, IBV_QPS_RESET), 0);
	queue = cq_of(pair->b.client, pair->b.recv_cq);
	for (uint32_t i = 0; i < cqes; i++)
		put(&queue, i);
	assert_int_equal(map_new(&queue), 0);
	return queue;
}

/* It holds more than are copied at a time; and meanwhile its former peer moves the index back. */
static void by_parts(void **state)
{
	struct queue queue = one_that_waits_with(*state, 2 * PARTS + 1);
	struct simhca_cqe cqe;

	assert_int_equal(move(&queue), -ERESTART);
	assert_int_equal(move(&queue), -ERESTART);
	put(&queue, 2 * PARTS + 1);
	assert_int_equal(move(&queue), 0);
	for (uint32_t i = 0; i < 2 * PARTS + 2; i++)
		finds(&queue, i);
	assert_false(cq_poll(queue.cq, &cqe));
	forget(&queue);
}

static void the_index_is_moved_back(void **state)
{
	struct queue queue = one_that_waits_with(*state, 2 * PARTS);

	assert_int_equal(move(&queue), -ERESTART);
	atomic_store(&((struct simhca_cq_mem *)(queue.kept.addr + queue.ref->offset))->pi, 1);
	assert_int_equal(move(&queue), 0);
	for (uint32_t i = 0; i < PARTS; i++)
		finds(&queue, i);
	put(&queue, 77);
	finds(&queue, 77);
	forget(&queue);
}

/* An arm from before is there still, once; and so is one that was made before the device moved. */
static void arms(void **state)
{
	struct queue queue = to_be_renewed(*state);

	cq_arm(queue.cq, SIMHCA_ARM_NEXT);
	renew(&queue);
	assert_int_equal(atomic_load(&queue.cq->events), 0);
	put(&queue, 1);
	assert_int_equal(atomic_load(&queue.cq->events), 1);
	put(&queue, 2);
	assert_int_equal(atomic_load(&queue.cq->events), 1);
	forget(&queue);
}

static void an_arm_in_between(void **state)
{
	struct queue queue = to_be_renewed(*state);
	struct simhca_cqe cqe;

	assert_int_equal(map_new(&queue), 0);
	cq_arm(queue.cq, SIMHCA_ARM_NEXT);
	put(&queue, 1);
	assert_int_equal(move(&queue), 0);
	assert_int_equal(atomic_load(&queue.cq->events), 1);
	/* Nothing waits: then there is none. */
	assert_true(cq_poll(queue.cq, &cqe));
	cq_arm(queue.cq, SIMHCA_ARM_NEXT);
	queue.shared->handed_out = true;
	assert_int_equal(map_new(&queue), 0);
	cq_arm(queue.cq, SIMHCA_ARM_NEXT);
	assert_int_equal(move(&queue), 0);
	assert_int_equal(atomic_load(&queue.cq->events), 1);
	put(&queue, 2);
	assert_int_equal(atomic_load(&queue.cq->events), 2);
	forget(&queue);
}

/* A look at the arm that was made before does not take it for used up, while it is not. */
static void an_arm_is_not_taken_for_used(void **state)
{
	struct queue queue = to_be_renewed(*state);
	uint32_t armed;

	if (UNDER_TSAN) /* the client has the model's map, and sees the old memory */
		return forget(&queue);
	cq_arm(queue.cq, SIMHCA_ARM_NEXT);
	armed = atomic_load(&queue.cq->state->arm);
	assert_int_equal(map_new(&queue), 0);
	assert_int_not_equal(atomic_load(&queue.cq->state->arm),
			     armed & ~(uint32_t)SIMHCA_ARM_BITS);
	assert_int_equal(move(&queue), 0);
	assert_int_equal(atomic_load(&queue.cq->state->arm), armed);
	forget(&queue);
}

/* Neither a step of its own program's, nor another program, until the device has moved. */
static void nobody_is_attached_meanwhile(void **state)
{
	struct pair *pair = former_peer(*state);
	struct queue queue = cq_of(pair->b.client, pair->b.recv_cq);
	struct simhca_attach_peer_reply reply;
	struct simhca_step own;

	assert_int_equal(qp_move(pair->b.qp, IBV_QPS_RESET), 0);
	pair_reconnect(pair);
	own = fastpath_attach(&pair->a);
	assert_int_equal(map_new(&queue), 0);
	recv_into(&pair->b, 1, 0, BUFFER);
	send_from(&pair->a, 3, BUFFER, LENGTH);
	assert_false(fastpath_run(&own));
	assert_int_equal(fastpath_attach_with(&pair->a, &fastpath_secret, &reply), -ENOTCONN);
	assert_int_equal(move(&queue), 0);
	assert_int_equal(fastpath_attach_with(&pair->a, &fastpath_secret, &reply), 0);
	fastpath_completes(pair->a.send_cq);
	fastpath_completes(pair->b.recv_cq);
	fastpath_detach(&own);
	forget(&queue);
}

/* One of two peers of the CQ has gone: it is the other's still. */
static void while_another_has_it(void **state)
{
	struct pair *pair = former_peer(*state);
	struct queue queue = cq_of(pair->b.client, pair->b.recv_cq);

	queue.shared->peers++; /* as another QP's peer */
	assert_int_equal(qp_move(pair->b.qp, IBV_QPS_RESET), 0);
	assert_int_equal(simhca_queues_to_renew(model_qp(&pair->b), false), 0);
	assert_int_equal(map_new(&queue), -EINVAL);
	queue.shared->peers--;
	renew(&queue);
	forget(&queue);
}

/* A CQ that was resized is carried into by nobody, and its indices are no peer's any more. */
static void a_cq_that_was_resized(void **state)
{
	struct pair *pair = former_peer(*state);
	struct queue queue = cq_of(pair->b.client, pair->b.recv_cq);
	const struct simhca_resize_cq_req req = { .handle = queue.cq->handle, .cqe = 500 };
	struct simhca_create_cq_reply reply;

	put(&queue, 1);
	assert_int_equal(patiently(simhca_resize_cq(queue.client->context, &req, &reply, NULL)), 0);
	assert_int_equal(reply.renew, 1);
	queue.cq->entries = reply.entries;
	queue.cq->ring = client_at(queue.client, &reply.ring);
	assert_int_equal(map_new(&queue), 0);
	put(&queue, 2);
	assert_int_equal(move(&queue), 0);
	scribble(&queue, 0xff);
	put(&queue, 3);
	for (uint64_t id = 1; id < 4; id++)
		finds(&queue, id);
	assert_int_equal(patiently(simhca_resize_cq(queue.client->context, &req, &reply, NULL)), 0);
	assert_int_equal(reply.renew, 0);
	forget(&queue);
}

/* It has come, and the client does not go on; then the CQ goes. ASan and the descriptors tell. */
static void given_up(void **state)
{
	struct queue queue = to_be_renewed(*state);
	struct simhca_context *context = queue.client->context;
	struct simhca_renew_queue_reply reply;
	int first, second;

	assert_int_equal(simhca_renew_queue(context, &queue.req, &reply, &first, NULL), 0);
	assert_int_equal(simhca_renew_queue(context, &queue.req, &reply, &second, NULL), 0);
	assert_int_equal(first, second);
	assert_int_equal(context->spares, 1);
	simhca_context_drop_spare(context, &queue.shared->spare);
	assert_int_equal(context->spares, 0);
	context->spares = 8;
	assert_int_equal(map_new(&queue), -EBUSY);
	context->spares = 0;
	renew(&queue);
	assert_int_equal(context->spares, 0);
	forget(&queue);
}

/* ------------------------------------------------------------------------------------ SRQs */

static struct simhca_srq *model_srq(const struct queue *queue)
{
	return simhca_object(queue->client->context, SIMHCA_OBJ_SRQ, queue->srq->handle, NULL);
}

/* A former peer of a QP with an SRQ, which has been reset. */
static struct pair *former_peer_of_srq(struct world *world)
{
	struct pair *pair = fastpath_pair_with_srq(world);
	struct simhca_step step;

	run_until_idle(world);
	step = fastpath_attach_another(&pair->a);
	fastpath_detach(&step);
	assert_int_equal(qp_move(pair->b.qp, IBV_QPS_RESET), 0);
	return pair;
}

/* What was posted before is consumed in its order, also while the client has mapped the new one. */
static void srq_after_reset(void **state)
{
	struct pair *pair = former_peer_of_srq(*state);
	struct queue queue = srq_of(pair->b.client, pair->b.srq);
	struct queue cq = cq_of(pair->b.client, pair->b.recv_cq);
	struct simhca_cqe cqe;

	assert_int_equal(simhca_queues_to_renew(model_qp(&pair->b), false),
			 SIMHCA_RENEW_RECV_CQ | SIMHCA_RENEW_SRQ);
	renew(&cq);
	pair_reconnect(pair);
	for (uint64_t id = 10; id < 16; id++)
		recv_into(&pair->b, id, 0, BUFFER);
	for (uint64_t id = 10; id < 16; id++) {
		if (id == 12)
			assert_int_equal(map_new(&queue), 0);
		if (id == 14)
			assert_int_equal(move(&queue), 0);
		if (id >= 14)
			scribble(&queue, 0xff);
		send_from(&pair->a, 3, BUFFER, LENGTH);
		fastpath_completes(pair->a.send_cq);
		assert_true(cq_wait(pair->b.recv_cq, &cqe));
		assert_int_equal(cqe.wr_id, id);
		assert_int_equal(cqe.status, SIMHCA_WC_SUCCESS);
	}
	messages_pass(pair, &queue, 0xff);
	messages_pass(pair, &queue, 0);
	forget(&queue);
	forget(&cq);
}

/* Whose the latest claims are, which is compared with the responders' state. */
static void srq_claims(void **state)
{
	struct pair *pair = former_peer_of_srq(*state);
	struct queue queue = srq_of(pair->b.client, pair->b.srq);
	const struct simhca_srq_view *view = &model_srq(&queue)->view;
	uint64_t head;

	for (uint32_t number = 3; number < 6; number++) {
		recv_into(&pair->b, number, 0, BUFFER);
		assert_int_equal(simhca_srq_look(view, &head), 0);
		assert_true(simhca_srq_claim(view, head, number));
	}
	renew(&queue);
	scribble(&queue, 0x55);
	for (uint32_t number = 3; number < 6; number++)
		assert_int_equal(simhca_srq_claimed(view, number), number - 2);
	forget(&queue);
}

/* It holds more than is copied at a time. */
static void srq_by_parts(void **state)
{
	struct client *client = client_new(*state, 0);
	struct srq *srq = srq_new(client, SIMHCA_MAX_SRQ_WR, 8, 0);
	struct queue queue = srq_of(client, srq);
	const struct simhca_srq_view *view = &model_srq(&queue)->view;
	uint32_t parts = 0;
	int ret;

	queue.shared->handed_out = true;
	for (uint32_t i = 0; i < srq->entries; i++)
		memcpy(srq->ring + (size_t)i * srq->stride, &i, sizeof(i));
	srq->pi = srq->entries + 5;
	atomic_store(&srq->state->head, 5);
	atomic_store(&srq->state->pi, srq->pi);
	assert_int_equal(map_new(&queue), 0);
	while ((ret = move(&queue)) == -ERESTART)
		parts++;
	assert_int_equal(ret, 0);
	assert_int_equal(parts, (uint64_t)srq->entries * srq->stride >> 20);
	for (uint32_t i = 5; i < srq->pi; i++) {
		uint32_t there;

		memcpy(&there, simhca_srq_slot(view, i), sizeof(there));
		assert_int_equal(there, i % srq->entries);
	}
	forget(&queue);
}

/* What waited the first time, and waits still, is there after the second. */
static void srq_twice(void **state)
{
	struct pair *pair = former_peer_of_srq(*state);
	struct queue queue = srq_of(pair->b.client, pair->b.srq);
	struct queue cq = cq_of(pair->b.client, pair->b.recv_cq);
	struct simhca_cqe cqe;

	for (uint64_t id = 10; id < 14; id++)
		recv_into(&pair->b, id, 0, BUFFER);
	renew(&queue);
	recv_into(&pair->b, 14, 0, BUFFER);
	queue.shared->handed_out = true;
	renew(&queue);
	renew(&cq);
	pair_reconnect(pair);
	for (uint64_t id = 10; id < 15; id++) {
		send_from(&pair->a, 3, BUFFER, LENGTH);
		fastpath_completes(pair->a.send_cq);
		assert_true(cq_wait(pair->b.recv_cq, &cqe));
		assert_int_equal(cqe.wr_id, id);
		assert_int_equal(cqe.status, SIMHCA_WC_SUCCESS);
	}
	forget(&queue);
	forget(&cq);
}

/* Indices that make no sense: what was posted is used up, and what is posted now is not. */
static void srq_indices_that_lie(void **state)
{
	struct pair *pair = former_peer_of_srq(*state);
	struct queue queue = srq_of(pair->b.client, pair->b.srq);
	struct queue cq = cq_of(pair->b.client, pair->b.recv_cq);

	recv_into(&pair->b, 1, 0, BUFFER);
	atomic_store(&queue.srq->state->head, 77777);
	atomic_store(&queue.srq->state->limit, 99);
	renew(&queue);
	renew(&cq);
	assert_int_equal(atomic_load(&queue.srq->state->limit), 0);
	pair_reconnect(pair);
	messages_pass(pair, &queue, 0xff);
	forget(&queue);
	forget(&cq);
}

/* An SRQ that was resized: its indices are no peer's any more. */
/* Whether the client is told that other memory is to follow, when it changes so much of its SRQ. */
static bool is_told_to_renew(const struct queue *queue, uint32_t mask)
{
	const struct simhca_modify_srq_req req = { .handle = queue->srq->handle,
						   .mask = mask,
						   .max_wr = queue->srq->max_wr };
	struct simhca_create_srq_reply reply = { 0 };

	assert_int_equal(patiently(simhca_modify_srq(queue->client->context, &req, &reply, NULL)),
			 0);
	return reply.renew;
}

static void an_srq_that_was_resized(void **state)
{
	struct pair *pair = fastpath_pair_with_srq(*state);
	struct simhca_step step = fastpath_attach_another(&pair->a);
	struct queue queue = srq_of(pair->b.client, pair->b.srq);

	fastpath_detach(&step);
	recv_into(&pair->b, 1, 0, BUFFER);
	assert_int_equal(srq_modify(pair->b.srq, SIMHCA_SRQ_MAX_WR, 500, 0), 0);
	assert_true(is_told_to_renew(&queue, SIMHCA_SRQ_MAX_WR));
	assert_false(is_told_to_renew(&queue, SIMHCA_SRQ_LIMIT));
	renew(&queue);
	assert_false(is_told_to_renew(&queue, SIMHCA_SRQ_MAX_WR));
	scribble(&queue, 0xff);
	send_from(&pair->a, 3, BUFFER, LENGTH);
	fastpath_completes(pair->a.send_cq);
	fastpath_completes(pair->b.recv_cq);
	messages_pass(pair, &queue, 0xff);
	forget(&queue);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(cq_after_reset, fastpath_setup, teardown),
		cmocka_unit_test_setup_teardown(when_the_qp_is_destroyed, fastpath_setup, teardown),
		cmocka_unit_test_setup_teardown(what_waits_is_there, fastpath_setup, teardown),
		cmocka_unit_test_setup_teardown(nothing_is_there_at_the_wrap, fastpath_setup,
						teardown),
		cmocka_unit_test_setup_teardown(what_it_left_is_void, fastpath_setup, teardown),
		cmocka_unit_test_setup_teardown(indices_that_lie, fastpath_setup, teardown),
		cmocka_unit_test_setup_teardown(by_parts, fastpath_setup, teardown),
		cmocka_unit_test_setup_teardown(the_index_is_moved_back, fastpath_setup, teardown),
		cmocka_unit_test_setup_teardown(arms, fastpath_setup, teardown),
		cmocka_unit_test_setup_teardown(an_arm_in_between, fastpath_setup, teardown),
		cmocka_unit_test_setup_teardown(an_arm_is_not_taken_for_used, fastpath_setup,
						teardown),
		cmocka_unit_test_setup_teardown(nobody_is_attached_meanwhile, fastpath_setup,
						teardown),
		cmocka_unit_test_setup_teardown(while_another_has_it, fastpath_setup, teardown),
		cmocka_unit_test_setup_teardown(a_cq_that_was_resized, fastpath_setup, teardown),
		cmocka_unit_test_setup_teardown(given_up, fastpath_setup, teardown),
		cmocka_unit_test_setup_teardown(srq_after_reset, fastpath_setup, teardown),
		cmocka_unit_test_setup_teardown(srq_claims, fastpath_setup, teardown),
		cmocka_unit_test_setup_teardown(srq_by_parts, fastpath_setup, teardown),
		cmocka_unit_test_setup_teardown(srq_twice, fastpath_setup, teardown),
		cmocka_unit_test_setup_teardown(srq_indices_that_lie, fastpath_setup, teardown),
		cmocka_unit_test_setup_teardown(an_srq_that_was_resized, fastpath_setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
