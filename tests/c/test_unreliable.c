/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * UC and UD over a link that loses, doubles, delays and reorders packets: what arrives is whole,
 * and it comes in order and once, unless the link has changed just that. Where packets are only
 * lost, exactly those messages are missing of which one was.
 *
 * SIMHCA_TEST_MESSAGES and SIMHCA_TEST_SEED say how many, and which.
 */
#include "lossy.h"
#include "packet/packet.h"
#include "queue/psn.h"

#define BATCH 16 /* messages; before the next ones nothing is under way any more */
#define SLOT_BYTES 16384
#define RECVS (2 * BATCH) /* all of a batch may come twice */
#define WRITES_AT 4096	  /* in the receiver's buffer */
#define RECVS_AT (WRITES_AT + BATCH * SLOT_BYTES)
#define BUFFER (RECVS_AT + RECVS * (SLOT_BYTES + SIMHCA_GRH_BYTES))
#define SHORTEST 4 /* bytes: a message begins with its number */

struct message {
	uint8_t opcode;
	uint32_t length, seed, key;
	uint32_t first, psns;
	bool lost, twice, late; /* one of its packets */
	unsigned int copies;	/* of its last packet that arrived */
	unsigned int received;
};

struct run {
	struct world *world;
	struct pair *pair;
	struct lossy *how;
	uint64_t seed;
	bool ud;
	uint32_t mtu, psn; /* the next message's */
	struct message message[BATCH];
	uint32_t count;	 /* of messages in this batch */
	uint32_t number; /* of the first */
	struct mr *key;	 /* a fast-register region of the receiver's */
	uint64_t page;
	bool has_key;
	uint32_t posted_recvs, used_recvs;
	uint64_t arrived;
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

static void what_became_of_it(void *arg, const struct simhca_packet *packet, unsigned int copies,
			      bool late)
{
	struct run *run = arg;

	for (uint32_t i = 0; i < run->count; i++) {
		struct message *message = &run->message[i];
		uint32_t place = (packet->psn - message->first) & SIMHCA_PSN_MASK;

		if (place >= message->psns)
			continue;
		message->lost |= !copies;
		message->twice |= copies == 2;
		message->late |= late;
		if (packet->last)
			message->copies = copies;
		return;
	}
	fail_msg("PSN 0x%x is of no message", packet->psn);
}

static uint32_t some_length(struct run *run)
{
	uint32_t most = run->ud ? run->mtu : SLOT_BYTES;

	return SHORTEST + upto(run, upto(run, 1) ? 300 - SHORTEST : most - SHORTEST);
}

/* The first packets of one may be there, so each has a place of its own. */
static uint64_t write_place(uint32_t slot)
{
	return WRITES_AT + (uint64_t)slot * SLOT_BYTES;
}

static void fill_message(uint8_t *at, const struct message *message, uint32_t id)
{
	fill(at, message->length, message->seed);
	memcpy(at, &id, SHORTEST);
}

static void post_one(struct run *run)
{
	static const uint8_t opcodes[] = { SIMHCA_WR_SEND, SIMHCA_WR_SEND_WITH_IMM,
					   SIMHCA_WR_SEND_WITH_INV, SIMHCA_WR_RDMA_WRITE,
					   SIMHCA_WR_RDMA_WRITE_WITH_IMM };
	struct side *a = &run->pair->a, *b = &run->pair->b;
	uint32_t slot = run->count++;
	struct message *message = &run->message[slot];
	struct simhca_sge one;
	struct wr wr = {
		.id = slot,
		.flags = SIMHCA_WQE_SIGNALED,
		.rkey = b->mr->rkey,
		.remote_addr = b->mr->iova + write_place(slot),
	};

	*message = (struct message){
		.length = some_length(run),
		.seed = test_random(&run->seed),
		.first = run->psn,
		.opcode = opcodes[upto(run, run->ud ? 1 : 4)],
	};
	message->psns = simhca_psn_count(message->length, run->mtu);
	run->psn = simhca_psn_add(run->psn, message->psns);
	wr.imm = run->number + slot;
	if (message->opcode == SIMHCA_WR_SEND_WITH_INV) {
		if (run->has_key)
			wr.imm = message->key = run->key->rkey;
		else
			message->opcode = SIMHCA_WR_SEND;
		run->has_key = false;
	}
	if (run->ud) {
		wr.av = av_to(run->world, 1, upto(run, 1));
		wr.dest_qpn = b->qp->qpn;
		wr.qkey = b->options.qkey;
	}
	wr.opcode = message->opcode;
	one = sge(a->mr, (uint64_t)slot * SLOT_BYTES, message->length);
	wr.sges = &one;
	wr.num_sge = 1;
	fill_message(a->mr->addr + (size_t)slot * SLOT_BYTES, message, run->number + slot);
	qp_post(a->qp, &wr);
}

/* For a message to take it back, where none comes twice; if the last such one was lost it is there.
 */
static void register_key(struct run *run)
{
	struct side *b = &run->pair->b;

	if (run->ud || run->how->twice || run->how->late)
		return;
	run->has_key = true;
	if (mpt_of(b->client, run->key->rkey)->valid)
		return;
	qp_fast_reg(b->qp, 0, run->key, &run->page, 1, run->page, 4096, ALL_ACCESS);
	expect(b->send_cq, 0, SUCCESS);
}

static void check_received(struct run *run)
{
	struct side *b = &run->pair->b;
	uint32_t header = run->ud ? SIMHCA_GRH_BYTES : 0, newest = 0;
	uint8_t expected[SLOT_BYTES];
	struct simhca_cqe cqe;

	while (cq_poll(b->recv_cq, &cqe)) {
		bool is_write = cqe.opcode == SIMHCA_WC_RECV_RDMA_WITH_IMM;
		const uint8_t *data = b->mr->addr + RECVS_AT +
				      (cqe.wr_id % RECVS) * (SLOT_BYTES + SIMHCA_GRH_BYTES) +
				      header;
		struct message *message;
		uint32_t id, slot;

		assert_int_equal(cqe.status, 0);
		assert_int_equal(cqe.wr_id, run->used_recvs++);
		memcpy(&id, data, SHORTEST);
		if (is_write)
			id = cqe.imm_or_rkey;
		slot = id - run->number;
		assert_true(slot < run->count);
		message = &run->message[slot];
		assert_int_equal(cqe.byte_len, message->length + header);
		assert_int_equal(is_write, message->opcode == SIMHCA_WR_RDMA_WRITE_WITH_IMM);
		assert_int_equal(!!(cqe.flags & SIMHCA_CQE_INV),
				 message->opcode == SIMHCA_WR_SEND_WITH_INV);
		assert_int_equal(!!(cqe.flags & SIMHCA_CQE_IMM),
				 is_write || message->opcode == SIMHCA_WR_SEND_WITH_IMM);
		if (cqe.flags & SIMHCA_CQE_IMM)
			assert_int_equal(cqe.imm_or_rkey, id);
		if (cqe.flags & SIMHCA_CQE_INV) {
			assert_int_equal(cqe.imm_or_rkey, message->key);
			assert_false(mpt_of(b->client, message->key)->valid);
		}
		fill_message(expected, message, id);
		assert_memory_equal(is_write ? b->mr->addr + write_place(slot) : data, expected,
				    message->length);
		assert_true(!message->received || message->twice);
		assert_true(slot >= newest || message->late);
		if (slot > newest)
			newest = slot;
		message->received++;
		run->arrived++;
	}
}

/* What has not arrived was lost, or, on UC, the link has mixed it up with others. */
static void check_missing(const struct run *run)
{
	bool only_lost = !run->how->twice && !run->how->late;

	for (uint32_t i = 0; i < run->count; i++) {
		const struct message *message = &run->message[i];

		if (message->opcode == SIMHCA_WR_RDMA_WRITE)
			assert_int_equal(message->received, 0);
		else if (run->ud)
			assert_int_equal(message->received, message->copies);
		else if (only_lost)
			assert_int_equal(message->received, !message->lost);
		else if (message->lost)
			assert_int_equal(message->received, 0);
	}
}

static void random_messages(struct world *world, enum ibv_qp_type type, struct lossy *how,
			    uint64_t messages)
{
	const uint32_t header = type == IBV_QPT_UD ? SIMHCA_GRH_BYTES : 0;
	struct run *run = world_alloc(world, sizeof(*run));
	struct options options = default_options(type);
	uint64_t posted = 0;
	uintptr_t page;

	print_message("seed 0x%llx, %llu messages\n", (unsigned long long)how->seed,
		      (unsigned long long)messages);
	run->world = world;
	run->how = how;
	run->seed = how->seed;
	run->ud = type == IBV_QPT_UD;
	how->tells = what_became_of_it;
	how->arg = run;
	lossy_use(world, how);
	options.buffer = BUFFER;
	options.psn = run->psn = 0xfffff0;
	options.path_mtu = IBV_MTU_256 + upto(run, 2);
	run->mtu = run->ud ? 4096 : 128u << options.path_mtu;
	run->pair = pair_new(world, &options);
	page = (uintptr_t)world_alloc(world, 2 * 4096);
	run->page = (page + 4095) & ~4095ull;
	run->key = fast_mr_new(run->pair->b.client, run->pair->b.client->pd, 1);
	while (posted < messages) {
		uint32_t batch = 1 + upto(run, BATCH - 1);

		run->count = 0;
		register_key(run);
		while (run->posted_recvs - run->used_recvs < RECVS) {
			uint64_t slot = run->posted_recvs % RECVS;

			recv_into(&run->pair->b, run->posted_recvs++,
				  RECVS_AT + slot * (SLOT_BYTES + SIMHCA_GRH_BYTES),
				  SLOT_BYTES + header);
		}
		while (run->count < batch)
			post_one(run);
		run_until_idle(world);
		for (uint32_t i = 0; i < batch; i++)
			expect(run->pair->a.send_cq, i, SUCCESS);
		check_received(run);
		check_missing(run);
		run->number += batch;
		posted += batch;
	}
	assert_true(all_bytes(run->pair->b.mr->addr, WRITES_AT, 0));
	assert_true(run->arrived > messages / 4);
	print_message("%lu packets: %lu lost, %lu twice, %lu late; %llu messages arrived\n",
		      how->sent, how->has_lost, how->has_doubled, how->has_delayed,
		      (unsigned long long)run->arrived);
}

static void packets_are_lost(struct world *world, enum ibv_qp_type type)
{
	struct lossy how = { .seed = number("SIMHCA_TEST_SEED", 2), .lost = 50 };

	random_messages(world, type, &how, 5000);
}

static void everything_goes_wrong(struct world *world, enum ibv_qp_type type)
{
	struct lossy how = { .seed = number("SIMHCA_TEST_SEED", (uint64_t)getpid() << 20 | 5),
			     .lost = 50,
			     .twice = 50,
			     .late = 50 };

	random_messages(world, type, &how,
			number("SIMHCA_TEST_MESSAGES", getenv("SIMHCA_SOAK") ? 150000 : 15000));
}

static void uc_packets_are_lost(void **state)
{
	packets_are_lost(*state, IBV_QPT_UC);
}

static void ud_packets_are_lost(void **state)
{
	packets_are_lost(*state, IBV_QPT_UD);
}

static void everything_goes_wrong_on_uc(void **state)
{
	everything_goes_wrong(*state, IBV_QPT_UC);
}

static void everything_goes_wrong_on_ud(void **state)
{
	everything_goes_wrong(*state, IBV_QPT_UD);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_ETHERNET(uc_packets_are_lost),
		ON_ETHERNET(ud_packets_are_lost),
		ON_ETHERNET(everything_goes_wrong_on_uc),
		ON_ETHERNET(everything_goes_wrong_on_ud),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
