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

#define TURN 0.002 /* seconds of work, and as many for others */

struct report {
	struct report_queue *queue;
	report_next *next_object; /* NULL: next_of_daemon has them */
	report_next_of_daemon *next_of_daemon;
	void (*done)(void *arg, int fd);
	void *arg;
	int fd;
	bool begun;
	uint32_t *contexts; /* ids, of those that were there when it began */
	size_t num_contexts, at;
	uint32_t handle; /* of contexts[at] */
	size_t objects;
	struct report *prev, *next;
};

static struct session *find_session(const struct daemon *daemon, uint32_t context)
{
	for (unsigned int i = 0; i < daemon->num_devices; i++) {
		struct session *session;

		DL_FOREACH (daemon->devices[i].sessions, session)
			if (session->context && simhca_context_id(session->context) == context)
				return session;
	}
	return NULL;
}

static int list_contexts(struct report *report)
{
	const struct daemon *daemon = report->queue->daemon;

	for (unsigned int i = 0; i < daemon->num_devices; i++) {
		const struct session *session;

		DL_FOREACH (daemon->devices[i].sessions, session) {
			uint32_t *more;

			if (!session->context)
				continue;
			more = reallocarray(report->contexts, report->num_contexts + 1,
					    sizeof(*more));
			if (!more)
				return -ENOMEM;
			report->contexts = more;
			more[report->num_contexts++] = simhca_context_id(session->context);
		}
	}
	return 0;
}

static int put(const struct report *report, const char *text)
{
	size_t length = strlen(text), at = 0;

	while (at < length) {
		ssize_t written = write(report->fd, text + at, length - at);

		if (written < 0)
			return -errno;
		at += (size_t)written;
	}
	return 0;
}

static int put_object(struct report *report, json_t *object)
{
	char *text = json_dumps(object, JSON_COMPACT);
	int ret;

	json_decref(object);
	if (!text)
		return -ENOMEM;
	ret = put(report, report->objects++ ? "," : "");
	if (!ret)
		ret = put(report, text);
	free(text);
	return ret;
}

/* 1: there is more, 0: it is complete, or a negative errno. */
static int make_one(struct report *report)
{
	const struct daemon *daemon = report->queue->daemon;
	const struct session *session;
	json_t *object = NULL;

	if (!report->next_object) {
		object = report->next_of_daemon(daemon, &report->handle);
		return object ? put_object(report, object) ?: 1 : put(report, "]");
	}
	if (report->at == report->num_contexts)
		return put(report, "]");
	session = find_session(daemon, report->contexts[report->at]);
	if (session)
		object = report->next_object(session->device, session, &report->handle);
	if (object)
		return put_object(report, object) ?: 1;
	report->at++;
	report->handle = 0;
	return 1;
}

static int begin(struct report *report)
{
	int ret = report->next_object ? list_contexts(report) : 0;

	report->begun = true;
	return ret ? ret : put(report, "[");
}

static void report_free(struct report *report)
{
	DL_DELETE(report->queue->list, report);
	if (report->fd >= 0)
		close(report->fd);
	free(report->contexts);
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
	report->done(report->arg, status ? status : fd);
	report_free(report);
}

static void on_timer(struct ev_loop *loop, ev_timer *timer, int events)
{
	struct report_queue *queue = timer->data;
	struct report *report = queue->list;
	ev_tstamp until = ev_time() + TURN;
	int ret = report->begun ? 1 : begin(report) ?: 1;

	while (ret > 0 && ev_time() < until)
		ret = make_one(report);
	if (ret <= 0)
		finish(report, ret);
	if (!queue->list)
		return;
	ev_timer_set(timer, TURN, 0);
	ev_timer_start(loop, timer);
}

void report_queue_init(struct report_queue *queue, struct daemon *daemon)
{
	queue->daemon = daemon;
	queue->list = NULL;
	ev_timer_init(&queue->timer, on_timer, 0, 0);
	queue->timer.data = queue;
}

struct report *report_begin(struct report_queue *queue, report_next *next,
			    report_next_of_daemon *next_of_daemon, void (*done)(void *arg, int fd),
			    void *arg)
{
	struct report *report = calloc(1, sizeof(*report));

	if (!report)
		return NULL;
	report->fd = memfd_create("simhca-report", MFD_CLOEXEC);
	if (report->fd < 0) {
		free(report);
		return NULL;
	}
	report->queue = queue;
	report->next_object = next;
	report->next_of_daemon = next_of_daemon;
	report->done = done;
	report->arg = arg;
	DL_APPEND(queue->list, report);
	if (!ev_is_active(&queue->timer)) {
		ev_timer_set(&queue->timer, 0, 0);
		ev_timer_start(queue->daemon->loop, &queue->timer);
	}
	return report;
}

void report_cancel(struct report *report)
{
	struct report_queue *queue = report->queue;

	report_free(report);
	if (!queue->list)
		ev_timer_stop(queue->daemon->loop, &queue->timer);
}
