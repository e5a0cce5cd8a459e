/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Writes to the memory of a process and atomics there (libsimhca/queue/writers.h, dma/exclusive.c):
 * nobody writes between an atomic's read and its write.
 *
 * Two programs write, or do atomics; so does the device. Who writes says so in a word of its own and
 * then looks whether an atomic is under way; an atomic has its name put in one word by who does it,
 * who then looks at the words of all who write. The device says that it writes, and waits for the
 * atomic that is under way; if it wants to do one itself it says so to who does one, who hands it
 * over. One of the programs may be killed at any time: the device lets go of what it held. A program may be stopped in the middle of an atomic, for so long
 * that the device takes it back; before it writes it looks whether it was. (A second does not pass
 * between this look and the write, which is one system call.)
 *
 * Each of these, defined, takes one part of the protocol out, and the model must then fail:
 *	LOOK_FIRST	a program that writes looks before it says so
 *	DEVICE_LOOKS_FIRST	so does the device
 *	NOT_ALONE	an atomic does not look at who writes
 *	DEVICE_NOT_ALONE	that of the device does not
 *	NO_LOOK_BACK	an atomic is not looked after once more before it writes
 *	ADMITS_ALWAYS	who has done an atomic lets others in, whoever has it by now
 *	DONE_EARLY	a program says that it has written before it has
 *	NOT_THE_DEAD	what a killed program held is not let go of
 */
#define PROGRAMS 2
#define DEVICE PROGRAMS
#define ROUNDS 2

byte holder; /* name plus 1; in the same word: */
bool wanted;
bool at_work[PROGRAMS];
byte device;
bool dead[PROGRAMS];

/* Of the model alone. */
bool has_read[PROGRAMS + 1];
bool spoiled[PROGRAMS + 1];
bool in_window[PROGRAMS];
bool may_kill = true;
bool may_take_back = true;
byte at_end;

#define OR_BE_KILLED                                                                               \
	:: atomic { me == 0 && may_kill -> may_kill = false; dead[me] = true; goto gone }

inline writes(who)
{
	d_step {
		spoiled[0] = spoiled[0] || (who != 0 && has_read[0]);
		spoiled[1] = spoiled[1] || (who != 1 && has_read[1]);
		spoiled[DEVICE] = spoiled[DEVICE] || (who != DEVICE && has_read[DEVICE])
	}
}

inline reads(who)
{
	d_step { has_read[who] = true; spoiled[who] = false }
}

inline changes(who)
{
	atomic {
		assert(!spoiled[who]);
		writes(who);
		has_read[who] = false
	}
}

inline admits(who)
{
	atomic {
		if
#ifdef ADMITS_ALWAYS
		:: true -> holder = 0; wanted = false
#else
		:: holder == who + 1 && !wanted -> holder = 0
		:: holder == who + 1 && wanted -> holder = DEVICE + 1; wanted = false
		:: holder != who + 1 -> skip
#endif
		fi
	}
}

proctype program(byte me)
{
	byte rounds;
	bool idle, seen;

	do
	:: rounds == ROUNDS -> break
	OR_BE_KILLED
	:: rounds < ROUNDS -> /* a write */
		rounds++;
#ifdef LOOK_FIRST
		seen = holder != 0;
#endif
		at_work[me] = true;
#ifndef LOOK_FIRST
		seen = holder != 0;
#endif
#ifdef DONE_EARLY
		at_work[me] = false;
#endif
		if
		:: seen -> skip
		OR_BE_KILLED
		:: !seen -> writes(me)
		fi;
		at_work[me] = false
	:: rounds < ROUNDS -> /* an atomic */
		rounds++;
		atomic {
			seen = holder != 0;
			if
			:: !seen -> holder = me + 1
			:: seen -> skip
			fi
		}
		if
		:: seen -> skip
		OR_BE_KILLED
		:: !seen ->
			idle = true;
#ifndef NOT_ALONE
			idle = idle && !at_work[1 - me];
			idle = idle && device == 0;
#endif
			if
			:: !idle -> skip
			OR_BE_KILLED
			:: idle ->
				reads(me);
				atomic {
#ifndef NO_LOOK_BACK
					idle = holder == me + 1;
#endif
					in_window[me] = idle
				}
				if
				:: !idle -> skip
				OR_BE_KILLED
				:: idle -> changes(me)
				fi;
				d_step { has_read[me] = false; in_window[me] = false }
			fi;
			admits(me)
		fi
	od;
gone:
	at_end++
}

/* Takes it back from a program that lives, and is not just writing. */
#define TAKE_BACK                                                                                  \
	:: atomic {                                                                                \
		may_take_back && holder != 0 && holder <= PROGRAMS && !dead[holder - 1] &&         \
			!in_window[holder - 1] ->                                                  \
		may_take_back = false;                                                             \
		holder = 0;                                                                        \
		wanted = false                                                                     \
	}

proctype engine()
{
	byte rounds;
	bool idle;

	do
	:: rounds == ROUNDS -> break
	:: rounds < ROUNDS -> /* a write */
		rounds++;
#ifndef DEVICE_LOOKS_FIRST
		device++;
#endif
		if
		:: holder == 0 -> skip
		:: atomic { holder == DEVICE + 1 -> holder = 0 } /* for an atomic that is tried later */
		TAKE_BACK
		fi;
#ifdef DEVICE_LOOKS_FIRST
		device++;
#endif
		writes(DEVICE);
		device--
	:: rounds < ROUNDS -> /* an atomic */
		rounds++;
		if
		:: atomic { holder == 0 || holder == DEVICE + 1 -> holder = DEVICE + 1 }
			idle = true;
#ifndef DEVICE_NOT_ALONE
			idle = idle && !at_work[0];
			idle = idle && !at_work[1];
#endif
			if
			:: !idle -> skip /* it is tried again later */
			:: idle ->
				reads(DEVICE);
				changes(DEVICE);
				atomic {
					assert(holder == DEVICE + 1 && !wanted);
					holder = 0
				}
			fi
		:: atomic { holder != 0 && holder <= PROGRAMS -> wanted = true }
		TAKE_BACK
		fi
	od;
	at_end++
}

/* The main thread of the device learns that a program has ended. */
proctype watcher()
{
	if
	:: dead[0] ->
		d_step { in_window[0] = false; has_read[0] = false }
#ifndef NOT_THE_DEAD
		admits(0);
		at_work[0] = false
#endif
	:: at_end == PROGRAMS + 1 -> skip
	fi
}

init {
	atomic {
		run program(0);
		run program(1);
		run engine();
		run watcher()
	}
}
