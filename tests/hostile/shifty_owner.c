/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A program that has files as regions and does all sorts of things to them, and to its own mappings, while
 * a peer writes there, which may have them mapped:
 *
 *	shifty-owner N
 *
 * N times. The peer gets no signal, and once a region is deregistered nobody changes the file, whoever
 * carries the writes. The peer's QP is UC, on which a key that is gone loses the message and nothing else.
 */
#include <fcntl.h>
#include <sys/mman.h>

#include "steady_writer.h"

#define PAGE 4096u

static void wait_until_written(const uint8_t *memory)
{
	const uint64_t until = now_ns() + MOST_SECONDS * 1000000000ull;

	while (!any_written(memory))
		CHECK(now_ns() < until);
}

/*
 * Until the device has carried the first list, which the responder takes up after those that it has lost; the
 * second one, for which the peer has the region mapped; and others have gone there by the peer itself.
 */
static void wait_for_lists(void)
{
	const uint64_t until = now_ns() + MOST_SECONDS * 1000000000ull;
	const uint64_t enough = atomic_load(&shared->lists) + 8;

	while (atomic_load(&shared->lists) < enough)
		CHECK(now_ns() < until);
}

enum how {
	LEAVES,		/* a file that it has sealed as it is */
	SHRINKS,	/* tries to shrink that */
	PUNCHES,	/* takes pages out of it */
	GOES_ELSEWHERE, /* has other memory where it had that file */
	FORBIDS,	/* further writable mappings, before anybody else has one */
	NEVER_SEALS,	/* and shrinks it, and makes it longer again */
	SEALS_LATE,	/* after the region was made */
	HOWS,
};

static int make_file(enum how how)
{
	int fd = memfd_create("shifty", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	CHECK(fd >= 0 && !ftruncate(fd, BYTES));
	if (how != NEVER_SEALS && how != SEALS_LATE)
		CHECK(!fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK));
	return fd;
}

static void one_round(struct ibv_pd *pd, enum how how)
{
	int fd = make_file(how);
	/* As others see it, and where the program has it. */
	uint8_t *file = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	uint8_t *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	struct ibv_mr *mr = ibv_reg_dmabuf_mr(pd, 0, BYTES, (uintptr_t)memory, fd, FULL_ACCESS);
	uint64_t until;

	CHECK(file != MAP_FAILED && memory != MAP_FAILED && mr);
	if (how == FORBIDS)
		CHECK(!fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE));
	atomic_store(&shared->va, (uintptr_t)memory);
	atomic_store(&shared->rkey, mr->rkey);
	wait_until_written(file);
	for (int i = 0; i < 50; i++) {
		if (how == SHRINKS)
			CHECK(ftruncate(fd, PAGE) && errno == EPERM);
		if (how == PUNCHES)
			CHECK(!fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, BYTES));
		if (how == NEVER_SEALS)
			CHECK(!ftruncate(fd, 0) && !ftruncate(fd, BYTES));
		if (how == GOES_ELSEWHERE && i < 2)
			CHECK(mmap(memory, BYTES, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == memory);
	}
	if (how == SEALS_LATE)
		CHECK(!fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK));
	wait_for_lists();
	/* A hole was made, or not: it goes on, in the file. */
	wait_until_written(file);
	CHECK(how != GOES_ELSEWHERE || !any_written(memory));
	CHECK(!ibv_dereg_mr(mr));
	memset(file, 0, BYTES);
	until = now_ns() + LOOK_NS;
	while (now_ns() < until)
		CHECK(!any_written(file));
	CHECK(!munmap(file, BYTES) && !munmap(memory, BYTES) && !close(fd));
}

int main(int argc, char **argv)
{
	struct ibv_pd *pd;
	pid_t pid;

	CHECK(argc == 2);
	pd = start_writer(&pid);
	for (int i = 0; i < atoi(argv[1]); i++)
		one_round(pd, (enum how)(i % HOWS));
	end_writer(pid);
	return 0;
}
