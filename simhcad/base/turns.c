/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <utlist.h>

#include "monotonic.h"
#include "turns.h"

#define TURN_NS 2000000u

/* Until when there is time in this round of the loop. */
static uint64_t end_of_turn(struct turns *turns)
{
	unsigned int round = ev_iteration(turns->loop);

	if (round != turns->round || !turns->until) {
		turns->round = round;
		turns->until = simhca_now_ns() + TURN_NS;
	}
	return turns->until;
}

/* In the next round. */
static void start_timer(struct turns *turns)
{
	if (ev_is_active(&turns->timer))
		return;
	ev_timer_set(&turns->timer, 0, 0);
	ev_timer_start(turns->loop, &turns->timer);
}

static void on_timer(struct ev_loop *loop, ev_timer *timer, int events)
{
	struct turns *turns = timer->data;
	uint64_t until = end_of_turn(turns), now;

	while (turns->list && (now = simhca_now_ns()) < until) {
		struct turn *turn = turns->list;

		turns_leave(turns, turn);
		turn->serve(turn, turns->list ? now : until);
	}
	if (turns->list)
		start_timer(turns);
}

void turns_init(struct turns *turns, struct ev_loop *loop)
{
	*turns = (struct turns){ .loop = loop };
	ev_timer_init(&turns->timer, on_timer, 0, 0);
	/* As connections' own events have it. */
	ev_set_priority(&turns->timer, 1);
	turns->timer.data = turns;
}

void turns_take(struct turns *turns, struct turn *turn)
{
	uint64_t until = end_of_turn(turns);

	if (turn->waits)
		return;
	if (!turns->list && simhca_now_ns() < until) {
		turn->serve(turn, until);
		return;
	}
	turn->waits = true;
	DL_APPEND(turns->list, turn);
	start_timer(turns);
}

void turns_leave(struct turns *turns, struct turn *turn)
{
	if (turn->waits)
		DL_DELETE(turns->list, turn);
	turn->waits = false;
}
