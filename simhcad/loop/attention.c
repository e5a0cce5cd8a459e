/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "attention.h"

#define ROUNDS 50 /* about a microsecond each */

static void on_idle(struct ev_loop *loop, ev_idle *idle, int events)
{
	struct attention *attention = idle->data;

	if (--attention->rounds)
		return;
	ev_idle_stop(loop, idle);
	simhca_spin_done(&attention->spin, false);
}

void attention_init(struct attention *attention, struct ev_loop *loop)
{
	attention->loop = loop;
	ev_idle_init(&attention->idle, on_idle);
	ev_set_priority(&attention->idle, EV_MINPRI);
	attention->idle.data = attention;
}

void attention_pay(struct attention *attention)
{
	if (ev_is_active(&attention->idle))
		simhca_spin_done(&attention->spin, true);
	else if (simhca_spin_wanted(&attention->spin))
		ev_idle_start(attention->loop, &attention->idle);
	attention->rounds = ROUNDS;
}
