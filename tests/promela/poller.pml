/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The poller: an engine with two threads, each asleep on a CPU of its own, one of which works for
 * both (libsimhca/engine/poller.c). No work request is forgotten, whichever CPU somebody wakes, and the
 * poller is never a thread that does not know.
 *
 * A program posts and rings; another engine puts a QP on the run queue; and once, at any time, the
 * watch takes the poller for stuck, and replaces it. The tree of doorbells is one bit
 * here (doorbell.pml has the tree). A work request is served when the holder has looked
 * after it was posted. A lost one is a world in which nothing happens while it waits: an invalid
 * end state.
 *
 * Each of these, defined, takes one part of the protocol out, and the model must then fail:
 *	NO_SECOND_LOOK		a thread sleeps after it has armed, without a look at top
 *	LOOK_FIRST		it looks at the run queue before it resigns
 *	ARM_FIRST		it arms, and looks at top, before it resigns
 *	WAKE_FIRST		the other engine looks for a holder before it has queued the QP
 *	NO_CLAIM		the poller makes the successor the poller without a claim, who
 *				may have given up
 *	NO_WAIT		a successor who has been claimed does not wait for what comes of it
 *	NO_ACTIVATE		a thread that a doorbell wakes in vain leaves the context inactive
 *
 * Worlds with less in them, which have half of the states. The last one is enough for each mutant.
 *	world: INVITATIONS=0
 *	world: WATCHES=0
 */
#define CPUS 2
#define CLAIMED 3
#ifndef INVITATIONS
#define INVITATIONS 1	/* more tell nothing new */
#endif
#ifndef WATCHES
#define WATCHES 1
#endif

bool top;		/* the doorbell */
bool armed = true;
bool polls;		/* the context is active */
bool context_lock;
bool queued;		/* a QP is on the run queue */
/* By CPU: eventfds, as epoll sees them: written since the last look. */
bool doorbell_fd[CPUS], wake_fd[CPUS];
byte holder, successor;	/* the poller and the next one: thread 1 or 2, or 0 */
byte invited;
byte invitations = INVITATIONS;	/* left */

/* Of the model alone. */
bool waits[2];		/* posted, or queued, and nobody has looked since */
byte finished;

inline served(what)
{
	waits[what] = false
}

/* Wakes the thread of whichever CPU. */
inline ring()
{
	if :: doorbell_fd[0] = true :: doorbell_fd[1] = true fi
}

inline wake_threads_of()
{
	if :: wake_fd[0] = true :: wake_fd[1] = true fi
}

proctype poster(byte times)
{
	bool seen, taken;

	do
	:: times == 0 -> break
	:: else ->
		waits[0] = true;
		top = true;
		seen = armed;
		if
		:: seen ->
			atomic { taken = armed; armed = false };
			if :: taken -> ring() :: else fi
		:: else
		fi;
		atomic { times--; seen = false; taken = false }
	od;
	finished++
}

/* simhca_engine_schedule() by another engine. */
proctype other_engine()
{
	byte works;

	waits[1] = true;
#ifdef WAKE_FIRST
	works = holder;
	queued = true;
#else
	queued = true;	/* under the lock */
	works = holder;
#endif
	if :: !works -> wake_threads_of() :: else fi;
	finished++
}

/* simhca_engine_stuck() */
proctype watch()
{
	if
	:: atomic { WATCHES && holder != 0 -> holder = 0 };
	   wake_fd[0] = true;
	   wake_fd[1] = true
	:: true
	fi;
	finished++
}

inline lock()
{
	atomic { !context_lock -> context_lock = true }
}

inline unlock()
{
	context_lock = false
}

/* simhca_poller_become() */
inline become_poller(me, holds, mine)
{
	holds = false;
	if
	:: holder == me ->
		mine = successor;
		if
		:: !mine || mine == CLAIMED -> holds = true
		:: else ->
#ifdef NO_CLAIM
			successor = 0;
			holder = mine
#else
			atomic { if :: successor == mine -> successor = CLAIMED :: else -> holds = true fi };
			if
			:: !holds ->
				atomic {
					if
					:: holder == me -> holder = mine; mine = 0
					:: else
					fi
				};
				successor = mine
			:: else
			fi
#endif
		fi
	:: else ->
		atomic { if :: invited == me -> invited = 0; mine = 1 :: else -> mine = 0 fi };
		if :: mine -> succeed(me, holds) :: else fi;
		if
		:: !holds -> atomic { if :: holder == 0 -> holder = me; holds = true :: else fi }
		:: else
		fi
	fi;
	mine = 0
}

/* Waits for the holder, or gives up at any time. */
inline succeed(me, holds)
{
	successor = me;
	if
	:: holder == me
	:: atomic { holder == 0 -> holder = me }
	:: true
	fi;
#ifdef NO_WAIT
	atomic { if :: successor == me -> successor = 0 :: else fi };
#else
	do
	:: atomic { successor == me -> successor = 0 }; break
	:: atomic { successor != me && successor != CLAIMED -> break }
	od;
#endif
	holds = holder == me
}

/* What epoll_wait() returned; a context that rang is active again. */
inline woken(me)
{
	wake_fd[me - 1] = false;
	atomic {
		!context_lock ->
		if
#ifdef NO_ACTIVATE
		:: doorbell_fd[me - 1] -> doorbell_fd[me - 1] = false; polls = polls || holder == 0
#else
		:: doorbell_fd[me - 1] -> doorbell_fd[me - 1] = false; armed = false; polls = true
#endif
		:: else
		fi
	}
}

/* simhca_doorbells_arm() */
inline arm(rang, quiet)
{
	quiet = true;
	lock();
	if
	:: polls ->
		armed = true;
		rang = top;
#ifdef NO_SECOND_LOOK
		rang = false;
#endif
		if :: rang -> armed = false; quiet = false :: else -> polls = false fi
	:: else
	fi;
	unlock();
	rang = false
}

inline put_down(me)
{
	atomic { if :: holder == me -> holder = 0 :: else fi }
}

proctype engine(byte me)
{
	byte mine;
	bool rang, quiet, nothing, holds;

	do
	:: become_poller(me, holds, mine);
	   if
	   :: !holds ->
end_elsewhere:	atomic { doorbell_fd[me - 1] || wake_fd[me - 1] -> skip };
		woken(me)
	   :: else -> /* a round */
		rang = false;
		atomic {
			!context_lock ->
			if
			:: polls -> rang = top; top = false; if :: rang -> served(0) :: else fi
			:: else
			fi
		};
		if :: atomic { queued -> queued = false }; served(1); rang = true :: else fi;
		if
		:: rang -> rang = false
		:: else ->
			if
			:: atomic { invitations > 0 -> invitations--; invited = 3 - me };
			   wake_fd[2 - me] = true
			:: true
			fi;
#ifdef LOOK_FIRST
			nothing = !queued;
			put_down(me);
			arm(rang, quiet);
#else
#ifdef ARM_FIRST
			arm(rang, quiet);
			put_down(me);
#else
			put_down(me);
			arm(rang, quiet);
#endif
			nothing = !queued;
#endif
			if
			:: quiet && nothing ->
end_asleep:			atomic { doorbell_fd[me - 1] || wake_fd[me - 1] -> skip };
				woken(me)
			:: else
			fi;
			nothing = false;
			quiet = false
		fi
	   fi
	od
}

init {
	atomic {
		run engine(1);
		run engine(2);
		run poster(1);
		run other_engine();
		run watch()
	}
	finished == 3 && !waits[0] && !waits[1]
}
