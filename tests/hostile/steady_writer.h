/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A peer that writes without a pause to a region which its owner names anew again and again. Both are processes of
 * one program; `shared` is a mapping that they have in common. The QPs are UC, on which a key that is gone loses
 * the message and nothing else.
 */
#ifndef SIMHCA_STEADY_WRITER_H
#define SIMHCA_STEADY_WRITER_H

#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "../programs/helper.h"

#define BYTES (64u << 10) /* of the region */
#define LIST 8u		  /* places in it that are written to */
#define MOST_SECONDS 20
#define LOOK_NS 200000 /* longer than any write takes */

/* What both have. */
struct shared {
	_Atomic uint32_t qpn[2], rkey;
	_Atomic uint64_t va, lists; /* how many were written */
};

static struct shared *shared;

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static struct ibv_qp *connect_to(unsigned int me, struct ibv_context *context, struct ibv_pd *pd,
				 struct ibv_cq *cq)
{
	struct ibv_qp *qp = make_qp(pd, cq, IBV_QPT_UC);

	CHECK(qp->context == context);
	atomic_store(&shared->qpn[me], qp->qp_num);
	while (!atomic_load(&shared->qpn[!me]))
		usleep(100);
	start_qp_within(qp, atomic_load(&shared->qpn[!me]), 0, 0);
	return qp;
}

/* A list of writes of several lengths, all over the region; until it is killed. */
static void write_on_and_on(void)
{
	struct ibv_context *context = open_device();
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	static uint8_t memory[BYTES];
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);
	struct ibv_qp *qp = connect_to(1, context, pd, cq);

	CHECK(mr);
	memset(memory, 0xee, sizeof(memory));
	while (!atomic_load(&shared->rkey))
		usleep(100);
	for (;;) {
		uint32_t rkey = atomic_load(&shared->rkey);
		uint64_t va = atomic_load(&shared->va);
		struct ibv_send_wr wr[LIST];
		struct ibv_sge sge[LIST];

		for (uint32_t i = 0; i < LIST; i++) {
			uint32_t length = 8u << i;

			sge[i] = (struct ibv_sge){ (uintptr_t)memory, length, mr->lkey };
			wr[i] = (struct ibv_send_wr){
				.opcode = IBV_WR_RDMA_WRITE,
				.sg_list = &sge[i],
				.num_sge = 1,
				.next = i + 1 < LIST ? &wr[i + 1] : NULL,
				.send_flags = i + 1 < LIST ? 0 : IBV_SEND_SIGNALED,
				.wr.rdma = { va + (uint64_t)i * (BYTES / LIST), rkey },
			};
		}
		CHECK(!post_send(qp, wr));
		poll_success(cq);
		atomic_fetch_add(&shared->lists, 1);
	}
}

/* Starts the writer, which ends with this process, and is connected to a QP of the PD that is returned. */
static struct ibv_pd *start_writer(pid_t *pid)
{
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	CHECK(shared != MAP_FAILED);
	*pid = fork();
	CHECK(*pid >= 0);
	if (!*pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		write_on_and_on();
	}
	context = open_device();
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	CHECK(pd && cq);
	connect_to(0, context, pd, cq);
	return pd;
}

/* Says that all is done, and ends the writer when somebody has looked at the QPs. */
static void end_writer(pid_t pid)
{
	CHECK(!waitpid(pid, NULL, WNOHANG)); /* it had no signal */
	puts("done");
	fflush(stdout);
	getchar();
	CHECK(!waitpid(pid, NULL, WNOHANG));
	kill(pid, SIGKILL);
	CHECK(waitpid(pid, NULL, 0) == pid);
}

static bool any_written(const uint8_t *memory)
{
	for (uint32_t i = 0; i < LIST; i++)
		if (*(const volatile uint8_t *)(memory + (size_t)i * (BYTES / LIST)))
			return true;
	return false;
}

#endif
