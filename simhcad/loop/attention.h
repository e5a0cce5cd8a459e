/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * After a command the next one often follows at once. So for some fifty microseconds the event loop
 * goes on looking at its descriptors instead of sleeping, as long as that is worth it
 * (simhca-spin.h); everything else in the loop has its turn as before.
 */
#ifndef SIMHCAD_ATTENTION_H
#define SIMHCAD_ATTENTION_H

#include <ev.h>

#include "simhca-spin.h"

struct attention {
	struct ev_loop *loop;
	ev_idle idle;
	struct simhca_spin spin;
	unsigned int rounds; /* of the loop, left */
};

void attention_init(struct attention *attention, struct ev_loop *loop);
/* A command has been answered. */
void attention_pay(struct attention *attention);

#endif
