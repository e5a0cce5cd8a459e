/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What a QP has done, for who watches it: `simhca stat` and `top`. Each part is written by who has
 * that side's turn, by plain stores to lines that nobody else writes; the daemon's main thread
 * reads it at any time.
 *
 * The time that a message takes, from when it is taken up until it completes, is measured of all of
 * the first ones, and then of one in sixteen or so: a clock costs as much as all else here. Which
 * ones is left to chance, as programs post in patterns.
 */
#ifndef LIBSIMHCA_USAGE_H
#define LIBSIMHCA_USAGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "simhca-info.h"

struct simhca_usage {
	/* requester and completer; _Alignas would align each name of a declaration, so it has one */
	_Alignas(64) _Atomic uint64_t messages;
	_Atomic uint64_t bytes, reads, read_bytes;
	_Atomic uint64_t retries;      /* time-outs, and NAKs for a gap */
	_Atomic uint64_t rnr_naks;     /* that the peer has sent */
	_Atomic uint64_t rnr_delay_ns; /* that these asked for, in all */
	_Atomic uint64_t errors;       /* work requests that failed, without flushes */
	/* Its own: of the message that is timed now, since_ns 0: none is. */
	uint64_t since_ns;
	uint32_t timed, next_timed; /* ring indices */
	uint32_t times, random;
	uint32_t unsignaled, next_send; /* in a row, up to that ring index */
	_Atomic uint32_t most_unsignaled;

	/* responder */
	_Alignas(64) _Atomic uint64_t received;
	_Atomic uint64_t received_bytes;
	_Atomic uint64_t no_receive; /* RNR NAKs that it has sent */
	_Atomic uint64_t too_early;  /* of these, before any receive was posted */

	_Alignas(64) _Atomic uint32_t latency[SIMHCA_LATENCIES];
};

/* NULL: out of memory. */
struct simhca_usage *simhca_usage_create(void);

/* By who holds the side of the QP. */
static inline void simhca_usage_add(_Atomic uint64_t *count, uint64_t n)
{
	/* relaxed: numbers by themselves. */
	atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + n,
			      memory_order_relaxed);
}

/*
 * The send of this ring index completes, and tells of it or not. Those that its program has carried itself
 * are not told here, so the row begins anew behind them.
 */
static inline void simhca_usage_signal(struct simhca_usage *usage, uint32_t index, bool signaled)
{
	uint32_t before = index == usage->next_send ? usage->unsignaled : 0;

	usage->next_send = index + 1;
	usage->unsignaled = signaled ? 0 : before + 1;
	if (__builtin_expect(usage->unsignaled > atomic_load_explicit(&usage->most_unsignaled,
								      memory_order_relaxed),
			     0))
		atomic_store_explicit(&usage->most_unsignaled, usage->unsignaled,
				      memory_order_relaxed);
}

/* Whether the message of this ring index, which is taken up, is to be timed. */
static inline bool simhca_usage_is_due(const struct simhca_usage *usage, uint32_t index)
{
	return __builtin_expect((int32_t)(index - usage->next_timed) >= 0, 0);
}
void simhca_usage_begin(struct simhca_usage *usage, uint32_t index, uint64_t now_ns);
/* Whether it is the one. */
static inline bool simhca_usage_is_timed(const struct simhca_usage *usage, uint32_t index)
{
	return __builtin_expect(usage->since_ns && usage->timed == index, 0);
}
void simhca_usage_end(struct simhca_usage *usage, uint64_t now_ns);
/* The QP begins anew: nothing is timed. */
void simhca_usage_forget(struct simhca_usage *usage);

/* Adds what it says to a sum. Any thread. */
void simhca_usage_sum(const struct simhca_usage *usage, struct simhca_usage_sum *sum);

#endif
