/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Two threads, each of which stores to a word of its own and then looks at the other's, both
 * sequentially consistent: one of them sees the other. Prints how often neither did.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#define ROUNDS 50000

static _Atomic int word[2], round_of[2], done;
static int saw[2];

static void *look(void *arg)
{
	int me = *(int *)arg;

	for (int round = 1; round <= ROUNDS; round++) {
		while (atomic_load(&round_of[me]) < round)
			;
		atomic_store(&word[me], 1);
		saw[me] = atomic_load(&word[!me]);
		atomic_fetch_add(&done, 1);
	}
	return NULL;
}

int main(void)
{
	int number[2] = { 0, 1 }, neither = 0;
	pthread_t thread[2];

	for (int i = 0; i < 2; i++)
		if (pthread_create(&thread[i], NULL, look, &number[i]))
			return 1;
	for (int round = 1; round <= ROUNDS; round++) {
		for (int i = 0; i < 2; i++)
			atomic_store(&word[i], 0);
		atomic_store(&done, 0);
		for (int i = 0; i < 2; i++)
			atomic_store(&round_of[i], round);
		while (atomic_load(&done) < 2)
			;
		neither += !saw[0] && !saw[1];
	}
	for (int i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	printf("%d\n", neither);
	return 0;
}
