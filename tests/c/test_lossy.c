/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Reliable messages over a link that loses, doubles, delays and reorders packets: random ones of
 * every opcode, on RC and XRC, arrive whole, in order and once, and their answers are true. What
 * must come out is worked out at each post, for requests are carried out in the order of posting.
 *
 * SIMHCA_TEST_MESSAGES and SIMHCA_TEST_SEED say how many, and which.
 */
#include "lossy.h"
#include "xrc_scene.h"

#define SLOTS 16	 /* messages under way */
#define SLOT_BYTES 16384 /* of each, in the requester's buffer */
#define COUNTERS 8
#define WRITES_AT 4096 /* in a target's buffer, after the counters */
#define WRITES_BYTES 65536
#define READS_AT (WRITES_AT + WRITES_BYTES) /* written with a fence only */
#define READS_BYTES 65536
#define RECVS_AT (READS_AT + READS_BYTES)
#define BUFFER (RECVS_AT + SLOTS * SLOT_BYTES)
#define PAGES (RECVS_AT / 4096) /* those that a fast-register region covers */
#define KEYS 4

#define ROUND (20 * USEC)
/* Without progress: a time-out ends after a second at most, and what is sent then may be lost, too. */
#define LONGEST_IDLE (10 * 1000 * MSEC)

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
	uint32_t length, seed, imm, key;
	bool has_imm, has_inv, is_write;
};

/* Fast-register regions over pages that are always the same. */
struct fast_mrs {
	struct qp *qp; /* that registers them */
	struct cq *cq;
	uint64_t page[PAGES];
	struct mr *mr[KEYS];
	enum { VOID, REGISTERING, VALID, GIVEN_UP } state[KEYS];
};

/* Whom messages are for: the one side of RC, or an SRQ of XRC. */
struct target {
	struct client *client;
	struct mr *mr;
	struct fast_mrs fast;
	struct cq *cq;
	struct qp *qp;	 /* takes the receives, or */
	struct srq *srq; /* XRC */
	uint8_t *shadow; /* its buffer, as it is when all that was posted is done */
	struct receive receive[256];
	uint64_t expected, posted, received; /* receives */
};

struct run {
	struct world *world;
	uint64_t seed;
	struct qp *qp; /* of the requester */
	struct cq *cq;
	struct mr *mr;
	struct mr *own; /* a fast-register region of its own */
	struct mw *mw;
	uint64_t page;
	bool own_is_valid; /* when all that was posted is done */
	struct target target[2];
	unsigned int targets;
	struct message message[SLOTS];
	uint64_t posted, completed, sent;
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

static uint8_t *page_aligned(struct world *world, size_t bytes)
{
	uintptr_t at = (uintptr_t)world_alloc(world, bytes + 4096);

	return (uint8_t *)((at + 4095) & ~(uintptr_t)4095);
}

/* ---------------------------------------------------------------- keys that come and go */

/* A QP that talks to itself: local operations need no more. */
static void fast_mrs_make(struct fast_mrs *fast, struct client *client, uint8_t *memory)
{
	struct options options = default_options(IBV_QPT_RC);

	fast->cq = cq_new(client, 64);
	fast->qp = qp_new(client, &options, fast->cq, fast->cq, NULL);
	qp_connect(fast->qp, client->device_index, fast->qp->qpn, &options);
	for (uint32_t i = 0; i < PAGES; i++)
		fast->page[i] = (uintptr_t)memory + i * 4096;
	for (uint32_t i = 0; i < KEYS; i++)
		fast->mr[i] = fast_mr_new(client, client->pd, PAGES);
}

static void register_again(struct fast_mrs *fast)
{
	struct simhca_cqe cqe;

	for (uint32_t i = 0; i < KEYS; i++) {
		if (fast->state[i] != VOID)
			continue;
		qp_fast_reg(fast->qp, i, fast->mr[i], fast->page, PAGES, fast->page[0], RECVS_AT,
			    ALL_ACCESS);
		fast->state[i] = REGISTERING;
	}
	while (cq_poll(fast->cq, &cqe)) {
		assert_int_equal(cqe.status, 0);
		fast->state[cqe.wr_id] = VALID;
	}
}

/* The target's memory by a key of it that will still be there. */
static uint32_t some_rkey(struct run *run, const struct target *target)
{
	uint32_t i = upto(run, KEYS);

	return i < KEYS && target->fast.state[i] == VALID ? target->fast.mr[i]->rkey
							  : target->mr->rkey;
}

/* One that a message takes back; false: there is none now. */
static bool give_up_key(struct run *run, struct target *target, uint32_t *key)
{
	uint32_t i = upto(run, KEYS - 1);

	if (target->fast.state[i] != VALID)
		return false;
	target->fast.state[i] = GIVEN_UP;
	*key = target->fast.mr[i]->rkey;
	return true;
}

static void was_taken_back(struct target *target, uint32_t key)
{
	for (uint32_t i = 0; i < KEYS; i++) {
		if (target->fast.mr[i]->rkey != key)
			continue;
		assert_int_equal(target->fast.state[i], GIVEN_UP);
		target->fast.state[i] = VOID;
	}
}

/* ------------------------------------------------------------------------ what is posted */

/* What changes a key of the requester's; after it its region has one, or it has not. */
static bool make_local(struct run *run, struct wr *wr)
{
	switch (wr->opcode) {
	case SIMHCA_WR_FAST_REG:
	case SIMHCA_WR_LOCAL_INV:
		if (run->own_is_valid) {
			wr->opcode = SIMHCA_WR_LOCAL_INV;
			wr->imm = run->own->lkey;
		} else {
			wr->opcode = SIMHCA_WR_FAST_REG;
			wr->addr = run->page;
			wr->length = 4096;
			wr->pages = &run->page;
			wr->num_pages = 1;
			wr->page_shift = 12;
			wr->access = ALL_ACCESS;
			wr->key = simhca_key_next(run->own->lkey);
			run->own->lkey = wr->key;
		}
		run->own_is_valid = !run->own_is_valid;
		return true;
	case SIMHCA_WR_BIND_MW:
		wr->addr = run->mr->iova;
		wr->length = 4096;
		wr->mw = run->mw->rkey;
		wr->mw_type = run->mw->type;
		wr->lkey = run->mr->lkey;
		wr->access = SIMHCA_ACCESS_REMOTE_READ;
		wr->key = simhca_key_next(run->mw->rkey);
		run->mw->rkey = wr->key;
		return true;
	default:
		return false;
	}
}

static void post_one(struct run *run)
{
	static const uint8_t opcodes[] = {
		SIMHCA_WR_SEND,
		SIMHCA_WR_SEND_WITH_IMM,
		SIMHCA_WR_SEND_WITH_INV,
		SIMHCA_WR_RDMA_WRITE,
		SIMHCA_WR_RDMA_WRITE,
		SIMHCA_WR_RDMA_WRITE_WITH_IMM,
		SIMHCA_WR_RDMA_READ,
		SIMHCA_WR_RDMA_READ,
		SIMHCA_WR_RDMA_READ_WITH_INV,
		SIMHCA_WR_ATOMIC_CMP_AND_SWP,
		SIMHCA_WR_ATOMIC_FETCH_AND_ADD,
		SIMHCA_WR_ATOMIC_WRITE,
		SIMHCA_WR_FLUSH,
		SIMHCA_WR_FAST_REG,
		SIMHCA_WR_LOCAL_INV,
		SIMHCA_WR_BIND_MW,
	};
	struct target *target = &run->target[upto(run, run->targets - 1)];
	uint32_t slot = (uint32_t)(run->posted % SLOTS), place;
	struct message *message = &run->message[slot];
	struct receive *receive = &target->receive[target->expected % ARRAY_SIZE(target->receive)];
	uint8_t *ours = run->mr->addr + (size_t)slot * SLOT_BYTES;
	uint64_t counter = upto(run, COUNTERS - 1) * 8, *value;
	struct wr wr = {
		.id = run->posted,
		.flags = SIMHCA_WQE_SIGNALED,
		.srqn = target->srq ? target->srq->srqn : 0,
	};
	struct simhca_sge one;

	message->id = run->posted++;
	wr.opcode = opcodes[upto(run, ARRAY_SIZE(opcodes) - 1)];
	message->length = some_length(run);
	message->seed = test_random(&run->seed);
	if (!upto(run, 20))
		wr.flags |= SIMHCA_WQE_FENCE;
	if (wr.opcode == SIMHCA_WR_RDMA_READ_WITH_INV && !run->own_is_valid)
		wr.opcode = SIMHCA_WR_FAST_REG;
	if (make_local(run, &wr)) {
		message->opcode = wr.opcode;
		qp_post(run->qp, &wr);
		return;
	}
	run->sent++;
	fill(ours, SLOT_BYTES, message->seed);
	wr.imm = message->seed;
	wr.rkey = some_rkey(run, target);
	*receive = (struct receive){ .length = message->length, .seed = message->seed };
	value = (uint64_t *)(target->shadow + counter);
	switch (wr.opcode) {
	case SIMHCA_WR_SEND_WITH_INV:
		receive->has_inv = give_up_key(run, target, &receive->key);
		wr.imm = receive->key;
		wr.flags |= SIMHCA_WQE_FENCE; /* reads by this key may be under way */
		if (!receive->has_inv)
			wr.opcode = SIMHCA_WR_SEND;
		target->expected++;
		break;
	case SIMHCA_WR_SEND_WITH_IMM:
	case SIMHCA_WR_SEND:
		receive->has_imm = wr.opcode == SIMHCA_WR_SEND_WITH_IMM;
		receive->imm = wr.imm;
		target->expected++;
		break;
	case SIMHCA_WR_RDMA_WRITE_WITH_IMM:
		receive->has_imm = receive->is_write = true;
		receive->imm = wr.imm;
		target->expected++;
		/* fall through */
	case SIMHCA_WR_RDMA_WRITE:
		if (upto(run, 3)) {
			place = WRITES_AT + upto(run, WRITES_BYTES - message->length);
		} else {
			/* A read that is done again reads again: none may be under way. */
			place = READS_AT + upto(run, READS_BYTES - message->length);
			wr.flags |= SIMHCA_WQE_FENCE;
		}
		wr.remote_addr = target->mr->iova + place;
		memcpy(target->shadow + place, ours, message->length);
		break;
	case SIMHCA_WR_RDMA_READ_WITH_INV:
		wr.imm = run->own->lkey;
		run->own_is_valid = false;
		/* fall through */
	case SIMHCA_WR_RDMA_READ:
		place = READS_AT + upto(run, READS_BYTES - message->length);
		wr.remote_addr = target->mr->iova + place;
		memcpy(message->data, target->shadow + place, message->length);
		break;
	case SIMHCA_WR_FLUSH:
		wr.rkey = target->mr->rkey;
		wr.remote_addr = target->mr->iova;
		wr.length = upto(run, BUFFER);
		wr.placement = SIMHCA_FLUSH_GLOBAL;
		wr.selectivity = upto(run, 1) ? SIMHCA_FLUSH_MR : SIMHCA_FLUSH_RANGE;
		break;
	default:
		message->length = 8;
		wr.remote_addr = target->mr->iova + counter;
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
	message->opcode = wr.opcode;
	if (wr.opcode != SIMHCA_WR_FLUSH) {
		one = sge(run->mr, (uint64_t)slot * SLOT_BYTES, message->length);
		wr.sges = &one;
		wr.num_sge = 1;
	}
	qp_post(run->qp, &wr);
}

static void post_recv_to(struct target *target)
{
	struct simhca_sge one =
		sge(target->mr, RECVS_AT + (target->posted % SLOTS) * SLOT_BYTES, SLOT_BYTES);

	if (target->srq)
		srq_recv(target->srq, target->posted, &one, 1);
	else
		qp_recv(target->qp, target->posted, &one, 1);
	target->posted++;
}

/* ---------------------------------------------------------------------- what comes of it */

static void check_completed(struct run *run)
{
	struct simhca_cqe cqe;

	while (cq_poll(run->cq, &cqe)) {
		uint32_t slot = (uint32_t)(run->completed % SLOTS);
		const struct message *message = &run->message[slot];
		const uint8_t *ours = run->mr->addr + (size_t)slot * SLOT_BYTES;

		if (cqe.status || cqe.wr_id != message->id)
			fail_msg("message %llu, opcode %u: %s (%s)", (unsigned long long)cqe.wr_id,
				 message->opcode, ibv_wc_status_str(cqe.status),
				 simhca_reason_text(cqe.vendor_err));
		if (message->opcode == SIMHCA_WR_RDMA_READ ||
		    message->opcode == SIMHCA_WR_RDMA_READ_WITH_INV)
			assert_memory_equal(ours, message->data, message->length);
		if (message->opcode == SIMHCA_WR_ATOMIC_CMP_AND_SWP ||
		    message->opcode == SIMHCA_WR_ATOMIC_FETCH_AND_ADD)
			assert_int_equal(*(const uint64_t *)ours, message->old);
		run->completed++;
	}
}

static void check_received(struct target *target)
{
	struct simhca_cqe cqe;

	while (cq_poll(target->cq, &cqe)) {
		const struct receive *receive =
			&target->receive[target->received % ARRAY_SIZE(target->receive)];
		const uint8_t *data = target->mr->addr + RECVS_AT +
				      (size_t)(target->received % SLOTS) * SLOT_BYTES;

		assert_int_equal(cqe.status, 0);
		assert_int_equal(cqe.wr_id, target->received);
		assert_int_equal(cqe.byte_len, receive->length);
		assert_int_equal(!!(cqe.flags & SIMHCA_CQE_IMM), receive->has_imm);
		assert_int_equal(!!(cqe.flags & SIMHCA_CQE_INV), receive->has_inv);
		if (receive->has_imm)
			assert_int_equal(cqe.imm_or_rkey, receive->imm);
		if (receive->has_inv) {
			assert_int_equal(cqe.imm_or_rkey, receive->key);
			was_taken_back(target, receive->key);
		}
		if (!receive->is_write)
			assert_true(filled(data, receive->length, receive->seed));
		target->received++;
	}
}

static uint64_t received(const struct run *run)
{
	return run->target[0].received + run->target[1].received;
}

/* ------------------------------------------------------------------------------ the runs */

static void target_make(struct run *run, struct client *client, struct cq *cq, struct qp *qp,
			struct srq *srq)
{
	struct target *target = &run->target[run->targets++];
	uint8_t *memory = page_aligned(run->world, BUFFER);

	target->client = client;
	target->cq = cq;
	target->qp = qp;
	target->srq = srq;
	target->mr = mr_over(client, client->pd, memory, BUFFER, (uintptr_t)memory,
			     ALL_ACCESS | SIMHCA_ACCESS_FLUSH_GLOBAL);
	target->shadow = world_alloc(run->world, BUFFER);
	fast_mrs_make(&target->fast, client, memory);
}

static void requester_make(struct run *run, struct client *client, struct cq *cq, struct qp *qp)
{
	run->cq = cq;
	run->qp = qp;
	run->mr = mr_new(client, SLOTS * SLOT_BYTES, ALL_ACCESS | SIMHCA_ACCESS_MW_BIND);
	run->page = (uintptr_t)page_aligned(run->world, 4096);
	run->own = fast_mr_new(client, client->pd, 1);
	run->mw = mw_new(client, client->pd, SIMHCA_MW_TYPE_1);
}

static void ends_make(struct run *run, const struct options *options)
{
	struct scene *scene;
	struct pair *pair;

	if (options->type == IBV_QPT_RC) {
		pair = pair_new(run->world, options);
		requester_make(run, pair->a.client, pair->a.send_cq, pair->a.qp);
		target_make(run, pair->b.client, pair->b.recv_cq, pair->b.qp, NULL);
		return;
	}
	scene = make_with(run->world, options);
	requester_make(run, scene->client, scene->cq, scene->qp);
	for (int i = 0; i < 2; i++)
		target_make(run, scene->server[i].client, scene->server[i].cq, NULL,
			    scene->server[i].srq);
}

/* On a wire a long read is several requests, each of which counts. */
static void check_msn(const struct world *world, uint32_t msn, uint64_t messages)
{
	if (!world_has_wire(world))
		assert_int_equal(msn, messages & 0xffffff);
}

static void random_messages(struct world *world, enum ibv_qp_type type, struct lossy *how,
			    uint64_t messages)
{
	struct run *run = world_alloc(world, sizeof(*run));
	struct options options = default_options(type);
	uint64_t idle = 0;

	run->world = world;
	run->seed = how->seed;
	print_message("seed 0x%llx, %llu messages\n", (unsigned long long)how->seed,
		      (unsigned long long)messages);
	lossy_use(world, how);
	options.access |= SIMHCA_ACCESS_FLUSH_GLOBAL;
	options.path_mtu = IBV_MTU_256 + upto(run, 2);
	options.psn = 0xfffff0; /* it wraps soon */
	options.timeout = 8;	/* 1 ms */
	options.retry_cnt = options.rnr_retry = 7;
	options.min_rnr_timer = 1;
	ends_make(run, &options);
	while (run->completed < messages) {
		uint64_t before = run->completed + received(run);

		for (unsigned int i = 0; i < run->targets; i++)
			register_again(&run->target[i].fast);
		while (run->posted < messages && run->posted - run->completed < SLOTS &&
		       upto(run, 3))
			post_one(run);
		/* A receiver that lags now and then. */
		for (unsigned int i = 0; i < run->targets; i++)
			while (run->target[i].posted - run->target[i].received < SLOTS &&
			       upto(run, 2))
				post_recv_to(&run->target[i]);
		for (uint32_t polls = upto(run, 8); polls--;)
			world_poll(world);
		check_completed(run);
		for (unsigned int i = 0; i < run->targets; i++)
			check_received(&run->target[i]);
		world->now += ROUND;
		idle = run->completed + received(run) == before ? idle + 1 : 0;
		assert_true(idle < LONGEST_IDLE / ROUND);
	}
	run_until_idle(world);
	for (unsigned int i = 0; i < run->targets; i++) {
		struct target *target = &run->target[i];

		check_received(target);
		assert_int_equal(target->received, target->expected);
		assert_memory_equal(target->mr->addr, target->shadow, RECVS_AT);
		if (target->qp)
			check_msn(world, responder_of(target->qp)->msn, run->sent);
	}
	print_message("%lu packets: %lu lost, %lu twice, %lu late\n", how->sent, how->has_lost,
		      how->has_doubled, how->has_delayed);
}

static void nothing_is_lost(void **state)
{
	struct lossy how = { .seed = number("SIMHCA_TEST_SEED", 1) };

	random_messages(*state, IBV_QPT_RC, &how, 3000);
}

static void packets_are_lost(void **state)
{
	struct lossy how = { .seed = number("SIMHCA_TEST_SEED", 2), .lost = 50 };

	random_messages(*state, IBV_QPT_RC, &how, 3000);
}

static void packets_come_twice(void **state)
{
	struct lossy how = { .seed = number("SIMHCA_TEST_SEED", 3), .twice = 50 };

	random_messages(*state, IBV_QPT_RC, &how, 3000);
}

static void packets_come_late(void **state)
{
	struct lossy how = { .seed = number("SIMHCA_TEST_SEED", 4), .late = 50 };

	random_messages(*state, IBV_QPT_RC, &how, 3000);
}

static void everything_goes_wrong(struct world *world, enum ibv_qp_type type, uint64_t messages)
{
	struct lossy how = { .seed = number("SIMHCA_TEST_SEED", (uint64_t)getpid() << 20 | 5),
			     .lost = 50,
			     .twice = 50,
			     .late = 50 };

	if (UNDER_ASAN) /* which sees the same code in fewer; the release build has all */
		messages /= 5;
	random_messages(world, type, &how,
			number("SIMHCA_TEST_MESSAGES",
			       getenv("SIMHCA_SOAK") ? 10 * messages : messages));
}

static void everything_goes_wrong_on_rc(void **state)
{
	everything_goes_wrong(*state, IBV_QPT_RC, 50000);
}

static void everything_goes_wrong_on_xrc(void **state)
{
	everything_goes_wrong(*state, IBV_QPT_XRC_RECV, 20000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_ETHERNET(nothing_is_lost),
		ON_ETHERNET(packets_are_lost),
		ON_ETHERNET(packets_come_twice),
		ON_ETHERNET(packets_come_late),
		ON_ETHERNET(everything_goes_wrong_on_rc),
		ON_ETHERNET(everything_goes_wrong_on_xrc),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
