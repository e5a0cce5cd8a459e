/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* simhcadv_req_notify_cq(): what it arms for, and that it reports what was missed, exactly. */
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "loop.h"

#define NEXT SIMHCADV_CQ_NEXT_COMP
#define SOLICITED SIMHCADV_CQ_SOLICITED
#define REPORT SIMHCADV_CQ_REPORT_MISSED_EVENTS

TEST(flags)
{
	struct loop loop = new_loop();

	CHECK(simhcadv_req_notify_cq(loop.recv_cq, 0) == -EINVAL);
	CHECK(simhcadv_req_notify_cq(loop.recv_cq, REPORT) == -EINVAL);
	CHECK(simhcadv_req_notify_cq(loop.recv_cq, NEXT | SOLICITED) == -EINVAL);
	CHECK(simhcadv_req_notify_cq(loop.recv_cq, NEXT | 8) == -EINVAL);
	CHECK(simhcadv_req_notify_cq(loop.recv_cq, -1) == -EINVAL);
	/* None of these has armed. */
	message(&loop, 0);
	message(&loop, IBV_SEND_SOLICITED);
	check_no_event(&loop);
}

TEST(empty_is_zero)
{
	struct loop loop = new_loop();

	for (int i = 0; i < 10; i++) {
		CHECK(simhcadv_req_notify_cq(loop.recv_cq, NEXT | REPORT) == 0);
		CHECK(simhcadv_req_notify_cq(loop.recv_cq, SOLICITED | REPORT) == 0);
	}
	check_no_event(&loop);
	message(&loop, 0);
	take_event(&loop);
	/* ... round the ring as well */
	for (int i = 0; i < 300; i++) {
		poll_success(loop.recv_cq);
		CHECK(simhcadv_req_notify_cq(loop.recv_cq, NEXT | REPORT) == 0);
		message(&loop, 0);
		take_event(&loop);
	}
}

TEST(what_was_there_is_reported)
{
	struct loop loop = new_loop();

	message(&loop, 0);
	message(&loop, 0);
	for (int left = 2; left; left--) {
		CHECK(simhcadv_req_notify_cq(loop.recv_cq, NEXT | REPORT) > 0);
		CHECK(simhcadv_req_notify_cq(loop.recv_cq, SOLICITED | REPORT) > 0);
		poll_success(loop.recv_cq);
	}
	CHECK(simhcadv_req_notify_cq(loop.recv_cq, NEXT | REPORT) == 0);
	check_no_event(&loop);
}

/* It is armed all the same. */
TEST(armed_when_missed)
{
	struct loop loop = new_loop();

	message(&loop, 0);
	CHECK(simhcadv_req_notify_cq(loop.recv_cq, NEXT | REPORT) > 0);
	message(&loop, 0);
	take_event(&loop);
	message(&loop, 0);
	check_no_event(&loop);
}

/* Unless it is asked for, nothing is reported. */
TEST(not_asked)
{
	struct loop loop = new_loop();

	message(&loop, 0);
	CHECK(simhcadv_req_notify_cq(loop.recv_cq, NEXT) == 0);
	CHECK(simhcadv_req_notify_cq(loop.recv_cq, SOLICITED) == 0);
	message(&loop, 0);
	take_event(&loop);
}

TEST(solicited)
{
	struct loop loop = new_loop();

	CHECK(simhcadv_req_notify_cq(loop.recv_cq, SOLICITED | REPORT) == 0);
	message(&loop, 0);
	check_no_event(&loop);
	message(&loop, IBV_SEND_SOLICITED);
	take_event(&loop);
}

TEST(next_is_not_weakened)
{
	struct loop loop = new_loop();

	CHECK(simhcadv_req_notify_cq(loop.recv_cq, NEXT) == 0);
	CHECK(simhcadv_req_notify_cq(loop.recv_cq, SOLICITED) == 0);
	CHECK(!ibv_req_notify_cq(loop.recv_cq, 1));
	message(&loop, 0);
	take_event(&loop);
	message(&loop, IBV_SEND_SOLICITED);
	check_no_event(&loop);
}

/* What a destroyed QP leaves behind cannot be polled, and is not missed. */
TEST(completions_of_a_gone_qp)
{
	struct loop loop = new_loop(), other = loop;

	other.end.qp = new_loop_qp(&loop);
	message(&loop, 0);
	message(&other, 0);
	message(&other, 0);
	CHECK(!ibv_destroy_qp(other.end.qp));
	CHECK(simhcadv_req_notify_cq(loop.recv_cq, NEXT | REPORT) > 0);
	poll_success(loop.recv_cq);
	CHECK(simhcadv_req_notify_cq(loop.recv_cq, NEXT | REPORT) == 0);
}

/* Between start_poll and end_poll the CQ is locked: the answer is what is known, at once. */
TEST(while_polling)
{
	struct loop loop = new_loop();
	struct ibv_cq_ex *cq_ex = (struct ibv_cq_ex *)loop.recv_cq;
	struct ibv_poll_cq_attr attr = { 0 };

	message(&loop, 0);
	CHECK(!ibv_start_poll(cq_ex, &attr));
	CHECK(simhcadv_req_notify_cq(loop.recv_cq, NEXT | REPORT) > 0);
	CHECK(ibv_next_poll(cq_ex) == ENOENT);
	ibv_end_poll(cq_ex);
	CHECK(simhcadv_req_notify_cq(loop.recv_cq, NEXT | REPORT) == 0);
}

TEST(single_threaded)
{
	struct loop loop = new_loop_of(100, IBV_CREATE_CQ_ATTR_SINGLE_THREADED);

	CHECK(simhcadv_req_notify_cq(loop.recv_cq, NEXT | REPORT) == 0);
	message(&loop, 0);
	take_event(&loop);
	CHECK(simhcadv_req_notify_cq(loop.recv_cq, NEXT | REPORT) > 0);
	poll_success(loop.recv_cq);
	CHECK(simhcadv_req_notify_cq(loop.recv_cq, NEXT | REPORT) == 0);
}

static atomic_bool no_system_call;

/* In a thread that may read, write and end, and is killed for any other system call. */
static void *confined(void *arg)
{
	const struct loop *loop = arg;
	bool good = true;

	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT))
		return NULL;
	for (int i = 0; i < 1000; i++) {
		good &= simhcadv_req_notify_cq(loop[0].recv_cq, NEXT | REPORT) == 0;
		good &= simhcadv_req_notify_cq(loop[1].recv_cq, NEXT | REPORT) > 0;
		good &= simhcadv_req_notify_cq(loop[0].recv_cq, SOLICITED) == 0;
	}
	atomic_store(&no_system_call, good);
	syscall(SYS_exit, 0);
	return NULL;
}

TEST(no_system_call)
{
	struct loop loops[2] = { new_loop(), new_loop() };
	pthread_t thread;

	message(&loops[1], 0);
	CHECK(!pthread_create(&thread, NULL, confined, loops));
	CHECK(!pthread_join(thread, NULL));
	CHECK(no_system_call);
}
