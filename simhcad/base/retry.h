/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What found an engine at work on its object, or takes long, and is tried again: commands of
 * sessions, and their ends. A try may take about a millisecond of the main thread. So there is one
 * queue for the commands of all sessions, and one for their ends; each turn of a queue is short,
 * and what fails again and again is tried less often: a program whose memory does not answer takes
 * no time from the others.
 */
#ifndef SIMHCAD_RETRY_H
#define SIMHCAD_RETRY_H

#include <ev.h>
#include <stdbool.h>

struct retry;
/*
 * True: it is over, and may have been freed. False: once more, later. What can be done in parts
 * stops when the turn is over, at that time by monotonic_s().
 */
typedef bool retry_again(struct retry *retry, double until);

struct retry {
	retry_again *again;
	double since, due; /* monotonic.h */
	double interval;   /* seconds */
	struct retry *prev, *next;
};

struct retry_queue {
	struct ev_loop *loop;
	struct retry *list; /* the next that is due first */
	double next_turn;   /* not before that: others have the main thread */
	ev_timer timer;
};

void retry_queue_init(struct retry_queue *queue, struct ev_loop *loop, int priority);
/* The first try comes after a millisecond, further ones at intervals that double up to 64 ms. */
void retry_add(struct retry_queue *queue, struct retry *retry, retry_again *again);
/* Likewise, but the first try comes as soon as the queue has a turn. */
void retry_add_now(struct retry_queue *queue, struct retry *retry, retry_again *again);
/* In a try that was worth it: the interval begins anew. */
void retry_soon(struct retry *retry);
void retry_remove(struct retry_queue *queue, struct retry *retry);

#endif
