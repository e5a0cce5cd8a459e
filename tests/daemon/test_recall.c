/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Programs that are recalled from regions which have gone: which of them a command waits for. */
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

#define SESSIONS 3 /* of which the first two are of one program */

static struct world {
	struct daemon daemon;
	struct session session[SESSIONS];
	int client[SESSIONS]; /* the other end of its connection */
	struct recall recall;
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
		*session = (struct session){ .device = device,
					     .fd = ends[0],
					     .context_id = 7 + i,
					     .owner.program = i < 2 ? 100 : 200,
					     .maps = true };
		world.client[i] = ends[1];
		DL_APPEND(device->sessions, session);
		HASH_ADD(hh, world.daemon.contexts, context_id, sizeof(session->context_id),
			 session);
	}
	return 0;
}

static int tear_down(void **state)
{
	HASH_CLEAR(hh, world.daemon.contexts);
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

static void recall(void)
{
	recall_later(&world.daemon);
	recall_now(&world.daemon, &world.recall);
}

static void end(void)
{
	recall_await(&world.recall);
	recall_end(&world.daemon, &world.recall);
}

/* Of regions that go while a recall is due, programs hear once. */
static void once(void **state)
{
	recall_now(&world.daemon, &world.recall);
	assert_int_equal(0, world.recall.count);
	recall_later(&world.daemon);
	recall_later(&world.daemon);
	ev_run(world.daemon.loop, 0);
	for (int i = 0; i < SESSIONS; i++)
		assert_int_equal(1, read_all(i));
	recall_now(&world.daemon, &world.recall);
	assert_int_equal(0, world.recall.count);
}

/* Neither does one hear that has mapped nothing, nor one that ends. */
static void not_all(void **state)
{
	world.session[0].maps = false;
	world.session[1].end = SESSION_PROCESSES;
	recall();
	assert_int_equal(1, world.recall.count);
	assert_int_equal(world.session[2].context_id, world.recall.peer[0].context);
	assert_int_equal(0, read_all(0) + read_all(1));
	assert_int_equal(1, read_all(2));
	end();
}

static void in_time(void **state)
{
	for (int round = 0; round < 2; round++) {
		recall();
		assert_int_equal(SESSIONS, world.recall.count);
		for (int i = 0; i < SESSIONS; i++)
			assert_int_equal(1, read_all(i));
		end();
	}
}

/* One that has not read the byte before, as it is stopped. */
static void stopped(void **state)
{
	recall();
	read_all(1);
	read_all(2);
	for (unsigned int i = 0; i < world.recall.count; i++)
		close(world.recall.peer[i].fd); /* nobody waits for this one */
	recall();
	assert_int_equal(2, world.recall.count);
	for (int i = 0; i < SESSIONS; i++)
		read_all(i);
	end();
}

/* One that is late is not waited for the next time, whatever it has read by then, and neither is its program. */
static void late(void **state)
{
	recall();
	read_all(1);
	read_all(2);
	end();
	read_all(0);
	recall();
	assert_int_equal(1, world.recall.count);
	assert_int_equal(world.session[2].context_id, world.recall.peer[0].context);
	for (int i = 0; i < SESSIONS; i++)
		assert_int_equal(1, read_all(i));
	end();
}

/* It ended while others waited for it. */
static void late_and_gone(void **state)
{
	recall();
	for (int i = 1; i < SESSIONS; i++)
		read_all(i);
	recall_await(&world.recall);
	HASH_DELETE(hh, world.daemon.contexts, &world.session[0]);
	DL_DELETE(world.daemon.devices[0].sessions, &world.session[0]);
	recall_end(&world.daemon, &world.recall);
	recall();
	assert_int_equal(2, world.recall.count);
	for (int i = 1; i < SESSIONS; i++)
		read_all(i);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(once, set_up, tear_down),
		cmocka_unit_test_setup_teardown(not_all, set_up, tear_down),
		cmocka_unit_test_setup_teardown(in_time, set_up, tear_down),
		cmocka_unit_test_setup_teardown(stopped, set_up, tear_down),
		cmocka_unit_test_setup_teardown(late, set_up, tear_down),
		cmocka_unit_test_setup_teardown(late_and_gone, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
