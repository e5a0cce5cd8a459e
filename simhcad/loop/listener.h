/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A listening AF_UNIX SOCK_SEQPACKET socket on the event loop. Connections of other users than
 * ours and root are closed. When descriptors run out, accepting pauses.
 */
#ifndef SIMHCAD_LISTENER_H
#define SIMHCAD_LISTENER_H

#include <ev.h>

#include "base/turns.h"

struct listener {
	struct turn turn; /* first: of accepting */
	struct turns *turns;
	char path[108];
	int fd;
	ev_io io;
	ev_timer pause;
	double complained; /* that it had to pause; 0: not yet */
	/* Takes the connection, which is non-blocking. */
	void (*accepted)(void *arg, int fd);
	void *arg;
};

/* Senders' pids come with what is received (SO_PASSCRED). -1: what is wrong was logged. */
int listener_open(struct listener *listener, struct turns *turns, const char *path,
		  void (*accepted)(void *arg, int fd), void *arg);
/* Also removes the socket's name. */
void listener_close(struct listener *listener);

#endif
