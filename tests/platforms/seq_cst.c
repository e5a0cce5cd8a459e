/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Two threads, each of which stores to a word of its own and then looks at the other's, both
 * sequentially consistent: one of them sees the other. Prints how often neither did.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#define ROUNDS 50000

static _Atomic int word[ROUNDS][2], round_of[2];
static int saw[ROUNDS][2];

static void *look(void *arg)
{
	int me = *(int *)arg;

	for (int round = 0; round < ROUNDS; round++) {
		atomic_store(&round_of[me], round);
		while (atomic_load(&round_of[!me]) < round)
			;
		atomic_store(&word[round][me], 1);
		saw[round][me] = atomic_load(&word[round][!me]);
	}
	atomic_store(&round_of[me], ROUNDS);
	return NULL;
}

int main(void)
{
	int number[2] = { 0, 1 }, neither = 0;
	pthread_t thread;

	/* No third one: on two CPUs the two would seldom run at once. */
	if (pthread_create(&thread, NULL, look, &number[1]))
		return 1;
	look(&number[0]);
	pthread_join(thread, NULL);
	for (int round = 0; round < ROUNDS; round++)
		neither += !saw[round][0] && !saw[round][1];
	printf("%d\n", neither);
	return 0;
}
