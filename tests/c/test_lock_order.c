/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* A build that checks the order of locks ends who takes them in another (core/lock.h). */
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "core/lock.h"
#include "harness.h"

#ifdef SIMHCA_LOCK_CHECK

static pthread_mutex_t cq, engine, other_engine, unknown = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t fabric;

static int setup_locks(void **state)
{
	simhca_mutex_init(&cq, SIMHCA_LOCK_CQ);
	simhca_mutex_init(&engine, SIMHCA_LOCK_ENGINE);
	simhca_mutex_init(&other_engine, SIMHCA_LOCK_ENGINE);
	simhca_rwlock_init(&fabric, NULL, SIMHCA_LOCK_FABRIC);
	return 0;
}

static void in_order(void)
{
	pthread_rwlock_rdlock(&fabric);
	pthread_mutex_lock(&cq);
	pthread_mutex_lock(&engine);
	/* They may be let go of in any order. */
	pthread_mutex_unlock(&cq);
	pthread_rwlock_unlock(&fabric);
	pthread_mutex_unlock(&engine);
	pthread_rwlock_wrlock(&fabric);
	pthread_rwlock_unlock(&fabric);
}

/* Nobody waits for what is tried only; but what is taken after it is in order. */
static void tried(void)
{
	pthread_mutex_lock(&engine);
	assert_int_equal(pthread_mutex_trylock(&cq), 0);
	pthread_mutex_unlock(&cq);
	assert_int_equal(pthread_rwlock_trywrlock(&fabric), 0);
	pthread_rwlock_unlock(&fabric);
	pthread_mutex_unlock(&engine);
}

static void the_wrong_way_round(void)
{
	pthread_mutex_lock(&engine);
	pthread_mutex_lock(&cq);
}

static void a_list_after_a_queue(void)
{
	pthread_mutex_lock(&cq);
	pthread_rwlock_rdlock(&fabric);
}

static void two_of_a_kind(void)
{
	pthread_mutex_lock(&engine);
	pthread_mutex_lock(&other_engine);
}

static void one_twice(void)
{
	pthread_rwlock_rdlock(&fabric);
	pthread_rwlock_rdlock(&fabric);
}

static void after_one_that_was_tried(void)
{
	pthread_mutex_trylock(&engine);
	pthread_mutex_lock(&cq);
}

static void without_a_rank(void)
{
	pthread_mutex_lock(&unknown);
}

static void what_is_not_held(void)
{
	pthread_mutex_unlock(&cq);
}

static const struct {
	void (*run)(void);
	const char *says; /* NULL: nothing, for it is right */
} rows[] = {
	{ in_order, NULL },
	{ tried, NULL },
	{ the_wrong_way_round, "lock CQ is taken by who holds ENGINE" },
	{ a_list_after_a_queue, "lock FABRIC is taken by who holds CQ" },
	{ two_of_a_kind, "lock ENGINE is taken by who holds ENGINE" },
	{ one_twice, "lock FABRIC is taken by who holds FABRIC" },
	{ after_one_that_was_tried, "lock CQ is taken by who holds ENGINE" },
	{ without_a_rank, "lock none: it has no rank" },
	{ what_is_not_held, "lock CQ: it is not held by who lets go of it" },
};

static void who_breaks_the_order_is_ended(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char text[256] = "";
		int pipes[2], status;
		pid_t child;

		assert_int_equal(pipe(pipes), 0);
		child = fork();
		if (!child) {
			const struct rlimit none = { 0, 0 };

			setrlimit(RLIMIT_CORE, &none);
			signal(SIGABRT, SIG_DFL);
			dup2(pipes[1], STDERR_FILENO);
			rows[i].run();
			_exit(0);
		}
		close(pipes[1]);
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_true(read(pipes[0], text, sizeof(text) - 1) >= 0);
		close(pipes[0]);
		if (!rows[i].says) {
			assert_true(WIFEXITED(status) && !WEXITSTATUS(status));
			continue;
		}
		assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
		if (strncmp(text, rows[i].says, strlen(rows[i].says)) != 0)
			fail_msg("\"%s\" instead of \"%s\"", text, rows[i].says);
	}
}

#else

static int setup_locks(void **state)
{
	return 0;
}

static void who_breaks_the_order_is_ended(void **state)
{
	skip(); /* this build checks nothing */
}

#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_breaks_the_order_is_ended),
	};

	return cmocka_run_group_tests(tests, setup_locks, NULL);
}
