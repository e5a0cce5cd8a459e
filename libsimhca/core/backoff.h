/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* How long a control function waits until an engine's step is over, before it answers -EAGAIN. */
#ifndef LIBSIMHCA_BACKOFF_H
#define LIBSIMHCA_BACKOFF_H

#include <stdbool.h>
#include <stdint.h>

struct simhca_fabric;

/* Zeroed, for each wait. */
struct simhca_backoff {
	unsigned int turn;
	uint64_t until; /* CLOCK_MONOTONIC, ns; 0: not known yet */
};

/*
 * Waits a little. False: it has been long enough. That is about a millisecond, or, while
 * simhca_fabric_brief_waits() is on, a moment in which a step that does not sleep comes to its end.
 */
bool simhca_backoff(struct simhca_backoff *backoff, const struct simhca_fabric *fabric);

#endif
