/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Destroying what has events: a CQ, an SRQ, a QP, a work queue. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "destroy.h"
#include "session/session.h"

/* Taking back the events of an object that has gone, where the client has not read them all. */
struct take_back {
	struct command_chore chore; /* first */
	struct event_purge purge[2];
	bool reading[2];
	int fds[2]; /* of the client's ends */
	struct simhca_destroy_reply result;
};
enum { COMPLETIONS, ASYNC };

static void read_back(struct chore *chore)
{
	struct take_back *back = (struct take_back *)chore;

	for (int i = COMPLETIONS; i <= ASYNC; i++) {
		if (back->reading[i])
			event_purge_read(&back->purge[i]);
		if (back->fds[i] >= 0)
			close(back->fds[i]);
	}
}

static void finish_taking_back(struct command_chore *chore)
{
	struct take_back *back = (struct take_back *)chore;

	back->result.comp_events = event_purge_finish(&back->purge[COMPLETIONS]);
	back->result.async_events = event_purge_finish(&back->purge[ASYNC]);
}

/* 0: back->result is there. -EINPROGRESS: back is request->chore. */
static int take_back(struct session *session, struct request *request, struct take_back *back,
		     const struct simhca_identity *identity)
{
	const struct simhca_user_handle *user = &identity->user_handle;
	uint64_t channel = identity->channel;
	unsigned int fds = 0;

	for (int i = COMPLETIONS; i <= ASYNC; i++) {
		bool known = i == ASYNC || channel;

		back->fds[i] = known && fds < request->num_fds ? request->fds[fds++] : -1;
		back->reading[i] =
			event_purge_start(&back->purge[i], &session->events, i == COMPLETIONS,
					  i == COMPLETIONS ? channel : user->events, user->element,
					  i == COMPLETIONS ? identity->events_raised : 0,
					  back->fds[i]);
	}
	if (!back->reading[COMPLETIONS] && !back->reading[ASYNC]) {
		finish_taking_back(&back->chore);
		return 0;
	}
	for (unsigned int i = 0; i < fds; i++)
		request->fds[i] = -1;
	back->chore.chore.work = read_back;
	back->chore.finish = finish_taking_back;
	request->chore = &back->chore;
	return -EINPROGRESS;
}

int destroy_with_events(struct session *session, struct request *request, struct reply *reply,
			identify_function *identify, destroy_function *destroy_object,
			lint_look *look, struct simhca_why *why)
{
	const struct simhca_handle *object = request->body;
	struct simhca_destroy_reply *out = reply->body;
	struct simhca_identity identity;
	struct take_back *back = (struct take_back *)request->chore;
	struct lint_notes notes = { 0 };
	int ret;

	if (back) { /* it was destroyed before, and its events have come back */
		*out = back->result;
		return 0;
	}
	ret = identify(session->context, object->handle, &identity, why);
	if (ret)
		return ret;
	if (!session_may_start_chore(session) ||
	    event_is_purging(&session->events, identity.channel, identity.user_handle.events))
		return -EAGAIN;
	back = calloc(1, sizeof(*back));
	if (!back)
		return simhca_why(why, ENOMEM, "out of memory");
	if (look)
		look(session, object->handle, &notes);
	ret = destroy_object(session->context, object->handle, why);
	if (!ret)
		lint_add(session, &notes);
	back->result.renew = identity.renew;
	if (!ret)
		ret = take_back(session, request, back, &identity);
	if (ret == -EINPROGRESS)
		return ret;
	*out = back->result;
	free(back);
	return ret;
}
