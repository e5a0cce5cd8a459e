/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Memory that is moved into a file as it is registered, in children. Argument: one of the scenes below. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "moved_memory.h"

static void wait_for(pid_t child)
{
	int status;

	CHECK(child > 0 && waitpid(child, &status, 0) == child && !status);
}

/*
 * What the program's own handlers do. They are there before the provider is loaded, so they run after its own before
 * the fork, and before them after it.
 */
static void (*at_fork)(bool before);
static struct ibv_mr *in_handler;
static char *handlers_memory;

static void before_fork(void)
{
	if (at_fork)
		at_fork(true);
}

static void after_fork(void)
{
	if (at_fork)
		at_fork(false);
}

static void register_before(bool before)
{
	if (before)
		in_handler = reg(handlers_memory, PAGE);
	else
		CHECK(!ibv_dereg_mr(in_handler));
}

static void deregister_before(bool before)
{
	if (before) {
		CHECK(!ibv_dereg_mr(in_handler) && !is_moved(handlers_memory));
		CHECK(!ibv_dereg_mr(reg(handlers_memory, PAGE)));
	} else {
		in_handler = reg(handlers_memory, PAGE);
	}
}

/* The child has a copy of what was there, and is as free with it as with other memory. */
static void forked(void)
{
	char *memory = map_pages(PAGES), *other = map_pages(1);
	struct ibv_mr *mr;
	pid_t child;

	fill(memory, LENGTH, 1);
	mr = reg(memory, LENGTH);
	CHECK(!munmap(memory + 3 * PAGE, PAGE) && !mprotect(memory + 4 * PAGE, PAGE, PROT_READ));
	child = fork();
	if (!child) {
		struct ibv_mr *mine;

		CHECK(!is_moved(memory) && !is_moved(memory + 4 * PAGE) && !count_files());
		CHECK(is_filled(memory, 3 * PAGE, 1) && memory[LENGTH - PAGE] == (char)(15 + 1));
		errno = 0;
		CHECK(msync(memory + 3 * PAGE, PAGE, MS_ASYNC) && errno == ENOMEM);
		usleep(50000); /* the parent writes meanwhile */
		CHECK(is_filled(memory, 3 * PAGE, 1));
		memset(memory, 'c', 3 * PAGE);
		/* Its own region of the same memory, in what it has inherited; and its parent's is not its own. */
		mine = reg(memory, 2 * PAGE);
		CHECK(!ibv_dereg_mr(mine) && memory[0] == 'c');
		_exit(0);
	}
	CHECK(is_moved(memory));
	fill(memory, 3 * PAGE, 2);
	wait_for(child);
	CHECK(is_filled(memory, 3 * PAGE, 2));
	check_messages(mr, memory, LENGTH);
	CHECK(!ibv_dereg_mr(mr) && is_filled(memory, 3 * PAGE, 2));

	/* Regions that come and go in a program's own handlers, and a child that deregisters its parent's. */
	fill(other, PAGE, 5);
	handlers_memory = other;
	at_fork = register_before;
	mr = reg(memory, 2 * PAGE);
	child = fork();
	if (!child) {
		CHECK(!is_moved(memory) && is_filled(memory, 2 * PAGE, 2));
		CHECK(is_filled(other, PAGE, 5));
		_exit(0);
	}
	wait_for(child);
	CHECK(is_filled(other, PAGE, 5) && !is_moved(other));
	CHECK(is_moved(memory) && !ibv_dereg_mr(mr) && is_filled(memory, 2 * PAGE, 2));
}

/* There is no memory for a copy: the child has none, rather than its parent's. */
static void forked_without_memory(void)
{
	char *memory = map_pages(PAGES);
	struct ibv_mr *mr;
	struct rlimit limit, none = { 0 };
	int status;
	pid_t child;

	fill(memory, LENGTH, 1);
	mr = reg(memory, LENGTH);
	CHECK(is_moved(memory) && !getrlimit(RLIMIT_AS, &limit));
	none.rlim_max = limit.rlim_max;
	CHECK(!setrlimit(RLIMIT_AS, &none));
	child = fork();
	if (!child) {
		signal(SIGSEGV, SIG_DFL); /* AddressSanitizer's handler would report it */
		memset(memory, 'c', LENGTH);
		_exit(0);
	}
	CHECK(!setrlimit(RLIMIT_AS, &limit));
	CHECK(child > 0 && waitpid(child, &status, 0) == child);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
	CHECK(is_moved(memory) && is_filled(memory, LENGTH, 1));
	check_messages(mr, memory, LENGTH);
	CHECK(!ibv_dereg_mr(mr) && is_filled(memory, LENGTH - PAGE, 1));
}

static void *register_all_the_time(void *arg)
{
	char *memory = map_pages(2);

	for (const atomic_bool *stop = arg; !atomic_load(stop);) {
		struct ibv_mr *mr = reg(memory, 2 * PAGE);

		memory[0]++;
		CHECK(!ibv_dereg_mr(mr));
	}
	return NULL;
}

/* While other threads register, and handlers of the program's do as well. */
static void forked_meanwhile(void)
{
	char *memory = map_pages(PAGES);
	struct ibv_mr *mr = reg(memory, LENGTH);
	atomic_bool stop = false;
	pthread_t thread[2];

	handlers_memory = map_pages(1);
	in_handler = reg(handlers_memory, PAGE);
	CHECK(is_moved(handlers_memory));
	at_fork = deregister_before;
	for (int i = 0; i < 2; i++)
		CHECK(!pthread_create(&thread[i], NULL, register_all_the_time, &stop));
	for (unsigned int i = 0; i < 100; i++) {
		pid_t child;

		fill(memory, LENGTH, i);
		child = fork();
		if (!child) {
			CHECK(is_filled(memory, LENGTH, i));
			memset(memory, 0, LENGTH);
			CHECK(!ibv_dereg_mr(reg(memory, LENGTH)));
			_exit(0);
		}
		wait_for(child);
		CHECK(is_filled(memory, LENGTH, i));
	}
	atomic_store(&stop, true);
	for (int i = 0; i < 2; i++)
		CHECK(!pthread_join(thread[i], NULL));
	CHECK(!ibv_dereg_mr(mr));
}

static const struct scene scenes[] = {
	{ "forked", forked },
	{ "forked_without_memory", forked_without_memory },
	{ "forked_meanwhile", forked_meanwhile },
};

int main(int argc, char **argv)
{
	CHECK(!pthread_atfork(before_fork, after_fork, NULL));
	return RUN_SCENE(argc > 1 ? argv[1] : "", scenes);
}
