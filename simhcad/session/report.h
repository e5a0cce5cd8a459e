/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Reports, as JSON in a memfd. What they tell of can be tens of thousands of objects, so a report
 * is made step by step, and others have the main thread in between. Objects that come or go
 * meanwhile may be in it or not. Reports take turns.
 */
#ifndef SIMHCAD_REPORT_H
#define SIMHCAD_REPORT_H

#include <ev.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct daemon;
struct device;
struct session;
struct report;

/* What was asked for; 0: all. */
struct report_question {
	uint64_t since; /* a failure */
	pid_t run;
};

/* A kind of report. */
struct report_kind {
	/*
	 * Puts its next part, or does a part of the work for it, which takes some ten microseconds.
	 * 1: there is more to do, 0: it is complete, or a negative errno.
	 */
	int (*step)(struct report *report, void *state);
	size_t state_bytes; /* of the state, which is zero at first */
	void (*end)(void *state);
};

const struct daemon *report_daemon(const struct report *report);
const struct report_question *report_question(const struct report *report);
/* Adds text. 0 or a negative errno. */
int report_put(struct report *report, const char *text);
/* Likewise, and takes the JSON; NULL: -ENOMEM. */
int report_put_json(struct report *report, json_t *json);
/* Likewise, with a comma in front unless it is the first one since report_put(). */
int report_put_item(struct report *report, json_t *json);

/* The contexts that there are when a report begins, one after the other. */
struct report_contexts {
	uint32_t *ids;
	size_t count, at;
};
/* Of one device, or of all (NULL). 0 or -ENOMEM. The caller frees ids. */
int report_list_contexts(const struct daemon *daemon, const struct device *device,
			 struct report_contexts *contexts);
/* Whose context it is at; NULL: it has gone. */
struct session *report_session(const struct report *report, const struct report_contexts *contexts);

/* Who wants a report. */
struct report_client {
	/* False: nobody wants it any more. It was cancelled. */
	bool (*is_there)(void *arg);
	/* Gets the memfd, whose offset is 0 and which it closes, or a negative errno. */
	void (*done)(void *arg, int fd);
	void *arg;
};

struct report_queue {
	struct daemon *daemon;
	struct report *list; /* the first one has the next turn, and is the last one then */
	ev_timer timer;
};

void report_queue_init(struct report_queue *queue, struct daemon *daemon);
/* Begins one. It is freed after done() was called. NULL: out of memory. */
struct report *report_begin(struct report_queue *queue, const struct report_kind *kind,
			    const struct report_question *question,
			    const struct report_client *client);
/* Before it is done: nobody wants it any more. */
void report_cancel(struct report *report);

#endif
