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
#define LOOKS 2	      /* at one that does not move, until it is told of */
#define MOST_CQS 256  /* of a context, that are looked at */
#define MOST_WRITES 8 /* of a context, after which its QPs are not looked at */

static const char PLAIN_WRITE[] = "plain_write"; /* how one waits, as advice.c knows it */

/* What a session has at one look. */
struct look {
	struct session *session;
	long long cpu; /* of its process, in clock ticks; of one without channels 0 */
	struct simhca_last_write writes[MOST_WRITES];
	uint32_t num_writes;
};

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

/* How who waits at the channel of this CQ sleeps, as advice.c knows it; NULL: it need not. */
static const char *how_it_sleeps(struct session *session, const struct simhca_cq_info *cq)
{
	if (!session->pid || !cq->waiting || !cq->was_armed ||
	    !event_has_channel(&session->events, cq->channel))
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

static bool sleeps_at_channel(struct session *session, const struct simhca_cq_info *cq)
{
	return session->pid && cq->arm != SIMHCA_ARM_NONE &&
	       event_has_channel(&session->events, cq->channel) &&
	       event_all_read(&session->events, cq->channel);
}

/* The last message to one of the CQ's QPs, if it was a plain RDMA WRITE. */
static const struct simhca_last_write *last_write(const struct look *look,
						  const struct simhca_cq_info *cq)
{
	for (uint32_t i = 0; !cq->waiting && i < look->num_writes; i++)
		if (look->writes[i].recv_cq == cq->number)
			return &look->writes[i];
	return NULL;
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

static void tell(const struct session *session, const char *how, struct sleeper *sleeper)
{
	failures_add_sleep(session->device->daemon->failures, simhca_context_id(session->context),
			   how, sleeper->text);
	sleeper->told = true;
}

static void tell_of_completions(const struct session *session, const struct simhca_cq_info *cq,
				struct sleeper *sleeper)
{
	snprintf(sleeper->text, sizeof(sleeper->text), "CQ %u holds %u completion%s%s", cq->number,
		 cq->waiting, cq->waiting == 1 ? "" : "s", says(sleeper->how));
	tell(session, sleeper->how, sleeper);
}

static void tell_of_write(const struct session *session, const struct simhca_cq_info *cq,
			  const struct simhca_last_write *write, bool polls,
			  struct sleeper *sleeper)
{
	snprintf(sleeper->text, sizeof(sleeper->text),
		 "the program %s CQ %u, which is empty: the last message to its QP 0x%06x was "
		 "RDMA_WRITE of %llu byte%s, wr_id 0x%llx of QP 0x%06x, and has taken none of its "
		 "%u receive%s",
		 polls ? "polls" : "waits at the channel of", cq->number, write->qpn,
		 (unsigned long long)write->length, write->length == 1 ? "" : "s",
		 (unsigned long long)write->wr_id, write->peer_qpn, write->receives,
		 write->receives == 1 ? "" : "s");
	tell(session, sleeper->how, sleeper);
}

/* The program went on: what was said of it is true no more. */
static void forget(const struct session *session, struct sleeper *sleeper)
{
	if (sleeper->told)
		failures_woke_up(session->device->daemon->failures,
				 simhca_context_id(session->context), sleeper->text);
	*sleeper = (struct sleeper){ 0 };
}

/*
 * A program that is told to end, and cleans up, had slept all the same. But who is written to need
 * not have waited for that.
 */
static void forget_destroyed(const struct session *session, struct sleeper *sleeper)
{
	if (sleeper->how != PLAIN_WRITE)
		sleeper->told = false;
	forget(session, sleeper);
}

/* It is seen so again, and its program has done nothing that would change it. */
static bool is_as_before(const struct sleeper *sleeper, const struct simhca_cq_info *cq,
			 const char *how)
{
	return sleeper->cqn && sleeper->how == how && sleeper->polled == cq->polled &&
	       sleeper->waiting == cq->waiting;
}

static void look_at_completions(const struct look *look, const struct simhca_cq_info *cq,
				const char *how, struct sleeper *sleeper)
{
	if (how && is_as_before(sleeper, cq, how) && sleeper->cpu == look->cpu) {
		sleeper->seen = true;
		if (sleeper->looks++ == LOOKS - 1)
			tell_of_completions(look->session, cq, sleeper);
		return;
	}
	forget(look->session, sleeper);
	if (how)
		*sleeper = (struct sleeper){ .cqn = cq->number,
					     .how = how,
					     .polled = cq->polled,
					     .waiting = cq->waiting,
					     .cpu = look->cpu,
					     .seen = true };
}

/* The CQ is empty, and the message might be what its program waits for. */
static void look_at_write(const struct look *look, const struct simhca_cq_info *cq,
			  const struct simhca_last_write *write, struct sleeper *sleeper)
{
	bool polls, sleeps;

	if (!is_as_before(sleeper, cq, PLAIN_WRITE) || sleeper->handled != write->handled) {
		forget(look->session, sleeper);
		*sleeper = (struct sleeper){ .cqn = cq->number,
					     .how = PLAIN_WRITE,
					     .polled = cq->polled,
					     .handled = write->handled,
					     .empty_polls = cq->empty_polls,
					     .cpu = look->cpu,
					     .seen = true };
		return;
	}
	sleeper->seen = true;
	if (sleeper->told || ++sleeper->looks < LOOKS)
		return;
	polls = sleeper->empty_polls != cq->empty_polls;
	sleeps = sleeps_at_channel(look->session, cq) && sleeper->cpu == look->cpu;
	if (polls || sleeps)
		tell_of_write(look->session, cq, write, polls, sleeper);
	sleeper->cpu = look->cpu;
}

static void look_at_cq(const struct look *look, const struct simhca_cq_info *cq)
{
	struct sleeper *sleeper = find(look->session, cq->number);
	const struct simhca_last_write *write = last_write(look, cq);

	if (!sleeper)
		return;
	if (write)
		look_at_write(look, cq, write, sleeper);
	else
		look_at_completions(look, cq, how_it_sleeps(look->session, cq), sleeper);
}

static void look_at_cqs(const struct look *look)
{
	for (uint32_t handle = 0, n = 0; n < MOST_CQS; handle++, n++) {
		struct simhca_cq_info cq;

		if (!simhca_next_cq(look->session->context, &handle, &cq))
			return;
		look_at_cq(look, &cq);
	}
}

static void look_at_session(struct session *session)
{
	struct look look = { .session = session };

	if (!session->context || session->closing)
		return;
	if (session->pid && session->events.channels) {
		look.cpu = process_cpu(session->pid);
		if (look.cpu < 0)
			return;
	}
	look.num_writes = simhca_last_writes(session->context, look.writes, MOST_WRITES);
	for (int i = 0; i < SLEEPERS_OF_SESSION; i++)
		session->sleepers[i].seen = false;
	look_at_cqs(&look);
	/* Those that were destroyed make room. */
	for (int i = 0; i < SLEEPERS_OF_SESSION; i++)
		if (!session->sleepers[i].seen)
			forget_destroyed(session, &session->sleepers[i]);
}

static void look_again(const struct session *session, struct sleeper *sleeper)
{
	struct simhca_cq_info cq;

	for (uint32_t handle = 0, n = 0; n < MOST_CQS; handle++, n++) {
		if (!simhca_next_cq(session->context, &handle, &cq))
			break;
		if (cq.number != sleeper->cqn)
			continue;
		if (cq.polled != sleeper->polled)
			forget(session, sleeper);
		return;
	}
	forget_destroyed(session, sleeper);
}

void sleepers_session_ends(struct session *session)
{
	for (int i = 0; i < SLEEPERS_OF_SESSION; i++)
		if (session->sleepers[i].told)
			look_again(session, &session->sleepers[i]);
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
