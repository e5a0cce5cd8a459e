/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Reports of all objects of one kind, as JSON in a memfd. There can be tens of thousands, so a
 * report is made bit by bit: others have the main thread in between. Objects that come or go
 * meanwhile may be in it or not. One report is made at a time, the others wait for it.
 */
#ifndef SIMHCAD_REPORT_H
#define SIMHCAD_REPORT_H

#include <ev.h>
#include <jansson.h>
#include <stdint.h>

struct daemon;
struct device;
struct session;
struct report;

/*
 * The next object of the session from *handle on, which becomes the one behind it; NULL: there is
 * none, or no memory.
 */
typedef json_t *report_next(const struct device *device, const struct session *session,
			    uint32_t *handle);

/* Likewise, of what belongs to no session. */
typedef json_t *report_next_of_daemon(const struct daemon *daemon, uint32_t *handle);

struct report_queue {
	struct daemon *daemon;
	struct report *list; /* the first one is being made */
	ev_timer timer;
};

void report_queue_init(struct report_queue *queue, struct daemon *daemon);
/*
 * Begins one, of the objects of all sessions or, if next is NULL, of the daemon's. done gets the memfd, whose offset is 0 and which it closes, or a negative errno; the
 * report is freed then. NULL: out of memory.
 */
struct report *report_begin(struct report_queue *queue, report_next *next,
			    report_next_of_daemon *next_of_daemon, void (*done)(void *arg, int fd),
			    void *arg);
/* Before it is done: nobody wants it any more. */
void report_cancel(struct report *report);

#endif
