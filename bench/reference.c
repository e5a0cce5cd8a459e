/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What this machine can do without simhca, for scripts/bench to compare with. One line "name us"
 * for each, the time of one; the number in a name is its bytes:
 *
 *   memcpy_N       copying within a process
 *   vm_write_N     process_vm_writev() to another process; vm_read_N: process_vm_readv()
 *   mem_write_N    pwrite() on its /proc/PID/mem; mem_read_N: pread()
 *   futex, pipe    waking another process that sleeps there, one way
 *   tcp            a byte over loopback, one way; who waits polls
 *   line           a cache line that changes in memory which both have, one way, from CPU to CPU
 *
 * With "line" as an argument, that alone.
 *
 * The two processes of a ping-pong wait in turn, so that a number is the time of one call, one
 * wake-up and one return. It ends by itself: what is not done after TIMEOUT_S kills both.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TIMEOUT_S 30
#define MOST (1u << 20) /* bytes */
#define COPY_NS 50000000u
#define COPIES 64 /* between two looks at the clock */
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

/* ------------------------------------------------------------------------------- copies */

/* Ways to copy between our buffer and the other process's, which has it at the same address. */
static struct {
	char *from, *to;
	pid_t other;
	int mem; /* /proc/PID/mem of the other */
} copy;

static void by_memcpy(size_t size)
{
	memcpy(copy.to, copy.from, size);
	/* The compiler must take it that somebody reads the copy. */
	__asm__ volatile("" : : "r"(copy.to), "r"(copy.from) : "memory");
}

static void by_vm_write(size_t size)
{
	struct iovec from = { copy.from, size }, to = { copy.to, size };

	if (process_vm_writev(copy.other, &from, 1, &to, 1, 0) != (ssize_t)size)
		fail("process_vm_writev");
}

static void by_vm_read(size_t size)
{
	struct iovec from = { copy.from, size }, to = { copy.to, size };

	if (process_vm_readv(copy.other, &to, 1, &from, 1, 0) != (ssize_t)size)
		fail("process_vm_readv");
}

static void by_mem_write(size_t size)
{
	if (pwrite(copy.mem, copy.from, size, (off_t)(uintptr_t)copy.to) != (ssize_t)size)
		fail("pwrite");
}

static void by_mem_read(size_t size)
{
	if (pread(copy.mem, copy.to, size, (off_t)(uintptr_t)copy.from) != (ssize_t)size)
		fail("pread");
}

static void measure_copy(const char *name, void (*way)(size_t), size_t size)
{
	uint64_t begin = now_ns(), ns, copies = 0;

	do {
		for (int i = 0; i < COPIES; i++)
			way(size);
		copies += COPIES;
		ns = now_ns() - begin;
	} while (ns < COPY_NS);
	printf("%s_%zu %.4f\n", name, size, (double)ns / 1000 / (double)copies);
}

static void measure_copies(void)
{
	static const size_t small[] = { 8, 64, 4096 }, all[] = { 8, 64, 4096, 65536, MOST };
	char path[32];

	copy.from = aligned_alloc(4096, MOST);
	copy.to = aligned_alloc(4096, MOST);
	if (!copy.from || !copy.to)
		fail("memory");
	memset(copy.from, 1, MOST);
	memset(copy.to, 2, MOST);
	fflush(stdout);
	copy.other = fork();
	if (copy.other < 0)
		fail("fork");
	if (!copy.other) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		/* Pages of its own. */
		memset(copy.from, 3, MOST);
		memset(copy.to, 4, MOST);
		for (;;)
			pause();
	}
	snprintf(path, sizeof(path), "/proc/%d/mem", (int)copy.other);
	copy.mem = open(path, O_RDWR | O_CLOEXEC);
	if (copy.mem < 0)
		fail(path);
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		measure_copy("memcpy", by_memcpy, all[i]);
		measure_copy("vm_write", by_vm_write, all[i]);
		measure_copy("vm_read", by_vm_read, all[i]);
	}
	for (size_t i = 0; i < sizeof(small) / sizeof(small[0]); i++) {
		measure_copy("mem_write", by_mem_write, small[i]);
		measure_copy("mem_read", by_mem_read, small[i]);
	}
	kill(copy.other, SIGKILL);
	waitpid(copy.other, NULL, 0);
	close(copy.mem);
	free(copy.from);
	free(copy.to);
}

/* ------------------------------------------------------------------------------ ping-pong */

/* What the two processes share: whose turn it is, for futexes; two pipes; a connection. */
struct table {
	_Atomic uint32_t turn; /* 0: the parent's, 1: the child's */
	int there[2], back[2];
	int tcp[2];
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

static void pass_tcp(struct table *table, uint32_t me)
{
	if (send(table->tcp[me], "", 1, 0) != 1)
		fail("send");
}

static void await_tcp(struct table *table, uint32_t me)
{
	ssize_t size;
	char byte;

	do
		size = recv(table->tcp[me], &byte, 1, MSG_DONTWAIT);
	while (size < 0 && errno == EAGAIN);
	if (size != 1)
		fail("recv");
}

static void connect_tcp(struct table *table)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof(address);
	int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;

	table->tcp[1] = socket(AF_INET, SOCK_STREAM, 0);
	if (listener < 0 || table->tcp[1] < 0 ||
	    bind(listener, (struct sockaddr *)&address, size) || listen(listener, 1) ||
	    getsockname(listener, (struct sockaddr *)&address, &size) ||
	    connect(table->tcp[1], (struct sockaddr *)&address, size))
		fail("TCP");
	table->tcp[0] = accept(listener, NULL, NULL);
	if (table->tcp[0] < 0)
		fail("accept");
	for (int i = 0; i < 2; i++)
		setsockopt(table->tcp[i], IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	close(listener);
}

static void pass_line(struct table *table, uint32_t me)
{
	atomic_store_explicit(&table->turn, !me, memory_order_release);
}

static void await_line(struct table *table, uint32_t me)
{
	while (atomic_load_explicit(&table->turn, memory_order_acquire) != me)
		;
}

static void stay_on(int cpu)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	if (sched_setaffinity(0, sizeof(one), &one))
		fail("sched_setaffinity");
}

/* cpus: each of the two stays on one of these; NULL: where it is put. */
static void measure_ping_pong(const char *name, void (*pass)(struct table *, uint32_t),
			      void (*await)(struct table *, uint32_t), const int *cpus)
{
	struct table *table = mmap(NULL, sizeof(*table), PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t parent = getpid(), child;
	uint64_t begin, ns;
	int status;

	if (table == MAP_FAILED || pipe(table->there) || pipe(table->back))
		fail("ping-pong");
	connect_tcp(table);
	fflush(stdout);
	child = fork();
	if (child < 0)
		fail("fork");
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(1);
		if (cpus)
			stay_on(cpus[1]);
		for (uint32_t i = 0; i <= ROUND_TRIPS; i++) {
			await(table, 1);
			pass(table, 1);
		}
		_exit(0);
	}
	if (cpus)
		stay_on(cpus[0]);
	/* The first one waits until there is a child. */
	pass(table, 0);
	await(table, 0);
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
		close(table->tcp[i]);
	}
	munmap(table, sizeof(*table));
}

/* Nothing on a single CPU. This process stays on one then. */
static void measure_line(void)
{
	cpu_set_t all;
	int cpus[2], found = 0;

	if (sched_getaffinity(0, sizeof(all), &all))
		fail("sched_getaffinity");
	for (int cpu = 0; cpu < CPU_SETSIZE && found < 2; cpu++)
		if (CPU_ISSET(cpu, &all))
			cpus[found++] = cpu;
	if (found == 2)
		measure_ping_pong("line", pass_line, await_line, cpus);
}

int main(int argc, char **argv)
{
	alarm(TIMEOUT_S);
	if (argc == 1) {
		measure_copies();
		measure_ping_pong("futex", pass_futex, await_futex, NULL);
		measure_ping_pong("pipe", pass_pipe, await_pipe, NULL);
		measure_ping_pong("tcp", pass_tcp, await_tcp, NULL);
	} else if (argc > 2 || strcmp(argv[1], "line") != 0) {
		fprintf(stderr, "Usage: reference [line]\n");
		return 2;
	}
	measure_line();
	return 0;
}
