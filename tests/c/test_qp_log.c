/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Lines about QPs: a program that fails in a loop has a share of the log, and says what it lost. */
#include "core/qp_log.h"
#include "harness.h"

/* A datagram that finds its receive too short: one line about b's QP. */
static unsigned int lines_of_one_failure(struct world *world, struct pair *pair)
{
	forget_log(world);
	send_from(&pair->a, 2, 0, 200);
	expect(pair->a.send_cq, 2, SUCCESS);
	run_until_idle(world);
	return logged(world, "drops a request");
}

static struct pair *failing(struct world *world)
{
	struct options options = default_options(IBV_QPT_UD);
	struct pair *pair = pair_new(world, &options);

	recv_into(&pair->b, 1, 0, 50);
	return pair;
}

static void a_program_has_a_share(void **state)
{
	struct pair *pair = failing(*state), *other = failing(*state), *same = failing(*state);
	unsigned int written = 0, tries = 0, of_same = 0;

	simhca_context_share(pair->b.client->context, 1);
	simhca_context_share(same->b.client->context, 1);
	simhca_context_share(other->b.client->context, 2);
	/* Lines grow back meanwhile, more slowly than they are taken. */
	do {
		assert_true(tries < 50 * SIMHCA_LOG_SHARE);
		written += lines_of_one_failure(*state, pair);
	} while (written == ++tries);
	assert_true(written >= SIMHCA_LOG_SHARE);
	/* Its lines are the program's, of which one can have grown back just now. */
	for (tries = 0; tries < 50 && of_same == tries; tries++)
		of_same += lines_of_one_failure(*state, same);
	assert_true(of_same < tries);
	assert_int_equal(lines_of_one_failure(*state, other), 1);

	test_nap(3 * 1000000 / SIMHCA_LOG_SHARE_PER_S);
	assert_int_equal(lines_of_one_failure(*state, pair), 1);
	assert_int_equal(logged(*state, "lines were left out here"), 1);
	assert_int_equal(lines_of_one_failure(*state, pair), 1);
	assert_int_equal(logged(*state, "lines were left out here"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_program_has_a_share, setup_ethernet, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
