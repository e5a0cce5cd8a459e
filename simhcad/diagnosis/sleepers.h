/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Programs that sleep where nothing wakes them up: a CQ with a channel holds completions of which
 * no event will come, or of which one waits unread, and for two seconds the program has neither
 * polled nor used any CPU time. Mostly it has forgotten to arm the CQ again, or has armed it too
 * late or for solicited completions, or its epoll is edge-triggered.
 *
 * Or the CQ is empty, and the program polls it or sleeps at its channel, while the last message to
 * one of its QPs was a plain RDMA WRITE, which gives no completion there, or the process of the
 * peer has ended and left its QP to a child; or it polls this CQ alone, and its last send was not
 * signaled, or a receive has completed in another one. Or a send waits for a receive of the peer's
 * without end.
 *
 * The daemon looks once in a second, at one session after another; if there are very many, for a
 * few milliseconds at a time. When nothing happens it looks no more (loop/doze.h).
 */
#ifndef SIMHCAD_SLEEPERS_H
#define SIMHCAD_SLEEPERS_H

#include <ev.h>
#include <stdbool.h>
#include <stdint.h>

#include "loop/doze.h"

struct daemon;
struct session;

#define SLEEPERS_OF_SESSION 4 /* CQs that are kept an eye on at a time */

/* A CQ that was seen so. */
struct sleeper {
	uint32_t cqn;	 /* 0: none */
	const char *how; /* it sleeps; a constant */
	uint32_t polled, waiting, empty_polls;
	uint32_t polls_elsewhere; /* of the context's other CQs, so far */
	uint32_t handled;	  /* by the QP to which no message need come */
	long long cpu;
	unsigned int looks; /* since it last moved */
	bool seen;	    /* at this look */
	bool told;
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

void sleepers_init(struct sleepers *sleepers, struct daemon *daemon);
void sleepers_end(struct sleepers *sleepers);

/* Its program has closed the device, or has ended: whether it went on since the last look. */
void sleepers_session_ends(struct session *session);

#endif
