/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Polling an empty CQ lets others go first from time to time: what has completed by the time that
 * it comes back is taken, and not called empty.
 */
#include "loop.h"

static struct loop loop;
static unsigned int yields;

/* The provider's, too: everything that a message takes happens in it. */
int sched_yield(void)
{
	if (!yields++)
		message(&loop, 0);
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
