/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The fast path: what a program that carries the messages of its own QP shares with the device,
 * in its context memory. No peer sees it.
 *
 * The program acquires its requester and the peer's responder, and either does all of
 * a message or nothing; what it cannot do it leaves to the device, and rings for it. It writes to
 * the peer's memory by a right that the kernel gave it. It may do so while the QPC of both QPs has
 * in `fastpath_epoch` what it had when the peer was attached, to be read when both are acquired.
 */
#ifndef SIMHCA_ABI_FASTPATH_H
#define SIMHCA_ABI_FASTPATH_H

/* Why a program left a message to the device. */
enum simhca_slow_reason {
	SIMHCA_SLOW_OWNER,   /* the device holds one of the two */
	SIMHCA_SLOW_STATE,   /* a QP, or the port, is not in a state to send or receive */
	SIMHCA_SLOW_WAITS,   /* the device has something under way */
	SIMHCA_SLOW_REQUEST, /* it is none of those that the fast path carries */
	SIMHCA_SLOW_MEMORY,  /* a key that is not such a region's, or gives no such right */
	SIMHCA_SLOW_RECEIVE, /* no receive that is long enough */
	SIMHCA_SLOW_CQ,	     /* a CQ has no room */
	SIMHCA_SLOW_EVENT,   /* it is carried, and only an event is left, that it could not raise */
	SIMHCA_SLOW_COPY,    /* the kernel did not copy it, or others are at that memory */
	SIMHCA_SLOW_ADDRESS, /* UD: the QP is not attached to whom it is for */
	SIMHCA_SLOW_REASONS,
};

/*
 * How long messages took, as a histogram: eight buckets for each power of two, from 128 ns on, so
 * that a time is known to an eighth.
 */
#define SIMHCA_LATENCIES 240
#define SIMHCA_LATENCY_SUB_SHIFT 3
#define SIMHCA_LATENCY_FIRST_SHIFT 7

#define SIMHCA_FASTPATH_LATENCIES 128 /* what took more than 8 ms is in the last one */

static inline uint32_t simhca_latency_bucket(uint64_t ns)
{
	uint32_t shift, bucket;

	if (ns >> SIMHCA_LATENCY_FIRST_SHIFT == 0)
		return 0;
	shift = 63 - (uint32_t)__builtin_clzll(ns);
	bucket = (shift - SIMHCA_LATENCY_FIRST_SHIFT) << SIMHCA_LATENCY_SUB_SHIFT |
		 (uint32_t)(ns >> (shift - SIMHCA_LATENCY_SUB_SHIFT) &
			    ((1u << SIMHCA_LATENCY_SUB_SHIFT) - 1));
	return bucket < SIMHCA_LATENCIES ? bucket : SIMHCA_LATENCIES - 1;
}

/* The longest time that counts in a bucket. */
static inline uint64_t simhca_latency_ns(uint32_t bucket)
{
	uint32_t shift = SIMHCA_LATENCY_FIRST_SHIFT + (bucket >> SIMHCA_LATENCY_SUB_SHIFT);
	uint64_t part = bucket & ((1u << SIMHCA_LATENCY_SUB_SHIFT) - 1);

	return (1ull << shift) + ((part + 1) << (shift - SIMHCA_LATENCY_SUB_SHIFT)) - 1;
}

#define SIMHCA_FASTPATH_RECV_WORDS 66 /* SIMHCA_RECV_COPY_BYTES */

struct simhca_fastpath {
	/* Odd: in a step. What the step found in device memory is used until it is even again. */
	_Atomic uint32_t guard;
	/*
	 * Events that are due for completions that were published when the CQ was armed, which is
	 * used up: of the send CQ, and of the peer's. The device raises them when the doorbell of
	 * the QP rings, or its program has ended. They are those that the step did not raise.
	 */
	_Atomic uint32_t send_events, recv_events;
	_Atomic uint32_t wants;	   /* a step found the device at work for the QP */
	_Atomic uint64_t messages; /* that the program carried */
	/* of these, as the port counts them, on both sides */
	_Atomic uint64_t bytes, packets, writes, reads;
	_Atomic uint64_t payload, read_payload;	      /* bytes, of reads and of the others */
	_Atomic uint64_t handed[SIMHCA_SLOW_REASONS]; /* times that one was left to the device */
	/* The device leaves what is posted to the next step, for a moment; a step clears it. */
	_Atomic uint64_t left;
	/* As an event due: << 32: simhca_srq_mem.limit, which a claim has reached; QPN of who has that SRQ. */
	_Atomic uint64_t srq_limit;
	/* Not 0: the step raises such an event just now. If it ends there, the device does so. */
	_Atomic uint32_t send_notifying, recv_notifying;
	_Atomic uint64_t events_raised; /* by steps */
	/*
	 * UD, which does not acquire the responder that a datagram is for. So what is under way
	 * there is said here, before it begins. If it ends in the middle, or the step cannot go on
	 * once it has claimed a receive, the device recovers it; until then it carries all.
	 */
	_Atomic uint32_t dest;	/* QPN; 0: nothing is under way, or left to be recovered */
	_Atomic uint32_t index; /* of the datagram, in the SQ's ring: committed once that is done */
	_Atomic uint32_t before;     /* the latest claim there when it began */
	_Atomic uint32_t event_peer; /* QPN of whom recv_events and recv_notifying are about */
	_Atomic uint64_t atomics;    /* of the messages: those that fetch */
	uint64_t reserved0[4];
	_Atomic uint32_t latency[SIMHCA_FASTPATH_LATENCIES]; /* of a sample of the messages */
	/* UD: the receive, as it was claimed. What other QPs have ends before it. */
	uint64_t recv[SIMHCA_FASTPATH_RECV_WORDS];
};
SIMHCA_ABI_SIZE(struct simhca_fastpath, 1280);

/* How much of it a QP of that type has (enum simhca_qp_type). */
static inline uint64_t simhca_fastpath_bytes(uint32_t qp_type)
{
	return qp_type == SIMHCA_QPT_UD ? sizeof(struct simhca_fastpath)
					: offsetof(struct simhca_fastpath, recv);
}

#endif
