/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Commands of a context: how it is opened, its segments, its agent, its channels. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <utlist.h>

#include "base/log.h"
#include "base/share.h"
#include "failures/failures.h"
#include "handlers.h"
#include "printable.h"
#include "said.h"
#include "sender.h"
#include "session/daemon.h"

/* What the daemon holds for a connection: channels, pipes for events, XRC domains. */
static unsigned int descriptors(const struct session *session)
{
	struct simhca_counts counts;

	if (!session->context)
		return 0;
	simhca_context_counts(session->context, &counts);
	return session->events.descriptors + counts.xrcds;
}

int check_descriptors(const struct session *session, struct simhca_why *why)
{
	const struct session *other;
	unsigned int program = 0;

	if (descriptors(session) >= share_descriptors())
		return simhca_why(why, EMFILE,
				  "simhcad holds %u descriptors for the channels and XRC domains "
				  "of one context, an eighth of what it may open (ulimit -n)",
				  share_descriptors());
	DL_FOREACH (session->device->sessions, other)
		if (other->owner.program == session->owner.program)
			program += descriptors(other);
	if (program >= share_program_descriptors())
		return simhca_why(why, EMFILE,
				  "simhcad holds %u descriptors for the channels and XRC domains "
				  "of one program, a quarter of what it may open (ulimit -n)",
				  share_program_descriptors());
	return 0;
}

/* Whose the failures of this context are. */
static void know_program(const struct session *session)
{
	const struct daemon *daemon = session->device->daemon;
	struct failing_program program = {
		.pid = session->pid,
		.program = session->owner.program,
		.run = session->run,
	};

	memcpy(program.comm, session->comm, sizeof(program.comm));
	snprintf(program.device, sizeof(program.device), "%s", session->device->options->name);
	failures_know(daemon->failures, simhca_context_id(session->context), &program);
}

HANDLER(say)
{
	struct simhca_say_req *req = request->body;

	req->text[sizeof(req->text) - 1] = '\0';
	make_ascii(req->text);
	if (!session->context)
		return said_unopened(session, request->pid, req, why);
	if (req->what != SIMHCA_SAY_NAME)
		return said(session, req, why);
	if (session->pid || session->comm[0])
		return 0;
	snprintf(session->comm, sizeof(session->comm), "%.15s", req->text);
	simhca_context_name(session->context, 0, session->comm);
	failures_forget(session->device->daemon->failures, simhca_context_id(session->context));
	know_program(session);
	return 0;
}

static int create_context(struct session *session, pid_t pid, bool reachable,
			  struct simhca_why *why)
{
	struct daemon *daemon = session->device->daemon;
	struct simhca_context *context;
	struct simhca_engine *engine;

	if (reachable) {
		engine = engines_pick(&daemon->engines);
	} else if (daemon->options->daemon.memory == MEMORY_PROCESS_VM) {
		return simhca_why(why, EPERM,
				  "the kernel keeps simhcad from the memory of process %d, and "
				  "--memory process_vm leaves no other way",
				  (int)pid);
	} else {
		session->own_engine = engine_start(&daemon->engines, true);
		if (!session->own_engine)
			return simhca_why(why, errno, "an engine thread: %s", strerror(errno));
		engine = engine_model(session->own_engine);
	}
	context = simhca_context_create(session->device->model, engine, session, why);
	if (!context) {
		if (session->own_engine)
			engine_stop(session->own_engine);
		session->own_engine = NULL;
		return why->text[0] ? -ENOMEM : simhca_why(why, ENOMEM, "out of memory");
	}
	session_has_context(session, context);
	simhca_context_share(session->context, (uint64_t)session->owner.program);
	session->pid = pid;
	session->run = pid ? program_run_of(&daemon->programs, pid) : 0;
	process_name(pid, session->comm);
	simhca_context_name(session->context, pid, session->comm);
	know_program(session);
	log_debug("%s: context %u: opened by process %d (%s)%s", session->device->options->name,
		  simhca_context_id(session->context), (int)pid, session->comm,
		  session->own_engine ? ", memory through its agent" : "");
	return 0;
}

HANDLER(open_context)
{
	struct simhca_open_context_reply *out = reply->body;
	struct simhca_doorbells doorbells;
	struct process_table *processes = &session->device->daemon->processes;
	bool again = session->context, reachable = false;
	int client_end, our_end, ret;

	/* pid 0 is a process of a pid namespace that we cannot see into. */
	if (request->pid > 0) {
		ret = sender_know(session, request, &reachable, why);
		if (ret)
			return ret;
	}
	reachable = reachable && session->device->daemon->options->daemon.memory != MEMORY_AGENT;
	if (!again) {
		ret = create_context(session, request->pid, reachable, why);
		/* Its use begins here, so that there is somebody whose end lets go of the process.
		 */
		if (!ret &&
		    !process_memory(processes, &session->processes, session->context, request->pid))
			ret = sender_has_no_memory(why);
		if (ret) {
			process_forget_unused(processes, request->pid);
			return ret;
		}
		client_end = event_add_async(&session->events, &our_end);
	} else {
		ret = check_descriptors(session, why);
		if (ret)
			return ret;
		client_end = event_reserve_async(&session->events, request->pid, &our_end);
	}
	if (client_end < 0)
		return simhca_why(why, -client_end, "the pipe for asynchronous events: %s",
				  strerror(-client_end));

	out->context_id = simhca_context_id(session->context);
	out->can_access_memory = !session->own_engine && reachable;
	out->devmem_size = simhca_device_memory(session->device->model)->size;
	out->answer_slots = again ? 0 : SIMHCA_ANSWER_SLOTS;
	reply_add_fd(reply, simhca_device_memory_fd(session->device->model), false);
	reply_add_fd(reply, simhca_context_segment(session->context, 0, &out->segment_size), false);
	reply_add_fd(reply, client_end, !again);
	reply_add_fd(reply, our_end, false);
	simhca_context_doorbells(session->context, &doorbells);
	for (uint32_t i = 0; i < SIMHCA_MAX_ENGINE_CPUS; i++) {
		uint32_t cpu_index = i < doorbells.count ? i : 0;

		reply_add_fd(reply, doorbells.eventfd[cpu_index].fd, false);
		out->doorbell_cpu[i] = doorbells.eventfd[cpu_index].cpu;
	}
	return 0;
}

HANDLER(get_segment)
{
	const struct simhca_get_segment_req *req = request->body;
	struct simhca_get_segment_reply *out = reply->body;
	int fd = simhca_context_segment(session->context, req->segment, &out->size);

	if (fd < 0)
		return simhca_why(why, EINVAL, "the context has no memory segment %u",
				  req->segment);
	if (req->ready > SIMHCA_MAX_READY_SEGMENTS)
		return simhca_why(why, EINVAL, "%u segments for queues to come: at most %u",
				  req->ready, SIMHCA_MAX_READY_SEGMENTS);
	reply_add_fd(reply, fd, false);
	out->ready =
		simhca_context_make_ready(session->context, req->segment, req->ready, out->number);
	for (uint32_t i = 0; i < out->ready; i++)
		reply_add_fd(reply,
			     simhca_context_segment(session->context, out->number[i], &out->size),
			     false);
	return 0;
}

HANDLER(set_agent)
{
	const struct simhca_set_agent_req *req = request->body;
	struct simhca_mm *mm;
	int ret;

	if (!session->own_engine)
		return simhca_why(why, EINVAL,
				  "this context was opened by a process whose memory the device "
				  "reaches: it takes no agent");
	ret = sender_memory(session, request, &mm, why);
	if (ret)
		return ret;
	ret = simhca_mm_set_agent(session->context, mm, request->fds[0], request->fds[1],
				  req->bounce_size, why);
	request->fds[0] = request->fds[1] = -1; /* the model has them, also if it failed */
	return ret;
}

static int reply_pipe(int fd, struct reply *reply, const char *what, struct simhca_why *why)
{
	if (fd < 0)
		return simhca_why(why, -fd, "%s: %s", what, strerror(-fd));
	reply_add_fd(reply, fd, true);
	return 0;
}

HANDLER(create_channel)
{
	int ret = check_descriptors(session, why);

	return ret ? ret
		   : reply_pipe(event_add_channel(&session->events, request->pid), reply,
				"a completion channel", why);
}

HANDLER(alloc_async_fd)
{
	int ret = check_descriptors(session, why);

	return ret ? ret
		   : reply_pipe(event_take_async(&session->events, request->pid), reply,
				"a pipe for asynchronous events", why);
}

command_table context_commands = {
	COMMAND(OPEN_CONTEXT, open_context, NONE, SIZE(open_context_reply), 0),
	COMMAND(GET_SEGMENT, get_segment, SIZE(get_segment_req), SIZE(get_segment_reply), 0),
	COMMAND(CREATE_CHANNEL, create_channel, NONE, NONE, 0),
	COMMAND(ALLOC_ASYNC_FD, alloc_async_fd, NONE, NONE, 0),
	COMMAND(SET_AGENT, set_agent, SIZE(set_agent_req), NONE, 2),
	COMMAND(SAY, say, SIZE(say_req), NONE, 0),
};
