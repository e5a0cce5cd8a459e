/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Reliable messages over a link that loses, doubles, delays and reorders packets: random ones of
 * every opcode arrive whole, in order and once, and their answers are true. What must come out is
 * worked out at each post, for requests are carried out in the order of posting.
 *
 * SIMHCA_TEST_MESSAGES and SIMHCA_TEST_SEED say how many, and which.
 */
#include "lossy.h"

#define SLOTS 16	 /* messages under way */
#define SLOT_BYTES 16384 /* of each, in the requester's buffer */
#define COUNTERS 8
#define WRITES_AT 4096 /* in the responder's buffer, after the counters */
#define WRITES_BYTES 65536
#define READS_AT (WRITES_AT + WRITES_BYTES) /* written with a fence only */
#define READS_BYTES 65536
#define RECVS_AT (READS_AT + READS_BYTES)

/* A message under way, and what it is to bring about. */
struct message {
	uint8_t opcode;
	uint64_t id;
	uint32_t length, seed;
	uint64_t old;		  /* of an atomic */
	uint8_t data[SLOT_BYTES]; /* of a read */
};

/* A receive that a message uses. */
struct receive {
	uint32_t length, seed, imm;
	bool has_imm, is_write;
};

struct run {
	struct world *world;
	struct pair *pair;
	uint64_t seed;
	uint8_t *shadow; /* the responder's buffer, as it is when all that was posted is done */
	struct message message[SLOTS];
	uint64_t posted, completed;
	struct receive receive[256];
	uint64_t expected, posted_recvs, received; /* receives */
};

static uint32_t upto(struct run *run, uint32_t most)
{
	return test_random(&run->seed) % (most + 1);
}

static uint64_t number(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 0) : otherwise;
}

/* Mostly small, at times several packets, seldom many. */
static uint32_t some_length(struct run *run)
{
	switch (upto(run, 9)) {
	case 0:
		return 0;
	case 1:
		return upto(run, SLOT_BYTES);
	case 2:
	case 3:
		return upto(run, 4096);
	default:
		return upto(run, 300);
	}
}

static void post_one(struct run *run)
{
	static const uint8_t opcodes[] = {
		SIMHCA_WR_SEND,
		SIMHCA_WR_SEND_WITH_IMM,
		SIMHCA_WR_RDMA_WRITE,
		SIMHCA_WR_RDMA_WRITE,
		SIMHCA_WR_RDMA_WRITE_WITH_IMM,
		SIMHCA_WR_RDMA_READ,
		SIMHCA_WR_RDMA_READ,
		SIMHCA_WR_ATOMIC_CMP_AND_SWP,
		SIMHCA_WR_ATOMIC_FETCH_AND_ADD,
		SIMHCA_WR_ATOMIC_WRITE,
	};
	struct side *a = &run->pair->a, *b = &run->pair->b;
	uint32_t slot = (uint32_t)(run->posted % SLOTS), place;
	struct message *message = &run->message[slot];
	struct receive *receive = &run->receive[run->expected % ARRAY_SIZE(run->receive)];
	uint8_t *ours = a->mr->addr + (size_t)slot * SLOT_BYTES;
	uint64_t counter = upto(run, COUNTERS - 1) * 8, *value;
	struct wr wr = { .id = run->posted, .rkey = b->mr->rkey, .flags = SIMHCA_WQE_SIGNALED };
	struct simhca_sge one;

	message->id = run->posted++;
	message->opcode = wr.opcode = opcodes[upto(run, ARRAY_SIZE(opcodes) - 1)];
	message->length = some_length(run);
	message->seed = test_random(&run->seed);
	if (!upto(run, 20))
		wr.flags |= SIMHCA_WQE_FENCE;
	fill(ours, SLOT_BYTES, message->seed);
	wr.imm = message->seed;
	*receive = (struct receive){ .length = message->length, .seed = message->seed };
	value = (uint64_t *)(run->shadow + counter);
	switch (wr.opcode) {
	case SIMHCA_WR_SEND_WITH_IMM:
	case SIMHCA_WR_SEND:
		receive->has_imm = wr.opcode == SIMHCA_WR_SEND_WITH_IMM;
		receive->imm = wr.imm;
		run->expected++;
		break;
	case SIMHCA_WR_RDMA_WRITE_WITH_IMM:
		receive->has_imm = receive->is_write = true;
		receive->imm = wr.imm;
		run->expected++;
		/* fall through */
	case SIMHCA_WR_RDMA_WRITE:
		if (upto(run, 3)) {
			place = WRITES_AT + upto(run, WRITES_BYTES - message->length);
		} else {
			/* A read that is done again reads again: none may be under way. */
			place = READS_AT + upto(run, READS_BYTES - message->length);
			wr.flags |= SIMHCA_WQE_FENCE;
		}
		wr.remote_addr = b->mr->iova + place;
		memcpy(run->shadow + place, ours, message->length);
		break;
	case SIMHCA_WR_RDMA_READ:
		place = READS_AT + upto(run, READS_BYTES - message->length);
		wr.remote_addr = b->mr->iova + place;
		memcpy(message->data, run->shadow + place, message->length);
		break;
	default:
		message->length = 8;
		wr.remote_addr = b->mr->iova + counter;
		message->old = *value;
		wr.compare_add = upto(run, 1) ? *value : message->seed;
		wr.swap = message->seed;
		if (wr.opcode == SIMHCA_WR_ATOMIC_FETCH_AND_ADD)
			*value += wr.compare_add;
		else if (wr.opcode == SIMHCA_WR_ATOMIC_WRITE)
			memcpy(value, ours, 8);
		else if (*value == wr.compare_add)
			*value = wr.swap;
	}
	one = sge(a->mr, (uint64_t)slot * SLOT_BYTES, message->length);
	wr.sges = &one;
	wr.num_sge = 1;
	qp_post(a->qp, &wr);
}

static void check_completed(struct run *run)
{
	struct simhca_cqe cqe;

	while (cq_poll(run->pair->a.send_cq, &cqe)) {
		uint32_t slot = (uint32_t)(run->completed % SLOTS);
		const struct message *message = &run->message[slot];
		const uint8_t *ours = run->pair->a.mr->addr + (size_t)slot * SLOT_BYTES;

		if (cqe.status || cqe.wr_id != message->id)
			fail_msg("message %llu: %s (%s)", (unsigned long long)cqe.wr_id,
				 ibv_wc_status_str(cqe.status), simhca_reason_text(cqe.vendor_err));
		if (message->opcode == SIMHCA_WR_RDMA_READ)
			assert_memory_equal(ours, message->data, message->length);
		if (message->opcode == SIMHCA_WR_ATOMIC_CMP_AND_SWP ||
		    message->opcode == SIMHCA_WR_ATOMIC_FETCH_AND_ADD)
			assert_int_equal(*(const uint64_t *)ours, message->old);
		run->completed++;
	}
}

static void check_received(struct run *run)
{
	struct simhca_cqe cqe;

	while (cq_poll(run->pair->b.recv_cq, &cqe)) {
		const struct receive *receive =
			&run->receive[run->received % ARRAY_SIZE(run->receive)];
		const uint8_t *data = run->pair->b.mr->addr + RECVS_AT +
				      (size_t)(run->received % SLOTS) * SLOT_BYTES;

		assert_int_equal(cqe.status, 0);
		assert_int_equal(cqe.wr_id, run->received);
		assert_int_equal(cqe.byte_len, receive->length);
		assert_int_equal(!!(cqe.flags & SIMHCA_CQE_IMM), receive->has_imm);
		if (receive->has_imm)
			assert_int_equal(cqe.imm_or_rkey, receive->imm);
		if (!receive->is_write)
			assert_true(filled(data, receive->length, receive->seed));
		run->received++;
	}
}

static void random_messages(struct world *world, struct options options, struct lossy *how,
			    uint64_t messages)
{
	struct run *run = world_alloc(world, sizeof(*run));
	uint64_t idle = 0;

	run->world = world;
	run->seed = how->seed;
	print_message("seed 0x%llx, %llu messages\n", (unsigned long long)how->seed,
		      (unsigned long long)messages);
	lossy_use(world, how);
	options.buffer = RECVS_AT + SLOTS * SLOT_BYTES;
	options.path_mtu = IBV_MTU_256 + upto(run, 2);
	options.psn = 0xfffff0; /* it wraps soon */
	options.timeout = 8;	/* 1 ms */
	options.retry_cnt = options.rnr_retry = 7;
	options.min_rnr_timer = 1;
	run->shadow = world_alloc(world, options.buffer);
	run->pair = pair_new(world, &options);
	while (run->completed < messages) {
		uint64_t before = run->completed + run->received;

		while (run->posted < messages && run->posted - run->completed < SLOTS &&
		       upto(run, 3))
			post_one(run);
		/* A receiver that lags now and then. */
		while (run->posted_recvs - run->received < SLOTS && upto(run, 2)) {
			recv_into(&run->pair->b, run->posted_recvs,
				  RECVS_AT + (run->posted_recvs % SLOTS) * SLOT_BYTES, SLOT_BYTES);
			run->posted_recvs++;
		}
		for (uint32_t polls = upto(run, 8); polls--;)
			world_poll(world);
		check_completed(run);
		check_received(run);
		world->now += 20 * USEC;
		idle = run->completed + run->received == before ? idle + 1 : 0;
		assert_true(idle < 100000);
	}
	settle(world);
	check_received(run);
	assert_int_equal(run->received, run->expected);
	assert_memory_equal(run->pair->b.mr->addr, run->shadow, RECVS_AT);
	assert_int_equal(run->pair->b.qp->state->msn, messages & 0xffffff);
	print_message("%lu packets: %lu lost, %lu twice, %lu late\n", how->sent, how->has_lost,
		      how->has_doubled, how->has_delayed);
}

static void nothing_is_lost(void **state)
{
	struct lossy how = { .seed = number("SIMHCA_TEST_SEED", 1) };

	random_messages(*state, default_options(IBV_QPT_RC), &how, 3000);
}

static void packets_are_lost(void **state)
{
	struct lossy how = { .seed = number("SIMHCA_TEST_SEED", 2), .lost = 50 };

	random_messages(*state, default_options(IBV_QPT_RC), &how, 3000);
}

static void packets_come_twice(void **state)
{
	struct lossy how = { .seed = number("SIMHCA_TEST_SEED", 3), .twice = 50 };

	random_messages(*state, default_options(IBV_QPT_RC), &how, 3000);
}

static void packets_come_late(void **state)
{
	struct lossy how = { .seed = number("SIMHCA_TEST_SEED", 4), .late = 50 };

	random_messages(*state, default_options(IBV_QPT_RC), &how, 3000);
}

static void everything_goes_wrong(void **state)
{
	struct lossy how = { .seed = number("SIMHCA_TEST_SEED", (uint64_t)getpid() << 20 | 5),
			     .lost = 50,
			     .twice = 50,
			     .late = 50 };

	random_messages(*state, default_options(IBV_QPT_RC), &how,
			number("SIMHCA_TEST_MESSAGES", getenv("SIMHCA_SOAK") ? 1000000 : 100000));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_ETHERNET(nothing_is_lost),	    ON_ETHERNET(packets_are_lost),
		ON_ETHERNET(packets_come_twice),    ON_ETHERNET(packets_come_late),
		ON_ETHERNET(everything_goes_wrong),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
