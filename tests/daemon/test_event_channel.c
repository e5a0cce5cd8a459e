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
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_verbs.h>

#include "session/event_channel.h"
#include "session/event_pipe.h"

#define READER 1 /* the process that has made the channel */

struct fixture {
	struct ev_loop *loop;
	struct event_wakeup wakeup;
	struct event_set set;
	int fd; /* client's end of a channel, non-blocking */
	uint64_t channel;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct stat st;

	f->loop = ev_loop_new(EVFLAG_AUTO);
	assert_true(event_wakeup_init(&f->wakeup, f->loop));
	event_set_init(&f->set, &f->wakeup);
	f->fd = event_add_channel(&f->set, READER);
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
	while (event_set_end(&f->set))
		;
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

/* As a command does, but in one go. The client has brought its end fd. */
static uint32_t purge_told(struct fixture *f, bool completions, uint64_t inode, uint64_t element,
			   uint32_t told, int fd)
{
	struct event_purge purge;

	if (event_purge_start(&purge, &f->set, completions, inode, element, told, fd))
		event_purge_read(&purge);
	return event_purge_finish(&purge);
}

static uint32_t purge(struct fixture *f, bool completions, uint64_t inode, uint64_t element, int fd)
{
	return purge_told(f, completions, inode, element, 0, fd);
}

static uint32_t purge_completions(struct fixture *f, uint64_t cq)
{
	return purge(f, true, f->channel, cq, f->fd);
}

/* How many events of CQ 1 there is room for, each raised by itself. */
static unsigned int fill(struct fixture *f)
{
	unsigned int room = 0;

	while (!f->set.wakeup->full) {
		event_raise_completion(&f->set, f->channel, 1);
		room++;
	}
	return room - 1; /* the last one waits */
}

static void test_all_read(void **state)
{
	struct fixture *f = *state;

	assert_true(event_all_read(&f->set, f->channel));
	assert_false(event_all_read(&f->set, f->channel + 1));
	event_raise_completion(&f->set, f->channel, 1);
	assert_false(event_all_read(&f->set, f->channel));
	assert_int_equal(next(f), 1);
	assert_true(event_all_read(&f->set, f->channel));
	(void)fill(f);
	while (next(f))
		;
	assert_false(event_all_read(&f->set, f->channel)); /* the last one waits */
	turn(f);
	assert_int_equal(next(f), 1);
	assert_true(event_all_read(&f->set, f->channel));
}

/* Some sandboxes do not say how much is in a socket; in its place here is what has no such number. */
static void test_nobody_knows_whether_all_is_read(void **state)
{
	struct fixture *f = *state;
	int none = open("/dev/null", O_RDWR | O_CLOEXEC);

	assert_true(none >= 0);
	assert_true(event_all_read(&f->set, f->channel));
	event_raise_completion(&f->set, f->channel, 1);
	assert_int_equal(dup2(none, f->set.channels->fd), f->set.channels->fd);
	assert_false(event_all_read(&f->set, f->channel));
	/* It is not looked for there, in as much memory as there is. */
	assert_int_equal(purge_completions(f, 1), 1);
	close(none);
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
	unsigned int room = fill(f);

	assert_true(room >= 100);
	event_raise_completion(&f->set, f->channel, 5);
	event_raise_completion(&f->set, f->channel, 4);
	event_raise_completion(&f->set, f->channel, 5);
	turn(f);
	for (unsigned int i = 0; i < room; i++)
		assert_int_equal(next(f), 1);
	turn(f);
	assert_int_equal(next(f), 1);
	assert_int_equal(next(f), 5);
	assert_int_equal(next(f), 5);
	assert_int_equal(next(f), 4);
	assert_int_equal(next(f), 0);
}

/* While others wait, an event waits behind them, whether there is room by now or not. */
static void test_order_when_room_comes(void **state)
{
	struct fixture *f = *state;
	unsigned int room = fill(f);

	event_raise_completion(&f->set, f->channel, 5);
	for (unsigned int i = 0; i < room; i++)
		assert_int_equal(next(f), 1);
	event_raise_completion(&f->set, f->channel, 4);
	assert_int_equal(next(f), 0);
	turn(f);
	assert_int_equal(next(f), 1);
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
	assert_int_equal(purge_completions(f, 1), 2);
	assert_int_equal(purge_completions(f, 2), 0);
	assert_int_equal(purge_completions(f, 9), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(next(f), 3);
	assert_int_equal(next(f), 0);
	assert_int_equal(purge_completions(f, 3), 3);
	/* Forgotten: a new CQ with the same user handle starts from nothing. */
	event_raise_completion(&f->set, f->channel, 3);
	assert_int_equal(next(f), 3);
	assert_int_equal(purge_completions(f, 3), 1);
}

/* Who does not bring its end, or another's, has nothing taken back. */
static void test_purge_of_another_end(void **state)
{
	struct fixture *f = *state;
	int other = event_add_channel(&f->set, READER), no_socket = dup(STDOUT_FILENO);

	event_raise_completion(&f->set, f->channel, 7);
	assert_int_equal(purge(f, true, f->channel, 7, other), 1);
	event_raise_completion(&f->set, f->channel, 8);
	assert_int_equal(purge(f, true, f->channel, 8, no_socket), 1);
	event_raise_completion(&f->set, f->channel, 9);
	assert_int_equal(purge(f, true, f->channel, 9, -1), 1);
	for (uint64_t cq = 7; cq <= 9; cq++)
		assert_int_equal(next(f), cq);
	close(other);
	close(no_socket);
}

/* While the pipe is read, others' events wait, and come after those that are put back. */
static void test_events_during_a_purge(void **state)
{
	struct fixture *f = *state;
	struct event_purge purge;

	for (uint64_t cq = 1; cq <= 3; cq++)
		event_raise_completion(&f->set, f->channel, cq);
	assert_true(event_purge_start(&purge, &f->set, true, f->channel, 2, 0, f->fd));
	assert_true(event_is_purging(&f->set, f->channel, 0));
	event_raise_completion(&f->set, f->channel, 4);
	event_purge_read(&purge);
	event_raise_completion(&f->set, f->channel, 5);
	turn(f);
	assert_int_equal(next(f), 0);
	assert_int_equal(event_purge_finish(&purge), 0);
	assert_false(event_is_purging(&f->set, f->channel, 0));
	assert_int_equal(next(f), 1);
	assert_int_equal(next(f), 3);
	assert_int_equal(next(f), 4);
	assert_int_equal(next(f), 5);
	assert_int_equal(next(f), 0);
}

/* The same, when it had been full. */
static void test_a_full_pipe_during_a_purge(void **state)
{
	struct fixture *f = *state;
	unsigned int room, total = 0, read_now;
	struct event_purge purge;

	event_raise_completion(&f->set, f->channel, 2);
	room = fill(f);
	assert_true(event_purge_start(&purge, &f->set, true, f->channel, 2, 0, f->fd));
	event_purge_read(&purge);
	turn(f);
	assert_int_equal(next(f), 0);
	assert_int_equal(event_purge_finish(&purge), 0);
	do {
		read_now = 0;
		turn(f);
		while (next(f) == 1)
			read_now++;
		total += read_now;
	} while (read_now);
	assert_int_equal(total, room + 1);
}

/* -------------------------------------------------- by programs that have the device's end */

static void raise_by_program(int end, uint64_t cq)
{
	assert_int_equal(send(end, &cq, sizeof(cq), MSG_DONTWAIT), sizeof(cq));
}

static void test_end_is_lent(void **state)
{
	struct fixture *f = *state;
	int end = event_lend(&f->set, f->channel, 7, READER);

	assert_true(end >= 0);
	assert_int_equal(event_lend(&f->set, f->channel, 7, READER + 1), -1);
	assert_int_equal(event_lend(&f->set, f->channel + 1, 7, READER), -1);
	raise_by_program(end, 7);
	assert_int_equal(next(f), 7);
}

/* What was read counts, whoever has raised it; what was not is taken back. */
static void test_purge_of_what_programs_raised(void **state)
{
	struct fixture *f = *state;
	int end = event_lend(&f->set, f->channel, 7, READER);

	for (int i = 0; i < 4; i++)
		raise_by_program(end, 7);
	event_raise_completion(&f->set, f->channel, 7);
	raise_by_program(end, 8);
	for (int i = 0; i < 2; i++)
		assert_int_equal(next(f), 7);
	assert_int_equal(purge_told(f, true, f->channel, 7, 4, f->fd), 2);
	assert_int_equal(next(f), 8);
	assert_int_equal(next(f), 0);
	/* Nothing was raised by the daemon, and all was read; or none. */
	assert_int_equal(purge_told(f, true, f->channel, 8, 1, f->fd), 1);
	raise_by_program(end, 9);
	assert_int_equal(purge_told(f, true, f->channel, 9, 1, f->fd), 0);
	assert_int_equal(next(f), 0);
}

/* They fill it meanwhile: what finds no room again is not lost, nor counted twice. */
static void test_programs_fill_a_pipe_during_a_purge(void **state)
{
	struct fixture *f = *state;
	const uint64_t noise = 1000, seventh = 7;
	unsigned int seen[10] = { 0 }, sevenths = 0, read_now;
	struct event_purge purge;
	int end = event_lend(&f->set, f->channel, 7, READER);
	uint64_t cq;

	event_raise_completion(&f->set, f->channel, 2);
	for (int i = 0; i < 50; i++) {
		event_raise_completion(&f->set, f->channel, 1);
		raise_by_program(end, 7);
		raise_by_program(end, noise); /* of no CQ */
	}
	assert_true(event_purge_start(&purge, &f->set, true, f->channel, 2, 0, f->fd));
	event_purge_read(&purge);
	while (send(end, &seventh, sizeof(seventh), MSG_DONTWAIT) == sizeof(seventh))
		sevenths++;
	assert_int_equal(event_purge_finish(&purge), 0);
	do {
		read_now = 0;
		turn(f);
		for (; (cq = next(f)); read_now++) {
			assert_true(cq == 1 || cq == 7);
			seen[cq]++;
		}
	} while (read_now);
	assert_int_equal(seen[1], 50);
	assert_int_equal(seen[7], 50 + sevenths);
	assert_int_equal(purge_completions(f, 1), 50);
	assert_int_equal(purge_told(f, true, f->channel, 7, 50 + sevenths, f->fd), seen[7]);
}

/* What they do with it the reader suffers, and the daemon does not. */
static void test_end_is_abused(void **state)
{
	struct fixture *f = *state;
	int end = event_lend(&f->set, f->channel, 7, READER), least = 1;
	static const char noise[4097];
	struct event_purge purge;

	/* Nobody waits for room, and pieces of records are none. */
	fcntl(end, F_SETFL, 0);
	setsockopt(end, SOL_SOCKET, SO_SNDBUF, &least, sizeof(least));
	send(end, noise, 3, MSG_DONTWAIT);
	while (send(end, noise, sizeof(noise), MSG_DONTWAIT) > 0)
		;
	for (int i = 0; i < 100; i++)
		event_raise_completion(&f->set, f->channel, 7);
	turn(f);
	if (event_purge_start(&purge, &f->set, true, f->channel, 7, 50, f->fd)) {
		event_purge_read(&purge);
		send(end, noise, 5, MSG_DONTWAIT);
	}
	event_purge_finish(&purge);
	turn(f);

	/* As if the reader had closed it. */
	shutdown(end, SHUT_WR);
	event_raise_completion(&f->set, f->channel, 7);
	turn(f);
	assert_false(event_has_channel(&f->set, f->channel));
	event_raise_completion(&f->set, f->channel, 7);
	assert_int_equal(event_lend(&f->set, f->channel, 7, READER), -1);
}

/* The pipe goes while it is read. */
static void test_purge_of_a_pipe_that_goes(void **state)
{
	struct fixture *f = *state;
	struct event_purge purge;
	int client = event_add_channel(&f->set, READER);
	struct stat st;

	assert_int_equal(fstat(client, &st), 0);
	event_raise_completion(&f->set, st.st_ino, 2);
	event_raise_completion(&f->set, st.st_ino, 3);
	assert_true(event_purge_start(&purge, &f->set, true, st.st_ino, 2, 0, client));
	event_purge_read(&purge);
	close(client);
	turn(f);
	assert_false(event_has_channel(&f->set, st.st_ino));
	assert_int_equal(event_purge_finish(&purge), 1);
}

/* The device's end by which the client fills its own pipe whenever it is read; -1: it does not. */
static int refill = -1;

ssize_t __real_recv(int fd, void *buffer, size_t size, int flags);
ssize_t __wrap_recv(int fd, void *buffer, size_t size, int flags);

ssize_t __wrap_recv(int fd, void *buffer, size_t size, int flags)
{
	static const char noise[4096];
	ssize_t got = __real_recv(fd, buffer, size, flags);

	while (refill >= 0 && send(refill, noise, sizeof(noise), MSG_DONTWAIT) > 0)
		;
	return got;
}

/* A client that writes as fast as it is read keeps nobody busy. */
static void test_purge_ends(void **state)
{
	struct fixture *f = *state;
	int client = event_add_async(&f->set, &refill);

	event_raise_async(&f->set, 0, 7, IBV_EVENT_COMM_EST);
	alarm(20);
	purge(f, false, 0, 7, client);
	alarm(0);
	close(client);
	refill = -1;
}

static short ready(int fd)
{
	struct pollfd pollfd = { .fd = fd, .events = POLLIN | POLLOUT | POLLRDHUP };

	return poll(&pollfd, 1, 0) > 0 ? pollfd.revents : 0;
}

/* As the kernel's file, which cannot be written. */
static void test_one_way(void **state)
{
	struct fixture *f = *state;
	uint64_t cq = 7;

	assert_int_equal(ready(f->fd), 0);
	assert_true(write(f->fd, &cq, sizeof(cq)) < 0);
	event_raise_completion(&f->set, f->channel, 7);
	assert_int_equal(ready(f->fd), POLLIN);
	assert_int_equal(next(f), 7);
	assert_int_equal(ready(f->fd), 0);
}

/* What was raised can be read when the device has gone, and then comes an end. */
static void test_end_of_the_device(void **state)
{
	struct fixture *f = *state;
	uint64_t cq;

	event_raise_completion(&f->set, f->channel, 7);
	while (event_set_end(&f->set))
		;
	event_set_init(&f->set, &f->wakeup);
	assert_true(ready(f->fd) & POLLHUP);
	assert_int_equal(next(f), 7);
	assert_true(read(f->fd, &cq, sizeof(cq)) < 0 && errno == ECONNRESET);
	assert_int_equal(read(f->fd, &cq, sizeof(cq)), 0);
}

static void test_purge_of_overflow(void **state)
{
	struct fixture *f = *state;
	unsigned int others = 0, read_now;

	for (int i = 0; i < 20000; i++)
		event_raise_completion(&f->set, f->channel, 1 + i % 2);
	assert_int_equal(purge_completions(f, 1), 0);
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
	int end, first, second;

	first = event_add_async(&f->set, &end);
	assert_true(first >= 0);
	second = event_add_async(&f->set, &end);
	event_raise_async(&f->set, 0, 100, IBV_EVENT_COMM_EST);
	event_raise_async(&f->set, 0, 1, IBV_EVENT_PORT_ERR);
	read_async(first, 100, IBV_EVENT_COMM_EST);
	read_async(first, 1, IBV_EVENT_PORT_ERR);
	read_async(second, 1, IBV_EVENT_PORT_ERR);
	assert_true(is_empty(first) && is_empty(second));

	event_raise_async(&f->set, 0, 100, IBV_EVENT_SQ_DRAINED);
	event_raise_async(&f->set, 0, 200, IBV_EVENT_COMM_EST);
	assert_int_equal(purge(f, false, 0, 100, first), 1);
	read_async(first, 200, IBV_EVENT_COMM_EST);
	assert_true(is_empty(first));
	close(first);
	close(second);
}

/* Of a pipe that is made for a process, it gets the device's end first, and then its own. */
static void test_async_pipe_in_two_steps(void **state)
{
	struct fixture *f = *state;
	struct ib_uverbs_async_event_desc fatal = { .event_type = IBV_EVENT_DEVICE_FATAL };
	int one, two, end, mine, other, third;

	assert_true(event_reserve_async(&f->set, 10, &one) >= 0);
	assert_true(event_reserve_async(&f->set, 20, &two) >= 0);
	assert_int_equal(f->set.descriptors, 1 + 4);
	mine = event_take_async(&f->set, 20);
	other = event_take_async(&f->set, 20);
	third = event_take_async(&f->set, 10);
	assert_int_equal(f->set.descriptors, 1 + 3);
	assert_true(mine >= 0 && other >= 0 && third >= 0);
	assert_int_equal(send(two, &fatal, sizeof(fatal), MSG_DONTWAIT), sizeof(fatal));
	read_async(mine, 0, IBV_EVENT_DEVICE_FATAL);
	assert_true(is_empty(other) && is_empty(third));

	/* It is dropped though the process has the other end still. */
	end = dup(two);
	close(mine);
	turn(f);
	assert_int_equal(f->set.descriptors, 1 + 2);
	close(end);
	close(other);
	close(third);
	turn(f);
	assert_int_equal(f->set.descriptors, 1);
}

/* An object names its pipe: the same element of another process is another object. */
static void test_async_pipe_of_an_object(void **state)
{
	struct fixture *f = *state;
	int end, first, second;
	struct stat one, two;

	first = event_add_async(&f->set, &end);
	second = event_add_async(&f->set, &end);
	assert_int_equal(0, fstat(first, &one));
	assert_int_equal(0, fstat(second, &two));
	event_raise_async(&f->set, two.st_ino, 100, IBV_EVENT_COMM_EST);
	read_async(second, 100, IBV_EVENT_COMM_EST);
	assert_true(is_empty(first));

	/* Each has what it read counted, and what it did not read taken back. */
	event_raise_async(&f->set, one.st_ino, 100, IBV_EVENT_SQ_DRAINED);
	event_raise_async(&f->set, two.st_ino, 100, IBV_EVENT_SQ_DRAINED);
	assert_int_equal(purge(f, false, two.st_ino, 100, second), 1);
	assert_true(is_empty(second));
	read_async(first, 100, IBV_EVENT_SQ_DRAINED);
	assert_int_equal(purge(f, false, one.st_ino, 100, first), 1);

	/* Whose pipe is closed hears nothing more, and neither does another. */
	close(second);
	event_raise_async(&f->set, two.st_ino, 100, IBV_EVENT_COMM_EST);
	assert_true(is_empty(first));
	assert_int_equal(purge(f, false, two.st_ino, 100, -1), 0);
	close(first);
}

/* A device event about the port is none about the object whose handle is 1. */
static void test_port_is_no_object(void **state)
{
	struct fixture *f = *state;
	int end, fd = event_add_async(&f->set, &end);

	event_raise_async(&f->set, 0, 1, IBV_EVENT_PORT_ERR);
	event_raise_async(&f->set, 0, 1, IBV_EVENT_COMM_EST);
	assert_int_equal(purge(f, false, 0, 1, fd), 0);
	read_async(fd, 1, IBV_EVENT_PORT_ERR);
	assert_true(is_empty(fd));
	close(fd);
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
			third = purge_completions(f, 3);
	}
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(third, 1000);
	assert_int_equal(seen[1] + seen[2], 2 * RAISES - 2 * (RAISES / 3));
	assert_int_equal(purge_completions(f, 1), seen[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_all_read, setup, teardown),
		cmocka_unit_test_setup_teardown(test_nobody_knows_whether_all_is_read, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_70000_unread, setup, teardown),
		cmocka_unit_test_setup_teardown(test_order_of_overflow, setup, teardown),
		cmocka_unit_test_setup_teardown(test_order_when_room_comes, setup, teardown),
		cmocka_unit_test_setup_teardown(test_full_again, setup, teardown),
		cmocka_unit_test_setup_teardown(test_rest_after_overflow, setup, teardown),
		cmocka_unit_test_setup_teardown(test_purge_counts_what_was_read, setup, teardown),
		cmocka_unit_test_setup_teardown(test_purge_of_another_end, setup, teardown),
		cmocka_unit_test_setup_teardown(test_events_during_a_purge, setup, teardown),
		cmocka_unit_test_setup_teardown(test_a_full_pipe_during_a_purge, setup, teardown),
		cmocka_unit_test_setup_teardown(test_end_is_lent, setup, teardown),
		cmocka_unit_test_setup_teardown(test_purge_of_what_programs_raised, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_programs_fill_a_pipe_during_a_purge, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_end_is_abused, setup, teardown),
		cmocka_unit_test_setup_teardown(test_purge_of_a_pipe_that_goes, setup, teardown),
		cmocka_unit_test_setup_teardown(test_purge_ends, setup, teardown),
		cmocka_unit_test_setup_teardown(test_one_way, setup, teardown),
		cmocka_unit_test_setup_teardown(test_end_of_the_device, setup, teardown),
		cmocka_unit_test_setup_teardown(test_purge_of_overflow, setup, teardown),
		cmocka_unit_test_setup_teardown(test_closed_channel_is_dropped, setup, teardown),
		cmocka_unit_test_setup_teardown(test_full_channel_that_is_closed_is_dropped, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_async_pipes, setup, teardown),
		cmocka_unit_test_setup_teardown(test_async_pipe_in_two_steps, setup, teardown),
		cmocka_unit_test_setup_teardown(test_async_pipe_of_an_object, setup, teardown),
		cmocka_unit_test_setup_teardown(test_port_is_no_object, setup, teardown),
		cmocka_unit_test_setup_teardown(test_threads, setup, teardown),
	};

	signal(SIGPIPE, SIG_IGN); /* as the daemon does */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
