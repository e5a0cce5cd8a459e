/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The consumer arms, polls, and sleeps on the channel if it found nothing; the producer posts
 * as soon as the last message was consumed, with a delay that moves through the race. Were an
 * event lost, poll() on the channel would time out. Prints how often the consumer slept.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "helper.h"

static struct ibv_qp *sender;
static struct ibv_cq *send_cq;
static struct ibv_mr *mr;
static long rounds;
static atomic_long consumed;

static void *produce(void *arg)
{
	struct ibv_sge sge = { .addr = (uintptr_t)mr->addr, .length = 8, .lkey = mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED };

	for (long i = 0; i < rounds; i++) {
		while (atomic_load(&consumed) < i)
			;
		for (volatile long spin = (i * 37) % 3000; spin > 0; spin--)
			;
		CHECK(!post_send(sender, &wr));
		while (ibv_poll_cq(send_cq, 1, &(struct ibv_wc){ 0 }) == 0)
			;
	}
	return arg;
}

int main(int argc, char **argv)
{
	struct ibv_context *context = open_device();
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
	static char buffer[4096];
	struct ibv_cq *recv_cq, *event_cq;
	struct ibv_qp *receiver;
	pthread_t producer;
	long slept = 0;
	void *unused;

	rounds = argc > 1 ? atol(argv[1]) : 1000;
	CHECK(pd && channel);
	recv_cq = ibv_create_cq(context, 16, NULL, channel, 0);
	send_cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	mr = ibv_reg_mr(pd, buffer, sizeof(buffer), FULL_ACCESS);
	CHECK(recv_cq && send_cq && mr);
	sender = make_qp(pd, send_cq, IBV_QPT_RC);
	receiver = make_qp(pd, recv_cq, IBV_QPT_RC);
	start_qp(sender, receiver->qp_num);
	start_qp(receiver, sender->qp_num);
	CHECK(!post_recv(receiver, 0, mr, 64, 64));
	CHECK(!pthread_create(&producer, NULL, produce, NULL));

	for (long i = 0; i < rounds; i++) {
		struct pollfd readable = { .fd = channel->fd, .events = POLLIN };
		struct ibv_wc wc;
		int polled;

		CHECK(!ibv_req_notify_cq(recv_cq, 0));
		polled = ibv_poll_cq(recv_cq, 1, &wc);
		if (!polled)
			slept++;
		/* Armed before: with a completion found now or later, there is one event; but
		 * none if it was there before we armed. */
		while (!polled) {
			CHECK(poll(&readable, 1, 10000) == 1);
			CHECK(!ibv_get_cq_event(channel, &event_cq, &unused));
			CHECK(event_cq == recv_cq);
			ibv_ack_cq_events(recv_cq, 1);
			CHECK(!ibv_req_notify_cq(recv_cq, 0));
			polled = ibv_poll_cq(recv_cq, 1, &wc);
		}
		CHECK(polled == 1 && wc.status == IBV_WC_SUCCESS);
		CHECK(!post_recv(receiver, 0, mr, 64, 64));
		atomic_store(&consumed, i + 1);
	}
	CHECK(!pthread_join(producer, NULL));
	printf("slept %ld times in %ld rounds\n", slept, rounds);
	CHECK(!ibv_destroy_qp(sender));
	CHECK(!ibv_destroy_qp(receiver));
	CHECK(!ibv_destroy_cq(recv_cq));
	CHECK(!ibv_destroy_cq(send_cq));
	CHECK(!ibv_destroy_comp_channel(channel));
	CHECK(!ibv_dereg_mr(mr));
	CHECK(!ibv_dealloc_pd(pd));
	CHECK(!ibv_close_device(context));
	return 0;
}
