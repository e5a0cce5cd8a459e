/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <utlist.h>

#include "monotonic.h"
#include "retry.h"

#define FIRST_INTERVAL 0.001 /* seconds */
#define LAST_INTERVAL 0.064
#define TURN 0.002 /* seconds of tries, until others get theirs; as long until the next turn */

/* Behind those that are due before it, or with it: from the end, where its place mostly is. */
static void insert(struct retry_queue *queue, struct retry *retry, double wait)
{
	struct retry *before = queue->list ? queue->list->prev : NULL;

	retry->due = monotonic_s() + wait;
	while (before && before->due > retry->due)
		before = before == queue->list ? NULL : before->prev;
	if (before)
		DL_APPEND_ELEM(queue->list, before, retry);
	else
		DL_PREPEND(queue->list, retry);
}

static void set_timer(struct retry_queue *queue)
{
	double at, wait;

	ev_timer_stop(queue->loop, &queue->timer);
	if (!queue->list)
		return;
	at = queue->list->due > queue->next_turn ? queue->list->due : queue->next_turn;
	wait = at - monotonic_s();
	ev_now_update(queue->loop); /* it counts from there */
	ev_timer_set(&queue->timer, wait > 0 ? wait : 0, 0);
	ev_timer_start(queue->loop, &queue->timer);
}

static void on_timer(struct ev_loop *loop, ev_timer *timer, int events)
{
	struct retry_queue *queue = timer->data;
	double begun = monotonic_s(), until = begun + TURN, now = begun;
	struct retry *retry;

	while ((retry = queue->list) && retry->due <= begun && now < until) {
		DL_DELETE(queue->list, retry);
		retry->interval *= retry->interval < LAST_INTERVAL ? 2 : 1;
		if (!retry->again(retry, until))
			insert(queue, retry, retry->interval);
		now = monotonic_s();
	}
	if (now >= until)
		queue->next_turn = now + TURN;
	set_timer(queue);
}

void retry_queue_init(struct retry_queue *queue, struct ev_loop *loop, int priority)
{
	*queue = (struct retry_queue){ .loop = loop };
	ev_timer_init(&queue->timer, on_timer, 0, 0);
	ev_set_priority(&queue->timer, priority);
	queue->timer.data = queue;
}

static void add(struct retry_queue *queue, struct retry *retry, retry_again *again, double wait)
{
	retry->again = again;
	retry->since = monotonic_s();
	retry->interval = FIRST_INTERVAL;
	insert(queue, retry, wait);
	if (queue->list == retry)
		set_timer(queue);
}

void retry_add(struct retry_queue *queue, struct retry *retry, retry_again *again)
{
	add(queue, retry, again, FIRST_INTERVAL);
}

void retry_add_now(struct retry_queue *queue, struct retry *retry, retry_again *again)
{
	add(queue, retry, again, 0);
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
