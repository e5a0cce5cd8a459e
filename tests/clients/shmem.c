/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* OpenSHMEM: every word that comes over is checked. PE 0 prints a line for each part. */
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>

#define WORDS 10000
#define TIMES 200

static int me, all;

static void check(int right, const char *what, long i)
{
	if (right)
		return;
	fprintf(stderr, "PE %d of %d: %s, %ld: wrong\n", me, all, what, i);
	shmem_global_exit(1);
}

/* Nobody goes on before all have checked. */
static void said(const char *what)
{
	shmem_barrier_all();
	if (!me)
		puts(what);
	fflush(stdout);
	shmem_barrier_all();
}

static long word(int pe, long i)
{
	return pe * 1000003L + i;
}

static void put_and_get(void)
{
	long *there = shmem_malloc(WORDS * sizeof(*there));
	long *here = malloc(WORDS * sizeof(*here));
	const int right = (me + 1) % all, left = (me + all - 1) % all;

	for (long i = 0; i < WORDS; i++)
		here[i] = word(me, i);
	shmem_long_put(there, here, WORDS, right);
	shmem_barrier_all();
	for (long i = 0; i < WORDS; i++)
		check(there[i] == word(left, i), "put", i);
	said("put");

	shmem_long_get(here, there, WORDS, right);
	for (long i = 0; i < WORDS; i++)
		check(here[i] == word(me, i), "get", i);
	shmem_barrier_all();
	for (long i = 0; i < TIMES; i++)
		shmem_long_p(&there[i], word(me, -i), right);
	shmem_quiet();
	for (long i = 0; i < TIMES; i++)
		check(shmem_long_g(&there[i], right) == word(me, -i), "one word", i);
	said("get");
	free(here);
	shmem_free(there);
}

static void atomics(void)
{
	long *counter = shmem_calloc(3, sizeof(*counter));

	shmem_barrier_all();
	for (long i = 0; i < TIMES; i++) {
		long old = shmem_long_atomic_fetch_add(&counter[0], 3, 0);

		check(old % 3 == 0 && old < 3L * TIMES * all, "fetch and add", old);
		shmem_long_atomic_inc(&counter[1], all - 1);
		/* Each adds one by comparing, and tries again when another was first. */
		for (old = 0;; old = shmem_long_g(&counter[2], 0))
			if (shmem_long_atomic_compare_swap(&counter[2], old, old + 1, 0) == old)
				break;
	}
	shmem_barrier_all();
	check(shmem_long_g(&counter[0], 0) == 3L * TIMES * all, "sum of fetch and add", 0);
	check(shmem_long_g(&counter[1], all - 1) == (long)TIMES * all, "sum of increments", 0);
	check(shmem_long_g(&counter[2], 0) == (long)TIMES * all, "sum of swaps", 0);
	said("atomics");
	shmem_free(counter);
}

/* A token goes round; each waits for its memory to change. */
static void ring(void)
{
	long *token = shmem_calloc(1, sizeof(*token));

	shmem_barrier_all();
	for (long i = 1; i <= TIMES; i++) {
		if (me)
			shmem_long_wait_until(token, SHMEM_CMP_EQ, i);
		shmem_long_p(token, i, (me + 1) % all);
		if (!me)
			shmem_long_wait_until(token, SHMEM_CMP_EQ, i);
	}
	said("ring");
	shmem_free(token);
}

static void reduction(void)
{
	static long sync[SHMEM_REDUCE_SYNC_SIZE], work[SHMEM_REDUCE_MIN_WRKDATA_SIZE + 1000];
	long *in = shmem_malloc(1000 * sizeof(*in)), *out = shmem_malloc(1000 * sizeof(*out));

	for (int i = 0; i < SHMEM_REDUCE_SYNC_SIZE; i++)
		sync[i] = SHMEM_SYNC_VALUE;
	for (long i = 0; i < 1000; i++)
		in[i] = word(me, i);
	shmem_barrier_all();
	shmem_long_sum_to_all(out, in, 1000, 0, 0, all, work, sync);
	for (long i = 0; i < 1000; i++)
		check(out[i] == all * (all - 1) / 2 * 1000003L + all * i, "reduction", i);
	said("reduction");
	shmem_free(in);
	shmem_free(out);
}

int main(void)
{
	char done[32];

	shmem_init();
	me = shmem_my_pe();
	all = shmem_n_pes();
	put_and_get();
	atomics();
	ring();
	reduction();
	snprintf(done, sizeof(done), "%d PEs", all);
	said(done);
	/* shmem_finalize() of Open MPI 4.1.4 crashes, over TCP as well. */
	shmem_global_exit(0);
}
