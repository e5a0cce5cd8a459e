/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Memory that is moved into a file as it is registered (simhcad's --shared-memory): where it lies, what it holds, and
 * that it comes back. Argument: one of the scenes below, of which nothing is moved in `off`.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>

#include "moved_memory.h"

/* ------------------------------------------------------------------------------------- contents */

static void contents(void)
{
	char *memory = map_pages(PAGES);
	struct ibv_mr *mr;

	fill(memory, LENGTH / 2, 1); /* the others were never touched */
	mr = reg(memory, LENGTH);
	CHECK(is_moved(memory) && is_moved(memory + LENGTH - 1) && count_files() == 2);
	CHECK(mr->addr == memory && mr->length == LENGTH);
	CHECK(is_filled(memory, LENGTH / 2, 1) && !memory[LENGTH / 2] && !memory[LENGTH - 1]);
	check_messages(mr, memory, LENGTH);
	fill(memory + LENGTH - 2 * PAGE, PAGE, 2);
	CHECK(!ibv_dereg_mr(mr));
	CHECK(!is_moved(memory) && !is_moved(memory + LENGTH - 1) && count_files() == 1);
	CHECK(is_filled(memory, LENGTH / 2, 1) && !memory[LENGTH / 2]);
	CHECK(is_filled(memory + LENGTH - 2 * PAGE, PAGE, 2) &&
	      is_filled(memory + LENGTH - PAGE, PAGE, 98));
	/* It is zero again after that, as private memory is. */
	CHECK(!madvise(memory, LENGTH, MADV_DONTNEED) && !memory[0]);
	/* And once more. */
	fill(memory, LENGTH, 3);
	mr = reg(memory, LENGTH);
	CHECK(is_moved(memory) && is_filled(memory, LENGTH, 3));
	check_messages(mr, memory, LENGTH);
	CHECK(!ibv_dereg_mr(mr));
}

/* More than is looked at, at once, and holes in it. */
static void large(void)
{
	const size_t pages = 2000;
	char *memory = map_pages(pages);
	struct ibv_mr *mr;

	for (size_t i = 0; i < pages; i += i % 7 ? 1 : 3)
		fill(memory + i * PAGE, PAGE, (unsigned int)i);
	for (int round = 0; round < 2; round++) {
		if (!round)
			mr = reg(memory, pages * PAGE);
		else
			CHECK(!ibv_dereg_mr(mr));
		CHECK(is_moved(memory) == !round);
		for (size_t i = 0, next = 0; i < pages; i++) {
			if (i == next) {
				CHECK(is_filled(memory + i * PAGE, PAGE, (unsigned int)i));
				next += i % 7 ? 1 : 3;
			} else {
				CHECK(!memory[i * PAGE] && !memory[i * PAGE + PAGE - 1]);
			}
		}
	}
}

/* ----------------------------------------------------------------------------------- what stays */

static void check_stays(void *memory, size_t length)
{
	struct ibv_mr *mr = reg(memory, length);

	CHECK(!is_moved(memory) && !is_moved((char *)memory + length - 1) && count_files() == 1);
	CHECK(!ibv_dereg_mr(mr));
}

static void stays(void)
{
	char *memory = map_pages(PAGES), on_stack[3 * PAGE] = { 0 };
	char *page_of_stack = (char *)(((uintptr_t)on_stack + PAGE) & ~(uintptr_t)(PAGE - 1));
	struct ibv_mr *mr;
	char *shared;
	int fd;

	/* Not whole pages. */
	check_stays(memory + 8, PAGE);
	check_stays(memory, PAGE - 8);
	check_stays(memory + 8, 4 * PAGE - 8);
	/* Stacks. */
	check_stays(page_of_stack, PAGE);
	/* Shared memory, of a file or not; and a private mapping of a file. */
	shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(shared != MAP_FAILED);
	check_stays(shared, PAGE);
	fd = memfd_create("test", MFD_CLOEXEC);
	CHECK(fd >= 0 && !ftruncate(fd, PAGE));
	shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	CHECK(shared != MAP_FAILED);
	check_stays(shared, PAGE);
	/* Memory that cannot be written to, or is run. */
	CHECK(!mprotect(memory + PAGE, PAGE, PROT_READ));
	mr = ibv_reg_mr(pd, memory, 3 * PAGE, IBV_ACCESS_REMOTE_READ);
	CHECK(mr && !is_moved(memory) && !is_moved(memory + PAGE));
	CHECK(!ibv_dereg_mr(mr));
	CHECK(!mprotect(memory + PAGE, PAGE, PROT_READ | PROT_WRITE));
	/* Rights that a region of a file cannot have. */
	mr = ibv_reg_mr(pd, memory, PAGE, FULL_ACCESS | IBV_ACCESS_MW_BIND);
	CHECK(mr && !is_moved(memory) && !ibv_dereg_mr(mr));
	mr = ibv_reg_mr(pd, memory, PAGE, FULL_ACCESS | IBV_ACCESS_ZERO_BASED);
	CHECK(mr && !is_moved(memory) && !ibv_dereg_mr(mr));
	/* Another place in the pages of the address that peers use: an error as ever. */
	errno = 0;
	CHECK(!ibv_reg_mr_iova(pd, memory, PAGE, 8, FULL_ACCESS) && errno == EINVAL);
	CHECK(!is_moved(memory));
	/* Nothing is mapped there: likewise. */
	CHECK(!munmap(memory + 4 * PAGE, PAGE));
	errno = 0;
	CHECK(!ibv_reg_mr(pd, memory + 3 * PAGE, 3 * PAGE, FULL_ACCESS) && errno == EFAULT);
	CHECK(!is_moved(memory + 3 * PAGE) && count_files() == 1);
	/* But of these it can be. */
	mr = ibv_reg_mr(pd, memory, PAGE, FULL_ACCESS | IBV_ACCESS_RELAXED_ORDERING);
	CHECK(mr && is_moved(memory) && !is_moved(memory + PAGE) && !ibv_dereg_mr(mr));
	mr = ibv_reg_mr(pd, memory, PAGE, 0);
	CHECK(mr && is_moved(memory) && !ibv_dereg_mr(mr));
	mr = ibv_reg_mr_iova(pd, memory, PAGE, 7 * PAGE, FULL_ACCESS);
	CHECK(mr && is_moved(memory));
	fill(own, 64, 5);
	CHECK(!transfer(IBV_WR_RDMA_WRITE, 64, 7 * PAGE, mr->rkey) && is_filled(memory, 64, 5));
	CHECK(!ibv_dereg_mr(mr));
}

static void *register_of_stack(void *arg)
{
	char on_stack[3 * PAGE] = { 0 };

	(void)arg;
	check_stays((void *)(((uintptr_t)on_stack + PAGE) & ~(uintptr_t)(PAGE - 1)), PAGE);
	return NULL;
}

static void *register_page(void *page)
{
	check_stays(page, PAGE);
	return NULL;
}

/* Its own, and by it the main thread's. */
static void stack_of_a_thread(void)
{
	char on_stack[3 * PAGE] = { 0 };
	char *page = (char *)(((uintptr_t)on_stack + PAGE) & ~(uintptr_t)(PAGE - 1));
	pthread_t thread;

	CHECK(!pthread_create(&thread, NULL, register_of_stack, NULL));
	CHECK(!pthread_join(thread, NULL));
	CHECK(!pthread_create(&thread, NULL, register_page, page));
	CHECK(!pthread_join(thread, NULL));
}

/* A file may not be that long: that would be a signal. */
static void length_of_files(void)
{
	const struct rlimit limit = { 4 * PAGE, 4 * PAGE };
	char *memory = map_pages(PAGES);
	struct ibv_mr *mr;

	CHECK(!setrlimit(RLIMIT_FSIZE, &limit));
	check_stays(memory, 5 * PAGE);
	mr = reg(memory, 4 * PAGE);
	CHECK(is_moved(memory) && !ibv_dereg_mr(mr));
}

/* A quarter of the descriptors, of which own has one. What is beyond them stays, and so does what the device has no room for. */
static void many(void)
{
	const struct rlimit limit = { 64, 64 };
	struct ibv_mr *mr[40];
	char *memory = map_pages(2 * 40);
	unsigned int moved = 0;

	CHECK(!setrlimit(RLIMIT_NOFILE, &limit));
	for (int round = 0; round < 2; round++, moved = 0) {
		for (unsigned int i = 0; i < 40; i++) {
			fill(memory + 2 * i * PAGE, PAGE, i);
			mr[i] = reg(memory + 2 * i * PAGE, PAGE);
			moved += is_moved(memory + 2 * i * PAGE);
		}
		CHECK(moved > 8 && moved < 16);
		for (unsigned int i = 0; i < 40; i++) {
			CHECK(is_filled(memory + 2 * i * PAGE, PAGE, i));
			CHECK(!transfer(IBV_WR_RDMA_WRITE, 8, (uintptr_t)memory + 2 * i * PAGE,
					mr[i]->rkey));
			CHECK(!ibv_dereg_mr(mr[i]));
		}
	}
	CHECK(count_files() == 1);
}

/*
 * Each buffer that was moved is a mapping of its own from then on. Half of those that a process may have are the
 * program's, which is looked at from time to time.
 */
static void mappings(void)
{
	char *memory = map_pages(1), *crowd;
	size_t most = 0, moved = 0;
	FILE *file = fopen("/proc/sys/vm/max_map_count", "re");

	CHECK(file && fscanf(file, "%zu", &most) == 1 && !fclose(file));
	if (most > 100000) /* there is room for more than anybody has time to make */
		return;
	crowd = map_pages(most);

	CHECK(!ibv_dereg_mr(reg(memory, PAGE)));
	for (size_t i = 0; i < most * 3 / 5; i += 2)
		CHECK(!mprotect(crowd + i * PAGE, PAGE, PROT_READ));
	for (int i = 0; i < 2048; i++) {
		struct ibv_mr *mr = reg(memory, PAGE);

		moved += count_files() == 2;
		CHECK(!ibv_dereg_mr(mr));
	}
	CHECK(moved < 1024);
	CHECK(!munmap(crowd, most * PAGE));
	for (int i = 0; i < 1024; i++)
		CHECK(!ibv_dereg_mr(reg(memory, PAGE)));
	check_messages(reg(memory, PAGE), memory, PAGE);
	CHECK(is_moved(memory));
}

/* Where nothing is to be moved. */
static void off(void)
{
	char *memory = map_pages(1);

	CHECK(!count_files());
	CHECK(!ibv_dereg_mr(reg(memory, PAGE)));
	reg(memory, PAGE);
	CHECK(!is_moved(memory) && !count_files());
}

/* ---------------------------------------------------------------------------------- overlapping */

static void nested(void)
{
	char *memory = map_pages(PAGES);
	struct ibv_mr *outer, *inner, *crossing, *same;

	fill(memory, LENGTH, 1);
	outer = reg(memory, 8 * PAGE);
	CHECK(is_moved(memory) && !is_moved(memory + 8 * PAGE));
	/* Inside: the same file, from some offset. */
	inner = reg(memory + 2 * PAGE, 2 * PAGE);
	same = reg(memory, 8 * PAGE);
	CHECK(count_files() == 2);
	check_messages(inner, memory + 2 * PAGE, 2 * PAGE);
	check_messages(same, memory, 8 * PAGE);
	CHECK(transfer(IBV_WR_RDMA_WRITE, 1, (uintptr_t)memory + 4 * PAGE, inner->rkey) ==
	      IBV_WC_REM_ACCESS_ERR);
	/* Partly outside: it stays, and works all the same. */
	crossing = reg(memory + 6 * PAGE, 4 * PAGE);
	CHECK(!is_moved(memory + 8 * PAGE) && is_moved(memory + 7 * PAGE) && count_files() == 2);
	check_messages(crossing, memory + 6 * PAGE, 4 * PAGE);
	check_messages(crossing, memory + 6 * PAGE, 2 * PAGE);
	/* It is moved for as long as there is one of them. */
	CHECK(!ibv_dereg_mr(outer) && is_moved(memory));
	CHECK(!ibv_dereg_mr(same) && is_moved(memory));
	check_messages(inner, memory + 2 * PAGE, 2 * PAGE);
	CHECK(!ibv_dereg_mr(inner) && !is_moved(memory) && !is_moved(memory + 2 * PAGE));
	CHECK(is_filled(memory, PAGE, 1));
	check_messages(crossing, memory + 6 * PAGE, 4 * PAGE);
	CHECK(!ibv_dereg_mr(crossing) && count_files() == 1);
}

/* -------------------------------------------------------------------- what a program does to it */

/* What it has unmapped, or has other memory at, is not ours to bring back; rights stay what they are by then. */
static void unmapped(void)
{
	char *memory = map_pages(PAGES), *other;
	struct ibv_mr *mr;
	int fd = memfd_create("other", MFD_CLOEXEC);

	CHECK(fd >= 0 && !ftruncate(fd, LENGTH));
	fill(memory, LENGTH, 1);
	mr = reg(memory, LENGTH);
	CHECK(!munmap(memory + 2 * PAGE, PAGE));
	other = mmap(memory + 4 * PAGE, PAGE, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	CHECK(other == memory + 4 * PAGE);
	other = mmap(memory + 6 * PAGE, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
		     0);
	CHECK(other == memory + 6 * PAGE);
	other[0] = 'o';
	/* The same file at another place: it is not the memory that was there. */
	CHECK(mremap(memory + 9 * PAGE, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED,
		     memory + 10 * PAGE) == memory + 10 * PAGE);
	CHECK(!mprotect(memory + 12 * PAGE, PAGE, PROT_NONE));
	CHECK(!mprotect(memory + 13 * PAGE, PAGE, PROT_READ));
	CHECK(!ibv_dereg_mr(mr));
	CHECK(is_filled(memory, 2 * PAGE, 1));
	errno = 0;
	CHECK(msync(memory + 2 * PAGE, PAGE, MS_ASYNC) && errno == ENOMEM);
	errno = 0;
	CHECK(msync(memory + 9 * PAGE, PAGE, MS_ASYNC) && errno == ENOMEM);
	CHECK(!memory[4 * PAGE] && memory[6 * PAGE] == 'o' && !is_moved(memory + 6 * PAGE));
	CHECK(is_moved(memory + 10 * PAGE) && !is_moved(memory + 11 * PAGE));
	CHECK(memory[11 * PAGE] == (char)(11 + 1) && memory[15 * PAGE] == (char)(15 + 1));
	CHECK(memory[13 * PAGE] == (char)(13 + 1));
	errno = 0;
	CHECK(write(fd, memory + 12 * PAGE, 1) < 0 && errno == EFAULT);
	CHECK(read(fd, memory + 13 * PAGE, 1) < 0 && errno == EFAULT);
	CHECK(!mprotect(memory + 12 * PAGE, PAGE, PROT_READ));
	CHECK(memory[12 * PAGE] == (char)(12 + 1));
}

/* A region that was unmapped is not moved memory, though the range has not gone yet. */
static void registered_anew(void)
{
	char *memory = map_pages(PAGES);
	struct ibv_mr *old = reg(memory, LENGTH), *mr;

	CHECK(mmap(memory, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
		   -1, 0) == memory);
	mr = reg(memory, LENGTH);
	CHECK(!is_moved(memory));
	check_messages(mr, memory, LENGTH);
	CHECK(!ibv_dereg_mr(old));
	check_messages(mr, memory, LENGTH);
	CHECK(!ibv_dereg_mr(mr));
}

/* As closefrom(3) does. The file is there all the same, and what has the number by then stays. */
static void closed_files(void)
{
	char *memory = map_pages(PAGES), line[8] = "";
	struct ibv_mr *mr, *inner;
	int other[16];

	fill(memory, LENGTH, 1);
	mr = reg(memory, LENGTH);
	for (int fd = 3; fd < 64; fd++) {
		char path[64], target[64];
		ssize_t n;

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		n = readlink(path, target, sizeof(target) - 1);
		target[n < 0 ? 0 : n] = '\0';
		if (strstr(target, "simhca-registered"))
			close(fd);
	}
	for (int i = 0; i < 16; i++)
		other[i] = memfd_create("other", MFD_CLOEXEC);
	check_messages(mr, memory, LENGTH);
	inner = reg(memory, PAGE);
	check_messages(inner, memory, PAGE);
	CHECK(!ibv_dereg_mr(inner) && !ibv_dereg_mr(mr));
	/* It cannot be copied any more, so it stays in its file. */
	CHECK(is_moved(memory) && is_filled(memory + PAGE, PAGE, 2 + PAGE * 7 % 256));
	for (int i = 0; i < 16; i++)
		CHECK(write(other[i], "w", 1) == 1 && pread(other[i], line, 1, 0) == 1);
}

/* Of the page's mapping: 'r', 'w', 'x', or '-' in the place of one. */
static char right_of(const void *addr, unsigned int which)
{
	char line[512], rights[5], right = '?';
	FILE *maps = fopen("/proc/self/maps", "re");
	uintptr_t from, to;

	CHECK(maps);
	while (fgets(line, sizeof(line), maps))
		if (sscanf(line, "%lx-%lx %4s", &from, &to, rights) == 3 &&
		    (uintptr_t)addr >= from && (uintptr_t)addr < to)
			right = rights[which];
	fclose(maps);
	return right;
}

/* What was protected while it was registered keeps its contents and its protection, under lint as well. */
static void protected(void)
{
	char *memory = map_pages(PAGES);
	struct ibv_mr *mr;

	fill(memory, LENGTH, 1);
	mr = reg(memory, LENGTH);
	CHECK(is_moved(memory) && !mprotect(memory + 2 * PAGE, PAGE, PROT_NONE) &&
	      !mprotect(memory + 4 * PAGE, PAGE, PROT_READ));
	CHECK(!ibv_dereg_mr(mr));
	for (unsigned int i = 0; i < PAGES; i++) {
		const char right = i == 2 ? '-' : 'r', other = i == 2 || i == 4 ? '-' : 'w';

		CHECK(!is_moved(memory + i * PAGE));
		CHECK(right_of(memory + i * PAGE, 0) == right);
		CHECK(right_of(memory + i * PAGE, 1) == other);
	}
	CHECK(!mprotect(memory + 2 * PAGE, PAGE, PROT_READ) && is_filled(memory, LENGTH, 1));
}

/* ---------------------------------------------------------------------------------------- rereg */

static void rereg(void)
{
	char *memory = map_pages(PAGES), *other = map_pages(PAGES);
	struct ibv_pd *other_pd = ibv_alloc_pd(context);
	struct ibv_mr *mr;

	fill(memory, LENGTH, 1);
	mr = reg(memory, LENGTH);
	CHECK(is_moved(memory));
	CHECK(!ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
			    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ));
	CHECK(!is_moved(memory) && is_filled(memory, LENGTH, 1) && count_files() == 1);
	CHECK(!transfer(IBV_WR_RDMA_READ, PAGE, (uintptr_t)memory, mr->rkey));
	CHECK(is_filled(own, PAGE, 1));
	CHECK(transfer(IBV_WR_RDMA_WRITE, PAGE, (uintptr_t)memory, mr->rkey) ==
	      IBV_WC_REM_ACCESS_ERR);
	CHECK(!ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, FULL_ACCESS));
	check_messages(mr, memory, LENGTH);
	CHECK(!ibv_dereg_mr(mr));

	mr = reg(memory, LENGTH);
	CHECK(is_moved(memory));
	CHECK(!ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD, other_pd,
			    other, LENGTH, 0));
	CHECK(!is_moved(memory) && !is_moved(other));
	CHECK(transfer(IBV_WR_RDMA_WRITE, 8, (uintptr_t)other, mr->rkey) == IBV_WC_REM_ACCESS_ERR);
	CHECK(!ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, pd, NULL, 0, 0));
	check_messages(mr, other, LENGTH);
	CHECK(!ibv_dereg_mr(mr) && !ibv_dealloc_pd(other_pd));
	/* What is refused leaves it as it is. */
	mr = reg(memory, LENGTH);
	CHECK(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_REMOTE_WRITE));
	CHECK(is_moved(memory));
	check_messages(mr, memory, LENGTH);
	CHECK(!ibv_dereg_mr(mr));
}

static const struct scene scenes[] = {
	{ "contents", contents },
	{ "large", large },
	{ "stays", stays },
	{ "stack_of_a_thread", stack_of_a_thread },
	{ "length_of_files", length_of_files },
	{ "many", many },
	{ "mappings", mappings },
	{ "off", off },
	{ "nested", nested },
	{ "unmapped", unmapped },
	{ "registered_anew", registered_anew },
	{ "closed_files", closed_files },
	{ "protected", protected },
	{ "rereg", rereg },
};

int main(int argc, char **argv)
{
	return RUN_SCENE(argc > 1 ? argv[1] : "", scenes);
}
