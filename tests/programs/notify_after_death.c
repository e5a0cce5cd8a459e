/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The daemon, which is ours alone, is killed: arming says that no event will come. */
#include <signal.h>
#include <sys/socket.h>

#include "loop.h"

#define NEXT_AND_REPORT (SIMHCADV_CQ_NEXT_COMP | SIMHCADV_CQ_REPORT_MISSED_EVENTS)

TEST(notify_after_death)
{
	struct loop loop = new_loop();
	struct ibv_async_event event;
	struct ucred daemon;
	socklen_t length = sizeof(daemon);

	CHECK(simhcadv_req_notify_cq(loop.recv_cq, NEXT_AND_REPORT) == 0);
	CHECK(!post_recv(loop.end.qp, 42, loop.end.mr, 0, 64));
	CHECK(!getsockopt(loop.end.context->cmd_fd, SOL_SOCKET, SO_PEERCRED, &daemon, &length));
	CHECK(!kill(daemon.pid, SIGKILL));
	CHECK(!ibv_get_async_event(loop.end.context, &event));
	CHECK(event.event_type == IBV_EVENT_DEVICE_FATAL);
	ibv_ack_async_event(&event);
	CHECK(simhcadv_req_notify_cq(loop.recv_cq, NEXT_AND_REPORT) == -EIO);
	CHECK(simhcadv_req_notify_cq(loop.recv_cq, SIMHCADV_CQ_SOLICITED) == -EIO);
	/* What is outstanding can still be polled. */
	CHECK(poll_one(loop.recv_cq).wr_id == 42);
	CHECK(puts("told of it") >= 0);
}
