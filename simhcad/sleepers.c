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

static bool is_suspicious(struct session *session, const struct simhca_cq_info *cq)
{
	return cq->channel && cq->waiting && cq->arm == SIMHCA_ARM_NONE && cq->was_armed &&
	       event_all_read(&session->events, cq->channel);
}

static void tell(const struct session *session, const struct simhca_cq_info *cq)
{
	char text[SIMHCA_CMD_MESSAGE];

	snprintf(text, sizeof(text),
		 "CQ %u holds %u completion%s, is not armed, and its channel has no event: who "
		 "waits "
		 "there waits for ever",
		 cq->number, cq->waiting, cq->waiting == 1 ? "" : "s");
	failures_add_sleep(session->device->daemon->failures, simhca_context_id(session->context),
			   text);
}

static void look_at_cq(struct session *session, const struct simhca_cq_info *cq, long long cpu)
{
	struct sleeper *sleeper = find(session, cq->number);

	if (!sleeper)
		return;
	sleeper->seen = true;
	if (!is_suspicious(session, cq)) {
		if (sleeper->cqn)
			*sleeper = (struct sleeper){ 0 };
		return;
	}
	if (sleeper->cqn && sleeper->polled == cq->polled && sleeper->waiting == cq->waiting &&
	    sleeper->cpu == cpu) {
		if (sleeper->looks++ == LOOKS - 1)
			tell(session, cq);
		return;
	}
	*sleeper = (struct sleeper){ .cqn = cq->number,
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
