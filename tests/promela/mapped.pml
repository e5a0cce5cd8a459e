/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Regions in files that programs have mapped, and write to by plain stores (libsimhca/message/step_memory.c,
 * libsimhca/memory/mappable.c, libsimhca/dma/exclusive.c): an atomic of the device's in such a file has no
 * store of a program's in the middle, and what is mapped of a region is not written to for another one.
 *
 * Two programs run steps. A step makes its guard odd, reads the number of the region that the key names, looks
 * whether only the device writes to its file, and stores to what its program has mapped under that
 * number. One of the two programs may be killed at any time. The device may do an atomic in the first
 * file: it says that only it writes there, waits for the steps that are under way, reads and writes.
 * Then it deregisters the region, waits again, and registers the second file by the same key.
 *
 * Each of these, defined, takes one part of the protocol out, and the model must then fail:
 *	LOOK_FIRST	a step looks who writes to the file before its guard is odd
 *	READ_FIRST	it reads the number of the region before that
 *	SEE_FIRST	the device looks at the guards before it says that only it writes
 *	ONE_GUARD	it waits for one of the programs
 *	SAME_NUMBER	the second region has the number of the first
 */
#define PROGRAMS 2
#define STEPS 3
#define FIRST 1
#define SECOND 2 /* both the files and their regions' numbers */

byte guard[PROGRAMS];
bool dead[PROGRAMS];
/* The key's entry: the region's number, 0 if there is none, and the slot of its file. */
byte number = FIRST, slot = FIRST;
bool by_device; /* the first file is written to by the device alone */

/* Of the model alone. */
byte file = FIRST; /* that may be written to by this key */
bool in_atomic;
bool may_kill = true;

#define OR_BE_KILLED                                                                               \
	:: atomic { me == 0 && may_kill -> may_kill = false; dead[me] = true; goto gone }

/* Which file a program has mapped under a number: the one that it was of when it was mapped. */
#define MAPPED(n) (n)

proctype program(byte me)
{
	byte steps, seen;
	bool may;

	do
	:: steps == STEPS -> break
	OR_BE_KILLED
	:: steps < STEPS ->
#ifdef LOOK_FIRST
		may = !(by_device && slot == FIRST);
#endif
#ifdef READ_FIRST
		seen = number;
#endif
		guard[me]++;
#ifndef READ_FIRST
		seen = number;
#endif
#ifndef LOOK_FIRST
		may = !(by_device && slot == FIRST);
#endif
		if
		:: seen && may ->
			if
			OR_BE_KILLED
			:: atomic {
				true ->
				assert(MAPPED(seen) == file);
				assert(!in_atomic || MAPPED(seen) != FIRST)
			}
			fi
		:: else -> skip
		fi;
		guard[me]++;
		steps++
	od;
gone:
	skip
}

byte was[PROGRAMS];

inline see()
{
	was[0] = guard[0];
	was[1] = guard[1]
}

/* Who is alive may stay in a step for ever; then the device does not go on. */
inline wait_for(i)
{
	if
	:: was[i] % 2 == 0 || guard[i] != was[i] || dead[i]
	:: was[i] % 2 && !dead[i] && guard[i] == was[i] -> goto gave_up
	fi
}

inline wait()
{
	wait_for(0);
#ifndef ONE_GUARD
	wait_for(1)
#endif
}

proctype device()
{
	if
	:: true ->
#ifdef SEE_FIRST
		see();
#endif
		by_device = true;
#ifndef SEE_FIRST
		see();
#endif
		wait();
		in_atomic = true;
		in_atomic = false
	:: true -> skip
	fi;
	number = 0;
	see();
	wait();
	file = SECOND;
	slot = SECOND;
#ifdef SAME_NUMBER
	number = FIRST;
#else
	number = SECOND;
#endif
gave_up:
	skip
}

init {
	atomic {
		run program(0);
		run program(1);
		run device()
	}
}
