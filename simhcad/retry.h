/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What found an engine at work on its object, and is tried again: commands of sessions, and their
 * ends. A try may wait about a millisecond in the main thread. So there is one queue for all
 * sessions, each turn of it is short, and what fails again and again is tried less often: a program
 * whose memory does not answer takes no time from the others.
 */
#ifndef SIMHCAD_RETRY_H
#define SIMHCAD_RETRY_H

#include <ev.h>
#include <stdbool.h>

struct retry {
	/* True: it is over, and may have been freed. False: once more, later. */
	bool (*again)(struct retry *retry);
	double since, due; /* monotonic.h */
	double interval;   /* seconds */
	struct retry *prev, *next;
};

struct retry_queue {
	struct ev_loop *loop;
	struct retry *list; /* the next that is due first */
	ev_timer timer;
};

void retry_queue_init(struct retry_queue *queue, struct ev_loop *loop);
/* The first try comes after a millisecond, further ones at intervals that double up to 64 ms. */
void retry_add(struct retry_queue *queue, struct retry *retry, bool (*again)(struct retry *retry));
/* In a try that was worth it: the interval begins anew. */
void retry_soon(struct retry *retry);
void retry_remove(struct retry_queue *queue, struct retry *retry);

#endif
