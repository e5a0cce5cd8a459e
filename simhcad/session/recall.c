/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <fcntl.h>
#include <linux/sockios.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utlist.h>

#include "base/monotonic.h"
#include "daemon.h"
#include "recall.h"
#include "session.h"

#define LATER_S 0.002
#define AWAITED_S 0.1 /* at most, by one command */
#define LATE_S 0.01   /* more is too long for others to wait */
#define LEFT_OUT_S 10.0
#define LOOK_US 50

static bool has_unread(int fd)
{
	int unread;

	return !ioctl(fd, SIOCOUTQ, &unread) && unread;
}

static bool is_awaited(const struct session *session)
{
	return (!session->late_at || monotonic_s() - session->late_at > LEFT_OUT_S) &&
	       !has_unread(session->fd);
}

static void add_peer(struct recall *recall, const struct session *session)
{
	int fd = recall->count < RECALL_PEERS ? fcntl(session->fd, F_DUPFD_CLOEXEC, 0) : -1;

	if (fd < 0)
		return;
	recall->peer[recall->count].fd = fd;
	recall->peer[recall->count].late = false;
	recall->peer[recall->count++].context = session->context_id;
}

static void recall_session(struct session *session, struct recall *recall)
{
	bool awaited = recall && is_awaited(session);

	if (!session->maps || session_is_closing(session))
		return;
	send(session->fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (awaited)
		add_peer(recall, session);
}

static void recall_all(struct daemon *daemon, struct recall *recall)
{
	struct session *session;

	for (unsigned int i = 0; i < daemon->num_devices; i++)
		DL_FOREACH (daemon->devices[i].sessions, session)
			recall_session(session, recall);
}

void recall_now(struct daemon *daemon, struct recall *recall)
{
	recall->count = 0;
	if (!ev_is_active(&daemon->recall))
		return;
	ev_timer_stop(daemon->loop, &daemon->recall);
	recall_all(daemon, recall);
}

void recall_await(struct recall *recall)
{
	const double begin = monotonic_s();

	for (unsigned int i = 0; i < recall->count; i++) {
		int fd = recall->peer[i].fd;
		double waited = 0;

		while (has_unread(fd) && waited < AWAITED_S) {
			usleep(LOOK_US);
			waited = monotonic_s() - begin;
			recall->peer[i].late = waited > LATE_S;
		}
		close(fd);
	}
}

/* All of the program, which may have many connections. */
static void leave_out(struct daemon *daemon, pid_t program)
{
	struct session *session;

	for (unsigned int i = 0; i < daemon->num_devices; i++)
		DL_FOREACH (daemon->devices[i].sessions, session)
			if (session->owner.program == program)
				session->late_at = monotonic_s();
}

void recall_end(struct daemon *daemon, const struct recall *recall)
{
	const struct session *session;

	for (unsigned int i = 0; i < recall->count; i++) {
		if (!recall->peer[i].late)
			continue;
		session = session_of(daemon, recall->peer[i].context);
		if (session)
			leave_out(daemon, session->owner.program);
	}
}

static void on_recall(struct ev_loop *loop, ev_timer *timer, int events)
{
	recall_all(timer->data, NULL);
}

void recall_later(struct daemon *daemon)
{
	if (ev_is_active(&daemon->recall))
		return;
	ev_timer_init(&daemon->recall, on_recall, LATER_S, 0);
	daemon->recall.data = daemon;
	ev_timer_start(daemon->loop, &daemon->recall);
}
