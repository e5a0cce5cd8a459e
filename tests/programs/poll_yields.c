/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Polling an empty CQ lets others go first from time to time: what has completed by the time that
 * it comes back is taken, and not called empty. Beside those who use up a time slice each time
 * it polls on for longer.
 */
#include <time.h>

#include "loop.h"

#define LEAST_STAY_NS 250000
#define MOST_STAY_NS 8000000

static struct loop loop;
static unsigned int yields;
static bool others_compute;
static long slice_ns = 2000000;
static int64_t came_back_ns, stayed_ns;

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ll + now.tv_nsec;
}

/* The provider's, too: everything that a message takes happens in it, or nothing for a while. */
int sched_yield(void)
{
	struct timespec slice = { .tv_nsec = slice_ns };

	stayed_ns = now_ns() - came_back_ns;
	yields++; /* first: who waits for the message yields, too */
	if (others_compute)
		nanosleep(&slice, NULL);
	else if (yields == 1)
		message(&loop, 0);
	came_back_ns = now_ns();
	return 0;
}

TEST(poll_cq)
{
	struct ibv_wc wc;
	int polled = 0;

	loop = new_loop();
	yields = 0;
	for (int i = 0; i < 10000 && !yields; i++)
		polled = ibv_poll_cq(loop.recv_cq, 1, &wc);
	CHECK(yields && polled == 1 && wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV);
	CHECK(ibv_poll_cq(loop.recv_cq, 1, &wc) == 0);
}

TEST(start_poll)
{
	struct ibv_poll_cq_attr attr = { 0 };
	struct ibv_cq_ex *cq;
	int ret = ENOENT;

	loop = new_loop();
	yields = 0;
	cq = (struct ibv_cq_ex *)loop.recv_cq;
	for (int i = 0; i < 10000 && !yields; i++)
		ret = ibv_start_poll(cq, &attr);
	CHECK(yields && !ret && cq->status == IBV_WC_SUCCESS);
	ibv_end_poll(cq);
}

/* How long it has polled between two yields. */
static int64_t stay(void)
{
	unsigned int before = yields;
	struct ibv_wc wc;

	while (yields == before)
		CHECK(!ibv_poll_cq(loop.recv_cq, 1, &wc));
	return stayed_ns;
}

TEST(others_compute)
{
	struct ibv_wc wc;
	int64_t stayed;

	loop = new_loop();
	others_compute = true;
	stay();
	for (int64_t least = LEAST_STAY_NS; least <= MOST_STAY_NS; least *= 2)
		CHECK(stay() >= least);
	CHECK(stay() >= MOST_STAY_NS);
	/* When something has come it begins anew; here it may be kept from the CPU as well. */
	for (int i = 0; i < 100; i++) {
		message(&loop, 0);
		while (!ibv_poll_cq(loop.recv_cq, 1, &wc))
			;
		stay();
		stayed = stay();
		if (stayed < MOST_STAY_NS / 2)
			return;
	}
	CHECK(!"polls for as long as before");
}

#define CQS 12
#define POLLS 250	/* in which one that does not stay yields twice */
#define SHORT_NS 600000 /* so that all have their turn before they are counted anew */

/* Beside others of its own kind nobody stays: they wait for the same device. */
TEST(many_wait)
{
	struct ibv_cq *cq[CQS];
	unsigned int before, at_once = 0;
	struct ibv_wc wc;

	loop = new_loop();
	others_compute = true;
	slice_ns = SHORT_NS;
	for (int i = 0; i < CQS; i++) {
		cq[i] = ibv_create_cq(loop.recv_cq->context, 16, NULL, NULL, 0);
		CHECK(cq[i]);
	}
	/* Where all is kept from the CPU for long they are forgotten, and counted anew. */
	for (int round = 0; round < 100 && at_once < CQS; round++) {
		at_once = 0;
		for (int i = 0; i < CQS; i++) {
			before = yields;
			for (int n = 0; n < POLLS; n++)
				CHECK(!ibv_poll_cq(cq[i], 1, &wc));
			at_once += yields - before >= 2;
		}
	}
	CHECK(at_once == CQS);
}
