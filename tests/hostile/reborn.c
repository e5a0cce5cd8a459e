/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A process with a region ends while the daemon is stopped, and its number is given to another, who
 * has a secret at the same address. When the daemon goes on, a peer's reads and writes of the
 * region are under way.
 *
 *	reborn DAEMON	its process number
 *
 * Prints "unharmed", or what was wrong. Exit status 77: this process may not choose numbers.
 */
#include <linux/sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "../programs/helper.h"

#define PAGE 4096u
#define BYTES (4 * PAGE)
#define AT ((void *)0x600000000000)
#define ROUNDS 8

struct side {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_qp *qp;
};

struct names {
	uint32_t qpn, rkey;
};

static uint8_t *map(void *at, int pattern)
{
	uint8_t *memory = mmap(at, BYTES, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | (at ? MAP_FIXED : 0), -1, 0);

	CHECK(memory != MAP_FAILED);
	memset(memory, pattern, BYTES);
	return memory;
}

static void open_side(struct side *side, uint8_t *memory)
{
	side->context = open_device();
	side->pd = ibv_alloc_pd(side->context);
	side->cq = ibv_create_cq(side->context, 16, NULL, NULL, 0);
	side->mr = ibv_reg_mr(side->pd, memory, BYTES, FULL_ACCESS);
	CHECK(side->pd && side->cq && side->mr);
	side->qp = make_qp(side->pd, side->cq, IBV_QPT_RC);
}

/* Until it is killed. */
static void be_first(int in, int out)
{
	struct side side;
	struct names mine;
	uint32_t peer;

	open_side(&side, map(AT, 1));
	mine = (struct names){ side.qp->qp_num, side.mr->rkey };
	CHECK(write(out, &mine, sizeof(mine)) == sizeof(mine));
	CHECK(read(in, &peer, sizeof(peer)) == sizeof(peer));
	start_qp_within(side.qp, peer, 10, 1);
	CHECK(write(out, &peer, sizeof(peer)) == sizeof(peer));
	for (;;)
		pause();
}

/* Whoever has the number next: its exit status says whether its memory is as it was. */
static void be_second(int in)
{
	uint8_t *memory = map(AT, 'S');
	uint32_t go;

	CHECK(read(in, &go, sizeof(go)) == sizeof(go));
	for (unsigned int i = 0; i < BYTES; i++)
		if (memory[i] != 'S')
			_exit(1);
	_exit(0);
}

static pid_t fork_as(pid_t number)
{
	struct clone_args args = {
		.exit_signal = SIGCHLD,
		.set_tid = (uintptr_t)&number,
		.set_tid_size = 1,
	};
	pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));

	if (pid < 0)
		exit(errno == EPERM || errno == ENOSYS ? 77 : 1);
	return pid;
}

static void post(struct side *side, enum ibv_wr_opcode opcode, uint32_t rkey, uint32_t length)
{
	struct ibv_sge sge = { .addr = (uintptr_t)side->mr->addr,
			       .length = length,
			       .lkey = side->mr->lkey };
	struct ibv_send_wr wr = {
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
		.sg_list = &sge,
		.num_sge = 1,
		.wr.rdma = { .remote_addr = (uintptr_t)AT, .rkey = rkey },
	};

	CHECK(!post_send(side->qp, &wr));
}

/* What is wrong, or NULL. */
static const char *one_round(pid_t daemon, enum ibv_wr_opcode opcode, uint32_t length)
{
	int to[2], from[2], status;
	uint8_t *memory = map(NULL, 'A');
	struct side side;
	struct names first;
	uint32_t number;
	pid_t pid, again;

	CHECK(!pipe(to) && !pipe(from));
	pid = fork();
	CHECK(pid >= 0);
	if (!pid)
		be_first(to[0], from[1]);
	open_side(&side, memory);
	CHECK(read(from[0], &first, sizeof(first)) == sizeof(first));
	number = side.qp->qp_num;
	CHECK(write(to[1], &number, sizeof(number)) == sizeof(number));
	start_qp_within(side.qp, first.qpn, 10, 1);
	CHECK(read(from[0], &number, sizeof(number)) == sizeof(number));
	post(&side, IBV_WR_RDMA_WRITE, first.rkey, length);
	poll_success(side.cq);

	CHECK(!kill(daemon, SIGSTOP));
	CHECK(!kill(pid, SIGKILL) && waitpid(pid, NULL, 0) == pid);
	again = fork_as(pid);
	if (!again)
		be_second(to[0]);
	usleep(20000); /* so that the secret is there */
	post(&side, opcode, first.rkey, length);
	CHECK(!kill(daemon, SIGCONT));
	if (poll_one(side.cq).status == IBV_WC_SUCCESS)
		return "a process that has ended was reached";
	CHECK(write(to[1], &number, sizeof(number)) == sizeof(number));
	CHECK(waitpid(again, &status, 0) == again);
	if (status)
		return "another process was written to";
	for (unsigned int i = 0; i < BYTES; i++)
		if (memory[i] == 'S')
			return "another process was read";
	CHECK(!ibv_destroy_qp(side.qp) && !ibv_dereg_mr(side.mr) && !ibv_destroy_cq(side.cq) &&
	      !ibv_dealloc_pd(side.pd) && !ibv_close_device(side.context));
	munmap(memory, BYTES);
	for (int i = 0; i < 2; i++)
		CHECK(!close(to[i]) && !close(from[i]));
	return NULL;
}

int main(int argc, char **argv)
{
	const char *wrong = NULL;
	pid_t daemon;

	CHECK(argc == 2);
	daemon = (pid_t)atoi(argv[1]);
	for (int i = 0; i < ROUNDS && !wrong; i++)
		wrong = one_round(daemon, i % 2 ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE,
				  i / 2 % 2 ? PAGE : BYTES); /* which go different ways */
	printf("%s\n", wrong ? wrong : "unharmed");
	return 0;
}
