/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The event loop after a command: it looks for another one for a while, and then it sleeps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "loop/attention.h"

struct world {
	struct ev_loop *loop;
	struct attention attention;
};

static int set_up(void **state)
{
	static struct world world;

	world = (struct world){ .loop = ev_loop_new(EVFLAG_AUTO) };
	assert_non_null(world.loop);
	attention_init(&world.attention, world.loop);
	*state = &world;
	return 0;
}

static int tear_down(void **state)
{
	struct world *world = *state;

	ev_loop_destroy(world->loop);
	return 0;
}

/* A command after which none follows; false: nobody looked for one. */
static bool looks_in_vain(struct world *world)
{
	bool looks;

	attention_pay(&world->attention);
	looks = ev_is_active(&world->attention.idle);
	ev_run(world->loop, 0); /* until nothing keeps it awake any more */
	assert_false(ev_is_active(&world->attention.idle));
	return looks;
}

/* A command, and another one after it has looked for it so often. */
static bool finds_one(struct world *world, unsigned int rounds)
{
	bool looks;

	attention_pay(&world->attention);
	looks = ev_is_active(&world->attention.idle);
	for (unsigned int i = 0; i < rounds; i++)
		ev_run(world->loop, EVRUN_NOWAIT);
	if (looks)
		assert_true(ev_is_active(&world->attention.idle));
	attention_pay(&world->attention);
	return looks;
}

static unsigned int pause_of(struct world *world)
{
	unsigned int pause = 0;

	while (!looks_in_vain(world))
		pause++;
	return pause;
}

static void sleeps_when_none_follows(void **state)
{
	assert_true(looks_in_vain(*state));
}

static void looks_on_after_each(void **state)
{
	for (int i = 0; i < 10; i++)
		assert_true(finds_one(*state, 30));
}

static void pauses_longer_and_longer(void **state)
{
	assert_int_equal(pause_of(*state), 0);
	for (unsigned int expected = 0; expected < 1000; expected = 2 * expected + 1)
		assert_int_equal(pause_of(*state), expected);
	for (int i = 0; i < 3; i++)
		pause_of(*state);
	assert_int_equal(pause_of(*state), 2 * SIMHCA_SPIN_LONGEST_PAUSE - 1);
}

static void a_success_makes_pauses_shorter(void **state)
{
	struct world *world = *state;

	for (int i = 0; i < 5; i++)
		pause_of(world); /* 0, 0, 1, 3, 7 */
	while (!finds_one(world, 1))
		;
	ev_run(world->loop, 0);
	assert_true(pause_of(world) < 15);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(sleeps_when_none_follows, set_up, tear_down),
		cmocka_unit_test_setup_teardown(looks_on_after_each, set_up, tear_down),
		cmocka_unit_test_setup_teardown(pauses_longer_and_longer, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_success_makes_pauses_shorter, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
