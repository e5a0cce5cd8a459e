/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "explain.h"
#include "failures/failed.h"
#include "mixups.h"
#include "session/daemon.h"
#include "session/session.h"

/* One failure among all. */
struct told {
	unsigned int root; /* its place: the failure that it follows from, or itself */
	bool has_root;
	bool is_told; /* of a root: with all that follows from it */
};

struct explain {
	bool looked; /* for mix-ups */
	struct failed *all;
	unsigned int count, at;
	uint64_t failed_of_run;
	struct told told[FAILURES_KEPT];
};

/* The place of the failure with this id; count: it is not there any more. */
static unsigned int find(const struct explain *explain, uint64_t id)
{
	unsigned int low = 0, high = explain->count;

	/* Ids grow along the list. */
	while (low < high) {
		unsigned int middle = (low + high) / 2;

		if (explain->all[middle].id < id)
			low = middle + 1;
		else
			high = middle;
	}
	return low < explain->count && explain->all[low].id == id ? low : explain->count;
}

/* Finds the roots of a failure and of all that it follows from. */
static void find_root(struct explain *explain, unsigned int at)
{
	unsigned int root = at, next;

	/* Each step leads to another one, and there are no more than so many. */
	for (unsigned int i = 0; i < explain->count; i++) {
		if (explain->told[root].has_root) {
			root = explain->told[root].root;
			break;
		}
		next = explain->all[root].cause ? find(explain, explain->all[root].cause)
						: explain->count;
		if (next == explain->count)
			break;
		root = next;
	}
	for (unsigned int i = 0; i < explain->count && !explain->told[at].has_root; i++) {
		explain->told[at] = (struct told){ .root = root, .has_root = true };
		at = explain->all[at].cause ? find(explain, explain->all[at].cause) : root;
		if (at == explain->count)
			break;
	}
}

/* Those of the run are told, and what belongs to one story with them, whosever it is. */
static void find_told(struct explain *explain, pid_t run)
{
	for (unsigned int i = 0; i < explain->count; i++)
		find_root(explain, i);
	for (unsigned int i = 0; i < explain->count; i++)
		if (!run || explain->all[i].whose.run == run || explain->all[i].sender.run == run)
			explain->told[explain->told[i].root].is_told = true;
}

/* Of a queue that had no receive: how many were posted to it later, if it still is there. */
static void add_receives_since(const struct daemon *daemon, const struct failed *failed,
			       json_t *json)
{
	json_t *queue = json_object_get(json, "queue");
	const struct session *session;
	uint32_t posted;

	session = queue ? session_of(daemon, failed->what.empty.context) : NULL;
	if (session && simhca_context_posted(session->context, failed->what.peer_qpn,
					     failed->what.empty.srqn, &posted))
		json_object_set_new(queue, "posted_since",
				    json_integer(posted - failed->what.empty.posted));
}

static int begin(struct report *report, struct explain *explain)
{
	const struct daemon *daemon = report_daemon(report);
	pid_t run = report_question(report)->run;

	explain->all =
		failures_copy(daemon->failures, run, &explain->count, &explain->failed_of_run);
	if (!explain->all)
		return -ENOMEM;
	find_told(explain, run);
	return report_put(report, "{\"failures\":[") ?: 1;
}

static int finish(struct report *report, const struct explain *explain)
{
	char text[64];

	snprintf(text, sizeof(text), "],\"failed_work_requests\":%llu}",
		 (unsigned long long)explain->failed_of_run);
	return report_put(report, text);
}

static int step(struct report *report, void *state)
{
	const struct daemon *daemon = report_daemon(report);
	struct explain *explain = state;
	const struct failed *failed;
	const struct told *told;
	json_t *json;

	if (!explain->looked) {
		explain->looked = true;
		mixups_find(daemon);
		return 1;
	}
	if (!explain->all)
		return begin(report, explain);
	if (explain->at == explain->count)
		return finish(report, explain);
	told = &explain->told[explain->at];
	failed = &explain->all[explain->at++];
	if (failed->over || failed->id <= report_question(report)->since ||
	    !explain->told[told->root].is_told)
		return 1;
	json = failed_json(failed,
			   &explain->all[told->root] == failed ? 0 : explain->all[told->root].id);
	add_receives_since(daemon, failed, json);
	return report_put_item(report, json) ?: 1;
}

static void end(void *state)
{
	free(((struct explain *)state)->all);
}

const struct report_kind explain_report = { .step = step,
					    .state_bytes = sizeof(struct explain),
					    .end = end };
