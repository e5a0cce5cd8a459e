/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Messages between MPI ranks, every word checked: a ring, all to all, both ways at once, and a
 * reduction. Rank 0 prints a line for each. An argument limits the largest message (bytes).
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define ROUNDS 5

static int rank, ranks;

static uint32_t word(int from, int to, size_t i, unsigned int round)
{
	return (uint32_t)from * 2654435761u + (uint32_t)to * 40503u + (uint32_t)i * 97u +
	       round * 7919u;
}

static void fill(uint32_t *words, size_t count, int from, int to, unsigned int round)
{
	for (size_t i = 0; i < count; i++)
		words[i] = word(from, to, i, round);
}

static void expect(const char *what, const uint32_t *words, size_t count, int from, int to,
		   unsigned int round)
{
	for (size_t i = 0; i < count; i++) {
		if (words[i] == word(from, to, i, round))
			continue;
		fprintf(stderr, "rank %d: %s: word %zu of %zu from rank %d is wrong\n", rank, what,
			i, count, from);
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
}

static void done(const char *what)
{
	MPI_Barrier(MPI_COMM_WORLD);
	if (!rank)
		puts(what);
}

/* A message goes round; each rank checks it and sends its own on. */
static void ring(uint32_t *out, uint32_t *in, size_t count)
{
	int next = (rank + 1) % ranks, last = (rank + ranks - 1) % ranks;
	MPI_Status status;
	int received;

	for (unsigned int round = 0; round < ROUNDS; round++) {
		fill(out, count, rank, next, round);
		if (!rank)
			MPI_Send(out, (int)count, MPI_UINT32_T, next, 1, MPI_COMM_WORLD);
		MPI_Recv(in, (int)count + 1, MPI_UINT32_T, last, 1, MPI_COMM_WORLD, &status);
		MPI_Get_count(&status, MPI_UINT32_T, &received);
		if (received != (int)count)
			MPI_Abort(MPI_COMM_WORLD, 2);
		expect("ring", in, count, last, rank, round);
		if (rank)
			MPI_Send(out, (int)count, MPI_UINT32_T, next, 1, MPI_COMM_WORLD);
	}
}

static void all_to_all(uint32_t *out, uint32_t *in, size_t count)
{
	for (unsigned int round = 0; round < ROUNDS; round++) {
		for (int peer = 0; peer < ranks; peer++)
			fill(out + (size_t)peer * count, count, rank, peer, round);
		MPI_Alltoall(out, (int)count, MPI_UINT32_T, in, (int)count, MPI_UINT32_T,
			     MPI_COMM_WORLD);
		for (int peer = 0; peer < ranks; peer++)
			expect("all to all", in + (size_t)peer * count, count, peer, rank, round);
	}
}

static void both_ways(uint32_t *out, uint32_t *in, size_t count)
{
	for (int distance = 1; distance < ranks; distance++) {
		int to = (rank + distance) % ranks, from = (rank + ranks - distance) % ranks;

		fill(out, count, rank, to, 0);
		MPI_Sendrecv(out, (int)count, MPI_UINT32_T, to, 2, in, (int)count, MPI_UINT32_T,
			     from, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		expect("both ways", in, count, from, rank, 0);
	}
}

static void reduction(uint32_t *out, uint32_t *in, size_t count)
{
	for (size_t i = 0; i < count; i++)
		out[i] = (uint32_t)i + (uint32_t)rank;
	MPI_Allreduce(out, in, (int)count, MPI_UINT32_T, MPI_SUM, MPI_COMM_WORLD);
	for (size_t i = 0; i < count; i++)
		if (in[i] != (uint32_t)ranks * (uint32_t)i + (uint32_t)(ranks * (ranks - 1) / 2))
			MPI_Abort(MPI_COMM_WORLD, 3);
}

int main(int argc, char *argv[])
{
	size_t most, per_peer;
	uint32_t *out, *in;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	most = (argc > 1 ? strtoul(argv[1], NULL, 10) : 1 << 20) / 4;
	per_peer = most / (size_t)ranks;
	out = malloc((most + 1) * 4);
	in = malloc((most + 1) * 4);
	if (!out || !in || !per_peer)
		MPI_Abort(MPI_COMM_WORLD, 4);
	ring(out, in, 1);
	ring(out, in, 700);
	ring(out, in, most);
	done("ring");
	all_to_all(out, in, 1);
	all_to_all(out, in, per_peer);
	done("all to all");
	both_ways(out, in, 100);
	both_ways(out, in, most);
	done("both ways");
	reduction(out, in, 1000);
	done("reduction");
	if (!rank)
		printf("%d ranks\n", ranks);
	free(out);
	free(in);
	MPI_Finalize();
	return 0;
}
