/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"
#include "base/monotonic.h"
#include "datagram.h"
#include "listener.h"

#define BACKLOG 4096 /* connections; the kernel bounds it by net.core.somaxconn */
#define PAUSE 0.25   /* seconds without accepting when descriptors ran out */
#define RESERVE (DATAGRAM_KERNEL_FDS + 16)
#define COMPLAIN 60.0 /* seconds between two messages about it */

/* The directory's mode keeps strangers out; this keeps them out when somebody changed it. */
static bool is_welcome(int fd)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size))
		return false;
	if (peer.uid == geteuid() || peer.uid == 0)
		return true;
	log_warning("refused a connection of user %u, process %d", (unsigned int)peer.uid,
		    (int)peer.pid);
	return false;
}

/*
 * Commands bring descriptors, and would get no answer when there is no room for them; and what
 * finds none in a message the kernel closes, which can take long. A small table has a quarter left.
 */
static bool is_near_limit(int fd)
{
	struct rlimit limit;
	rlim_t reserve;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return false;
	reserve = limit.rlim_cur / 4 < RESERVE ? limit.rlim_cur / 4 : RESERVE;
	return (rlim_t)fd + reserve >= limit.rlim_cur;
}

static void pause_accepting(struct listener *listener, int error)
{
	double now = monotonic_s();

	if (now - listener->complained > COMPLAIN || !listener->complained) {
		log_error("%s: %s; new connections have to wait", listener->path, strerror(error));
		listener->complained = now;
	}
	ev_io_stop(listener->turns->loop, &listener->io);
	ev_timer_set(&listener->pause, PAUSE, 0);
	ev_timer_start(listener->turns->loop, &listener->pause);
}

static void serve(struct turn *turn, uint64_t until)
{
	struct listener *listener = (struct listener *)turn;

	do {
		int fd = accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd >= 0) {
			bool full = is_near_limit(fd);

			if (is_welcome(fd))
				listener->accepted(listener->arg, fd);
			else
				close(fd);
			if (full) {
				pause_accepting(listener, EMFILE);
				return;
			}
		} else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM ||
			   errno == ENOBUFS) {
			pause_accepting(listener, errno);
			return;
		} else if (errno != EINTR && errno != ECONNABORTED) {
			return;
		}
	} while (simhca_now_ns() < until);
}

static void on_connection(struct ev_loop *loop, ev_io *io, int events)
{
	struct listener *listener = io->data;

	turns_take(listener->turns, &listener->turn);
}

static void on_pause_end(struct ev_loop *loop, ev_timer *timer, int events)
{
	struct listener *listener = timer->data;

	ev_io_start(loop, &listener->io);
}

int listener_open(struct listener *listener, struct turns *turns, const char *path,
		  void (*accepted)(void *arg, int fd), void *arg)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int on = 1;

	_Static_assert(sizeof(listener->path) == sizeof(addr.sun_path), "any socket name fits");
	listener->turns = turns;
	listener->turn = (struct turn){ .serve = serve };
	listener->accepted = accepted;
	listener->arg = arg;
	listener->complained = 0;
	snprintf(listener->path, sizeof(listener->path), "%s", path);
	memcpy(addr.sun_path, listener->path, sizeof(addr.sun_path));
	ev_timer_init(&listener->pause, on_pause_end, PAUSE, 0);
	listener->pause.data = listener;

	listener->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	/* SO_PASSCRED before listening: connections inherit it, so no message can be too early. */
	if (listener->fd < 0 ||
	    setsockopt(listener->fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) ||
	    bind(listener->fd, (struct sockaddr *)&addr, sizeof(addr)) ||
	    listen(listener->fd, BACKLOG)) {
		log_error("%s: %m", path);
		if (listener->fd >= 0)
			close(listener->fd);
		listener->fd = -1;
		return -1;
	}
	ev_io_init(&listener->io, on_connection, listener->fd, EV_READ);
	listener->io.data = listener;
	ev_io_start(turns->loop, &listener->io);
	return 0;
}

void listener_close(struct listener *listener)
{
	if (listener->fd < 0)
		return;
	ev_io_stop(listener->turns->loop, &listener->io);
	ev_timer_stop(listener->turns->loop, &listener->pause);
	turns_leave(listener->turns, &listener->turn);
	/* The name goes first: who finds it can still connect, and is told that we have gone. */
	unlink(listener->path);
	close(listener->fd);
	listener->fd = -1;
}
