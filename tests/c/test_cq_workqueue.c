/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * How many workers poll the CQs of WORKQUEUE: as many as CPUs while turns are taken, one more each
 * time that none was taken for a while. How long a while is, the test says: the manager's timed
 * wait ends when the test lets it.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <sched.h>
#include <semaphore.h>
#include <time.h>
#include <cmocka.h>

#include "dispatch.h"

#define CQS 8

static struct shca_served cqs[CQS];
static sem_t go_on[CQS];	/* ends the turn of a CQ */
static sem_t began;		/* a turn */
static sem_t watching;		/* the manager's wait has begun */
static sem_t a_while;		/* and ends */
static atomic_int inside, most; /* turns at a time */
static atomic_bool closing;	/* no wait lasts any more */

bool shca_served_turn(struct shca_served *served, const struct shca_run *run)
{
	int now = atomic_fetch_add(&inside, 1) + 1;

	if (now > atomic_load(&most))
		atomic_store(&most, now);
	sem_post(&began);
	sem_wait(&go_on[served - cqs]);
	atomic_fetch_sub(&inside, 1);
	return false;
}

int shca_start_thread(pthread_t *thread, const char *name, void *(*run)(void *), void *arg)
{
	return pthread_create(thread, NULL, run, arg);
}

int __wrap_pthread_cond_clockwait(pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t clock,
				  const struct timespec *end);
int __wrap_pthread_cond_clockwait(pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t clock,
				  const struct timespec *end)
{
	pthread_mutex_unlock(mutex);
	sem_post(&watching);
	if (!atomic_load(&closing))
		sem_wait(&a_while);
	pthread_mutex_lock(mutex);
	return ETIMEDOUT;
}

static bool comes_within(sem_t *what, long ms)
{
	struct timespec end;

	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += ms / 1000;
	end.tv_nsec += ms % 1000 * 1000000;
	if (end.tv_nsec >= 1000000000) {
		end.tv_nsec -= 1000000000;
		end.tv_sec++;
	}
	return !sem_timedwait(what, &end);
}

/* Fails the test rather than wait for ever. */
static void await(sem_t *what)
{
	assert_true(comes_within(what, 20000));
}

/*
 * Time goes on until a turn begins. The manager may see a while end in which the last turn was
 * taken, for it looks again as soon as it has made a worker.
 */
static void begins_after_a_while(void)
{
	await(&watching);
	for (int whiles = 0; whiles < 3; whiles++) {
		sem_post(&a_while);
		if (comes_within(&began, whiles < 2 ? 200 : 20000))
			return;
		await(&watching);
	}
	fail_msg("no worker was added");
}

static int set_up(void **state)
{
	struct shca_rotation *turns;
	cpu_set_t cpu;

	/* The workqueue counts the CPUs that it may use: one. */
	CPU_ZERO(&cpu);
	CPU_SET(sched_getcpu(), &cpu);
	assert_int_equal(sched_setaffinity(0, sizeof(cpu), &cpu), 0);
	atomic_store(&inside, 0);
	atomic_store(&most, 0);
	atomic_store(&closing, false);
	sem_init(&began, 0, 0);
	sem_init(&watching, 0, 0);
	sem_init(&a_while, 0, 0);
	turns = shca_workqueue_get();
	assert_non_null(turns);
	for (int i = 0; i < CQS; i++) {
		sem_init(&go_on[i], 0, 0);
		cqs[i] = (struct shca_served){ .turns = turns };
		assert_int_equal(shca_users_init(&cqs[i].users), 0);
	}
	*state = turns;
	return 0;
}

static int tear_down(void **state)
{
	atomic_store(&closing, true);
	sem_post(&a_while);
	for (int i = 0; i < CQS; i++)
		sem_post(&go_on[i]);
	shca_workqueue_put(*state);
	for (int i = 0; i < CQS; i++)
		shca_users_destroy(&cqs[i].users);
	return 0;
}

/* CQs wait, but the worker takes one after the other. */
static void no_more_than_cpus(void **state)
{
	for (int i = 0; i < CQS; i++)
		shca_rotation_want(&cqs[i]);
	await(&began);
	await(&watching);
	for (int i = 0; i < CQS - 2; i++) {
		sem_post(&go_on[i]);
		await(&began);	    /* the next one's turn */
		sem_post(&a_while); /* a while in which one was taken */
		await(&watching);
	}
	assert_int_equal(most, 1);
}

/* The worker is in a callback that blocks, then another one is, and so on. */
static void one_more_after_a_while(void **state)
{
	shca_rotation_want(&cqs[0]);
	await(&began);
	for (int i = 1; i < 4; i++) {
		shca_rotation_want(&cqs[i]);
		assert_false(comes_within(&began, 20));
		begins_after_a_while();
		assert_int_equal(inside, i + 1);
	}
}

/* They stay: the next time as many block there is nothing to wait for. But for one more there is.
 */
static void workers_stay(void **state)
{
	one_more_after_a_while(state);
	for (int i = 0; i < 4; i++)
		sem_post(&go_on[i]);
	while (atomic_load(&inside))
		sched_yield();
	for (int i = 0; i < 4; i++) {
		shca_rotation_want(&cqs[i]);
		await(&began);
	}
	assert_int_equal(inside, 4);
	shca_rotation_want(&cqs[4]);
	begins_after_a_while();
	assert_int_equal(inside, 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(no_more_than_cpus, set_up, tear_down),
		cmocka_unit_test_setup_teardown(one_more_after_a_while, set_up, tear_down),
		cmocka_unit_test_setup_teardown(workers_stay, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
