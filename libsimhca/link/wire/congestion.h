/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * How much a QP may have under way on a wire that others use as well: its window falls by half when
 * something is lost or the network says that it is full, and grows by one PSN with each window that
 * arrives, or by the nth part of one if n QPs go the same way; at first, and after silence, with
 * each PSN (as TCP's: RFC 5681, and, for several that go the same way, RFC 6356).
 *
 * A packet may be lost by chance, but none is marked by chance. So losses never make the window less than
 * SIMHCA_WINDOW_LEAST, in which the next loss is still noticed. Marks can make it less than one PSN: then the
 * QP rests after each packet. Where answers come early the queues are empty, and losses are by chance (as TCP Veno
 * tells them): these leave SIMHCA_WINDOW_LOSSY, as in a window of two every other packet has none behind it
 * by which its loss would be noticed.
 *
 * Also after how long all is sent again if an answer is missing: the transport's timer, made for any network,
 * would find that out a hundred times later. ConnectX calls this adaptive retransmission.
 */
#ifndef LIBSIMHCA_CONGESTION_H
#define LIBSIMHCA_CONGESTION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* The lower two bits of a traffic class (RFC 3168). */
#define SIMHCA_ECN_MASK 3u
#define SIMHCA_ECN_CAPABLE 2u
static inline bool simhca_ecn_is_marked(uint8_t traffic_class)
{
	return (traffic_class & SIMHCA_ECN_MASK) == SIMHCA_ECN_MASK;
}

/* A QP's requester has it, under its lock. */
struct simhca_congestion {
	_Atomic uint32_t window; /* others look at it; in units of SIMHCA_WINDOW_PSN, as these: */
	uint32_t ssthresh;	 /* below it the window grows by each PSN (slow start, RFC 5681) */
	uint64_t credit;	 /* acknowledged above ssthresh, and has not made it grow yet */
	uint64_t
		behind; /* acknowledged since the window fell: until that is a window, losses are of one event */
	uint64_t rested_at; /* when it sent last, with a window of less than one PSN */
	/* How long an answer takes: one request is timed at a time. */
	uint64_t timed_at; /* 0: none is */
	uint32_t timed_psn;
	uint64_t round_trip_ns; /* smoothed: SRTT of RFC 6298; 0: unknown */
	bool guessed;		/* that is by what may be an answer to something else */
	/*
	 * The shortest time that was measured, or guessed to be short, lately (congestion.c); 0: unknown. And
	 * that of the period which began at period_ns; 0: there was none in it yet.
	 */
	uint64_t shortest_ns, shortest_of_period_ns, period_ns;
	unsigned int lossy;    /* times that are taken until losses by chance are forgotten */
	unsigned int silences; /* time-outs since something was acknowledged */
	/*
	 * And before, since an answer was timed: what is asked for twice is not timed (Karn's rule),
	 * so whoever asks too soon must wait longer until something is answered in time (RFC 6298, 5.5).
	 */
	unsigned int backed_off;
	uint64_t
		resent_at; /* after a silence, until something is acknowledged or lost; 0: nothing was */
	/* answers to that which were believed, since one to what was sent once */
	unsigned int believed;
};

/* PSNs */
#define SIMHCA_WINDOW_FIRST 32 /* what a socket's buffer holds by default */
#define SIMHCA_WINDOW_LEAST 2  /* after silence */
#define SIMHCA_WINDOW_LOSSY 16 /* after losses by chance, of all QPs that go the same way */
#define SIMHCA_WINDOW_MOST 512
/* What a PSN is in `window`, and the least that marks leave of one. */
#define SIMHCA_WINDOW_PSN 1024u
#define SIMHCA_WINDOW_PART (SIMHCA_WINDOW_PSN / 64)

void simhca_congestion_begin(struct simhca_congestion *congestion);
/* A request for which an answer is wanted goes out for the first time. */
void simhca_congestion_sent(struct simhca_congestion *congestion, uint32_t psn, uint64_t now_ns);
/*
 * All before psn has arrived; una: all before that was known to; flows: QPs that go this way. now_ns
 * counts if timed_at or resent_at is not 0.
 */
void simhca_congestion_acknowledged(struct simhca_congestion *congestion, uint32_t una,
				    uint32_t psn, uint64_t now_ns, uint32_t flows);
/*
 * A packet was lost, as a NAK for one that came after it says (PSN sequence error). now_ns counts if timed_at is
 * not 0; flows: as above.
 */
void simhca_congestion_lost(struct simhca_congestion *congestion, uint64_t now_ns, uint32_t flows);
/* An RNR NAK: the peer is there, and nothing is lost. All is sent again later. now_ns: as above, or resent_at. */
void simhca_congestion_not_ready(struct simhca_congestion *congestion, uint64_t now_ns);
/* The network says that it is full. */
void simhca_congestion_marked(struct simhca_congestion *congestion);
/* A time-out: no answer has come, and nothing is known of the network any more. All is sent again now. */
void simhca_congestion_silence(struct simhca_congestion *congestion, uint64_t now_ns);

/* PSNs that may be under way: one at least. */
uint32_t simhca_congestion_window(const struct simhca_congestion *congestion);
/* For how many ns a packet has to wait as the window is less than one PSN; 0: it goes. */
uint64_t simhca_congestion_rest(struct simhca_congestion *congestion, uint64_t now_ns);

/*
 * How long to wait for an answer. *timeout_ns: the QP's time-out, 0: it has none. It becomes longer when
 * `tries` in a row had no answer by then, and when answers on this way take longer. Returns after how
 * many ns all is sent again if that is sooner (adaptive retransmission), which is no retry; 0: it is not.
 */
uint64_t simhca_congestion_timeout(const struct simhca_congestion *congestion, unsigned int tries,
				   uint64_t *timeout_ns);

#endif
