/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Who takes memory away waits for the steps of callers that may be about to write to it
 * (libsimhca/message/step.c, libsimhca/core/steps.c): afterwards nobody does.
 *
 * Two programs run steps. A step makes the program's guard odd, looks whether the region is there,
 * writes to it, and makes the guard even. One of the two may be killed at any time. The device
 * withdraws the region, and then waits for each guard that was odd until it has changed, or its
 * program is gone. Then the memory is somebody else's. If it waits too long it does not go on.
 *
 * Each of these, defined, takes one part of the protocol out, and the model must then fail:
 *	LOOK_FIRST	a step looks whether the region is there before its guard is odd, or before others
 *		can see that
 *	WAIT_FIRST	the device looks at the guards, and withdraws the region then
 *	ONE_GUARD	it waits for one of the programs
 *	EVEN_EARLY	the guard is even before all is written
 *	NOT_THE_DEAD	it waits for a program that is gone as well
 */
#define PROGRAMS 2
#define STEPS 2
#define WRITES 2 /* of a step */

byte guard[PROGRAMS];
bool dead[PROGRAMS];
bool valid = true;

/* Of the model alone. */
bool freed;
bool gave_up;
bool may_kill = true;

#define OR_BE_KILLED                                                                               \
	:: atomic { me == 0 && may_kill -> may_kill = false; dead[me] = true; goto gone }

proctype program(byte me)
{
	byte steps, writes;
	bool seen;

	do
	:: steps == STEPS -> break
	OR_BE_KILLED
	:: steps < STEPS ->
#ifdef LOOK_FIRST
		seen = valid;
#endif
		guard[me]++;
#ifndef LOOK_FIRST
		seen = valid;
#endif
#ifdef EVEN_EARLY
		guard[me]++;
#endif
		writes = 0;
		do
		:: !seen || writes == WRITES -> break
		OR_BE_KILLED
		:: seen && writes < WRITES ->
			assert(!freed);
			writes++
		od;
#ifndef EVEN_EARLY
		guard[me]++;
#endif
		steps++
	od;
gone:
	skip
}

proctype device()
{
	byte i, was[PROGRAMS];

#ifndef WAIT_FIRST
	valid = false;
#endif
	for (i : 0 .. PROGRAMS - 1) {
		was[i] = guard[i]
	}
#ifdef ONE_GUARD
	i = 1;
#else
	i = 0;
#endif
	do
	:: i == PROGRAMS -> break
	:: i < PROGRAMS ->
		if
		:: was[i] % 2 == 0 || guard[i] != was[i]
#ifndef NOT_THE_DEAD
		:: dead[i]
#endif
		/* It is asked anew now and then; who is alive may stay for ever. */
		:: was[i] % 2 && !dead[i] && guard[i] == was[i] -> gave_up = true; break
		fi;
		i++
	od;
#ifdef WAIT_FIRST
	valid = false;
#endif
	if
	:: !gave_up -> freed = true
	:: gave_up -> skip
	fi
}

init {
	atomic {
		run program(0);
		run program(1);
		run device()
	}
}
