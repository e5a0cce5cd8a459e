/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "link/wire/congestion.h"
#include "transport/psn.h"

/* Not sooner: a peer that is kept from its CPU is silent for as long as others have it. */
#define LEAST_PATIENCE_NS 4000000ull
#define MOST_SILENCES 8

void simhca_congestion_begin(struct simhca_congestion *congestion)
{
	*congestion = (struct simhca_congestion){ .window = SIMHCA_WINDOW_FIRST,
						  .enough = SIMHCA_WINDOW_MOST,
						  .behind = SIMHCA_WINDOW_FIRST };
}

void simhca_congestion_sent(struct simhca_congestion *congestion, uint32_t psn, uint64_t now_ns)
{
	if (congestion->timed_at)
		return;
	congestion->timed_at = now_ns;
	congestion->timed_psn = psn;
}

/* Smoothed as TCP's (RFC 6298). */
static void take_time(struct simhca_congestion *congestion, uint64_t ns)
{
	congestion->timed_at = 0;
	congestion->round_trip_ns =
		congestion->round_trip_ns ? (7 * congestion->round_trip_ns + ns) / 8 : ns;
	if (!congestion->round_trip_ns)
		congestion->round_trip_ns = 1;
}

uint64_t simhca_congestion_patience(const struct simhca_congestion *congestion)
{
	uint64_t ns = 4 * congestion->round_trip_ns;

	if (!ns || congestion->silences >= MOST_SILENCES)
		return 0;
	return (ns < LEAST_PATIENCE_NS ? LEAST_PATIENCE_NS : ns) << congestion->silences;
}

void simhca_congestion_acknowledged(struct simhca_congestion *congestion, uint32_t una,
				    uint32_t psn, uint64_t now_ns)
{
	uint32_t psns = (uint32_t)simhca_psn_cmp(psn, una);

	if (congestion->timed_at && simhca_psn_cmp(psn, congestion->timed_psn) > 0)
		take_time(congestion, now_ns - congestion->timed_at);
	congestion->silences = 0;
	congestion->behind += psns;
	if (congestion->window < congestion->enough) {
		congestion->window += psns;
	} else {
		congestion->credit += psns;
		if (congestion->credit >= congestion->window) {
			congestion->credit = 0;
			congestion->window++;
		}
	}
	if (congestion->window > SIMHCA_WINDOW_MOST)
		congestion->window = SIMHCA_WINDOW_MOST;
}

void simhca_congestion_lost(struct simhca_congestion *congestion)
{
	congestion->timed_at = 0; /* it is sent again: which one is answered nobody knows */
	if (congestion->behind < congestion->window)
		return;
	congestion->behind = congestion->credit = 0;
	congestion->window /= 2;
	if (congestion->window < SIMHCA_WINDOW_LEAST)
		congestion->window = SIMHCA_WINDOW_LEAST;
	congestion->enough = congestion->window;
}

void simhca_congestion_silence(struct simhca_congestion *congestion)
{
	uint32_t half = congestion->window / 2;

	congestion->timed_at = 0;
	congestion->silences++;
	congestion->behind = congestion->credit = 0;
	congestion->enough = half < SIMHCA_WINDOW_LEAST ? SIMHCA_WINDOW_LEAST : half;
	congestion->window = SIMHCA_WINDOW_LEAST;
}
