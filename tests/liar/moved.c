/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A program that says where its memory was before it was moved into a file (REG_DMABUF_MR with addr). What it
 * says is of another process, whose memory is nobody else's, so that a lie may name any address there.
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/context.h"
#include "dma/dma.h"
#include "liar.h"
#include "memory/key.h"

#define PAGE 4096u
#define FILE_BYTES (16 * PAGE)
#define HELD 0x10000000u /* where it has memory; below AddressSanitizer's own */

struct moved {
	struct simhca_reg_dmabuf_mr_req *claim; /* which lies are about */
	struct simhca_mm *owner;
	pid_t pid;
	int fd;
	struct mr mr; /* what was registered last */
	bool registered;
	struct mr *sides[2]; /* whose memory is in a file */
};

void moved_hold(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (mmap((void *)(uintptr_t)HELD, FILE_BYTES, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == MAP_FAILED)
		_exit(1);
	if (write(STDOUT_FILENO, "h", 1) != 1)
		_exit(1);
	for (;;)
		pause();
}

static pid_t start_owner(void)
{
	int ready[2];
	pid_t pid;
	char byte;

	assert_int_equal(0, pipe2(ready, O_CLOEXEC));
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		dup2(ready[1], STDOUT_FILENO);
		execl("/proc/self/exe", "simhca-liar", "--hold", NULL);
		_exit(1);
	}
	close(ready[1]);
	assert_int_equal(1, read(ready[0], &byte, 1));
	close(ready[0]);
	return pid;
}

static int sealed_file(uint64_t bytes)
{
	int fd = memfd_create("liar", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(fd >= 0);
	assert_int_equal(0, ftruncate(fd, (off_t)bytes));
	assert_int_equal(0, fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK));
	return fd;
}

/* As a provider does: what the side has registered is in a file from now on. */
static struct mr *move_memory(struct side *side)
{
	struct client *client = side->client;
	const uint64_t length = (side->mr->length + PAGE - 1) / PAGE * PAGE;
	struct simhca_reg_dmabuf_mr_req req = { .length = length,
						.pd = client->pd,
						.access = ALL_ACCESS };
	struct simhca_reg_mr_reply reply;
	int fd = sealed_file(length);
	void *memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	assert_ptr_not_equal(memory, MAP_FAILED);
	req.iova = req.addr = (uintptr_t)memory;
	assert_int_equal(0, mr_gone(side->mr));
	assert_int_equal(0,
			 simhca_reg_dmabuf_mr(client->context, client->mm, fd, &req, &reply, NULL));
	assert_true(reply.moved);
	close(fd);
	side->mr->length = length;
	side->mr->addr = memory;
	side->mr->iova = (uintptr_t)memory;
	side->mr->handle = reply.handle;
	side->mr->lkey = reply.lkey;
	side->mr->rkey = reply.rkey;
	return side->mr;
}

void moved_make(struct scene *scene)
{
	struct client *client = scene->bad->b.client;
	struct moved *moved = world_alloc(scene->world, sizeof(*moved));

	/* What is another's lies in a file beside these. */
	moved->sides[0] = move_memory(&scene->good->b);
	moved->sides[1] = move_memory(&scene->bad->b);
	oracle_begin(scene);
	moved->fd = sealed_file(FILE_BYTES);
	moved->pid = start_owner();
	moved->owner = simhca_context_mm(client->context, moved->pid);
	assert_non_null(moved->owner);
	moved->claim = world_alloc(scene->world, sizeof(*moved->claim));
	*moved->claim = (struct simhca_reg_dmabuf_mr_req){
		.length = PAGE, .iova = HELD, .addr = HELD, .pd = client->pd, .access = ALL_ACCESS
	};
	scene->moved = moved;
}

void moved_end(struct moved *moved)
{
	kill(moved->pid, SIGKILL);
	waitpid(moved->pid, NULL, 0);
	close(moved->fd);
	for (unsigned int i = 0; i < 2; i++)
		munmap(moved->sides[i]->addr, moved->sides[i]->length);
}

void *moved_claim(const struct moved *moved, size_t *size)
{
	*size = sizeof(*moved->claim);
	return moved->claim;
}

void moved_fields(struct scene *scene)
{
	struct simhca_reg_dmabuf_mr_req *claim = scene->moved->claim;

#define CLAIM(kind, member)                                                                        \
	field_name(scene, field_add(scene, kind, &claim->member, sizeof(claim->member)),           \
		   "moved." #member)
	CLAIM(BYTES, offset);
	CLAIM(BYTES, length);
	CLAIM(ADDRESS, iova);
	CLAIM(ADDRESS, addr);
	CLAIM(INDEX, pd);
	CLAIM(SMALL, access);
#undef CLAIM
}

/* A place that its process has, one that it has not, or the last of all. */
static uint64_t place(uint64_t *seed, uint64_t length)
{
	static const uint64_t places[] = { HELD, HELD + PAGE, 1ull << 46, 1ull << 63, 0 };
	const uint32_t which = lie_below(seed, ARRAY_SIZE(places) + 2);

	return which < ARRAY_SIZE(places) ? places[which] : (0 - length) / PAGE * PAGE;
}

void moved_lie(const struct scene *scene, uint64_t *seed, struct lie *lie)
{
	static const uint8_t access[] = { ALL_ACCESS, ALL_ACCESS, ALL_ACCESS, 0, 1, 4 };
	const uint64_t page = lie_below(seed, FILE_BYTES / PAGE), within = 8 * lie_below(seed, 3);
	const uint64_t offset = page * PAGE + within, left = FILE_BYTES - offset;
	const uint64_t lengths[] = { 1, 64, PAGE, left, left, left + 1, UINT64_MAX - offset };
	const uint64_t length = lengths[lie_below(seed, ARRAY_SIZE(lengths))];
	const uint64_t addr = place(seed, length) + within;

	lie_poke(scene, lie, "moved", "offset", offset);
	lie_poke(scene, lie, "moved", "length", length);
	lie_poke(scene, lie, "moved", "addr", addr + (lie_below(seed, 8) ? 0 : 8));
	lie_poke(scene, lie, "moved", "iova",
		 lie_below(seed, 2) ? addr : place(seed, length) + within);
	lie_poke(scene, lie, "moved", "access", access[lie_below(seed, ARRAY_SIZE(access))]);
	lie->act[0] = ACT_MOVE;
}

/* Where the device looks for its byte at va: in our mapping of the file, just where that is in the file. */
static void check_place(struct moved *moved, const struct simhca_reg_dmabuf_mr_req *claim,
			uint64_t va)
{
	struct client *client = moved->mr.client;
	const struct simhca_key_use use = { .device = client->context->device,
					    .pd = mpt_of(client, moved->mr.rkey)->pd,
					    .remote = true };
	static struct simhca_sgl sgl;
	const struct simhca_seg *seg = sgl.seg;
	uint64_t offset = claim->offset + (va - claim->iova);

	sgl.count = 0;
	if (simhca_translate(&use, moved->mr.rkey, va, 1, &sgl) != SIMHCA_REASON_NONE ||
	    sgl.count != 1)
		caught("the region does not have its own byte at %#llx", (unsigned long long)va);
	if (seg->mm == moved->owner ||
	    seg->addr - (uintptr_t)seg->mm->mapping != offset - claim->offset / PAGE * PAGE)
		caught("byte %#llx of the file is looked for at %#llx of its mapping",
		       (unsigned long long)offset,
		       (unsigned long long)(seg->addr - (uintptr_t)seg->mm->mapping));
}

static void check_moved(struct moved *moved, const struct simhca_reg_dmabuf_mr_req *claim)
{
	const struct simhca_mpt *mpt = mpt_of(moved->mr.client, moved->mr.rkey);

	if (claim->offset > FILE_BYTES || claim->length > FILE_BYTES - claim->offset)
		caught("a region passes the end of its file");
	if (claim->addr % PAGE != claim->offset % PAGE || claim->addr + claim->length < claim->addr)
		caught("a region's memory was nowhere");
	if (!mpt->file || mpt->addr != claim->addr || mpt->length != claim->length)
		caught("a region that was moved cannot be mapped");
	check_place(moved, claim, claim->iova);
	check_place(moved, claim, claim->iova + claim->length - 1);
}

struct mr *moved_register(struct scene *scene)
{
	struct client *client = scene->bad->b.client;
	struct moved *moved = scene->moved;
	struct simhca_reg_dmabuf_mr_req claim;
	struct simhca_reg_mr_reply reply = { 0 };

	if (moved->registered && mr_gone(&moved->mr))
		caught("a region cannot be deregistered");
	moved->registered = false;
	memcpy(&claim, moved->claim, sizeof(claim));
	if (!claim.addr ||
	    simhca_reg_dmabuf_mr(client->context, moved->owner, moved->fd, &claim, &reply, NULL))
		return NULL;
	moved->registered = true;
	moved->mr = (struct mr){ .client = client,
				 .length = claim.length,
				 .iova = claim.iova,
				 .handle = reply.handle,
				 .lkey = reply.lkey,
				 .rkey = reply.rkey };
	if (reply.moved)
		check_moved(moved, &claim);
	return &moved->mr;
}
