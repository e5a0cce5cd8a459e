/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Turns of CQs with callbacks: their order, events that come meanwhile, CQs that are being freed.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <sched.h>
#include <unistd.h>
#include <cmocka.h>

#include "dispatch.h"

#define CQS 4

static struct shca_rotation turns;
static struct shca_served cqs[CQS];
static struct shca_run run[CQS];
static int told;

static void on_added(struct shca_rotation *added_to)
{
	assert_ptr_equal(added_to, &turns);
	told++;
}

static int set_up(void **state)
{
	told = 0;
	shca_rotation_init(&turns, on_added);
	for (int i = 0; i < CQS; i++) {
		cqs[i] = (struct shca_served){ .turns = &turns };
		assert_int_equal(shca_users_init(&cqs[i].users), 0);
	}
	return 0;
}

static int tear_down(void **state)
{
	for (int i = 0; i < CQS; i++)
		shca_users_destroy(&cqs[i].users);
	shca_rotation_destroy(&turns);
	return 0;
}

static void takes(int cq)
{
	assert_ptr_equal(shca_rotation_take(&turns, &run[cq]), &cqs[cq]);
}

static void takes_none(void)
{
	struct shca_run none;

	assert_null(shca_rotation_take(&turns, &none));
}

static void ends(int cq, bool more)
{
	shca_rotation_end(&cqs[cq], &run[cq], more);
}

static void one_after_the_other(void **state)
{
	takes_none();
	for (int i = 0; i < CQS; i++)
		shca_rotation_want(&cqs[i]);
	shca_rotation_want(&cqs[2]); /* it is there already */
	assert_int_equal(shca_rotation_length(&turns), CQS);
	for (int round = 0; round < 3; round++)
		for (int i = 0; i < CQS; i++) {
			takes(i);
			ends(i, round < 2);
		}
	takes_none();
}

/* An event that comes while the CQ has its turn may be of a completion that the turn has not seen.
 */
static void event_during_the_turn(void **state)
{
	shca_rotation_want(&cqs[0]);
	takes(0);
	shca_rotation_want(&cqs[0]);
	shca_rotation_want(&cqs[0]);
	takes_none();
	ends(0, false);
	takes(0);
	ends(0, false); /* once is enough */
	takes_none();
}

static void no_turn_while_being_freed(void **state)
{
	shca_rotation_want(&cqs[0]);
	shca_rotation_want(&cqs[1]);
	assert_int_equal(shca_users_close(&cqs[0]), 0);
	assert_int_equal(shca_users_close(&cqs[0]), EALREADY);
	takes(1);
	takes_none();
	ends(1, false);
	/* It stays after all. */
	shca_users_reopen(&cqs[0]);
	takes_none();
	shca_rotation_want(&cqs[0]);
	takes(0);
	ends(0, false);
}

static void leaves(void **state)
{
	for (int i = 0; i < CQS; i++)
		shca_rotation_want(&cqs[i]);
	assert_int_equal(shca_users_close(&cqs[1]), 0);
	assert_int_equal(shca_users_wait(&cqs[1]), 0);
	shca_rotation_leave(&cqs[1]);
	shca_rotation_leave(&cqs[1]);
	assert_int_equal(shca_rotation_length(&turns), CQS - 1);
	takes(0);
	takes(2);
	takes(3);
	takes_none();
	ends(0, false);
	ends(2, false);
	ends(3, false);
}

/* Whoever takes a turn and leaves others waiting says so, for it may block. */
static void says_that_others_wait(void **state)
{
	shca_rotation_want(&cqs[0]);
	shca_rotation_want(&cqs[1]);
	assert_int_equal(told, 2);
	takes(0);
	assert_int_equal(told, 3);
	takes(1);
	assert_int_equal(told, 3);
	ends(0, false);
	ends(1, false);
	assert_int_equal(told, 3);
}

static void own_circle(void **state)
{
	shca_rotation_want(&cqs[0]);
	takes(0);
	assert_int_equal(shca_users_close(&cqs[0]), 0);
	assert_int_equal(shca_users_wait(&cqs[0]), EDEADLK);
	shca_users_reopen(&cqs[0]);
	ends(0, false);
	assert_int_equal(shca_users_close(&cqs[0]), 0);
	assert_int_equal(shca_users_wait(&cqs[0]), 0);
}

static struct shca_run other_run;

/* Inside of CQ 0, frees CQ 1. */
static void *frees_another(void *arg)
{
	int *result = arg;

	assert_true(shca_users_enter(&cqs[0], &other_run));
	assert_int_equal(shca_users_close(&cqs[1]), 0);
	*result = shca_users_wait(&cqs[1]);
	shca_users_exit(&other_run);
	return NULL;
}

/* A wait that is over is part of no circle: that thread may be inside of what others free. */
static void no_circle_by_a_wait_that_is_over(void **state)
{
	pthread_t thread;
	int result = -1;

	assert_int_equal(shca_users_close(&cqs[0]), 0);
	assert_int_equal(shca_users_wait(&cqs[0]), 0);
	shca_users_reopen(&cqs[0]);
	shca_rotation_want(&cqs[1]);
	takes(1);
	assert_int_equal(pthread_create(&thread, NULL, frees_another, &result), 0);
	while (!atomic_load(&cqs[1].users.closing))
		sched_yield();
	usleep(10000); /* it waits by now; should it not, it must not matter */
	ends(1, false);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(result, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(one_after_the_other, set_up, tear_down),
		cmocka_unit_test_setup_teardown(event_during_the_turn, set_up, tear_down),
		cmocka_unit_test_setup_teardown(no_turn_while_being_freed, set_up, tear_down),
		cmocka_unit_test_setup_teardown(leaves, set_up, tear_down),
		cmocka_unit_test_setup_teardown(says_that_others_wait, set_up, tear_down),
		cmocka_unit_test_setup_teardown(own_circle, set_up, tear_down),
		cmocka_unit_test_setup_teardown(no_circle_by_a_wait_that_is_over, set_up,
						tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
