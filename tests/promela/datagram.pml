/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Datagrams by the program that posts (libsimhca/message/step_ud.c, recover.c): each receive
 * completes once, and each message is carried once or not at all, whoever ends where.
 *
 * A sender, which may be killed at any store, or find after its claim that it cannot go on; the
 * device, which settles what it has left, and then carries a message for it; and another sender.
 * That it is known which claim was somebody's latest is srq.pml's matter.
 *
 * Each of these, defined, takes one part of the protocol out, and the model must then fail:
 *	SAID_LATE	that something is under way is said after the claim
 *	COPY_LATE	the receive is copied after the claim
 *	NO_REST		the next datagram begins while something is left
 *	NO_BEFORE	whatever was claimed last is left
 *	NO_INDEX	it is left though it is committed
 *	NO_TURN		what is under way is settled
 *	CARRY_FIRST	a message is carried before that is settled
 */
#define WQES 4
#define MESSAGES 2
#define SENDER 1
#define DEVICE 2

/* The destination's queue. */
byte ci, latest; /* the sender's latest claim */
chan left = [WQES] of { byte };
/* The sender's: what it says of what is under way, and its requester. */
byte dest, index, before, copy;
byte oldest, turn;
bool bell;
/* The CQE of its receive: none, a reservation, or published. */
byte reservation, written;
/* Of the model alone. */
byte completed[WQES], carried[MESSAGES];
bool dead, over, others_over;

#define STORE(what)                                                                                \
	if                                                                                         \
	:: goto gone                                                                               \
	:: what                                                                                    \
	fi

proctype Sender()
{
	byte seen;
	bool got;

	do
	:: oldest == MESSAGES -> break
	:: oldest < MESSAGES ->
		atomic { turn == 0 -> turn = SENDER }
		if
#ifndef NO_REST
		:: dest != 0 ->
			STORE(atomic { turn = 0; bell = true });
			dest == 0 || dead
#endif
		:: oldest == MESSAGES -> STORE(atomic { turn = 0; bell = true })
		:: dest == 0 -> /* something is in the way */
			STORE(atomic { turn = 0; bell = true });
			!bell || dead
#ifdef NO_REST
		:: oldest < MESSAGES ->
#else
		:: dest == 0 && oldest < MESSAGES ->
#endif
			STORE(index = oldest);
			STORE(before = latest);
#ifndef SAID_LATE
			STORE(dest = 1);
#endif
			got = false;
			do
			:: got || ci == WQES -> break
			:: atomic { !got && ci < WQES -> seen = ci };
#ifndef COPY_LATE
				STORE(copy = seen);
#endif
				STORE(atomic {
					if
					:: ci == seen -> ci = seen + 1; latest = ci; got = true
					:: ci != seen -> skip
					fi
				})
			od;
#ifdef COPY_LATE
			STORE(copy = seen);
#endif
#ifdef SAID_LATE
			STORE(dest = 1);
#endif
			if
			:: !got -> /* no receive */
				STORE(dest = 0);
				STORE(atomic { turn = 0; bell = true })
			:: !got -> /* as if it had forgotten that */
				STORE(atomic { turn = 0; bell = true })
			:: got -> /* it cannot go on */
				STORE(atomic { turn = 0; bell = true })
			:: got ->
				STORE(atomic { written = seen; reservation = 1 });
				STORE(atomic { carried[oldest]++; oldest++ });
				STORE(atomic { completed[written]++; reservation = 0 });
				STORE(dest = 0);
				STORE(turn = 0)
			fi
		fi
	od;
	over = true;
	goto end;
gone:
	dead = true;
	over = true;
end:
	skip
}

proctype Other()
{
	byte seen;

	do
	:: break
	:: atomic { ci < WQES -> seen = ci; ci++; completed[seen]++ }
	:: ci == WQES -> break
	od;
	others_over = true
}

#ifdef NO_INDEX
#define IS_COMMITTED false
#else
#define IS_COMMITTED (oldest != index)
#endif
#ifdef NO_BEFORE
#define HAS_CLAIMED true
#else
#define HAS_CLAIMED (latest != before)
#endif

/* Of a program that has ended; one that lives has published its own. */
inline end_reservation()
{
	if
	:: dest != 0 && reservation == 1 && oldest != index -> completed[written]++; reservation = 0
	:: dest != 0 && reservation == 1 && oldest == index -> reservation = 0 /* void */
	:: !(dest != 0 && reservation == 1) -> skip
	fi
}

inline settle()
{
	if
	:: dest != 0 ->
		if
		:: !IS_COMMITTED && HAS_CLAIMED -> left!copy
		:: !(!IS_COMMITTED && HAS_CLAIMED) -> skip
		fi;
		dest = 0
	:: dest == 0 -> skip
	fi
}

/* Of those that were left first. If there is none the message is lost. */
inline carry()
{
	if
	:: oldest < MESSAGES ->
		if
		:: nempty(left) -> left?r; completed[r]++
		:: empty(left) && ci < WQES -> completed[ci]++; ci++
		:: empty(left) && ci == WQES -> skip
		fi;
		carried[oldest]++;
		oldest++
	:: oldest == MESSAGES -> skip
	fi
}

proctype Device()
{
	byte r;

	do
#ifdef NO_TURN
	:: atomic { bell || dest != 0 -> bell = false; settle() }
#endif
	:: atomic {
		bell && turn == 0 && !over ->
		bell = false;
		turn = DEVICE;
#ifdef CARRY_FIRST
		carry();
		settle();
#else
		settle();
		carry();
#endif
		turn = 0
	}
	:: over && others_over -> break
	od;
	/* The sender's program has ended, or destroys its QP; then the destination fails. */
	atomic {
		end_reservation();
		settle();
		do
		:: nempty(left) -> left?r; completed[r]++
		:: empty(left) -> break
		od;
		do
		:: ci < WQES -> completed[ci]++; ci++
		:: ci == WQES -> break
		od;
		assert(reservation == 0);
		for (r : 0 .. WQES - 1) {
			assert(completed[r] == 1)
		}
		for (r : 0 .. MESSAGES - 1) {
			assert(carried[r] == (r < oldest -> 1 : 0))
		}
	}
}

init {
	atomic {
		run Sender();
		run Other();
		run Device()
	}
}
