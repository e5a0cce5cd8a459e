/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Memory that is moved into a file as it is registered (simhcad's --shared-memory): where it lies, what it holds, and
 * that it comes back. Argument: one of the scenes below, or `off`, where nothing is moved.
 */
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "helper.h"

#define PAGE 4096u
#define PAGES 16u
#define LENGTH (PAGES * PAGE)

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static char *own; /* what messages come from and go to */
static struct ibv_mr *own_mr;

static char *map_pages(size_t pages)
{
	char *memory = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			    -1, 0);

	CHECK(memory != MAP_FAILED);
	return memory;
}

static struct ibv_mr *reg(void *memory, size_t length)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, length, FULL_ACCESS);

	CHECK(mr);
	return mr;
}

/* Whether that page is one of a file of moved memory. */
static bool is_moved(const void *addr)
{
	uintptr_t from, to;
	char line[512];
	bool moved = false;
	FILE *maps = fopen("/proc/self/maps", "re");

	CHECK(maps);
	while (fgets(line, sizeof(line), maps))
		if (sscanf(line, "%lx-%lx", &from, &to) == 2 && (uintptr_t)addr >= from &&
		    (uintptr_t)addr < to)
			moved = strstr(line, "simhca-registered");
	fclose(maps);
	return moved;
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

static unsigned int count_files(void)
{
	unsigned int count = 0;
	char path[64], target[64];

	for (int fd = 0; fd < 256; fd++) {
		ssize_t n;

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		n = readlink(path, target, sizeof(target) - 1);
		target[n < 0 ? 0 : n] = '\0';
		count += !!strstr(target, "simhca-registered");
	}
	return count;
}

static void fill(char *memory, size_t length, unsigned int seed)
{
	for (size_t i = 0; i < length; i++)
		memory[i] = (char)(i * 7 + i / PAGE + seed);
}

static bool is_filled(const char *memory, size_t length, unsigned int seed)
{
	for (size_t i = 0; i < length; i++)
		if (memory[i] != (char)(i * 7 + i / PAGE + seed))
			return false;
	return true;
}

static enum ibv_wc_status transfer(enum ibv_wr_opcode opcode, uint32_t length, uint64_t addr,
				   uint32_t rkey)
{
	struct ibv_qp *qp = make_qp(pd, cq, IBV_QPT_RC);
	struct ibv_sge sge = { (uintptr_t)own, length, own_mr->lkey };
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = addr, .rkey = rkey },
	};
	struct ibv_wc wc;

	start_qp(qp, qp->qp_num);
	CHECK(!post_send(qp, &wr));
	wc = poll_one(cq);
	CHECK(!ibv_destroy_qp(qp));
	return wc.status;
}

static void open_all(void)
{
	context = open_device();
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	CHECK(pd && cq);
	own = map_pages(1);
	own_mr = reg(own, PAGE);
}

/* A message to its last page arrives, and one from there. */
static void check_messages(const struct ibv_mr *mr, char *memory, size_t length)
{
	char *last = memory + length - PAGE;

	fill(own, PAGE, 99);
	CHECK(!transfer(IBV_WR_RDMA_WRITE, PAGE, (uintptr_t)last, mr->rkey));
	CHECK(is_filled(last, PAGE, 99));
	fill(last, PAGE, 98);
	CHECK(!transfer(IBV_WR_RDMA_READ, PAGE, (uintptr_t)last, mr->rkey));
	CHECK(is_filled(own, PAGE, 98));
}

/* ------------------------------------------------------------------------------- contents */

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

/* ---------------------------------------------------------------------------- what stays */

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

/* -------------------------------------------------------------------------- overlapping */

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

/* ---------------------------------------------------------------- what a program does to it */

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

/* -------------------------------------------------------------------------------- rereg */

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

/* --------------------------------------------------------------------------------- fork */

static void wait_for(pid_t child)
{
	int status;

	CHECK(child > 0 && waitpid(child, &status, 0) == child && !status);
}

/*
 * What the program's own handlers do. They are there before the provider is loaded, so they run after its own before
 * the fork, and before them after it.
 */
static void (*at_fork)(bool before);
static struct ibv_mr *in_handler;
static char *handlers_memory;

static void before_fork(void)
{
	if (at_fork)
		at_fork(true);
}

static void after_fork(void)
{
	if (at_fork)
		at_fork(false);
}

static void register_before(bool before)
{
	if (before)
		in_handler = reg(handlers_memory, PAGE);
	else
		CHECK(!ibv_dereg_mr(in_handler));
}

static void deregister_before(bool before)
{
	if (before) {
		CHECK(!ibv_dereg_mr(in_handler) && !is_moved(handlers_memory));
		CHECK(!ibv_dereg_mr(reg(handlers_memory, PAGE)));
	} else {
		in_handler = reg(handlers_memory, PAGE);
	}
}

/* The child has a copy of what was there, and is as free with it as with other memory. */
static void forked(void)
{
	char *memory = map_pages(PAGES), *other = map_pages(1);
	struct ibv_mr *mr;
	pid_t child;

	fill(memory, LENGTH, 1);
	mr = reg(memory, LENGTH);
	CHECK(!munmap(memory + 3 * PAGE, PAGE) && !mprotect(memory + 4 * PAGE, PAGE, PROT_READ));
	child = fork();
	if (!child) {
		struct ibv_mr *mine;

		CHECK(!is_moved(memory) && !is_moved(memory + 4 * PAGE) && !count_files());
		CHECK(is_filled(memory, 3 * PAGE, 1) && memory[LENGTH - PAGE] == (char)(15 + 1));
		errno = 0;
		CHECK(msync(memory + 3 * PAGE, PAGE, MS_ASYNC) && errno == ENOMEM);
		usleep(50000); /* the parent writes meanwhile */
		CHECK(is_filled(memory, 3 * PAGE, 1));
		memset(memory, 'c', 3 * PAGE);
		/* Its own region of the same memory, in what it has inherited; and its parent's is not its own. */
		mine = reg(memory, 2 * PAGE);
		CHECK(!ibv_dereg_mr(mine) && memory[0] == 'c');
		_exit(0);
	}
	CHECK(is_moved(memory));
	fill(memory, 3 * PAGE, 2);
	wait_for(child);
	CHECK(is_filled(memory, 3 * PAGE, 2));
	check_messages(mr, memory, LENGTH);
	CHECK(!ibv_dereg_mr(mr) && is_filled(memory, 3 * PAGE, 2));

	/* Regions that come and go in a program's own handlers, and a child that deregisters its parent's. */
	fill(other, PAGE, 5);
	handlers_memory = other;
	at_fork = register_before;
	mr = reg(memory, 2 * PAGE);
	child = fork();
	if (!child) {
		CHECK(!is_moved(memory) && is_filled(memory, 2 * PAGE, 2));
		CHECK(is_filled(other, PAGE, 5));
		_exit(0);
	}
	wait_for(child);
	CHECK(is_filled(other, PAGE, 5) && !is_moved(other));
	CHECK(is_moved(memory) && !ibv_dereg_mr(mr) && is_filled(memory, 2 * PAGE, 2));
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

/* There is no memory for a copy: the child has none, rather than its parent's. */
static void forked_without_memory(void)
{
	char *memory = map_pages(PAGES);
	struct ibv_mr *mr;
	struct rlimit limit, none = { 0 };
	int status;
	pid_t child;

	fill(memory, LENGTH, 1);
	mr = reg(memory, LENGTH);
	CHECK(is_moved(memory) && !getrlimit(RLIMIT_AS, &limit));
	none.rlim_max = limit.rlim_max;
	CHECK(!setrlimit(RLIMIT_AS, &none));
	child = fork();
	if (!child) {
		signal(SIGSEGV, SIG_DFL); /* AddressSanitizer's handler would report it */
		memset(memory, 'c', LENGTH);
		_exit(0);
	}
	CHECK(!setrlimit(RLIMIT_AS, &limit));
	CHECK(child > 0 && waitpid(child, &status, 0) == child);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
	CHECK(is_moved(memory) && is_filled(memory, LENGTH, 1));
	check_messages(mr, memory, LENGTH);
	CHECK(!ibv_dereg_mr(mr) && is_filled(memory, LENGTH - PAGE, 1));
}

static void *register_all_the_time(void *arg)
{
	char *memory = map_pages(2);

	for (const atomic_bool *stop = arg; !atomic_load(stop);) {
		struct ibv_mr *mr = reg(memory, 2 * PAGE);

		memory[0]++;
		CHECK(!ibv_dereg_mr(mr));
	}
	return NULL;
}

/* While other threads register, and handlers of the program's do as well. */
static void forked_meanwhile(void)
{
	char *memory = map_pages(PAGES);
	struct ibv_mr *mr = reg(memory, LENGTH);
	atomic_bool stop = false;
	pthread_t thread[2];

	handlers_memory = map_pages(1);
	in_handler = reg(handlers_memory, PAGE);
	CHECK(is_moved(handlers_memory));
	at_fork = deregister_before;
	for (int i = 0; i < 2; i++)
		CHECK(!pthread_create(&thread[i], NULL, register_all_the_time, &stop));
	for (unsigned int i = 0; i < 100; i++) {
		pid_t child;

		fill(memory, LENGTH, i);
		child = fork();
		if (!child) {
			CHECK(is_filled(memory, LENGTH, i));
			memset(memory, 0, LENGTH);
			CHECK(!ibv_dereg_mr(reg(memory, LENGTH)));
			_exit(0);
		}
		wait_for(child);
		CHECK(is_filled(memory, LENGTH, i));
	}
	atomic_store(&stop, true);
	for (int i = 0; i < 2; i++)
		CHECK(!pthread_join(thread[i], NULL));
	CHECK(!ibv_dereg_mr(mr));
}

/* ---------------------------------------------------------------------- files of the program */

/* As another open file sees it, even one of the same process. */
static bool is_locked(int fd)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	CHECK(!fcntl(fd, F_OFD_GETLK, &lock));
	return lock.l_type != F_UNLCK;
}

static char in_memory[] = "/dev/shm/test-locked-XXXXXX", on_disk[] = "/var/tmp/test-locked-XXXXXX";

static void remove_files(void)
{
	unlink(in_memory);
	unlink(on_disk);
}

/* The locks of a process end with any descriptor of the file that it closes: nobody may for it. */
static void locks_of_files(void)
{
	const int files[] = { mkstemp(in_memory), mkstemp(on_disk), memfd_create("locked", 0) };
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1 };

	/* What does not hold ends the program. */
	CHECK(!atexit(remove_files));
	for (int i = 0; i < 3; i++) {
		char *memory;
		struct ibv_mr *mr;

		CHECK(files[i] >= 0 && !ftruncate(files[i], LENGTH));
		memory = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED, files[i], 0);
		CHECK(memory != MAP_FAILED);
		CHECK(!fcntl(files[i], F_SETLK, &lock) && is_locked(files[i]));
		mr = reg(memory, LENGTH);
		CHECK(is_locked(files[i]));
		check_messages(mr, memory, LENGTH);
		CHECK(!ibv_dereg_mr(mr));
		CHECK(is_locked(files[i]));
	}
}

/* A file can be sealed against writing when nobody has it mapped so: once it has no region, not even the device. */
static void given_back(void)
{
	for (unsigned int i = 0; i < 200; i++) {
		const bool by_descriptor = i % 2;
		int file = memfd_create("given-back", MFD_CLOEXEC | MFD_ALLOW_SEALING);
		struct ibv_mr *mr;
		char *memory;

		CHECK(file >= 0 && !ftruncate(file, LENGTH));
		memory = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
		CHECK(memory != MAP_FAILED);
		mr = by_descriptor ? ibv_reg_dmabuf_mr(pd, 0, LENGTH, (uintptr_t)memory, file,
						       FULL_ACCESS)
				   : reg(memory, LENGTH);
		CHECK(mr);
		check_messages(mr, memory, LENGTH);
		if (!by_descriptor && i % 4)
			CHECK(!ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, own, PAGE,
					    0));
		else
			CHECK(!ibv_dereg_mr(mr));
		CHECK(!munmap(memory, LENGTH) && !fcntl(file, F_ADD_SEALS, F_SEAL_WRITE));
		CHECK(!close(file));
	}
}

/* A memfd of that name, mapped, and a region of it that has no whole pages. */
static struct ibv_mr *reg_memfd(const char *name, int *file, char **memory)
{
	*file = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	CHECK(*file >= 0 && !ftruncate(*file, LENGTH));
	*memory = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED, *file, 0);
	CHECK(*memory != MAP_FAILED);
	return reg(*memory, LENGTH - 8);
}

static unsigned int count_mappings_of(const char *name)
{
	unsigned int count = 0;
	char line[512];
	FILE *maps = fopen("/proc/self/maps", "re");

	CHECK(maps);
	while (fgets(line, sizeof(line), maps))
		count += !!strstr(line, name);
	fclose(maps);
	return count;
}

static void write_often(struct ibv_qp *qp, const void *to, uint32_t rkey)
{
	for (int i = 0; i < 4; i++) {
		struct ibv_sge sge = { (uintptr_t)own, PAGE, own_mr->lkey };
		struct ibv_send_wr wr = {
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = IBV_WR_RDMA_WRITE,
			.send_flags = IBV_SEND_SIGNALED,
			.wr.rdma = { .remote_addr = (uintptr_t)to, .rkey = rkey },
		};

		CHECK(!post_send(qp, &wr));
		poll_success(cq);
	}
}

/* Its own QP has it mapped as well, and posts nothing any more. */
static void given_back_by_itself(void)
{
	struct ibv_qp *qp = make_qp(pd, cq, IBV_QPT_RC);
	struct ibv_mr *mr;
	char *memory;
	int file;

	start_qp(qp, qp->qp_num);
	for (int i = 0; i < 40; i++) {
		mr = reg_memfd("given-back", &file, &memory);
		write_often(qp, memory, mr->rkey);
		CHECK(count_mappings_of("given-back") == 2);
		CHECK(!ibv_dereg_mr(mr) && !munmap(memory, LENGTH));
		CHECK(!count_mappings_of("given-back") && !fcntl(file, F_ADD_SEALS, F_SEAL_WRITE));
		CHECK(!close(file));
	}
	CHECK(!ibv_destroy_qp(qp));
}

/* What two processes tell each other by a socket. */
struct peer {
	uint32_t qpn, rkey;
	char *memory;
};

static void tell(int other, struct peer peer)
{
	CHECK(write(other, &peer, sizeof(peer)) == sizeof(peer));
}

static struct peer hear(int other)
{
	struct peer peer;

	CHECK(read(other, &peer, sizeof(peer)) == sizeof(peer));
	return peer;
}

#define ROUNDS 20

/* Writes to what the other one has registered each time that it is told, and sleeps. */
static void be_an_idle_peer(int other)
{
	struct ibv_qp *qp = make_qp(pd, cq, IBV_QPT_RC);
	struct peer peer;

	tell(other, (struct peer){ .qpn = qp->qp_num });
	peer = hear(other);
	start_qp(qp, peer.qpn);
	for (;;) {
		write_often(qp, peer.memory, peer.rkey);
		CHECK(count_mappings_of("idle-peer") == 1);
		tell(other, peer);
		peer = hear(other);
	}
}

/* The peer that posts nothing any more gives a region's memory back all the same, without a call of its program's. */
static void given_back_by_an_idle_peer(void)
{
	const double end = now() + 30;
	struct ibv_qp *qp = make_qp(pd, cq, IBV_QPT_RC);
	char other[16];
	char *const command[] = { "shared_memory", "be_an_idle_peer", other, NULL };
	int ends[2], file;
	pid_t child;

	CHECK(!socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends));
	CHECK(!fcntl(ends[0], F_SETFD, FD_CLOEXEC));
	snprintf(other, sizeof(other), "%d", ends[1]);
	/* A program of its own: what forks while it has threads is not sure to have a heap, with AddressSanitizer. */
	CHECK(!posix_spawn(&child, "/proc/self/exe", NULL, NULL, command, environ));
	CHECK(!close(ends[1]));
	start_qp(qp, hear(ends[0]).qpn);
	for (int i = 0; i < ROUNDS; i++) {
		char *memory;
		struct ibv_mr *mr = reg_memfd("idle-peer", &file, &memory);

		tell(ends[0],
		     (struct peer){ .qpn = qp->qp_num, .rkey = mr->rkey, .memory = memory });
		hear(ends[0]);
		CHECK(!ibv_dereg_mr(mr) && !munmap(memory, LENGTH));
		while (fcntl(file, F_ADD_SEALS, F_SEAL_WRITE)) {
			CHECK(errno == EBUSY && now() < end);
			usleep(1000);
		}
		CHECK(!close(file));
	}
	CHECK(!kill(child, SIGKILL) && waitpid(child, NULL, 0) == child);
	CHECK(!ibv_destroy_qp(qp));
}

/* A program that locks all its memory maps regions of others as any does, and fills nobody's file. */
static void locked_in_memory(void)
{
	const size_t length = (size_t)256 << 20;
	int file = memfd_create("sparse", MFD_CLOEXEC);
	struct stat st;
	char *memory;

	CHECK(file >= 0 && !ftruncate(file, (off_t)length));
	memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	CHECK(memory != MAP_FAILED && !mlockall(MCL_FUTURE));
	check_messages(reg(memory, length - 8), memory, length - PAGE);
	CHECK(!fstat(file, &st) && st.st_blocks * 512 < 16l * PAGE);
}

static unsigned int looks; /* at all descriptors */

/* In front of the C library's. */
DIR *opendir(const char *name)
{
	looks += !strcmp(name, "/proc/thread-self/fd");
	return fdopendir(open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

/* A program may have many, so they are looked at only if somebody has locks of the file. */
static void many_descriptors(void)
{
	char name[] = "/dev/shm/test-many-XXXXXX";
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1 };
	int file = mkstemp(name);
	char *memory;

	CHECK(file >= 0 && !ftruncate(file, LENGTH));
	memory = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	CHECK(memory != MAP_FAILED);
	CHECK(!ibv_dereg_mr(reg(memory, LENGTH)) && !looks);
	CHECK(!fcntl(file, F_SETLK, &lock) && !ibv_dereg_mr(reg(memory, LENGTH)) && looks == 1);
	CHECK(is_locked(file) && !unlink(name));
}

/* ---------------------------------------------------------------------------------------- */

static const struct {
	const char *name;
	void (*run)(void);
} scenes[] = {
	{ "contents", contents },
	{ "large", large },
	{ "stays", stays },
	{ "stack_of_a_thread", stack_of_a_thread },
	{ "length_of_files", length_of_files },
	{ "many", many },
	{ "mappings", mappings },
	{ "nested", nested },
	{ "unmapped", unmapped },
	{ "registered_anew", registered_anew },
	{ "closed_files", closed_files },
	{ "locks_of_files", locks_of_files },
	{ "given_back", given_back },
	{ "given_back_by_itself", given_back_by_itself },
	{ "given_back_by_an_idle_peer", given_back_by_an_idle_peer },
	{ "locked_in_memory", locked_in_memory },
	{ "many_descriptors", many_descriptors },
	{ "rereg", rereg },
	{ "protected", protected },
	{ "forked", forked },
	{ "forked_without_memory", forked_without_memory },
	{ "forked_meanwhile", forked_meanwhile },
};

static void off(void)
{
	char *memory = map_pages(1);

	CHECK(!count_files());
	CHECK(!ibv_dereg_mr(reg(memory, PAGE)));
	reg(memory, PAGE);
	CHECK(!is_moved(memory) && !count_files());
}

int main(int argc, char **argv)
{
	const char *scene = argc > 1 ? argv[1] : "";

	CHECK(!pthread_atfork(before_fork, after_fork, NULL));
	open_all();
	if (!strcmp(scene, "off")) {
		off();
		return 0;
	}
	if (!strcmp(scene, "be_an_idle_peer") && argc > 2)
		be_an_idle_peer(atoi(argv[2]));
	for (size_t i = 0; i < sizeof(scenes) / sizeof(scenes[0]); i++)
		if (!strcmp(scene, scenes[i].name)) {
			scenes[i].run();
			return 0;
		}
	fprintf(stderr, "no such scene: %s\n", scene);
	return 2;
}
