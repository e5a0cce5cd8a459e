/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A daemon whose programs sleep, or that has none, uses no CPU. Its watch over engine threads, its look
 * for programs that sleep in vain and the counters of the device tree go by timers. When nothing has
 * changed for a few looks, the devices say in their memory that they doze (simhca-abi.h), and if all
 * is the same at the next look, the timers stop, and free memory goes back to the kernel.
 *
 * Whatever could need them starts them again: an engine's thread that wakes up, a command, a doorbell
 * that no thread hears; and a program that polls or arms, which rings a doorbell for that where the
 * devices doze. Who sends polls sooner or later.
 */
#ifndef SIMHCAD_DOZE_H
#define SIMHCAD_DOZE_H

#include <ev.h>
#include <stdbool.h>
#include <stdint.h>

#include "simhca-abi.h"

struct engines;

#define DOZE_ENGINES 64 /* of more engines those are not listened to whose doorbells nobody hears */

/* What looks by a timer: start, or stop. */
struct doze_looker {
	void (*look)(struct doze_looker *looker, bool look);
	struct doze_looker *prev, *next;
};

struct doze {
	struct ev_loop *loop;
	struct engines *engines;
	struct doze_looker *lookers; /* utlist */
	ev_async woken;
	ev_io unheard[DOZE_ENGINES * SIMHCA_MAX_ENGINE_CPUS];
	unsigned int num_unheard;
	unsigned int calm; /* looks in a row that have found the same */
	uint64_t found;
};

/* engines: that are looked at; they need not have been started yet. */
void doze_init(struct doze *doze, struct ev_loop *loop, struct engines *engines);
void doze_end(struct doze *doze);
void doze_add(struct doze *doze, struct doze_looker *looker);
void doze_remove(struct doze *doze, struct doze_looker *looker);

/* A program does something, or may have done. Of any thread: an engine's has woken up. */
void doze_over(struct doze *doze);
void doze_woken(void *arg);
/* A look at all programs is over: what it has found, in one number. */
void doze_looked(struct doze *doze, uint64_t found);

#endif
