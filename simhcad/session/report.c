/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <utlist.h>

#include "daemon.h"
#include "report.h"
#include "session.h"
#include "simhca-clock.h"

#define TURN_NS 2000000u /* of work, and as much for others */
#define LOOKS 256	 /* in a turn, whether a report is still wanted */

struct report {
	struct report_queue *queue;
	const struct report_kind *kind;
	struct report_question question;
	struct report_client client;
	void *state;
	int fd;
	bool needs_comma;
	struct report *prev, *next;
};

const struct daemon *report_daemon(const struct report *report)
{
	return report->queue->daemon;
}

const struct report_question *report_question(const struct report *report)
{
	return &report->question;
}

/* --------------------------------------------------------------------------------- its text */

int report_put(struct report *report, const char *text)
{
	size_t length = strlen(text), at = 0;

	while (at < length) {
		ssize_t written = write(report->fd, text + at, length - at);

		if (written < 0)
			return -errno;
		at += (size_t)written;
	}
	report->needs_comma = false;
	return 0;
}

int report_put_json(struct report *report, json_t *json)
{
	char *text = json ? json_dumps(json, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
	int ret = text ? report_put(report, text) : -ENOMEM;

	json_decref(json);
	free(text);
	return ret;
}

int report_put_item(struct report *report, json_t *json)
{
	int ret = report->needs_comma ? report_put(report, ",") : 0;

	ret = ret ? ret : report_put_json(report, json);
	report->needs_comma = true;
	return ret;
}

/* --------------------------------------------------------------------------------- contexts */

int report_list_contexts(const struct daemon *daemon, const struct device *device,
			 struct report_contexts *contexts)
{
	const struct device *first = device ? device : daemon->devices;
	const struct device *end = first + (device ? 1 : daemon->num_devices);
	const struct session *session;
	size_t most = 0;

	for (const struct device *one = first; one < end; one++)
		DL_FOREACH (one->sessions, session)
			most++;
	*contexts = (struct report_contexts){ .ids = calloc(most + 1, sizeof(*contexts->ids)) };
	if (!contexts->ids)
		return -ENOMEM;
	for (const struct device *one = first; one < end; one++)
		DL_FOREACH (one->sessions, session)
			if (session->context)
				contexts->ids[contexts->count++] =
					simhca_context_id(session->context);
	return 0;
}

struct session *report_session(const struct report *report, const struct report_contexts *contexts)
{
	return session_of(report_daemon(report), contexts->ids[contexts->at]);
}

/* ------------------------------------------------------------------------------- its making */

static void report_free(struct report *report)
{
	DL_DELETE(report->queue->list, report);
	if (report->kind->end)
		report->kind->end(report->state);
	if (report->fd >= 0)
		close(report->fd);
	free(report->state);
	free(report);
}

static void finish(struct report *report, int status)
{
	int fd = report->fd;

	/* Its offset is the receiver's, too. */
	if (!status && lseek(fd, 0, SEEK_SET) < 0)
		status = -errno;
	if (!status)
		report->fd = -1;
	report->client.done(report->client.arg, status ? status : fd);
	report_free(report);
}

static void drop_those_that_are_gone(struct report_queue *queue)
{
	struct report *report, *next;
	unsigned int looks = 0;

	DL_FOREACH_SAFE (queue->list, report, next)
		if (looks++ < LOOKS)
			report->client.is_there(report->client.arg);
}

/* A turn of the first one. */
static void make(struct report_queue *queue)
{
	uint64_t until = simhca_now_ns() + TURN_NS;
	struct report *report;
	int ret = 1;

	drop_those_that_are_gone(queue);
	report = queue->list;
	if (!report)
		return;
	DL_DELETE(queue->list, report);
	DL_APPEND(queue->list, report);
	if (report->fd < 0) {
		report->fd = memfd_create("simhca-report", MFD_CLOEXEC);
		ret = report->fd < 0 ? -errno : 1;
	}
	while (ret > 0 && simhca_now_ns() < until)
		ret = report->kind->step(report, report->state);
	if (ret <= 0)
		finish(report, ret);
}

static void set_timer(struct report_queue *queue, ev_tstamp after)
{
	struct ev_loop *loop = queue->daemon->loop;

	ev_timer_stop(loop, &queue->timer);
	if (!queue->list)
		return;
	ev_now_update(loop); /* the pause begins now, and not when the turn did */
	ev_timer_set(&queue->timer, after, 0);
	ev_timer_start(loop, &queue->timer);
}

static void on_timer(struct ev_loop *loop, ev_timer *timer, int events)
{
	struct report_queue *queue = timer->data;

	if (queue->list)
		make(queue);
	set_timer(queue, TURN_NS * 1e-9);
}

void report_queue_init(struct report_queue *queue, struct daemon *daemon)
{
	queue->daemon = daemon;
	queue->list = NULL;
	ev_timer_init(&queue->timer, on_timer, 0, 0);
	queue->timer.data = queue;
}

struct report *report_begin(struct report_queue *queue, const struct report_kind *kind,
			    const struct report_question *question,
			    const struct report_client *client)
{
	struct report *report = calloc(1, sizeof(*report));
	void *state = calloc(1, kind->state_bytes + 1);

	if (!report || !state) {
		free(report);
		free(state);
		return NULL;
	}
	*report = (struct report){ .queue = queue,
				   .kind = kind,
				   .question = *question,
				   .client = *client,
				   .state = state,
				   .fd = -1 };
	DL_APPEND(queue->list, report);
	if (!ev_is_active(&queue->timer))
		set_timer(queue, 0);
	return report;
}

void report_cancel(struct report *report)
{
	struct report_queue *queue = report->queue;

	report_free(report);
	if (!queue->list)
		ev_timer_stop(queue->daemon->loop, &queue->timer);
}
