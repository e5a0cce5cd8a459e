/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * An answer in a context's memory wakes the thread that waits for it. A program may let as many threads as
 * it likes sleep on that word: waking one of them is all that the answer takes.
 */
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>

#include "harness.h"

#define SLEEPERS 12

static struct simhca_answer_slot *slot;
static _Atomic uint32_t elsewhere;

static long futex(_Atomic uint32_t *word, int operation, uint32_t value, long more,
		  _Atomic uint32_t *other)
{
	return syscall(SYS_futex, word, (long)operation, (long)value, more, other, 0l);
}

static void *sleep_on_it(void *arg)
{
	futex(&slot->state, FUTEX_WAIT, SIMHCA_ANSWER_SLEEPING, 0, NULL);
	return arg;
}

/* The kernel says how many it takes from one word to another. */
static long sleepers(void)
{
	const long all = futex(&slot->state, FUTEX_REQUEUE, 0, INT_MAX, &elsewhere);

	futex(&elsewhere, FUTEX_REQUEUE, 0, INT_MAX, &slot->state);
	return all;
}

static void one_thread_is_woken(void **state)
{
	struct client *client = client_new(*state, 0);
	const uint64_t answer = 0x123456789abcdef;
	const struct iovec part = { (void *)&answer, sizeof(answer) };
	pthread_t thread[SLEEPERS];

	slot = &client->mem->answer[1];
	atomic_store(&slot->state, SIMHCA_ANSWER_SLEEPING);
	for (int i = 0; i < SLEEPERS; i++)
		assert_int_equal(0, pthread_create(&thread[i], NULL, sleep_on_it, NULL));
	while (sleepers() < SLEEPERS)
		test_nap(1000);
	assert_true(simhca_context_answer(client->context, 1, &part, 1));
	assert_int_equal(futex(&slot->state, FUTEX_WAKE, INT_MAX, 0, NULL), SLEEPERS - 1);
	for (int i = 0; i < SLEEPERS; i++)
		assert_int_equal(0, pthread_join(thread[i], NULL));
	assert_int_equal(atomic_load(&slot->state), SIMHCA_ANSWER_ANSWERED);
	assert_int_equal(slot->bytes, sizeof(answer));
	assert_memory_equal(slot->answer, &answer, sizeof(answer));
}

static void what_does_not_fit_is_refused(void **state)
{
	struct client *client = client_new(*state, 0);
	static const char much[SIMHCA_ANSWER_BYTES + 1];
	const struct iovec parts[] = { { (void *)much, SIMHCA_ANSWER_BYTES }, { (void *)much, 1 } };

	assert_true(simhca_context_answer(client->context, 0, parts, 1));
	assert_false(simhca_context_answer(client->context, 0, parts, 2));
	assert_false(simhca_context_answer(client->context, SIMHCA_ANSWER_SLOTS, parts, 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(one_thread_is_woken, setup_ethernet, teardown),
		cmocka_unit_test_setup_teardown(what_does_not_fit_is_refused, setup_ethernet,
						teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
