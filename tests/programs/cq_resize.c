/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Resizing a CQ while others poll it and completions come, and what the creation flags change. */
#include <pthread.h>
#include <stdatomic.h>

#include "loop.h"

#define MESSAGES 20000
#define WINDOW 16

static atomic_bool done;

/* Messages in a row, up to WINDOW on their way; each comes out once and in order. */
static void *traffic(void *arg)
{
	const struct loop *loop = arg;
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED };
	uint64_t posted = 0, sent = 0, received = 0;
	double end = now() + 100;
	struct ibv_wc wc[4];
	int polled;

	while (received < MESSAGES || sent < MESSAGES) {
		while (posted < MESSAGES && posted < received + WINDOW && posted < sent + WINDOW) {
			CHECK(!post_recv(loop->end.qp, posted, loop->end.mr, 0, 64));
			wr.wr_id = posted++;
			CHECK(!post_send(loop->end.qp, &wr));
		}
		polled = ibv_poll_cq(loop->recv_cq, 4, wc);
		CHECK(polled >= 0 && now() < end);
		for (int i = 0; i < polled; i++)
			CHECK(wc[i].status == IBV_WC_SUCCESS && wc[i].wr_id == received++);
		polled = ibv_poll_cq(loop->end.cq, 4, wc);
		CHECK(polled >= 0);
		for (int i = 0; i < polled; i++)
			CHECK(wc[i].status == IBV_WC_SUCCESS && wc[i].wr_id == sent++);
	}
	atomic_store(&done, true);
	return NULL;
}

TEST(resize_under_traffic)
{
	static const int sizes[] = { 64, WINDOW, 1000, 100, 17, 4096, 33 };
	struct loop loop = new_loop();
	pthread_t thread;
	int resized = 0;

	CHECK(!pthread_create(&thread, NULL, traffic, &loop));
	for (unsigned int i = 0; !atomic_load(&done); i++) {
		int size = sizes[i % (sizeof(sizes) / sizeof(sizes[0]))];
		int err = ibv_resize_cq(i % 2 ? loop.recv_cq : loop.end.cq, size);

		/* Too small for what is there at this moment, maybe; never anything else. */
		CHECK(!err || (err == EINVAL && size < 2 * WINDOW));
		resized += !err;
	}
	CHECK(!pthread_join(thread, NULL));
	CHECK(resized > 10);
}

/* An armed CQ stays armed, and an event that is due comes, wherever the ring is. */
TEST(resize_keeps_the_arm)
{
	struct loop loop = new_loop();

	for (int size = 10; size < 3000; size *= 3) {
		CHECK(!ibv_req_notify_cq(loop.recv_cq, 0));
		CHECK(!ibv_resize_cq(loop.recv_cq, size));
		message(&loop, 0);
		take_event(&loop);
		poll_success(loop.recv_cq);
	}
}

/* Sends that are not signaled will need no entry. */
TEST(resize_below_unsignaled)
{
	struct loop loop = new_loop();
	struct ibv_send_wr wr = { .wr_id = 7, .opcode = IBV_WR_SEND };

	for (int i = 0; i < 11; i++) {
		CHECK(!post_recv(loop.end.qp, 1, loop.end.mr, 0, 64));
		wr.send_flags = i == 10 ? IBV_SEND_SIGNALED : 0;
		CHECK(!post_send(loop.end.qp, &wr));
		poll_success(loop.recv_cq);
	}
	CHECK(!ibv_resize_cq(loop.end.cq, 2));
	CHECK(poll_success(loop.end.cq).wr_id == 7);
}

/* Of another CQ a poll would wait for the end of the one that was started, for ever. */
static void check_no_lock(const struct loop *loop)
{
	struct ibv_cq_ex *cq_ex = (struct ibv_cq_ex *)loop->recv_cq;
	struct ibv_poll_cq_attr attr = { 0 };
	struct ibv_wc wc;

	for (uint64_t i = 0; i < 3; i++)
		numbered(loop, i, 0);
	CHECK(!ibv_start_poll(cq_ex, &attr) && cq_ex->wr_id == 0);
	CHECK(ibv_poll_cq(loop->recv_cq, 1, &wc) == 1 && wc.wr_id == 1);
	CHECK(!ibv_resize_cq(loop->recv_cq, 200));
	CHECK(!ibv_next_poll(cq_ex) && cq_ex->wr_id == 2);
	ibv_end_poll(cq_ex);
}

TEST(single_threaded_has_no_lock)
{
	struct loop loop = new_loop_of(100, IBV_CREATE_CQ_ATTR_SINGLE_THREADED);

	alarm(20);
	check_no_lock(&loop);
}

/* A thread domain is the same promise. */
TEST(a_thread_domains_has_no_lock)
{
	struct loop loop = { .end = new_end() };
	struct ibv_td_init_attr td_attr = { 0 };
	struct ibv_parent_domain_init_attr attr = { .pd = loop.end.pd };
	struct ibv_cq_init_attr_ex cq_attr = { .cqe = 100, .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD };
	struct ibv_cq_ex *cq_ex;

	attr.td = ibv_alloc_td(loop.end.context, &td_attr);
	CHECK(attr.td);
	cq_attr.parent_domain = ibv_alloc_parent_domain(loop.end.context, &attr);
	CHECK(cq_attr.parent_domain);
	cq_ex = ibv_create_cq_ex(loop.end.context, &cq_attr);
	CHECK(cq_ex);
	loop.recv_cq = ibv_cq_ex_to_cq(cq_ex);
	loop.end.qp = new_loop_qp(&loop);
	alarm(20);
	check_no_lock(&loop);
}
