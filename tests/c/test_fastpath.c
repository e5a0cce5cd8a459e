/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Messages of connected QPs by the fast path (libsimhca/message/step.h): what comes of them is what comes
 * of the device's. Each row of works is carried both ways.
 */
#include <pthread.h>

#include "fastpath_scene.h"

static const struct fastpath_work works[] = {
	{ "write", SIMHCA_WR_RDMA_WRITE, SIGNALED, 1, 100, 1, false, false },
	{ "an empty write", SIMHCA_WR_RDMA_WRITE, SIGNALED, 1, 0, 1, false, false },
	{ "writes, unsignaled", SIMHCA_WR_RDMA_WRITE, 0, 3, 100, 1, false, false },
	{ "a list of writes", SIMHCA_WR_RDMA_WRITE, SIGNALED, 20, 333, 1, false, false },
	{ "a list of inline writes", SIMHCA_WR_RDMA_WRITE, SIGNALED, 10, 64, 1, false, true },
	{ "more than a turn takes", SIMHCA_WR_RDMA_WRITE, 0, 100, 8, 1, false, false },
	{ "a long write", SIMHCA_WR_RDMA_WRITE, SIGNALED, 1, 200001, 2, false, false },
	{ "a longer one", SIMHCA_WR_RDMA_WRITE, SIGNALED, 1, 3000001, 1, false, false },
	{ "write with imm", SIMHCA_WR_RDMA_WRITE_WITH_IMM, SIGNALED, 2, 9000, 1, true, false },
	{ "send", SIMHCA_WR_SEND, SIGNALED, 1, 100, 1, true, false },
	{ "an empty send", SIMHCA_WR_SEND, SIGNALED, 1, 0, 1, true, false },
	{ "sends of two parts", SIMHCA_WR_SEND, SIGNALED | SIMHCA_WQE_SOLICITED, 3, 5001, 2, true,
	  false },
	{ "send with imm", SIMHCA_WR_SEND_WITH_IMM, SIGNALED, 1, 100, 1, true, false },
	{ "inline", SIMHCA_WR_SEND, SIGNALED, 2, 64, 1, true, true },
	{ "read", SIMHCA_WR_RDMA_READ, SIGNALED, 1, 100, 1, false, false },
	{ "a long read", SIMHCA_WR_RDMA_READ, SIGNALED, 1, 3000001, 1, false, false },
	{ "long reads", SIMHCA_WR_RDMA_READ, SIGNALED | SIMHCA_WQE_FENCE, 3, 20001, 2, false,
	  false },
	{ "an atomic write", SIMHCA_WR_ATOMIC_WRITE, SIGNALED, 1, 8, 1, false, false },
	{ "atomic writes of two parts", SIMHCA_WR_ATOMIC_WRITE, SIGNALED, 3, 8, 2, false, false },
	{ "an inline atomic write", SIMHCA_WR_ATOMIC_WRITE, 0, 1, 8, 1, false, true },
	/* Nothing is added, and zero is swapped for zero. */
	{ "a fetch and add", SIMHCA_WR_ATOMIC_FETCH_AND_ADD, SIGNALED, 1, 8, 1, false, false },
	{ "some fetches and adds", SIMHCA_WR_ATOMIC_FETCH_AND_ADD, SIGNALED, 4, 8, 2, false,
	  false },
	{ "a compare and swap", SIMHCA_WR_ATOMIC_CMP_AND_SWP, SIGNALED, 1, 8, 1, false, false },
};

static uint32_t messages_of_works(void)
{
	uint32_t messages = 0;

	for (size_t w = 0; w < ARRAY_SIZE(works); w++)
		messages += works[w].count;
	return messages;
}

static bool is_atomic(const struct fastpath_work *work)
{
	return work->opcode == SIMHCA_WR_ATOMIC_WRITE ||
	       work->opcode == SIMHCA_WR_ATOMIC_FETCH_AND_ADD ||
	       work->opcode == SIMHCA_WR_ATOMIC_CMP_AND_SWP;
}

/* With buffers for the longest of works. */
static struct options roomy_options(void)
{
	struct options options = fastpath_options();

	options.buffer = 6 << 20;
	return options;
}

/* Between messages; what is said of one that is under way says nothing then. */
static void same_responders(const struct qp *one, const struct qp *other)
{
	struct simhca_responder a = *responder_of(one), b = *responder_of(other);

	assert_false(a.in_message || a.have_recv || a.owed);
	a.offset = b.offset;
	a.va = b.va;
	a.rkey = b.rkey;
	a.left = b.left;
	a.read = b.read;
	assert_memory_equal(&a, &b, sizeof(a));
}

/* `atomics`: in memory on which there are some, so the fast path does them as well. */
static void what_the_device_does(struct world *world, const struct options *options, bool atomics)
{
	uint64_t before[SIMHCA_STATS], by_fast_path[SIMHCA_STATS], by_device[SIMHCA_STATS];

	for (size_t w = 0; w < ARRAY_SIZE(works); w++) {
		const struct fastpath_work *work = &works[w];
		struct pair *pair = fastpath_pair(world, options),
			    *other = fastpath_pair(world, options);
		struct simhca_step step = fastpath_attach(&pair->a);
		uint32_t bytes = work->count * work->length;
		bool read = work->opcode == SIMHCA_WR_RDMA_READ ||
			    work->opcode == SIMHCA_WR_ATOMIC_FETCH_AND_ADD ||
			    work->opcode == SIMHCA_WR_ATOMIC_CMP_AND_SWP;

		if ((read && options->type == IBV_QPT_UC) || (is_atomic(work) && !atomics))
			continue;
		print_message("%s\n", work->name);
		run_until_idle(world);
		for (uint32_t round = 0; round < 3; round++) {
			for (int i = 0; i < 2; i++) {
				struct pair *one = i ? other : pair;

				fill((read ? one->b.mr : one->a.mr)->addr, bytes, round + 1);
				fastpath_put_work(one, work);
			}
			simhca_device_stats(world->device[0], before);
			assert_true(simhca_step(&step));
			run_until_idle(world); /* nothing that it could do */
			simhca_device_stats(world->device[0], by_fast_path);
			ring_doorbell(other->a.client, other->a.qp->doorbell);
			run_until_idle(world);
			simhca_device_stats(world->device[0], by_device);
			for (int i = 0; i < SIMHCA_STATS; i++)
				assert_int_equal(by_fast_path[i] - before[i],
						 by_device[i] - by_fast_path[i]);
			assert_int_equal(requester_of(pair->a.qp)->psn_next,
					 requester_of(other->a.qp)->psn_next);
			assert_int_equal(requester_of(pair->a.qp)->oldest,
					 requester_of(other->a.qp)->oldest);
			same_responders(pair->b.qp, other->b.qp);
			fastpath_same_cqes(pair->a.send_cq, other->a.send_cq);
			fastpath_same_cqes(pair->b.recv_cq, other->b.recv_cq);
			assert_true(
				filled((read ? pair->a.mr : pair->b.mr)->addr, bytes, round + 1));
		}
		assert_int_equal(step.fastpath->messages, 3 * work->count);
		for (int i = 0; i < 2; i++) {
			struct simhca_usage_sum one = fastpath_usage(i ? &pair->b : &pair->a);
			struct simhca_usage_sum same = fastpath_usage(i ? &other->b : &other->a);

			assert_memory_equal(&one, &same, sizeof(one));
		}
		check_works(pair); /* the device finds what the fast path has left */
		fastpath_detach(&step);
	}
}

static uint64_t timed(const struct side *side)
{
	uint32_t handle = side->qp->handle;
	struct simhca_qp_info info;
	uint64_t count = 0;

	assert_true(simhca_next_qp(side->client->context, &handle, &info));
	for (int i = 0; i < SIMHCA_LATENCIES; i++)
		count += info.usage.latency[i];
	return count;
}

/* All of the first 64, then about one in 64, which counts for four. */
static void a_sample_is_timed(void **state)
{
	const struct fastpath_work write = {
		"write", SIMHCA_WR_RDMA_WRITE, SIGNALED, 1, 8, 1, false, false
	};
	struct options options = fastpath_options();
	struct pair *pair = fastpath_pair(*state, &options);
	struct simhca_step step = fastpath_attach(&pair->a);

	for (int i = 0; i < 64; i++) {
		fastpath_put_work(pair, &write);
		assert_true(simhca_step(&step));
		expect(pair->a.send_cq, 1000, SUCCESS);
	}
	assert_int_equal(timed(&pair->a), 64);
	for (int i = 0; i < 64 * 400; i++) {
		fastpath_put_work(pair, &write);
		assert_true(simhca_step(&step));
		expect(pair->a.send_cq, 1000, SUCCESS);
	}
	assert_in_range(timed(&pair->a) - 64, 4 * 300, 4 * 500);
	fastpath_detach(&step);
}

/* Sends without a completion are in a row as they were posted, whoever carries those between them. */
static void a_row_without_completions(void **state)
{
	const struct fastpath_work write = {
		.opcode = SIMHCA_WR_RDMA_WRITE, .count = 1, .length = 8, .sges = 1
	};
	struct fastpath_work signaled = write;
	struct options options = fastpath_options();
	struct pair *pair = fastpath_pair(*state, &options);
	struct simhca_step step = fastpath_attach(&pair->a);
	uint32_t handle = pair->a.qp->handle;
	struct simhca_qp_info info;

	signaled.flags = SIGNALED;
	for (int i = 0; i < 3; i++) {
		for (int n = 0; n < 2; n++) {
			fastpath_put_work(pair, &write);
			ring_doorbell(pair->a.client, pair->a.qp->doorbell);
			run_until_idle(*state);
		}
		fastpath_put_work(pair, &signaled);
		assert_true(simhca_step(&step));
		expect(pair->a.send_cq, 1000, SUCCESS);
	}
	assert_true(simhca_next_qp(pair->a.client->context, &handle, &info));
	assert_int_equal(info.most_unsignaled, 2);
	fastpath_detach(&step);
}

static void what_the_device_does_on_rc(void **state)
{
	const struct options options = roomy_options();

	what_the_device_does(*state, &options, false);
}

static void what_the_device_does_beside_atomics(void **state)
{
	const struct options options = roomy_options();

	fastpath_begin_atomics(*state);
	what_the_device_does(*state, &options, true);
}

static void what_the_device_does_on_uc(void **state)
{
	struct options options = roomy_options();

	options.type = IBV_QPT_UC;
	options.sq_sig_all = 1;
	what_the_device_does(*state, &options, false);
}

static void what_the_device_does_with_an_srq(void **state)
{
	struct options options = roomy_options();

	options.srq_wr = 256;
	what_the_device_does(*state, &options, false);
}

/*
 * Writes that go by one system call are those before what is none of them, and what the device is
 * to refuse. That of what is written nothing is left out, or comes before its turn, is told by the
 * bytes: each write is to the same place.
 */
static void a_list_of_writes(void **state)
{
	enum { WRITES = 12 };

	for (unsigned int wrong = 0; wrong < WRITES; wrong++) {
		struct world *world;
		struct simhca_step step;
		struct simhca_sge from;
		struct pair *pair;

		fastpath_setup(state);
		world = *state;
		pair = fastpath_rc_pair(world, false);
		step = fastpath_attach(&pair->a);
		for (unsigned int i = 0; i < WRITES; i++) {
			from = sge(pair->a.mr, i, 1);
			pair->a.mr->addr[i] = (uint8_t)(i + 1);
			qp_put(pair->a.qp, &(struct wr){ .id = i,
							 .opcode = SIMHCA_WR_RDMA_WRITE,
							 .flags = SIGNALED,
							 .sges = &from,
							 .num_sge = 1,
							 .remote_addr = pair->b.mr->iova,
							 .rkey = pair->b.mr->rkey + (i == wrong) });
		}
		assert_false(simhca_step(&step));
		assert_int_equal(step.fastpath->messages, wrong);
		assert_int_equal(step.fastpath->handed[SIMHCA_SLOW_MEMORY], 1);
		assert_int_equal(pair->b.mr->addr[0], wrong);
		ring_doorbell(pair->a.client, pair->a.qp->doorbell);
		for (unsigned int i = 0; i < wrong; i++)
			expect(pair->a.send_cq, i, SUCCESS);
		expect(pair->a.send_cq, wrong, REM_ACCESS_ERR);
		assert_int_equal(pair->b.mr->addr[0], wrong);
		fastpath_detach(&step);
		teardown(state);
	}
}

/* One more read than the responder takes at once: in a list, and by one post after the other. */
static void more_reads_than_the_responder_takes(void **state)
{
	enum { AT_ONCE, ONE_BY_ONE, POLLED, FENCED, LATER, WAYS };

	for (int way = 0; way < WAYS; way++) {
		const uint32_t takes = 2, count = 4;
		struct options options = fastpath_options();
		bool refused = way == AT_ONCE || way == ONE_BY_ONE;
		struct simhca_step step;
		struct pair *pair;

		fastpath_setup(state);
		options.max_rd_atomic = 4;
		options.max_dest_rd_atomic = (uint8_t)takes;
		pair = fastpath_pair(*state, &options);
		step = fastpath_attach(&pair->a);
		step.reads.most_ns = way == LATER ? 100000 : 60 * SEC;
		for (uint32_t i = 0; i < count; i++) {
			struct simhca_sge to = sge(pair->a.mr, 0, 100);

			qp_put(pair->a.qp,
			       &(struct wr){ .id = i,
					     .opcode = SIMHCA_WR_RDMA_READ,
					     .flags = SIGNALED |
						      (way == FENCED ? SIMHCA_WQE_FENCE : 0),
					     .sges = &to,
					     .num_sge = 1,
					     .remote_addr = pair->b.mr->iova,
					     .rkey = pair->b.mr->rkey });
			if (way == LATER)
				test_nap(1000);
			if (way != AT_ONCE)
				assert_true(simhca_step(&step) || (refused && i >= takes));
			if (way == POLLED)
				expect(pair->a.send_cq, i, SUCCESS);
		}
		if (way == AT_ONCE)
			assert_false(simhca_step(&step));
		ring_doorbell(pair->a.client, pair->a.qp->doorbell);
		for (uint32_t i = 0; way != POLLED && i < (refused ? takes : count); i++)
			expect(pair->a.send_cq, i, SUCCESS);
		if (refused)
			expect_why(pair->a.send_cq, takes, REM_INV_REQ_ERR, RD_ATOMIC_EXCEEDED);
		assert_int_equal(step.fastpath->messages, way == AT_ONCE ? 0
							  : refused	 ? takes
									 : count);
		fastpath_detach(&step);
		teardown(state);
	}
}

/* Whether it came back from the step before it ended. */
static void *cancelled_in_step(void *arg)
{
	struct simhca_step *step = arg;

	pthread_cancel(pthread_self());
	simhca_step(step);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	return step;
}

/* It ends after the step: none of the system calls in it is a cancellation point. */
static void a_thread_that_is_cancelled(void **state)
{
	const struct options options = roomy_options();
	struct pair *pair = fastpath_pair(*state, &options);
	struct simhca_step step;
	int ends[2];

	fastpath_begin_atomics(*state);
	step = fastpath_attach(&pair->a);
	fastpath_open_channel(&step.peer.recv_notify, pair->b.recv_cq, ends);
	for (size_t w = 0; w < ARRAY_SIZE(works); w++) {
		struct simhca_cqe cqe;
		pthread_t thread;
		void *came_back;

		fastpath_put_work(pair, &works[w]);
		cq_arm(pair->b.recv_cq, SIMHCA_ARM_NEXT);
		assert_int_equal(pthread_create(&thread, NULL, cancelled_in_step, &step), 0);
		pthread_join(thread, &came_back);
		assert_ptr_equal(came_back, &step);
		while (cq_poll(pair->a.send_cq, &cqe) || cq_poll(pair->b.recv_cq, &cqe))
			assert_int_equal(cqe.status, IBV_WC_SUCCESS);
	}
	assert_int_equal(atomic_load(&step.fastpath->messages), messages_of_works());
	fastpath_close_channel(ends);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		HERE(what_the_device_does_on_rc),
		HERE(what_the_device_does_on_uc),
		HERE(what_the_device_does_beside_atomics),
		HERE(what_the_device_does_with_an_srq),
		HERE(a_sample_is_timed),
		HERE(a_row_without_completions),
		cmocka_unit_test(a_list_of_writes),
		cmocka_unit_test(more_reads_than_the_responder_takes),
		HERE(a_thread_that_is_cancelled),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
