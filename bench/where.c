/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Where the time of a message goes, of a program that sends to itself:
 *
 *   where DAEMON CPU	its process number, and where it runs; we run elsewhere
 *
 * Prints lines "operation bytes step us", of each the best of some rounds: what else the machine
 * does adds to all of them.
 *
 *   post     ibv_post_send(), while the engine is awake; recv: ibv_post_recv()
 *   engine   CPU of the daemon for a message, many under way
 *   get, put the system calls by which a process's bytes come to another one, and get back
 *   poll     ibv_poll_cq() that finds a completion
 *   alone    from before the post to after the poll, one under way
 *
 * and "hand-over 0 cpu us", from a thread's store to the other one's load.
 */
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/uio.h>

#include "loopback.h"

#define MOST 65536u /* bytes */
#define DEPTH 64u
#define ROUNDS 7
#define MESSAGES 4096u /* of a round */

static const uint32_t sizes[] = { 8, 4096, MOST };

static struct {
	struct loopback loopback;
	struct ibv_mr *mr;
	char *source, *target;
	pid_t daemon;
	int cpu; /* the daemon's */
	/* Another process, with its buffer at source, too. */
	pid_t other;
	int mem, pagemap;
} all;

static uint64_t ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static double median_us(uint64_t *values, size_t count)
{
	qsort(values, count, sizeof(*values), by_value);
	return (double)values[count / 2] / 1000;
}

/* The best of the rounds so far, of a step. */
static void keep(double *best, double us)
{
	if (!*best || us < *best)
		*best = us;
}

/* CPU of the daemon's threads that live. */
static double daemon_us(void)
{
	unsigned long long total = 0, of_one;
	char path[300];
	struct dirent *entry;
	DIR *tasks;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)all.daemon);
	tasks = opendir(path);
	if (!tasks)
		die(path);
	while ((entry = readdir(tasks))) {
		FILE *file;

		snprintf(path, sizeof(path), "/proc/%d/task/%s/schedstat", (int)all.daemon,
			 entry->d_name);
		file = fopen(path, "r");
		if (file && fscanf(file, "%llu", &of_one) == 1)
			total += of_one;
		if (file)
			fclose(file);
	}
	closedir(tasks);
	return (double)total / 1000;
}

/* ------------------------------------------------------------------------------ messages */

static void post(enum ibv_wr_opcode opcode, uint32_t size)
{
	struct ibv_sge sge = { (uintptr_t)all.source, size, all.mr->lkey };
	struct ibv_send_wr *bad, wr = { .sg_list = &sge,
					.num_sge = 1,
					.opcode = opcode,
					.wr.rdma = { (uintptr_t)all.target, all.mr->rkey } };

	if (ibv_post_send(all.loopback.qp[0], &wr, &bad))
		die("ibv_post_send");
}

static void post_recv(uint32_t size)
{
	struct ibv_sge sge = { (uintptr_t)all.target, size, all.mr->lkey };
	struct ibv_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = 1 };

	if (ibv_post_recv(all.loopback.qp[1], &wr, &bad))
		die("ibv_post_recv");
}

static bool poll(int end)
{
	struct ibv_wc wc;
	int got = ibv_poll_cq(all.loopback.cq[end], 1, &wc);

	if (got < 0 || (got && wc.status != IBV_WC_SUCCESS))
		die("a message");
	return got;
}

static void await(int end)
{
	while (!poll(end))
		;
}

struct times {
	double recv, post, poll, engine, alone;
};

/* What the calls of a program take. */
static void of_calls(enum ibv_wr_opcode opcode, uint32_t size, struct times *times)
{
	static uint64_t recvs[MESSAGES], posts[MESSAGES], polls[MESSAGES];
	bool receives = opcode == IBV_WR_SEND;

	for (uint32_t i = 0; i < MESSAGES; i += DEPTH) {
		for (uint32_t n = 0; n < DEPTH && receives; n++) {
			recvs[i + n] = ns();
			post_recv(size);
			recvs[i + n] = ns() - recvs[i + n];
		}
		for (uint32_t n = 0; n < DEPTH; n++) {
			posts[i + n] = ns();
			post(opcode, size);
			posts[i + n] = ns() - posts[i + n];
		}
		for (uint32_t n = 0; n < DEPTH; n++) {
			uint64_t begin;

			do
				begin = ns();
			while (!poll(0));
			polls[i + n] = ns() - begin;
			if (receives)
				await(1);
		}
	}
	keep(&times->recv, receives ? median_us(recvs, MESSAGES) : 0);
	keep(&times->post, median_us(posts, MESSAGES));
	keep(&times->poll, median_us(polls, MESSAGES));
}

static void of_engine(enum ibv_wr_opcode opcode, uint32_t size, struct times *times)
{
	bool receives = opcode == IBV_WR_SEND;
	double begin = daemon_us();

	for (uint32_t i = 0; i < MESSAGES + DEPTH / 2; i++) {
		if (i >= DEPTH / 2) {
			await(0);
			if (receives)
				await(1);
		}
		if (i < MESSAGES) {
			if (receives)
				post_recv(size);
			post(opcode, size);
		}
	}
	keep(&times->engine, (daemon_us() - begin) / MESSAGES);
}

static void of_one(enum ibv_wr_opcode opcode, uint32_t size, struct times *times)
{
	static uint64_t alone[MESSAGES];

	for (uint32_t i = 0; i < MESSAGES; i++) {
		if (opcode == IBV_WR_SEND)
			post_recv(size);
		alone[i] = ns();
		post(opcode, size);
		/* A receiver waits for its own completion, which is there before. */
		await(opcode == IBV_WR_SEND);
		alone[i] = ns() - alone[i];
		if (opcode == IBV_WR_SEND)
			await(0);
	}
	keep(&times->alone, median_us(alone, MESSAGES));
}

/* -------------------------------------------------------------------------- what is below */

static void start_other(void)
{
	char path[64];

	all.other = fork();
	if (all.other < 0)
		die("fork");
	if (!all.other) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		memset(all.source, 3, MOST);
		for (;;)
			pause();
	}
	snprintf(path, sizeof(path), "/proc/%d/mem", (int)all.other);
	all.mem = open(path, O_RDWR | O_CLOEXEC);
	snprintf(path, sizeof(path), "/proc/%d/pagemap", (int)all.other);
	all.pagemap = open(path, O_RDONLY | O_CLOEXEC);
	if (all.mem < 0 || all.pagemap < 0)
		die(path);
}

/* As libsimhca/dma/process_memory.c does it. */
static void move(bool write, uint32_t size)
{
	struct iovec ours = { all.target, size }, theirs = { all.source, size };
	off_t at = (off_t)(uintptr_t)all.source;
	ssize_t moved;
	char byte;

	if (size <= 4096) {
		moved = write ? pwrite(all.mem, all.target, size, at)
			      : pread(all.mem, all.target, size, at);
	} else {
		moved = write ? process_vm_writev(all.other, &ours, 1, &theirs, 1, 0)
			      : process_vm_readv(all.other, &ours, 1, &theirs, 1, 0);
		if (!pread(all.pagemap, &byte, 1, 0))
			moved = -1;
	}
	if (moved != size)
		die("another process's memory");
}

static double of_move(bool write, uint32_t size)
{
	static uint64_t moves[MESSAGES];

	for (uint32_t i = 0; i < MESSAGES; i++) {
		moves[i] = ns();
		move(write, size);
		moves[i] = ns() - moves[i];
	}
	return median_us(moves, MESSAGES);
}

static _Atomic uint32_t turn;

static void *answer(void *unused)
{
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET((size_t)all.cpu, &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus))
		die("sched_setaffinity");
	for (uint32_t i = 0; i < MESSAGES; i++) {
		while (atomic_load_explicit(&turn, memory_order_acquire) != 2 * i + 1)
			;
		atomic_store_explicit(&turn, 2 * i + 2, memory_order_release);
	}
	return unused;
}

static double of_hand_over(void)
{
	static uint64_t trips[MESSAGES];
	pthread_t thread;

	atomic_store(&turn, 0);
	if (pthread_create(&thread, NULL, answer, NULL))
		die("a thread");
	for (uint32_t i = 0; i < MESSAGES; i++) {
		trips[i] = ns();
		atomic_store_explicit(&turn, 2 * i + 1, memory_order_release);
		while (atomic_load_explicit(&turn, memory_order_acquire) != 2 * i + 2)
			;
		trips[i] = ns() - trips[i];
	}
	pthread_join(thread, NULL);
	return median_us(trips, MESSAGES) / 2;
}

static double of_clock(void)
{
	static uint64_t looks[MESSAGES];

	for (uint32_t i = 0; i < MESSAGES; i++) {
		looks[i] = ns();
		looks[i] = ns() - looks[i];
	}
	return median_us(looks, MESSAGES);
}

/* ------------------------------------------------------------------------------------ main */

/* Less what it took to look at the clock. */
static void print(const char *operation, uint32_t size, const char *step, double us, double clock)
{
	printf("%s %u %s %.3f\n", operation, size, step, us > clock ? us - clock : 0);
}

static void measure(const char *name, enum ibv_wr_opcode opcode, uint32_t size, double clock)
{
	struct times times = { 0 };
	double get = 0, put = 0;

	for (int round = 0; round < ROUNDS; round++) {
		of_calls(opcode, size, &times);
		of_engine(opcode, size, &times);
		of_one(opcode, size, &times);
		keep(&get, of_move(false, size));
		keep(&put, of_move(true, size));
	}
	print(name, size, "recv", times.recv, clock);
	print(name, size, "post", times.post, clock);
	print(name, size, "engine", times.engine, 0);
	print(name, size, "get", get, clock);
	print(name, size, "put", put, clock);
	print(name, size, "poll", times.poll, clock);
	print(name, size, "alone", times.alone, clock);
}

int main(int argc, char **argv)
{
	double clock = 0, hand_over = 0;

	if (argc != 3)
		return 2;
	all.daemon = atoi(argv[1]);
	all.cpu = atoi(argv[2]);
	all.source = aligned_alloc(4096, 2 * MOST);
	if (!all.source)
		die("memory");
	all.target = all.source + MOST;
	memset(all.source, 1, 2 * MOST);
	start_other();
	loopback_open(&all.loopback, 2 * DEPTH);
	all.mr = ibv_reg_mr(all.loopback.pd, all.source, 2 * MOST,
			    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				    IBV_ACCESS_REMOTE_READ);
	if (!all.mr)
		die("ibv_reg_mr");
	for (int round = 0; round < ROUNDS; round++) {
		keep(&clock, of_clock());
		keep(&hand_over, of_hand_over());
	}
	print("hand-over", 0, "cpu", hand_over, clock / 2);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		measure("send", IBV_WR_SEND, sizes[i], clock);
		measure("write", IBV_WR_RDMA_WRITE, sizes[i], clock);
		measure("read", IBV_WR_RDMA_READ, sizes[i], clock);
	}
	kill(all.other, SIGKILL);
	return 0;
}
