/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What a QP says of what it has done, and of how long its messages took. */
#include "harness.h"
#include "core/usage.h"

static struct simhca_usage_sum usage_of(struct side *side)
{
	struct simhca_qp_info info = { 0 };
	uint32_t handle = 0;

	assert_true(simhca_next_qp(side->client->context, &handle, &info));
	return info.usage;
}

static uint64_t timed(const struct simhca_usage_sum *usage)
{
	uint64_t count = 0;

	for (int i = 0; i < SIMHCA_LATENCIES; i++)
		count += usage->latency[i];
	return count;
}

/* The longest time of a bucket is less than an eighth above each time that counts in it. */
static void buckets_are_narrow(void **state)
{
	struct simhca_usage *usage = simhca_usage_create();

	for (uint64_t ns = 128; ns < 1ull << 36; ns += ns / 61 + 1) {
		struct simhca_usage_sum sum = { 0 };
		uint32_t bucket = 0;

		memset((void *)usage->latency, 0, sizeof(usage->latency));
		simhca_usage_begin(usage, 1, 1000);
		simhca_usage_end(usage, 1000 + ns);
		simhca_usage_sum(usage, &sum);
		assert_int_equal(timed(&sum), 1);
		while (!sum.latency[bucket])
			bucket++;
		assert_in_range(simhca_latency_ns(bucket), ns, ns + ns / 8);
	}
	free(usage);
}

/* What is shorter or longer than all buckets is counted, too. */
static void nothing_is_lost_at_the_ends(void **state)
{
	struct simhca_usage *usage = simhca_usage_create();
	struct simhca_usage_sum sum = { 0 };

	simhca_usage_begin(usage, 1, 1);
	simhca_usage_end(usage, 1);
	simhca_usage_begin(usage, 2, 1);
	simhca_usage_end(usage, UINT64_MAX);
	simhca_usage_sum(usage, &sum);
	assert_int_equal(sum.latency[0], 1);
	assert_int_equal(sum.latency[SIMHCA_LATENCIES - 1], 1);
	free(usage);
}

/* All of the first 64, and then about one in sixteen, none of which is another's neighbour always.
 */
static void a_sample_is_timed(void **state)
{
	struct simhca_usage *usage = simhca_usage_create();
	uint32_t by_place[16] = { 0 };
	unsigned int count = 0;

	for (uint32_t index = 0; index < 64 + 160000; index++) {
		if (!simhca_usage_is_due(usage, index))
			continue;
		simhca_usage_begin(usage, index, 5);
		assert_false(simhca_usage_is_due(usage, index + 1)); /* one at a time */
		assert_true(simhca_usage_is_timed(usage, index));
		simhca_usage_end(usage, 500);
		assert_false(simhca_usage_is_timed(usage, index));
		by_place[index % 16]++;
		count++;
	}
	assert_in_range(count, 64 + 8000, 64 + 12000);
	for (int i = 0; i < 16; i++)
		assert_in_range(by_place[i], count / 32, count / 8);
	free(usage);
}

static struct pair *pair_of(void **state)
{
	struct options options = default_options(IBV_QPT_RC);

	options.rnr_retry = 7;
	options.min_rnr_timer = 1; /* 10 us */
	return pair_new(*state, &options);
}

static void messages_are_counted(void **state)
{
	struct pair *pair = pair_of(state);
	struct simhca_usage_sum a, b;

	recv_into(&pair->b, 7, 0, 4096);
	send_from(&pair->a, 1, 0, 100);
	rdma_write(&pair->a, 2, 0, 1000, 0);
	rdma_read(&pair->a, 3, 0, 30, 0);
	expect(pair->a.send_cq, 1, SUCCESS);
	expect(pair->a.send_cq, 2, SUCCESS);
	expect(pair->a.send_cq, 3, SUCCESS);
	expect(pair->b.recv_cq, 7, SUCCESS);
	a = usage_of(&pair->a);
	b = usage_of(&pair->b);
	assert_int_equal(a.messages, 2);
	assert_int_equal(a.bytes, 1100);
	assert_int_equal(a.reads, 1);
	assert_int_equal(a.read_bytes, 30);
	assert_int_equal(timed(&a), 3);
	assert_int_equal(a.received + a.errors + a.retries + a.rnr_naks + a.no_receive, 0);
	assert_int_equal(b.received, 1);
	assert_int_equal(b.received_bytes, 100);
	assert_int_equal(b.messages + b.reads + timed(&b), 0);
}

/* By their kinds, and the time that a message took with them. */
static void what_goes_wrong_is_counted(void **state)
{
	struct pair *pair = pair_of(state);
	struct simhca_usage_sum a, b;
	uint32_t bucket = 0;

	send_from(&pair->a, 1, 0, 100);
	run_until_idle(*state);
	advance(*state, 10 * USEC);
	recv_into(&pair->b, 7, 0, 4096);
	advance(*state, 10 * USEC);
	expect(pair->a.send_cq, 1, SUCCESS);
	a = usage_of(&pair->a);
	b = usage_of(&pair->b);
	assert_int_equal(a.rnr_naks, 2);
	assert_int_equal(a.rnr_delay_ns, 20 * USEC);
	assert_int_equal(b.no_receive, 2);
	while (!a.latency[bucket])
		bucket++;
	assert_in_range(simhca_latency_ns(bucket), 20 * USEC, 23 * USEC);
	rdma_write(&pair->a, 2, 0, 1, 1 << 30);
	expect(pair->a.send_cq, 2, REM_ACCESS_ERR);
	a = usage_of(&pair->a);
	assert_int_equal(a.errors, 1);
	assert_int_equal(a.messages, 1);
}

/* What a QP has done stays its context's when it is destroyed. */
static void the_past_is_kept(void **state)
{
	struct pair *pair = pair_of(state);
	struct simhca_context *context = pair->a.client->context;
	struct simhca_usage_sum past;

	rdma_write(&pair->a, 1, 0, 1000, 0);
	expect(pair->a.send_cq, 1, SUCCESS);
	simhca_context_past(context, &past);
	assert_int_equal(past.messages, 0);
	assert_int_equal(0, simhca_destroy_qp(context, pair->a.qp->handle, NULL));
	simhca_context_past(context, &past);
	assert_int_equal(past.messages, 1);
	assert_int_equal(past.bytes, 1000);
	assert_int_equal(timed(&past), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(buckets_are_narrow),
		cmocka_unit_test(nothing_is_lost_at_the_ends),
		cmocka_unit_test(a_sample_is_timed),
		ON_ETHERNET(messages_are_counted),
		ON_ETHERNET(what_goes_wrong_is_counted),
		ON_ETHERNET(the_past_is_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
