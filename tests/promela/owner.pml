/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The owner word of a QP, and reservations of its CQ (libsimhca/proto/owner.c, libsimhca/proto/cq.c): whichever
 * process ends in the middle, each message completes once, in order.
 *
 * Two processes acquire the owner word of one QP by turns; the one may be killed at any store. A third one
 * completes to the same CQ for a QP of its own. A completion reserves a CQE (the CQ's pi), fills in its slot,
 * commits the QP's progress, which names the reservation, and publishes the slot. A process that finds that the owner
 * has ended waits until the steps that were under way are over, recovers the CQ, and releases the word. The
 * copies have two fields here, which must belong together.
 *
 * Each of these, defined, takes one part of the protocol out, and the model must then fail:
 *	ONE_COPY		an owner works on the copy that counts
 *	PUBLISH_FIRST		a completion can be seen before its progress is committed
 *	PUBLISH_ALL		a reservation that was not committed is published as it is
 *	VOID_ALL		a reservation that was committed is lost
 *	NO_GRACE		reservations of those who are at work are taken for the dead one's
 *	NO_RESERVE_SWAP		a reservation is read and written in two steps
 *	NO_WANTED		a process that finds the word taken does not say that it wants it
 */
#define MESSAGES 2
#define SLOTS 8
#define EMPTY 0
#define VOID 100
#define OTHERS 50

typedef Progress {
	byte done;
	byte same;	/* as done */
	byte reservation;	/* of the completion that was committed last, plus 1 */
};

/* The QP's memory. */
byte posted, holder, generation;
bool wanted;
Progress copy[2];
/* The CQ's. */
byte pi;
byte slot[SLOTS];
bool seq[SLOTS];

/* Of the model alone. */
byte dead;
bool may_kill = true;
bool other_at_work;
byte polled, seen, seen_others;

/* A store, before which the process may end. */
#define STORE(what)                                                                                \
	if                                                                                         \
	:: atomic { me == 1 && may_kill -> may_kill = false; dead = me; goto gone }                \
	:: atomic { true -> what }                                                                 \
	fi

inline complete()
{
#ifdef NO_RESERVE_SWAP
	reservation = pi;
	STORE(pi = reservation + 1);
#else
	STORE(reservation = pi; pi = reservation + 1);
#endif
	done++;
	STORE(slot[reservation] = done);
#ifdef PUBLISH_FIRST
	STORE(seq[reservation] = true);
#endif
#ifdef ONE_COPY
	to = generation % 2;
#else
	to = 1 - generation % 2;
#endif
	STORE(copy[to].done = done);
	STORE(copy[to].same = done);
	STORE(copy[to].reservation = reservation + 1);
#ifdef ONE_COPY
#else
	STORE(generation++);
#endif
#ifdef PUBLISH_FIRST
#else
	STORE(seq[reservation] = true);
#endif
}

/* From acquiring the owner word to releasing it, or nothing. */
inline own()
{
	again = false;
	if
	:: atomic { holder == 0 -> holder = me; wanted = false };
	   atomic {
		done = copy[generation % 2].done;
		assert(done == copy[generation % 2].same)
	   };
	   do
	   :: done < posted -> complete()
	   :: else -> break
	   od;
	   STORE(again = wanted; holder = 0; wanted = false)
	:: atomic { holder != 0 ->
#ifdef NO_WANTED
		skip
#else
		wanted = true
#endif
	   }
	fi
}

inline repair()
{
	atomic {
#ifdef NO_GRACE
		true ->
#else
		!other_at_work ->
#endif
		i = 0;
		do
		:: i < pi ->
			if
			:: seq[i]
			:: else ->
#ifdef PUBLISH_ALL
				skip;
#else
#ifdef VOID_ALL
				slot[i] = VOID;
#else
				if
				:: copy[generation % 2].reservation == i + 1
				:: else -> slot[i] = VOID
				fi;
#endif
#endif
				seq[i] = true
			fi;
			i++
		:: else -> break
		od;
		if :: holder == dead -> holder = 0; wanted = false :: else fi;
		dead = 0
	}
}

/* Posts, unless it is the device that was told to look, and works itself. */
proctype worker(byte me; bool posts)
{
	byte done, reservation, to;
	bool again;

	if
	:: posts -> atomic { posted < MESSAGES -> posted++ }
	:: else
	fi;
	again = true;
	do
	:: again -> own()
	:: else -> break
	od;
gone:
	skip
}

/* It repairs what others have left, and looks what there is to do. */
proctype device()
{
	byte i;

end:	do
	:: dead -> repair(); run worker(3, false)
	od
}

/* Another QP's completion, by somebody who is not killed. */
proctype other()
{
	byte reservation;

	other_at_work = true;
#ifdef NO_RESERVE_SWAP
	reservation = pi;
	pi = reservation + 1;
#else
	atomic { reservation = pi; pi = reservation + 1 };
#endif
	slot[reservation] = OTHERS;
	seq[reservation] = true;
	other_at_work = false
}

/* Polls until each message, and the other's, has completed. */
proctype program()
{
	do
	:: seen == MESSAGES && seen_others == 1 -> break
	:: atomic { seq[polled] ->
		if
		:: slot[polled] == VOID
		:: slot[polled] == OTHERS -> seen_others++
		:: else -> seen++; assert(slot[polled] == seen)
		fi;
		polled++
	   }
	od
}

init {
	atomic {
		run worker(1, true);
		run worker(2, true);
		run device();
		run other();
		run program()
	}
}
