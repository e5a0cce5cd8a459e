/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/monotonic.h"
#include "base/process.h"
#include "failures/failures.h"
#include "names.h"
#include "session/daemon.h"
#include "session/session.h"
#include "sleepers.h"

#define LOOK_S 1.0   /* from the end of one round to the next */
#define TURN_S 0.002 /* of the main thread, at a time */
#define TURNS_APART_S 0.01
#define LOOKS 2		      /* at one that does not move, until it is told of */
#define MOST_CQS 256	      /* of a context, that are looked at */
#define MOST_IN_VAIN 8	      /* QPs of a context, after which no further ones are looked at */
#define SLEEPERS_OF_SESSION 4 /* CQs that are kept an eye on at a time */

/* A CQ at which its program sleeps. */
struct sleeper {
	uint32_t cqn;	 /* 0: none */
	const char *how; /* it sleeps; a constant */
	uint32_t polled, waiting, empty_polls;
	uint32_t polls_elsewhere; /* of the context's other CQs, so far */
	uint32_t handled;	  /* by the QP to which no message need come */
	uint64_t did;		  /* as struct look has it */
	unsigned int looks;	  /* since it last moved */
	bool seen;		  /* at this look */
	bool reported;
	char text[320]; /* if it was */
};

struct sleepers {
	struct daemon *daemon;
	ev_timer timer;
	struct doze_looker looker;
	/* Where the round goes on: a device, and the number of its next session. */
	unsigned int device;
	uint32_t next;
	uint64_t found; /* in this round, so far: a hash */
};

/* How one waits at a CQ that is empty, as advice.c knows it. */
static const char *const in_vain_how[] = {
	[SIMHCA_PLAIN_WRITE] = "plain_write",
	[SIMHCA_PEER_ORPHANED] = "peer_gone",
	[SIMHCA_NO_RECEIVE] = "no_receive",
	[SIMHCA_NOT_SIGNALED] = "not_signaled",
	[SIMHCA_IN_SQD] = "in_sqd",
	[SIMHCA_NO_PEER] = "no_peer",
	[SIMHCA_SENDS_DROPPED] = "sends_dropped",
	[SIMHCA_QP_DESTROYED] = "qp_destroyed",
	[SIMHCA_NOTHING_POSTED] = "nothing_posted",
	[SIMHCA_PEER_IN_ERROR] = "peer_in_error",
};
static const char wrong_cq[] = "wrong_cq", never_armed[] = "never_armed",
		  no_channel[] = "no_channel";

/* What a session has at one look. */
struct look {
	struct session *session;
	/*
	 * A hash that changes when the program does anything: of its time on a CPU, if it has channels, and of its
	 * polls, since a program that sleeps between two polls hardly takes any time.
	 */
	uint64_t did;
	struct simhca_in_vain in_vain[MOST_IN_VAIN];
	uint32_t num_in_vain;
	uint64_t found; /* a hash of what changes while the program does anything */
	/* Of all of its CQs: */
	bool armed;	    /* one of them is */
	uint32_t unseen_cq; /* with a receive's completion, and nobody waits for events of it */
};

static uint64_t hash(uint64_t before, uint64_t number)
{
	return (before ^ number) * UINT64_C(0x9e3779b97f4a7c15) + (before >> 29);
}

static unsigned int num_sleepers(const struct session *session)
{
	return session->sleepers ? SLEEPERS_OF_SESSION : 0;
}

/* NULL: it is not kept an eye on, and there is no room for one more. */
static struct sleeper *find(struct session *session, uint32_t cqn)
{
	struct sleeper *room = NULL;

	if (!session->sleepers)
		session->sleepers = calloc(SLEEPERS_OF_SESSION, sizeof(*session->sleepers));
	for (unsigned int i = 0; i < num_sleepers(session); i++) {
		if (session->sleepers[i].cqn == cqn)
			return &session->sleepers[i];
		if (!session->sleepers[i].cqn)
			room = &session->sleepers[i];
	}
	return room;
}

/* In place of one that need not wait for anything. */
static struct sleeper *make_room(struct session *session)
{
	for (unsigned int i = 0; i < num_sleepers(session); i++) {
		struct sleeper *sleeper = &session->sleepers[i];

		if (sleeper->how == in_vain_how[SIMHCA_NOTHING_POSTED] && !sleeper->reported) {
			*sleeper = (struct sleeper){ 0 };
			return sleeper;
		}
	}
	return NULL;
}

/* How who waits at the channel of this CQ sleeps, as advice.c knows it; NULL: it need not. */
static const char *how_it_sleeps(const struct look *look, const struct simhca_cq_info *cq)
{
	struct session *session = look->session;

	if (!session->pid || !cq->waiting)
		return NULL;
	if (!cq->channel)
		return cq->was_armed && session->events.channels ? no_channel : NULL;
	if (!event_has_channel(&session->events, cq->channel))
		return NULL;
	/* Who polls it, or waits for events of others, need not arm it. */
	if (!cq->was_armed)
		return cq->polled || cq->empty_polls || look->armed ? NULL : never_armed;
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

/* One of the CQ's QPs that need not complete anything. */
static const struct simhca_in_vain *find_in_vain(const struct look *look,
						 const struct simhca_cq_info *cq)
{
	for (uint32_t i = 0; !cq->waiting && i < look->num_in_vain; i++)
		if (look->in_vain[i].cq == cq->number)
			return &look->in_vain[i];
	return NULL;
}

static const char *says(const char *how)
{
	if (!strcmp(how, "not_armed"))
		return ", is not armed, and its channel has no event: who waits there waits for "
		       "ever";
	if (!strcmp(how, "never_armed"))
		return ", and was neither polled nor armed so far: who waits at its channel waits "
		       "for ever";
	if (how == no_channel)
		return " and was armed, but it was created without a channel: no channel has an "
		       "event of it";
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
	sleeper->reported = true;
}

static void tell_of_completions(const struct session *session, const struct simhca_cq_info *cq,
				struct sleeper *sleeper)
{
	snprintf(sleeper->text, sizeof(sleeper->text), "CQ %u holds %u completion%s%s", cq->number,
		 cq->waiting, cq->waiting == 1 ? "" : "s", says(sleeper->how));
	tell(session, sleeper->how, sleeper);
}

/* "the program polls CQ 1, which is empty: " */
static int begin_in_vain(const struct simhca_cq_info *cq, bool polls, struct sleeper *sleeper)
{
	return snprintf(sleeper->text, sizeof(sleeper->text),
			"the program %s CQ %u, which is empty: ",
			polls ? "polls" : "waits at the channel of", cq->number);
}

/* Of a message: one that waits, or the last that was carried. False: why it is in vain is no message's. */
static bool says_of_message(const struct simhca_in_vain *in_vain, char *text, size_t room)
{
	char send[80], queue[32] = "";

	snprintf(send, sizeof(send), "%s of %llu byte%s, wr_id 0x%llx",
		 name_of_opcode(in_vain->opcode), (unsigned long long)in_vain->length,
		 in_vain->length == 1 ? "" : "s", (unsigned long long)in_vain->wr_id);
	switch (in_vain->why) {
	case SIMHCA_PLAIN_WRITE:
		snprintf(
			text, room,
			"the last message to its QP 0x%06x was %s of QP 0x%06x, and has taken none "
			"of its %u receive%s",
			in_vain->qpn, send, in_vain->peer_qpn, in_vain->receives,
			in_vain->receives == 1 ? "" : "s");
		return true;
	case SIMHCA_NOT_SIGNALED:
		snprintf(text, room,
			 "all sends of its QP 0x%06x are done, and the last one, %s, was not "
			 "signaled",
			 in_vain->qpn, send);
		return true;
	case SIMHCA_IN_SQD:
		snprintf(text, room, "%s, of QP 0x%06x is not begun, as the QP is in SQD", send,
			 in_vain->qpn);
		return true;
	case SIMHCA_NO_RECEIVE:
		if (in_vain->peer_srqn)
			snprintf(queue, sizeof(queue), "SRQ %u, by ", in_vain->peer_srqn);
		snprintf(text, room,
			 "%s, of QP 0x%06x finds no receive, and rnr_retry is 7: its peer is "
			 "%s[%d], %sQP 0x%06x%s",
			 send, in_vain->qpn, in_vain->peer_name, (int)in_vain->peer_pid, queue,
			 in_vain->peer_qpn,
			 in_vain->limit_spent ? ", whose SRQ's limit was not set again"
			 : in_vain->dropped   ? ", whose receives were dropped as it went to RESET"
					      : "");
		return true;
	default:
		return false;
	}
}

/* Of a QP: it has no peer, or nothing is posted, or no more. */
static void says_of_qp(const struct simhca_in_vain *in_vain, char *text, size_t room)
{
	const char *s = in_vain->dropped == 1 ? "" : "s";
	char dropped[72] = "";

	switch (in_vain->why) {
	case SIMHCA_PEER_ORPHANED:
		snprintf(text, room,
			 "the process of the peer of its QP 0x%06x, %s[%d], has ended, and another "
			 "one, such as a child that it forked, keeps the peer's QP",
			 in_vain->qpn, in_vain->peer_name, (int)in_vain->peer_pid);
		break;
	case SIMHCA_NO_PEER:
	case SIMHCA_PEER_IN_ERROR:
		snprintf(text, room, "QP 0x%06x, whose %u receive%s, is connected to QP 0x%06x, %s",
			 in_vain->qpn, in_vain->receives,
			 in_vain->receives == 1 ? " waits" : "s wait", in_vain->peer_qpn,
			 in_vain->why == SIMHCA_NO_PEER
				 ? "which does not exist or has gone"
				 : "which is in ERR: it has failed, or was disconnected");
		break;
	case SIMHCA_NOTHING_POSTED:
		if (in_vain->dropped)
			snprintf(dropped, sizeof(dropped),
				 "; %u receive%s dropped when the QP went to RESET",
				 in_vain->dropped, in_vain->dropped == 1 ? " was" : "s were");
		snprintf(text, room,
			 "nothing is posted that completes there: QP 0x%06x has no send and no "
			 "receive%s",
			 in_vain->qpn, dropped);
		break;
	case SIMHCA_SENDS_DROPPED:
		snprintf(text, room,
			 "%u send%s of its QP 0x%06x %s dropped when that went to RESET, and "
			 "give%s no completion",
			 in_vain->dropped, s, in_vain->qpn, in_vain->dropped == 1 ? "was" : "were",
			 in_vain->dropped == 1 ? "s" : "");
		break;
	case SIMHCA_QP_DESTROYED:
		snprintf(text, room,
			 "%u send%s of QP 0x%06x had no completion polled when that was destroyed, "
			 "and give%s none any more",
			 in_vain->dropped, s, in_vain->qpn, in_vain->dropped == 1 ? "s" : "");
		break;
	case SIMHCA_PLAIN_WRITE: /* says_of_message() has these */
	case SIMHCA_NOT_SIGNALED:
	case SIMHCA_IN_SQD:
	case SIMHCA_NO_RECEIVE:
		break;
	}
}

static void tell_in_vain(const struct look *look, const struct simhca_cq_info *cq,
			 const struct simhca_in_vain *in_vain, bool polls, struct sleeper *sleeper)
{
	int used = in_vain->why == SIMHCA_NO_RECEIVE ? 0 : begin_in_vain(cq, polls, sleeper);
	char *text = sleeper->text + used;
	size_t room = sizeof(sleeper->text) - (size_t)used;

	if (!says_of_message(in_vain, text, room))
		says_of_qp(in_vain, text, room);
	tell(look->session, sleeper->how, sleeper);
}

static void tell_of_another(const struct look *look, const struct simhca_cq_info *cq,
			    struct sleeper *sleeper)
{
	int used = begin_in_vain(cq, true, sleeper);

	snprintf(sleeper->text + used, sizeof(sleeper->text) - (size_t)used,
		 "a receive has completed in CQ %u, which it does not poll", look->unseen_cq);
	tell(look->session, sleeper->how, sleeper);
}

/* The program went on: what was said of it is true no more. */
static void forget(const struct session *session, struct sleeper *sleeper)
{
	if (sleeper->reported)
		failures_woke_up(session->device->daemon->failures,
				 simhca_context_id(session->context), sleeper->text);
	*sleeper = (struct sleeper){ 0 };
}

/* Who is written to, has sends that nobody waits for, or leaves completions for later. */
static bool may_be_right(const char *how)
{
	return how == in_vain_how[SIMHCA_PLAIN_WRITE] || how == in_vain_how[SIMHCA_NOT_SIGNALED] ||
	       how == in_vain_how[SIMHCA_NO_PEER] || how == in_vain_how[SIMHCA_PEER_IN_ERROR] ||
	       how == in_vain_how[SIMHCA_SENDS_DROPPED] ||
	       how == in_vain_how[SIMHCA_QP_DESTROYED] ||
	       how == in_vain_how[SIMHCA_NOTHING_POSTED] || how == wrong_cq || how == never_armed ||
	       how == no_channel;
}

/*
 * A program that is told to end, and cleans up, had slept all the same, but for those who
 * need not have waited for that.
 */
static void forget_destroyed(const struct session *session, struct sleeper *sleeper)
{
	if (!may_be_right(sleeper->how))
		sleeper->reported = false;
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
	if (how && is_as_before(sleeper, cq, how) && sleeper->did == look->did) {
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
					     .did = look->did,
					     .seen = true };
}

static uint32_t polls_of(const struct simhca_cq_info *cq)
{
	return cq->polled + cq->empty_polls;
}

/* How often the program has polled its other CQs; it may poll this one at this moment. */
static uint32_t polls_elsewhere(const struct look *look, uint32_t cqn)
{
	uint32_t polls = 0;

	for (uint32_t handle = 0, n = 0; n < MOST_CQS; handle++, n++) {
		struct simhca_cq_info cq;

		if (!simhca_next_cq(look->session->context, &handle, &cq))
			break;
		if (cq.number != cqn)
			polls += polls_of(&cq);
	}
	return polls;
}

/* The CQ is empty: who waits there is told of by how, if it does nothing else. */
static void look_at_empty(const struct look *look, const struct simhca_cq_info *cq,
			  const struct simhca_in_vain *in_vain, struct sleeper *sleeper)
{
	const char *how = in_vain ? in_vain_how[in_vain->why] : wrong_cq;
	uint32_t handled = in_vain ? in_vain->handled : look->unseen_cq;
	/* Of these, it must poll this one alone. */
	bool alone = !in_vain || in_vain->why == SIMHCA_NOT_SIGNALED ||
		     in_vain->why == SIMHCA_SENDS_DROPPED || in_vain->why == SIMHCA_NOTHING_POSTED;
	uint32_t elsewhere = alone ? polls_elsewhere(look, cq->number) : 0;
	bool polls, sleeps;

	if (!is_as_before(sleeper, cq, how) || sleeper->handled != handled ||
	    sleeper->polls_elsewhere != elsewhere) {
		forget(look->session, sleeper);
		*sleeper = (struct sleeper){ .cqn = cq->number,
					     .how = how,
					     .polled = cq->polled,
					     .handled = handled,
					     .empty_polls = cq->empty_polls,
					     .polls_elsewhere = elsewhere,
					     .did = look->did,
					     .seen = true };
		return;
	}
	sleeper->seen = true;
	if (sleeper->reported || ++sleeper->looks < LOOKS)
		return;
	polls = sleeper->empty_polls != cq->empty_polls;
	/* Who has nothing posted, and sleeps, may sleep for something else. */
	sleeps = in_vain && in_vain->why != SIMHCA_NOTHING_POSTED &&
		 sleeps_at_channel(look->session, cq) && sleeper->did == look->did;
	if (!in_vain && polls)
		tell_of_another(look, cq, sleeper);
	else if (in_vain && (polls || sleeps || in_vain->why == SIMHCA_NO_RECEIVE))
		tell_in_vain(look, cq, in_vain, polls, sleeper);
	sleeper->did = look->did;
}

static void look_at_cq(const struct look *look, const struct simhca_cq_info *cq)
{
	struct sleeper *sleeper = find(look->session, cq->number);
	const struct simhca_in_vain *in_vain = find_in_vain(look, cq);
	const bool another = !cq->waiting && look->unseen_cq;

	/* It is not polled, or what has completed in another CQ says more. */
	if (in_vain && in_vain->why == SIMHCA_NOTHING_POSTED && (!cq->empty_polls || another))
		in_vain = NULL;
	else if (!sleeper && (!in_vain || in_vain->why != SIMHCA_NOTHING_POSTED))
		sleeper = make_room(look->session);
	if (!sleeper)
		return;
	if (in_vain || another)
		look_at_empty(look, cq, in_vain, sleeper);
	else
		look_at_completions(look, cq, how_it_sleeps(look, cq), sleeper);
}

/* What all of the context's CQs say, before each is looked at by itself. */
static void sum_up(struct look *look)
{
	for (uint32_t handle = 0, n = 0; n < MOST_CQS; handle++, n++) {
		struct simhca_cq_info cq;

		if (!simhca_next_cq(look->session->context, &handle, &cq))
			return;
		look->found = hash(look->found, (uint64_t)cq.polled << 32 | cq.waiting);
		look->found = hash(look->found, (uint64_t)cq.empty_polls << 32 | cq.arm);
		look->did = hash(look->did, polls_of(&cq));
		look->armed |= cq.arm != SIMHCA_ARM_NONE;
		if (cq.holds_receive && (!cq.channel || !cq.was_armed))
			look->unseen_cq = cq.number;
	}
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

/* Returns what it has found, in one number. */
static uint64_t look_at_session(struct session *session)
{
	struct look look = { .session = session, .found = session->number };
	long long cpu;

	if (!session->context || session_is_closing(session))
		return 0;
	if (session->pid && session->events.channels) {
		cpu = process_cpu(session->pid);
		if (cpu < 0)
			return 0;
		look.found = hash(look.found, (uint64_t)cpu);
		look.did = hash(look.did, (uint64_t)cpu);
	}
	look.num_in_vain = simhca_find_in_vain(session->context, look.in_vain, MOST_IN_VAIN);
	for (uint32_t i = 0; i < look.num_in_vain; i++)
		look.found = hash(look.found, look.in_vain[i].handled);
	for (unsigned int i = 0; i < num_sleepers(session); i++)
		session->sleepers[i].seen = false;
	sum_up(&look);
	if (session->events.channels || look.num_in_vain || look.unseen_cq)
		look_at_cqs(&look);
	/* Those that were destroyed make room. */
	for (unsigned int i = 0; i < num_sleepers(session); i++)
		if (!session->sleepers[i].seen)
			forget_destroyed(session, &session->sleepers[i]);
	return look.found;
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
	for (unsigned int i = 0; i < num_sleepers(session); i++)
		if (session->sleepers[i].reported)
			look_again(session, &session->sleepers[i]);
	free(session->sleepers);
	session->sleepers = NULL;
}

/* False: it has had its time, and further sessions are for the next turn. */
static bool look_at_device(struct sleepers *sleepers, const struct device *device, double until)
{
	struct session *session;

	DL_FOREACH (device->sessions, session) {
		if (session->number < sleepers->next)
			continue;
		sleepers->found = hash(sleepers->found, look_at_session(session));
		sleepers->next = session->number + 1;
		if (monotonic_s() >= until)
			return false;
	}
	sleepers->next = 0;
	return true;
}

static void on_timer(struct ev_loop *loop, ev_timer *timer, int events)
{
	struct sleepers *sleepers = timer->data;
	struct daemon *daemon = sleepers->daemon;
	uint64_t found;
	double until = monotonic_s() + TURN_S;

	timer->repeat = TURNS_APART_S;
	for (; sleepers->device < daemon->num_devices; sleepers->device++)
		if (!look_at_device(sleepers, &daemon->devices[sleepers->device], until))
			break;
	if (sleepers->device < daemon->num_devices) {
		ev_timer_again(loop, timer);
		return;
	}
	found = sleepers->found;
	sleepers->device = 0;
	sleepers->found = 0;
	timer->repeat = LOOK_S;
	ev_timer_again(loop, timer);
	doze_looked(&daemon->doze, found);
}

static void look(struct doze_looker *looker, bool look)
{
	struct sleepers *sleepers =
		(struct sleepers *)((char *)looker - offsetof(struct sleepers, looker));

	if (look)
		ev_timer_again(sleepers->daemon->loop, &sleepers->timer);
	else
		ev_timer_stop(sleepers->daemon->loop, &sleepers->timer);
}

struct sleepers *sleepers_open(struct daemon *daemon)
{
	struct sleepers *sleepers = calloc(1, sizeof(*sleepers));

	if (!sleepers)
		return NULL;
	sleepers->daemon = daemon;
	sleepers->looker.look = look;
	ev_timer_init(&sleepers->timer, on_timer, LOOK_S, LOOK_S);
	sleepers->timer.data = sleepers;
	ev_timer_start(daemon->loop, &sleepers->timer);
	doze_add(&daemon->doze, &sleepers->looker);
	return sleepers;
}

void sleepers_close(struct sleepers *sleepers)
{
	if (!sleepers)
		return;
	doze_remove(&sleepers->daemon->doze, &sleepers->looker);
	ev_timer_stop(sleepers->daemon->loop, &sleepers->timer);
	free(sleepers);
}
