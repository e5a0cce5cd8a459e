/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Claims on the WQEs of an SRQ (libsimhca/queue/srq_claim.h): each is consumed once, and of a
 * claimant that was killed it is known whether it claimed a WQE that it has accounted for nowhere.
 *
 * Three processes claim, each for a QP of its own; the first may be killed at any store. Once it is
 * gone, head and what is noted say at any time which claim was its last. Whether it has accounted
 * for that, its QP's state says (owner.pml). A client posts to the ring meanwhile, as far as it has room, and nobody
 * who looks takes the two indices for nonsense.
 *
 * Each of these, defined, takes one part of the protocol out, and the model must then fail:
 *	NOTE_LATE	it is noted afterwards
 *	NO_LOOK		an old note is written over a newer one
 *	ANY_NOTE	somebody else's note is as good as one's own
 *	NO_SWAP		head is read and written in two steps
 *	NO_HEAD		only what is noted counts, and not head
 *	NO_SECOND_LOOK	an old head and a new pi are nonsense
 */
#define WQES 5
#define RING 2
#define CLAIMANTS 3

/* The SRQ's memory. */
byte pi, ci, who;
byte noted[CLAIMANTS + 1];
/* Of the model alone. */
byte consumed[WQES];
byte last[CLAIMANTS + 1]; /* claim, whoever knows */
byte ended;
bool first_ended;

#define STORE(what)                                                                                \
	if                                                                                         \
	:: me == 1 -> goto gone                                                                    \
	:: what                                                                                    \
	fi

/* What (old_ci, old_who) says; noted_it: head may be written over. */
inline note()
{
	noted_it = false;
	seen = noted[old_who];
	if
#ifndef NO_LOOK
	:: ci != old_ci || who != old_who -> skip
	:: ci == old_ci && who == old_who ->
#else
	:: true ->
#endif
		STORE(atomic {
			if
			:: noted[old_who] == seen -> noted[old_who] = old_ci; noted_it = true
#ifdef ANY_NOTE
			:: noted[old_who] != seen -> noted_it = true
#else
			:: noted[old_who] != seen -> skip
#endif
			fi
		})
	fi;
	seen = 0
}

inline swap()
{
#ifdef NO_SWAP
	STORE(ci = old_ci + 1);
	STORE(atomic { who = me; consumed[old_ci]++; last[me] = old_ci + 1; got = true })
#else
	STORE(atomic {
		if
		:: ci == old_ci && who == old_who ->
			ci = old_ci + 1;
			who = me;
			consumed[old_ci]++;
			last[me] = old_ci + 1;
			got = true
		:: !(ci == old_ci && who == old_who) -> skip
		fi
	})
#endif
}

proctype Claimant(byte me; byte wants)
{
	byte old_ci, old_who, seen, posted;
	bool got, noted_it;

again:
	do
	:: wants == 0 -> break
	:: wants > 0 ->
		atomic { old_ci = ci; old_who = who };
		posted = pi - old_ci;
		if
		:: old_ci == WQES -> break
		:: old_ci < WQES && posted > RING ->
#ifdef NO_SECOND_LOOK
			assert(false)
#else
			assert(ci != old_ci);
			goto again
#endif
		:: old_ci < WQES && posted == 0 ->
			pi > ci || ci == WQES;
			goto again
		:: old_ci < WQES && posted > 0 && posted <= RING -> skip
		fi;
#ifndef NOTE_LATE
		if
		:: old_who != 0 && old_who != me -> note()
		:: !(old_who != 0 && old_who != me) -> noted_it = true
		fi;
#else
		noted_it = true;
#endif
		if
		:: noted_it -> swap()
		:: !noted_it -> skip
		fi;
		if
		:: got ->
#ifdef NOTE_LATE
			if
			:: old_who != 0 && old_who != me -> STORE(noted[old_who] = old_ci)
			:: !(old_who != 0 && old_who != me) -> skip
			fi;
#endif
			got = false;
			wants--
		:: !got -> skip
		fi
	od;
gone:
	if
	:: me == 1 -> first_ended = true
	:: me != 1 -> skip
	fi;
	ended++
}

/* As who mends finds out. */
inline find_latest(n)
{
	atomic { head_ci = ci; head_who = who };
#ifndef NO_HEAD
	if
	:: head_who == n -> latest = head_ci
	:: head_who != n -> latest = noted[n]
	fi
#else
	latest = noted[n]
#endif
}

/* What was consumed it hears of at once, at the earliest. */
proctype Client()
{
	do
	:: pi == WQES -> break
	:: pi < WQES -> atomic { pi - ci < RING -> pi++ }
	od
}

/* At any time after the first has ended, while the others go on. */
proctype Mender()
{
	byte head_ci, head_who, latest;

	first_ended;
	find_latest(1);
	assert(latest == last[1]);
	ended++
}

init {
	byte head_ci, head_who, latest, i;

	atomic {
		run Claimant(1, 2);
		run Claimant(2, 2);
		run Claimant(3, 1);
		run Client();
		run Mender()
	};
	ended == CLAIMANTS + 1;
	find_latest(2);
	assert(latest == last[2]);
	find_latest(3);
	assert(latest == last[3]);
	for (i : 0 .. WQES - 1) {
		assert(consumed[i] == (i < ci -> 1 : 0))
	}
}
