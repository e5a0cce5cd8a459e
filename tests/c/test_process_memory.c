/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Memory of another process, by its descriptors: small pieces, large ones, and what it does
 * meanwhile. */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "dma/dma.h"
#include "engine/worker.h"
#include "harness.h"

#define PAGE 4096u
#define PAGES 8u

/* What process_vm says instead of doing it; 0: it does it. */
static int refusal;

ssize_t process_vm_readv(pid_t pid, const struct iovec *local, unsigned long locals,
			 const struct iovec *remote, unsigned long remotes, unsigned long flags)
{
	errno = refusal;
	return refusal ? -1
		       : syscall(SYS_process_vm_readv, pid, local, locals, remote, remotes, flags);
}

ssize_t process_vm_writev(pid_t pid, const struct iovec *local, unsigned long locals,
			  const struct iovec *remote, unsigned long remotes, unsigned long flags)
{
	errno = refusal;
	return refusal ? -1
		       : syscall(SYS_process_vm_writev, pid, local, locals, remote, remotes, flags);
}

/* ----------------------------------------------------------------------- the other process */

struct other {
	pid_t pid;
	int to, from, mem, pagemap;
	uint8_t *memory; /* there; PAGES of them */
};

enum order { READ_ONLY, NO_ACCESS, UNMAP, EXEC };

static void serve(uint8_t *memory, int in, int out)
{
	enum order order;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (read(in, &order, sizeof(order)) == sizeof(order)) {
		if (order == EXEC)
			execl("/bin/sleep", "sleep", "60", NULL);
		else if (order == UNMAP)
			munmap(memory, PAGES * PAGE);
		else
			mprotect(memory, PAGES * PAGE, order == READ_ONLY ? PROT_READ : PROT_NONE);
		if (write(out, &order, sizeof(order)) != sizeof(order))
			break;
	}
	_exit(1);
}

static int open_of(pid_t pid, const char *name, int flags)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	fd = open(path, flags | O_CLOEXEC);
	assert_true(fd >= 0);
	return fd;
}

static struct other start(void)
{
	struct other other = { .memory = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE,
					      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) };
	int to[2], from[2];

	assert_ptr_not_equal(other.memory, MAP_FAILED);
	assert_int_equal(0, pipe2(to, O_CLOEXEC));
	assert_int_equal(0, pipe2(from, O_CLOEXEC));
	other.pid = fork();
	assert_true(other.pid >= 0);
	if (!other.pid)
		serve(other.memory, to[0], from[1]);
	close(to[0]);
	close(from[1]);
	other.to = to[1];
	other.from = from[0];
	other.mem = open_of(other.pid, "mem", O_RDWR);
	other.pagemap = open_of(other.pid, "pagemap", O_RDONLY);
	return other;
}

static void tell(const struct other *other, enum order order)
{
	enum order done;

	assert_int_equal(sizeof(order), write(other->to, &order, sizeof(order)));
	/* A new program has not got the pipe. */
	assert_int_equal(order == EXEC ? 0 : sizeof(done), read(other->from, &done, sizeof(done)));
}

static void end(const struct other *other)
{
	kill(other->pid, SIGKILL);
	waitpid(other->pid, NULL, 0);
	close(other->to);
	close(other->from);
	close(other->mem);
	close(other->pagemap);
	munmap(other->memory, PAGES * PAGE);
}

/* A pair of which a has the other process's memory. */
static struct pair *pair_with(struct world *world, const struct other *other)
{
	struct options options = default_options(IBV_QPT_RC);
	struct client *client;
	struct pair *pair;

	options.buffer = PAGES * PAGE;
	pair = pair_new(world, &options);
	client = pair->a.client;
	client->mm = simhca_context_mm(client->context, other->pid);
	assert_non_null(client->mm);
	simhca_mm_known_by(client->mm, other->pagemap, other->mem);
	pair->a.mr = mr_over(client, client->pd, other->memory, PAGES * PAGE,
			     (uintptr_t)other->memory, ALL_ACCESS);
	return pair;
}

/* Small ones, one of them on two pages; a whole page; and large ones. */
static const struct piece {
	uint32_t offset, length;
} pieces[] = { { 1, 8 }, { PAGE - 3, 100 }, { PAGE, PAGE }, { 5, PAGE + 1 }, { 0, PAGES *PAGE } };

/* ------------------------------------------------------------------------------- the tests */

static void moves_both_ways(struct pair *pair, const struct other *other)
{
	static uint8_t there[PAGES * PAGE];

	for (unsigned int i = 0; i < ARRAY_SIZE(pieces); i++) {
		const struct piece *piece = &pieces[i];
		uint8_t *ours = pair->b.mr->addr + piece->offset;

		fill(ours, piece->length, (uint8_t)(2 * i + 1));
		rdma_read(&pair->a, i, piece->offset, piece->length, piece->offset);
		expect(pair->a.send_cq, i, SUCCESS);
		assert_int_equal(piece->length,
				 pread(other->mem, there, piece->length,
				       (off_t)((uintptr_t)other->memory + piece->offset)));
		assert_memory_equal(there, ours, piece->length);
		fill(ours, piece->length, (uint8_t)(2 * i + 2));
		rdma_write(&pair->a, i, piece->offset, piece->length, piece->offset);
		expect(pair->a.send_cq, i, SUCCESS);
		assert_memory_equal(there, ours, piece->length);
	}
}

static void every_size_is_moved(void **state)
{
	struct other other = start();

	moves_both_ways(pair_with(*state, &other), &other);
	end(&other);
}

/* Three of ours, none of which begins or ends at a page. */
static struct simhca_sgl of_ours(uint8_t *memory)
{
	return (struct simhca_sgl){
		.count = 3,
		.seg = { { .addr = (uintptr_t)memory + 7, .length = 4000 },
			 { .addr = (uintptr_t)memory + 5000, .length = 1 },
			 { .addr = (uintptr_t)memory + 6000, .length = PAGE } },
	};
}
#define OF_OURS (4000 + 1 + PAGE)

/* What lies in pieces of ours, as packets do, goes there and comes from there in one go. */
static void moves_pieces(struct pair *pair, const struct other *other)
{
	static uint8_t ours[PAGES * PAGE], there[OF_OURS], untouched[SIMHCA_DMA_SCRATCH];
	static uint8_t scratch[SIMHCA_DMA_SCRATCH];
	struct simhca_mover mover = { .scratch = scratch };
	struct simhca_sgl pieces_of_ours = of_ours(ours);
	struct simhca_sgl theirs = { .count = 2 };
	enum simhca_reason reason;

	theirs.seg[0] = (struct simhca_seg){ .mm = pair->a.client->mm,
					     .addr = (uintptr_t)other->memory + 3,
					     .length = 5000,
					     .pinned = true };
	theirs.seg[1] = theirs.seg[0];
	theirs.seg[1].addr += 9000;
	theirs.seg[1].length = OF_OURS - 5000;
	fill(ours, sizeof(ours), 1);
	assert_int_equal(simhca_dma_copy(&theirs, &pieces_of_ours, OF_OURS, &mover, &reason),
			 SIMHCA_DMA_OK);
	assert_int_equal(pread(other->mem, there, 5000, (off_t)theirs.seg[0].addr), 5000);
	assert_int_equal(pread(other->mem, there + 5000, OF_OURS - 5000, (off_t)theirs.seg[1].addr),
			 OF_OURS - 5000);
	assert_memory_equal(there, ours + 7, 4000);
	assert_int_equal(there[4000], ours[5000]);
	assert_memory_equal(there + 4001, ours + 6000, PAGE);
	memset(ours, 0, sizeof(ours));
	assert_int_equal(simhca_dma_copy(&pieces_of_ours, &theirs, OF_OURS, &mover, &reason),
			 SIMHCA_DMA_OK);
	assert_memory_equal(there, ours + 7, 4000);
	assert_int_equal(there[4000], ours[5000]);
	assert_memory_equal(there + 4001, ours + 6000, PAGE);
	assert_memory_equal(scratch, untouched, sizeof(scratch));
}

static void pieces_are_moved_directly(void **state)
{
	struct other other = start();

	moves_pieces(pair_with(*state, &other), &other);
	end(&other);
}

/* Since the device was opened: by seccomp, or because the program may not be traced any more. */
static void process_vm_is_refused(void **state)
{
	struct other other = start();
	struct pair *pair = pair_with(*state, &other);

	refusal = EPERM;
	moves_both_ways(pair, &other);
	moves_pieces(pair, &other);
	refusal = 0;
	end(&other);
}

/* Whether this kernel's /proc/PID/mem disregards mprotect(). */
static bool is_forced(const struct other *other)
{
	char byte = 0;

	return pwrite(other->mem, &byte, 1, (off_t)(uintptr_t)other->memory) == 1;
}

/* As with pages that a NIC has pinned. */
static void protected_since(void **state)
{
	static const enum order orders[] = { READ_ONLY, NO_ACCESS };

	for (unsigned int order = 0; order < ARRAY_SIZE(orders); order++) {
		struct other other = start();
		struct pair *pair = pair_with(*state, &other);

		tell(&other, orders[order]);
		if (is_forced(&other)) {
			moves_both_ways(pair, &other);
		} else {
			rdma_read(&pair->a, 1, 0, 8, 0);
			expect_why(pair->a.send_cq, 1, LOC_PROT_ERR, PAGE_NOT_MAPPED);
		}
		end(&other);
	}
}

static void fails_after(struct world *world, enum order order, enum simhca_reason reason)
{
	for (unsigned int i = 0; i < 2 * ARRAY_SIZE(pieces); i++) {
		struct other other = start();
		struct pair *pair = pair_with(world, &other);
		const struct piece *piece = &pieces[i / 2];

		tell(&other, order);
		(i % 2 ? rdma_read : rdma_write)(&pair->a, 1, piece->offset, piece->length,
						 piece->offset);
		expect_(pair->a.send_cq, 1, IBV_WC_LOC_PROT_ERR, reason, __FILE__, __LINE__);
		end(&other);
	}
}

static void unmapped_since(void **state)
{
	fails_after(*state, UNMAP, SIMHCA_REASON_PAGE_NOT_MAPPED);
}

/* The number stands for an address space that is another. */
static void another_program_since(void **state)
{
	fails_after(*state, EXEC, SIMHCA_REASON_PROCESS_GONE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_ETHERNET(every_size_is_moved),   ON_ETHERNET(pieces_are_moved_directly),
		ON_ETHERNET(process_vm_is_refused), ON_ETHERNET(protected_since),
		ON_ETHERNET(unmapped_since),	    ON_ETHERNET(another_program_since),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
