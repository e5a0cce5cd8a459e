/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Faults on demand: which hits a rule fires at, and what each kind of fault does. */
#include "core/context.h"
#include "core/fabric.h"
#include "harness.h"
#include "inject/inject.h"
#include "packet/packet.h"

/* What was told of rules that fired. */
static struct {
	unsigned int count;
	uint32_t rule, qpn;
	int opcode;
} fired;

static void on_injected(void *arg, const struct simhca_injection *injection)
{
	(void)arg;
	fired.count++;
	fired.rule = injection->rule->number;
	fired.qpn = injection->qpn;
	fired.opcode = injection->opcode;
}

static struct pair *pair_of(void **state, enum ibv_qp_type type)
{
	struct options options = default_options(type);
	struct world *world = *state;

	world->fabric->ops.injected = on_injected;
	memset(&fired, 0, sizeof(fired));
	return pair_new(world, &options);
}

static uint32_t add(void **state, struct simhca_rule rule)
{
	struct world *world = *state;
	uint32_t number;

	assert_int_equal(simhca_inject_add(world->fabric, &rule, &number), 0);
	return number;
}
#define RULE(...) add(state, (struct simhca_rule){ __VA_ARGS__ })

static void clear(void **state)
{
	struct world *world = *state;
	struct simhca_rule rule = { .number = 0 };

	while (simhca_inject_next(world->fabric, rule.number, &rule))
		assert_true(simhca_inject_remove(world->fabric, rule.number));
}

/* A rule that counts and does nothing: its number. */
#define COUNTER(...) RULE(.action = SIMHCA_INJECT_DELAY, .first = 1000, .ns = 1, __VA_ARGS__)

static uint64_t met(void **state, uint32_t number)
{
	struct world *world = *state;
	struct simhca_rule rule;

	assert_true(simhca_inject_next(world->fabric, number - 1, &rule));
	assert_int_equal(rule.number, number);
	return rule.met;
}

/* ---------------------------------------------------------------------------------- the rules */

/* The hits of 1 to 32 that a rule fires at. */
static uint32_t pattern(void **state, struct simhca_rule rule)
{
	struct world *world = *state;
	const struct simhca_inject_hit hit = { .point = SIMHCA_AT_REQUEST, .opcode = -1 };
	struct simhca_inject_outcome outcome;
	uint32_t bits = 0;

	rule.action = SIMHCA_INJECT_DROP;
	add(state, rule);
	for (int i = 0; i < 32; i++) {
		bits |= (uint32_t)simhca_inject_decide(world->fabric, &hit, &outcome) << i;
		assert_int_equal(outcome.drop, bits >> i & 1);
	}
	clear(state);
	return bits;
}
#define PATTERN(...) pattern(state, (struct simhca_rule){ __VA_ARGS__ })

static void when(void **state)
{
	assert_int_equal(PATTERN(.every = 0), 0xffffffff);
	assert_int_equal(PATTERN(.first = 3, .last = 3), 0x4);
	assert_int_equal(PATTERN(.first = 3, .last = 5), 0x1c);
	assert_int_equal(PATTERN(.first = 31), 0xc0000000);
	assert_int_equal(PATTERN(.every = 8), 0x80808080);
	assert_int_equal(PATTERN(.times = 2), 0x3);
	assert_int_equal(PATTERN(.every = 8, .first = 9, .times = 2), 0x00808000);
}

/* The same seed has the same faults, whatever else there is; another one has others. */
static void chance_has_a_seed(void **state)
{
	const uint64_t half = 1ull << 31;
	uint32_t one = PATTERN(.chance = half, .seed = 1);

	assert_int_equal(PATTERN(.chance = half, .seed = 1), one);
	assert_int_not_equal(PATTERN(.chance = half, .seed = 2), one);
	assert_in_range(__builtin_popcount(one), 6, 26);
	/* Numbers choose among the same draws. */
	assert_int_equal(PATTERN(.chance = half, .seed = 1, .first = 9), one & ~0xffu);
	assert_int_equal(PATTERN(.chance = 1ull << 32), 0xffffffff);
	RULE(.action = SIMHCA_INJECT_DELAY, .chance = half, .seed = 1, .ns = 1);
	assert_int_equal(PATTERN(.chance = half, .seed = 1), one);
}

/* Each condition of where lets through what it names, and nothing else. */
static void where(void **state)
{
	struct pair *pair = pair_of(state, IBV_QPT_RC);
	struct world *world = *state;
	struct simhca_context *context = pair->a.client->context;
	struct simhca_inject_hit here = {
		.point = SIMHCA_AT_REQUEST,
		.device = world->device[0],
		.context = context,
		.qpn = 0x12,
		.opcode = SIMHCA_WR_SEND,
	};
	const struct simhca_rule rules[][2] = {
		{ { .pid = 77 }, { .pid = 78 } },
		{ { .program = "here" }, { .program = "her" } },
		{ { .qpn = 0x12 }, { .qpn = 0x13 } },
		{ { .opcodes = 1u << SIMHCA_WR_SEND | 1 }, { .opcodes = 1 } },
		{ { .device = "test0" }, { .device = "test1" } },
		{ { .responses = false }, { .responses = true } },
		{ { .qpn = 0x12, .pid = 77 }, { .qpn = 0x12, .pid = 78 } },
		{ { .qpn = 0 }, { .now = true } },
	};
	struct simhca_inject_outcome outcome;

	simhca_context_name(context, 77, "here");
	for (size_t i = 0; i < ARRAY_SIZE(rules); i++)
		for (int no = 0; no < 2; no++) {
			add(state, rules[i][no]);
			assert_int_equal(simhca_inject_decide(world->fabric, &here, &outcome), !no);
			clear(state);
		}
	/* What is not known is not meant. */
	here.context = NULL;
	here.opcode = -1;
	RULE(.pid = 77);
	RULE(.opcodes = 1);
	assert_false(simhca_inject_decide(world->fabric, &here, &outcome));
}

/* Faults that an hit has no place for do not meet it, nor are used up by it. */
static void what_cannot_happen_is_not_met(void **state)
{
	const struct {
		struct simhca_rule rule;
		struct simhca_inject_hit can, cannot;
	} cases[] = {
		{ { .action = SIMHCA_INJECT_REORDER, .times = 1 },
		  { .datagram = true },
		  { .bytes = 8 } },
		{ { .action = SIMHCA_INJECT_CORRUPT, .times = 1 },
		  { .bytes = 1 },
		  { .datagram = true } },
	};
	struct world *world = *state;
	struct simhca_inject_outcome outcome;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct simhca_inject_hit can = cases[i].can, cannot = cases[i].cannot;

		can.point = cannot.point = SIMHCA_AT_REQUEST;
		add(state, cases[i].rule);
		assert_false(simhca_inject_decide(world->fabric, &cannot, &outcome));
		assert_true(simhca_inject_decide(world->fabric, &can, &outcome));
		clear(state);
	}
}

static void rules_are_counted(void **state)
{
	struct world *world = *state;
	struct pair *pair = pair_of(state, IBV_QPT_RC);
	uint32_t first = RULE(.action = SIMHCA_INJECT_DELAY, .ns = 1, .every = 2, .text = "one");
	uint32_t second = RULE(.action = SIMHCA_INJECT_NO_EVENT);
	struct simhca_rule rule;

	for (uint64_t i = 1; i <= 5; i++) {
		rdma_write(&pair->a, i, 0, 8, 0);
		advance(*state, 1);
		expect(pair->a.send_cq, i, SUCCESS);
	}
	assert_true(simhca_inject_next(world->fabric, 0, &rule));
	assert_int_equal(rule.number, first);
	assert_string_equal(rule.text, "one");
	assert_int_equal(rule.met, 5);
	assert_int_equal(rule.fired, 2);
	assert_int_equal(fired.count, 2);
	assert_int_equal(fired.rule, first);
	assert_int_equal(fired.qpn, pair->a.qp->qpn);
	assert_int_equal(fired.opcode, SIMHCA_WR_RDMA_WRITE);
	assert_true(simhca_inject_next(world->fabric, first, &rule));
	assert_int_equal(rule.number, second);
	assert_int_equal(rule.met, 0);
	assert_false(simhca_inject_next(world->fabric, second, &rule));
	assert_true(simhca_inject_is_on(world->fabric));
	clear(state);
	assert_false(simhca_inject_is_on(world->fabric));
	assert_false(simhca_inject_remove(world->fabric, first));
	for (unsigned int i = 0; i < SIMHCA_RULES_MOST; i++)
		RULE(.action = SIMHCA_INJECT_DROP);
	assert_int_equal(simhca_inject_add(world->fabric, &rule, &first), -ENOSPC);
}

/* -------------------------------------------------------------------------------- the faults */

static void a_drop_is_sent_again(void **state)
{
	struct pair *pair = pair_of(state, IBV_QPT_RC);

	RULE(.action = SIMHCA_INJECT_DROP, .first = 1, .last = 1);
	rdma_write(&pair->a, 1, 0, 8, 0);
	run_until_idle(*state);
	expect_none(pair->a.send_cq);
	advance(*state, 4096ull << 14);
	expect(pair->a.send_cq, 1, SUCCESS);
}

/* If nothing comes through, the completion says that a rule has done so. */
static void drops_without_end(void **state)
{
	struct pair *pair = pair_of(state, IBV_QPT_RC);

	RULE(.action = SIMHCA_INJECT_DROP);
	rdma_write(&pair->a, 1, 0, 8, 0);
	run_until_idle(*state);
	for (int i = 0; i < 8; i++)
		advance(*state, 4096ull << 14);
	expect_why(pair->a.send_cq, 1, RETRY_EXC_ERR, INJECTED);
	clear(state);

	pair = pair_of(state, IBV_QPT_RC);
	RULE(.action = SIMHCA_INJECT_DROP, .responses = true, .opcodes = 1u << SIMHCA_WR_RDMA_READ);
	rdma_write(&pair->a, 1, 0, 8, 0);
	expect(pair->a.send_cq, 1, SUCCESS);
	rdma_read(&pair->a, 2, 0, 8, 0);
	run_until_idle(*state);
	for (int i = 0; i < 8; i++)
		advance(*state, 4096ull << 14);
	expect_why(pair->a.send_cq, 2, RETRY_EXC_ERR, INJECTED);
}

/*
 * The answer is lost: what was done is not done twice. The packet that is sent again is another
 * hit, but arrives for the first time no more.
 */
static void a_lost_answer(void **state)
{
	struct pair *pair = pair_of(state, IBV_QPT_RC);
	uint32_t sent = COUNTER(.qpn = pair->a.qp->qpn);
	uint32_t arrived = RULE(.action = SIMHCA_INJECT_FAULT, .first = 1000, .ns = 1);

	RULE(.action = SIMHCA_INJECT_DROP, .responses = true, .first = 1, .last = 1);
	recv_into(&pair->b, 5, 0, 8);
	recv_into(&pair->b, 6, 0, 8);
	send_from(&pair->a, 1, 0, 8);
	run_until_idle(*state);
	expect(pair->b.recv_cq, 5, SUCCESS);
	expect_none(pair->a.send_cq);
	advance(*state, 4096ull << 14);
	expect(pair->a.send_cq, 1, SUCCESS);
	expect_none(pair->b.recv_cq);
	assert_int_equal(met(state, sent), 2);
	assert_int_equal(met(state, arrived), 1);
}

/* Each answer is as late, and judged once. */
static void late_answers(void **state)
{
	struct pair *pair = pair_of(state, IBV_QPT_RC);
	uint32_t late = RULE(.action = SIMHCA_INJECT_DELAY, .responses = true, .ns = 3 * SEC,
			     .opcodes = 1u << SIMHCA_WR_SEND | 1u << SIMHCA_WR_RDMA_READ);

	fill(pair->b.mr->addr, 8, 1);
	for (uint64_t id = 1; id <= 2; id++) {
		recv_into(&pair->b, id, 64, 8);
		send_from(&pair->a, id, 0, 8);
		run_until_idle(*state);
		expect(pair->b.recv_cq, id, SUCCESS);
		advance(*state, 3 * SEC - 1);
		expect_none(pair->a.send_cq);
		advance(*state, 1);
		expect(pair->a.send_cq, id, SUCCESS);
		assert_int_equal(met(state, late), id);
	}
	rdma_read(&pair->a, 3, 0, 8, 0);
	run_until_idle(*state);
	advance(*state, 3 * SEC - 1);
	expect_none(pair->a.send_cq);
	advance(*state, 1);
	expect(pair->a.send_cq, 3, SUCCESS);
	assert_true(filled(pair->a.mr->addr, 8, 1));
}

static void a_delay_is_as_long(void **state)
{
	struct pair *pair = pair_of(state, IBV_QPT_RC);

	RULE(.action = SIMHCA_INJECT_DELAY, .first = 1, .last = 1, .ns = 3 * SEC);
	recv_into(&pair->b, 5, 0, 8);
	send_from(&pair->a, 1, 0, 8);
	run_until_idle(*state);
	advance(*state, 3 * SEC - 1);
	expect_none(pair->b.recv_cq);
	advance(*state, 1);
	expect(pair->b.recv_cq, 5, SUCCESS);
	expect(pair->a.send_cq, 1, SUCCESS);
	assert_int_equal(fired.count, 1);
}

/* The message is there, its sender learns of it later. */
static void a_completion_is_held(void **state)
{
	struct pair *pair = pair_of(state, IBV_QPT_RC);
	uint32_t rule;

	RULE(.action = SIMHCA_INJECT_HOLD, .ns = 3 * SEC);
	recv_into(&pair->b, 5, 0, 8);
	send_from(&pair->a, 1, 0, 8);
	run_until_idle(*state);
	expect(pair->b.recv_cq, 5, SUCCESS);
	advance(*state, 3 * SEC - 1);
	expect_none(pair->a.send_cq);
	advance(*state, 1);
	expect(pair->a.send_cq, 1, SUCCESS);
	clear(state);

	/* Without a time it waits for the end of the rule; and counts once. */
	rule = RULE(.action = SIMHCA_INJECT_HOLD, .first = 1, .last = 1);
	fired.count = 0;
	fill(pair->b.mr->addr, 8, 1);
	rdma_read(&pair->a, 2, 0, 8, 0);
	for (int i = 0; i < 100; i++)
		advance(*state, 10 * MSEC);
	expect_none(pair->a.send_cq);
	assert_int_equal(fired.count, 1);
	COUNTER(.qpn = 0); /* others may stand */
	assert_true(simhca_inject_remove(((struct world *)*state)->fabric, rule));
	advance(*state, 10 * MSEC);
	expect(pair->a.send_cq, 2, SUCCESS);
	assert_true(filled(pair->a.mr->addr, 8, 1));
}

/* A read of several slices, whose answers are late: all of it is right in the end. */
static void late_slices(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair;

	options.buffer = 1 << 20;
	pair = pair_new(*state, &options);
	RULE(.action = SIMHCA_INJECT_DELAY, .responses = true, .every = 2, .ns = MSEC);
	fill(pair->b.mr->addr, 1 << 20, 7);
	rdma_read(&pair->a, 1, 0, 1 << 20, 0);
	run_until_idle(*state);
	for (int i = 0; i < 100; i++)
		advance(*state, MSEC);
	expect(pair->a.send_cq, 1, SUCCESS);
	assert_true(filled(pair->a.mr->addr, 1 << 20, 7));
}

/* Nobody who keeps to sequence numbers sees a packet twice; datagrams have none. */
static void duplicates(void **state)
{
	struct pair *reliable = pair_of(state, IBV_QPT_RC), *pair = pair_of(state, IBV_QPT_UD);

	RULE(.action = SIMHCA_INJECT_DUPLICATE);
	for (uint64_t id = 5; id <= 6; id++) {
		recv_into(&reliable->b, id, 0, 8);
		recv_into(&pair->b, id, 0, 64);
	}
	send_from(&reliable->a, 1, 0, 8);
	expect(reliable->a.send_cq, 1, SUCCESS);
	expect(reliable->b.recv_cq, 5, SUCCESS);
	expect_none(reliable->b.recv_cq);
	send_from(&pair->a, 1, 0, 8);
	expect(pair->a.send_cq, 1, SUCCESS);
	expect(pair->b.recv_cq, 5, SUCCESS);
	expect(pair->b.recv_cq, 6, SUCCESS);
}

static void a_datagram_is_overtaken(void **state)
{
	struct pair *pair = pair_of(state, IBV_QPT_UD);

	RULE(.action = SIMHCA_INJECT_REORDER, .first = 1, .last = 1);
	fill(pair->a.mr->addr, 8, 1);
	fill(pair->a.mr->addr + 8, 8, 2);
	recv_into(&pair->b, 5, 0, 64);
	recv_into(&pair->b, 6, 64, 64);
	send_from(&pair->a, 1, 0, 8);
	expect(pair->a.send_cq, 1, SUCCESS);
	expect_none(pair->b.recv_cq);
	memset(pair->a.mr->addr, 0, 8); /* it went with what it had */
	send_from(&pair->a, 2, 8, 8);
	expect(pair->a.send_cq, 2, SUCCESS);
	expect(pair->b.recv_cq, 5, SUCCESS);
	expect(pair->b.recv_cq, 6, SUCCESS);
	assert_true(filled(pair->b.mr->addr + 40, 8, 2));
	assert_true(filled(pair->b.mr->addr + 64 + 40, 8, 1));
}

/* Each second one overtakes the one before. */
static void all_datagrams_are_overtaken(void **state)
{
	static const uint8_t order[] = { 2, 1, 4, 3 };
	struct pair *pair = pair_of(state, IBV_QPT_UD);

	RULE(.action = SIMHCA_INJECT_REORDER);
	for (uint8_t i = 1; i <= 4; i++) {
		pair->a.mr->addr[i] = i;
		recv_into(&pair->b, i, 64 * i, 64);
	}
	for (uint8_t i = 1; i <= 4; i++) {
		send_from(&pair->a, i, i, 1);
		expect(pair->a.send_cq, i, SUCCESS);
	}
	for (uint8_t i = 1; i <= 4; i++) {
		expect(pair->b.recv_cq, i, SUCCESS);
		assert_int_equal(pair->b.mr->addr[64 * i + 40], order[i - 1]);
	}
}

static unsigned int differing_bits(const uint8_t *one, const uint8_t *other, size_t length)
{
	unsigned int bits = 0;

	for (size_t i = 0; i < length; i++)
		bits += (unsigned int)__builtin_popcount(one[i] ^ other[i]);
	return bits;
}

/* One bit, at the receiver, both ways; nobody is told. */
static void corruption_is_silent(void **state)
{
	struct pair *pair = pair_of(state, IBV_QPT_RC);
	uint8_t before[64];

	fill(pair->a.mr->addr, 64, 1);
	memcpy(before, pair->a.mr->addr, 64);
	RULE(.action = SIMHCA_INJECT_CORRUPT, .seed = 3);
	rdma_write(&pair->a, 1, 0, 64, 0);
	expect(pair->a.send_cq, 1, SUCCESS);
	assert_int_equal(differing_bits(before, pair->b.mr->addr, 64), 1);
	assert_int_equal(differing_bits(before, pair->a.mr->addr, 64), 0);
	clear(state);
	RULE(.action = SIMHCA_INJECT_CORRUPT, .seed = 3, .responses = true);
	memcpy(pair->b.mr->addr, before, 64);
	rdma_read(&pair->a, 2, 0, 64, 0);
	expect(pair->a.send_cq, 2, SUCCESS);
	assert_int_equal(differing_bits(before, pair->a.mr->addr, 64), 1);
}

static void corruption_is_anywhere(void **state)
{
	struct pair *pair = pair_of(state, IBV_QPT_RC);
	unsigned int places = 0, bits = 0;

	RULE(.action = SIMHCA_INJECT_CORRUPT);
	for (uint64_t id = 1; id <= 64; id++) {
		rdma_write(&pair->a, id, 0, 64, 64 * id);
		expect(pair->a.send_cq, id, SUCCESS);
		for (unsigned int i = 0; i < 64; i++) {
			places |= pair->b.mr->addr[64 * id + i] ? 1u << i / 2 : 0;
			bits |= pair->b.mr->addr[64 * id + i];
		}
	}
	assert_in_range(__builtin_popcount(places), 16, 32);
	assert_int_equal(bits, 0xff);
}

static void slow_memory(void **state)
{
	struct pair *pair = pair_of(state, IBV_QPT_RC);

	RULE(.action = SIMHCA_INJECT_SLOW, .rate = 64);
	for (uint64_t id = 1; id <= 2; id++) {
		if (id == 1)
			rdma_write(&pair->a, id, 0, 128, 0);
		else
			rdma_read(&pair->a, id, 0, 128, 0);
		run_until_idle(*state);
		advance(*state, 2 * SEC - 1);
		expect_none(pair->a.send_cq);
		advance(*state, 1);
		expect(pair->a.send_cq, id, SUCCESS);
	}
}

static void a_late_doorbell(void **state)
{
	struct pair *pair = pair_of(state, IBV_QPT_RC);

	RULE(.action = SIMHCA_INJECT_DOORBELL, .ns = SEC);
	rdma_write(&pair->a, 1, 0, 8, 0);
	run_until_idle(*state);
	advance(*state, SEC - 1);
	expect_none(pair->a.send_cq);
	/* What is read then is what it sends. */
	fill(pair->a.mr->addr, 8, 9);
	advance(*state, 1);
	expect(pair->a.send_cq, 1, SUCCESS);
	assert_true(filled(pair->b.mr->addr, 8, 9));
}

/* So many RNR NAKs, and rnr_retry says whether that is too many. */
static void not_ready(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair;

	for (uint8_t retries = 2; retries <= 3; retries++) {
		options.rnr_retry = retries;
		pair = pair_new(*state, &options);
		recv_into(&pair->b, 5, 0, 8);
		RULE(.action = SIMHCA_INJECT_RNR, .first = 1, .last = 3);
		rdma_write(&pair->a, 1, 0, 8, 0); /* takes no receive */
		expect(pair->a.send_cq, 1, SUCCESS);
		send_from(&pair->a, 2, 0, 8);
		run_until_idle(*state);
		for (int i = 0; i < 3; i++)
			advance(*state, SEC);
		if (retries == 3)
			expect(pair->a.send_cq, 2, SUCCESS);
		else
			expect_why(pair->a.send_cq, 2, RNR_RETRY_EXC_ERR, INJECTED);
		clear(state);
	}
}

/* The responder's own timer says how long; what is unreliable knows nothing of the kind. */
static void how_long_not_ready(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair, *unreliable = pair_of(state, IBV_QPT_UC);

	options.min_rnr_timer = 20; /* 10.24 ms */
	pair = pair_new(*state, &options);
	RULE(.action = SIMHCA_INJECT_RNR, .times = 1);
	recv_into(&unreliable->b, 1, 0, 8);
	send_from(&unreliable->a, 1, 0, 8);
	expect(unreliable->b.recv_cq, 1, SUCCESS);
	recv_into(&pair->b, 5, 0, 8);
	send_from(&pair->a, 1, 0, 8);
	run_until_idle(*state);
	advance(*state, 10240000 - 1);
	expect_none(pair->a.send_cq);
	advance(*state, 1);
	expect(pair->a.send_cq, 1, SUCCESS);
}

static void naks(void **state)
{
	static const struct {
		uint32_t syndrome;
		int status, event;
	} cases[] = {
		{ SIMHCA_SYNDROME_NAK_INVALID, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR },
		{ SIMHCA_SYNDROME_NAK_ACCESS, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR },
		{ SIMHCA_SYNDROME_NAK_OPERATIONAL, IBV_WC_REM_OP_ERR, IBV_EVENT_QP_REQ_ERR },
		{ SIMHCA_SYNDROME_NAK_PSN, IBV_WC_SUCCESS, -1 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct pair *pair = pair_of(state, IBV_QPT_RC);
		bool fails = cases[i].status != IBV_WC_SUCCESS;

		RULE(.action = SIMHCA_INJECT_NAK, .value = cases[i].syndrome, .first = 1,
		     .last = 1);
		rdma_write(&pair->a, 1, 0, 8, 0);
		expect_(pair->a.send_cq, 1, cases[i].status,
			fails ? SIMHCA_REASON_INJECTED : SIMHCA_REASON_NONE, __FILE__, __LINE__);
		assert_int_equal(qp_state(pair->b.qp), fails ? IBV_QPS_ERR : IBV_QPS_RTS);
		if (fails)
			assert_int_equal(
				events_of(pair->b.client, pair->b.qp, (uint32_t)cases[i].event), 1);
		clear(state);
	}
}

/* The message arrives once the page is there. */
static void a_page_fault(void **state)
{
	struct pair *pair = pair_of(state, IBV_QPT_RC);

	RULE(.action = SIMHCA_INJECT_FAULT, .first = 1, .last = 1, .ns = 5 * MSEC);
	rdma_write(&pair->a, 1, 0, 8, 0);
	run_until_idle(*state);
	advance(*state, 5 * MSEC - 1);
	expect_none(pair->a.send_cq);
	advance(*state, 1);
	expect(pair->a.send_cq, 1, SUCCESS);
	assert_int_equal(fired.count, 1);
	assert_int_equal(fired.qpn, pair->b.qp->qpn);
	clear(state);
	/* Of each, and only once: a fault is not followed by the same one. */
	RULE(.action = SIMHCA_INJECT_FAULT, .ns = 5 * MSEC);
	rdma_write(&pair->a, 2, 0, 8, 0);
	run_until_idle(*state);
	advance(*state, 5 * MSEC);
	expect(pair->a.send_cq, 2, SUCCESS);
}

/* Over a wire it is an RNR NAK whose timer is as long at least, if there is such a one. */
static void a_page_fault_elsewhere(void **state)
{
	static const struct {
		uint64_t fault, timer;
	} cases[] = { { 5 * MSEC, 5120000 }, { 600 * MSEC, 655360000 }, { SEC, 655360000 } };
	struct pair *pair = pair_of(state, IBV_QPT_RC);

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		RULE(.action = SIMHCA_INJECT_FAULT, .times = 1, .ns = cases[i].fault);
		rdma_write(&pair->a, i, 0, 8, 0);
		run_until_idle(*state);
		advance(*state, cases[i].timer - 1);
		expect_none(pair->a.send_cq);
		advance(*state, 1);
		expect(pair->a.send_cq, i, SUCCESS);
		clear(state);
	}
}

static void an_answer_lost_on_the_way(void **state)
{
	struct pair *pair = pair_of(state, IBV_QPT_RC);

	RULE(.action = SIMHCA_INJECT_DROP, .responses = true, .opcodes = 1u << SIMHCA_WR_RDMA_READ,
	     .times = 1);
	rdma_write(&pair->a, 1, 0, 8, 0);
	expect(pair->a.send_cq, 1, SUCCESS);
	rdma_read(&pair->a, 2, 0, 8, 0);
	run_until_idle(*state);
	expect_none(pair->a.send_cq);
	for (int i = 0; i < 4; i++)
		advance(*state, 4096ull << 14);
	expect(pair->a.send_cq, 2, SUCCESS);
}

static void completions_with_errors(void **state)
{
	struct pair *pair = pair_of(state, IBV_QPT_RC), *datagrams = pair_of(state, IBV_QPT_UD);

	RULE(.action = SIMHCA_INJECT_COMPLETE, .value = SIMHCA_WC_LOC_PROT_ERR, .first = 2,
	     .last = 2, .opcodes = 1u << SIMHCA_WR_RDMA_WRITE);
	for (uint64_t id = 1; id <= 3; id++)
		rdma_write(&pair->a, id, 0, 8, 0);
	expect(pair->a.send_cq, 1, SUCCESS);
	expect_why(pair->a.send_cq, 2, LOC_PROT_ERR, INJECTED);
	expect_why(pair->a.send_cq, 3, WR_FLUSH_ERR, FLUSHED);
	clear(state);
	/* Of an unreliable QP the sends stop. */
	RULE(.action = SIMHCA_INJECT_COMPLETE, .value = SIMHCA_WC_LOC_QP_OP_ERR);
	send_from(&datagrams->a, 1, 0, 8);
	expect_why(datagrams->a.send_cq, 1, LOC_QP_OP_ERR, INJECTED);
	assert_int_equal(qp_state(datagrams->a.qp), IBV_QPS_SQE);
	clear(state);

	pair = pair_of(state, IBV_QPT_RC);
	RULE(.action = SIMHCA_INJECT_COMPLETE, .value = SIMHCA_WC_LOC_PROT_ERR, .receives = true);
	recv_into(&pair->b, 5, 0, 8);
	send_from(&pair->a, 1, 0, 8);
	expect_why(pair->a.send_cq, 1, REM_OP_ERR, INJECTED);
	expect_why(pair->b.recv_cq, 5, LOC_PROT_ERR, INJECTED);
}

static void an_event_is_lost(void **state)
{
	struct pair *pair = pair_of(state, IBV_QPT_RC);

	RULE(.action = SIMHCA_INJECT_NO_EVENT, .first = 1, .last = 1);
	for (uint64_t id = 1; id <= 2; id++) {
		cq_arm(pair->a.send_cq, SIMHCA_ARM_NEXT);
		rdma_write(&pair->a, id, 0, 8, 0);
		expect(pair->a.send_cq, id, SUCCESS);
		assert_int_equal(pair->a.send_cq->events, id - 1);
	}
}

static void asynchronous_events(void **state)
{
	struct pair *pair = pair_of(state, IBV_QPT_RC);

	RULE(.action = SIMHCA_INJECT_ASYNC, .value = IBV_EVENT_QP_FATAL);
	RULE(.action = SIMHCA_INJECT_ASYNC, .value = IBV_EVENT_CQ_ERR, .first = 2, .last = 2);
	for (uint64_t id = 1; id <= 2; id++) {
		rdma_write(&pair->a, id, 0, 8, 0);
		expect(pair->a.send_cq, id, SUCCESS);
	}
	assert_int_equal(events_of(pair->a.client, pair->a.qp, IBV_EVENT_QP_FATAL), 1);
	assert_int_equal(events_of(pair->a.client, pair->a.send_cq, IBV_EVENT_CQ_ERR), 1);
	clear(state);
	/* Who answers has them by its answers. */
	RULE(.action = SIMHCA_INJECT_ASYNC, .value = IBV_EVENT_QP_FATAL, .responses = true);
	rdma_write(&pair->a, 3, 0, 8, 0);
	expect(pair->a.send_cq, 3, SUCCESS);
	assert_int_equal(events_of(pair->b.client, pair->b.qp, IBV_EVENT_QP_FATAL), 1);
}

static void events_of_an_srq(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct client *client = client_new(*state, 0);
	struct srq *srq = srq_new(client, 4, 1, 0);
	struct side *with = world_alloc(*state, sizeof(*with)),
		    *without = side_new(client, &options);

	side_make(with, client, &options, srq);
	with->peer = without;
	without->peer = with;
	qp_connect(with->qp, 0, without->qp->qpn, &options);
	qp_connect(without->qp, 0, with->qp->qpn, &options);
	RULE(.action = SIMHCA_INJECT_ASYNC, .value = IBV_EVENT_SRQ_ERR);
	rdma_write(with, 1, 0, 8, 0);
	expect(with->send_cq, 1, SUCCESS);
	assert_int_equal(events_of(client, srq, IBV_EVENT_SRQ_ERR), 1);
	rdma_write(without, 2, 0, 8, 0); /* has none */
	expect(without->send_cq, 2, SUCCESS);
	assert_int_equal(events_of(client, srq, IBV_EVENT_SRQ_ERR), 1);
}

static void verbs_and_connections(void **state)
{
	struct pair *pair = pair_of(state, IBV_QPT_RC);
	struct world *world = *state;

	assert_int_equal(simhca_inject_verb(pair->a.client->context, SIMHCA_CMD_REG_MR), 0);
	RULE(.action = SIMHCA_INJECT_VERB, .verb = SIMHCA_CMD_REG_MR, .value = ENOMEM, .first = 2);
	assert_int_equal(simhca_inject_verb(pair->a.client->context, SIMHCA_CMD_CREATE_CQ), 0);
	assert_int_equal(simhca_inject_verb(pair->a.client->context, SIMHCA_CMD_REG_MR), 0);
	assert_int_equal(simhca_inject_verb(pair->a.client->context, SIMHCA_CMD_REG_MR), -ENOMEM);
	assert_int_equal(simhca_inject_connect(world->device[0]), 0);
	RULE(.action = SIMHCA_INJECT_REJECT, .value = 28);
	assert_int_equal(simhca_inject_connect(world->device[0]), 28);
}

static int setup_wire(void **state)
{
	setenv("SIMHCA_TEST_LINK", "wire", 1);
	setup_ethernet(state);
	unsetenv("SIMHCA_TEST_LINK");
	return 0;
}

#define ON_A_WIRE(test) cmocka_unit_test_setup_teardown(test, setup_wire, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_ETHERNET(when),
		ON_ETHERNET(chance_has_a_seed),
		ON_ETHERNET(where),
		ON_ETHERNET(what_cannot_happen_is_not_met),
		ON_ETHERNET(rules_are_counted),
		ON_ETHERNET(a_drop_is_sent_again),
		ON_ETHERNET(drops_without_end),
		ON_ETHERNET(a_lost_answer),
		ON_ETHERNET(late_answers),
		ON_ETHERNET(a_delay_is_as_long),
		ON_ETHERNET(a_completion_is_held),
		ON_ETHERNET(late_slices),
		ON_ETHERNET(duplicates),
		ON_ETHERNET(a_datagram_is_overtaken),
		ON_ETHERNET(all_datagrams_are_overtaken),
		ON_ETHERNET(corruption_is_silent),
		ON_ETHERNET(corruption_is_anywhere),
		ON_ETHERNET(slow_memory),
		ON_ETHERNET(a_late_doorbell),
		ON_ETHERNET(not_ready),
		ON_ETHERNET(how_long_not_ready),
		ON_ETHERNET(naks),
		ON_ETHERNET(a_page_fault),
		ON_A_WIRE(a_page_fault_elsewhere),
		ON_A_WIRE(an_answer_lost_on_the_way),
		ON_ETHERNET(completions_with_errors),
		ON_ETHERNET(an_event_is_lost),
		ON_ETHERNET(asynchronous_events),
		ON_ETHERNET(events_of_an_srq),
		ON_ETHERNET(verbs_and_connections),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
