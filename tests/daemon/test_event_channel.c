/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Event channels: no event is lost however full the pipe is, and purging takes back just the right
 * ones. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>
#include <infiniband/verbs.h>

#include "event_channel.h"

struct fixture {
	struct ev_loop *loop;
	struct event_wakeup wakeup;
	struct event_set set;
	int fd; /* read end of a channel, non-blocking */
	uint64_t channel;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct stat st;

	f->loop = ev_loop_new(EVFLAG_AUTO);
	event_wakeup_init(&f->wakeup, f->loop);
	event_set_init(&f->set, &f->wakeup);
	f->fd = event_add_channel(&f->set);
	assert_true(f->fd >= 0);
	assert_int_equal(fstat(f->fd, &st), 0);
	fcntl(f->fd, F_SETFL, O_NONBLOCK);
	f->channel = st.st_ino;
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	close(f->fd);
	event_set_destroy(&f->set);
	event_wakeup_destroy(&f->wakeup);
	ev_loop_destroy(f->loop);
	free(f);
	return 0;
}

static void turn(struct fixture *f)
{
	for (int i = 0; i < 4; i++)
		ev_run(f->loop, EVRUN_NOWAIT);
}

/* 0: nothing there. */
static uint64_t next(struct fixture *f)
{
	uint64_t cq = 0;
	ssize_t length = read(f->fd, &cq, sizeof(cq));

	assert_true(length == sizeof(cq) || (length < 0 && errno == EAGAIN));
	return length < 0 ? 0 : cq;
}

static void test_70000_unread(void **state)
{
	struct fixture *f = *state;
	unsigned int read_now, total = 0;

	for (int i = 0; i < 70000; i++)
		event_raise_completion(&f->set, f->channel, 7);
	do {
		read_now = 0;
		turn(f);
		while (next(f) == 7)
			read_now++;
		total += read_now;
	} while (read_now);
	assert_int_equal(total, 70000);
	/* And it works again as if nothing had been. */
	event_raise_completion(&f->set, f->channel, 8);
	assert_int_equal(next(f), 8);
}

/* Overflowing events come after those in the pipe, each CQ at the place of its first. */
static void test_order_of_overflow(void **state)
{
	struct fixture *f = *state;
	unsigned int in_pipe = 65536 / 8;
	uint64_t cq;

	for (unsigned int i = 0; i < in_pipe; i++)
		event_raise_completion(&f->set, f->channel, 1 + i % 2);
	event_raise_completion(&f->set, f->channel, 5);
	event_raise_completion(&f->set, f->channel, 4);
	event_raise_completion(&f->set, f->channel, 5);
	turn(f);
	for (unsigned int i = 0; i < in_pipe; i++)
		assert_int_equal(next(f), 1 + i % 2);
	turn(f);
	assert_int_equal(next(f), 5);
	assert_int_equal(next(f), 5);
	assert_int_equal(next(f), 4);
	cq = next(f);
	assert_int_equal(cq, 0);
}

/* While others wait, an event waits behind them, whether there is room by now or not. */
static void test_order_when_room_comes(void **state)
{
	struct fixture *f = *state;
	unsigned int in_pipe = 65536 / 8;

	for (unsigned int i = 0; i < in_pipe; i++)
		event_raise_completion(&f->set, f->channel, 1);
	event_raise_completion(&f->set, f->channel, 5);
	for (unsigned int i = 0; i < in_pipe; i++)
		assert_int_equal(next(f), 1);
	event_raise_completion(&f->set, f->channel, 4);
	assert_int_equal(next(f), 0);
	turn(f);
	assert_int_equal(next(f), 5);
	assert_int_equal(next(f), 4);
	assert_int_equal(next(f), 0);
}

/* A pipe that was full is watched again when it is full again, and can go then. */
static void test_full_again(void **state)
{
	struct fixture *f = *state;

	for (unsigned int lap = 0; lap < 3; lap++) {
		unsigned int read_now, total = 0;

		for (int i = 0; i < 10000; i++)
			event_raise_completion(&f->set, f->channel, 7);
		do {
			read_now = 0;
			turn(f);
			while (next(f) == 7)
				read_now++;
			total += read_now;
		} while (read_now);
		assert_int_equal(total, 10000);
	}
	for (int i = 0; i < 10000; i++)
		event_raise_completion(&f->set, f->channel, 7);
}

static void end_of_rest(struct ev_loop *loop, ev_timer *timer, int events)
{
	ev_break(loop, EVBREAK_ALL);
}

/* When nothing waits any more, a pipe that has room is no reason to wake up. */
static void test_rest_after_overflow(void **state)
{
	struct fixture *f = *state;
	unsigned int before;
	ev_timer timer;

	for (int i = 0; i < 10000; i++)
		event_raise_completion(&f->set, f->channel, 7);
	for (int i = 0; i < 4; i++) {
		turn(f);
		while (next(f))
			;
	}
	before = ev_iteration(f->loop);
	ev_timer_init(&timer, end_of_rest, 0.05, 0);
	ev_timer_start(f->loop, &timer);
	ev_run(f->loop, 0);
	assert_in_range(ev_iteration(f->loop) - before, 1, 20);
}

static void test_purge_counts_what_was_read(void **state)
{
	struct fixture *f = *state;

	for (uint64_t cq = 1; cq <= 3; cq++)
		for (int i = 0; i < 3; i++)
			event_raise_completion(&f->set, f->channel, cq);
	assert_int_equal(next(f), 1);
	assert_int_equal(next(f), 1);
	assert_int_equal(event_purge_completions(&f->set, f->channel, 1), 2);
	assert_int_equal(event_purge_completions(&f->set, f->channel, 2), 0);
	assert_int_equal(event_purge_completions(&f->set, f->channel, 9), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(next(f), 3);
	assert_int_equal(next(f), 0);
	assert_int_equal(event_purge_completions(&f->set, f->channel, 3), 3);
	/* Forgotten: a new CQ with the same user handle starts from nothing. */
	event_raise_completion(&f->set, f->channel, 3);
	assert_int_equal(next(f), 3);
	assert_int_equal(event_purge_completions(&f->set, f->channel, 3), 1);
}

/* The write end by which the client fills its own pipe whenever it is read; -1: it does not. */
static int refill = -1;

ssize_t __real_read(int fd, void *buffer, size_t size);
ssize_t __wrap_read(int fd, void *buffer, size_t size);

ssize_t __wrap_read(int fd, void *buffer, size_t size)
{
	static const char noise[4096];
	ssize_t got = __real_read(fd, buffer, size);

	while (refill >= 0 && write(refill, noise, sizeof(noise)) > 0)
		;
	return got;
}

/* A client that writes as fast as it is read keeps nobody busy. */
static void test_purge_ends(void **state)
{
	struct fixture *f = *state;
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", f->fd);
	refill = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
	assert_true(refill >= 0);
	event_raise_completion(&f->set, f->channel, 7);
	alarm(20);
	event_purge_completions(&f->set, f->channel, 7);
	alarm(0);
	close(refill);
	refill = -1;
}

static void test_purge_of_overflow(void **state)
{
	struct fixture *f = *state;
	unsigned int others = 0, read_now;

	for (int i = 0; i < 20000; i++)
		event_raise_completion(&f->set, f->channel, 1 + i % 2);
	assert_int_equal(event_purge_completions(&f->set, f->channel, 1), 0);
	do {
		uint64_t cq;

		read_now = 0;
		turn(f);
		while ((cq = next(f))) {
			assert_int_equal(cq, 2);
			read_now++;
		}
		others += read_now;
	} while (read_now);
	assert_int_equal(others, 10000);
}

static void test_closed_channel_is_dropped(void **state)
{
	struct fixture *f = *state;

	assert_true(event_has_channel(&f->set, f->channel));
	close(f->fd);
	event_raise_completion(&f->set, f->channel, 1);
	turn(f);
	assert_false(event_has_channel(&f->set, f->channel));
	event_raise_completion(&f->set, f->channel, 1);
	f->fd = -1;
}

static void test_full_channel_that_is_closed_is_dropped(void **state)
{
	struct fixture *f = *state;

	for (int i = 0; i < 10000; i++)
		event_raise_completion(&f->set, f->channel, 1);
	turn(f);
	close(f->fd);
	turn(f);
	assert_false(event_has_channel(&f->set, f->channel));
	f->fd = -1;
}

struct async_event {
	uint64_t element;
	uint32_t type;
	uint32_t reserved;
};

static void read_async(int fd, uint64_t element, uint32_t type)
{
	struct async_event event;

	assert_int_equal(read(fd, &event, sizeof(event)), sizeof(event));
	assert_int_equal(event.element, element);
	assert_int_equal(event.type, type);
	assert_int_equal(event.reserved, 0);
}

static bool is_empty(int fd)
{
	char byte;

	fcntl(fd, F_SETFL, O_NONBLOCK);
	return read(fd, &byte, 1) < 0 && errno == EAGAIN;
}

/* Events of objects go to the first pipe, those of the device to all. */
static void test_async_pipes(void **state)
{
	struct fixture *f = *state;
	int write_end, first, second, again;

	first = event_first_async(&f->set, &write_end);
	assert_true(first >= 0);
	second = event_add_async(&f->set);
	event_raise_async(&f->set, 0, 100, IBV_EVENT_COMM_EST);
	event_raise_async(&f->set, 0, 1, IBV_EVENT_PORT_ERR);
	read_async(first, 100, IBV_EVENT_COMM_EST);
	read_async(first, 1, IBV_EVENT_PORT_ERR);
	read_async(second, 1, IBV_EVENT_PORT_ERR);
	assert_true(is_empty(first) && is_empty(second));

	event_raise_async(&f->set, 0, 100, IBV_EVENT_SQ_DRAINED);
	event_raise_async(&f->set, 0, 200, IBV_EVENT_COMM_EST);
	assert_int_equal(event_purge_async(&f->set, 0, 100), 1);
	read_async(first, 200, IBV_EVENT_COMM_EST);
	assert_true(is_empty(first));

	/* The same pipe again, in another description: blocking, whatever the first one is. */
	close(write_end);
	again = event_first_async(&f->set, &write_end);
	event_raise_async(&f->set, 0, 300, IBV_EVENT_COMM_EST);
	read_async(again, 300, IBV_EVENT_COMM_EST);
	assert_int_equal(fcntl(again, F_GETFL) & O_NONBLOCK, 0);
	close(first);
	close(again);
	close(second);
	close(write_end);
}

/* An object names its pipe: the same element of another process is another object. */
static void test_async_pipe_of_an_object(void **state)
{
	struct fixture *f = *state;
	int write_end, first, second;
	struct stat one, two;

	first = event_first_async(&f->set, &write_end);
	second = event_add_async(&f->set);
	assert_int_equal(0, fstat(first, &one));
	assert_int_equal(0, fstat(second, &two));
	event_raise_async(&f->set, two.st_ino, 100, IBV_EVENT_COMM_EST);
	read_async(second, 100, IBV_EVENT_COMM_EST);
	assert_true(is_empty(first));

	/* Each has what it read counted, and what it did not read taken back. */
	event_raise_async(&f->set, one.st_ino, 100, IBV_EVENT_SQ_DRAINED);
	event_raise_async(&f->set, two.st_ino, 100, IBV_EVENT_SQ_DRAINED);
	assert_int_equal(event_purge_async(&f->set, two.st_ino, 100), 1);
	assert_true(is_empty(second));
	read_async(first, 100, IBV_EVENT_SQ_DRAINED);
	assert_int_equal(event_purge_async(&f->set, one.st_ino, 100), 1);

	/* Whose pipe is closed hears nothing more, and neither does another. */
	close(second);
	event_raise_async(&f->set, two.st_ino, 100, IBV_EVENT_COMM_EST);
	assert_true(is_empty(first));
	assert_int_equal(event_purge_async(&f->set, two.st_ino, 100), 0);
	close(first);
	close(write_end);
}

/* A device event about the port is none about the object whose handle is 1. */
static void test_port_is_no_object(void **state)
{
	struct fixture *f = *state;
	int write_end, fd = event_first_async(&f->set, &write_end);

	event_raise_async(&f->set, 0, 1, IBV_EVENT_PORT_ERR);
	event_raise_async(&f->set, 0, 1, IBV_EVENT_COMM_EST);
	assert_int_equal(event_purge_async(&f->set, 0, 1), 0);
	read_async(fd, 1, IBV_EVENT_PORT_ERR);
	assert_true(is_empty(fd));
	close(fd);
	close(write_end);
}

#define RAISES 50000
static atomic_uint raising; /* threads */

static void *raise_many(void *arg)
{
	struct fixture *f = arg;

	for (int i = 0; i < RAISES; i++)
		event_raise_completion(&f->set, f->channel, 1 + (uint64_t)(i % 3));
	atomic_fetch_sub(&raising, 1);
	return NULL;
}

/* Two engines raise, the loop delivers, the client reads, CQ 3 is purged: nothing gets lost. */
static void test_threads(void **state)
{
	struct fixture *f = *state;
	unsigned int seen[4] = { 0 }, third = 0;
	pthread_t threads[2];
	uint64_t cq;
	int idle = 0;

	atomic_store(&raising, 2);
	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, raise_many, f);
	while (atomic_load(&raising) || idle < 3) {
		turn(f);
		if (!(cq = next(f))) {
			usleep(20000);
			idle++;
			continue;
		}
		idle = 0;
		seen[cq]++;
		if (seen[3] == 1000 && !third)
			third = event_purge_completions(&f->set, f->channel, 3);
	}
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(third, 1000);
	assert_int_equal(seen[1] + seen[2], 2 * RAISES - 2 * (RAISES / 3));
	assert_int_equal(event_purge_completions(&f->set, f->channel, 1), seen[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_70000_unread, setup, teardown),
		cmocka_unit_test_setup_teardown(test_order_of_overflow, setup, teardown),
		cmocka_unit_test_setup_teardown(test_order_when_room_comes, setup, teardown),
		cmocka_unit_test_setup_teardown(test_full_again, setup, teardown),
		cmocka_unit_test_setup_teardown(test_rest_after_overflow, setup, teardown),
		cmocka_unit_test_setup_teardown(test_purge_counts_what_was_read, setup, teardown),
		cmocka_unit_test_setup_teardown(test_purge_ends, setup, teardown),
		cmocka_unit_test_setup_teardown(test_purge_of_overflow, setup, teardown),
		cmocka_unit_test_setup_teardown(test_closed_channel_is_dropped, setup, teardown),
		cmocka_unit_test_setup_teardown(test_full_channel_that_is_closed_is_dropped, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_async_pipes, setup, teardown),
		cmocka_unit_test_setup_teardown(test_async_pipe_of_an_object, setup, teardown),
		cmocka_unit_test_setup_teardown(test_port_is_no_object, setup, teardown),
		cmocka_unit_test_setup_teardown(test_threads, setup, teardown),
	};

	signal(SIGPIPE, SIG_IGN); /* as the daemon does */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
