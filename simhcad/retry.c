/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <utlist.h>

#include "monotonic.h"
#include "retry.h"

#define FIRST_INTERVAL 0.001 /* seconds */
#define LAST_INTERVAL 0.064
#define TURN 0.002 /* seconds of tries, until others get theirs; as long until the next turn */

static int by_due(const struct retry *a, const struct retry *b)
{
	return (a->due > b->due) - (a->due < b->due);
}

static void insert(struct retry_queue *queue, struct retry *retry)
{
	retry->due = monotonic_s() + retry->interval;
	DL_INSERT_INORDER(queue->list, retry, by_due);
}

static void set_timer(struct retry_queue *queue, double least)
{
	double wait;

	ev_timer_stop(queue->loop, &queue->timer);
	if (!queue->list)
		return;
	wait = queue->list->due - monotonic_s();
	ev_now_update(queue->loop); /* it counts from there */
	ev_timer_set(&queue->timer, wait > least ? wait : least, 0);
	ev_timer_start(queue->loop, &queue->timer);
}

static void on_timer(struct ev_loop *loop, ev_timer *timer, int events)
{
	struct retry_queue *queue = timer->data;
	double now = monotonic_s(), until = now + TURN;
	struct retry *retry;

	while ((retry = queue->list) && retry->due <= now) {
		DL_DELETE(queue->list, retry);
		retry->interval *= retry->interval < LAST_INTERVAL ? 2 : 1;
		if (!retry->again(retry))
			insert(queue, retry);
		if (monotonic_s() >= until)
			break;
	}
	set_timer(queue, retry ? TURN : 0);
}

void retry_queue_init(struct retry_queue *queue, struct ev_loop *loop)
{
	queue->loop = loop;
	queue->list = NULL;
	ev_timer_init(&queue->timer, on_timer, 0, 0);
	queue->timer.data = queue;
}

void retry_add(struct retry_queue *queue, struct retry *retry, bool (*again)(struct retry *retry))
{
	retry->again = again;
	retry->since = monotonic_s();
	retry->interval = FIRST_INTERVAL;
	insert(queue, retry);
	if (queue->list == retry)
		set_timer(queue, FIRST_INTERVAL);
}

void retry_soon(struct retry *retry)
{
	retry->interval = FIRST_INTERVAL;
}

void retry_remove(struct retry_queue *queue, struct retry *retry)
{
	DL_DELETE(queue->list, retry);
	if (!queue->list)
		ev_timer_stop(queue->loop, &queue->timer);
}
