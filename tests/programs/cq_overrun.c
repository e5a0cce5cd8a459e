/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* A completion that finds no room: what the program sees, and what makes room. */
#include "loop.h"

#define SIZE 8 /* a power of two: no entry of the ring is to spare */
#define NEXT_AND_REPORT (SIMHCADV_CQ_NEXT_COMP | SIMHCADV_CQ_REPORT_MISSED_EVENTS)

/* The event at most ten seconds from now. */
static void expect_cq_error(const struct loop *loop)
{
	struct pollfd readable = { .fd = loop->end.context->async_fd, .events = POLLIN };
	struct ibv_async_event event;

	CHECK(poll(&readable, 1, 10000) == 1);
	CHECK(!ibv_get_async_event(loop->end.context, &event));
	CHECK(event.event_type == IBV_EVENT_CQ_ERR && event.element.cq == loop->recv_cq);
	ibv_ack_async_event(&event);
}

/* Receives 0 .. SIZE - 1 are in the CQ, and that of another message was not. */
static struct loop overrun_loop(void)
{
	struct loop loop = new_loop_of(SIZE, 0);
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND };

	for (uint64_t i = 0; i < SIZE; i++)
		numbered(&loop, i, 0);
	CHECK(!post_recv(loop.end.qp, SIZE, loop.end.mr, 0, 64));
	CHECK(!post_send(loop.end.qp, &wr));
	expect_cq_error(&loop);
	return loop;
}

TEST(poll_after_overrun)
{
	struct loop loop = overrun_loop();
	struct ibv_wc wc;

	CHECK(state_of(loop.end.qp) == IBV_QPS_ERR);
	for (uint64_t i = 0; i < SIZE; i++)
		CHECK(poll_success(loop.recv_cq).wr_id == i);
	/* Nothing will come any more, which is not the same as: nothing is there yet. */
	for (int i = 0; i < 3; i++)
		CHECK(ibv_poll_cq(loop.recv_cq, 1, &wc) == -1);
	CHECK(!ibv_destroy_qp(loop.end.qp));
	CHECK(ibv_poll_cq(loop.recv_cq, 1, &wc) == -1);
	CHECK(!ibv_destroy_cq(loop.recv_cq));
}

TEST(start_poll_after_overrun)
{
	struct loop loop = overrun_loop();
	struct ibv_cq_ex *cq_ex = (struct ibv_cq_ex *)loop.recv_cq;
	struct ibv_poll_cq_attr attr = { 0 };

	CHECK(!ibv_start_poll(cq_ex, &attr));
	for (uint64_t i = 0; i < SIZE; i++) {
		CHECK(cq_ex->wr_id == i && cq_ex->status == IBV_WC_SUCCESS);
		CHECK(ibv_next_poll(cq_ex) == (i + 1 < SIZE ? 0 : EIO));
	}
	ibv_end_poll(cq_ex);
	CHECK(ibv_start_poll(cq_ex, &attr) == EIO);
}

/* A batch that is larger than what is left is no error yet. */
TEST(batch_after_overrun)
{
	struct loop loop = overrun_loop();
	struct ibv_wc wc[2 * SIZE];

	CHECK(ibv_poll_cq(loop.recv_cq, 2 * SIZE, wc) == SIZE);
	CHECK(ibv_poll_cq(loop.recv_cq, 2 * SIZE, wc) == -1);
}

/* Who sleeps until an event would sleep for ever: arming says so. */
TEST(arm_after_overrun)
{
	struct loop loop = overrun_loop();

	for (int i = 0; i < SIZE; i++) {
		CHECK(simhcadv_req_notify_cq(loop.recv_cq, NEXT_AND_REPORT) > 0);
		poll_success(loop.recv_cq);
	}
	CHECK(simhcadv_req_notify_cq(loop.recv_cq, NEXT_AND_REPORT) == -EIO);
	CHECK(simhcadv_req_notify_cq(loop.recv_cq, SIMHCADV_CQ_NEXT_COMP) == -EIO);
}

TEST(resize_after_overrun)
{
	struct loop loop = overrun_loop();

	CHECK(ibv_resize_cq(loop.recv_cq, 2 * SIZE) == EINVAL);
	for (uint64_t i = 0; i < SIZE; i++)
		CHECK(poll_success(loop.recv_cq).wr_id == i);
	CHECK(ibv_resize_cq(loop.recv_cq, 2 * SIZE) == EINVAL);
}

/* Other QPs of the context, with other CQs, go on. */
TEST(others_after_overrun)
{
	struct loop loop = overrun_loop(), other = loop;

	other.recv_cq = ibv_create_cq(loop.end.context, SIZE, NULL, NULL, 0);
	other.end.cq = ibv_create_cq(loop.end.context, SIZE, NULL, NULL, 0);
	CHECK(other.recv_cq && other.end.cq);
	other.end.qp = new_loop_qp(&other);
	for (uint64_t i = 0; i < 3 * SIZE; i++) {
		numbered(&other, i, 0);
		CHECK(poll_success(other.recv_cq).wr_id == i);
	}
}

/*
 * The device does not look: older completions are lost, and polling goes on with the oldest that is
 * left. No event, and the QP stays what it was.
 */
TEST(ignore_overrun)
{
	struct loop loop = new_loop_of(SIZE, IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN);
	struct pollfd async = { .fd = loop.end.context->async_fd, .events = POLLIN };
	struct ibv_wc wc;

	for (uint64_t lost = 0; lost <= 2 * SIZE; lost += 5) {
		for (uint64_t i = 0; i < SIZE + lost; i++)
			numbered(&loop, i, 0);
		for (uint64_t i = 0; i < SIZE; i++)
			CHECK(poll_success(loop.recv_cq).wr_id == lost + i);
		CHECK(ibv_poll_cq(loop.recv_cq, 1, &wc) == 0);
	}
	CHECK(state_of(loop.end.qp) == IBV_QPS_RTS);
	CHECK(poll(&async, 1, 0) == 0);
}

static void take_one(const struct loop *loop, uint64_t wr_id)
{
	struct ibv_cq_ex *cq_ex = (struct ibv_cq_ex *)loop->recv_cq;
	struct ibv_poll_cq_attr attr = { 0 };

	CHECK(!ibv_start_poll(cq_ex, &attr));
	CHECK(cq_ex->wr_id == wr_id && cq_ex->status == IBV_WC_SUCCESS);
	ibv_end_poll(cq_ex);
}

/* As many as the CQ holds, none of which is lost. */
static void full_once(struct loop *loop)
{
	for (uint64_t i = 0; i < SIZE; i++)
		numbered(loop, i, 0);
	for (uint64_t i = 0; i < SIZE; i++)
		take_one(loop, i);
	CHECK(state_of(loop->end.qp) == IBV_QPS_RTS);
}

/* What was taken by ibv_start_poll() makes room at ibv_end_poll(): no poll has to find nothing. */
TEST(taken_one_by_one)
{
	struct loop loop = new_loop_of(SIZE, 0);

	for (int round = 0; round < 3; round++)
		full_once(&loop);
}

/* The completions of a QP that has gone take no room, if nothing is before them. */
TEST(left_at_the_front)
{
	struct loop loop = new_loop_of(SIZE, 0), gone = loop;

	gone.end.qp = new_loop_qp(&loop);
	for (uint64_t i = 0; i < SIZE; i++)
		numbered(&gone, 100, 0);
	CHECK(!ibv_destroy_qp(gone.end.qp));
	full_once(&loop);
}

/* Nor do others, once a poll has found nothing behind them. */
TEST(left_by_another_qp)
{
	struct loop loop = new_loop_of(SIZE, 0), gone = loop;
	struct ibv_poll_cq_attr attr = { 0 };

	gone.end.qp = new_loop_qp(&loop);
	numbered(&loop, 1, 0);
	for (uint64_t i = 0; i < SIZE - 1; i++)
		numbered(&gone, 100, 0);
	CHECK(!ibv_destroy_qp(gone.end.qp));
	take_one(&loop, 1);
	CHECK(ibv_start_poll((struct ibv_cq_ex *)loop.recv_cq, &attr) == ENOENT);
	full_once(&loop);
}
