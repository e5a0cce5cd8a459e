/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <stdio.h>
#include <string.h>
#include <utlist.h>

#include "daemon.h"
#include "failures.h"
#include "process.h"
#include "session.h"
#include "sleepers.h"

#define LOOK_S 1.0
#define LOOKS 2	     /* at one that does not move, until it is told of */
#define MOST_CQS 256 /* of a context, that are looked at */

static struct sleeper *find(struct session *session, uint32_t cqn)
{
	struct sleeper *room = NULL;

	for (int i = 0; i < SLEEPERS_OF_SESSION; i++) {
		if (session->sleepers[i].cqn == cqn)
			return &session->sleepers[i];
		if (!session->sleepers[i].cqn)
			room = &session->sleepers[i];
	}
	return room;
}

/* How who waits for this CQ sleeps, as advice.c knows it; NULL: it need not. */
static const char *how_it_sleeps(struct session *session, const struct simhca_cq_info *cq)
{
	if (!cq->waiting || !cq->was_armed || !event_has_channel(&session->events, cq->channel))
		return NULL;
	if (!event_all_read(&session->events, cq->channel))
		return cq->arm == SIMHCA_ARM_NONE ? "event_unread" : NULL;
	switch (cq->arm) {
	case SIMHCA_ARM_NONE:
		return "not_armed";
	case SIMHCA_ARM_SOLICITED:
		/* Completions of sends are often left for later. */
		return cq->holds_receive ? "not_solicited" : NULL;
	default:
		return "armed_late";
	}
}

static const char *says(const char *how)
{
	if (!strcmp(how, "not_armed"))
		return ", is not armed, and its channel has no event: who waits there waits for "
		       "ever";
	if (!strcmp(how, "not_solicited"))
		return " and is armed for solicited ones only: who waits at its channel waits "
		       "until a peer sends with IBV_SEND_SOLICITED";
	if (!strcmp(how, "armed_late"))
		return " and was armed only after that: who waits at its channel waits for a "
		       "further one";
	return " and an event waits unread in its channel, while the program sleeps elsewhere";
}

static void tell(const struct session *session, const struct simhca_cq_info *cq, const char *how,
		 struct sleeper *sleeper)
{
	snprintf(sleeper->text, sizeof(sleeper->text), "CQ %u holds %u completion%s%s", cq->number,
		 cq->waiting, cq->waiting == 1 ? "" : "s", says(how));
	failures_add_sleep(session->device->daemon->failures, simhca_context_id(session->context),
			   how, sleeper->text);
}

/* The program went on: what was said of it is true no more. */
static void forget(const struct session *session, struct sleeper *sleeper)
{
	if (sleeper->text[0])
		failures_woke_up(session->device->daemon->failures,
				 simhca_context_id(session->context), sleeper->text);
	*sleeper = (struct sleeper){ 0 };
}

static void look_at_cq(struct session *session, const struct simhca_cq_info *cq, long long cpu)
{
	struct sleeper *sleeper = find(session, cq->number);
	const char *how;

	if (!sleeper)
		return;
	how = how_it_sleeps(session, cq);
	if (how && sleeper->cqn && sleeper->how == how && sleeper->polled == cq->polled &&
	    sleeper->waiting == cq->waiting && sleeper->cpu == cpu) {
		sleeper->seen = true;
		if (sleeper->looks++ == LOOKS - 1)
			tell(session, cq, how, sleeper);
		return;
	}
	forget(session, sleeper);
	if (how)
		*sleeper = (struct sleeper){ .cqn = cq->number,
					     .how = how,
					     .polled = cq->polled,
					     .waiting = cq->waiting,
					     .cpu = cpu,
					     .seen = true };
}

static void look_at_cqs(struct session *session, long long cpu)
{
	for (uint32_t handle = 0, n = 0; n < MOST_CQS; handle++, n++) {
		struct simhca_cq_info cq;

		if (!simhca_next_cq(session->context, &handle, &cq))
			return;
		look_at_cq(session, &cq, cpu);
	}
}

static void look_at_session(struct session *session)
{
	long long cpu;

	if (!session->context || session->closing || !session->pid || !session->events.channels)
		return;
	cpu = process_cpu(session->pid);
	if (cpu < 0)
		return;
	for (int i = 0; i < SLEEPERS_OF_SESSION; i++)
		session->sleepers[i].seen = false;
	look_at_cqs(session, cpu);
	/* Those that were destroyed make room. */
	for (int i = 0; i < SLEEPERS_OF_SESSION; i++)
		if (!session->sleepers[i].seen)
			session->sleepers[i] = (struct sleeper){ 0 };
}

static void on_timer(struct ev_loop *loop, ev_timer *timer, int events)
{
	const struct daemon *daemon = timer->data;
	struct session *session;

	for (unsigned int i = 0; i < daemon->num_devices; i++)
		DL_FOREACH (daemon->devices[i].sessions, session)
			look_at_session(session);
}

void sleepers_init(struct sleepers *sleepers, struct daemon *daemon)
{
	sleepers->daemon = daemon;
	ev_timer_init(&sleepers->timer, on_timer, LOOK_S, LOOK_S);
	sleepers->timer.data = daemon;
	ev_timer_start(daemon->loop, &sleepers->timer);
}

void sleepers_end(struct sleepers *sleepers)
{
	ev_timer_stop(sleepers->daemon->loop, &sleepers->timer);
}
