/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Commands of CQs, SRQs, QPs, XRC domains, multicast groups and completion counters. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/privilege.h"
#include "destroy.h"
#include "efa/efa.h"
#include "handlers.h"
#include "names.h"
#include "session/device.h"
#include "simhca-info.h"
#include "simhca-verbs.h"

#define LAST_SENDS_SECONDS 1.0 /* for what a QP has still to send when it is destroyed */

HANDLER(create_cq)
{
	const struct simhca_create_cq_req *req = request->body;

	if (req->channel && !event_has_channel(&session->events, req->channel))
		return simhca_why(why, EBADF,
				  "the channel was created by another ibv_context than the CQ's");
	return simhca_create_cq(session->context, req, reply->body, why);
}

/* These are not given up halfway. */
HANDLER(resize_cq)
{
	if (!request->may_wait)
		return -EAGAIN;
	return simhca_resize_cq(session->context, request->body, reply->body, why);
}

HANDLER(renew_queue)
{
	int fd, ret = simhca_renew_queue(session->context, request->body, reply->body, &fd, why);

	if (!ret)
		reply_add_fd(reply, fd, false);
	return ret;
}

HANDLER(move_queue)
{
	if (!request->may_wait)
		return -EAGAIN;
	return simhca_move_queue(session->context, request->body, why);
}

CALL(modify_cq, request->body);
CALL(arm_cq, handle_of(request));

/*
 * libefa does not bring the client's end of the channel: one is kept. A copy of it is the request's until
 * it is served; if it is to be tried again that begins anew.
 */
static int destroy_efa_cq(struct session *session, struct request *request, struct reply *reply,
			  struct simhca_why *why)
{
	struct simhca_identity identity = { .channel = 0 };
	int ret, end;

	if (!request->chore) {
		ret = simhca_efa_cq_identity(session->context, handle_of(request), &identity, why);
		if (ret)
			return ret;
	}
	end = request->num_fds ? -1 : event_kept(&session->events, identity.channel);
	if (end >= 0) {
		request->fds[0] = fcntl(end, F_DUPFD_CLOEXEC, 0);
		if (request->fds[0] < 0)
			return simhca_why(why, errno, "a descriptor of the channel: %s",
					  strerror(errno));
		request->num_fds = 1;
	}
	ret = destroy_with_events(session, request, reply, simhca_efa_cq_identity,
				  simhca_efa_destroy_cq, lint_cq, why);
	if (ret == -EAGAIN && end >= 0) {
		close(request->fds[0]);
		request->num_fds = 0;
	}
	if (!ret || ret == -EINPROGRESS)
		event_let_go(&session->events, identity.channel);
	return ret;
}

HANDLER(destroy_cq)
{
	if (!request->may_wait)
		return -EAGAIN;
	if (session->device->options->settings.efa)
		return destroy_efa_cq(session, request, reply, why);
	return destroy_with_events(session, request, reply, simhca_cq_identity, simhca_destroy_cq,
				   lint_cq, why);
}

/*
 * A descriptor of the client's file that does nothing but hold its inode. The client's own would
 * keep its locks, or its end of a pipe, as well. 0 or -errno.
 */
static int hold_file(int fd, int *held, struct simhca_why *why)
{
	char path[64];
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || (flags & O_PATH)) /* for that, nobody needs the right to open the file */
		return simhca_why(why, EBADF,
				  "the descriptor of the XRC domain is not an open file");
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	*held = open(path, O_PATH | O_CLOEXEC);
	if (*held < 0)
		return simhca_why(why, errno, "the file of the XRC domain: %s", strerror(errno));
	return 0;
}

HANDLER(open_xrcd)
{
	const struct simhca_open_xrcd_req *req = request->body;
	int file = -1, ret;

	if (req->has_fd && request->num_fds) {
		ret = check_descriptors(session, why);
		if (!ret)
			ret = hold_file(request->fds[0], &file, why);
		if (ret)
			return ret;
	}
	return simhca_open_xrcd(session->context, req, file, reply->body, why);
}

CALL(close_xrcd, handle_of(request));
CALL(create_srq, request->body, reply->body);
CALL(modify_srq, request->body, reply->body);
CALL(srq_op, request->body, reply->body);
CALL(query_srq, handle_of(request), reply->body);

HANDLER(destroy_srq)
{
	return destroy_with_events(session, request, reply, simhca_srq_identity, simhca_destroy_srq,
				   lint_srq, why);
}

HANDLER(create_qp)
{
	const struct simhca_create_qp_req *req = request->body;
	int ret = 0;

	if (req->type == SIMHCA_QPT_RAW_PACKET)
		ret = privilege_net_raw(request->pid, request->uid, why);
	return ret ? ret : simhca_create_qp(session->context, request->body, reply->body, why);
}

CALL(open_qp, request->body, reply->body);

/* In front of what was wrong: programs have many. */
static void name_qp(const struct session *session, uint32_t handle, struct simhca_why *why)
{
	struct simhca_why what = *why;
	struct simhca_qp_info qp;
	uint32_t found = handle;

	if (simhca_next_qp(session->context, &found, &qp) && found == handle)
		snprintf(why->text, sizeof(why->text), "QP 0x%06x (%s): %.*s", qp.qpn,
			 name_of_qp_type(qp.type), (int)sizeof(why->text) - 32, what.text);
}

HANDLER(modify_qp)
{
	const struct simhca_modify_qp_req *req = request->body;
	struct lint_notes notes = { 0 };
	int ret = 0;

	/* So the kernel does it, from Linux 6.4 on. */
	if (simhca_modify_is_privileged(req))
		ret = privilege_net_raw(request->pid, request->uid, why);
	if (!ret)
		ret = simhca_modify_qp(session->context, req, reply->body, why);
	if (ret && ret != -EAGAIN)
		name_qp(session, req->handle, why);
	if (ret || !(req->mask & SIMHCA_QP_STATE) ||
	    (req->attr.qp_state != SIMHCA_QPS_RTR && req->attr.qp_state != SIMHCA_QPS_RTS))
		return ret;
	lint_connected(session, req->handle, &notes);
	lint_add(session, &notes);
	return 0;
}

CALL(query_qp, handle_of(request), reply->body);

HANDLER(destroy_qp)
{
	/* After the chore it is gone. */
	int ret =
		request->chore ? 0 : simhca_check_groups(session->context, handle_of(request), why);

	if (ret)
		return ret;
	if (!request->chore && request->age < LAST_SENDS_SECONDS &&
	    simhca_qp_has_sends(session->context, handle_of(request)))
		return -EAGAIN;
	return destroy_with_events(session, request, reply, simhca_qp_identity, simhca_destroy_qp,
				   lint_qp, why);
}

HANDLER(attach_mcast)
{
	const struct simhca_mcast_req *req = request->body;
	struct lint_notes notes = { 0 };
	int ret = simhca_attach_mcast(session->context, req, why);

	if (ret)
		return ret;
	lint_attached(session, req->qp, &req->gid, &notes);
	lint_add(session, &notes);
	return 0;
}

CALL(detach_mcast, request->body);
CALL(create_comp_cntr, request->body, reply->body);
CALL(destroy_comp_cntr, handle_of(request));
CALL(attach_comp_cntr, request->body);

command_table queue_commands = {
	COMMAND(CREATE_CQ, create_cq, SIZE(create_cq_req), SIZE(create_cq_reply), 0),
	COMMAND(RESIZE_CQ, resize_cq, SIZE(resize_cq_req), SIZE(create_cq_reply), 0),
	COMMAND(DESTROY_CQ, destroy_cq, HANDLE, SIZE(destroy_reply), 0),
	COMMAND(CREATE_SRQ, create_srq, SIZE(create_srq_req), SIZE(create_srq_reply), 0),
	COMMAND(MODIFY_SRQ, modify_srq, SIZE(modify_srq_req), SIZE(create_srq_reply), 0),
	COMMAND(QUERY_SRQ, query_srq, HANDLE, SIZE(query_srq_reply), 0),
	COMMAND(DESTROY_SRQ, destroy_srq, HANDLE, SIZE(destroy_reply), 0),
	COMMAND(CREATE_QP, create_qp, SIZE(create_qp_req), SIZE(create_qp_reply), 0),
	COMMAND(MODIFY_QP, modify_qp, SIZE(modify_qp_req), SIZE(modify_qp_reply), 0),
	COMMAND(QUERY_QP, query_qp, HANDLE, SIZE(query_qp_reply), 0),
	COMMAND(DESTROY_QP, destroy_qp, HANDLE, SIZE(destroy_reply), 0),
	COMMAND(ATTACH_MCAST, attach_mcast, SIZE(mcast_req), NONE, 0),
	COMMAND(DETACH_MCAST, detach_mcast, SIZE(mcast_req), NONE, 0),
	COMMAND(MODIFY_CQ, modify_cq, SIZE(modify_cq_req), NONE, 0),
	COMMAND(ARM_CQ, arm_cq, HANDLE, NONE, 0),
	COMMAND(OPEN_XRCD, open_xrcd, SIZE(open_xrcd_req), HANDLE, 0),
	COMMAND(CLOSE_XRCD, close_xrcd, HANDLE, NONE, 0),
	COMMAND(SRQ_OP, srq_op, SIZE(srq_op_req), HANDLE, 0),
	COMMAND(OPEN_QP, open_qp, SIZE(open_qp_req), HANDLE, 0),
	COMMAND(CREATE_COMP_CNTR, create_comp_cntr, SIZE(create_comp_cntr_req),
		SIZE(create_comp_cntr_reply), 0),
	COMMAND(DESTROY_COMP_CNTR, destroy_comp_cntr, HANDLE, NONE, 0),
	COMMAND(ATTACH_COMP_CNTR, attach_comp_cntr, SIZE(attach_comp_cntr_req), NONE, 0),
	COMMAND(RENEW_QUEUE, renew_queue, SIZE(queue_req), SIZE(renew_queue_reply), 0),
	COMMAND(MOVE_QUEUE, move_queue, SIZE(queue_req), NONE, 0),
};
