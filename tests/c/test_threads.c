/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Engine threads at work while clients post, control functions make, change and destroy objects,
 * and time is real. What fails here may only fail now and then: run it under ThreadSanitizer.
 */
#include "harness.h"

/* The next completion within some seconds; for client threads, which may not fail a test. */
static bool next(struct cq *cq, uint64_t wr_id)
{
	struct simhca_cqe cqe;

	return cq_wait(cq, &cqe) && cqe.wr_id == wr_id && cqe.status == IBV_WC_SUCCESS;
}

/* Sends and checks messages from a to b until told to stop; counts what went wrong. */
struct ping {
	struct pair *pair;
	atomic_bool stop;
	unsigned int failures;
	pthread_t thread;
};

static void *ping_thread(void *arg)
{
	struct ping *ping = arg;
	struct side *a = &ping->pair->a, *b = &ping->pair->b;

	for (uint32_t n = 0; !n || (!atomic_load(&ping->stop) && !ping->failures); n++) {
		uint32_t length = n * 37 % 6000;

		fill(a->mr->addr, length, n);
		recv_into(b, n, 0, length);
		send_from(a, n, 0, length);
		if (!next(a->send_cq, n) || !next(b->recv_cq, n) || !filled(b->mr->addr, length, n))
			ping->failures++;
	}
	return NULL;
}

static struct ping *ping_start(struct world *world)
{
	struct options options = default_options(IBV_QPT_RC);
	struct ping *ping = world_alloc(world, sizeof(*ping));

	ping->pair = pair_new(world, &options);
	assert_int_equal(0, pthread_create(&ping->thread, NULL, ping_thread, ping));
	return ping;
}

static void ping_stop(struct ping *ping)
{
	atomic_store(&ping->stop, true);
	pthread_join(ping->thread, NULL);
	assert_int_equal(ping->failures, 0);
}

static void messages_both_ways(void **state)
{
	static const enum ibv_qp_type kinds[] = { IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD };

	for (size_t k = 0; k < ARRAY_SIZE(kinds); k++) {
		struct options options = default_options(kinds[k]);
		struct pair *pair = pair_new(*state, &options);
		struct pair back = { .a = pair->b, .b = pair->a };

		back.a.peer = &back.b;
		back.b.peer = &back.a;
		for (int i = 0; i < 200; i++) {
			check_works(pair);
			check_works(&back);
		}
	}
}

/* Two QPs that write to each other on two engines: no deadlock, and every byte. */
static void crossing_transfers(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair;

	options.buffer = 4 << 20;
	pair = pair_new(*state, &options);
	for (uint32_t lap = 0; lap < 10; lap++) {
		fill(pair->a.mr->addr, 1 << 20, lap);
		fill(pair->b.mr->addr, 1 << 20, lap + 1000);
		for (uint64_t id = 0; id < 8; id++) {
			rdma_write(&pair->a, id, 0, 1 << 20, 1 << 20);
			rdma_write(&pair->b, id, 0, 1 << 20, 1 << 20);
		}
		for (uint64_t id = 0; id < 8; id++) {
			expect(pair->a.send_cq, id, SUCCESS);
			expect(pair->b.send_cq, id, SUCCESS);
		}
		assert_true(filled(pair->b.mr->addr + (1 << 20), 1 << 20, lap));
		assert_true(filled(pair->a.mr->addr + (1 << 20), 1 << 20, lap + 1000));
	}
}

/* A client that posts to a sleeping engine always wakes it. */
static void doorbells_wake_the_engine(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_new(*state, &options);
	uint64_t seed = 9;

	for (uint32_t i = 0; i < 2000; i++) {
		rdma_write(&pair->a, i, 0, 8, 0);
		expect(pair->a.send_cq, i, SUCCESS);
		if (test_random(&seed) % 2)
			test_nap(test_random(&seed) % 80);
	}
}

static void rnr_waits_in_real_time(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair;

	options.min_rnr_timer = 1;
	pair = pair_new(*state, &options);
	for (uint32_t i = 0; i < 100; i++) {
		send_from(&pair->a, i, 0, 64);
		test_nap(100);
		recv_into(&pair->b, i, 0, 64);
		expect(pair->a.send_cq, i, SUCCESS);
		expect(pair->b.recv_cq, i, SUCCESS);
	}
}

static void time_outs_in_real_time(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct side *side;

	options.timeout = 12; /* 16.8 ms, twice */
	options.retry_cnt = 1;
	side = side_new(client_new(*state, 0), &options);
	qp_connect(side->qp, 1, 0xfff0, &options);
	send_from(side, 1, 0, 8);
	expect_why(side->send_cq, 1, RETRY_EXC_ERR, NO_RESPONSE);
}

/* Each arm is answered by one event, whether the completion comes before or after the arm. */
static void no_completion_event_is_lost(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_new(*state, &options);
	struct cq *cq = pair->a.send_cq;
	unsigned int seen = 0;
	uint64_t seed = 4;

	for (uint32_t i = 0; i < 3000; i++) {
		struct simhca_cqe cqe;
		bool got;

		rdma_write(&pair->a, i, 0, 8, 0);
		for (unsigned int n = test_random(&seed) % 400; n; n--)
			atomic_signal_fence(memory_order_seq_cst);
		cq_arm(cq, SIMHCA_ARM_NEXT);
		/* The usual loop: arm, look, and sleep only if there was nothing. */
		atomic_thread_fence(memory_order_seq_cst);
		got = cq_poll(cq, &cqe);
		if (!got) {
			for (int n = 0; atomic_load(&cq->events) == seen && n < 200000; n++)
				test_nap(n < 1000 ? 0 : 100);
			assert_true(atomic_load(&cq->events) > seen);
			got = cq_wait(cq, &cqe);
		}
		assert_true(got);
		assert_int_equal(cqe.wr_id, i);
		seen = atomic_load(&cq->events);
		assert_true(seen <= i + 1);
	}
}

enum { ADDERS = 4, EACH = 1500 };

struct adder {
	struct side *side;
	uint64_t remote;
	uint32_t rkey;
	unsigned int failures;
	pthread_t thread;
};

static void *adder_thread(void *arg)
{
	struct adder *adder = arg;

	for (uint32_t i = 0; i < EACH && !adder->failures; i++) {
		post(adder->side, .id = i, .opcode = SIMHCA_WR_ATOMIC_FETCH_AND_ADD,
		     .compare_add = 1, SGES(sge(adder->side->mr, 0, 8)),
		     .remote_addr = adder->remote, .rkey = adder->rkey);
		if (!next(adder->side->send_cq, i))
			adder->failures++;
	}
	return NULL;
}

/* Requesters on both engines, to one counter through the regions of two contexts. */
static void atomics_are_atomic_across_contexts(void **state)
{
	struct adder adder[ADDERS] = { 0 };
	uint64_t *counter = world_alloc(*state, 64);
	struct client *target[2] = { client_new_on(*state, 1, 0), client_new_on(*state, 1, 1) };

	for (int i = 0; i < ADDERS; i++) {
		struct options options = default_options(IBV_QPT_RC);
		struct client *owner = target[i % 2];
		struct side *responder = side_new(owner, &options);
		struct mr *mr =
			mr_over(owner, owner->pd, counter, 64, (uintptr_t)counter, ALL_ACCESS);

		adder[i].side = side_new(client_new_on(*state, 0, (unsigned int)i), &options);
		adder[i].side->peer = responder;
		adder[i].remote = mr->iova;
		adder[i].rkey = mr->rkey;
		qp_connect(adder[i].side->qp, 1, responder->qp->qpn, &options);
		qp_connect(responder->qp, 0, adder[i].side->qp->qpn, &options);
	}
	for (int i = 0; i < ADDERS; i++)
		assert_int_equal(0,
				 pthread_create(&adder[i].thread, NULL, adder_thread, &adder[i]));
	for (int i = 0; i < ADDERS; i++) {
		pthread_join(adder[i].thread, NULL);
		assert_int_equal(adder[i].failures, 0);
	}
	assert_int_equal(*counter, ADDERS * EACH);
}

/* Control work beside traffic: objects of other contexts come and go. */
static void objects_come_and_go_beside_traffic(void **state)
{
	struct ping *ping[2] = { ping_start(*state), ping_start(*state) };

	for (int i = 0; i < 60; i++) {
		struct options options = default_options(i % 2 ? IBV_QPT_RC : IBV_QPT_UD);
		struct pair *pair = pair_new(*state, &options);

		check_works(pair);
		client_gone(pair->a.client);
		client_gone(pair->b.client);
	}
	ping_stop(ping[0]);
	ping_stop(ping[1]);
}

/* For two sides at a time, so that not each pair has fresh pages. */
static uint8_t buffers[2][2 << 20];

/* QPs with transfers under way, time-outs running and retries due are destroyed at any moment. */
static void qps_are_destroyed_while_they_work(void **state)
{
	struct ping *ping = ping_start(*state);
	uint64_t seed = 11;

	for (int i = 0; i < 150; i++) {
		struct options options = default_options(IBV_QPT_RC);
		struct pair *pair;

		options.min_rnr_timer = 1; /* 10 us: its timer fires all the time */
		options.timeout = 1;
		options.buffer = 1 << 20;
		options.memory = buffers[0];
		pair = pair_new(*state, &options);
		for (uint64_t id = 0; id < 4; id++) {
			rdma_write(&pair->a, id, 0, 1 << 20, 0);
			send_from(&pair->b, id, 0, 64);
		}
		test_nap(test_random(&seed) % 300);
		for (int n = 0; n < 2; n++) {
			struct side *side = (i + n) % 2 ? &pair->a : &pair->b;

			assert_int_equal(0, patiently(simhca_destroy_qp(side->client->context,
									side->qp->handle, NULL)));
			test_nap(test_random(&seed) % 50);
		}
		client_gone(pair->a.client);
		client_gone(pair->b.client);
	}
	ping_stop(ping);
}

/* Contexts that go with everything alive, at any moment. */
static void contexts_go_while_they_work(void **state)
{
	struct ping *ping = ping_start(*state);
	uint64_t seed = 12;

	for (int i = 0; i < 80; i++) {
		struct options options = default_options(IBV_QPT_RC);
		struct pair *pair;

		options.min_rnr_timer = 1;
		options.timeout = 1;
		options.buffer = sizeof(buffers[0]);
		options.memory = buffers[0];
		pair = pair_new(*state, &options);
		for (uint64_t id = 0; id < 6; id++) {
			rdma_write(&pair->a, id, 0, 1 << 20, 1 << 20);
			rdma_read(&pair->b, id, 0, 1 << 20, 0);
		}
		send_from(&pair->b, 9, 0, 64);
		test_nap(test_random(&seed) % 400);
		client_gone(i % 2 ? pair->a.client : pair->b.client);
		test_nap(test_random(&seed) % 100);
		client_gone(i % 2 ? pair->b.client : pair->a.client);
	}
	ping_stop(ping);
}

/* After dereg_mr has returned, nothing is written through that key any more. */
static void deregistration_ends_all_access(void **state)
{
	uint64_t seed = 13;

	for (int i = 0; i < 60; i++) {
		struct options options = default_options(IBV_QPT_RC);
		struct pair *pair;
		struct mr *mr;

		options.buffer = 1 << 20;
		options.memory = buffers[0];
		pair = pair_new(*state, &options);
		mr = mr_over(pair->b.client, pair->b.client->pd, buffers[1], 1 << 20,
			     (uintptr_t)buffers[1], ALL_ACCESS);
		memset(pair->a.mr->addr, 1, 1 << 20);
		for (uint64_t id = 0; id < 20; id++)
			post(&pair->a, .id = id, .opcode = SIMHCA_WR_RDMA_WRITE,
			     SGES(sge(pair->a.mr, 0, 1 << 20)), .remote_addr = mr->iova,
			     .rkey = mr->rkey);
		test_nap(test_random(&seed) % 500);
		assert_int_equal(
			0, patiently(simhca_dereg_mr(pair->b.client->context, mr->handle, NULL)));
		memset(mr->addr, 7, 1 << 20);
		test_nap(200);
		assert_true(all_bytes(mr->addr, 1 << 20, 7));
		client_gone(pair->a.client);
		client_gone(pair->b.client);
	}
}

/* modify_qp races with the traffic that it stops, and with the peer's, whose engine looks at the QP. */
static void qps_are_reset_while_they_work(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair;
	uint64_t seed = 14;

	options.buffer = 1 << 20;
	options.retry_cnt = 0;
	options.timeout = 1;
	pair = pair_new(*state, &options);
	for (int i = 0; i < 150; i++) {
		struct qp *first = i % 2 ? pair->a.qp : pair->b.qp;
		struct qp *second = i % 2 ? pair->b.qp : pair->a.qp;
		struct simhca_cqe cqe;

		for (uint64_t id = 0; id < 6; id++)
			if (i % 4 < 2)
				rdma_write(&pair->a, id, 0, 1 << 18, 0);
			else
				rdma_read(&pair->a, id, 0, 1 << 12, 0);
		test_nap(test_random(&seed) % 200);
		if (i % 3)
			assert_int_equal(0, qp_move(first, IBV_QPS_ERR));
		assert_int_equal(0, qp_move(first, IBV_QPS_RESET));
		assert_int_equal(0, qp_move(second, IBV_QPS_RESET));
		test_nap(50);
		while (cq_poll(pair->a.send_cq, &cqe) || cq_poll(pair->b.recv_cq, &cqe))
			;
		pair_connect(pair);
		check_works(pair);
	}
}

/* A CQ is resized, an SRQ too, while completions arrive. */
static void queues_are_resized_while_they_fill(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair = pair_new(*state, &options);
	uint64_t posted = 0, done = 0, seed = 15;

	while (done < 5000) {
		struct simhca_cqe cqe;

		while (posted < 5000 && posted - done < 60)
			rdma_write(&pair->a, posted++, 0, 8, 0);
		if (test_random(&seed) % 8 == 0)
			assert_int_equal(0,
					 cq_resize(pair->a.send_cq, 64 + test_random(&seed) % 500));
		if (cq_poll(pair->a.send_cq, &cqe)) {
			assert_int_equal(cqe.wr_id, done);
			assert_int_equal(cqe.status, IBV_WC_SUCCESS);
			done++;
		}
	}
}

/* The GID table changes under datagrams that are being addressed by it. */
static void gids_change_beside_traffic(void **state)
{
	struct options options = default_options(IBV_QPT_UD);
	struct pair *pair = pair_new(*state, &options);
	struct world *world = *state;
	struct simhca_gid_entry gids[SIMHCA_GID_ENTRIES] = { 0 };

	for (unsigned int i = 0; i < 2; i++) {
		gids[i].gid = device_gid(1, i);
		gids[i].type = SIMHCA_GID_ROCE_V2;
		gids[i].ifindex = 1;
	}
	for (uint64_t id = 0; id < 500; id++) {
		gids[3].gid = device_gid(1, 1);
		gids[3].gid.raw[14] = (uint8_t)id;
		gids[3].ifindex = 2;
		recv_into(&pair->b, id, 0, 512);
		send_from(&pair->a, id, 0, 100);
		send_from(&pair->b, id, 0, 100);
		simhca_device_set_gids(world->device[1], gids);
		expect(pair->a.send_cq, id, SUCCESS);
		expect(pair->b.send_cq, id, SUCCESS);
		expect(pair->b.recv_cq, id, SUCCESS);
	}
}

static void members_join_and_leave_beside_traffic(void **state)
{
	struct options options = default_options(IBV_QPT_UD);
	struct side *sender = side_new(client_new(*state, 0), &options);
	struct simhca_mcast_req req = { .gid = { .raw = { 0xff, 0x0e, [15] = 1 } } };
	struct simhca_av av = av_to(*state, 1, 0);

	av.dgid = req.gid;
	qp_connect(sender->qp, 0, 0, &options);
	for (uint64_t i = 0; i < 150; i++) {
		struct side *member = side_new(client_new(*state, 1), &options);

		qp_connect(member->qp, 0, 0, &options);
		req.qp = member->qp->handle;
		recv_into(member, 1, 0, 512);
		post(sender, .id = i, .opcode = SIMHCA_WR_SEND, SGES(sge(sender->mr, 0, 64)),
		     .av = av, .dest_qpn = SIMHCA_MCAST_QPN, .qkey = options.qkey);
		assert_int_equal(
			0, patiently(simhca_attach_mcast(member->client->context, &req, NULL)));
		test_nap(20);
		if (i % 3 == 0)
			assert_int_equal(0, patiently(simhca_detach_mcast(member->client->context,
									  &req, NULL)));
		if (i % 3 == 1)
			assert_int_equal(0, patiently(simhca_destroy_qp(member->client->context,
									member->qp->handle, NULL)));
		client_gone(member->client);
		expect(sender->send_cq, i, SUCCESS);
	}
}

/* ------------------------------------------------- hostile clients with threads of their own */

struct nuisance {
	struct side *side;
	atomic_bool stop;
	pthread_t thread;
};

/* Keeps the receive queue of a dead QP full, so that flushing it never ends. */
static void *refill_thread(void *arg)
{
	struct nuisance *nuisance = arg;
	struct qp *qp = nuisance->side->qp;

	while (!atomic_load_explicit(&nuisance->stop, memory_order_relaxed)) {
		uint32_t ci = rq_ci_of(qp);

		atomic_store_explicit(&qp->state->rq_pi, ci + qp->granted.rq_entries,
				      memory_order_release);
	}
	return NULL;
}

static void a_queue_refilled_while_it_is_flushed(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *good = pair_new(*state, &options);
	struct client *client = client_new(*state, 0);
	struct cq *cq = cq_new_flags(client, 16, SIMHCA_CQ_IGNORE_OVERRUN);
	struct side side = { .client = client, .qp = qp_new(client, &options, cq, cq, NULL) };
	struct nuisance nuisance = { .side = &side };

	qp_connect(side.qp, 1, 0xfff0, &options);
	assert_int_equal(0, pthread_create(&nuisance.thread, NULL, refill_thread, &nuisance));
	assert_int_equal(0, qp_move(side.qp, IBV_QPS_ERR));
	for (int i = 0; i < 20; i++) {
		test_nap(1000);
		qp_ring(side.qp);
		check_works(good);
	}
	atomic_store(&nuisance.stop, true);
	pthread_join(nuisance.thread, NULL);
}

/* Rings every doorbell it has, without pause. */
static void *ring_thread(void *arg)
{
	struct nuisance *nuisance = arg;
	struct qp *qp = nuisance->side->qp;

	while (!atomic_load_explicit(&nuisance->stop, memory_order_relaxed)) {
		ring_doorbell(nuisance->side->client, qp->doorbell);
		atomic_fetch_add(&qp->state->sq_pi, 1);
	}
	return NULL;
}

static void a_client_that_rings_without_pause(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *good = pair_new(*state, &options);
	struct side *bad = side_new(client_new(*state, 0), &options);
	struct nuisance nuisance = { .side = bad };

	qp_connect(bad->qp, 1, 0xfff0, &options);
	assert_int_equal(0, pthread_create(&nuisance.thread, NULL, ring_thread, &nuisance));
	/* On one CPU each of these waits until the scheduler takes it from the thread that rings. */
	for (int i = 0; i < 10; i++)
		check_works(good);
	client_gone(good->a.client);
	atomic_store(&nuisance.stop, true);
	pthread_join(nuisance.thread, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_ONE_THREAD(messages_both_ways),
		ON_TWO_THREADS(messages_both_ways),
		ON_TWO_CPUS(messages_both_ways),
		ON_TWO_THREADS(crossing_transfers),
		ON_ONE_THREAD(doorbells_wake_the_engine),
		ON_TWO_THREADS(doorbells_wake_the_engine),
		ON_TWO_CPUS(doorbells_wake_the_engine),
		ON_TWO_THREADS(rnr_waits_in_real_time),
		ON_TWO_CPUS(rnr_waits_in_real_time),
		ON_ONE_THREAD(time_outs_in_real_time),
		ON_TWO_THREADS(no_completion_event_is_lost),
		ON_TWO_CPUS(no_completion_event_is_lost),
		ON_TWO_THREADS(atomics_are_atomic_across_contexts),
		ON_TWO_THREADS(objects_come_and_go_beside_traffic),
		ON_ONE_THREAD(qps_are_destroyed_while_they_work),
		ON_TWO_THREADS(qps_are_destroyed_while_they_work),
		ON_TWO_CPUS(qps_are_destroyed_while_they_work),
		ON_TWO_THREADS(contexts_go_while_they_work),
		ON_TWO_CPUS(contexts_go_while_they_work),
		ON_TWO_THREADS(deregistration_ends_all_access),
		ON_TWO_THREADS(qps_are_reset_while_they_work),
		ON_TWO_THREADS(queues_are_resized_while_they_fill),
		ON_TWO_THREADS(gids_change_beside_traffic),
		ON_TWO_THREADS(members_join_and_leave_beside_traffic),
		ON_ONE_THREAD(a_queue_refilled_while_it_is_flushed),
		ON_ONE_THREAD(a_client_that_rings_without_pause),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
