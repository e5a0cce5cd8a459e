/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What a requester waits for: an answer, its own pages, or that a peer can accept its packet. */
#include "engine/engine.h"
#include "link.h"
#include "packet/packet.h"
#include "qp.h"
#include "requester.h"

/* Another engine holds the responder: how long until the next try; after many a longer time. */
#define BUSY_NS (20 * 1000)
#define BUSY_MOST 500
#define BUSY_LONG_NS (1000 * 1000)

/* A QP without a time-out reports its peer as silent after so long; and one whose time-out is twice this, or more. */
#define SILENCE_NS (1000ull * 1000 * 1000)
#define LONG_SILENCE_NS (4 * SILENCE_NS)

/* RNR NAK timer codes (IBTA vol. 1, table 45), in units of 10 us. */
static const uint32_t rnr_timer_10us[32] = {
	65536, 1,    2,	   3,	 4,    6,     8,     12,    16,	   24,	  32,
	48,    64,   96,   128,	 192,  256,   384,   512,   768,   1024,  1536,
	2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
};

enum simhca_next simhca_wait_for(struct simhca_qp *qp, enum simhca_wait what, uint64_t delay_ns)
{
	qp->req.wait = what;
	qp->req.deadline = delay_ns ? simhca_engine_arm_timer(&qp->task, delay_ns) : UINT64_MAX;
	return SIMHCA_NEXT_WAIT;
}

uint64_t simhca_rnr_delay(uint8_t rnr_timer)
{
	return rnr_timer_10us[rnr_timer & SIMHCA_RNR_TIMER_MASK] * 10000ull;
}

enum simhca_next simhca_wait_rnr(struct simhca_qp *qp, uint8_t rnr_timer)
{
	simhca_usage_add(&qp->usage->rnr_delay_ns, simhca_rnr_delay(rnr_timer));
	return simhca_wait_for(qp, SIMHCA_WAIT_RNR, simhca_rnr_delay(rnr_timer));
}

enum simhca_next simhca_wait_busy(struct simhca_qp *qp)
{
	/* What has taken long, such as memory of a program that blocks, will take longer. */
	return simhca_wait_for(qp, SIMHCA_WAIT_BUSY,
			       qp->req.busy++ < BUSY_MOST ? BUSY_NS : BUSY_LONG_NS);
}

uint64_t simhca_ack_timeout(struct simhca_qp *qp, uint64_t *adaptive_ns)
{
	uint64_t timeout = qp->qpc->timeout ? 4096ull << (qp->qpc->timeout & 31) : 0;

	*adaptive_ns = 0;
	if (qp->link->ack_timeout)
		*adaptive_ns =
			qp->link->ack_timeout(qp, qp->qpc->retry_cnt - qp->req.retries, &timeout);
	return timeout;
}

/*
 * A QP without a time-out waits without end, and reports that once. One with a time-out of up to 2.4 hours reports it
 * first, and waits for the rest of that then.
 */
enum simhca_next simhca_wait_answer(struct simhca_qp *qp)
{
	uint64_t adaptive, timeout, rest = 0;

	if (qp->req.wait == SIMHCA_WAIT_ANSWER)
		return SIMHCA_NEXT_WAIT;
	timeout = simhca_ack_timeout(qp, &adaptive);
	qp->requester.long_end = 0;
	if (!timeout && !qp->req.silence_logged) {
		timeout = SILENCE_NS;
	} else if (timeout >= 2 * LONG_SILENCE_NS && !qp->req.silence_logged) {
		rest = timeout - LONG_SILENCE_NS;
		timeout = LONG_SILENCE_NS;
	}
	qp->requester.adaptive = adaptive && (!timeout || adaptive < timeout);
	simhca_wait_for(qp, SIMHCA_WAIT_ANSWER, qp->requester.adaptive ? adaptive : timeout);
	if (rest && !qp->requester.adaptive)
		qp->requester.long_end = qp->req.deadline + rest;
	return SIMHCA_NEXT_WAIT;
}

bool simhca_wait_rest(struct simhca_qp *qp)
{
	const uint64_t end = qp->requester.long_end, now = simhca_engine_now(qp->task.engine);

	qp->requester.long_end = 0;
	if (end <= now)
		return false;
	simhca_wait_for(qp, SIMHCA_WAIT_ANSWER, end - now);
	return true;
}

bool simhca_wait_link(struct simhca_qp *qp, const struct simhca_handover *handover)
{
	switch (handover->outcome) {
	case SIMHCA_ABSENT: /* for as long as it takes, and whatever the transport */
		simhca_wait_for(qp, SIMHCA_WAIT_PEER, simhca_rnr_delay(handover->rnr_timer));
		return true;
	case SIMHCA_LATE:
		simhca_wait_for(qp, SIMHCA_WAIT_BUSY, handover->delay_ns);
		return true;
	case SIMHCA_ELSEWHERE:
		simhca_engine_schedule(handover->engine, &qp->task);
		return true;
	case SIMHCA_BUSY:
		if (qp->req.busy < BUSY_MOST) {
			simhca_wait_busy(qp);
			return true;
		}
		break; /* it counts as lost */
	case SIMHCA_ACCEPTED:
	case SIMHCA_UNREADABLE:
		break;
	}
	qp->req.busy = 0;
	return false;
}

bool simhca_wait_is_over(struct simhca_qp *qp)
{
	switch (qp->req.wait) {
	case SIMHCA_WAIT_NOTHING:
	case SIMHCA_WAIT_ANSWER: /* meanwhile it may send more */
		return true;
	case SIMHCA_WAIT_FAULT:
		if (simhca_fault_under_way(&qp->faults, qp->req.fault))
			return false;
		break;
	case SIMHCA_WAIT_PEER:
		/* Also if the peer has said so before the wait began: it may have been for this packet. */
		if (atomic_exchange(&qp->requester.peer_ready, false))
			break;
		/* fall through */
	default:
		/* A timer that fired for an earlier wait does not count. */
		if (atomic_load(&qp->task.timer_fired) != qp->req.deadline)
			return false;
	}
	qp->req.wait = SIMHCA_WAIT_NOTHING;
	return true;
}
