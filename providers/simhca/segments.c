/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Segments of context memory, mapped when something in them is used for the first time, and
 * unmapped with the context, or with the queue that has one to itself. No lock: two threads may
 * fetch one at once, one mapping wins.
 *
 * Who makes many queues gets segments for those to come along with one for a queue, since to fetch
 * one takes longer than to make the queue. Which queue has which, the device says as it makes it. If
 * that is a process which shares the context by fork(), the other one keeps the mapping until there
 * are newer ones.
 */
#include <sys/mman.h>

#include "command.h"

#define FIRST_ADDRESS 0x200000000000u /* of an address space of 47 bits; fewer: anywhere */
#define RANDOM_BITS 0xffffff0000u
#define LARGEST_PAGE 65536u /* of a system: addresses of two mappings never share one */
#define FETCHED_FOR_ONE 4   /* for so many that were fetched, one more at a time */

/* Where the next mapping may lie: each has addresses that none has had before. */
static uintptr_t next_address(uint64_t size)
{
	static _Atomic uintptr_t next;
	uintptr_t none = 0, first = FIRST_ADDRESS + ((uintptr_t)&none & RANDOM_BITS);

	atomic_compare_exchange_strong(&next, &none, first);
	return atomic_fetch_add(&next, (size + 2 * LARGEST_PAGE - 1) / LARGEST_PAGE * LARGEST_PAGE);
}

void *shca_map_file(int fd, uint64_t offset, uint64_t size, int prot)
{
	/* An address that is not free, or that the system does not have, is no error. */
	return mmap((void *)next_address(size), size, prot, MAP_SHARED, fd, (off_t)offset);
}

/* Map size bytes of fd, which is closed. Returns 0 or errno. */
int shca_map_whole(int fd, uint64_t size, int prot, void **addr)
{
	void *mapped = shca_map_file(fd, 0, size, prot);
	int err = mapped == MAP_FAILED ? errno : 0;

	simhca_call_close(fd);
	if (!err)
		*addr = mapped;
	return err;
}

/* ----------------------------------------------------------------- for queues to come */

/* How many to ask for beside one for a queue. */
static uint32_t wanted(struct shca_context *ctx, uint32_t number)
{
	uint32_t most;

	if (number < SIMHCA_MAX_SEGMENTS)
		return 0;
	shca_lock(&ctx->ready.lock);
	most = ctx->ready.fetched++ / FETCHED_FOR_ONE;
	shca_unlock(&ctx->ready.lock);
	return most < SIMHCA_MAX_READY_SEGMENTS ? most : SIMHCA_MAX_READY_SEGMENTS;
}

/* In the place of the oldest one. */
static void keep_ready(struct shca_context *ctx, uint32_t number, void *addr, uint64_t size)
{
	struct shca_ready *ready = &ctx->ready;
	void *old_addr = NULL;
	uint64_t old_size = 0;
	uint32_t place;

	shca_lock(&ready->lock);
	place = ready->next++ % SHCA_READY_SEGMENTS;
	if (ready->segment[place].number) {
		old_addr = ready->segment[place].addr;
		old_size = ready->segment[place].size;
	}
	/* A child that is forked in between finds none here. */
	atomic_store(&ready->segment[place].number, 0);
	ready->segment[place].addr = addr;
	ready->segment[place].size = size;
	atomic_store(&ready->segment[place].number, number);
	shca_unlock(&ready->lock);
	if (old_addr)
		munmap(old_addr, old_size);
}

/* NULL: it is to be fetched. */
static void *take_ready(struct shca_context *ctx, uint32_t number, uint64_t *size)
{
	struct shca_ready *ready = &ctx->ready;
	void *addr = NULL;

	if (number < SIMHCA_MAX_SEGMENTS)
		return NULL;
	shca_lock(&ready->lock);
	for (uint32_t i = 0; i < SHCA_READY_SEGMENTS && !addr; i++) {
		if (ready->segment[i].number != number)
			continue;
		addr = ready->segment[i].addr;
		*size = ready->segment[i].size;
		atomic_store(&ready->segment[i].number, 0);
	}
	shca_unlock(&ready->lock);
	return addr;
}

static void map_ready(struct shca_context *ctx, const struct simhca_get_segment_reply *reply,
		      const int *fds)
{
	for (uint32_t i = 0; i < SIMHCA_MAX_READY_SEGMENTS; i++) {
		void *addr;

		/* It has not come, if the program has no descriptor for it. */
		if (fds[i] < 0)
			continue;
		if (i >= reply->ready)
			simhca_call_close(fds[i]);
		else if (!shca_map_whole(fds[i], reply->size, PROT_READ | PROT_WRITE, &addr))
			keep_ready(ctx, reply->number[i], addr, reply->size);
	}
}

/* ------------------------------------------------------------------------------- to fetch */

/* Maps segment `number`, over what is mapped at `own` if that is not NULL. 0 or errno. */
static int get(struct shca_context *ctx, uint32_t number, struct shca_segment *own, void **addr,
	       uint64_t *size)
{
	struct simhca_get_segment_req req = { .segment = number,
					      .ready = own ? 0 : wanted(ctx, number) };
	struct simhca_get_segment_reply reply;
	int fds[1 + SIMHCA_MAX_READY_SEGMENTS];
	int err = shca_execute(ctx, &(struct shca_command){
					    .command = SIMHCA_CMD_GET_SEGMENT,
					    .req = &req,
					    .req_size = sizeof(req),
					    .reply = &reply,
					    .reply_size = sizeof(reply),
					    .reply_fds = fds,
					    .num_reply_fds = 1,
					    .more_reply_fds = SIMHCA_MAX_READY_SEGMENTS,
				    });

	if (err)
		return err;
	map_ready(ctx, &reply, fds + 1);
	*size = reply.size;
	return own ? shca_map_over(own, fds[0], reply.size)
		   : shca_map_whole(fds[0], reply.size, PROT_READ | PROT_WRITE, addr);
}

static int get_in_any_case(struct shca_context *ctx, uint32_t number, struct shca_segment *own,
			   void **addr, uint64_t *size)
{
	int err = get(ctx, number, own, addr, size);

	if (err == EMFILE && shca_spare_lend(ctx)) {
		err = get(ctx, number, own, addr, size);
		shca_spare_take_back(ctx);
	}
	return err;
}

static int fetch_segment(struct shca_context *ctx, struct shca_segment *segment, uint32_t number)
{
	void *none = NULL;
	uint64_t size;
	void *addr = take_ready(ctx, number, &size);
	int err = addr ? 0 : get_in_any_case(ctx, number, NULL, &addr, &size);

	if (err)
		return err;
	/* Every thread that fetches it stores the same size; release publishes it with addr. */
	atomic_store_explicit(&segment->size, size, memory_order_relaxed);
	if (!atomic_compare_exchange_strong_explicit(&segment->addr, &none, addr,
						     memory_order_release, memory_order_relaxed))
		munmap(addr, size);
	return 0;
}

void *shca_map(struct shca_context *ctx, struct shca_segment *own, const struct simhca_mem_ref *ref,
	       uint64_t bytes)
{
	struct shca_segment *segment =
		ref->segment < SIMHCA_MAX_SEGMENTS ? &ctx->segments[ref->segment] : own;
	uint64_t size;
	char *addr;
	int err;

	if (!segment)
		return shca_null(EPROTO);
	addr = atomic_load_explicit(&segment->addr, memory_order_acquire);
	if (!addr) {
		err = fetch_segment(ctx, segment, ref->segment);
		if (err)
			return shca_null(err);
		addr = atomic_load_explicit(&segment->addr, memory_order_acquire);
	}
	size = atomic_load_explicit(&segment->size, memory_order_relaxed);
	if (bytes > size || ref->offset > size - bytes || ref->offset % 64)
		return shca_null(EPROTO);
	return addr + ref->offset;
}

int shca_map_over(struct shca_segment *own, int fd, uint64_t size)
{
	int err = 0;

	/* At once, for whoever is there: it reaches what was mapped before, or what is now. */
	if (size != own->size)
		err = EPROTO;
	else if (mmap(own->addr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) ==
		 MAP_FAILED)
		err = errno;
	simhca_call_close(fd);
	return err;
}

int shca_map_again(struct shca_context *ctx, struct shca_segment *own, uint32_t number)
{
	uint64_t size;

	return get_in_any_case(ctx, number, own, NULL, &size);
}

void shca_unmap(struct shca_segment *own)
{
	if (own->addr)
		munmap(own->addr, own->size);
	own->addr = NULL;
}

void shca_unmap_all(struct shca_context *ctx)
{
	for (uint32_t i = 0; i < SIMHCA_MAX_SEGMENTS; i++)
		shca_unmap(&ctx->segments[i]);
	for (uint32_t i = 0; i < SHCA_READY_SEGMENTS; i++)
		if (ctx->ready.segment[i].number)
			munmap(ctx->ready.segment[i].addr, ctx->ready.segment[i].size);
	if (ctx->dev)
		munmap((void *)ctx->dev, ctx->dev_size);
}
