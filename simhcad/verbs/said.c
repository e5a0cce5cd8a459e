/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <stdio.h>

#include "diagnosis/lint.h"
#include "failures/failures.h"
#include "names.h"
#include "said.h"
#include "session/daemon.h"
#include "session/session.h"

/* By what the provider has refused; NULL: it says something else. */
static const char *const verbs[SIMHCA_SAY_KINDS] = {
	[SIMHCA_SAY_POST_SEND] = "POST_SEND",
	[SIMHCA_SAY_POST_RECV] = "POST_RECV",
	[SIMHCA_SAY_POST_SRQ_RECV] = "POST_SRQ_RECV",
	[SIMHCA_SAY_DESTROY_CQ] = "DESTROY_CQ",
	[SIMHCA_SAY_DEALLOC_PD] = "DEALLOC_PD",
	[SIMHCA_SAY_DEALLOC_TD] = "DEALLOC_TD",
	[SIMHCA_SAY_DEALLOC_DMAH] = "DEALLOC_DMAH",
	[SIMHCA_SAY_FREE_PAGE_LIST] = "FREE_PAGE_LIST",
	[SIMHCA_SAY_CREATE_QP] = "CREATE_QP",
	[SIMHCA_SAY_CREATE_CQ] = "CREATE_CQ",
	[SIMHCA_SAY_CREATE_SRQ] = "CREATE_SRQ",
	[SIMHCA_SAY_QUERY_PORT] = "QUERY_PORT",
	[SIMHCA_SAY_OPEN_DEVICE] = "OPEN_DEVICE",
	[SIMHCA_SAY_OPEN] = "OPEN",
	[SIMHCA_SAY_CREATE_CHANNEL] = "CREATE_CHANNEL",
	[SIMHCA_SAY_ALLOC_ASYNC_FD] = "ALLOC_ASYNC_FD",
	[SIMHCA_SAY_QUERY_GID] = "QUERY_GID",
	[SIMHCA_SAY_MEMCPY_TO_DM] = "MEMCPY_TO_DM",
	[SIMHCA_SAY_MEMCPY_FROM_DM] = "MEMCPY_FROM_DM",
	[SIMHCA_SAY_ALLOC_TD] = "ALLOC_TD",
	[SIMHCA_SAY_ALLOC_PARENT_DOMAIN] = "ALLOC_PARENT_DOMAIN",
	[SIMHCA_SAY_BIND_MW] = "BIND_MW",
	[SIMHCA_SAY_ALLOC_DMAH] = "ALLOC_DMAH",
	[SIMHCA_SAY_QUERY_DEVICE] = "QUERY_DEVICE",
};

/* How it waits, as advice.c knows it. */
static const char *how_it_waits(int error)
{
	switch (error) {
	case SIMHCA_WAITS_FOR_LOCK:
		return "lock_held";
	case SIMHCA_WAITS_FOR_NONE:
		return "polls_none";
	default:
		return "not_acknowledged";
	}
}

static bool is_command(uint32_t number)
{
	return number && number < SIMHCA_CMD_COUNT;
}

int said(struct session *session, const struct simhca_say_req *req, struct simhca_why *why)
{
	struct failures *failures = session->device->daemon->failures;
	const uint32_t context = simhca_context_id(session->context);
	const int error = (int)(req->error & 0xffff);

	switch (req->what) {
	case SIMHCA_SAY_NO_DESCRIPTOR:
		if (!is_command(req->error))
			return simhca_why(why, EINVAL, "there is no command %u", req->error);
		failures_add_verb(failures, context, name_of_command(req->error), EMFILE,
				  req->text);
		return 0;
	case SIMHCA_SAY_COMMAND:
		if (!is_command(req->error >> 16))
			return simhca_why(why, EINVAL, "there is no command %u", req->error >> 16);
		failures_add_verb(failures, context, name_of_command(req->error >> 16), error,
				  req->text);
		return 0;
	case SIMHCA_SAY_WAITS:
		failures_add_sleep(failures, context, how_it_waits(error), req->text);
		return 0;
	case SIMHCA_SAY_WAITS_NO_MORE:
		failures_woke_up(failures, context, req->text);
		return 0;
	case SIMHCA_SAY_NO_DOORBELL:
		simhca_context_ring(session->context);
		return 0;
	case SIMHCA_SAY_NOT_ATTACHED:
		session->not_attached = error;
		return 0;
	default:
		break;
	}
	if (req->what < SIMHCA_SAY_KINDS && verbs[req->what])
		failures_add_verb(failures, context, verbs[req->what], error, req->text);
	else if (!lint_say(session, req->what, req->text))
		return simhca_why(why, EINVAL, "there is nothing like %u to be said", req->what);
	return 0;
}

int said_unopened(const struct session *session, pid_t pid, const struct simhca_say_req *req,
		  struct simhca_why *why)
{
	const struct daemon *daemon = session->device->daemon;
	struct failing_program program = {
		.pid = pid,
		.program = session->owner.program,
		.run = pid ? program_run_of(&daemon->programs, pid) : 0,
	};

	if (req->what != SIMHCA_SAY_OPEN_DEVICE && req->what != SIMHCA_SAY_OPEN)
		return simhca_why(why, EINVAL, "SAY: the context has to be opened first");
	process_name(pid, program.comm);
	snprintf(program.device, sizeof(program.device), "%s", session->device->options->name);
	failures_add_refusal(daemon->failures, &program, verbs[req->what], EMFILE, req->text);
	return 0;
}
