/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The threads of on-demand paging: how many there are, when there are more, and how they end. The
 * program provides what they run, and says whether they are stuck.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/log.h"
#include "loop/paging.h"
#include "base/thread.h"
#include "simhca-clock.h"

/* ------------------------------------------------------------ in place of the device model */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static unsigned int workers, readers, were; /* that run; that ran */
static bool workers_end, readers_end;	    /* told to */
static pthread_t deaf;			    /* one does not, whatever it is told */
static bool any_deaf;
static unsigned int signals_open; /* threads that would take some, or none of their own accesses */
static bool idle;		  /* somebody is */
static bool stuck;
static unsigned int asked; /* whether they are */

static void live(unsigned int *count, const bool *end)
{
	sigset_t blocked;

	pthread_mutex_lock(&lock);
	++*count;
	were++;
	pthread_sigmask(SIG_SETMASK, NULL, &blocked);
	for (int i = 1; i < 32; i++) {
		if (i == SIGKILL || i == SIGSTOP || sigismember(&blocked, i) == (i != SIGBUS))
			continue;
		signals_open++;
		break;
	}
	pthread_cond_broadcast(&changed);
	while (!*end || (any_deaf && pthread_equal(deaf, pthread_self())))
		pthread_cond_wait(&changed, &lock);
	--*count;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

static void set(bool *what, bool value)
{
	pthread_mutex_lock(&lock);
	*what = value;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

void simhca_faults_run(struct simhca_fabric *fabric)
{
	live(&workers, &workers_end);
}

void simhca_faults_stop(struct simhca_fabric *fabric)
{
	set(&workers_end, true);
}

int simhca_faults_stuck(struct simhca_fabric *fabric)
{
	asked++;
	return idle ? -1 : stuck;
}

void simhca_pagers_run(struct simhca_fabric *fabric)
{
	live(&readers, &readers_end);
}

void simhca_pagers_stop(struct simhca_fabric *fabric)
{
	set(&readers_end, true);
}

static unsigned int errors, warnings;

void log_message(enum simhca_log_level level, const char *format, ...)
{
	errors += level == SIMHCA_LOG_ERROR;
	warnings += level == SIMHCA_LOG_WARNING;
}

/* The linker calls these so. */
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
			  void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
			  void *arg);
static unsigned int created, fails_at; /* threads; the one that cannot be had, from 1 */

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
			  void *arg)
{
	if (++created == fails_at)
		return EAGAIN;
	return __real_pthread_create(thread, attr, run, arg);
}

/* ------------------------------------------------------------------------------------ tests */

struct fixture {
	struct ev_loop *loop;
	struct paging paging;
};

/* The fabric is nobody's but the functions' above. */
static struct simhca_fabric *const fabric = (struct simhca_fabric *)&lock;

static int setup(void **state)
{
	static struct fixture f;

	f = (struct fixture){ .loop = ev_loop_new(EVFLAG_AUTO) };
	workers = readers = were = signals_open = asked = errors = warnings = created = 0;
	fails_at = 0;
	workers_end = readers_end = any_deaf = stuck = idle = false;
	*state = &f;
	return f.loop ? 0 : -1;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	ev_loop_destroy(f->loop);
	return 0;
}

/* Until so many threads have come. */
static void await(const unsigned int *count, unsigned int number)
{
	pthread_mutex_lock(&lock);
	while (*count != number)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
}

static void start(struct fixture *f, unsigned int count)
{
	assert_int_equal(0, paging_start(&f->paging, fabric, f->loop, count));
	await(&workers, count);
	await(&readers, 1);
}

/* As many as were asked for, and one that reads events; all of them end. */
static void as_many_as_were_asked_for(void **state)
{
	struct fixture *f = *state;

	for (unsigned int count = 1; count < 6; count++) {
		workers_end = readers_end = false;
		start(f, count);
		assert_true(paging_stop(&f->paging));
		assert_int_equal(workers, 0);
		assert_int_equal(readers, 0);
	}
	assert_int_equal(were, 1 + 2 + 3 + 4 + 5 + 5);
	assert_int_equal(errors + warnings, 0);
}

/* Signals are the main thread's business, and go on being it. */
static void none_of_them_takes_signals(void **state)
{
	struct fixture *f = *state;
	sigset_t before, after;

	sigemptyset(&before);
	sigaddset(&before, SIGUSR1);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	start(f, 4);
	pthread_sigmask(SIG_SETMASK, NULL, &after);
	assert_int_equal(signals_open, 0);
	for (int i = 1; i < 32; i++)
		assert_int_equal(sigismember(&before, i), sigismember(&after, i));
	assert_true(paging_stop(&f->paging));
}

static void look(struct fixture *f, unsigned int times)
{
	while (times--)
		ev_invoke(f->loop, &f->paging.watch, EV_TIMER);
}

/* Each time that all are found stuck there is another one, up to so many; and else none. */
static void another_one_when_all_are_stuck(void **state)
{
	struct fixture *f = *state;

	start(f, 2);
	look(f, 3);
	assert_int_equal(f->paging.workers, 2);
	stuck = true;
	look(f, 3);
	await(&workers, 5);
	assert_int_equal(warnings, 3);
	stuck = false;
	look(f, 3);
	assert_int_equal(f->paging.workers, 5);
	stuck = true;
	look(f, 2 * PAGING_WORKERS_MOST);
	assert_int_equal(f->paging.workers, PAGING_WORKERS_MOST);
	await(&workers, PAGING_WORKERS_MOST);
	assert_int_equal(warnings, PAGING_WORKERS_MOST - 2);
	assert_int_equal(errors, 0);
	assert_true(paging_stop(&f->paging));
	assert_int_equal(workers, 0);
}

/* It is looked again and again, from when there are too few of them until one is idle. */
static void the_watch(void **state)
{
	struct fixture *f = *state;

	start(f, 1);
	ev_run(f->loop, EVRUN_NOWAIT);
	assert_int_equal(asked, 0);
	paging_is_short(&f->paging);
	while (asked < 3)
		ev_run(f->loop, EVRUN_ONCE);
	assert_true(ev_is_active(&f->paging.watch));
	idle = true;
	while (asked < 4)
		ev_run(f->loop, EVRUN_ONCE);
	assert_false(ev_is_active(&f->paging.watch));
	/* It was over before anybody looked. */
	paging_is_short(&f->paging);
	while (asked < 5)
		ev_run(f->loop, EVRUN_ONCE);
	assert_false(ev_is_active(&f->paging.watch));
	idle = false;
	paging_is_short(&f->paging);
	while (asked < 7)
		ev_run(f->loop, EVRUN_ONCE);
	assert_true(paging_stop(&f->paging));
	/* Nothing is left that the loop would wait for. */
	ev_run(f->loop, 0);
	assert_int_equal(asked, 7);
}

/* A worker that cannot be had is said to be missing, and tried again. */
static void another_one_that_cannot_be_had(void **state)
{
	struct fixture *f = *state;

	start(f, 1);
	stuck = true;
	fails_at = created + 1;
	look(f, 1);
	assert_int_equal(f->paging.workers, 1);
	assert_int_equal(errors, 1);
	look(f, 1);
	assert_int_equal(f->paging.workers, 2);
	await(&workers, 2);
	assert_int_equal(errors, 1);
	assert_true(paging_stop(&f->paging));
}

/* If one of the first cannot be had, no more are tried, and those that were there end. */
static void a_start_that_fails(void **state)
{
	struct fixture *f = *state;

	for (fails_at = 1; fails_at < 5; fails_at++) {
		workers_end = readers_end = false;
		created = were = errors = 0;
		assert_int_equal(-1, paging_start(&f->paging, fabric, f->loop, 3));
		assert_int_equal(created, fails_at);
		assert_int_equal(errors, 1);
		assert_true(paging_stop(&f->paging));
		assert_int_equal(were, fails_at - 1);
		assert_int_equal(workers + readers, 0);
		ev_run(f->loop, 0);
		assert_int_equal(asked, 0);
	}
}

/* What was never started is stopped, too, when another part of the daemon could not start. */
static void nothing_was_started(void **state)
{
	struct fixture *f = *state;

	assert_true(paging_stop(&f->paging));
	assert_false(workers_end || readers_end);
}

/* Whoever cannot be ended is not waited for without end, and the daemon learns of it. */
static void one_that_does_not_end(void **state)
{
	struct fixture *f = *state;
	struct thread *thread;

	for (int i = 0; i < 3; i++) {
		workers_end = readers_end = false;
		errors = 0;
		start(f, 2);
		thread = i < 2 ? f->paging.worker[i] : f->paging.reader;
		deaf = thread_id(thread);
		set(&any_deaf, true);
		assert_false(paging_stop(&f->paging));
		assert_int_equal(errors, 1);
		/* The others have ended. */
		assert_int_equal(workers, i < 2);
		assert_int_equal(readers, i == 2);
		set(&any_deaf, false);
		assert_true(thread_join(thread, simhca_now_ns() + 10000000000u));
	}
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(as_many_as_were_asked_for),
		TEST(none_of_them_takes_signals),
		TEST(another_one_when_all_are_stuck),
		TEST(the_watch),
		TEST(another_one_that_cannot_be_had),
		TEST(a_start_that_fails),
		TEST(nothing_was_started),
		TEST(one_that_does_not_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
