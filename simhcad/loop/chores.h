/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Chores: what can sleep for as long as a client likes. So the main thread does not do it, but has
 * it done by threads that do nothing else. When one of them does not come back, there is another.
 * One process has a share of them, and one program: what is beyond that waits, others' does not.
 */
#ifndef SIMHCAD_CHORES_H
#define SIMHCAD_CHORES_H

#include <ev.h>

#include "base/program.h"

struct chores;

struct chore {
	void (*work)(struct chore *chore); /* in one of the threads; may sleep */
	/* Afterwards, in the main thread. NULL: work() has freed it. */
	void (*done)(struct chore *chore);
	struct owner owner; /* who can make it sleep; all 0: nobody */
	struct chore *prev, *next;
};

/* NULL: out of memory, or of threads. */
struct chores *chores_start(struct ev_loop *loop);
/*
 * What waits is still done, for two seconds at most; what takes longer is left to the end of the
 * process.
 */
void chores_stop(struct chores *chores);

/* Takes a list (utlist.h), from any thread. Done in this order, but for those that sleep. */
void chores_add(struct chores *chores, struct chore *list);

#endif
