/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Connected QPs, armed CQs on a few channels, a thread that sleeps on each, and no traffic. */
#include <pthread.h>
#include <unistd.h>

#include "../programs/helper.h"

#define CHANNELS 4
#define CQS 32

static void *sleeps(void *channel)
{
	struct ibv_cq *cq;
	void *context;

	/* Nothing comes: it ends with the process. */
	ibv_get_cq_event(channel, &cq, &context);
	CHECK(!"nothing to wake up for");
	return NULL;
}

int main(void)
{
	struct ibv_context *context = open_device();
	struct ibv_comp_channel *channel[CHANNELS];
	struct ibv_pd *pd = ibv_alloc_pd(context);
	pthread_t thread;

	CHECK(pd);
	for (int i = 0; i < CHANNELS; i++) {
		channel[i] = ibv_create_comp_channel(context);
		CHECK(channel[i]);
		CHECK(!pthread_create(&thread, NULL, sleeps, channel[i]));
	}
	for (int i = 0; i < CQS; i++) {
		struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, channel[i % CHANNELS], 0);
		struct ibv_qp *qp;

		CHECK(cq);
		qp = make_qp(pd, cq, IBV_QPT_RC);
		start_qp(qp, qp->qp_num);
		CHECK(!ibv_req_notify_cq(cq, i % 2));
	}
	CHECK(puts("armed") >= 0 && !fflush(stdout));
	/* Until the test ends us. */
	for (;;)
		pause();
}
