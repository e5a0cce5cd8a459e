/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include "link/wire/congestion.h"
#include "queue/psn.h"

/*
 * The least adaptive time-out. It is LEAST_ADAPTIVE_NS, as a peer that is kept from its CPU is silent for as
 * long as others have that. But the first one in a row is FIRST_ADAPTIVE_NS, as nothing else tells
 * that the last packet was lost, which in a small window is half of the packets; and so are all
 * where packets are lost by chance, as the next one may be lost as well.
 */
#define FIRST_ADAPTIVE_NS 1000000ull
#define LEAST_ADAPTIVE_NS 4000000ull
#define MOST_SILENCES 8
/* Answers to what was sent again, without one to what was sent once. */
#define MOST_BELIEVED 8
/*
 * Doublings of the QP's time-out: four times as long is what the specification allows (IBTA vol. 1,
 * 9.7.6.1.3), where nobody answers. Where answers come, but later than that, it is made as long as they
 * take, up to what an answer may take on any network (RFC 6298, 2.1): where answers are late because
 * packets are lost, a short time-out would otherwise end as one of minutes.
 */
#define MOST_TRIES 2
#define MOST_BACKED_OFF 18 /* so many make a second of the shortest time-out, 4.096 us */
#define LONGEST_BACKED_OFF_NS 1000000000ull

/* Answers that take so many times as long as the shortest lately are late by queues. */
#define WITH_QUEUES 3
/*
 * Lately: in this period and the one before it. A way may become longer, as by another route, and then a shorter
 * time is forgotten (BBR's min_rtt is one of the last ten seconds as well: draft-cardwell-iccrg-bbr).
 */
#define PERIOD_NS 10000000000ull
#define LOSSY_FOR 8

#define PSN SIMHCA_WINDOW_PSN

void simhca_congestion_begin(struct simhca_congestion *congestion)
{
	/* relaxed: others look at this one alone. */
	atomic_store_explicit(&congestion->window, SIMHCA_WINDOW_FIRST * PSN, memory_order_relaxed);
	congestion->ssthresh = SIMHCA_WINDOW_MOST * PSN;
	congestion->credit = 0;
	congestion->behind = SIMHCA_WINDOW_FIRST * PSN;
	congestion->rested_at = 0;
	congestion->timed_at = 0;
	congestion->timed_psn = 0;
	congestion->round_trip_ns = congestion->shortest_ns = 0;
	congestion->shortest_of_period_ns = congestion->period_ns = 0;
	congestion->guessed = false;
	congestion->lossy = 0;
	congestion->silences = congestion->backed_off = 0;
	congestion->resent_at = 0;
	congestion->believed = 0;
}

uint32_t simhca_congestion_window(const struct simhca_congestion *congestion)
{
	uint32_t parts = atomic_load_explicit(&congestion->window, memory_order_relaxed);

	return parts < PSN ? 1 : parts / PSN;
}

uint64_t simhca_congestion_rest(struct simhca_congestion *congestion, uint64_t now_ns)
{
	uint64_t ns;

	if (congestion->window >= PSN)
		return 0;
	ns = congestion->round_trip_ns * PSN / congestion->window;
	if (now_ns - congestion->rested_at < ns)
		return congestion->rested_at + ns - now_ns;
	congestion->rested_at = now_ns;
	return 0;
}

void simhca_congestion_sent(struct simhca_congestion *congestion, uint32_t psn, uint64_t now_ns)
{
	if (congestion->timed_at)
		return;
	congestion->timed_at = now_ns;
	congestion->timed_psn = psn;
}

static void answers_in_time(struct simhca_congestion *congestion)
{
	congestion->silences = congestion->backed_off = 0;
	congestion->believed = 0;
}

static void begin_period(struct simhca_congestion *congestion, uint64_t shortest_ns,
			 uint64_t now_ns)
{
	congestion->shortest_ns = shortest_ns;
	congestion->shortest_of_period_ns = 0;
	congestion->period_ns = now_ns;
}

static void take_shortest(struct simhca_congestion *congestion, uint64_t ns, uint64_t now_ns)
{
	const uint64_t since = now_ns - congestion->period_ns;

	if (!congestion->shortest_ns || since >= 2 * PERIOD_NS)
		begin_period(congestion, ns, now_ns);
	else if (since >= PERIOD_NS)
		begin_period(congestion, congestion->shortest_of_period_ns, now_ns);
	if (!congestion->shortest_of_period_ns || ns < congestion->shortest_of_period_ns)
		congestion->shortest_of_period_ns = ns;
	if (ns < congestion->shortest_ns)
		congestion->shortest_ns = ns;
}

/* Smoothed as TCP's (RFC 6298). */
static void take_round_trip(struct simhca_congestion *congestion, uint64_t ns, uint64_t now_ns)
{
	if (!ns)
		ns = 1; /* 0: unknown */
	if (congestion->round_trip_ns && !congestion->guessed) {
		congestion->round_trip_ns = (7 * congestion->round_trip_ns + ns) / 8;
	} else {
		congestion->round_trip_ns = ns;
		congestion->shortest_ns = 0;
	}
	congestion->guessed = false;
	take_shortest(congestion, ns, now_ns);
}

/*
 * Where much is lost nothing may be timed for long, and until then each loss would cost a time-out. An
 * answer within a millisecond after it was asked for again is hardly one to what was sent a time-out
 * ago, so it is as good as a measured one until there is one; for if answers take just as long as a
 * time-out or two, it is. Who guesses too little asks some times too often, each time twice as late.
 */
static void guess(struct simhca_congestion *congestion, uint64_t ns)
{
	congestion->round_trip_ns = ns ? ns : 1;
	congestion->guessed = true;
	if (ns < FIRST_ADAPTIVE_NS)
		congestion->shortest_ns = congestion->round_trip_ns;
}

/* Whether it is known how long answers take on a way without queues. */
static bool is_known(const struct simhca_congestion *congestion)
{
	return congestion->shortest_ns;
}

/*
 * What is answered as long after it was sent again as answers take was lost, and has not taken longer
 * than was waited for it: on a way that has become that much longer this happens by chance, or each
 * time. So it is believed some times, and then something has to be answered that was sent once.
 */
static void take_answer(struct simhca_congestion *congestion, uint64_t ns)
{
	unsigned int believed = congestion->believed;

	if (!congestion->round_trip_ns)
		guess(congestion, ns);
	if (!is_known(congestion) || believed == MOST_BELIEVED ||
	    ns < congestion->round_trip_ns / 2 || ns > congestion->round_trip_ns * 2)
		return;
	answers_in_time(congestion);
	congestion->believed = believed + 1;
}

static void take_time(struct simhca_congestion *congestion, uint64_t now_ns)
{
	const uint64_t ns = now_ns - congestion->timed_at;

	congestion->timed_at = 0;
	answers_in_time(congestion);
	take_round_trip(congestion, ns, now_ns);
	if (congestion->lossy)
		congestion->lossy--;
}

static uint64_t larger(uint64_t one, uint64_t other)
{
	return one > other ? one : other;
}

static uint64_t smaller(uint64_t one, uint64_t other)
{
	return one < other ? one : other;
}

uint64_t simhca_congestion_timeout(const struct simhca_congestion *congestion, unsigned int tries,
				   uint64_t *timeout_ns)
{
	uint64_t answer = 4 * congestion->round_trip_ns, adaptive = 0;
	unsigned int silences = congestion->silences + congestion->backed_off;

	if (answer && silences < MOST_SILENCES)
		adaptive = larger(answer, silences && !congestion->lossy ? LEAST_ADAPTIVE_NS
									 : FIRST_ADAPTIVE_NS)
			   << silences;
	if (tries > MOST_TRIES)
		tries = MOST_TRIES;
	if (*timeout_ns) {
		uint64_t most = larger(LONGEST_BACKED_OFF_NS, *timeout_ns << MOST_TRIES);
		uint64_t late = smaller(*timeout_ns << congestion->backed_off, most);

		*timeout_ns = larger(larger(*timeout_ns << tries, late), answer);
	}
	return adaptive;
}

/* By a PSN in a window of each PSN, by all QPs that share the way; at most twice as large. */
static void grow(struct simhca_congestion *congestion, uint64_t parts, uint32_t flows)
{
	uint64_t step = (uint64_t)congestion->window * flows, more;

	congestion->credit += parts * PSN;
	more = congestion->credit / step;
	congestion->credit %= step;
	congestion->window += more < congestion->window ? (uint32_t)more : congestion->window;
}

/* Somebody has answered. What was waited in vain is remembered until something is answered in time. */
static void end_silence(struct simhca_congestion *congestion)
{
	congestion->resent_at = 0;
	congestion->backed_off += congestion->silences;
	if (congestion->backed_off > MOST_BACKED_OFF)
		congestion->backed_off = MOST_BACKED_OFF;
	congestion->silences = 0;
}

void simhca_congestion_acknowledged(struct simhca_congestion *congestion, uint32_t una,
				    uint32_t psn, uint64_t now_ns, uint32_t flows)
{
	uint64_t parts = (uint64_t)simhca_psn_distance(una, psn) * PSN;

	if (congestion->timed_at && simhca_psn_cmp(psn, congestion->timed_psn) > 0)
		take_time(congestion, now_ns);
	else if (congestion->resent_at)
		take_answer(congestion, now_ns - congestion->resent_at);
	end_silence(congestion);
	congestion->behind += parts;
	if (congestion->window < congestion->ssthresh)
		congestion->window += (uint32_t)parts;
	else
		grow(congestion, parts, flows);
	if (congestion->window > SIMHCA_WINDOW_MOST * PSN)
		congestion->window = SIMHCA_WINDOW_MOST * PSN;
}

/* Half of the window, but not below least; a window that is below already stays. */
static uint32_t half_of(uint32_t window, uint32_t least)
{
	if (window <= least)
		return window;
	return window / 2 < least ? least : window / 2;
}

/* Once for all losses of what was under way together, as the first of them tells. */
static void fall(struct simhca_congestion *congestion, uint32_t least)
{
	if (congestion->behind < congestion->window)
		return;
	congestion->behind = congestion->credit = 0;
	congestion->window = congestion->ssthresh = half_of(congestion->window, least);
}

/* A NAK is an answer as well. What is timed is sent again then: which one is answered nobody knows. */
static void take_nak(struct simhca_congestion *congestion, uint64_t now_ns)
{
	if (!congestion->timed_at)
		return;
	/* To what was sent once. */
	answers_in_time(congestion);
	/* To a packet that went with the one that is timed, maybe just before it. */
	if (!congestion->round_trip_ns)
		guess(congestion, now_ns - congestion->timed_at);
	congestion->timed_at = 0;
}

void simhca_congestion_lost(struct simhca_congestion *congestion, uint64_t now_ns, uint32_t flows)
{
	const bool by_chance = is_known(congestion) &&
			       congestion->round_trip_ns < WITH_QUEUES * congestion->shortest_ns;
	uint32_t least = by_chance ? SIMHCA_WINDOW_LOSSY / (flows ? flows : 1) : 0;

	if (by_chance)
		congestion->lossy = LOSSY_FOR;
	take_nak(congestion, now_ns);
	congestion->resent_at = 0;
	fall(congestion, (least > SIMHCA_WINDOW_LEAST ? least : SIMHCA_WINDOW_LEAST) * PSN);
}

void simhca_congestion_not_ready(struct simhca_congestion *congestion, uint64_t now_ns)
{
	/* While the peer is not ready nothing is sent for the first time, which would be believed. */
	if (congestion->timed_at)
		take_nak(congestion, now_ns);
	else if (congestion->resent_at)
		take_answer(congestion, now_ns - congestion->resent_at);
	else
		congestion->believed = 0;
	end_silence(congestion);
}

void simhca_congestion_marked(struct simhca_congestion *congestion)
{
	fall(congestion, SIMHCA_WINDOW_PART);
}

void simhca_congestion_silence(struct simhca_congestion *congestion, uint64_t now_ns)
{
	congestion->timed_at = 0;
	congestion->resent_at = now_ns;
	congestion->silences++;
	congestion->behind = congestion->credit = 0;
	congestion->ssthresh = half_of(congestion->window, SIMHCA_WINDOW_LEAST * PSN);
	if (congestion->window > SIMHCA_WINDOW_LEAST * PSN)
		congestion->window = SIMHCA_WINDOW_LEAST * PSN;
}
