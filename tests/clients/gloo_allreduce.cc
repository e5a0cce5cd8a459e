/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Gloo over its ibverbs transport: an all-reduce among processes that meet in a directory, checked.
 *
 *	gloo_allreduce DIRECTORY RANKS
 */
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include <gloo/allreduce_ring_chunked.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/ibverbs/device.h>

/*
 * Nobody destroys anything before all are done: what is still under way then fails with an
 * exception in a thread of Gloo. done: a pipe that the parent reads; go: one that it closes.
 */
static int run(const char *directory, int rank, int ranks, int done, int go)
{
	using Sum = gloo::AllreduceRingChunked<uint64_t>;
	std::vector<std::unique_ptr<Sum>> sums;
	std::vector<std::vector<uint64_t>> vectors(3);
	gloo::transport::ibverbs::attr attr;
	int round = 0;
	char byte = 0;

	alarm(60);
	attr.name = "simhca0";
	attr.port = 1;
	attr.index = 0;
	auto device = gloo::transport::ibverbs::CreateDevice(attr);
	auto context = std::make_shared<gloo::rendezvous::Context>(rank, ranks);
	gloo::rendezvous::FileStore store(directory);

	context->connectFullMesh(store, device);
	for (size_t count : { 1, 1000, 300000 }) {
		std::vector<uint64_t> &data = vectors[round++];

		data.resize(count);
		for (size_t i = 0; i < count; i++)
			data[i] = i * 3 + rank;
		sums.emplace_back(new Sum(context, { data.data() }, (int)count));
		sums.back()->run();
		for (size_t i = 0; i < count; i++) {
			if (data[i] != ranks * i * 3 + ranks * (ranks - 1) / 2) {
				fprintf(stderr, "rank %d: word %zu of %zu is wrong\n", rank, i,
					count);
				return 1;
			}
		}
	}
	if (write(done, &byte, 1) != 1 || read(go, &byte, 1) != 0)
		return 1;
	_exit(0);
}

int main(int argc, char *argv[])
{
	int ranks = argc == 3 ? atoi(argv[2]) : 0, failed = 0, status, done[2], go[2];
	char byte;

	if (ranks < 2 || pipe(done) || pipe(go))
		return 2;
	for (int rank = 0; rank < ranks; rank++) {
		if (fork())
			continue;
		close(done[0]);
		close(go[1]);
		_exit(run(argv[1], rank, ranks, done[1], go[0]));
	}
	close(done[1]);
	for (int rank = 0; rank < ranks; rank++)
		failed |= read(done[0], &byte, 1) != 1;
	close(go[1]);
	for (int rank = 0; rank < ranks; rank++)
		failed += wait(&status) < 0 || status != 0;
	if (!failed)
		printf("%d ranks\n", ranks);
	return failed != 0;
}
