/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What this machine can do without simhca, for scripts/bench to compare with:
 *
 *   memcpy_gbps   copying a 64 KiB block that is in the cache, in Gb/s
 *   futex_usec    waking another process that sleeps on a futex, one way
 *   pipe_usec     the same by a byte through a pipe
 *
 * One line "name value" for each. The two processes of a ping-pong sleep in turn, so that a
 * number is the time of one system call, one wake-up and one return. It ends by itself: what is
 * not done after TIMEOUT_S kills both.
 */
#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TIMEOUT_S 30
#define BLOCK (64u * 1024u)
#define COPY_NS 200000000u
#define COPIES 256 /* between two looks at the clock */
#define ROUND_TRIPS 10000u

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void fail(const char *what)
{
	fprintf(stderr, "reference: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void measure_memcpy(void)
{
	char *from = aligned_alloc(4096, BLOCK), *to = aligned_alloc(4096, BLOCK);
	uint64_t begin, ns, blocks = 0;

	if (!from || !to)
		fail("memory");
	memset(from, 1, BLOCK);
	memset(to, 2, BLOCK);
	begin = now_ns();
	do {
		for (int i = 0; i < COPIES; i++) {
			memcpy(to, from, BLOCK);
			/* The compiler must take it that somebody reads the copy. */
			__asm__ volatile("" : : "r"(to), "r"(from) : "memory");
		}
		blocks += COPIES;
		ns = now_ns() - begin;
	} while (ns < COPY_NS);
	printf("memcpy_gbps %.3f\n", (double)blocks * BLOCK * 8 / (double)ns);
	free(from);
	free(to);
}

/* ------------------------------------------------------------------------------ ping-pong */

/* What the two processes share: whose turn it is, for futexes; two pipes. */
struct table {
	_Atomic uint32_t turn; /* 0: the parent's, 1: the child's */
	int there[2], back[2];
};

static void futex(struct table *table, int operation, uint32_t value)
{
	syscall(SYS_futex, &table->turn, operation, value, NULL, NULL, 0);
}

static void pass_futex(struct table *table, uint32_t me)
{
	atomic_store(&table->turn, !me);
	futex(table, FUTEX_WAKE, 1);
}

static void await_futex(struct table *table, uint32_t me)
{
	while (atomic_load(&table->turn) != me)
		futex(table, FUTEX_WAIT, !me);
}

static void pass_pipe(struct table *table, uint32_t me)
{
	if (write(me ? table->back[1] : table->there[1], "", 1) != 1)
		fail("write");
}

static void await_pipe(struct table *table, uint32_t me)
{
	char byte;

	if (read(me ? table->there[0] : table->back[0], &byte, 1) != 1)
		fail("read");
}

static void measure_ping_pong(const char *name, void (*pass)(struct table *, uint32_t),
			      void (*await)(struct table *, uint32_t))
{
	struct table *table = mmap(NULL, sizeof(*table), PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t parent = getpid(), child;
	uint64_t begin, ns;
	int status;

	if (table == MAP_FAILED || pipe(table->there) || pipe(table->back))
		fail("ping-pong");
	fflush(stdout);
	child = fork();
	if (child < 0)
		fail("fork");
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(1);
		for (uint32_t i = 0; i < ROUND_TRIPS; i++) {
			await(table, 1);
			pass(table, 1);
		}
		_exit(0);
	}
	begin = now_ns();
	for (uint32_t i = 0; i < ROUND_TRIPS; i++) {
		pass(table, 0);
		await(table, 0);
	}
	ns = now_ns() - begin;
	if (waitpid(child, &status, 0) != child || status)
		fail("the other process");
	printf("%s %.3f\n", name, (double)ns / 1000 / (2 * ROUND_TRIPS));
	for (int i = 0; i < 2; i++) {
		close(table->there[i]);
		close(table->back[i]);
	}
	munmap(table, sizeof(*table));
}

int main(void)
{
	alarm(TIMEOUT_S);
	measure_memcpy();
	measure_ping_pong("futex_usec", pass_futex, await_futex);
	measure_ping_pong("pipe_usec", pass_pipe, await_pipe);
	return 0;
}
