/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The memory of processes that live, have ended, and end between the question whether they are known and the use
 * of their memory.
 */
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/process.h"
#include "c/harness.h"
#include "dma/dma.h"

struct fixture {
	struct world *world;
	struct simhca_context *context;
	struct process_table table;
	struct process_use *uses;
};

static pid_t start_child(void)
{
	pid_t child = fork();

	assert_true(child >= 0);
	if (!child) {
		pause();
		_exit(0);
	}
	return child;
}

static void end_child(pid_t child)
{
	kill(child, SIGKILL);
	assert_int_equal(child, waitpid(child, NULL, 0));
}

static void look_at(struct fixture *f, pid_t pid)
{
	struct process_look look;

	process_look_start(&look, pid, -1);
	process_look_do(&look);
	assert_true(process_look_finish(&f->table, &look));
}

static void one_that_lives(void **state)
{
	struct fixture *f = *state;
	pid_t child = start_child();
	bool reachable = false;
	struct simhca_mm *mm;

	assert_false(process_is_known(&f->table, child, &reachable));
	look_at(f, child);
	assert_true(process_is_known(&f->table, child, &reachable) && reachable);
	mm = process_memory(&f->table, &f->uses, f->context, child);
	assert_non_null(mm);
	assert_ptr_equal(mm, process_memory(&f->table, &f->uses, f->context, child));
	assert_non_null(f->uses->process);
	end_child(child);
	assert_false(process_is_known(&f->table, child, &reachable));
	assert_null(f->uses);
	assert_true(simhca_mm_known_gone(mm));
}

/* Nobody would see when its number is another process's. */
static void one_that_ends_just_then(void **state)
{
	struct fixture *f = *state;
	pid_t child = start_child();
	bool reachable;

	look_at(f, child);
	assert_true(process_is_known(&f->table, child, &reachable));
	end_child(child);
	errno = 0;
	assert_null(process_memory(&f->table, &f->uses, f->context, child));
	assert_int_equal(ESRCH, errno);
	assert_null(f->uses);
	assert_null(f->table.by_pid);
}

/* Of a pid namespace that cannot be seen from here. */
static void one_without_a_number(void **state)
{
	struct fixture *f = *state;

	assert_non_null(process_memory(&f->table, &f->uses, f->context, 0));
	assert_null(f->uses->process);
	process_release(f->uses);
	assert_null(f->uses);
}

static int set_up(void **state)
{
	static struct fixture f;

	f = (struct fixture){ .world = world_new(&(struct world_config){ 0 }) };
	f.context = client_new(f.world, 0)->context;
	f.table.loop = ev_loop_new(0);
	*state = &f;
	return !f.table.loop;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	ev_loop_destroy(f->table.loop);
	world_free(f->world);
	return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(one_that_lives),
		TEST(one_that_ends_just_then),
		TEST(one_without_a_number),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
