/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A channel's pipe that is full (simhcad/session/event_pipe.c): that every event reaches the program,
 * once, and that its reader is woken.
 *
 * Engines raise events; what finds no room is counted, and the event loop is told to watch for room.
 * The program reads. A run ends when it has read as many as were raised.
 *
 * Each of these, defined, takes one part of the protocol out, and the model must then fail:
 *	NO_WAKEUP		the event loop is not told of a pipe that is full
 *	NO_UNMARK		the event loop leaves the pipe marked as one that it was told of
 *	STOP_EARLY		the event loop stops watching though some found no room again
 *	JUMP_THE_QUEUE		an engine writes although other events wait, and takes theirs for its own
 *	NO_SET_LOCK		engine and event loop deliver at the same time
 */
#define ROOM 2
#define ENGINES 2
#define EACH 3		/* events that each engine raises */

byte in_pipe, waiting;
bool set_locked, wakeup_locked;
bool in_wakeup;		/* linked in event_wakeup.full */
bool sent;		/* ev_async_send() */
bool watches_room;	/* the event loop's watch of it: EPOLLOUT, else its end alone */

/* Of the model alone. */
byte raised, read_by_program;
byte finished;

inline lock(l)
{
	atomic { !l -> l = true }
}

inline unlock(l)
{
	l = false
}

inline lock_set()
{
#ifndef NO_SET_LOCK
	lock(set_locked)
#endif
	skip
}

inline wait_for_room(wake)
{
	wake = false;
	lock(wakeup_locked);
	if :: !in_wakeup -> in_wakeup = true; wake = true :: else fi;
	unlock(wakeup_locked);
#ifndef NO_WAKEUP
	if :: wake -> sent = true :: else fi
#endif
}

proctype engine()
{
	byte n, w;
	bool wrote, wake;

	for (n : 1 .. EACH) {
		lock_set();
		atomic { raised++ };
		wrote = false;
#ifdef JUMP_THE_QUEUE
		if
		:: true ->
#else
		if
		:: waiting == 0 ->
#endif
			atomic { if :: in_pipe < ROOM -> in_pipe++; wrote = true :: else fi };
			if :: !wrote -> wait_for_room(wake) :: else fi
		:: else
		fi;
		if
		:: !wrote -> w = waiting; waiting = w + 1
#ifdef JUMP_THE_QUEUE
		:: wrote && waiting -> waiting--
#endif
		:: else
		fi;
		set_locked = false
	}
	finished++
}

proctype event_loop()
{
	bool more;
	byte w;

	do
	:: atomic { sent -> sent = false };
	   /* on_full() */
	   lock(wakeup_locked);
	   if
	   :: in_wakeup ->
#ifndef NO_UNMARK
		in_wakeup = false;
#endif
		watches_room = true
	   :: else
	   fi;
	   unlock(wakeup_locked)
	:: watches_room && in_pipe < ROOM ->
	   /* on_pipe(): deliver() sends as many at once as there is room for, and counts then */
	   lock_set();
	   more = true;
	   do
	   :: waiting == 0 -> more = false; break
	   :: waiting > 0 && in_pipe == ROOM -> break
	   :: waiting > 0 && in_pipe < ROOM -> w = waiting; in_pipe++; waiting = w - 1
	   od;
	   set_locked = false;
#ifdef STOP_EARLY
	   more = false;
#endif
	   if :: !more -> watches_room = false :: else fi
	:: finished == ENGINES + 1 -> break
	od
}

proctype program()
{
	do
	:: read_by_program == ENGINES * EACH -> break
	:: else -> atomic { in_pipe > 0 -> in_pipe--; read_by_program++; assert(read_by_program <= raised) }
	od;
	finished++
}

init {
	byte n;

	atomic {
		run program();
		run event_loop();
		for (n : 1 .. ENGINES) { run engine() }
	}
	finished == ENGINES + 1 && waiting == 0 && in_pipe == 0
}
