/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Doorbells, and an engine that goes to sleep: that no work request is forgotten.
 *
 * Two threads of a program post to QPs and ring (providers/simhca/doorbell.h); the engine takes the
 * bits, from the top down, and when it finds none arms the context, looks once more, and sleeps
 * (libsimhca/engine/doorbells.c); another engine hands it a QP through its run queue. The tree has three
 * levels here too, with two leaves. The engine has one thread; poller.pml has two. A work request is served when the engine has looked at its QP
 * after it was posted. A lost one is a world in which nothing happens while it waits: an
 * invalid end state.
 *
 * Each of these, defined, takes one part of the protocol out, and the model must then fail:
 *	NO_SECOND_LOOK		the engine sleeps after it has armed, without a look at top
 *	NO_RING_BARRIER		the one who rings may look at armed before top is seen
 *	NO_SLEEP_BARRIER	the engine may look at top before armed is seen
 *	BOTTOM_UP		the engine takes leaves first and top last
 *	RING_TOP_DOWN		the one who rings sets top first and the leaf last
 *	LOOK_FIRST		the engine looks at its run queue before it resigns
 *	WAKE_FIRST		the other engine looks for a holder before it has queued the QP
 */
#define QPS 3
#define LEAVES 2
#define LEAF(qp) ((qp) / 2)
#define BIT(n) (1 << (n))

byte leaf[LEAVES], mid, top;
bool armed = true;
byte doorbell_fd, wake_fd;	/* eventfds, as epoll sees them: written since the last look */
bool held = true;	/* it is the poller: the engine works */
bool queued;		/* QP 2 is on the run queue */

/* Of the model alone. */
bool waits[QPS];		/* something is posted, and the engine has not looked since */
byte finished;

inline wake_device(taken)
{
	atomic { taken = armed; armed = false };
	if :: taken -> doorbell_fd = 1 :: else fi
}

inline ring(qp, seen, taken)
{
#ifdef RING_TOP_DOWN
	top = top | 1;
	mid = mid | BIT(LEAF(qp));
	leaf[LEAF(qp)] = leaf[LEAF(qp)] | BIT(qp % 2);
	seen = armed;
#else
	leaf[LEAF(qp)] = leaf[LEAF(qp)] | BIT(qp % 2);
	mid = mid | BIT(LEAF(qp));
#ifdef NO_RING_BARRIER
	if
	:: seen = armed; top = top | 1
	:: top = top | 1; seen = armed
	fi;
#else
	top = top | 1;
	seen = armed;
#endif
#endif
	if :: seen -> wake_device(taken) :: else fi
}

/* Posts so many times, to one or the other of two QPs. */
proctype poster(byte times; byte first; byte second)
{
	bool seen, taken;
	byte qp;

	do
	:: times == 0 -> break
	:: else ->
		if :: qp = first :: qp = second fi;
		waits[qp] = true;
		ring(qp, seen, taken);
		atomic { times--; seen = false; taken = false }
	od;
	finished++
}

/* simhca_engine_schedule() by another engine. */
proctype other_engine()
{
	bool works;

	waits[2] = true;
#ifdef WAKE_FIRST
	works = held;
	queued = true;
#else
	queued = true;	/* under the lock */
	works = held;
#endif
	if :: !works -> wake_fd = 1 :: else fi;
	finished++
}

/* One turn at a QP: all that was posted by then. Between the taking and this, more may be posted. */
inline serve(qp)
{
	waits[qp] = false
}

inline take_leaf(l, bits)
{
	atomic { bits = leaf[l]; leaf[l] = 0 };
	if :: bits & 1 -> serve(l * 2) :: else fi;
	if :: (bits & 2) && l * 2 + 1 < QPS -> serve(l * 2 + 1) :: else fi;
	bits = 0
}

inline take_mid(bits, mids)
{
	atomic { mids = mid; mid = 0 };
	if :: mids & 1 -> take_leaf(0, bits) :: else fi;
	if :: mids & 2 -> take_leaf(1, bits) :: else fi;
	mids = 0
}

inline take_doorbells(bits, mids, rang)
{
#ifdef BOTTOM_UP
	if :: mid & 1 -> take_leaf(0, bits) :: else fi;
	if :: mid & 2 -> take_leaf(1, bits) :: else fi;
	mid = 0;
	atomic { rang = top; top = 0 }
#else
	atomic { rang = top; top = 0 };
	if :: rang -> take_mid(bits, mids) :: else fi
#endif
}

proctype engine()
{
	byte bits, mids;
	bool rang, polls, quiet, nothing;

	do
	:: /* a round */
	   rang = false;
	   if :: polls -> take_doorbells(bits, mids, rang) :: else fi;
	   if :: atomic { queued -> queued = false }; serve(2); rang = true :: else fi;
	   if
	   :: rang
	   :: else ->
#ifdef LOOK_FIRST
		nothing = !queued;
		held = false;
#else
		held = false;
#endif
		quiet = true;
		if
		:: polls ->
			/* stop_polling() */
#ifdef NO_SLEEP_BARRIER
			if
			:: rang = top; armed = true
			:: armed = true; rang = top
			fi;
#else
			armed = true;
			rang = top;
#endif
#ifdef NO_SECOND_LOOK
			rang = false;
#endif
			if :: rang -> armed = false; quiet = false :: else -> polls = false fi
		:: else
		fi;
		if
		:: quiet ->
#ifndef LOOK_FIRST
			nothing = !queued;
#endif
			if
			:: nothing ->
end_asleep:			atomic { doorbell_fd || wake_fd -> skip }
			:: else
			fi;
			/* What epoll_wait() returned; a context that rang is active again. */
			wake_fd = 0;
			atomic {
				if
				:: doorbell_fd -> doorbell_fd = 0; armed = false; polls = true
				:: else
				fi
			}
		:: else
		fi;
		held = true
	   fi
	od
}

init {
	atomic {
		run engine();
		run poster(2, 0, 2);
		run poster(1, 0, 1);
		run other_engine()
	}
	finished == 3 && !waits[0] && !waits[1] && !waits[2]
}
