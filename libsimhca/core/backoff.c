/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <sched.h>
#include <time.h>

#include "backoff.h"
#include "fabric.h"
#include "simhca-clock.h"

#define YIELDS 64
#define NAPS 20
#define NAP_NS (50 * 1000)
#define HURRY_NS (50 * 1000)

static bool hurried(struct simhca_backoff *backoff)
{
	uint64_t now = simhca_now_ns();

	if (!backoff->until)
		backoff->until = now + HURRY_NS;
	if (now >= backoff->until)
		return false;
	sched_yield();
	return true;
}

bool simhca_backoff(struct simhca_backoff *backoff, const struct simhca_fabric *fabric)
{
	const struct timespec nap = { .tv_nsec = NAP_NS };

	if (atomic_load_explicit(&fabric->brief_waits, memory_order_relaxed))
		return hurried(backoff);
	if (backoff->turn == YIELDS + NAPS)
		return false;
	if (backoff->turn++ < YIELDS)
		sched_yield();
	else
		nanosleep(&nap, NULL);
	return true;
}

void simhca_fabric_brief_waits(struct simhca_fabric *fabric, bool on)
{
	atomic_store_explicit(&fabric->brief_waits, on, memory_order_relaxed);
}
