/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Programs that sleep where nothing wakes them up: a CQ with a channel holds completions of which no
 * event will come, or of which one waits unread, and for two seconds the program has neither polled
 * nor used any CPU time. Mostly it has forgotten to arm the CQ again, or has armed it too late or
 * for solicited completions, or its epoll is edge-triggered. The daemon looks once in a second.
 */
#ifndef SIMHCAD_SLEEPERS_H
#define SIMHCAD_SLEEPERS_H

#include <ev.h>
#include <stdbool.h>
#include <stdint.h>

struct daemon;

#define SLEEPERS_OF_SESSION 4 /* CQs that are kept an eye on at a time */

/* A CQ that was seen so. */
struct sleeper {
	uint32_t cqn;	 /* 0: none */
	const char *how; /* it sleeps; a constant */
	uint32_t polled, waiting;
	long long cpu;
	unsigned int looks; /* since it last moved */
	bool seen;	    /* at this look */
	char text[200];	    /* as it was told; "": it was not */
};

struct sleepers {
	struct daemon *daemon;
	ev_timer timer;
};

void sleepers_init(struct sleepers *sleepers, struct daemon *daemon);
void sleepers_end(struct sleepers *sleepers);

#endif
