/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * CQEs are reserved in one order, published in another, and polled in the first one: which of those who
 * publish raises the event (simhca_cqes_match() in libsimhca/queue/cqe_reservation.h). Each writer
 * reserves a CQE and publishes it; whether it asks for an event (a solicited message) is open. A program
 * arms for any or for those that ask, polls what it can, and sleeps until an event comes.
 *
 * No event comes before there is a completion for it, and the program does not sleep while it could
 * poll a completion that it wants to hear of: spin calls that an invalid end state.
 *
 * Memory. Every step is atomic and at once visible to all, but for what the full barrier between
 * publishing and looking is there to prevent.
 *
 * Each of these, defined, takes one part of the protocol out, and the model must then fail:
 *	NO_LOOK_BACK	who is held up raises an event all the same
 *	NO_LOOK_AHEAD	who has held others up tells of its own alone
 *	NO_BARRIER	it may look before its own is seen to be published
 */
#define WRITERS 3

#define NONE 0
#define SOLICITED 1
#define NEXT 2

bool published[WRITERS + 1];	/* the last one never is */
bool asks[WRITERS];
byte pi, arm, events;
byte kind;			/* for which the program arms: what it has to hear of */
byte wanted;			/* such CQEs that it has not polled, of those there will be */

/* Whether a CQE before it is not published. */
inline look_back(i, j, held_up)
{
	held_up = false;
#ifndef NO_LOOK_BACK
	j = 0;
	do
	:: j < i && published[j] -> j++
	:: j < i && !published[j] -> held_up = true; break
	:: j == i -> break
	od;
#endif
}

/* Whether one of those behind it asks. */
inline look_ahead(i, j, asked)
{
	skip;
#ifndef NO_LOOK_AHEAD
	j = i + 1;
	do
	:: published[j] -> asked = asked || asks[j]; j++
	:: else -> break
	od;
#endif
}

proctype writer()
{
	byte i, j, seen;
	bool held_up, asked;

	atomic { i = pi; pi++; asked = asks[i] };
#ifdef NO_BARRIER
	if
	:: published[i] = true; look_back(i, j, held_up)
	:: look_back(i, j, held_up); published[i] = true
	fi;
#else
	published[i] = true;
	look_back(i, j, held_up);
#endif
	if
	:: !held_up ->
		look_ahead(i, j, asked);
		atomic {
			seen = arm;
			if
			:: seen == NEXT || (seen == SOLICITED && asked) -> arm = NONE; events++
			:: else
			fi
		}
	:: else
	fi
}

/* All that there is. */
inline poll()
{
	do
	:: atomic {
		published[ci] ->
		wanted = wanted - (kind == NEXT || asks[ci]);
		ci++
	   }
	:: else -> break
	od
}

init
{
	byte ci, taken;

	atomic {
		do
		:: ci < WRITERS ->
			if :: asks[ci] = true :: asks[ci] = false fi;
			ci++
		:: else -> break
		od;
		ci = 0;
		if :: kind = NEXT :: kind = SOLICITED fi;
		wanted = (kind == NEXT -> WRITERS : asks[0] + asks[1] + asks[2]);
		arm = kind;
		run writer();
		run writer();
		run writer()
	};
	poll();
	do
	:: wanted == 0 -> break
	:: wanted > 0 ->
		atomic { events > 0 -> events--; taken++ };
		poll();
		assert(taken <= ci);
		arm = kind;
		poll()
	od
}
