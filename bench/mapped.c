/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What regions that the peer maps bring (Documentation/architecture.md): RDMA writes from one process
 * to another one, where the memory of both is private, where the target lies in a memfd that cannot shrink,
 * and where both do. With the argument `shared`, on a device with --shared-memory on, the first of these alone, whose
 * memory is not private then, by that name; `there`: it lies in files of /dev/shm. One line "name us" for each; the number in a name is its bytes:
 *
 *   latency_KIND   a write and who polls for it, one way, of 2 bytes
 *   stores         the same by a store to memory that both map, without simhca
 *   write_KIND_N   of many writes, the time of one
 *   add_KIND       a fetch and add, one after the other
 *   memcpy_N       copying N bytes from private memory to a memfd, and
 *   vm_write_N     process_vm_writev() to the other process, between the same buffers
 */
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "loopback.h"

#define TIMEOUT_S 120
#define MOST (1u << 20) /* bytes of a message */
#define WINDOW 16u
#define ROUND_TRIPS 500u
#define TRIES 20 /* short ones, of which the best counts: others use the CPUs as well */
#define NS_OF_A_TRY 1000000u

enum kind { PRIVATE, TARGET, BOTH, KINDS };
static const char *names[KINDS] = { "private", "target", "both" };

/* What the two processes tell each other: [0] is the parent's, [1] the child's. */
static struct {
	struct {
		_Atomic uint32_t stage;
		uint32_t qpn, rkey;
		uint64_t addr;
	} of[2];
	_Alignas(64) _Atomic uint32_t turn;
} * shared;

static uint32_t me;

static double now_us(void)
{
	return seconds() * 1e6;
}

/* Both have come so far. */
static void meet(uint32_t stage)
{
	atomic_store(&shared->of[me].stage, stage);
	while (atomic_load(&shared->of[!me].stage) < stage)
		sched_yield();
}

/* A file of /dev/shm that has no name. Its descriptor stays open: by that the provider finds the file. */
static char *memory_there(void)
{
	int fd = open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	char *memory = mmap(NULL, MOST, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (fd < 0 || ftruncate(fd, MOST) || memory == MAP_FAILED)
		die("/dev/shm");
	memset(memory, 0, MOST);
	return memory;
}

static char *memory_of(bool in_file, int *fd)
{
	char *memory;

	*fd = -1;
	if (!strcmp(names[PRIVATE], "there"))
		return memory_there();
	if (in_file) {
		*fd = memfd_create("bench", MFD_CLOEXEC | MFD_ALLOW_SEALING);
		if (*fd < 0 || ftruncate(*fd, MOST) || fcntl(*fd, F_ADD_SEALS, F_SEAL_SHRINK))
			die("memfd");
	}
	memory = mmap(NULL, MOST, PROT_READ | PROT_WRITE,
		      in_file ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, *fd, 0);
	if (memory == MAP_FAILED)
		die("memory");
	memset(memory, 0, MOST);
	return memory;
}

static struct ibv_mr *register_memory(struct ibv_pd *pd, char *memory, int fd)
{
	const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			   IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	struct ibv_mr *mr = fd < 0 ? ibv_reg_mr(pd, memory, MOST, access)
				   : ibv_reg_dmabuf_mr(pd, 0, MOST, (uintptr_t)memory, fd, access);

	if (!mr)
		die("a region");
	return mr;
}

static void post_it(const struct loopback *b, char *own, const struct ibv_mr *mr, uint32_t size,
		    struct ibv_send_wr wr)
{
	struct ibv_sge sge = { (uintptr_t)own, size, mr->lkey };
	struct ibv_send_wr *bad;

	wr.sg_list = &sge;
	wr.num_sge = 1;
	if (ibv_post_send(b->qp[0], &wr, &bad))
		die("ibv_post_send");
}

static void post(const struct loopback *b, char *from, const struct ibv_mr *mr, uint32_t size)
{
	post_it(b, from, mr, size,
		(struct ibv_send_wr){ .opcode = IBV_WR_RDMA_WRITE,
				      .wr.rdma = { shared->of[!me].addr, shared->of[!me].rkey } });
}

static void complete(const struct loopback *b, uint32_t count)
{
	struct ibv_wc wc[WINDOW];
	int done;

	while (count) {
		done = ibv_poll_cq(b->cq[0], (int)count, wc);
		if (done < 0)
			die("ibv_poll_cq");
		for (int i = 0; i < done; i++)
			if (wc[i].status)
				die(ibv_wc_status_str(wc[i].status));
		count -= (uint32_t)done;
	}
}

/* One way of a ping-pong, in us; who polls looks at the second of two bytes. */
static double ping_pong(const struct loopback *b, char *out, volatile char *in,
			const struct ibv_mr *mr)
{
	const double begin = now_us();

	for (uint32_t i = 1; i <= ROUND_TRIPS; i++) {
		if (me)
			while (in[1] != (char)i)
				;
		out[1] = (char)i;
		post(b, out, mr, 2);
		complete(b, 1);
		if (!me)
			while (in[1] != (char)i)
				;
	}
	return (now_us() - begin) / (2 * ROUND_TRIPS);
}

static double stores(void)
{
	const double begin = now_us();
	uint32_t turn;

	for (;;) {
		do
			turn = atomic_load_explicit(&shared->turn, memory_order_acquire);
		while (turn % 2 != me && turn < 2 * ROUND_TRIPS);
		if (turn >= 2 * ROUND_TRIPS)
			return (now_us() - begin) / (2 * ROUND_TRIPS);
		atomic_store_explicit(&shared->turn, turn + 1, memory_order_release);
	}
}

static double many(const struct loopback *b, char *from, const struct ibv_mr *mr, uint32_t size)
{
	double begin = now_us(), us;
	uint32_t writes = 0;

	do {
		for (uint32_t i = 0; i < WINDOW; i++)
			post(b, from, mr, size);
		complete(b, WINDOW);
		writes += WINDOW;
		us = now_us() - begin;
	} while (us * 1000 < NS_OF_A_TRY);
	return us / writes;
}

static double adds(const struct loopback *b, char *result, const struct ibv_mr *mr)
{
	const struct ibv_send_wr add = { .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
					 .wr.atomic = { .remote_addr = shared->of[!me].addr,
							.rkey = shared->of[!me].rkey,
							.compare_add = 1 } };
	double begin = now_us(), us;
	uint32_t done = 0;

	do {
		for (uint32_t i = 0; i < WINDOW; i++) {
			post_it(b, result, mr, sizeof(uint64_t), add);
			complete(b, 1);
		}
		done += WINDOW;
		us = now_us() - begin;
	} while (us * 1000 < NS_OF_A_TRY);
	return us / done;
}

static double by_memcpy(char *to, const char *from, uint32_t size)
{
	double begin = now_us(), us;
	uint32_t copies = 0;

	do {
		for (uint32_t i = 0; i < WINDOW; i++) {
			memcpy(to, from, size);
			/* The compiler must take it that somebody reads the copy. */
			__asm__ volatile("" : : "r"(to), "r"(from) : "memory");
		}
		copies += WINDOW;
		us = now_us() - begin;
	} while (us * 1000 < NS_OF_A_TRY);
	return us / copies;
}

static double by_vm_write(pid_t other, char *to, char *from, uint32_t size)
{
	const struct iovec own = { from, size }, there = { to, size };
	double begin = now_us(), us;
	uint32_t copies = 0;

	do {
		for (uint32_t i = 0; i < WINDOW; i++)
			if (process_vm_writev(other, &own, 1, &there, 1, 0) != (ssize_t)size)
				die("process_vm_writev");
		copies += WINDOW;
		us = now_us() - begin;
	} while (us * 1000 < NS_OF_A_TRY);
	return us / copies;
}

static double least(double value, double before)
{
	return before == 0 || value < before ? value : before;
}

static void measure(enum kind kind, pid_t other, uint32_t *stage)
{
	static const uint32_t sizes[] = { 2, 4096, 65536, MOST };
	double latency = 0, write[4] = { 0 }, copy[4] = { 0 }, vm[4] = { 0 }, store = 0, add = 0;
	struct loopback b;
	int out_fd, in_fd, to_fd;
	/* What is written lies at `in`, what is sent at `out`. */
	char *out = memory_of(kind == BOTH, &out_fd), *in = memory_of(kind != PRIVATE, &in_fd);
	char *to = memory_of(true, &to_fd);
	struct ibv_mr *out_mr, *in_mr;

	loopback_open(&b, WINDOW);
	out_mr = register_memory(b.pd, out, out_fd);
	in_mr = register_memory(b.pd, in, in_fd);
	shared->of[me].qpn = b.qp[0]->qp_num;
	shared->of[me].rkey = in_mr->rkey;
	shared->of[me].addr = (uintptr_t)in;
	meet(++*stage);
	if (ibv_modify_qp(b.qp[0], &(struct ibv_qp_attr){ .qp_state = IBV_QPS_RESET },
			  IBV_QP_STATE))
		die("RESET");
	loopback_connect(&b, b.qp[0], shared->of[!me].qpn);
	meet(++*stage);
	for (int i = 0; i < 1000; i++) { /* so that both have mapped what they will */
		post(&b, out, out_mr, 1);
		complete(&b, 1);
	}
	meet(++*stage);
	for (int i = 0; i < TRIES; i++) {
		in[1] = 0;
		meet(++*stage);
		latency = least(ping_pong(&b, out, in, out_mr), latency);
		meet(++*stage);
		if (kind == PRIVATE) {
			atomic_store(&shared->turn, 0);
			meet(++*stage);
			store = least(stores(), store);
			meet(++*stage);
		}
		for (int s = 0; s < 4 && !me; s++) {
			write[s] = least(many(&b, out, out_mr, sizes[s]), write[s]);
			copy[s] = least(by_memcpy(to, out, sizes[s]), copy[s]);
			vm[s] = least(by_vm_write(other, (char *)(uintptr_t)shared->of[1].addr, out,
						  sizes[s]),
				      vm[s]);
		}
		/* Last, as writes to private memory have more to do from the first atomic on. */
		if (!me && i >= TRIES / 2)
			add = least(adds(&b, out, out_mr), add);
		if (me) /* it leaves the CPU to the other */
			while (atomic_load(&shared->of[0].stage) <= *stage)
				usleep(1000);
		meet(++*stage);
	}
	if (!me) {
		printf("latency_%s %.4f\nadd_%s %.4f\n", names[kind], latency, names[kind], add);
		for (int s = 0; s < 4; s++)
			printf("write_%s_%u %.4f\n", names[kind], sizes[s], write[s]);
		if (kind == PRIVATE)
			printf("stores %.4f\n", store);
		for (int s = 0; s < 4 && kind == PRIVATE; s++)
			printf("memcpy_%u %.4f\nvm_write_%u %.4f\n", sizes[s], copy[s], sizes[s],
			       vm[s]);
		fflush(stdout);
	}
	if (ibv_close_device(b.context)) /* with all that it has */
		die("ibv_close_device");
}

int main(int argc, char **argv)
{
	const int kinds = argc > 1 ? 1 : KINDS;
	uint32_t stage = 0;
	pid_t parent = getpid(), child;
	int status;

	if (argc > 1)
		names[PRIVATE] = argv[1];
	alarm(TIMEOUT_S);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED)
		die("shared memory");
	child = fork();
	if (child < 0)
		die("fork");
	me = !child;
	if (me) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(1);
		alarm(TIMEOUT_S);
	}
	for (int kind = 0; kind < kinds; kind++)
		measure(kind, me ? parent : child, &stage);
	if (me)
		_exit(0);
	return waitpid(child, &status, 0) != child || status;
}
