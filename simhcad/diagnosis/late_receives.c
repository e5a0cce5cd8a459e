/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <stdlib.h>

#include "failures/failures.h"
#include "late_receives.h"
#include "session/daemon.h"
#include "session/session.h"

#define LOOK_S 0.005
#define WATCH_S 2.0
#define MOST 64 /* queues that are looked at */

struct late_receives {
	struct daemon *daemon;
	ev_async found_empty;
	ev_timer timer;
};

static void on_timer(struct ev_loop *loop, ev_timer *timer, int events)
{
	const struct daemon *daemon = timer->data;
	struct failures_empty empty[MOST];
	unsigned int count = failures_empty(daemon->failures, WATCH_S, empty, MOST);
	bool can_be_seen = false;

	for (unsigned int i = 0; i < count; i++) {
		const struct session *session = session_of(daemon, empty[i].context);
		uint32_t posted;

		/* What is posted to queues of an EFA device shows nowhere. */
		if (!session ||
		    !simhca_context_posted(session->context, empty[i].qpn, empty[i].srqn, &posted))
			continue;
		can_be_seen = true;
		if (posted != empty[i].posted)
			failures_found_receive(daemon->failures, empty[i].id);
	}
	if (!can_be_seen)
		ev_timer_stop(loop, timer);
}

static void on_found_empty(struct ev_loop *loop, ev_async *async, int events)
{
	struct late_receives *late = async->data;

	if (!ev_is_active(&late->timer))
		ev_timer_again(loop, &late->timer);
}

struct late_receives *late_receives_open(struct daemon *daemon)
{
	struct late_receives *late = calloc(1, sizeof(*late));

	if (!late)
		return NULL;
	late->daemon = daemon;
	ev_timer_init(&late->timer, on_timer, LOOK_S, LOOK_S);
	late->timer.data = daemon;
	ev_async_init(&late->found_empty, on_found_empty);
	late->found_empty.data = late;
	ev_async_start(daemon->loop, &late->found_empty);
	return late;
}

void late_receives_close(struct late_receives *late)
{
	if (!late)
		return;
	ev_async_stop(late->daemon->loop, &late->found_empty);
	ev_timer_stop(late->daemon->loop, &late->timer);
	free(late);
}

void late_receives_expect(struct late_receives *late)
{
	ev_async_send(late->daemon->loop, &late->found_empty);
}
