/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Guards: how a control function knows that no engine still uses what it unlinked.
 *
 * Each engine has one. It is odd while the engine is inside a step, in which it may hold
 * pointers found in the device's tables and may be moving data through a region; even
 * between steps, when it holds none. A control function first unlinks the object, so that no new
 * step can find it, then waits until every guard that was odd has moved on: that is the end
 * of all uses. Engines never wait for control functions. (The kernel's word for this is
 * SRCU; with a few engines whose steps are bounded, one word an engine is enough.)
 */
#ifndef LIBSIMHCA_GUARD_H
#define LIBSIMHCA_GUARD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct simhca_guard {
	_Atomic uint64_t count;
};

static inline void simhca_guard_enter(struct simhca_guard *guard)
{
	/*
	 * seq_cst: the entry must be visible before any table is read, or a control function
	 * that unlinks and then looks here could miss us while we find the old pointer.
	 */
	atomic_fetch_add_explicit(&guard->count, 1, memory_order_seq_cst);
}

static inline void simhca_guard_leave(struct simhca_guard *guard)
{
	/* release: what the step did is over before anybody sees the guard even. */
	atomic_fetch_add_explicit(&guard->count, 1, memory_order_release);
}

/* Waits until the step under way, if any, has ended; false after timeout_ms. */
bool simhca_guard_wait(struct simhca_guard *guard, unsigned int timeout_ms);

#endif
