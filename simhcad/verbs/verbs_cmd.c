/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The commands of a session: thin calls of the device model. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <utlist.h>

#include "base/log.h"
#include "base/privilege.h"
#include "base/share.h"
#include "destroy.h"
#include "efa/efa.h"
#include "failures/failures.h"
#include "names.h"
#include "printable.h"
#include "said.h"
#include "sender.h"
#include "session/daemon.h"
#include "session/session.h"
#include "simhca-attach.h"
#include "simhca-verbs.h"
#include "uverbs.h"
#include "verbs_cmd.h"

#define LAST_SENDS_SECONDS 1.0 /* for what a QP has still to send when it is destroyed */

/* Every handler has these parameters. */
#define HANDLER(name)                                                                              \
	static int name(struct session *session, struct request *request, struct reply *reply,     \
			struct simhca_why *why)

/* ----------------------------------------------------------------------- opening a context */

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

/* What the daemon holds for a connection: channels, pipes for events, XRC domains. */
static unsigned int descriptors(const struct session *session)
{
	struct simhca_counts counts;

	if (!session->context)
		return 0;
	simhca_context_counts(session->context, &counts);
	return session->events.descriptors + counts.xrcds;
}

/* Whether it may hold one descriptor more for this one. */
static int check_share(const struct session *session, struct simhca_why *why)
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
		ret = check_share(session, why);
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

/* --------------------------------------------------------------------------------- events */

static int reply_pipe(int fd, struct reply *reply, const char *what, struct simhca_why *why)
{
	if (fd < 0)
		return simhca_why(why, -fd, "%s: %s", what, strerror(-fd));
	reply_add_fd(reply, fd, true);
	return 0;
}

HANDLER(create_channel)
{
	int ret = check_share(session, why);

	return ret ? ret
		   : reply_pipe(event_add_channel(&session->events, request->pid), reply,
				"a completion channel", why);
}

HANDLER(alloc_async_fd)
{
	int ret = check_share(session, why);

	return ret ? ret
		   : reply_pipe(event_take_async(&session->events, request->pid), reply,
				"a pipe for asynchronous events", why);
}

/* ---------------------------------------------------------------------- PD, MR, MW and AH */

static uint32_t handle_of(const struct request *request)
{
	return ((const struct simhca_handle *)request->body)->handle;
}

HANDLER(alloc_pd)
{
	return simhca_alloc_pd(session->context, reply->body, why);
}

HANDLER(dealloc_pd)
{
	return simhca_dealloc_pd(session->context, handle_of(request), why);
}

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

#define LEAVING_S 1.0 /* that a region may wait for other chores of its session */

/*
 * The program's file is let go of before the answer: with whoever still has it mapped its huge pages are not free, and it
 * cannot be sealed against writing.
 */
struct leaving {
	struct command_chore chore; /* first */
	struct chore *releases;
	struct simhca_reg_mr_reply reply;
};

static void let_go_of_file(struct chore *chore)
{
	releaser_let_go(((struct leaving *)chore)->releases);
}

static void has_let_go(struct command_chore *chore)
{
}

/* What the command has waited for. NULL: nothing, or a look at its sender. */
static struct leaving *left_file(const struct request *request)
{
	return request->chore && request->chore->chore.work == let_go_of_file
		       ? (struct leaving *)request->chore
		       : NULL;
}

/* What a region of a program's file is about to be done with; NULL and 0: it lies in none, or nobody waits for that file. */
static int begin_leaving(struct session *session, const struct request *request, uint32_t mr,
			 struct leaving **leaving, struct simhca_why *why)
{
	*leaving = NULL;
	if (!simhca_mr_lies_in_file(session->context, mr))
		return 0;
	/* Where too many wait, or it has waited for long, its file is let go of after the answer. */
	if (!session_may_start_chore(session))
		return request->age < LEAVING_S ? -EAGAIN : 0;
	*leaving = calloc(1, sizeof(**leaving));
	if (!*leaving)
		return simhca_why(why, ENOMEM, "out of memory");
	releaser_gather(session->device->daemon->releaser, &(*leaving)->releases);
	return 0;
}

static int end_leaving(struct session *session, struct request *request, struct leaving *leaving,
		       int ret)
{
	if (!leaving)
		return ret;
	releaser_gather(session->device->daemon->releaser, NULL);
	if (!leaving->releases) {
		free(leaving);
		return ret;
	}
	leaving->chore.chore.work = let_go_of_file;
	leaving->chore.finish = has_let_go;
	request->chore = &leaving->chore;
	return -EINPROGRESS;
}

HANDLER(rereg_mr)
{
	const struct simhca_rereg_mr_req *req = request->body;
	struct simhca_reg_mr_reply *out = reply->body;
	struct leaving *leaving = left_file(request);
	struct simhca_mm *mm;
	int ret;

	if (leaving) { /* it was registered anew before */
		*out = leaving->reply;
		return 0;
	}
	ret = sender_memory(session, request, &mm, why);
	if (!ret)
		ret = begin_leaving(session, request, req->handle, &leaving, why);
	if (ret)
		return ret;
	ret = simhca_rereg_mr(session->context, mm, req, out, why);
	if (leaving)
		leaving->reply = *out;
	return end_leaving(session, request, leaving, ret);
}

HANDLER(dereg_mr)
{
	struct lint_notes notes = { 0 };
	struct leaving *leaving;
	int ret;

	if (left_file(request)) /* it was deregistered before */
		return 0;
	lint_mr(session, handle_of(request), &notes);
	ret = begin_leaving(session, request, handle_of(request), &leaving, why);
	if (ret)
		return ret;
	ret = simhca_dereg_mr(session->context, handle_of(request), why);
	if (!ret)
		lint_add(session, &notes);
	return end_leaving(session, request, leaving, ret);
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

HANDLER(advise_mr)
{
	return simhca_advise_mr(session->context, request->body, why);
}

HANDLER(query_odp)
{
	simhca_query_odp(session->device->model, reply->body);
	return 0;
}

HANDLER(alloc_mr)
{
	struct simhca_mm *mm;
	int ret = sender_memory(session, request, &mm, why);

	return ret ? ret : simhca_alloc_mr(session->context, mm, request->body, reply->body, why);
}

HANDLER(alloc_mw)
{
	return simhca_alloc_mw(session->context, request->body, reply->body, why);
}

HANDLER(dealloc_mw)
{
	return simhca_dealloc_mw(session->context, handle_of(request), why);
}

/* ------------------------------------------- on-chip memory, files as memory, imports */

HANDLER(alloc_dm)
{
	int fd, ret = simhca_alloc_dm(session->context, request->body, reply->body, &fd, why);

	if (!ret)
		reply_add_fd(reply, fd, false);
	return ret;
}

HANDLER(free_dm)
{
	return simhca_free_dm(session->context, handle_of(request), why);
}

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

HANDLER(query_pd)
{
	return simhca_query_pd(session->context, handle_of(request), why);
}

HANDLER(query_mr)
{
	return simhca_query_mr(session->context, handle_of(request), reply->body, why);
}

HANDLER(create_ah)
{
	return simhca_create_ah(session->context, request->body, reply->body, why);
}

HANDLER(destroy_ah)
{
	return simhca_destroy_ah(session->context, handle_of(request), why);
}

/* ------------------------------------------------------------------------- CQ, SRQ and QP */

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

HANDLER(modify_cq)
{
	return simhca_modify_cq(session->context, request->body, why);
}

HANDLER(arm_cq)
{
	return simhca_arm_cq(session->context, handle_of(request), why);
}

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
		ret = check_share(session, why);
		if (!ret)
			ret = hold_file(request->fds[0], &file, why);
		if (ret)
			return ret;
	}
	return simhca_open_xrcd(session->context, req, file, reply->body, why);
}

HANDLER(close_xrcd)
{
	return simhca_close_xrcd(session->context, handle_of(request), why);
}

HANDLER(create_srq)
{
	return simhca_create_srq(session->context, request->body, reply->body, why);
}

HANDLER(modify_srq)
{
	return simhca_modify_srq(session->context, request->body, reply->body, why);
}

HANDLER(srq_op)
{
	return simhca_srq_op(session->context, request->body, reply->body, why);
}

HANDLER(query_srq)
{
	return simhca_query_srq(session->context, handle_of(request), reply->body, why);
}

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

HANDLER(open_qp)
{
	return simhca_open_qp(session->context, request->body, reply->body, why);
}

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

HANDLER(query_qp)
{
	return simhca_query_qp(session->context, handle_of(request), reply->body, why);
}

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

HANDLER(detach_mcast)
{
	return simhca_detach_mcast(session->context, request->body, why);
}

/* ------------------------------------------------------------------------------- Ethernet */

HANDLER(create_wq)
{
	return simhca_create_wq(session->context, request->body, reply->body, why);
}

HANDLER(modify_wq)
{
	return simhca_modify_wq(session->context, request->body, reply->body, why);
}

HANDLER(destroy_wq)
{
	return destroy_with_events(session, request, reply, simhca_wq_identity, simhca_destroy_wq,
				   NULL, why);
}

HANDLER(create_rwq_table)
{
	return simhca_create_rwq_table(session->context, request->body, reply->body, why);
}

HANDLER(destroy_rwq_table)
{
	return simhca_destroy_rwq_table(session->context, handle_of(request), why);
}

HANDLER(create_rss_qp)
{
	int ret = privilege_net_raw(request->pid, request->uid, why);

	return ret ? ret : simhca_create_rss_qp(session->context, request->body, reply->body, why);
}

HANDLER(create_flow)
{
	int ret = privilege_net_raw(request->pid, request->uid, why);

	return ret ? ret : simhca_create_flow(session->context, request->body, reply->body, why);
}

HANDLER(destroy_flow)
{
	return simhca_destroy_flow(session->context, handle_of(request), why);
}

HANDLER(create_counters)
{
	return simhca_create_counters(session->context, reply->body, why);
}

HANDLER(read_counters)
{
	return simhca_read_counters(session->context, handle_of(request), reply->body, why);
}

HANDLER(destroy_counters)
{
	return simhca_destroy_counters(session->context, handle_of(request), why);
}

HANDLER(create_comp_cntr)
{
	return simhca_create_comp_cntr(session->context, request->body, reply->body, why);
}

HANDLER(destroy_comp_cntr)
{
	return simhca_destroy_comp_cntr(session->context, handle_of(request), why);
}

HANDLER(attach_comp_cntr)
{
	return simhca_attach_comp_cntr(session->context, request->body, why);
}

/* -------------------------------------------------------------------------- the fast path */

HANDLER(offer_memory)
{
	struct simhca_mm *mm;
	int ret = sender_memory(session, request, &mm, why);

	return ret ? ret : simhca_offer_memory(session->context, mm, request->body, why);
}

HANDLER(find_peer)
{
	return simhca_find_peer(session->context, request->body, reply->body, why);
}

/* The channel, for a program that may write to the memory of the process that reads there. */
static void lend_channel(struct session *session, uint64_t *channel, uint64_t event, pid_t reader,
			 struct reply *reply)
{
	int fd = *channel ? event_lend(&session->events, *channel, event, reader) : -1;

	if (fd >= 0)
		reply_add_fd(reply, fd, false);
	else
		*channel = 0;
}

HANDLER(attach_peer)
{
	struct simhca_attach_peer_reply *out = reply->body;
	struct simhca_attached attached;
	struct simhca_mm *mm;
	int ret = sender_memory(session, request, &mm, why);

	if (!ret)
		ret = simhca_attach_peer(session->context, mm, request->body, out, &attached, why);
	if (ret)
		return ret;
	for (int i = 0; i < 3; i++)
		reply_add_fd(reply, attached.fds[i], false);
	if (attached.writers >= 0)
		reply_add_fd(reply, attached.writers, false);
	if (attached.peer_writers >= 0)
		reply_add_fd(reply, attached.peer_writers, false);
	lend_channel(attached.peer, &out->recv_channel, out->recv_event, attached.peer_pid, reply);
	lend_channel(session, &out->send_channel, out->send_event, attached.own_pid, reply);
	return 0;
}

HANDLER(map_region)
{
	struct simhca_mm *mm;
	int fd, ret = sender_memory(session, request, &mm, why);

	if (!ret)
		ret = simhca_map_region(session->context, mm, request->body, reply->body, &fd, why);
	if (ret)
		return ret;
	session->maps = true;
	reply_add_fd(reply, fd, false);
	return 0;
}

/* ------------------------------------------------------------------ the kernel's interface */

HANDLER(write_uverbs)
{
	return uverbs_write(session, request, reply, why, command_find);
}

/* --------------------------------------------------------------------------------- dispatch */

#define NONE 0
#define COMMAND(NUMBER, function, request, reply, num_fds)                                         \
	[SIMHCA_CMD_##NUMBER] = {                                                                  \
		.request_size = request, .reply_size = reply, .fds = num_fds, .handler = function  \
	}
#define SIZE(name) sizeof(struct simhca_##name)
#define HANDLE SIZE(handle)

static const struct command commands[SIMHCA_CMD_COUNT] = {
	COMMAND(OPEN_CONTEXT, open_context, NONE, SIZE(open_context_reply), 0),
	COMMAND(GET_SEGMENT, get_segment, SIZE(get_segment_req), SIZE(get_segment_reply), 0),
	COMMAND(CREATE_CHANNEL, create_channel, NONE, NONE, 0),
	COMMAND(ALLOC_ASYNC_FD, alloc_async_fd, NONE, NONE, 0),
	COMMAND(ALLOC_PD, alloc_pd, NONE, HANDLE, 0),
	COMMAND(DEALLOC_PD, dealloc_pd, HANDLE, NONE, 0),
	COMMAND(REG_MR, reg_mr, SIZE(reg_mr_req), SIZE(reg_mr_reply), 0),
	COMMAND(REREG_MR, rereg_mr, SIZE(rereg_mr_req), SIZE(reg_mr_reply), 0),
	COMMAND(DEREG_MR, dereg_mr, HANDLE, NONE, 0),
	COMMAND(CREATE_AH, create_ah, SIZE(create_ah_req), HANDLE, 0),
	COMMAND(DESTROY_AH, destroy_ah, HANDLE, NONE, 0),
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
	COMMAND(SET_AGENT, set_agent, SIZE(set_agent_req), NONE, 2),
	COMMAND(ALLOC_MR, alloc_mr, SIZE(alloc_mr_req), SIZE(reg_mr_reply), 0),
	COMMAND(SET_USERFAULTFD, set_userfaultfd, NONE, NONE, 1),
	COMMAND(ADVISE_MR, advise_mr, SIZE(advise_mr_req), NONE, 0),
	COMMAND(QUERY_ODP, query_odp, NONE, SIZE(odp_counters), 0),
	COMMAND(ALLOC_MW, alloc_mw, SIZE(alloc_mw_req), SIZE(alloc_mw_reply), 0),
	COMMAND(DEALLOC_MW, dealloc_mw, HANDLE, NONE, 0),
	COMMAND(MODIFY_CQ, modify_cq, SIZE(modify_cq_req), NONE, 0),
	COMMAND(ARM_CQ, arm_cq, HANDLE, NONE, 0),
	COMMAND(OPEN_XRCD, open_xrcd, SIZE(open_xrcd_req), HANDLE, 0),
	COMMAND(CLOSE_XRCD, close_xrcd, HANDLE, NONE, 0),
	COMMAND(SRQ_OP, srq_op, SIZE(srq_op_req), HANDLE, 0),
	COMMAND(OPEN_QP, open_qp, SIZE(open_qp_req), HANDLE, 0),
	COMMAND(ALLOC_DM, alloc_dm, SIZE(alloc_dm_req), SIZE(dm_reply), 0),
	COMMAND(FREE_DM, free_dm, HANDLE, NONE, 0),
	COMMAND(IMPORT_DM, import_dm, HANDLE, SIZE(dm_reply), 0),
	COMMAND(REG_DM_MR, reg_dm_mr, SIZE(reg_dm_mr_req), SIZE(reg_mr_reply), 0),
	COMMAND(REG_DMABUF_MR, reg_dmabuf_mr, SIZE(reg_dmabuf_mr_req), SIZE(reg_mr_reply), 1),
	COMMAND(QUERY_PD, query_pd, HANDLE, NONE, 0),
	COMMAND(QUERY_MR, query_mr, HANDLE, SIZE(query_mr_reply), 0),
	COMMAND(CREATE_WQ, create_wq, SIZE(create_wq_req), SIZE(create_qp_reply), 0),
	COMMAND(MODIFY_WQ, modify_wq, SIZE(modify_wq_req), SIZE(modify_wq_reply), 0),
	COMMAND(DESTROY_WQ, destroy_wq, HANDLE, SIZE(destroy_reply), 0),
	COMMAND(CREATE_RWQ_TABLE, create_rwq_table, SIZE(create_rwq_table_req), HANDLE, 0),
	COMMAND(DESTROY_RWQ_TABLE, destroy_rwq_table, HANDLE, NONE, 0),
	COMMAND(CREATE_RSS_QP, create_rss_qp, SIZE(create_rss_qp_req), SIZE(create_qp_reply), 0),
	COMMAND(CREATE_FLOW, create_flow, SIZE(create_flow_req), HANDLE, 0),
	COMMAND(DESTROY_FLOW, destroy_flow, HANDLE, NONE, 0),
	COMMAND(CREATE_COUNTERS, create_counters, NONE, HANDLE, 0),
	COMMAND(READ_COUNTERS, read_counters, HANDLE, SIZE(read_counters_reply), 0),
	COMMAND(DESTROY_COUNTERS, destroy_counters, HANDLE, NONE, 0),
	COMMAND(CREATE_COMP_CNTR, create_comp_cntr, SIZE(create_comp_cntr_req),
		SIZE(create_comp_cntr_reply), 0),
	COMMAND(DESTROY_COMP_CNTR, destroy_comp_cntr, HANDLE, NONE, 0),
	COMMAND(ATTACH_COMP_CNTR, attach_comp_cntr, SIZE(attach_comp_cntr_req), NONE, 0),
	COMMAND(OFFER_MEMORY, offer_memory, SIZE(offer_memory_req), NONE, 0),
	COMMAND(RENEW_QUEUE, renew_queue, SIZE(queue_req), SIZE(renew_queue_reply), 0),
	COMMAND(MOVE_QUEUE, move_queue, SIZE(queue_req), NONE, 0),
	COMMAND(SAY, say, SIZE(say_req), NONE, 0),
	COMMAND(WATCH_MR, watch_mr, HANDLE, NONE, 0),
	COMMAND(FIND_PEER, find_peer, SIZE(find_peer_req), SIZE(find_peer_reply), 0),
	COMMAND(UVERBS_WRITE, write_uverbs, SIZE(uverbs_write_req), SIZE(uverbs_write_reply), 0),
	COMMAND(UVERBS_MAP, uverbs_map, SIZE(uverbs_map_req), SIZE(uverbs_map_reply), 0),
	COMMAND(UVERBS_WATCH, uverbs_watch, SIZE(uverbs_watch_req), NONE, 0),
	COMMAND(ATTACH_PEER, attach_peer, SIZE(attach_peer_req), SIZE(attach_peer_reply), 0),
	COMMAND(MAP_REGION, map_region, SIZE(map_region_req), SIZE(map_region_reply), 0),
};

const struct command *command_find(unsigned int number)
{
	return number < SIMHCA_CMD_COUNT && commands[number].handler ? &commands[number] : NULL;
}
