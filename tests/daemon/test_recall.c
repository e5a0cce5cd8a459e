/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Programs that are recalled from regions which have gone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utlist.h>

#include <cmocka.h>

#include "session/daemon.h"
#include "session/recall.h"
#include "session/session.h"

#define SESSIONS 3

static struct world {
	struct daemon daemon;
	struct session session[SESSIONS];
	int client[SESSIONS]; /* the other end of its connection */
} world;

static int set_up(void **state)
{
	static const struct world none;
	struct device *device = &world.daemon.devices[0];
	int ends[2];

	world = none;
	world.daemon.loop = ev_loop_new(EVFLAG_AUTO);
	world.daemon.num_devices = 1;
	for (uint32_t i = 0; i < SESSIONS; i++) {
		struct session *session = &world.session[i];

		assert_false(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends));
		*session = (struct session){ .device = device, .fd = ends[0], .maps = true };
		world.client[i] = ends[1];
		DL_APPEND(device->sessions, session);
	}
	return 0;
}

static int tear_down(void **state)
{
	for (int i = 0; i < SESSIONS; i++) {
		close(world.session[i].fd);
		close(world.client[i]);
	}
	ev_loop_destroy(world.daemon.loop);
	return 0;
}

/* How many bytes a program finds. */
static int read_all(int i)
{
	int count = 0;
	char byte;

	while (recv(world.client[i], &byte, 1, MSG_DONTWAIT) == 1)
		count++;
	return count;
}

/* Of regions that go while a recall is due, programs hear once. */
static void once(void **state)
{
	recall_later(&world.daemon);
	recall_later(&world.daemon);
	ev_run(world.daemon.loop, 0);
	for (int i = 0; i < SESSIONS; i++)
		assert_int_equal(1, read_all(i));
	recall_later(&world.daemon);
	ev_run(world.daemon.loop, 0);
	assert_int_equal(1, read_all(0));
}

/* Neither does one hear that has mapped nothing, nor one that ends. */
static void not_all(void **state)
{
	world.session[0].maps = false;
	world.session[1].end = SESSION_PROCESSES;
	recall_later(&world.daemon);
	ev_run(world.daemon.loop, 0);
	assert_int_equal(0, read_all(0) + read_all(1));
	assert_int_equal(1, read_all(2));
}

/* One that never reads holds up nobody. */
static void full(void **state)
{
	for (int i = 0; i < 2000; i++) {
		recall_later(&world.daemon);
		ev_invoke(world.daemon.loop, &world.daemon.recall, 0);
		ev_timer_stop(world.daemon.loop, &world.daemon.recall);
		assert_int_equal(1, read_all(2));
	}
	assert_true(read_all(0) < 2000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(once, set_up, tear_down),
		cmocka_unit_test_setup_teardown(not_all, set_up, tear_down),
		cmocka_unit_test_setup_teardown(full, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
