/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Timers of one engine: a binary heap ordered by deadline. The caller serialises. */
#ifndef LIBSIMHCA_TIMER_H
#define LIBSIMHCA_TIMER_H

#include <stddef.h>
#include <stdint.h>

struct simhca_engine;

struct simhca_timer {
	/* Called by its engine without a lock, in a guard. */
	void (*expired)(struct simhca_engine *engine, struct simhca_timer *timer);
	uint64_t deadline_ns;
	size_t slot; /* place in the heap, counted from 1; 0: not armed */
};

struct simhca_timers {
	struct simhca_timer **heap; /* heap[0] is unused */
	size_t count;
	size_t room;
};

/* Arms or moves a timer; -ENOMEM leaves it as it was. */
int simhca_timer_arm(struct simhca_timers *timers, struct simhca_timer *timer,
		     uint64_t deadline_ns);
void simhca_timer_cancel(struct simhca_timers *timers, struct simhca_timer *timer);
/* The earliest deadline; UINT64_MAX if none is armed. */
uint64_t simhca_timers_next(const struct simhca_timers *timers);
/* Takes one timer that is due, or NULL. */
struct simhca_timer *simhca_timers_expire(struct simhca_timers *timers, uint64_t now_ns);
void simhca_timers_free(struct simhca_timers *timers);

#endif
