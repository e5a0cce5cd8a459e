/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Whether arming a CQ that holds completions raises an event at once: must be so with the argument
 * "yes", must not with "no". Either way an empty one raises none.
 */
#include "loop.h"

static void arm(const struct loop *loop, int solicited)
{
	CHECK(!ibv_req_notify_cq(loop->recv_cq, solicited));
}

static void expect_event(const struct loop *loop, bool expected)
{
	if (expected)
		take_event(loop);
	CHECK(!has_event(loop));
}

static void by_verbs(bool yes)
{
	struct loop loop = new_loop();

	arm(&loop, 0);
	expect_event(&loop, false);
	message(&loop, 0);
	expect_event(&loop, true);

	arm(&loop, 0);
	expect_event(&loop, yes);
	poll_success(loop.recv_cq);
	arm(&loop, 0);
	expect_event(&loop, false);
}

/* A completion that was not solicited is none that a solicited arm waits for. */
static void by_solicited(bool yes)
{
	struct loop loop = new_loop();

	message(&loop, 0);
	arm(&loop, 1);
	expect_event(&loop, false);
	message(&loop, IBV_SEND_SOLICITED);
	expect_event(&loop, true);
	arm(&loop, 1);
	expect_event(&loop, yes);
}

/* On such a device nothing is missed: what is there has its event. */
static void by_simhcadv(bool yes)
{
	const int flags = SIMHCADV_CQ_NEXT_COMP | SIMHCADV_CQ_REPORT_MISSED_EVENTS;
	struct loop loop = new_loop();

	CHECK(simhcadv_req_notify_cq(loop.recv_cq, flags) == 0);
	message(&loop, 0);
	expect_event(&loop, true);
	CHECK((simhcadv_req_notify_cq(loop.recv_cq, flags) == 0) == yes);
	expect_event(&loop, yes);
	CHECK((simhcadv_req_notify_cq(loop.recv_cq, SIMHCADV_CQ_NEXT_COMP) == 0));
	expect_event(&loop, yes);
}

TEST(yes)
{
	by_verbs(true);
	by_solicited(true);
	by_simhcadv(true);
}

TEST(no)
{
	by_verbs(false);
	by_solicited(false);
	by_simhcadv(false);
}
