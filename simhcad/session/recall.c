/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <sys/socket.h>
#include <utlist.h>

#include "daemon.h"
#include "recall.h"
#include "session.h"

#define LATER_S 0.002

static void on_recall(struct ev_loop *loop, ev_timer *timer, int events)
{
	const struct daemon *daemon = timer->data;
	struct session *session;

	for (unsigned int i = 0; i < daemon->num_devices; i++)
		DL_FOREACH (daemon->devices[i].sessions, session)
			if (session->maps && !session_is_closing(session))
				send(session->fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void recall_later(struct daemon *daemon)
{
	if (ev_is_active(&daemon->recall))
		return;
	ev_timer_init(&daemon->recall, on_recall, LATER_S, 0);
	daemon->recall.data = daemon;
	ev_timer_start(daemon->loop, &daemon->recall);
}
