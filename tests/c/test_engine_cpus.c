/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * An engine with a thread on each of two CPUs: one works at a time, and one that is stuck loses its
 * turn. And who falls asleep looks a last time.
 */
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "engine/engine_impl.h"
#include "harness.h"

/* What the engine does in a step, in its own thread: it tells of a completion event. */
struct watch {
	atomic_int inside, most;
	_Atomic pid_t first; /* thread that came */
	atomic_uint others;  /* times that another one came */
	pthread_t thread;    /* that came last */
	enum { PASS, SPIN, SPIN_WIDE, SLEEP } how;
	atomic_bool entered, go_on;
};

/* The step of this thread may hold objects of any context again. */
static void widen(struct simhca_engine *engine)
{
	struct simhca_worker *worker = engine->workers;

	while (worker->tid != gettid())
		worker = worker->next;
	simhca_guard_widen(&worker->guard);
}

static void on_event(struct cq *cq, void *arg)
{
	struct watch *watch = arg;
	int inside = atomic_fetch_add(&watch->inside, 1) + 1;
	pid_t tid = gettid();

	if (watch->how == SPIN_WIDE)
		widen(cq->client->context->engine);
	if (inside > atomic_load(&watch->most))
		atomic_store(&watch->most, inside);
	if (!atomic_load(&watch->first))
		atomic_store(&watch->first, tid);
	else if (atomic_load(&watch->first) != tid)
		atomic_fetch_add(&watch->others, 1);
	watch->thread = pthread_self();
	atomic_store(&watch->entered, true);
	while (watch->how != PASS && !atomic_load(&watch->go_on))
		if (watch->how == SLEEP)
			test_nap(1000);
	atomic_fetch_sub(&watch->inside, 1);
}

/* The world's: a completion comes before its event, so the last one may come after the test. */
static struct watch *watch_new(struct world *world)
{
	return world_alloc(world, sizeof(struct watch));
}

/* The engine's threads have told it of themselves: from here on who they are does not change. */
static void wait_for_threads(struct world *world)
{
	const uint32_t all = world->threaded + world->second_threads;
	struct simhca_engine *engine = world->engine[0];
	uint32_t threads = 0;

	for (int n = 0; threads < all && n < 100000; n++) {
		test_nap(100);
		threads = 0;
		pthread_rwlock_rdlock(&engine->fabric->lock);
		for (struct simhca_worker *worker = engine->workers; worker; worker = worker->next)
			threads++;
		pthread_rwlock_unlock(&engine->fabric->lock);
	}
	assert_int_equal(threads, all);
}

static struct pair *pair_watched(struct world *world, struct watch *watch)
{
	struct options options = default_options(IBV_QPT_RC);
	struct pair *pair;

	wait_for_threads(world);

	options.timeout = 0; /* no timer wakes a thread */
	pair = pair_new(world, &options);
	pair->a.send_cq->on_event = on_event;
	pair->a.send_cq->on_event_arg = watch;
	return pair;
}

static void write_and_notify(struct pair *pair, uint32_t id)
{
	cq_arm(pair->a.send_cq, SIMHCA_ARM_NEXT);
	rdma_write(&pair->a, id, 0, 8, 0);
}

/* A thread has to wait in its step until we say. */
static void hold(struct pair *pair, struct watch *watch, int how)
{
	watch->how = how;
	write_and_notify(pair, 1);
	for (int n = 0; !atomic_load(&watch->entered) && n < 100000; n++)
		test_nap(100);
	assert_true(atomic_load(&watch->entered));
}

/* Of the thread that waits: it is found to be stuck at the second look. */
static int stuck_cpu_index(struct world *world)
{
	int cpu_index = -1;

	for (int i = 0; i < 1000 && cpu_index < 0; i++) {
		cpu_index = simhca_engine_stuck(world->engine[0]);
		test_nap(100);
	}
	assert_in_range(cpu_index, 0, 1);
	return cpu_index;
}

static void let_go(struct pair *pair, struct watch *watch)
{
	atomic_store(&watch->go_on, true);
	expect(pair->a.send_cq, 1, SUCCESS);
	/* It came before the event: the thread may still be with us. */
	for (int n = 0; atomic_load(&watch->inside) && n < 100000; n++)
		test_nap(100);
	assert_int_equal(atomic_load(&watch->inside), 0);
}

enum { PAIRS = 4, LAPS = 500 };

/* Doorbells come in on both CPUs, but two threads are never in a step at once. */
static void one_thread_works_at_a_time(void **state)
{
	struct watch *watch = watch_new(*state);
	struct pair *pair[PAIRS];

	for (int i = 0; i < PAIRS; i++)
		pair[i] = pair_watched(*state, watch);
	for (uint32_t lap = 0; lap < LAPS; lap++) {
		for (int i = 0; i < PAIRS; i++)
			write_and_notify(pair[i], lap);
		for (int i = 0; i < PAIRS; i++)
			expect(pair[i]->a.send_cq, lap, SUCCESS);
	}
	assert_int_equal(atomic_load(&watch->most), 1);
}

/* Without giving up the CPU. By the clock: a loop that is counted is slower under a sanitizer. */
static void pause_for(uint64_t ns)
{
	struct timespec begin, now;

	clock_gettime(CLOCK_MONOTONIC, &begin);
	do
		clock_gettime(CLOCK_MONOTONIC, &now);
	while ((uint64_t)(now.tv_sec - begin.tv_sec) * SEC + (uint64_t)now.tv_nsec <
	       ns + (uint64_t)begin.tv_nsec);
}

/* Whether an engine is woken just after it fell asleep is not left to the scheduler. */
static int setup_slow_time(void **state)
{
	*state = world_new(
		&(struct world_config){ .threads = 1, .two_cpus = true, .ns_per_look = 1000 });
	return 0;
}

/*
 * A program that rings on one CPU only, again and again, is served from another one for a try. The
 * pauses let the engine fall asleep between some of the requests, and not between others.
 */
static void another_cpus_thread_is_invited(void **state)
{
	struct world *world = *state;
	struct watch *watch = watch_new(world);
	struct pair *pair = pair_watched(world, watch);
	cpu_set_t before, cpus;
	uint64_t seed = 5;

	sched_getaffinity(0, sizeof(before), &before);
	if (!CPU_ISSET(0, &before) || !CPU_ISSET(1, &before))
		skip(); /* the engine's threads are on these two */
	CPU_ZERO(&cpus);
	CPU_SET(1, &cpus);
	sched_setaffinity(0, sizeof(cpus), &cpus);
	world->ring_cpu_index = 1;
	for (uint32_t i = 0; i < 50000 && !atomic_load(&watch->others); i++) {
		write_and_notify(pair, i);
		expect(pair->a.send_cq, i, SUCCESS);
		pause_for(test_random(&seed) % 20000);
	}
	sched_setaffinity(0, sizeof(before), &before);
	assert_int_not_equal(atomic_load(&watch->others), 0);
}

static bool wakes(const struct simhca_engine *engine, uint32_t cpu_index)
{
	struct pollfd waits = { .fd = engine->cpus[cpu_index].epoll_fd, .events = POLLIN };

	return poll(&waits, 1, 0) == 1;
}

/* The poller looks at the eventfds of all CPUs, and more often than a CPU wakes up. */
static void who_is_invited_wakes_up(void **state)
{
	const struct simhca_engine_config config = { .num_cpus = 2, .cpu = { 0, 1 } };
	struct world *world = *state;
	struct simhca_engine *engine = simhca_engine_create(world->fabric, &config);

	assert_non_null(engine);
	atomic_store(&engine->poller.invited, 2);
	for (uint32_t i = 0; i < 2; i++) {
		simhca_engine_wake_cpu(engine, i);
		simhca_engine_wait(engine, i, 0, NULL);
	}
	assert_false(wakes(engine, 0));
	assert_true(wakes(engine, 1));
	atomic_store(&engine->poller.invited, 0);
	simhca_engine_wait(engine, 1, 0, NULL);
	assert_false(wakes(engine, 1));
	simhca_engine_destroy(engine);
}

static uint64_t cpu_time(pthread_t thread)
{
	struct timespec used;
	clockid_t clock;

	assert_int_equal(0, pthread_getcpuclockid(thread, &clock));
	clock_gettime(clock, &used);
	return (uint64_t)used.tv_sec * SEC + (uint64_t)used.tv_nsec;
}

/*
 * Its guard stays as it is for as long as it has no CPU; that is not being stuck. Using one for
 * longer than any step is.
 */
static void check_running(struct world *world, int how)
{
	struct watch *watch = watch_new(world);
	struct pair *pair = pair_watched(world, watch);
	uint64_t start, used = 0;
	int cpu_index = -1;

	hold(pair, watch, how);
	start = cpu_time(watch->thread);
	assert_int_equal(simhca_engine_stuck(world->engine[0]), -1);
	for (int i = 0; i < 10000 && cpu_index < 0; i++) {
		cpu_index = simhca_engine_stuck(world->engine[0]);
		used = cpu_time(watch->thread) - start;
		test_nap(1000);
	}
	let_go(pair, watch);
	assert_in_range(cpu_index, 0, 1);
	assert_in_range(used, 100 * MSEC, UINT64_MAX);
}

static void a_thread_that_runs_is_not_stuck(void **state)
{
	check_running(*state, SPIN);
}

/* Nor does it matter where in its step it is. */
static void a_thread_that_runs_outside_of_memory(void **state)
{
	check_running(*state, SPIN_WIDE);
}

static void a_thread_that_waits_is_stuck(void **state)
{
	struct world *world = *state;
	struct watch *watch = watch_new(world);
	struct pair *pair = pair_watched(world, watch);
	int cpu_index = -1;

	hold(pair, watch, SLEEP);
	/* It sleeps nearly all of the time. */
	for (int i = 0; i < 100 && cpu_index < 0; i++) {
		cpu_index = simhca_engine_stuck(world->engine[0]);
		test_nap(100);
	}
	let_go(pair, watch);
	assert_in_range(cpu_index, 0, 1);
	for (int i = 0; i < 10; i++)
		simhca_engine_stuck(world->engine[0]);
	test_nap(10000);
	assert_int_equal(simhca_engine_stuck(world->engine[0]), -1);
}

/* The thread on the other CPU goes on for one that is found to be stuck. */
static void others_go_on_without_the_stuck(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct world *world = *state;
	struct watch *watch = watch_new(world);
	struct pair *stuck = pair_watched(world, watch), *well = pair_new(world, &options);
	int cpu_index;

	hold(stuck, watch, SLEEP);
	cpu_index = stuck_cpu_index(world);
	world->ring_cpu_index = 1 - (unsigned int)cpu_index;
	for (uint32_t i = 0; i < 100; i++) {
		rdma_write(&well->a, i, 0, 8, 0);
		expect(well->a.send_cq, i, SUCCESS);
	}
	let_go(stuck, watch);
	world->ring_cpu_index = 2;
	for (uint32_t i = 0; i < 100; i++) {
		rdma_write(&stuck->a, i, 0, 8, 0);
		expect(stuck->a.send_cq, i, SUCCESS);
	}
}

/* What woke the other thread in vain is there when it is woken again. */
static void work_left_to_the_stuck_is_found(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct world *world = *state;
	struct watch *watch = watch_new(world);
	struct pair *stuck = pair_watched(world, watch), *well = pair_new(world, &options);
	int cpu_index;

	hold(stuck, watch, SLEEP);
	world->ring_cpu_index = 0;
	rdma_write(&well->a, 1, 0, 8, 0);
	world->ring_cpu_index = 1;
	rdma_write(&well->b, 2, 0, 8, 0);
	test_nap(20000);
	cpu_index = stuck_cpu_index(world);
	/* The other one waits for a thread on the CPU of the stuck one. */
	if (cpu_index)
		expect(well->a.send_cq, 1, SUCCESS);
	else
		expect(well->b.send_cq, 2, SUCCESS);
	let_go(stuck, watch);
}

/* A thread that does not get the CPU that it is bound to, for one. */
static void what_a_cpu_does_not_hear_is_heard(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct world *world = *state;
	struct pair *pair = pair_new(world, &options);
	struct simhca_cqe cqe;

	world->ring_cpu_index = 1;
	for (uint32_t i = 0; i < 10; i++) {
		rdma_write(&pair->a, i, 0, 8, 0);
		for (int n = 0; n < 1000 && !cq_poll(pair->a.send_cq, &cqe); n++) {
			simhca_engine_stuck(world->engine[0]);
			test_nap(1000);
		}
		assert_int_equal(cqe.wr_id, i);
		assert_int_equal(cqe.status, IBV_WC_SUCCESS);
		test_nap(1000); /* the engine falls asleep */
	}
}

static int setup_deaf_cpu(void **state)
{
	*state = world_new(
		&(struct world_config){ .threads = 1, .two_cpus = true, .deaf_cpu = true });
	return 0;
}

struct stand_in {
	struct simhca_engine *engine;
	uint32_t cpu_index;
	pthread_t thread;
};

static void *stand_in_thread(void *arg)
{
	struct stand_in *stand_in = arg;

	return simhca_engine_run(stand_in->engine, stand_in->cpu_index) ? arg : NULL;
}

/* What rang on the CPU of a stuck thread waits for another thread there. */
static void a_stand_in_finds_what_is_left(void **state)
{
	struct options options = default_options(IBV_QPT_RC);
	struct world *world = *state;
	struct watch *watch = watch_new(world);
	struct pair *stuck = pair_watched(world, watch), *well = pair_new(world, &options);
	struct stand_in stand_in = { .engine = world->engine[0] };
	void *failed;
	int cpu_index;

	hold(stuck, watch, SLEEP);
	rdma_write(&well->a, 1, 0, 8, 0);
	rdma_write(&well->b, 2, 0, 8, 0);
	cpu_index = stuck_cpu_index(world);
	stand_in.cpu_index = (uint32_t)cpu_index;
	assert_int_equal(0, pthread_create(&stand_in.thread, NULL, stand_in_thread, &stand_in));
	expect(well->a.send_cq, 1, SUCCESS);
	expect(well->b.send_cq, 2, SUCCESS);
	let_go(stuck, watch);
	simhca_engine_stop(world->engine[0]);
	pthread_join(stand_in.thread, &failed);
	assert_null(failed);
}

/* Work that is left to the poller just before it resigns; see leaves_work(). */
struct left {
	struct simhca_task task;
	struct simhca_engine *engine;
	unsigned int looks;
	atomic_bool done;
};

static bool is_done(struct simhca_worker *worker, struct simhca_task *task)
{
	(void)worker;
	atomic_store(&((struct left *)task)->done, true);
	return false;
}

/* The engine's clock, which it looks at a second time when it has polled long enough. */
static uint64_t leaves_work(void *arg)
{
	struct left *left = arg;

	if (++left->looks == 2)
		simhca_engine_schedule(left->engine, &left->task);
	return left->looks * SEC;
}

static void *run_engine(void *engine)
{
	return simhca_engine_run(engine, 0) ? engine : NULL;
}

/* Whoever leaves it sees a poller, and wakes nobody: the poller has to look again. */
static void work_left_before_falling_asleep_is_found(void **state)
{
	struct world *world = *state;
	struct left *left = world_alloc(world, sizeof(*left));
	const struct simhca_engine_config config = { .spin_us = 1,
						     .clock_ns = leaves_work,
						     .clock_arg = left };
	pthread_t thread;

	left->task.run = is_done;
	left->engine = simhca_engine_create(world->fabric, &config);
	assert_non_null(left->engine);
	assert_int_equal(0, pthread_create(&thread, NULL, run_engine, left->engine));
	for (int n = 0; n < 10000 && !atomic_load(&left->done); n++)
		test_nap(1000);
	simhca_engine_stop(left->engine);
	pthread_join(thread, NULL);
	simhca_engine_destroy(left->engine);
	assert_true(atomic_load(&left->done));
}

#define MOST_SLICES 200

/* A clock that goes on by so much whenever it is looked at. */
struct pace {
	struct left left;
	_Atomic uint64_t looks, step_ns;
	uint64_t since, now_ns; /* looks since there was work */
};

static uint64_t goes_on(void *arg)
{
	struct pace *pace = arg;

	return atomic_fetch_add(&pace->looks, 1) * atomic_load(&pace->step_ns);
}

/* How often the engine has looked at it when it sleeps after some work. */
static uint64_t looks_before_sleeping(struct pace *pace)
{
	uint64_t before = atomic_load(&pace->looks), looks = before;

	atomic_store(&pace->left.done, false);
	simhca_engine_schedule(pace->left.engine, &pace->left.task);
	for (int n = 0; n < 10000 && !atomic_load(&pace->left.done); n++)
		test_nap(1000);
	assert_true(atomic_load(&pace->left.done));
	do {
		looks = atomic_load(&pace->looks);
		test_nap(50000);
	} while (looks == before || atomic_load(&pace->looks) != looks);
	return looks - before;
}

/* It looks again and again for 50 us; if that was in vain, not so soon; nor if others take long. */
static void who_yields_sleeps_in_the_end(void **state)
{
	struct world *world = *state;
	struct pace *pace = world_alloc(world, sizeof(*pace));
	const struct simhca_engine_config config = {
		.spin_us = 1, .yields = true, .clock_ns = goes_on, .clock_arg = pace
	};
	uint64_t first, last = 0;
	pthread_t thread;

	pace->step_ns = 1000;
	pace->left.task.run = is_done;
	pace->left.engine = simhca_engine_create(world->fabric, &config);
	assert_non_null(pace->left.engine);
	assert_int_equal(0, pthread_create(&thread, NULL, run_engine, pace->left.engine));
	first = looks_before_sleeping(pace);
	assert_in_range(first, 20, 300);
	for (int i = 0; i < 4; i++)
		last = looks_before_sleeping(pace);
	assert_in_range(last, 1, first / 2);
	simhca_engine_stop(pace->left.engine);
	pthread_join(thread, NULL);
	simhca_engine_destroy(pace->left.engine);
}

/* Whoever it lets go first takes a time slice, and there is work when it has the CPU again. */
static uint64_t takes_a_slice(void *arg)
{
	struct pace *pace = arg;
	uint64_t looks = atomic_fetch_add(&pace->looks, 1);

	/* It begins to look, goes on to yield, and has done so. */
	if (++pace->since != 3)
		return pace->now_ns += 2000;
	if (looks < MOST_SLICES)
		simhca_engine_schedule(pace->left.engine, &pace->left.task);
	return pace->now_ns += MSEC;
}

static bool has_worked(struct simhca_worker *worker, struct simhca_task *task)
{
	((struct pace *)task)->since = 0;
	return is_done(worker, task);
}

/* Then it sleeps at once the next times, although its looking was not in vain. */
static void who_yields_to_a_time_slice_sleeps(void **state)
{
	struct world *world = *state;
	struct pace *pace = world_alloc(world, sizeof(*pace));
	const struct simhca_engine_config config = {
		.spin_us = 1, .yields = true, .clock_ns = takes_a_slice, .clock_arg = pace
	};
	pthread_t thread;

	pace->left.task.run = has_worked;
	pace->left.engine = simhca_engine_create(world->fabric, &config);
	assert_non_null(pace->left.engine);
	assert_int_equal(0, pthread_create(&thread, NULL, run_engine, pace->left.engine));
	assert_in_range(looks_before_sleeping(pace), 1, MOST_SLICES / 2);
	simhca_engine_stop(pace->left.engine);
	pthread_join(thread, NULL);
	simhca_engine_destroy(pace->left.engine);
}

/* -------------------------------------------------------------------------------- dozing */

static void count_one(void *arg)
{
	atomic_fetch_add((atomic_uint *)arg, 1);
}

/* The number of times that a thread of the world's engine has woken up while it dozed. */
static atomic_uint *watch_waking(struct world *world)
{
	atomic_uint *woken = world_alloc(world, sizeof(*woken));

	world->engine[0]->config.woken_arg = woken;
	world->engine[0]->config.woken = count_one;
	return woken;
}

static void doze(struct world *world)
{
	for (int n = 0; !simhca_engines_doze(world->fabric); n++) {
		assert_true(n < 100000);
		test_nap(100);
	}
}

static void write_one(struct pair *pair, uint32_t id)
{
	rdma_write(&pair->a, id, 0, 8, 0);
	expect(pair->a.send_cq, id, SUCCESS);
}

/* Once, and programs see that the device dozes until somebody says that it does not. */
static void the_first_that_wakes_up_tells(void **state)
{
	struct world *world = *state;
	struct pair *pair = pair_watched(world, watch_new(world));
	atomic_uint *woken = watch_waking(world);
	const struct simhca_devmem *mem = simhca_device_memory(pair->a.client->context->device);

	write_one(pair, 1);
	assert_int_equal(atomic_load(woken), 0);
	doze(world);
	assert_int_equal(atomic_load(&mem->dozes), 1);
	for (uint32_t id = 2; id < 6; id++) {
		write_one(pair, id);
		test_nap(20000); /* it sleeps again */
	}
	assert_int_equal(atomic_load(woken), 1);
	simhca_engines_attend(world->fabric);
	assert_int_equal(atomic_load(&mem->dozes), 0);
	doze(world);
	simhca_engines_attend(world->fabric);
	write_one(pair, 6);
	assert_int_equal(atomic_load(woken), 1);
}

static void who_works_does_not_doze(void **state)
{
	struct world *world = *state;
	struct watch *watch = watch_new(world);
	struct pair *pair = pair_watched(world, watch);
	atomic_uint *woken = watch_waking(world);
	uint32_t shown;
	bool dozes;

	hold(pair, watch, SLEEP);
	dozes = simhca_engines_doze(world->fabric);
	shown = atomic_load(&simhca_device_memory(pair->a.client->context->device)->dozes);
	let_go(pair, watch);
	assert_false(dozes);
	assert_int_equal(shown, 0);
	write_one(pair, 2);
	assert_int_equal(atomic_load(woken), 0);
}

/* Of an engine whose thread does not run. */
static void what_nobody_hears_can_be_seen(void **state)
{
	const struct simhca_engine_config config = { .num_cpus = 2, .cpu = { 0, 1 } };
	struct world *world = *state;
	struct simhca_engine *engine = simhca_engine_create(world->fabric, &config);
	struct pollfd waits = { .events = POLLIN };

	assert_non_null(engine);
	assert_int_equal(simhca_engine_sleeps_at(engine, 2), -1);
	waits.fd = simhca_engine_sleeps_at(engine, 1);
	assert_int_equal(poll(&waits, 1, 0), 0);
	simhca_engine_wake_cpu(engine, 1);
	assert_int_equal(poll(&waits, 1, 0), 1);
	simhca_engine_destroy(engine);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_ONE_THREAD(the_first_that_wakes_up_tells),
		ON_TWO_CPUS(the_first_that_wakes_up_tells),
		ON_ONE_THREAD(who_works_does_not_doze),
		ON_TWO_CPUS(who_works_does_not_doze),
		ON_ETHERNET(what_nobody_hears_can_be_seen),
		ON_TWO_CPUS(one_thread_works_at_a_time),
		cmocka_unit_test_setup_teardown(another_cpus_thread_is_invited, setup_slow_time,
						teardown),
		ON_ETHERNET(who_is_invited_wakes_up),
		ON_ONE_THREAD(a_thread_that_runs_is_not_stuck),
		ON_ONE_THREAD(a_thread_that_runs_outside_of_memory),
		ON_TWO_CPUS(a_thread_that_runs_is_not_stuck),
		ON_TWO_CPUS(a_thread_that_runs_outside_of_memory),
		ON_ONE_THREAD(a_thread_that_waits_is_stuck),
		ON_TWO_CPUS(a_thread_that_waits_is_stuck),
		ON_TWO_CPUS(others_go_on_without_the_stuck),
		ON_TWO_CPUS(work_left_to_the_stuck_is_found),
		ON_TWO_CPUS(a_stand_in_finds_what_is_left),
		ON_ETHERNET(work_left_before_falling_asleep_is_found),
		ON_ETHERNET(who_yields_sleeps_in_the_end),
		ON_ETHERNET(who_yields_to_a_time_slice_sleeps),
		cmocka_unit_test_setup_teardown(what_a_cpu_does_not_hear_is_heard, setup_deaf_cpu,
						teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
