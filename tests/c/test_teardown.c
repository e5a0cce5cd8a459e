/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* A client that goes away, in whatever state, takes its objects with it and harms nobody. */
#include "core/context.h"
#include "core/device.h"
#include "core/guard.h"
#include "dma/dma.h"
#include "engine/engine.h"
#include "harness.h"
#include "proto/qp.h"

static struct simhca_counts counts(struct client *client)
{
	struct simhca_counts all;

	simhca_context_counts(client->context, &all);
	return all;
}

static void counts_follow_the_objects(void **state)
{
	struct options options = default_options(IBV_QPT_UD);
	struct client *client = client_new(*state, 0);
	struct mr *mr = mr_new(client, 64, ALL_ACCESS);
	struct cq *cq = cq_new(client, 4);
	struct srq *srq = srq_new(client, 4, 1, 0);
	struct qp *qp = qp_new(client, &options, cq, cq, srq);
	struct simhca_handle ah;
	struct simhca_counts all;

	assert_int_equal(0, simhca_create_ah(client->context,
					     &(struct simhca_create_ah_req){
						     .pd = client->pd, .av = av_to(*state, 1, 0) },
					     &ah, NULL));
	all = counts(client);
	assert_int_equal(all.pds, 1);
	assert_int_equal(all.mrs, 1);
	assert_int_equal(all.cqs, 1);
	assert_int_equal(all.srqs, 1);
	assert_int_equal(all.qps, 1);
	assert_int_equal(all.ahs, 1);
	assert_int_equal(0, simhca_destroy_qp(client->context, qp->handle, NULL));
	assert_int_equal(0, simhca_destroy_srq(client->context, srq->handle, NULL));
	assert_int_equal(0, simhca_destroy_cq(client->context, cq->handle, NULL));
	assert_int_equal(0, simhca_destroy_ah(client->context, ah.handle, NULL));
	assert_int_equal(0, simhca_dereg_mr(client->context, mr->handle, NULL));
	assert_int_equal(0, simhca_dealloc_pd(client->context, client->pd, NULL));
	all = counts(client);
	assert_true(all_bytes((uint8_t *)&all, sizeof(all), 0));
}

/* Handles of one context mean nothing in another. */
static void handles_belong_to_their_context(void **state)
{
	struct client *one = client_new(*state, 0), *two = client_new(*state, 0);
	struct options options = default_options(IBV_QPT_RC);
	struct cq *cq = cq_new(one, 4);
	struct qp *qp = qp_new(one, &options, cq, cq, NULL);
	struct srq *srq = srq_new(one, 4, 1, 0);
	struct mr *mr = mr_new(one, 64, 0);
	struct simhca_query_qp_reply query;
	struct simhca_query_srq_reply srq_query;

	assert_int_equal(-ENOENT, simhca_destroy_qp(two->context, qp->handle, NULL));
	assert_int_equal(-ENOENT, simhca_destroy_cq(two->context, cq->handle, NULL));
	assert_int_equal(-ENOENT, simhca_destroy_srq(two->context, srq->handle, NULL));
	assert_int_equal(-ENOENT, simhca_dereg_mr(two->context, mr->handle, NULL));
	assert_int_equal(-ENOENT, simhca_query_qp(two->context, qp->handle, &query, NULL));
	assert_int_equal(-ENOENT, simhca_query_srq(two->context, srq->handle, &srq_query, NULL));
	for (uint32_t handle = 100; handle; handle <<= 1) {
		const struct simhca_modify_qp_req modify = { .handle = handle };
		const struct simhca_resize_cq_req resize = { .handle = handle, .cqe = 4 };
		const struct simhca_modify_srq_req modify_srq = { .handle = handle };
		const struct simhca_rereg_mr_req rereg = { .handle = handle, .flags = 1 };
		const struct simhca_mcast_req mcast = { .qp = handle, .gid.raw = { 0xff } };
		struct simhca_modify_qp_reply state_reply;
		struct simhca_create_cq_reply cq_reply;
		struct simhca_create_srq_reply srq_reply;
		struct simhca_reg_mr_reply mr_reply;
		struct simhca_identity identity;

		assert_int_equal(-ENOENT,
				 simhca_modify_qp(one->context, &modify, &state_reply, NULL));
		assert_int_equal(-ENOENT, simhca_resize_cq(one->context, &resize, &cq_reply, NULL));
		assert_int_equal(-ENOENT,
				 simhca_modify_srq(one->context, &modify_srq, &srq_reply, NULL));
		assert_int_equal(-ENOENT,
				 simhca_rereg_mr(one->context, one->mm, &rereg, &mr_reply, NULL));
		assert_int_equal(-ENOENT, simhca_attach_mcast(one->context, &mcast, NULL));
		assert_int_equal(-ENOENT, simhca_detach_mcast(one->context, &mcast, NULL));
		assert_int_equal(-ENOENT,
				 simhca_qp_identity(one->context, handle, &identity, NULL));
		assert_int_equal(-ENOENT,
				 simhca_srq_identity(one->context, handle, &identity, NULL));
		assert_int_equal(-ENOENT,
				 simhca_cq_identity(one->context, handle, &identity, NULL));
		assert_int_equal(-ENOENT, simhca_destroy_cq(one->context, handle, NULL));
		assert_int_equal(-ENOENT, simhca_destroy_srq(one->context, handle, NULL));
		assert_int_equal(-ENOENT, simhca_destroy_qp(one->context, handle, NULL));
		assert_int_equal(-ENOENT, simhca_dereg_mr(one->context, handle, NULL));
		assert_int_equal(-ENOENT, simhca_dealloc_pd(one->context, handle, NULL));
		assert_int_equal(-ENOENT, simhca_destroy_ah(one->context, handle, NULL));
	}
	assert_int_equal(-ENOENT, simhca_destroy_qp(one->context, UINT32_MAX, NULL));
	assert_int_equal(0, simhca_query_qp(one->context, qp->handle, &query, NULL));
}

/* Everything alive, work under way in every state: gone, and the peers see time-outs. */
static void a_context_goes_with_everything_alive(void **state)
{
	struct world *world = *state;

	for (int lap = 0; lap < 20; lap++) {
		struct options options = default_options(IBV_QPT_RC);
		struct pair *pair[4];
		struct client *client;
		struct srq *srq;
		struct mr *mr;

		options.retry_cnt = 1;
		options.buffer = 1 << 20;
		for (int i = 0; i < 4; i++)
			pair[i] = pair_new(world, &options);
		client = pair[0]->b.client;
		srq = srq_new(client, 16, 2, 3);
		mr = mr_new(client, 4096, ALL_ACCESS);
		for (uint64_t id = 0; id < 10; id++) {
			struct simhca_sge one = sge(mr, id * 64, 64);

			srq_recv(srq, id, &one, 1);
		}
		/* 0: large transfers both ways; 1: RNR wait; 2: errors; 3: idle */
		for (uint64_t id = 0; id < 8; id++) {
			rdma_write(&pair[0]->a, id, 0, 1 << 20, 0);
			rdma_read(&pair[0]->b, id, 0, 1 << 20, 0);
			send_from(&pair[1]->a, id, 0, 64);
		}
		recv_into(&pair[2]->b, 1, 0, 8);
		send_from(&pair[2]->a, 1, 0, 9);
		rounds(world, (unsigned int)lap % 7);
		for (int i = 0; i < 4; i++)
			client_gone(pair[i]->b.client);
		run_until_idle(world);
		send_from(&pair[3]->a, 5, 0, 64);
		for (int i = 0; i < 3; i++)
			advance(world, 4096ull << 14);
		expect_why(pair[3]->a.send_cq, 5, RETRY_EXC_ERR, NO_RESPONSE);
		expect(pair[1]->a.send_cq, 0, RETRY_EXC_ERR);
		assert_int_equal(qp_state(pair[1]->a.qp), IBV_QPS_ERR);
		for (int i = 0; i < 4; i++)
			client_gone(pair[i]->a.client);
		run_until_idle(world);
	}
}

/* No event is raised for what the client's end destroys. */
static void no_events_for_a_client_that_is_gone(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_new(*state, &options);

	cq_arm(pair->b.recv_cq, SIMHCA_ARM_NEXT);
	recv_into(&pair->b, 1, 0, 64);
	run_until_idle(*state);
	client_gone(pair->b.client);
	advance(*state, 100 * SEC);
	assert_int_equal(pair->b.client->num_events, 0);
	assert_int_equal(pair->b.recv_cq->events, 0);
}

/* Many generations of clients on one device: nothing is used up. */
static void clients_come_and_go(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *steady = pair_new(*state, &options);

	for (int i = 0; i < 300; i++) {
		struct pair *pair = pair_new(*state, &options);

		check_works(pair);
		client_gone(pair->a.client);
		client_gone(pair->b.client);
		check_works(steady);
	}
}

/* Context memory is given back: queues made and destroyed do not fill the segments. */
static void queues_come_and_go(void **state)
{
	struct client *client = client_new(*state, 0);
	struct options options = default_options(IBV_QPT_RC);
	uint64_t seed = 3;

	for (int i = 0; i < 3000; i++) {
		struct cq *cq = cq_new(client, 1 + test_random(&seed) % 5000);
		struct qp *qp;

		options.max_send_wr = 1 + test_random(&seed) % 2000;
		options.max_recv_wr = 1 + test_random(&seed) % 2000;
		qp = qp_new(client, &options, cq, cq, NULL);
		/* New queues are clean, whatever was there before. */
		assert_int_equal(atomic_load(&cq->state->arm), 0);
		assert_int_equal(atomic_load(&cq->ring[0].seq), 0);
		assert_int_equal(atomic_load(&cq->ring[cq->entries - 1].seq), 0);
		assert_int_equal(atomic_load(&qp->state->sq_pi), 0);
		memset(&cq->ring[0], 0xff, sizeof(*cq->ring));
		memset(&cq->ring[cq->entries - 1], 0xff, sizeof(*cq->ring));
		memset(cq->state, 0xff, sizeof(*cq->state));
		memset(qp->state, 0xff, sizeof(*qp->state));
		assert_int_equal(0, simhca_destroy_qp(client->context, qp->handle, NULL));
		assert_int_equal(0, simhca_destroy_cq(client->context, cq->handle, NULL));
	}
	assert_null(client->segment[3].addr);
}

static void destroying_a_qp_at_work(void **state)
{
	for (int lap = 0; lap < 50; lap++) {
		struct options options = default_options(IBV_QPT_RC);
		struct pair *pair;

		options.buffer = 1 << 20;
		options.retry_cnt = 0;
		pair = pair_new(*state, &options);
		for (uint64_t id = 0; id < 8; id++)
			rdma_write(&pair->a, id, 0, 1 << 20, 0);
		rounds(*state, (unsigned int)lap % 9);
		assert_int_equal(0,
				 simhca_destroy_qp((lap & 1 ? pair->a : pair->b).client->context,
						   (lap & 1 ? pair->a : pair->b).qp->handle, NULL));
		advance(*state, SEC);
		if (!(lap & 1)) {
			struct simhca_cqe cqe;
			bool failed = false;

			while (cq_poll(pair->a.send_cq, &cqe))
				failed |= cqe.status == IBV_WC_RETRY_EXC_ERR;
			assert_int_equal(failed, qp_state(pair->a.qp) == IBV_QPS_ERR);
		}
		client_gone(pair->a.client);
		client_gone(pair->b.client);
	}
}

static struct qp *loopback_qp(struct client *client, struct cq *cq)
{
	struct options options = default_options(IBV_QPT_RC);
	struct qp *qp = qp_new(client, &options, cq, cq, NULL);

	qp_connect(qp, 0, qp->qpn, &options);
	return qp;
}

/*
 * A QP that an engine still works on cannot go at once. When it does in the end, it has nothing to
 * do any more with what others were given meanwhile: their doorbells still ring.
 */
static void a_qp_that_goes_late(void **state)
{
	struct world *world = *state;
	struct simhca_guard *at_work = &world->engine[0]->by_hand.guard;
	struct client *client = client_new(world, 0);
	struct cq *cq = cq_new(client, 64);
	struct qp *first = loopback_qp(client, cq), *late = loopback_qp(client, cq);
	struct qp *others[4];

	simhca_guard_enter(at_work);
	assert_int_equal(-EAGAIN, simhca_destroy_qp(client->context, late->handle, NULL));
	simhca_guard_leave(at_work);
	/* With it goes a lower number than that of the QP in question. */
	assert_int_equal(0, simhca_destroy_qp(client->context, first->handle, NULL));
	for (unsigned int i = 0; i < ARRAY_SIZE(others); i++)
		others[i] = loopback_qp(client, cq);
	assert_int_equal(0, simhca_destroy_qp(client->context, late->handle, NULL));
	for (unsigned int i = 0; i < ARRAY_SIZE(others); i++) {
		qp_recv(others[i], 1, NULL, 0);
		qp_post(others[i], &(struct wr){ .id = 2,
						 .flags = SIMHCA_WQE_SIGNALED,
						 .opcode = SIMHCA_WR_SEND });
		expect(cq, 1, SUCCESS);
		expect(cq, 2, SUCCESS);
	}
}

static bool has_sends(const struct side *side)
{
	return simhca_qp_has_sends(side->client->context, side->qp->handle);
}

/* Who destroys a QP asks first, where nobody waits for an acknowledgement. */
static void sends_that_are_still_to_come(void **state)
{
	static const enum ibv_qp_type types[] = { IBV_QPT_UD, IBV_QPT_UC, IBV_QPT_RC };

	for (unsigned int i = 0; i < ARRAY_SIZE(types); i++) {
		struct options options = default_options(types[i]);
		struct pair *pair = pair_new(*state, &options);

		assert_false(has_sends(&pair->a));
		recv_into(&pair->b, 1, 0, 128);
		send_from(&pair->a, 2, 0, 64);
		assert_int_equal(has_sends(&pair->a), types[i] != IBV_QPT_RC);
		run_until_idle(*state);
		assert_false(has_sends(&pair->a));
		expect(pair->b.recv_cq, 1, SUCCESS);
		expect(pair->a.send_cq, 2, SUCCESS);
	}
}

/* Also those to a QP that is busy at the moment. */
static void sends_to_a_busy_peer(void **state)
{
	struct options options = default_options(IBV_QPT_UC);
	struct pair *pair = pair_new(*state, &options);
	struct simhca_device *device = pair->b.world->device[1];
	struct simhca_qp *peer = atomic_load(&device->qps[SIMHCA_QPN_SLOT(pair->b.qp->qpn)]);

	recv_into(&pair->b, 1, 0, 128);
	assert_true(simhca_qp_begin_responder(peer));
	send_from(&pair->a, 2, 0, 64);
	run_until_idle(*state);
	if (!pair->a.world->tick) /* else it is on its way, and may be lost */
		assert_true(has_sends(&pair->a));
	simhca_qp_end_responder(peer);
	advance(*state, SEC);
	assert_false(has_sends(&pair->a));
	expect(pair->b.recv_cq, 1, SUCCESS);
}

/* Asking is as good as the doorbell; a QP that has failed sends nothing, and one that is gone. */
static void sends_without_a_doorbell(void **state)
{
	struct options options = default_options(IBV_QPT_UC);
	struct pair *pair = pair_new(*state, &options);
	struct wr wr = { .opcode = SIMHCA_WR_SEND };

	run_until_idle(*state);
	qp_put(pair->a.qp, &wr);
	run_until_idle(*state);
	assert_true(has_sends(&pair->a));
	run_until_idle(*state);
	assert_false(has_sends(&pair->a));
	qp_put(pair->a.qp, &wr);
	assert_int_equal(0, qp_move(pair->a.qp, IBV_QPS_ERR));
	assert_false(has_sends(&pair->a));
	assert_int_equal(0, simhca_destroy_qp(pair->a.client->context, pair->a.qp->handle, NULL));
	assert_false(has_sends(&pair->a));
}

/* Nor does one whose destruction has begun and has to wait for an engine. */
static void sends_of_a_dying_qp(void **state)
{
	struct options options = default_options(IBV_QPT_UC);
	struct pair *pair = pair_new(*state, &options);
	struct simhca_guard *at_work = &pair->a.world->engine[0]->by_hand.guard;
	struct simhca_context *context = pair->a.client->context;

	run_until_idle(*state);
	qp_put(pair->a.qp, &(struct wr){ .opcode = SIMHCA_WR_SEND });
	simhca_guard_enter(at_work);
	assert_int_equal(-EAGAIN, simhca_destroy_qp(context, pair->a.qp->handle, NULL));
	simhca_guard_leave(at_work);
	assert_false(has_sends(&pair->a));
	assert_int_equal(0, simhca_destroy_qp(context, pair->a.qp->handle, NULL));
}

/* Children that register something, give it back and end leave nothing with their parent's context.
 */
static void processes_come_and_go(void **state)
{
	struct client *client = client_new(*state, 0);
	struct simhca_alloc_mr_req req = { .pd = client->pd, .max_pages = 1 };
	struct simhca_reg_mr_reply reply = { 0 }, kept;
	struct simhca_mm *mm = client->mm;
	unsigned int left = 0;

	for (pid_t pid = 1 << 22; pid < (1 << 22) + 1000; pid++) {
		simhca_context_drop_gone(client->context);
		mm = simhca_context_mm(client->context, pid);
		assert_non_null(mm);
		kept = reply;
		assert_int_equal(0, simhca_alloc_mr(client->context, mm, &req, &reply, NULL));
		/* It may outlive its process. */
		if (kept.lkey)
			assert_int_equal(0, simhca_dereg_mr(client->context, kept.handle, NULL));
		simhca_mm_gone(mm);
	}
	for (mm = client->context->mms; mm; mm = mm->next)
		left++;
	assert_in_range(left, 2, 3); /* ours, the last one, and that before it */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_ETHERNET(counts_follow_the_objects),
		ON_ETHERNET(handles_belong_to_their_context),
		ON_ETHERNET(a_context_goes_with_everything_alive),
		ON_ETHERNET(no_events_for_a_client_that_is_gone),
		ON_ETHERNET(clients_come_and_go),
		ON_ETHERNET(queues_come_and_go),
		ON_ETHERNET(destroying_a_qp_at_work),
		ON_ETHERNET(a_qp_that_goes_late),
		ON_ETHERNET(sends_that_are_still_to_come),
		ON_ETHERNET(sends_to_a_busy_peer),
		ON_ETHERNET(sends_without_a_doorbell),
		ON_ETHERNET(sends_of_a_dying_qp),
		ON_ETHERNET(processes_come_and_go),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
