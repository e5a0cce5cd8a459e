/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * One-sided MPI: put and get between fences, accumulate under a lock, fetch-and-op as a ticket
 * counter that gives each number once, and compare-and-swap. Rank 0 prints a line for each.
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define WORDS 4096 /* of each rank's window, for put and get */
#define TICKETS 25 /* of each rank */

static int rank, ranks;

static void fail(const char *what, long long got, long long wanted)
{
	fprintf(stderr, "rank %d: %s: %lld, not %lld\n", rank, what, got, wanted);
	MPI_Abort(MPI_COMM_WORLD, 1);
}

static void expect(const char *what, int64_t got, int64_t wanted)
{
	if (got != wanted)
		fail(what, got, wanted);
}

static void done(const char *what)
{
	MPI_Barrier(MPI_COMM_WORLD);
	if (!rank)
		puts(what);
}

static int64_t value(int from, int to, int64_t i)
{
	return ((int64_t)from << 40) + ((int64_t)to << 32) + i * 3 + 1;
}

static void put_and_get(MPI_Win window, const int64_t *mine)
{
	int next = (rank + 1) % ranks, last = (rank + ranks - 1) % ranks;
	int64_t *words = malloc(WORDS * sizeof(*words));

	for (int i = 0; i < WORDS; i++)
		words[i] = value(rank, next, i);
	MPI_Win_fence(0, window);
	MPI_Put(words, WORDS, MPI_INT64_T, next, 0, WORDS, MPI_INT64_T, window);
	MPI_Win_fence(0, window);
	for (int i = 0; i < WORDS; i++)
		expect("put", mine[i], value(last, rank, i));
	done("put");
	for (int i = 0; i < WORDS; i++)
		words[i] = 0;
	/* From the one before us: what the one before that has put there. */
	MPI_Win_fence(0, window);
	MPI_Get(words, WORDS, MPI_INT64_T, last, 0, WORDS, MPI_INT64_T, window);
	MPI_Win_fence(0, window);
	for (int i = 0; i < WORDS; i++)
		expect("get", words[i], value((last + ranks - 1) % ranks, last, i));
	done("get");
	free(words);
}

/* Word 0 of rank 0 counts. */
static void accumulate(MPI_Win window, int64_t *mine)
{
	int64_t add = rank + 1;

	if (!rank)
		mine[0] = 1000;
	MPI_Win_fence(0, window);
	for (int i = 0; i < 10; i++) {
		MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
		MPI_Accumulate(&add, 1, MPI_INT64_T, 0, 0, 1, MPI_INT64_T, MPI_SUM, window);
		MPI_Win_unlock(0, window);
	}
	MPI_Win_fence(0, window);
	if (!rank)
		expect("accumulate", mine[0], 1000 + 10 * ((int64_t)ranks * (ranks + 1) / 2));
	done("accumulate");
}

/* Each ticket from word 1 of rank 0 is given to one rank, once. */
static void fetch_and_op(MPI_Win window, int64_t *mine)
{
	int64_t one = 1, ticket, last = -1;
	int *taken = calloc((size_t)ranks * TICKETS, sizeof(*taken));

	if (!rank)
		mine[1] = 0;
	MPI_Win_fence(0, window);
	MPI_Win_lock_all(0, window);
	for (int i = 0; i < TICKETS; i++) {
		MPI_Fetch_and_op(&one, &ticket, MPI_INT64_T, 0, 1, MPI_SUM, window);
		MPI_Win_flush(0, window);
		if (ticket <= last || ticket >= (int64_t)ranks * TICKETS)
			fail("fetch and op", ticket, last);
		taken[ticket]++;
		last = ticket;
	}
	MPI_Win_unlock_all(window);
	MPI_Allreduce(MPI_IN_PLACE, taken, ranks * TICKETS, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	for (int i = 0; i < ranks * TICKETS; i++)
		expect("how often a ticket was given", taken[i], 1);
	done("fetch and op");
	free(taken);
}

/* Rank after rank finds its predecessor's number in word 2 of rank 0, and nobody else's. */
static void compare_and_swap(MPI_Win window, int64_t *mine)
{
	int64_t old, wrong = -1, mine_now = rank + 1, before = rank;

	if (!rank)
		mine[2] = 0;
	MPI_Win_fence(0, window);
	for (int turn = 0; turn < ranks; turn++) {
		if (turn == rank) {
			MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
			MPI_Compare_and_swap(&mine_now, &wrong, &old, MPI_INT64_T, 0, 2, window);
			MPI_Win_flush(0, window);
			expect("compare and swap of another value", old, rank);
			MPI_Compare_and_swap(&mine_now, &before, &old, MPI_INT64_T, 0, 2, window);
			MPI_Win_unlock(0, window);
			expect("compare and swap", old, rank);
		}
		MPI_Barrier(MPI_COMM_WORLD);
	}
	MPI_Win_fence(0, window);
	if (!rank)
		expect("the last value", mine[2], ranks);
	done("compare and swap");
}

int main(int argc, char *argv[])
{
	MPI_Win window;
	int64_t *mine;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	MPI_Win_allocate(WORDS * sizeof(*mine), sizeof(*mine), MPI_INFO_NULL, MPI_COMM_WORLD, &mine,
			 &window);
	put_and_get(window, mine);
	accumulate(window, mine);
	fetch_and_op(window, mine);
	compare_and_swap(window, mine);
	MPI_Win_free(&window);
	if (!rank)
		printf("%d ranks\n", ranks);
	MPI_Finalize();
	return 0;
}
