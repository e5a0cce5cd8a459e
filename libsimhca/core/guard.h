/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Guards: how a control function knows that no engine still uses what it unlinked.
 *
 * Each engine thread has one. It is odd while the thread is inside a step, in which it may hold
 * pointers found in the device's tables and may be moving data through a region; even
 * between steps, when it holds none. A control function first unlinks the object, so that no new
 * step can find it, then waits until every guard that was odd has moved on: that is the end
 * of all uses. Engines never wait for control functions. (The kernel's word for this is SRCU.)
 *
 * A step can take long in one place only: in a client's memory. Before it goes there a thread
 * narrows its guard to the two contexts whose objects it still holds, and those who destroy
 * objects of other contexts need not wait for it: a client whose memory blocks (it can have
 * a userfaultfd of its own there) delays nobody but itself and those who talk to it.
 */
#ifndef LIBSIMHCA_GUARD_H
#define LIBSIMHCA_GUARD_H

#include <stdatomic.h>
#include <stdint.h>

#define SIMHCA_GUARD_ANY 0u /* contexts: the step may hold objects of any */

struct simhca_guard {
	_Atomic uint64_t count;
	_Atomic uint64_t contexts; /* two context ids, or SIMHCA_GUARD_ANY */
	struct simhca_guard *next; /* in the fabric's list */
};

static inline void simhca_guard_enter(struct simhca_guard *guard)
{
	atomic_store_explicit(&guard->contexts, SIMHCA_GUARD_ANY, memory_order_relaxed);
	/*
	 * seq_cst: the entry must be visible before any table is read, or a control function
	 * that unlinks and then looks here could miss us while we find the old pointer.
	 */
	atomic_fetch_add_explicit(&guard->count, 1, memory_order_seq_cst);
}

/* From here on the step uses objects of these two contexts alone. */
static inline void simhca_guard_narrow(struct simhca_guard *guard, uint32_t context, uint32_t other)
{
	/* release: uses of other contexts' objects are over before this is seen. */
	atomic_store_explicit(&guard->contexts, (uint64_t)context << 32 | other,
			      memory_order_release);
}

/* The step is about to look into the tables again; what it found before narrowing is void. */
static inline void simhca_guard_widen(struct simhca_guard *guard)
{
	/* seq_cst, as on entry: before the tables are read. */
	atomic_store_explicit(&guard->contexts, SIMHCA_GUARD_ANY, memory_order_seq_cst);
}

static inline void simhca_guard_leave(struct simhca_guard *guard)
{
	/* release: what the step did is over before anybody sees the guard even. */
	atomic_fetch_add_explicit(&guard->count, 1, memory_order_release);
}

struct simhca_fabric;
/* From when a thread may begin steps, until it has ended the last. Under the fabric's lock. */
void simhca_guard_add(struct simhca_fabric *fabric, struct simhca_guard *guard);
void simhca_guard_remove(struct simhca_fabric *fabric, struct simhca_guard *guard);

#endif
