/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A process is stopped for longer than its agent is waited for, as by a debugger; who writes to its
 * memory meanwhile waits, and nothing fails when it goes on.
 */
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "helper.h"

#define SECONDS 6
#define LENGTH 4096u

struct end {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
};

/* What the two tell each other. */
struct meeting {
	volatile uint32_t qpn[2];
	volatile uint32_t rkey;
	volatile bool connected, over;
};

static struct end open_end(char *memory)
{
	struct ibv_context *context = open_device();
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct end end = { .cq = ibv_create_cq(context, 8, NULL, NULL, 0) };

	CHECK(pd && end.cq);
	end.mr = ibv_reg_mr(pd, memory, LENGTH, FULL_ACCESS);
	CHECK(end.mr);
	end.qp = make_qp(pd, end.cq, IBV_QPT_RC);
	return end;
}

static void wait_for(const volatile uint32_t *value)
{
	while (!*value)
		usleep(1000);
}

static void serve(struct meeting *meeting, char *memory)
{
	struct end end;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	end = open_end(memory);
	meeting->rkey = end.mr->rkey;
	meeting->qpn[1] = end.qp->qp_num;
	wait_for(&meeting->qpn[0]);
	start_qp(end.qp, meeting->qpn[0]);
	meeting->connected = true;
	while (!meeting->over)
		usleep(1000);
	for (unsigned int i = 0; i < LENGTH; i++)
		CHECK(memory[i] == 7);
	exit(0);
}

int main(void)
{
	struct meeting *meeting = mmap(NULL, sizeof(*meeting), PROT_READ | PROT_WRITE,
				       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	char *memory =
		mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pid_t child = fork();
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE,
				  .send_flags = IBV_SEND_SIGNALED,
				  .num_sge = 1 };
	struct ibv_sge sge;
	struct ibv_wc wc;
	struct end end;
	int status;

	CHECK(meeting != MAP_FAILED && memory != MAP_FAILED && child >= 0);
	if (!child)
		serve(meeting, memory);
	end = open_end(memory);
	memset(memory, 7, LENGTH);
	wait_for(&meeting->qpn[1]);
	start_qp(end.qp, meeting->qpn[1]);
	meeting->qpn[0] = end.qp->qp_num;
	while (!meeting->connected)
		usleep(1000);

	CHECK(!kill(child, SIGSTOP) && waitpid(child, &status, WUNTRACED) == child);
	sge = (struct ibv_sge){ (uintptr_t)memory, LENGTH, end.mr->lkey };
	wr.sg_list = &sge;
	wr.wr.rdma.remote_addr = (uintptr_t)memory; /* it has it where we have it */
	wr.wr.rdma.rkey = meeting->rkey;
	CHECK(!post_send(end.qp, &wr));
	sleep(SECONDS);
	CHECK(!ibv_poll_cq(end.cq, 1, &wc));
	CHECK(!kill(child, SIGCONT));
	poll_success(end.cq);
	/* And the next one. */
	CHECK(!post_send(end.qp, &wr));
	poll_success(end.cq);
	meeting->over = true;
	CHECK(waitpid(child, &status, 0) == child && !status);
	return 0;
}
