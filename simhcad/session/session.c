/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utlist.h>

#include "base/log.h"
#include "base/monotonic.h"
#include "base/share.h"
#include "daemon.h"
#include "failures/failures.h"
#include "loop/datagram.h"
#include "names.h"
#include "session.h"
#include "simhca-inject.h"

#define DEFERRED 64	     /* commands of one session that wait at a time */
#define PROGRAM_DEFERRED 256 /* and of one program */
#define CHORES 4	     /* of one session, at a time */
#define PAUSE 0.001	     /* seconds */
#define REPLY_BODY (SIMHCA_CMD_MAX_BYTES - sizeof(struct simhca_reply_hdr))
#define REQUEST_BODY (SIMHCA_CMD_MAX_BYTES - sizeof(struct simhca_cmd_hdr))

/* A datagram as it came in: what it says is not to be trusted, who sent it is. */
struct datagram {
	struct simhca_cmd_hdr hdr;
	_Alignas(16) unsigned char body[REQUEST_BODY];
	ssize_t length;
	bool truncated; /* it was longer */
	struct sender sender;
	int fds[1 + SIMHCA_CMD_MAX_FDS];
	unsigned int num_fds;
};

/* A command that found an engine at work on its object, or waits for a chore. */
struct deferred {
	struct retry retry; /* first: retries point to it */
	struct session *session;
	struct datagram datagram;
	struct command_chore *chore; /* NULL: it is to be tried again */
	struct deferred *prev, *next;
};

#define STUCK 4		    /* threads of engines, until a program's memory is left alone */
#define RETRY_SECONDS 10.0  /* until such a command fails */
#define MAY_NOT_WAIT (-1.0) /* an age */
/* Seconds in which commands do not wait for engines again, but are deferred. */
#define IN_VAIN 0.25

/* ----------------------------------------------------------------------------- receiving */

/* 0, or -errno. */
static int receive(const struct session *session, struct datagram *datagram)
{
	struct iovec iov[2] = {
		{ .iov_base = &datagram->hdr, .iov_len = sizeof(datagram->hdr) },
		{ .iov_base = datagram->body, .iov_len = sizeof(datagram->body) },
	};

	memset(datagram, 0, sizeof(*datagram));
	datagram->length =
		datagram_receive(session->fd, session->device->daemon->releaser, &session->owner,
				 iov, 2, &datagram->sender, datagram->fds, 1 + SIMHCA_CMD_MAX_FDS,
				 &datagram->num_fds, &datagram->truncated);
	return datagram->length < 0 ? (int)datagram->length : 0;
}

/* ------------------------------------------------------------------------------- answering */

/*
 * A slot has no room for descriptors: whoever wants an answer that has some asks for it on a socket.
 */
static void answer(struct session *session, const struct datagram *datagram, int status,
		   const struct datagram_answer *answer, const struct simhca_why *why)
{
	uint32_t where = answer_where(&datagram->hdr);
	struct simhca_reply_hdr hdr;
	struct iovec iov[2];

	if (answer_in_slot(where)) {
		datagram_reply(&hdr, 0, status, answer, why, iov);
		if (session->context)
			simhca_context_answer(session->context, where & ~SIMHCA_CMD_ANSWER_SLOT,
					      iov, 2);
		return;
	}
	answers_give(&session->answers, where,
		     answer_comes(where) && datagram->num_fds ? datagram->fds[0] : -1, status,
		     answer, why);
}

/* How many of the descriptors are for the answer: the first, or none. */
static unsigned int num_answers(const struct datagram *datagram)
{
	return answer_comes(answer_where(&datagram->hdr)) ? 1 : 0;
}

/* What can be wrong with a request before anybody looks at what it asks for. */
static int check(const struct session *session, const struct datagram *datagram,
		 const struct command **command, struct simhca_why *why)
{
	const struct simhca_cmd_hdr *hdr = &datagram->hdr;
	size_t length = (size_t)datagram->length;
	unsigned int answers = num_answers(datagram);
	int ret;

	if (datagram->truncated)
		return simhca_why(why, EMSGSIZE, "a command has at most %u bytes",
				  SIMHCA_CMD_MAX_BYTES);
	ret = datagram_check(hdr, length, sizeof(*hdr), EPROTO, "provider", why);
	if (ret)
		return ret;
	*command = session->device->daemon->hooks.command_find(hdr->command);
	if (!*command)
		return simhca_why(why, EOPNOTSUPP, "there is no command %u", hdr->command);
	if (length != sizeof(*hdr) + (*command)->request_size)
		return simhca_why(why, EINVAL, "%s: the request has %zu bytes and should have %zu",
				  name_of_command(hdr->command), length - sizeof(*hdr),
				  (*command)->request_size);
	if (datagram->num_fds < answers + (*command)->fds)
		return simhca_why(why, EINVAL, "%s: the request lacks %u descriptors",
				  name_of_command(hdr->command),
				  answers + (*command)->fds - datagram->num_fds);
	/* Before that there is nothing that the others could work on. */
	if (!session->context && hdr->command != SIMHCA_CMD_OPEN_CONTEXT &&
	    hdr->command != SIMHCA_CMD_UVERBS_WRITE && hdr->command != SIMHCA_CMD_SAY)
		return simhca_why(why, EINVAL, "%s: the context has to be opened first",
				  name_of_command(hdr->command));
	return 0;
}

/* What has become of a request. Unless it is served it still holds its descriptors. */
enum progress { SERVED, TO_BE_TRIED_AGAIN, GETS_ON, WAITS_FOR_CHORE };

/*
 * Providers ask whether they may carry messages, or have other memory for a queue: no is an answer,
 * and no failure of the program's.
 */
static bool is_question(unsigned int command)
{
	return command == SIMHCA_CMD_FIND_PEER || command == SIMHCA_CMD_ATTACH_PEER ||
	       command == SIMHCA_CMD_MAP_REGION || command == SIMHCA_CMD_RENEW_QUEUE;
}

/* Calls the handler. It waits a moment for an engine at work, if that may help. */
static int handle(struct session *session, const struct command *command, struct request *request,
		  struct reply *reply, double age, struct simhca_why *why)
{
	struct daemon *daemon = session->device->daemon;
	bool briefly = age > 0 || monotonic_s() < daemon->in_vain + IN_VAIN;
	int status;

	simhca_fabric_brief_waits(daemon->fabric, briefly);
	status = command->handler(session, request, reply, why);
	simhca_fabric_brief_waits(daemon->fabric, false);
	if (status == -EAGAIN && !briefly)
		daemon->in_vain = monotonic_s();
	return status;
}

/* To the program it is its ibv_reg_mr(), wherever its provider is about to move the memory. */
static uint32_t verb_of(const struct datagram *datagram)
{
	const struct simhca_reg_dmabuf_mr_req *req = (const void *)datagram->body;

	return datagram->hdr.command == SIMHCA_CMD_REG_DMABUF_MR &&
			       (size_t)datagram->length == sizeof(datagram->hdr) + sizeof(*req) &&
			       req->addr
		       ? SIMHCA_CMD_REG_MR
		       : datagram->hdr.command;
}

static void tell_refusal(struct session *session, uint32_t command, int error, const char *why)
{
	session->refused = command;
	failures_add_verb(session->device->daemon->failures, simhca_context_id(session->context),
			  name_of_command(command), error, why);
}

/* After a refusal of the same command. */
static void tell_success(struct session *session, uint32_t command)
{
	session->refused = 0;
	failures_verb_succeeds(session->device->daemon->failures,
			       simhca_context_id(session->context), name_of_command(command));
}

/* The log has each refusal, and `simhca explain` each verb that was refused; command NULL: it is not known. */
static void note_result(struct session *session, const struct datagram *datagram,
			const struct command *command, int status, const struct simhca_why *why)
{
	const uint32_t verb = verb_of(datagram);
	const bool failed = status && status != -(int)SIMHCA_CMD_SAY_AGAIN &&
			    !is_question(datagram->hdr.command);

	if (failed)
		log_info("%s: context %d, process %d: %s: %s (%s)", session->device->options->name,
			 session->context ? (int)simhca_context_id(session->context) : -1,
			 (int)datagram->sender.pid, command ? name_of_command(verb) : "command",
			 why->text, strerror(-status));
	if (failed && command && session->context)
		tell_refusal(session, verb, -status, why->text);
	if (!status && verb == session->refused)
		tell_success(session, verb);
}

/* What is left of the descriptors that came, and those that were only to be sent. */
static void close_descriptors(struct session *session, const struct request *request,
			      const struct reply *reply)
{
	for (unsigned int i = 0; i < request->num_fds; i++)
		if (request->fds[i] >= 0)
			releaser_close(session->device->daemon->releaser, &session->owner,
				       request->fds[i]);
	if (request->pidfd >= 0)
		close(request->pidfd);
	for (unsigned int i = 0; i < reply->num_fds; i++)
		if (reply->close_fd[i])
			close(reply->fds[i]);
}

/* What a rule of faults has the command fail with. */
static int inject(const struct session *session, const struct datagram *datagram,
		  struct simhca_why *why)
{
	int status;

	/* A client that has moved its queue is there; the device follows. */
	if (!session->context || datagram->hdr.command == SIMHCA_CMD_MOVE_QUEUE)
		return 0;
	status = simhca_inject_verb(session->context, verb_of(datagram));
	return status ? simhca_why(why, -status, FAILURES_BY_RULE) : 0;
}

/* Why a command is not tried again. */
static int still_busy(uint32_t verb, double age, struct simhca_why *why)
{
	if (age == MAY_NOT_WAIT)
		return simhca_why(why, EBUSY,
				  "%s: the device is at work, and %u commands of this context, "
				  "or %u of its program, wait for it already",
				  name_of_command(verb), DEFERRED, PROGRAM_DEFERRED);
	return simhca_why(why, EBUSY,
			  "%s: each time in %.0f s an engine or a program's step was at "
			  "work on it, in a client's memory, stopped, or without a CPU",
			  name_of_command(verb), RETRY_SECONDS);
}

/*
 * Carries a request out and answers it. *chore is what it has waited for, if anything, or is to
 * wait for.
 */
static enum progress serve(struct session *session, struct datagram *datagram, double age,
			   struct command_chore **chore)
{
	_Alignas(16) unsigned char body[REPLY_BODY] = { 0 };
	struct reply reply = { .body = body };
	struct request request = {
		.body = datagram->body,
		.age = age == MAY_NOT_WAIT ? RETRY_SECONDS + 1 : age,
		.may_wait = age != MAY_NOT_WAIT,
		.pid = datagram->sender.pid,
		.uid = datagram->sender.uid,
		.pidfd = datagram->sender.pidfd,
		.gone = datagram->sender.gone,
		.chore = *chore,
	};
	const struct command *command = NULL;
	struct simhca_why why = { "" };
	unsigned int answers = num_answers(datagram);
	struct datagram_answer said;
	int status = check(session, datagram, &command, &why);

	/* The answer's is not the handler's. */
	for (unsigned int i = answers; i < datagram->num_fds; i++)
		request.fds[request.num_fds++] = datagram->fds[i];
	if (!status && age <= 0 && !request.chore && !session->said_again)
		status = inject(session, datagram, &why);
	session->said_again = false;
	if (!status)
		status = handle(session, command, &request, &reply, age, &why);
	*chore = request.chore;
	if (status == -EINPROGRESS) {
		/* The chore may have taken some. */
		for (unsigned int i = 0; i < request.num_fds; i++)
			datagram->fds[answers + i] = request.fds[i];
		datagram->sender.pidfd = request.pidfd;
		return WAITS_FOR_CHORE;
	}
	if (status == -ERESTART)
		return GETS_ON;
	if (status == -EAGAIN && request.may_wait && age <= RETRY_SECONDS)
		return TO_BE_TRIED_AGAIN;
	if (status == -EAGAIN)
		status = still_busy(verb_of(datagram), age, &why);
	note_result(session, datagram, command, status, &why);
	said = (struct datagram_answer){
		.body = reply.body,
		.body_size = command ? command->reply_size : 0,
		.fds = reply.fds,
		.num_fds = reply.num_fds,
	};
	answer(session, datagram, status, &said, &why);
	close_descriptors(session, &request, &reply);
	return SERVED;
}

/* ------------------------------------------------------------------------ trying again later */

static void drop_descriptors(const struct session *session, const struct datagram *datagram)
{
	if (datagram->sender.pidfd >= 0)
		close(datagram->sender.pidfd);
	for (unsigned int i = 0; i < datagram->num_fds; i++)
		if (datagram->fds[i] >= 0)
			releaser_close(session->device->daemon->releaser, &session->owner,
				       datagram->fds[i]);
}

static void deferred_free(struct deferred *deferred)
{
	DL_DELETE(deferred->session->deferred, deferred);
	deferred->session->num_deferred--;
	tally_sub(&deferred->session->device->deferred, deferred->session->owner.program);
	free(deferred);
}

static void on_chore_done(struct chore *chore);

/* It is deferred, or was already, and goes on with the next try, or when its chore is done. */
static void go_on_later(struct deferred *deferred, struct command_chore *chore)
{
	struct session *session = deferred->session;
	struct chore *list = NULL;

	deferred->chore = chore;
	if (!chore)
		return;
	session->num_chores++;
	chore->waiting = deferred;
	chore->chore.done = on_chore_done;
	chore->chore.owner = session->owner;
	DL_APPEND(list, &chore->chore);
	chores_add(session->device->daemon->chores, list);
}

/* Its client is gone. It is in no queue. */
static void drop(struct deferred *deferred)
{
	drop_descriptors(deferred->session, &deferred->datagram);
	deferred_free(deferred);
}

bool session_drop_command(struct session *session)
{
	struct deferred *deferred = session->deferred;

	if (!deferred)
		return false;
	if (deferred->chore)
		deferred->chore->waiting = NULL;
	else
		retry_remove(&session->device->daemon->retries, &deferred->retry);
	drop(deferred);
	return true;
}

static bool serve_again(struct retry *retry, double until)
{
	struct deferred *deferred = (struct deferred *)retry;
	struct session *session = deferred->session;
	struct command_chore *chore = NULL;

	if (session_is_closing(session)) {
		drop(deferred);
		return true;
	}
	switch (serve(session, &deferred->datagram, monotonic_s() - retry->since, &chore)) {
	case GETS_ON:
		retry_soon(retry);
		return false;
	case TO_BE_TRIED_AGAIN:
		return false;
	case WAITS_FOR_CHORE:
		go_on_later(deferred, chore);
		return true;
	case SERVED:
		break;
	}
	deferred_free(deferred);
	return true;
}

static void on_chore_done(struct chore *done)
{
	struct command_chore *chore = (struct command_chore *)done, *next = chore;
	struct deferred *deferred = chore->waiting;
	struct session *session;
	enum progress progress;

	if (chore->finish)
		chore->finish(chore);
	if (deferred) {
		session = deferred->session;
		session->num_chores--;
		progress = SERVED;
		if (session_is_closing(session))
			drop_descriptors(session, &deferred->datagram);
		else
			progress = serve(session, &deferred->datagram, 0, &next);
		if (progress == SERVED) {
			deferred_free(deferred);
		} else {
			go_on_later(deferred, progress == WAITS_FOR_CHORE ? next : NULL);
			if (progress != WAITS_FOR_CHORE)
				retry_add(&session->device->daemon->retries, &deferred->retry,
					  serve_again);
		}
	}
	free(chore);
}

static void defer(struct session *session, const struct datagram *datagram,
		  struct command_chore *chore)
{
	struct deferred *deferred = malloc(sizeof(*deferred));

	if (!deferred) {
		drop_descriptors(session, datagram); /* the client sees its answer socket's end */
		return;
	}
	deferred->session = session;
	deferred->datagram = *datagram;
	DL_APPEND(session->deferred, deferred);
	session->num_deferred++;
	tally_add(&session->device->deferred, session->owner.program);
	go_on_later(deferred, chore);
	if (!chore)
		retry_add(&session->device->daemon->retries, &deferred->retry, serve_again);
}

bool session_may_start_chore(const struct session *session)
{
	return session->num_chores < CHORES;
}

/* Whether one command more of it may wait. */
static bool may_wait(const struct session *session)
{
	return session->num_deferred < DEFERRED &&
	       tally_get(&session->device->deferred, session->owner.program) < PROGRAM_DEFERRED;
}

/* One command: who has asked waits for the answer, and the event loop tells when there is more. */
static void serve_one(struct turn *turn, uint64_t until)
{
	struct session *session = (struct session *)((char *)turn - offsetof(struct session, turn));
	struct daemon *daemon = session->device->daemon;
	struct command_chore *chore = NULL;
	struct datagram datagram;
	/* What it had sent is not carried out any more. */
	bool gone = datagram_has_hung_up(session->fd);
	int ret;

	if (!gone && releaser_has_enough(daemon->releaser, &session->owner)) {
		ev_io_stop(daemon->loop, &session->io);
		ev_timer_set(&session->pause, PAUSE, 0);
		ev_timer_start(daemon->loop, &session->pause);
		return;
	}
	ret = gone ? -EPIPE : receive(session, &datagram);
	if (ret == -EAGAIN)
		return;
	/* An empty datagram has a sender, the end of the connection has none. */
	if (ret || (!datagram.length && !datagram.sender.known)) {
		if (!ret && datagram.sender.pidfd >= 0)
			close(datagram.sender.pidfd);
		session_close(session);
		return;
	}
	if (serve(session, &datagram, may_wait(session) ? 0 : MAY_NOT_WAIT, &chore) != SERVED)
		defer(session, &datagram, chore);
	attention_pay(&daemon->attention);
	doze_over(&daemon->doze);
}

static void on_readable(struct ev_loop *loop, ev_io *io, int events)
{
	struct session *session = io->data;

	/* Its peers shall not wait for others that ask. */
	if (session->turn.waits && datagram_has_hung_up(session->fd))
		session_close(session);
	else
		turns_take(&session->device->daemon->turns, &session->turn);
}

static void on_pause_over(struct ev_loop *loop, ev_timer *timer, int events)
{
	struct session *session = timer->data;

	ev_io_start(loop, &session->io);
}

/* ------------------------------------------------------------------------------------ life */

/* Whether whoever connects has connections enough. */
static bool has_its_share(const struct device *device, const struct owner *owner)
{
	unsigned int process = tally_get(&device->of_process, owner->process);
	unsigned int program = tally_get(&device->of_program, owner->program);

	if (process < share_connections() && program < share_program_connections())
		return false;
	log_warning("%s: process %d has %u connections, and its program %u: it gets no more",
		    device->options->name, (int)owner->process, process, program);
	return true;
}

void session_ask_for_pidfds(struct session *session, bool ask)
{
	if (session->pidfds != ask)
		datagram_ask_for_pidfds(session->fd, ask);
	session->pidfds = ask;
}

void session_open(struct device *device, int fd)
{
	struct owner owner = program_peer(&device->daemon->programs, fd);
	struct session *session = NULL;

	if (has_its_share(device, &owner)) {
		datagram_close(fd, device->daemon->releaser, &owner);
		return;
	}
	session = calloc(1, sizeof(*session));
	if (!session) {
		log_error("%s: no memory for a connection", device->options->name);
		datagram_close(fd, device->daemon->releaser, &owner);
		return;
	}
	session->turn.serve = serve_one;
	session->device = device;
	session->fd = fd;
	session->owner = owner;
	session->answers =
		(struct answer_set){ .answers = &device->daemon->answers, .owner = owner };
	session_ask_for_pidfds(session, true);
	event_set_init(&session->events, &device->daemon->wakeup);
	ev_io_init(&session->io, on_readable, fd, EV_READ);
	/* Before the end of a process: peers of one that has died shall see it fall silent. */
	ev_set_priority(&session->io, 1);
	session->io.data = session;
	ev_timer_init(&session->pause, on_pause_over, 0, 0);
	session->pause.data = session;
	ev_io_start(device->daemon->loop, &session->io);
	session->number = device->next_session++;
	DL_APPEND(device->sessions, session);
	tally_add(&device->of_process, owner.process);
	tally_add(&device->of_program, owner.program);
}

/* ---------------------------------------------------------------- memory that does not answer */

/* How many of the contexts are of that process, and of that program. */
static void count_stuck(const struct session *session, const struct owner *owners,
			unsigned int count, unsigned int *process, unsigned int *program)
{
	*process = *program = 0;
	/* Those that cannot be seen from here are served by engines of their own. */
	for (unsigned int i = 0; i < count && session->owner.process; i++) {
		*process += owners[i].process == session->owner.process;
		*program += owners[i].program == session->owner.program;
	}
}

void session_suspend(struct daemon *daemon, const uint32_t *contexts, unsigned int count)
{
	struct owner owners[ENGINES_STUCK_MOST];
	unsigned int known = 0, process, program;
	struct session *session;

	for (unsigned int i = 0; i < count; i++) {
		session = session_of(daemon, contexts[i]);
		if (session)
			owners[known++] = session->owner;
	}
	for (unsigned int i = 0; i < daemon->num_devices; i++)
		DL_FOREACH (daemon->devices[i].sessions, session) {
			if (!session->context)
				continue;
			count_stuck(session, owners, known, &process, &program);
			simhca_context_suspend(session->context, process || program >= STUCK);
		}
}
