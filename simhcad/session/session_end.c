/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* How a session ends: part by part, so that others are served beside. */
#include <stdlib.h>
#include <utlist.h>

#include "base/log.h"
#include "base/monotonic.h"
#include "daemon.h"
#include "failures/failures.h"
#include "loop/datagram.h"
#include "session.h"

#define FINAL_SECONDS 2.0 /* when the daemon ends */

/* What has become of a part of a session's end. */
enum part { PART_DONE, PART_GOES_ON, PART_WAITS };

/* The client is gone: nothing more is taken from it, and nothing of it is answered. */
static void stop_serving(struct session *session)
{
	struct daemon *daemon = session->device->daemon;

	session->end = SESSION_PROCESSES;
	doze_over(&daemon->doze);
	ev_io_stop(daemon->loop, &session->io);
	ev_timer_stop(daemon->loop, &session->pause);
	turns_leave(&daemon->turns, &session->turn);
	/* Its peers shall see it fall silent, however many end with it. */
	if (session->context)
		simhca_context_retire(session->context);
}

static enum part end_process(struct session *session)
{
	if (!session->processes)
		return PART_DONE;
	simhca_mm_gone(session->processes->mm);
	process_release(session->processes);
	return PART_GOES_ON;
}

static enum part end_command(struct session *session)
{
	if (session_drop_command(session))
		return PART_GOES_ON;
	datagram_close(session->fd, session->device->daemon->releaser, &session->owner);
	answers_forget(&session->answers);
	return PART_DONE;
}

/* What there is to say of it, while it still has what that is about. */
static enum part end_look(struct session *session)
{
	struct daemon *daemon = session->device->daemon;

	if (daemon->hooks.session_ends(session))
		return PART_GOES_ON;
	if (!session->context)
		return PART_DONE;
	failures_forget(daemon->failures, simhca_context_id(session->context));
	log_debug("%s: context %u, process %d (%s): closed", session->device->options->name,
		  simhca_context_id(session->context), (int)session->pid, session->comm);
	return PART_DONE;
}

static enum part end_context(struct session *session, double until, bool final)
{
	struct daemon *daemon = session->device->daemon;
	double left = until - monotonic_s();
	enum simhca_destroyed gone;

	if (!session->context)
		return PART_DONE;
	simhca_fabric_brief_waits(daemon->fabric, !final);
	gone = simhca_context_destroy(session->context, left > 0 ? (uint64_t)(left * 1e9) + 1 : 1);
	simhca_fabric_brief_waits(daemon->fabric, false);
	if (gone != SIMHCA_DESTROYED)
		return gone == SIMHCA_DESTROYED_PARTLY ? PART_GOES_ON : PART_WAITS;
	HASH_DELETE(hh, daemon->contexts, session);
	session->context = NULL;
	return PART_DONE;
}

static enum part end_engine(struct session *session, bool final)
{
	if (!session->own_engine)
		return PART_DONE;
	if (!final && !engine_end(session->own_engine))
		return PART_WAITS;
	engine_stop(session->own_engine);
	session->own_engine = NULL;
	return PART_DONE;
}

/* A part of its end, of some ten microseconds, but where until is said. */
static enum part end_part(struct session *session, double until, bool final)
{
	switch (session->end) {
	case SESSION_SERVED:
		break;
	case SESSION_PROCESSES:
		return end_process(session);
	case SESSION_COMMANDS:
		return end_command(session);
	case SESSION_LOOK:
		return end_look(session);
	case SESSION_CONTEXT:
		return end_context(session, until, final);
	case SESSION_ENGINE:
		return end_engine(session, final);
	case SESSION_EVENTS:
		return event_set_end(&session->events) ? PART_GOES_ON : PART_DONE;
	case SESSION_ENDED:
		break;
	}
	return PART_DONE;
}

static void leave_device(struct session *session)
{
	struct device *device = session->device;

	DL_DELETE(device->sessions, session);
	tally_sub(&device->of_process, session->owner.process);
	tally_sub(&device->of_program, session->owner.program);
}

/* Until that time. PART_DONE: it has ended, and is freed. */
static enum part end(struct session *session, double until, bool final)
{
	enum part part;

	do {
		part = end_part(session, until, final);
		if (part == PART_DONE)
			session->end++;
	} while (session->end < SESSION_ENDED && (part != PART_WAITS || final) &&
		 monotonic_s() < until);
	if (session->end < SESSION_ENDED)
		return part == PART_WAITS ? PART_WAITS : PART_GOES_ON;
	leave_device(session);
	free(session);
	return PART_DONE;
}

static bool end_further(struct retry *retry, double until)
{
	switch (end((struct session *)retry, until, false)) {
	case PART_DONE:
		return true;
	case PART_GOES_ON:
		retry_soon(retry);
		break;
	case PART_WAITS:
		break;
	}
	return false;
}

void session_close(struct session *session)
{
	stop_serving(session);
	retry_add_now(&session->device->daemon->endings, &session->retry, end_further);
}

void session_close_now(struct session *session)
{
	struct daemon *daemon = session->device->daemon;

	if (session_is_closing(session))
		retry_remove(&daemon->endings, &session->retry);
	else
		stop_serving(session);
	if (end(session, monotonic_s() + FINAL_SECONDS, true) == PART_DONE)
		return;
	log_error("a context is in use after %.0f s: the end of the process frees it",
		  FINAL_SECONDS);
	leave_device(session);
	if (session->context)
		HASH_DELETE(hh, daemon->contexts, session);
	daemon->engines.abandoned = true;
}
