/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <stdlib.h>

#include "timer.h"

static void place(struct simhca_timers *timers, struct simhca_timer *timer, size_t slot)
{
	timers->heap[slot] = timer;
	timer->slot = slot;
}

/* Moves the timer at slot to where its deadline belongs. */
static void sift(struct simhca_timers *timers, size_t slot)
{
	struct simhca_timer *timer = timers->heap[slot];

	while (slot > 1 && timers->heap[slot / 2]->deadline_ns > timer->deadline_ns) {
		place(timers, timers->heap[slot / 2], slot);
		slot /= 2;
	}
	for (;;) {
		size_t child = slot * 2;

		if (child > timers->count)
			break;
		if (child < timers->count &&
		    timers->heap[child + 1]->deadline_ns < timers->heap[child]->deadline_ns)
			child++;
		if (timers->heap[child]->deadline_ns >= timer->deadline_ns)
			break;
		place(timers, timers->heap[child], slot);
		slot = child;
	}
	place(timers, timer, slot);
}

int simhca_timer_arm(struct simhca_timers *timers, struct simhca_timer *timer, uint64_t deadline_ns)
{
	if (!timer->slot) {
		if (timers->count + 1 >= timers->room) {
			size_t room = timers->room ? timers->room * 2 : 64;
			struct simhca_timer **heap = realloc(timers->heap, room * sizeof(*heap));

			if (!heap)
				return -ENOMEM;
			timers->heap = heap;
			timers->room = room;
		}
		place(timers, timer, ++timers->count);
	}
	timer->deadline_ns = deadline_ns;
	sift(timers, timer->slot);
	return 0;
}

void simhca_timer_cancel(struct simhca_timers *timers, struct simhca_timer *timer)
{
	size_t slot = timer->slot;
	struct simhca_timer *last;

	if (!slot)
		return;
	timer->slot = 0;
	last = timers->heap[timers->count--];
	if (last != timer) {
		place(timers, last, slot);
		sift(timers, slot);
	}
}

uint64_t simhca_timers_next(const struct simhca_timers *timers)
{
	return timers->count ? timers->heap[1]->deadline_ns : UINT64_MAX;
}

struct simhca_timer *simhca_timers_expire(struct simhca_timers *timers, uint64_t now_ns)
{
	struct simhca_timer *timer;

	if (simhca_timers_next(timers) > now_ns)
		return NULL;
	timer = timers->heap[1];
	simhca_timer_cancel(timers, timer);
	return timer;
}

void simhca_timers_free(struct simhca_timers *timers)
{
	free(timers->heap);
	*timers = (struct simhca_timers){ 0 };
}
