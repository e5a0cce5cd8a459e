/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A CQ gets other memory while engines complete into it, the program polls, arms and sleeps, and
 * another thread of it arms the CQ as well: that no completion and no wake-up is lost.
 *
 * The letters are those of libsimhca/proto/cq_renew.c; arm.pml has arming itself, and memory is as there. A
 * run ends when all completions were polled. A lost wake-up is a program that sleeps in a world where
 * nothing happens any more: spin calls it an invalid end state.
 *
 * Each of these, defined, takes one part of the protocol out, and the model must then fail:
 *	DEVICE_FIRST		the device moves to the new memory before the client has mapped it
 *	NO_COPY			what waits is not copied, without R2
 *	NO_BARRIER		R5 may come before R2 is seen, without R3
 *	NO_TAKE_OVER		an arm that is left in the old memory is forgotten, without R4
 *	NO_LOOK			the device does not look at arms in the new memory, without R5
 *	NO_LOCK			the client polls meanwhile
 */
#define COMPLETIONS 3
#define OTHER_ARMS 1

/* Both memories: pi, and whether the CQ is armed. Who uses which. */
#define OLD 0
#define NEW 1
byte pi[2];
bool armed[2];
bit client_at, device_at;

byte ci;		/* the client's own */
bool locked;		/* cq->lock */
bool polled;		/* the client's lock */
chan channel = [COMPLETIONS + 2] of { bit };
byte finished;

/* D4, or R5: on the very arm that was seen, or not at all. */
inline use_up()
{
	atomic {
		if
		:: armed[device_at] -> armed[device_at] = false; channel ! 1
		:: else
		fi
	}
}

proctype engine()
{
	byte n;

	for (n : 1 .. COMPLETIONS) {
		atomic { !locked -> locked = true; pi[device_at]++ };	/* D1, D2 */
		use_up();						/* D3, D4 */
		locked = false
	}
	finished++
}

/* Until it is empty. Without the lock it may find what is not there, or miss what is. */
inline poll()
{
#ifdef NO_LOCK
	ci = pi[client_at]
#else
	atomic { !polled -> ci = pi[client_at] }
#endif
}

/* Arms, and looks once more. */
inline arm_and_look(missed)
{
	armed[client_at] = true;		/* A1 */
	missed = pi[client_at] != ci		/* A2, A3 */
}

proctype program()
{
	bool missed;

	do
	:: poll();
	   if :: ci == COMPLETIONS -> break :: else fi;
	   arm_and_look(missed);
	   if
	   :: missed
	   :: else -> channel ? _		/* sleep */
	   fi
	od;
	finished++
}

proctype other_thread()
{
	byte n;

	for (n : 1 .. OTHER_ARMS) {
		armed[client_at] = true
	}
	finished++
}

inline map_new()
{
	client_at = NEW			/* R1 */
}

proctype renewer()
{
	byte waits;
	bool arm;

#ifndef NO_LOCK
	atomic { !polled -> polled = true };
#endif
	atomic { !locked -> pi[NEW] = pi[OLD] };	/* simhca_cq_renew() */
#ifndef DEVICE_FIRST
	map_new();
#endif
	atomic { !locked -> locked = true };	/* simhca_cq_move() */
	waits = pi[OLD] - ci;
	arm = armed[OLD];
#ifdef NO_COPY
	waits = 0;
	pi[NEW] = ci;
#endif
#ifdef NO_BARRIER
	device_at = NEW;
	if
	:: waits > 0 -> use_up()
	:: else
	fi;
	pi[NEW] = ci + waits;
#else
	pi[NEW] = ci + waits;			/* R2 */
	device_at = NEW;
#endif
#ifndef NO_TAKE_OVER
	if :: arm -> armed[NEW] = true :: else fi;	/* R4 */
#endif
#ifndef NO_LOOK
#ifndef NO_BARRIER
	if
	:: waits > 0 -> use_up()		/* R5 */
	:: else
	fi;
#endif
#endif
	locked = false;
#ifdef DEVICE_FIRST
	map_new();
#endif
	polled = false;
	finished++
}

init {
	atomic {
		run engine();
		run program();
		run other_thread();
		run renewer()
	}
	/* Blocks, and is then the invalid end state, unless everybody comes to an end. */
	finished == 4
}
