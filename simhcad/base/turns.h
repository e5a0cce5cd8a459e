/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * How connections share the main thread: for what they ask, and for being accepted, all of them
 * together have 2 ms in each round of the event loop. Who comes while nobody waits is served at
 * once. Who comes when the time is over waits, in the order in which they came, and then each is
 * served one request in turn, however many there are.
 */
#ifndef SIMHCAD_TURNS_H
#define SIMHCAD_TURNS_H

#include <ev.h>
#include <stdbool.h>
#include <stdint.h>

struct turn {
	/*
	 * Serves one request, and more until that time (monotonic.h, ns) if there are; who is not
	 * served to the end says so again. The turn may have been freed.
	 */
	void (*serve)(struct turn *turn, uint64_t until);
	bool waits;
	struct turn *prev, *next;
};

struct turns {
	struct ev_loop *loop;
	unsigned int round; /* of the loop, that until is of */
	uint64_t until;
	struct turn *list; /* those that wait */
	ev_timer timer;
};

void turns_init(struct turns *turns, struct ev_loop *loop);
/* There is something to serve. */
void turns_take(struct turns *turns, struct turn *turn);
/* Before it is freed, or is not to be served. */
void turns_leave(struct turns *turns, struct turn *turn);

#endif
