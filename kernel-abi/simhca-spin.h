/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Whether it pays to look again a few times before one sleeps. To wake a sleeper on another CPU
 * takes longer than a command; but where CPUs are scarce the other side may be waiting for ours. So
 * whoever has looked in vain sleeps at once the next times, twice as often after each failure.
 */
#ifndef SIMHCA_SPIN_H
#define SIMHCA_SPIN_H

#include <stdatomic.h>
#include <stdbool.h>

/* Relaxed throughout: threads may share it, and a count that is lost does no harm. */
struct simhca_spin {
	atomic_uint pause; /* how often after the next failure */
	atomic_uint left;  /* of the present one */
};

#define SIMHCA_SPIN_LONGEST_PAUSE 1024u

static inline bool simhca_spin_wanted(struct simhca_spin *spin)
{
	unsigned int left = atomic_load_explicit(&spin->left, memory_order_relaxed);

	if (!left)
		return true;
	atomic_store_explicit(&spin->left, left - 1, memory_order_relaxed);
	return false;
}

static inline void simhca_spin_done(struct simhca_spin *spin, bool worth_it)
{
	unsigned int pause = atomic_load_explicit(&spin->pause, memory_order_relaxed);

	if (worth_it) {
		if (pause)
			atomic_store_explicit(&spin->pause, pause / 2, memory_order_relaxed);
		return;
	}
	atomic_store_explicit(&spin->left, pause, memory_order_relaxed);
	if (pause < SIMHCA_SPIN_LONGEST_PAUSE)
		atomic_store_explicit(&spin->pause, 2 * pause + 1, memory_order_relaxed);
}

#endif
