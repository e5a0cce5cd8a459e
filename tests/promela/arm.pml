/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Arming a CQ, completing, and sleeping on the channel: that no wake-up is lost, that there is an
 * event for each arm at most and none without, and that the missed-event hint is exact.
 *
 * The letters are those of providers/simhca/cq.c and libsimhca/proto/cq.c. Two engines add completions
 * to two CQs on one channel; the program polls, arms and sleeps; another thread of it arms the first
 * CQ for solicited completions now and then. A run ends when all completions were polled. A lost
 * wake-up is a program that sleeps in a world where nothing happens any more: spin calls it
 * an invalid end state.
 *
 * Memory. Every step is atomic and at once visible to all, but for what a full barrier is there
 * to prevent: a load that is done before the store in front of it is seen. Without the barrier both
 * orders are possible, and all are tried.
 *
 * Each of these, defined, takes one part of the protocol out, and the model must then fail:
 *	NO_SECOND_LOOK		the program sleeps after it has armed, without A3
 *	NO_PROGRAM_BARRIER	A3 may come before A1 is seen
 *	NO_DEVICE_BARRIER	D3 may come before D1 is seen
 *	EVENT_FIRST		D4 raises the event, and then takes back whatever arm there is
 *	NO_CLEAR		D4 leaves the CQ armed
 *	NO_RETRY		D4 gives up when another arm has come since D3
 *	NO_STRONGER		a weaker arm replaces a stronger one
 *	HINT_ALWAYS		the hint says "poll again" also when nothing is there
 *	HINT_NEVER		the hint says "nothing missed" always
 */
#define CQS 2
#define ENGINES 2
#define FIRST 2		/* completions of CQ 0 */
#define SECOND 1	/* of CQ 1 */
#define OTHER_ARMS 1	/* by the other thread */

#define NONE 0
#define SOLICITED 1
#define NEXT 2
/* The word of struct simhca_cq_mem: what for, and the count of arms. */
#define ARM(bits, count) (((count) & 3) * 4 + (bits))
#define BITS(arm) ((arm) & 3)
#define COUNT(arm) ((arm) / 4)

byte pi[CQS], ci[CQS];
byte arm[CQS];
bool locked[CQS];		/* cq->lock */
chan channel = [CQS * 4] of { byte };

/* Of the model alone. */
byte to_come[CQS];		/* completions that no engine has taken on yet */
byte unanswered[CQS];		/* arms without an event so far */
byte finished;

inline raise(q)
{
	assert(unanswered[q] > 0);
	unanswered[q]--;
	channel ! q;
}

/* D3 has read seen. D4; or nothing, when the CQ is not armed for this completion. */
inline take_back(q, seen, matches)
{
	do
	:: BITS(seen) == NONE || BITS(seen) < matches -> break
	:: else ->
#ifdef EVENT_FIRST
		raise(q);
		arm[q] = ARM(NONE, COUNT(arm[q]));
		break
#else
		atomic {
			if
			:: arm[q] == seen ->
#ifndef NO_CLEAR
				arm[q] = ARM(NONE, COUNT(seen));
#endif
				raise(q);
				break
			:: else ->
#ifdef NO_RETRY
				break
#else
				seen = arm[q]
#endif
			fi
		}
#endif
	od
}

/* simhca_cq_push(). A completion that matches 2 raises an event under NEXT alone, 1 under both. */
proctype engine()
{
	byte q, seen, matches;

	do
	:: atomic {
		if
		:: to_come[0] > 0 -> q = 0
		:: to_come[1] > 0 -> q = 1
		:: to_come[0] == 0 && to_come[1] == 0 -> break
		fi;
		to_come[q]--;
		if :: q == 0 -> matches = SOLICITED :: matches = NEXT fi
	   }
#ifdef NO_DEVICE_BARRIER
	   atomic { !locked[q] -> locked[q] = true };
	   if
	   :: seen = arm[q]; pi[q]++
	   :: pi[q]++; seen = arm[q]
	   fi;
#else
	   atomic { !locked[q] -> locked[q] = true; pi[q]++ };	/* D1, D2 */
	   seen = arm[q];		/* D3 */
#endif
	   take_back(q, seen, matches);
	   atomic { locked[q] = false; q = 0; seen = 0; matches = 0 }
	od;
	finished++
}

/* A1. An exchange that fails changes nothing, so the one that succeeds is all there is. */
inline do_arm(q, wanted, made)
{
	atomic {
#ifdef NO_STRONGER
		made = ARM(wanted, COUNT(arm[q]) + 1);
#else
		made = ARM((BITS(arm[q]) > wanted -> BITS(arm[q]) : wanted), COUNT(arm[q]) + 1);
#endif
		arm[q] = made;
		unanswered[q]++
	}
}

/*
 * simhcadv_req_notify_cq(NEXT_COMP | REPORT_MISSED_EVENTS). A program that polls once more after
 * ibv_req_notify_cq() does the same look.
 */
inline req_notify(q, made, before, missed)
{
#ifdef NO_PROGRAM_BARRIER
	if :: before = pi[q] :: before = 255 fi;
#endif
	do_arm(q, NEXT, made);
#ifdef NO_SECOND_LOOK
	missed = false;
#else
#ifdef NO_PROGRAM_BARRIER
	if :: before == 255 -> before = pi[q] :: else fi;
	missed = before != ci[q];
#else
	atomic { before = pi[q]; missed = before != ci[q] };	/* A2, A3 */
#endif
#ifdef HINT_ALWAYS
	missed = true;
#endif
#ifdef HINT_NEVER
	missed = false;
#endif
	if
	:: missed ->
		/* What came after A1 may have its event already: this very arm is used up. */
		atomic {
			if
			:: arm[q] == ARM(NONE, COUNT(made)) ->
				missed = false
			:: else
			fi
		}
	:: else
	fi;
	/* There is something to poll, or the hint is wrong. */
	assert(!missed || pi[q] != ci[q]);
#endif
	atomic { made = 0; before = 0 }
}

proctype program()
{
	byte q, made, before;
	bool missed;

	q = 0;
	do
	:: q == CQS -> break
	:: else ->
		do
		:: ci[q] = pi[q];	/* poll until empty */
		   req_notify(q, made, before, missed);
		   if :: missed :: else -> break fi
		od;
		q++
	od;
	do
	:: ci[0] == FIRST && ci[1] == SECOND -> break
	:: else ->
		channel ? q;		/* sleep */
		do
		:: ci[q] = pi[q];
		   req_notify(q, made, before, missed);
		   if :: missed :: else -> break fi
		od
	od;
	finished++
}

proctype other_thread()
{
	byte made, n;

	for (n : 1 .. OTHER_ARMS) {
		do_arm(0, SOLICITED, made)
	}
	finished++
}

init {
	byte n;

	atomic {
		to_come[0] = FIRST;
		to_come[1] = SECOND;
		run program();
		run other_thread();
		for (n : 1 .. ENGINES) { run engine() }
	}
	/* Blocks, and is then the invalid end state, unless everybody comes to an end. */
	finished == ENGINES + 2
}
