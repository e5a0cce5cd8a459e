/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Accesses to pages that a file has lost: they end, and the program's own signals are as they would be without us.
 * Each scene is a process, as a handler is installed once in each.
 */
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dma/bus_error.h"
#include "harness.h"
#include "message/step_impl.h"

#define PAGE 4096u
#define STACK (64u << 10) /* bytes */

#ifndef SS_AUTODISARM
#define SS_AUTODISARM (1u << 31)
#endif

/* Two pages, of which the file has the first one only. */
static char *half_there(void)
{
	int fd = memfd_create("half", MFD_CLOEXEC);
	char *memory;

	assert_int_equal(0, ftruncate(fd, 2 * PAGE));
	memory = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(MAP_FAILED, memory);
	assert_int_equal(0, ftruncate(fd, PAGE));
	close(fd);
	return memory;
}

static unsigned int accesses;

static void add_one(void *arg)
{
	accesses++;
	++*(volatile char *)arg;
}

static bool add_one_to(char *byte)
{
	const struct iovec piece = { byte, 1 };

	return simhca_guard_access(&(struct simhca_guarded){ add_one, byte, { { &piece, 1 } } });
}

static void exit_by_handler(int signal)
{
	_exit(signal == SIGBUS ? 3 : 4);
}

static void exit_with_info(int signal, siginfo_t *info, void *context)
{
	_exit(signal == SIGBUS && info->si_code == BUS_ADRERR && context ? 5 : 6);
}

/* ------------------------------------------------------------------- scenes: 0 if all is well */

static int what_is_missing(char *memory)
{
	const struct simhca_atomic_op add = { .swap_add = 5 };
	uint64_t old = 7;

	if (!simhca_bus_errors_are_caught())
		return 10;
	for (unsigned int i = 1; i <= 3; i++)
		if (!add_one_to(memory) || memory[0] != (char)i || add_one_to(memory + PAGE))
			return 11;
	if (!simhca_guarded_atomic(true, &add, (_Atomic uint64_t *)(void *)memory, &old) ||
	    old != 3 || *(uint64_t *)(void *)memory != 8)
		return 12;
	return simhca_guarded_atomic(true, &add, (_Atomic uint64_t *)(void *)(memory + PAGE),
				     &old) ||
			       accesses != 6
		       ? 13
		       : 0;
}

/* Again and again: the access that ended has left nothing locked, not even by ThreadSanitizer. */
static int what_stays_missing(char *memory)
{
	static struct simhca_step_regions regions = { .may_fail = true };
	static struct simhca_step step = { .regions = &regions };
	uint64_t word = 0;
	const struct simhca_step_list own = { .count = 1, .iov[0] = { &word, sizeof(word) } };
	const struct simhca_step_list there = {
		.count = 1,
		.mapped = true,
		.iov[0] = { memory + PAGE, sizeof(word) },
	};
	static const struct simhca_atomic_op ops[] = { { .swap_add = 1 },
						       { .swap_add = 1, .compare_swap = true },
						       { .store = true } };

	if (!simhca_bus_errors_are_caught())
		return 10;
	for (unsigned int i = 0; i < 30; i++) {
		uint64_t old;

		if (simhca_guarded_atomic(true, &ops[i % 3],
					  (_Atomic uint64_t *)(void *)(memory + PAGE), &old))
			return 11;
		if (simhca_step_copy_mapped(&step, &own, &there, sizeof(word), i % 2))
			return 12;
	}
	return 0;
}

/* Nothing of the program's is caught, before an access of ours and after. */
static int own_access(char *memory)
{
	if (!simhca_bus_errors_are_caught() || add_one_to(memory + PAGE))
		return 10;
	add_one(memory + PAGE);
	return 11;
}

static int own_handler(char *memory)
{
	signal(SIGBUS, exit_by_handler);
	return own_access(memory);
}

static int own_handler_with_info(char *memory)
{
	const struct sigaction action = { .sa_sigaction = exit_with_info, .sa_flags = SA_SIGINFO };

	sigaction(SIGBUS, &action, NULL);
	return own_access(memory);
}

static int sent_by_kill(char *memory)
{
	(void)memory;
	if (!simhca_bus_errors_are_caught())
		return 10;
	raise(SIGBUS);
	return 11;
}

static int ignored_when_sent(char *memory)
{
	signal(SIGBUS, SIG_IGN);
	return sent_by_kill(memory) == 11 ? 0 : 12;
}

static int ignored_by_an_access(char *memory)
{
	signal(SIGBUS, SIG_IGN);
	return own_access(memory);
}

#ifndef __SANITIZE_THREAD__ /* which delivers a signal that was sent when the access is over */
static char *missing;	    /* page */

static void touch_the_missing(int signal)
{
	(void)signal;
	add_one(missing);
}

static void interrupt(void *arg)
{
	(void)arg;
	raise(SIGUSR1);
}

/* What a handler of the program's does in the middle of an access of ours is no part of it. */
static int an_access_that_is_interrupted(char *memory)
{
	const struct iovec piece = { memory, PAGE };
	const struct simhca_guarded access = { interrupt, NULL, { { &piece, 1 } } };

	signal(SIGBUS, exit_by_handler);
	signal(SIGUSR1, touch_the_missing);
	missing = memory + PAGE;
	if (!simhca_bus_errors_are_caught())
		return 10;
	simhca_guard_access(&access);
	return 11;
}
#endif

/* Of a program that has a handler of its own by now, or blocks the signal, no access is guarded. */
static int a_later_handler(char *memory)
{
	(void)memory;
	if (!simhca_bus_errors_are_caught())
		return 10;
	signal(SIGBUS, exit_by_handler);
	return simhca_bus_errors_are_caught() ? 11 : 0;
}

static struct sigaction before_ours_was_called;

static void call_ours(int signal, siginfo_t *info, void *context)
{
	before_ours_was_called.sa_sigaction(signal, info, context);
}

/* One that calls the handler before it, which is ours, with all signals blocked: they are not after the access. */
static int a_later_handler_that_passes_on(char *memory)
{
	struct sigaction action = { .sa_sigaction = call_ours, .sa_flags = SA_SIGINFO };
	sigset_t before, after;

	if (!simhca_bus_errors_are_caught())
		return 10;
	sigfillset(&action.sa_mask);
	sigaction(SIGBUS, &action, &before_ours_was_called);
	pthread_sigmask(SIG_BLOCK, NULL, &before);
	for (int i = 0; i < 2; i++) {
		if (add_one_to(memory + PAGE))
			return 11;
		pthread_sigmask(SIG_BLOCK, NULL, &after);
		for (int number = 1; number < NSIG; number++)
			if (sigismember(&before, number) != sigismember(&after, number))
				return 12;
	}
	return 0;
}

#ifndef __SANITIZE_ADDRESS__
/* A stack that the kernel takes away as it delivers a signal there, and gives back at the end of the handler. */
static int a_stack_of_its_own(char *memory)
{
	stack_t stack = { .ss_sp = malloc(STACK), .ss_size = STACK }, after;

	stack.ss_flags = (int)SS_AUTODISARM;
	if (!stack.ss_sp || sigaltstack(&stack, NULL) || !simhca_bus_errors_are_caught())
		return 10;
	if (add_one_to(memory + PAGE) || add_one_to(memory + PAGE) || !add_one_to(memory))
		return 11;
	sigaltstack(NULL, &after);
	return after.ss_sp == stack.ss_sp && after.ss_size == STACK &&
			       after.ss_flags == stack.ss_flags
		       ? 0
		       : 12;
}
#endif

static int a_blocked_signal(char *memory)
{
	sigset_t bus;

	sigemptyset(&bus);
	sigaddset(&bus, SIGBUS);
	pthread_sigmask(SIG_BLOCK, &bus, NULL);
	if (simhca_bus_errors_are_caught() || add_one_to(memory) || accesses)
		return 10;
	pthread_sigmask(SIG_UNBLOCK, &bus, NULL);
	if (!add_one_to(memory) || !simhca_bus_errors_are_caught())
		return 11;
	/* Who asks again is told. */
	pthread_sigmask(SIG_BLOCK, &bus, NULL);
	return simhca_bus_errors_are_caught() || add_one_to(memory) ? 12 : 0;
}

static void each_scene(void **state)
{
	static const struct {
		int (*run)(char *memory);
		int exit, signal;
	} scenes[] = {
		{ what_is_missing, 0, 0 },
		{ what_stays_missing, 0, 0 },
		{ own_access, 0, SIGBUS },
		{ own_handler, 3, 0 },
		{ own_handler_with_info, 5, 0 },
		{ sent_by_kill, 0, SIGBUS },
		{ ignored_when_sent, 0, 0 },
		{ ignored_by_an_access, 0, SIGBUS },
#ifndef __SANITIZE_THREAD__
		{ an_access_that_is_interrupted, 3, 0 },
#endif
		{ a_later_handler, 0, 0 },
		{ a_later_handler_that_passes_on, 0, 0 },
#ifndef __SANITIZE_ADDRESS__ /* it cannot see that stack in the handler, and reports that it ignores the jump */
		{ a_stack_of_its_own, 0, 0 },
#endif
		{ a_blocked_signal, 0, 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(scenes); i++) {
		pid_t child = fork();
		int status;

		assert_true(child >= 0);
		if (!child) {
			signal(SIGBUS, SIG_DFL); /* a sanitizer's would tell of it */
			_exit(scenes[i].run(half_there()));
		}
		assert_int_equal(child, waitpid(child, &status, 0));
		print_message("scene %zu: status 0x%x\n", i, status);
		assert_int_equal(scenes[i].signal, WIFSIGNALED(status) ? WTERMSIG(status) : 0);
		assert_int_equal(scenes[i].exit, WIFEXITED(status) ? WEXITSTATUS(status) : 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(each_scene) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
