/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Commands of what a program's memory is reached by: PDs, regions, windows, on-chip memory, and AHs. */
#include <errno.h>
#include <unistd.h>

#include "diagnosis/lint.h"
#include "handlers.h"
#include "leave_file.h"
#include "sender.h"
#include "session/device.h"
#include "simhca-verbs.h"

CALL(alloc_pd, reply->body);
CALL(dealloc_pd, handle_of(request));
CALL(query_pd, handle_of(request));

HANDLER(reg_mr)
{
	const struct simhca_reg_mr_req *req = request->body;
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	struct simhca_mm *mm;
	int ret;

	/* The kernel refuses it before any driver is asked: a NIC's tables are of pages. */
	if (req->addr % page != req->iova % page)
		return simhca_why(why, EINVAL,
				  "the address 0x%llx and iova 0x%llx differ in their places in a "
				  "page",
				  (unsigned long long)req->addr, (unsigned long long)req->iova);
	ret = sender_memory(session, request, &mm, why);

	return ret ? ret : simhca_reg_mr(session->context, mm, req, reply->body, why);
}

HANDLER(rereg_mr)
{
	const struct simhca_rereg_mr_req *req = request->body;
	struct simhca_reg_mr_reply *out = reply->body;
	struct leaving *leaving = leave_file_done(request);
	struct simhca_mm *mm;
	int ret;

	if (leaving) { /* it was registered anew before */
		*out = leaving->reply;
		return 0;
	}
	ret = sender_memory(session, request, &mm, why);
	if (!ret)
		ret = leave_file_begin(session, request, req->handle, &leaving, why);
	if (ret)
		return ret;
	ret = simhca_rereg_mr(session->context, mm, req, out, why);
	if (leaving)
		leaving->reply = *out;
	return leave_file_end(session, request, leaving, ret);
}

HANDLER(dereg_mr)
{
	struct lint_notes notes = { 0 };
	struct leaving *leaving;
	int ret;

	if (leave_file_done(request)) /* it was deregistered before */
		return 0;
	lint_mr(session, handle_of(request), &notes);
	ret = leave_file_begin(session, request, handle_of(request), &leaving, why);
	if (ret)
		return ret;
	ret = simhca_dereg_mr(session->context, handle_of(request), why);
	if (!ret)
		lint_add(session, &notes);
	return leave_file_end(session, request, leaving, ret);
}

CALL(query_mr, handle_of(request), reply->body);

HANDLER(alloc_mr)
{
	struct simhca_mm *mm;
	int ret = sender_memory(session, request, &mm, why);

	return ret ? ret : simhca_alloc_mr(session->context, mm, request->body, reply->body, why);
}

CALL(alloc_mw, request->body, reply->body);
CALL(dealloc_mw, handle_of(request));

HANDLER(alloc_dm)
{
	int fd, ret = simhca_alloc_dm(session->context, request->body, reply->body, &fd, why);

	if (!ret)
		reply_add_fd(reply, fd, false);
	return ret;
}

CALL(free_dm, handle_of(request));

/* Whoever has a descriptor of the connection has all rights to what was made on it. */
HANDLER(import_dm)
{
	int fd, ret = simhca_import_dm(session->context, handle_of(request), reply->body, &fd, why);

	if (!ret)
		reply_add_fd(reply, fd, false);
	return ret;
}

/* Of whom the daemon does not see registers regions that no program maps. */
static int sender_if_seen(struct session *session, struct request *request, struct simhca_mm **mm,
			  struct simhca_why *why)
{
	*mm = NULL;
	return request->pid > 0 ? sender_memory(session, request, mm, why) : 0;
}

HANDLER(reg_dm_mr)
{
	struct simhca_mm *mm;
	int ret = sender_if_seen(session, request, &mm, why);

	return ret ? ret : simhca_reg_dm_mr(session->context, mm, request->body, reply->body, why);
}

HANDLER(reg_dmabuf_mr)
{
	const struct simhca_reg_mr_reply *registered = reply->body;
	struct simhca_mm *mm;
	int ret = sender_if_seen(session, request, &mm, why);

	if (!ret)
		ret = simhca_reg_dmabuf_mr(session->context, mm, request->fds[0], request->body,
					   reply->body, why);
	/* Not by a chore, which may last longer than the region: here its mapping keeps the file. */
	if (!ret && simhca_mr_lies_in_file(session->context, registered->handle)) {
		close(request->fds[0]);
		request->fds[0] = -1;
	}
	return ret;
}

HANDLER(set_userfaultfd)
{
	struct simhca_mm *mm;
	int fd = request->fds[0], ret = sender_memory(session, request, &mm, why);

	if (ret)
		return ret;
	request->fds[0] = -1; /* the model has it, also if it failed */
	return simhca_mm_set_userfaultfd(session->context, mm, fd, why);
}

HANDLER(watch_mr)
{
	const struct simhca_handle *req = request->body;
	struct simhca_mm *mm;
	int fd, ret = sender_memory(session, request, &mm, why);

	if (!ret)
		ret = simhca_watch_mr(session->context, mm, req->handle, &fd, why);
	if (!ret)
		reply_add_fd(reply, fd, true);
	return ret;
}

CALL(advise_mr, request->body);

HANDLER(query_odp)
{
	simhca_query_odp(session->device->model, reply->body);
	return 0;
}

CALL(create_ah, request->body, reply->body);
CALL(destroy_ah, handle_of(request));

command_table memory_commands = {
	COMMAND(ALLOC_PD, alloc_pd, NONE, HANDLE, 0),
	COMMAND(DEALLOC_PD, dealloc_pd, HANDLE, NONE, 0),
	COMMAND(REG_MR, reg_mr, SIZE(reg_mr_req), SIZE(reg_mr_reply), 0),
	COMMAND(REREG_MR, rereg_mr, SIZE(rereg_mr_req), SIZE(reg_mr_reply), 0),
	COMMAND(DEREG_MR, dereg_mr, HANDLE, NONE, 0),
	COMMAND(CREATE_AH, create_ah, SIZE(create_ah_req), HANDLE, 0),
	COMMAND(DESTROY_AH, destroy_ah, HANDLE, NONE, 0),
	COMMAND(ALLOC_MR, alloc_mr, SIZE(alloc_mr_req), SIZE(reg_mr_reply), 0),
	COMMAND(SET_USERFAULTFD, set_userfaultfd, NONE, NONE, 1),
	COMMAND(ADVISE_MR, advise_mr, SIZE(advise_mr_req), NONE, 0),
	COMMAND(QUERY_ODP, query_odp, NONE, SIZE(odp_counters), 0),
	COMMAND(ALLOC_MW, alloc_mw, SIZE(alloc_mw_req), SIZE(alloc_mw_reply), 0),
	COMMAND(DEALLOC_MW, dealloc_mw, HANDLE, NONE, 0),
	COMMAND(ALLOC_DM, alloc_dm, SIZE(alloc_dm_req), SIZE(dm_reply), 0),
	COMMAND(FREE_DM, free_dm, HANDLE, NONE, 0),
	COMMAND(IMPORT_DM, import_dm, HANDLE, SIZE(dm_reply), 0),
	COMMAND(REG_DM_MR, reg_dm_mr, SIZE(reg_dm_mr_req), SIZE(reg_mr_reply), 0),
	COMMAND(REG_DMABUF_MR, reg_dmabuf_mr, SIZE(reg_dmabuf_mr_req), SIZE(reg_mr_reply), 1),
	COMMAND(QUERY_PD, query_pd, HANDLE, NONE, 0),
	COMMAND(QUERY_MR, query_mr, HANDLE, SIZE(query_mr_reply), 0),
	COMMAND(WATCH_MR, watch_mr, HANDLE, NONE, 0),
};
