/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* How many QPs have something under way to an address: share.h by itself. */
#include "harness.h"
#include "link/wire/share.h"

static const union simhca_gid here = { .raw = { 1 } }, there = { .raw = { 2 } };

static int open_ways(void **state)
{
	static struct simhca_ways ways;

	simhca_ways_open(&ways);
	*state = &ways;
	return 0;
}

static int close_ways(void **state)
{
	struct simhca_ways *ways = *state;

	assert_null(ways->first);
	simhca_ways_close(ways);
	return 0;
}

/* Those that are busy on this way; one that is not counts itself as well when it asks. */
static void busy_ones_count(void **state)
{
	struct simhca_share share[3] = { 0 };

	for (int i = 0; i < 3; i++)
		simhca_share_join(*state, &share[i], i < 2 ? &here : &there);
	assert_int_equal(simhca_share_count(&share[0]), 1);
	simhca_share_set_busy(&share[0], true);
	simhca_share_set_busy(&share[0], true);
	assert_int_equal(simhca_share_count(&share[0]), 1);
	assert_int_equal(simhca_share_count(&share[1]), 2);
	assert_int_equal(simhca_share_count(&share[2]), 1);
	simhca_share_set_busy(&share[1], true);
	assert_int_equal(simhca_share_count(&share[0]), 2);
	simhca_share_set_busy(&share[0], false);
	assert_int_equal(simhca_share_count(&share[1]), 1);
	for (int i = 0; i < 3; i++)
		simhca_share_leave(*state, &share[i]);
}

/* Who goes, or goes another way, is busy here no longer. */
static void who_leaves_counts_no_more(void **state)
{
	struct simhca_share share[2] = { 0 };

	for (int i = 0; i < 2; i++) {
		simhca_share_join(*state, &share[i], &here);
		simhca_share_set_busy(&share[i], true);
	}
	simhca_share_join(*state, &share[1], &there);
	assert_int_equal(simhca_share_count(&share[0]), 1);
	simhca_share_set_busy(&share[1], true);
	assert_int_equal(simhca_share_count(&share[1]), 1);
	simhca_share_join(*state, &share[1], &here);
	simhca_share_set_busy(&share[1], true);
	assert_int_equal(simhca_share_count(&share[0]), 2);
	simhca_share_leave(*state, &share[1]);
	simhca_share_leave(*state, &share[1]);
	assert_int_equal(simhca_share_count(&share[0]), 1);
	simhca_share_leave(*state, &share[0]);
}

static void without_a_way_it_is_alone(void **state)
{
	struct simhca_share share = { 0 };

	simhca_share_set_busy(&share, true);
	assert_int_equal(simhca_share_count(&share), 1);
	simhca_share_leave(*state, &share);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(busy_ones_count, open_ways, close_ways),
		cmocka_unit_test_setup_teardown(who_leaves_counts_no_more, open_ways, close_ways),
		cmocka_unit_test_setup_teardown(without_a_way_it_is_alone, open_ways, close_ways),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
