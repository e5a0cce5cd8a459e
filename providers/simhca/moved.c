/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "command.h"
#include "descriptors.h"
#include "dma/process_map.h"
#include "lint.h"
#include "moved.h"
#include "say.h"

/* What a region of a file can grant. */
#define OF_A_FILE                                                                                  \
	(SIMHCA_ACCESS_LOCAL_WRITE | SIMHCA_ACCESS_REMOTE_WRITE | SIMHCA_ACCESS_REMOTE_READ |      \
	 SIMHCA_ACCESS_REMOTE_ATOMIC | SIMHCA_ACCESS_FLUSH_GLOBAL |                                \
	 SIMHCA_ACCESS_FLUSH_PERSISTENT | IBV_ACCESS_OPTIONAL_RANGE)

/* Of an entry of /proc/self/pagemap: the page is in memory, or in swap space. */
#define PAGE_HAS_DATA (3ull << 62)
#define PAGES_AT_ONCE 512u
/* How often it is looked how many mappings the process has; of how many, if nobody says. */
#define MOVES_PER_LOOK 1024u
#define USUAL_MAPPINGS 65530u
/* How long lint gives other threads to write to what is being moved. */
#define LINT_PAUSE_NS 2000000l

/* A private copy of one mapping of a range, which is to take the mapping's place. */
struct piece {
	struct piece *next;
	uint64_t addr, length;
	void *copy; /* can be read and written until it takes that place */
	int rights; /* that the program has given the mapping (mprotect()): the copy's from then on */
};

struct shca_moved {
	struct shca_chain link;
	uint32_t process; /* shca_process() of whose memory it is */
	uint32_t regions;
	uint64_t addr, length;
	int fd;
	uint64_t dev,
		inode; /* of the file: the program may close descriptors that it does not know */
	struct piece *pieces; /* while the process forks, or it moves back */
	uint64_t found;	 /* bytes that are still mapped where they were moved, as was last seen */
	bool incomplete; /* of them some could not be copied: no piece has them */
};

/*
 * registering: one region is registered at a time, with all that this asks of the device. ranges_lock is taken
 * under it, for the list of ranges, their counts and their memory. A thread that forks holds ranges_lock, and shall
 * not wait for the device, so it is never held during a command.
 */
static struct shca_mutex registering;
static struct shca_mutex ranges_lock;
static struct shca_chain ranges;

/* Who forks: handlers of the program's that run meanwhile, in that thread, find the ranges locked already. */
static struct {
	_Atomic uint32_t process; /* shca_process(); 0: nobody */
	_Atomic pid_t thread;
} forking;

/*
 * System calls past the C library's functions, which programs replace to learn of what is unmapped: UCX would
 * take the region out of its cache that it is just making.
 */
static void *map_anew(uint64_t length)
{
	return (void *)syscall(SYS_mmap, NULL, length, (long)(PROT_READ | PROT_WRITE),
			       (long)(MAP_PRIVATE | MAP_ANONYMOUS), -1l, 0l);
}

static bool map_file_over(uint64_t addr, uint64_t length, int fd)
{
	return syscall(SYS_mmap, addr, length, (long)(PROT_READ | PROT_WRITE),
		       (long)(MAP_SHARED | MAP_FIXED), (long)fd, 0l) == (long)addr;
}

static bool replace_by(uint64_t addr, uint64_t length, void *copy)
{
	return syscall(SYS_mremap, copy, length, length, (long)(MREMAP_MAYMOVE | MREMAP_FIXED),
		       addr) == (long)addr;
}

static void unmap_copy(void *copy, uint64_t length)
{
	syscall(SYS_munmap, copy, length);
}

static struct shca_moved *to_moved(struct shca_chain *link)
{
	return SHCA_CONTAINER(struct shca_moved, link, link);
}

/* --------------------------------------------------------------------------- private copies */

/* The program may have closed it, and the number may be another file's by now. */
static bool has_file(const struct shca_moved *range)
{
	struct stat file;

	return !fstat(range->fd, &file) && file.st_dev == range->dev && file.st_ino == range->inode;
}

/* The part of a mapping that shows this range's file where it was moved; false: none does. */
static bool clip(const struct shca_moved *range, const struct simhca_mapping *mapping,
		 uint64_t *from, uint64_t *to)
{
	*from = mapping->start > range->addr ? mapping->start : range->addr;
	*to = mapping->end < range->addr + range->length ? mapping->end
							 : range->addr + range->length;
	return mapping->shared && mapping->inode == range->inode &&
	       makedev(mapping->major, mapping->minor) == range->dev &&
	       *from - range->addr == mapping->offset + (*from - mapping->start);
}

/*
 * Copies a part of the file to memory that is zero. Only data is read: where the file has none, which reads as
 * zero, the copy needs no pages.
 */
static bool copy_out(const struct shca_moved *range, uint64_t offset, char *to, uint64_t length)
{
	const off_t end = (off_t)(offset + length);
	off_t at = (off_t)offset, hole;

	while (at < end) {
		at = lseek(range->fd, at, SEEK_DATA);
		if (at < 0)
			return errno == ENXIO;
		hole = at < end ? lseek(range->fd, at, SEEK_HOLE) : at;
		for (hole = hole < end ? hole : end; at < hole;) {
			ssize_t n = simhca_call_pread(range->fd, to + (at - (off_t)offset),
						      (size_t)(hole - at), at);

			if (n <= 0)
				return false;
			at += n;
		}
	}
	return true;
}

/* Whether the file holds these bytes. Under ranges_lock, as its buffer is one for all threads. */
static bool file_has(const struct shca_moved *range, uint64_t offset, const char *bytes,
		     uint64_t length)
{
	static char part[65536];

	while (length) {
		const size_t n = length < sizeof(part) ? (size_t)length : sizeof(part);

		if (simhca_call_pread(range->fd, part, n, (off_t)offset) == (ssize_t)n &&
		    memcmp(part, bytes, n))
			return false;
		offset += n;
		bytes += n;
		length -= n;
	}
	return true;
}

static void pause_for_lint(void)
{
	const struct timespec pause = { .tv_nsec = LINT_PAUSE_NS };

	syscall(SYS_nanosleep, &pause, NULL);
}

static void free_piece(struct piece *piece)
{
	if (piece->copy)
		unmap_copy(piece->copy, piece->length);
	free(piece);
}

static struct piece *make_piece(const struct shca_moved *range, uint64_t addr, uint64_t length,
				int rights)
{
	struct piece *piece = malloc(sizeof(*piece));

	if (!piece)
		return NULL;
	*piece = (struct piece){ .addr = addr, .length = length, .rights = rights };
	piece->copy = map_anew(length);
	if (piece->copy == MAP_FAILED)
		piece->copy = NULL;
	if (piece->copy && copy_out(range, addr - range->addr, piece->copy, length))
		return piece;
	free_piece(piece);
	return NULL;
}

static int rights_of(const struct simhca_mapping *mapping)
{
	return (mapping->readable ? PROT_READ : 0) | (mapping->writable ? PROT_WRITE : 0) |
	       (mapping->executable ? PROT_EXEC : 0);
}

/* Visits a mapping. */
static bool copy_piece(const struct simhca_mapping *mapping, void *arg)
{
	struct shca_moved *range = arg;
	struct piece *piece;
	uint64_t from, to;

	if (!clip(range, mapping, &from, &to))
		return true;
	range->found += to - from;
	piece = make_piece(range, from, to - from, rights_of(mapping));
	if (piece) {
		piece->next = range->pieces;
		range->pieces = piece;
	} else {
		range->incomplete = true;
	}
	return true;
}

static void copy_pieces(struct shca_moved *range)
{
	range->found = 0;
	range->incomplete = false;
	if (!has_file(range) ||
	    !simhca_process_mappings(0, range->addr, range->length, copy_piece, range)) {
		range->found = range->length; /* nobody can say */
		range->incomplete = true;
	}
}

static void place_pieces(struct shca_moved *range)
{
	struct piece *piece;

	while ((piece = range->pieces)) {
		range->pieces = piece->next;
		if (!syscall(SYS_mprotect, piece->copy, piece->length, (long)piece->rights) &&
		    replace_by(piece->addr, piece->length, piece->copy))
			piece->copy = NULL;
		else
			range->incomplete = true;
		free_piece(piece);
	}
}

static void drop_pieces(struct shca_moved *range)
{
	struct piece *piece;

	while ((piece = range->pieces)) {
		range->pieces = piece->next;
		free_piece(piece);
	}
}

/* ---------------------------------------------------------------------------- the ranges */

/* Visits a mapping. */
static bool forbid(const struct simhca_mapping *mapping, void *arg)
{
	uint64_t from, to;

	if (clip(arg, mapping, &from, &to))
		syscall(SYS_mprotect, from, to - from, (long)PROT_NONE);
	return true;
}

/*
 * A child has its parent's ranges as copies, if it was forked by fork(), and nothing to do with them. What
 * could not be copied is not accessible to it, as after MADV_DONTFORK: it would be its parent's memory.
 */
static void inherit_ranges(void)
{
	struct shca_chain *link;

	for (link = shca_chain_next(&ranges); link; link = shca_chain_next(link)) {
		struct shca_moved *range = to_moved(link);

		place_pieces(range);
		if (range->incomplete)
			simhca_process_mappings(0, range->addr, range->length, forbid, range);
		if (has_file(range))
			simhca_call_close(range->fd);
	}
	atomic_store(&ranges.next, NULL);
}

static bool is_forking(void)
{
	return atomic_load(&forking.process) == shca_process() &&
	       atomic_load(&forking.thread) == (pid_t)syscall(SYS_gettid);
}

static void lock_ranges(void)
{
	if (!is_forking() && shca_mutex_lock(&ranges_lock))
		inherit_ranges();
}

static void unlock_ranges(void)
{
	if (!is_forking())
		shca_mutex_unlock(&ranges_lock);
}

static void before_fork(void)
{
	struct shca_chain *link;

	lock_ranges();
	for (link = shca_chain_next(&ranges); link; link = shca_chain_next(link))
		copy_pieces(to_moved(link));
	atomic_store(&forking.thread, (pid_t)syscall(SYS_gettid));
	atomic_store(&forking.process, shca_process());
}

static void after_fork_in_parent(void)
{
	struct shca_chain *link;

	atomic_store(&forking.process, 0);
	for (link = shca_chain_next(&ranges); link; link = shca_chain_next(link))
		drop_pieces(to_moved(link));
	unlock_ranges();
}

static void after_fork_in_child(void)
{
	lock_ranges();
	unlock_ranges();
}

static __attribute__((constructor)) void watch_forks_of_ranges(void)
{
	pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

enum overlap { APART, INSIDE, CROSSING };

/* How the region lies to the ranges there are; *range: the one that it is inside of, and is one more region of. */
static enum overlap claim_range(uint64_t addr, uint64_t length, struct shca_moved **range)
{
	enum overlap overlap = APART;
	struct shca_chain *link;

	lock_ranges();
	for (link = shca_chain_next(&ranges); link && overlap == APART;
	     link = shca_chain_next(link)) {
		struct shca_moved *one = to_moved(link);

		if (addr >= one->addr + one->length || one->addr >= addr + length)
			continue;
		overlap = addr >= one->addr && addr + length <= one->addr + one->length ? INSIDE
											: CROSSING;
		*range = one;
		one->regions += overlap == INSIDE;
	}
	unlock_ranges();
	return overlap;
}

/* -------------------------------------------------------------------------- what can be moved */

struct look {
	const struct shca_moved
		*range; /* NULL: is it private memory? Else: is it of this range still? */
	uint64_t at;	/* until here it is */
};

static bool holds(const struct simhca_mapping *mapping, uint64_t addr)
{
	return addr >= mapping->start && addr < mapping->end;
}

/* Visits a mapping. The auxiliary vector's random bytes lie in the stack of the main thread. */
static bool is_movable(const struct simhca_mapping *mapping, void *arg)
{
	struct look *look = arg;
	uint64_t from, to;

	if (mapping->start > look->at || !mapping->readable || !mapping->writable ||
	    mapping->executable)
		return false;
	if (look->range ? !clip(look->range, mapping, &from, &to)
			: mapping->shared || mapping->inode || mapping->major || mapping->minor ||
				  holds(mapping, getauxval(AT_RANDOM)) ||
				  holds(mapping, (uintptr_t)__builtin_frame_address(0)))
		return false;
	look->at = mapping->end;
	return true;
}

static bool all_movable(uint64_t addr, uint64_t length, const struct shca_moved *range)
{
	struct look look = { .range = range, .at = addr };

	return simhca_process_mappings(0, addr, length, is_movable, &look) &&
	       look.at >= addr + length;
}

static uint64_t count_mappings(void)
{
	static char part[65536]; /* of the one that registers */
	uint64_t count = 0;
	ssize_t n;
	int fd = simhca_call_open("/proc/self/maps", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return 0;
	while ((n = simhca_call_read(fd, part, sizeof(part))) > 0)
		for (const char *at = part; (at = memchr(at, '\n', (size_t)(part + n - at))); at++)
			count++;
	simhca_call_close(fd);
	return count;
}

static uint64_t most_mappings(void)
{
	char text[24] = "";
	int fd = simhca_call_open("/proc/sys/vm/max_map_count", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : simhca_call_read(fd, text, sizeof(text) - 1);

	if (fd >= 0)
		simhca_call_close(fd);
	return n > 0 ? strtoull(text, NULL, 10) : USUAL_MAPPINGS;
}

/*
 * What was moved back is a mapping of its own, as the kernel joins none that was moved with pages in it. So many
 * buffers, each registered once, would use up the mappings that the program may have. Half of them are left to it.
 */
static bool has_mappings_left(void)
{
	static uint32_t moves;
	static bool left;

	if (moves++ % MOVES_PER_LOOK == 0)
		left = count_mappings() < most_mappings() / 2;
	return left;
}

bool shca_may_lie_in_file(uint32_t access)
{
	return !(access & ~OF_A_FILE);
}

/* A handler that runs while its thread forks does not wait for who registers, as that waits for the fork. */
static bool may_move(const struct shca_context *ctx, const struct simhca_reg_mr_req *req)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	/* Under lint the device carries all messages, and what is safe is to be told all the same. */
	return ctx->dev->moves_memory && (!ctx->no_fastpath || ctx->lint) && !req->null_mr &&
	       !req->unmapped && req->length && !((req->addr | req->length | req->iova) % page) &&
	       req->addr + req->length > req->addr && shca_may_lie_in_file(req->access) &&
	       !is_forking() && !(ctx->lint && shca_lint_watches(req->addr, req->length));
}

/* -------------------------------------------------------------------------------- the move */

/* A file that is longer than the program may make one is a signal, SIGXFSZ. */
static bool may_be_so_long(uint64_t length)
{
	struct rlimit limit;

	return !getrlimit(RLIMIT_FSIZE, &limit) && length <= limit.rlim_cur;
}

static void close_range_file(struct shca_moved *range)
{
	if (has_file(range))
		simhca_call_close(range->fd);
	shca_descriptors_give_back(1);
	free(range);
}

static struct shca_moved *make_range(uint64_t addr, uint64_t length)
{
	struct shca_moved *range;
	struct stat file;

	if (!may_be_so_long(length) || !shca_descriptors_reserve(1))
		return NULL;
	range = calloc(1, sizeof(*range));
	if (!range) {
		shca_descriptors_give_back(1);
		return NULL;
	}
	range->process = shca_process();
	range->addr = addr;
	range->length = length;
	range->fd = memfd_create(SHCA_MOVED_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (range->fd >= 0 && !fstat(range->fd, &file)) {
		range->dev = file.st_dev;
		range->inode = file.st_ino;
		if (!ftruncate(range->fd, (off_t)length) &&
		    !fcntl(range->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
			return range;
	}
	close_range_file(range);
	return NULL;
}

static bool write_all(int fd, uint64_t addr, uint64_t length, uint64_t offset)
{
	while (length) {
		ssize_t n = simhca_call_pwrite(fd, (void *)(uintptr_t)addr, length, (off_t)offset);

		if (n <= 0)
			return false;
		addr += (uint64_t)n;
		offset += (uint64_t)n;
		length -= (uint64_t)n;
	}
	return true;
}

/* Which of these pages have data; what nobody has touched is zero, and so is the file. */
static void look_at_pages(int pagemap, uint64_t first, uint64_t *page, size_t count)
{
	const size_t bytes = count * sizeof(*page);

	if (pagemap < 0 || simhca_call_pread(pagemap, page, bytes,
					     (off_t)(first * sizeof(*page))) != (ssize_t)bytes)
		memset(page, 0xff, bytes);
}

static bool copy_in(const struct shca_moved *range)
{
	const uint64_t size = (uint64_t)sysconf(_SC_PAGESIZE), pages = range->length / size;
	int pagemap = simhca_call_open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	uint64_t page[PAGES_AT_ONCE];
	bool done = true;

	for (uint64_t at = 0; done && at < pages; at += PAGES_AT_ONCE) {
		const uint64_t count = pages - at < PAGES_AT_ONCE ? pages - at : PAGES_AT_ONCE;

		look_at_pages(pagemap, range->addr / size + at, page, count);
		for (uint64_t i = 0, n; done && i < count; i += n ? n : 1) {
			for (n = 0; i + n < count && (page[i + n] & PAGE_HAS_DATA); n++)
				;
			done = write_all(range->fd, range->addr + (at + i) * size, n * size,
					 (at + i) * size);
		}
	}
	if (pagemap >= 0)
		simhca_call_close(pagemap);
	return done;
}

/* What another thread writes after its page was copied is lost: lint copies once more, and tells. */
static bool copy_in_and_look(const struct shca_moved *range, bool lint, bool *in_use)
{
	if (!copy_in(range))
		return false;
	if (!lint)
		return true;
	pause_for_lint();
	*in_use = !file_has(range, 0, (const char *)(uintptr_t)range->addr, range->length);
	return !*in_use || copy_in(range);
}

static bool move_in(struct shca_moved *range, bool lint, bool *in_use)
{
	bool done;

	lock_ranges();
	done = copy_in_and_look(range, lint, in_use) &&
	       map_file_over(range->addr, range->length, range->fd);
	if (done) {
		range->regions = 1;
		shca_chain_add(&ranges, &range->link);
	}
	*in_use &= done; /* what has not moved has lost nothing */
	unlock_ranges();
	return done;
}

static bool pieces_are_in_use(struct shca_moved *range)
{
	struct piece **link = &range->pieces, *piece;
	bool in_use = false;

	pause_for_lint();
	while ((piece = *link)) {
		const uint64_t offset = piece->addr - range->addr;
		const bool is_same = file_has(range, offset, piece->copy, piece->length);

		in_use |= !is_same;
		if (is_same || copy_out(range, offset, piece->copy, piece->length)) {
			link = &piece->next;
			continue;
		}
		/* The program keeps the file's memory there rather than an old copy of it. */
		*link = piece->next;
		free_piece(piece);
	}
	return in_use;
}

/* Under the lock. */
static void move_back(struct shca_moved *range, bool lint, bool *in_use)
{
	drop_pieces(range); /* of a fork that is under way in this thread */
	copy_pieces(range);
	*in_use = lint && pieces_are_in_use(range);
	place_pieces(range);
	shca_chain_remove(&range->link);
}

/* ------------------------------------------------------------------------------------ lint */

static void say_in_use(struct shca_context *ctx, const struct shca_moved *range, uint32_t key,
		       const char *verb)
{
	char text[160];

	snprintf(text, sizeof(text),
		 "MR 0x%08" PRIx32 ": another thread wrote to its memory at 0x%" PRIx64
		 " while %s moved it",
		 key, range->addr, verb);
	shca_say_lint(ctx, SIMHCA_SAY_MOVED_IN_USE, text);
}

static void say_gone(struct shca_context *ctx, const struct shca_moved *range, uint32_t key)
{
	char text[160];

	snprintf(text, sizeof(text),
		 "MR 0x%08" PRIx32 ": of its memory at 0x%" PRIx64 " %" PRIu64 " of %" PRIu64
		 " bytes were unmapped, or replaced, while it was registered",
		 key, range->addr, range->length - range->found, range->length);
	shca_say_lint(ctx, SIMHCA_SAY_MOVED_AND_GONE, text);
}

/* ---------------------------------------------------------------------------------- regions */

int shca_register_in_file(struct shca_context *ctx, const struct simhca_reg_dmabuf_mr_req *req,
			  int fd, struct simhca_reg_mr_reply *reply)
{
	int err = shca_execute(ctx, &(struct shca_command){
					    .command = SIMHCA_CMD_REG_DMABUF_MR,
					    .req = req,
					    .req_size = sizeof(*req),
					    .req_fds = &fd,
					    .num_req_fds = 1,
					    .reply = reply,
					    .reply_size = sizeof(*reply),
				    });

	/* A child has to give access to its memory first; and without the descriptor nobody has seen the command. */
	return err == ENOTCONN || err == EBADF ? SHCA_STAYS : err;
}

static int register_in(struct shca_context *ctx, const struct simhca_reg_mr_req *req,
		       const struct shca_moved *range, struct simhca_reg_mr_reply *reply)
{
	const struct simhca_reg_dmabuf_mr_req of_file = {
		.offset = req->addr - range->addr,
		.length = req->length,
		.iova = req->iova,
		.addr = req->addr,
		.pd = req->pd,
		.access = req->access,
	};

	return shca_register_in_file(ctx, &of_file, range->fd, reply);
}

/* The region of memory that is in no file yet. */
static int register_new(struct shca_context *ctx, const struct simhca_reg_mr_req *req,
			struct simhca_reg_mr_reply *reply, struct shca_mr *mr)
{
	struct shca_moved *range = all_movable(req->addr, req->length, NULL) && has_mappings_left()
					   ? make_range(req->addr, req->length)
					   : NULL;
	int err = range ? register_in(ctx, req, range, reply) : SHCA_STAYS;
	bool in_use = false;

	/* Nobody has its key yet, so it does not matter that there is nothing in the file. */
	if (!err && reply->moved && !move_in(range, ctx->lint, &in_use)) {
		shca_destroy(ctx, SIMHCA_CMD_DEREG_MR, reply->handle, NULL);
		err = SHCA_STAYS;
	}
	if (in_use)
		say_in_use(ctx, range, reply->lkey, "ibv_reg_mr()");
	if (!err && reply->moved)
		mr->moved = range;
	else if (range)
		close_range_file(range);
	return err;
}

/* One region fewer; key: of that. */
static void release_range(struct shca_context *ctx, struct shca_moved *range, uint32_t key)
{
	bool in_use = false, last;

	lock_ranges();
	last = !--range->regions && range->process == shca_process();
	if (last)
		move_back(range, ctx->lint, &in_use);
	unlock_ranges();
	if (!last)
		return;
	if (in_use)
		say_in_use(ctx, range, key, "ibv_dereg_mr()");
	if (ctx->lint && range->found < range->length)
		say_gone(ctx, range, key);
	close_range_file(range);
}

static int register_inside(struct shca_context *ctx, const struct simhca_reg_mr_req *req,
			   struct simhca_reg_mr_reply *reply, struct shca_mr *mr,
			   struct shca_moved *range)
{
	int err = has_file(range) && all_movable(req->addr, req->length, range)
			  ? register_in(ctx, req, range, reply)
			  : SHCA_STAYS;

	if (!err && reply->moved)
		mr->moved = range;
	else
		release_range(ctx, range, err ? 0 : reply->lkey);
	return err;
}

int shca_moved_register(struct shca_context *ctx, const struct simhca_reg_mr_req *req,
			struct simhca_reg_mr_reply *reply, struct shca_mr *mr)
{
	struct shca_moved *range = NULL;
	int err = SHCA_STAYS;

	if (!may_move(ctx, req))
		return SHCA_STAYS;
	shca_mutex_lock(&registering);
	switch (claim_range(req->addr, req->length, &range)) {
	case APART:
		err = register_new(ctx, req, reply, mr);
		break;
	case INSIDE:
		err = register_inside(ctx, req, reply, mr, range);
		break;
	case CROSSING:
		break;
	}
	shca_mutex_unlock(&registering);
	return err;
}

void shca_moved_put(struct shca_mr *mr)
{
	struct shca_moved *range = mr->moved;

	mr->moved = NULL;
	if (range)
		release_range(to_sctx(mr->vmr.ibv_mr.context), range, mr->vmr.ibv_mr.lkey);
}
