/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The memory of a context: segments, what is given out of them, and who may have one alone. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <utlist.h>

#include "context.h"
#include "fabric.h"
#include "segments.h"
#include "simhca-device.h"

#define NAME "simhca-context"	   /* of the files */
#define GROWN_SEGMENT (8ull << 20) /* bytes, or as much as one queue needs */
#define WIPED_AT_A_TIME (4ull << 20)
#define MOST_SPARES 8	      /* of a context: each is a descriptor */
#define SEGMENTS_OF_A_SIZE 16 /* then they are twice as large, up to 8 TiB in all */
#define FIRST_OWN_SLOTS 16    /* then twice as many, up to SIMHCA_MAX_OWN_SEGMENTS */

static uint64_t round_up(uint64_t bytes, uint64_t unit)
{
	return (bytes + unit - 1) / unit * unit;
}

int simhca_memory_file(const char *name, uint64_t size)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int error;

	if (fd >= 0 && !ftruncate(fd, (off_t)size) &&
	    !fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		return fd;
	error = errno;
	if (fd >= 0)
		close(fd);
	return -error;
}

int simhca_memory_file_mapped(const char *name, uint64_t size, int *fd, void **base)
{
	int error;

	*fd = simhca_memory_file(name, size);
	if (*fd < 0)
		return -*fd;
	*base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
	if (*base != MAP_FAILED)
		return 0;
	error = errno;
	close(*fd);
	return error;
}

/* 0 or errno. */
static int make_segment(struct simhca_segment *segment, uint32_t number, uint64_t size)
{
	struct simhca_hole *hole = calloc(1, sizeof(*hole));
	void *base;
	int fd, error = hole ? simhca_memory_file_mapped(NAME, size, &fd, &base) : ENOMEM;

	if (error) {
		free(hole);
		return error;
	}
	hole->length = size;
	*segment = (struct simhca_segment){
		.fd = fd, .base = base, .size = size, .number = number, .holes = hole
	};
	return 0;
}

int simhca_context_add_segment(struct simhca_context *context, uint64_t size,
			       struct simhca_why *why)
{
	int error;

	if (context->segments == SIMHCA_MAX_SEGMENTS)
		return simhca_why(why, ENOMEM, "a context has at most %u memory segments",
				  SIMHCA_MAX_SEGMENTS);
	error = make_segment(&context->segment[context->segments], context->segments, size);
	if (error)
		return simhca_why(why, error, "context memory: %s", strerror(error));
	context->segments++;
	return 0;
}

/* One queue's alone: nothing else ever lies there. */
static bool is_own(uint32_t number)
{
	return number >= SIMHCA_MAX_SEGMENTS;
}

/* NULL: there is none of this number, or no more. */
static struct simhca_segment *find_segment(const struct simhca_context *context, uint32_t number)
{
	const struct simhca_segment *segment;

	if (!is_own(number))
		segment = &context->segment[number];
	else if (number % SIMHCA_MAX_OWN_SEGMENTS < context->own_slots)
		segment = &context->own_segment[number % SIMHCA_MAX_OWN_SEGMENTS];
	else
		return NULL;
	return segment->base && segment->number == number ? (struct simhca_segment *)segment : NULL;
}

/*
 * First fit in one segment; UINT64_MAX if nothing fits. There are no more holes than the context has had
 * objects: a walk over those between all CQs of a device takes a third of a millisecond.
 */
static uint64_t carve(struct simhca_segment *segment, uint64_t bytes)
{
	struct simhca_hole **link, *hole;
	uint64_t offset;

	for (link = &segment->holes; (hole = *link); link = &hole->next) {
		if (hole->length < bytes)
			continue;
		offset = hole->offset;
		hole->offset += bytes;
		hole->length -= bytes;
		if (!hole->length) {
			*link = hole->next;
			free(hole);
		}
		return offset;
	}
	return UINT64_MAX;
}

static bool has_room(const struct simhca_segment *segment, uint64_t size)
{
	const struct simhca_hole *hole = segment->holes;

	while (hole && hole->length < size)
		hole = hole->next;
	return hole;
}

/*
 * A segment that has room for so many bytes in pieces, so that they all can lie in it; another one
 * if none has. 0 or -errno, and why says.
 */
static int find_room(struct simhca_context *context, uint64_t bytes, uint32_t *number,
		     struct simhca_why *why)
{
	uint64_t size = round_up(bytes ? bytes : 1, SIMHCA_CONTEXT_UNIT);
	uint64_t grown = GROWN_SEGMENT << (context->segments / SEGMENTS_OF_A_SIZE);

	for (*number = 0; *number < context->segments; ++*number)
		if (has_room(&context->segment[*number], size))
			return 0;
	return simhca_context_add_segment(context, size > grown ? round_up(size, 1u << 20) : grown,
					  why);
}

void *simhca_context_alloc(struct simhca_context *context, uint64_t bytes,
			   struct simhca_mem_ref *where, struct simhca_why *why)
{
	uint32_t number;

	if (find_room(context, bytes, &number, why))
		return NULL;
	return simhca_context_alloc_in(context, number, bytes, where);
}

static bool are_of_one_program(const struct simhca_context *context,
			       const struct simhca_context *other)
{
	return other == context || (context->program && other->program == context->program);
}

/* Each holds a descriptor. *full: nobody can have another one. */
static bool may_have_own_segment(const struct simhca_context *context, bool *full)
{
	const uint32_t most = context->device->config.own_segments;
	uint32_t all = 0, of_program = 0;
	const struct simhca_context *other;

	DL_FOREACH (context->device->contexts, other) {
		all += other->own_segments;
		if (are_of_one_program(context, other))
			of_program += other->own_segments;
	}
	*full = most && all >= most;
	return context->own_segments < SIMHCA_MAX_OWN_SEGMENTS &&
	       simhca_may_have_descriptor(most, all, of_program);
}

/* Twice as many places, each with the last number that it would have had; false: out of memory. */
static bool add_own_slots(struct simhca_context *context)
{
	uint32_t slots = context->own_slots ? context->own_slots * 2 : FIRST_OWN_SLOTS;
	struct simhca_segment *more =
		realloc(context->own_segment, slots * sizeof(*context->own_segment));

	if (!more)
		return false;
	context->own_segment = more;
	for (; context->own_slots < slots; context->own_slots++)
		more[context->own_slots] =
			(struct simhca_segment){ .fd = -1, .number = context->own_slots };
	return true;
}

/* What was in its place before is not meant by an old number. */
static uint32_t next_number(uint32_t number)
{
	number += SIMHCA_MAX_OWN_SEGMENTS;
	return number < SIMHCA_MAX_OWN_SEGMENTS ? number + SIMHCA_MAX_OWN_SEGMENTS : number;
}

/* NULL: there is none to be had. */
static struct simhca_segment *make_own_segment(struct simhca_context *context, uint64_t size)
{
	struct simhca_segment *segment;

	if (context->own_segments == context->own_slots && !add_own_slots(context))
		return NULL;
	while (context->own_segment[context->first_own_slot].base)
		context->first_own_slot++;
	segment = &context->own_segment[context->first_own_slot];
	if (make_segment(segment, next_number(segment->number), size))
		return NULL;
	context->own_segments++;
	return segment;
}

/* All that one queue had is free: a peer may still write there, so nobody else gets it. */
static void retire(struct simhca_context *context, struct simhca_segment *segment)
{
	const uint32_t number = segment->number;
	uint32_t slot;

	if (segment->holes->length != segment->size)
		return;
	free(segment->holes);
	simhca_release(context->device->fabric, segment->base, segment->size, segment->fd);
	*segment = (struct simhca_segment){ .fd = -1, .number = number };
	slot = (uint32_t)(segment - context->own_segment);
	if (slot < context->first_own_slot)
		context->first_own_slot = slot;
	context->own_segments--;
}

/* One of those that are ready, of that size; NULL: none is. */
static struct simhca_segment *take_ready(struct simhca_context *context, uint64_t size)
{
	for (uint32_t i = 0; i < context->num_ready; i++) {
		struct simhca_segment *segment = &context->own_segment[context->ready[i]];

		if (segment->size != size)
			continue;
		context->ready[i] = context->ready[--context->num_ready];
		return segment;
	}
	return NULL;
}

/* Those that wait for queues go: the program's, or everybody's. Whether there were any. */
static bool drop_ready(struct simhca_context *context, bool everybodys)
{
	struct simhca_context *other;
	bool any = false;

	DL_FOREACH (context->device->contexts, other)
		while (other->num_ready && (everybodys || are_of_one_program(context, other))) {
			retire(other, &other->own_segment[other->ready[--other->num_ready]]);
			any = true;
		}
	return any;
}

uint32_t simhca_context_own_segment(struct simhca_context *context, uint64_t bytes)
{
	const uint64_t size = round_up(bytes, 4096);
	struct simhca_segment *segment = take_ready(context, size);
	bool full;

	if (!segment && (may_have_own_segment(context, &full) ||
			 (drop_ready(context, full) && may_have_own_segment(context, &full))))
		segment = make_own_segment(context, size);
	return segment ? segment->number : 0;
}

uint32_t simhca_context_make_ready(struct simhca_context *context, uint32_t like, uint32_t most,
				   uint32_t *numbers)
{
	struct simhca_segment *segment = find_segment(context, like);
	const uint64_t size = segment ? segment->size : 0;
	uint32_t count = 0;
	bool full;

	if (!segment || !is_own(like))
		return 0;
	while (count < most && context->num_ready < SIMHCA_MAX_READY_SEGMENTS &&
	       may_have_own_segment(context, &full)) {
		segment = make_own_segment(context, size);
		if (!segment)
			break;
		context->ready[context->num_ready++] = (uint32_t)(segment - context->own_segment);
		numbers[count++] = segment->number;
	}
	return count;
}

int simhca_context_place(struct simhca_context *context, uint64_t bytes, bool fast, uint32_t *own,
			 uint32_t *segment, struct simhca_why *why)
{
	*own = fast && context->device->config.fast_path
		       ? simhca_context_own_segment(context, bytes)
		       : 0;
	*segment = *own;
	return *own ? 0 : find_room(context, bytes, segment, why);
}

void *simhca_context_alloc_in(struct simhca_context *context, uint32_t number, uint64_t bytes,
			      struct simhca_mem_ref *where)
{
	struct simhca_segment *segment = find_segment(context, number);
	uint64_t offset = carve(segment, round_up(bytes ? bytes : 1, SIMHCA_CONTEXT_UNIT));

	if (offset == UINT64_MAX)
		return NULL;
	*where = (struct simhca_mem_ref){ .segment = number, .offset = offset };
	return segment->base + offset;
}

int simhca_context_spare_file(const struct simhca_context *context, uint32_t number)
{
	return simhca_memory_file(NAME, find_segment(context, number)->size);
}

int simhca_context_replace_file(struct simhca_context *context, uint32_t number, int fd)
{
	struct simhca_segment *segment = find_segment(context, number);

	/*
	 * In one system call: a thread that reads or writes there meanwhile reaches one of the two
	 * files. The addresses that are known of it stay what they are.
	 */
	if (mmap(segment->base, segment->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
		 0) == MAP_FAILED)
		return -errno;
	close(segment->fd);
	segment->fd = fd;
	return 0;
}

int simhca_context_make_spare(struct simhca_context *context, uint32_t number,
			      struct simhca_spare *spare, struct simhca_why *why)
{
	const uint64_t size = find_segment(context, number)->size;
	int fd, error;
	void *base;

	if (context->spares == MOST_SPARES)
		return simhca_why(why, EBUSY, "%u queues of this context get other memory already",
				  MOST_SPARES);
	error = simhca_memory_file_mapped(NAME, size, &fd, &base);
	if (error)
		return simhca_why(why, error, "other memory for a queue: %s", strerror(error));
	*spare = (struct simhca_spare){ .base = base, .size = size, .fd = fd };
	context->spares++;
	return 0;
}

int simhca_context_use_spare(struct simhca_context *context, uint32_t number,
			     struct simhca_spare *spare)
{
	int ret = simhca_context_replace_file(context, number, spare->fd);

	if (ret)
		return ret;
	munmap(spare->base, spare->size);
	spare->base = NULL;
	context->spares--;
	return 0;
}

void simhca_context_drop_spare(struct simhca_context *context, struct simhca_spare *spare)
{
	if (!spare->base)
		return;
	munmap(spare->base, spare->size);
	close(spare->fd);
	spare->base = NULL;
	context->spares--;
}

/* Makes freed memory read as zero again; whole pages go back to the system. */
static void wipe(struct simhca_segment *segment, uint64_t offset, uint64_t length)
{
	uint64_t first = round_up(offset, 4096), last = (offset + length) / 4096 * 4096;

	if (first < last && !fallocate(segment->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				       (off_t)first, (off_t)(last - first))) {
		memset(segment->base + offset, 0, first - offset);
		memset(segment->base + last, 0, offset + length - last);
	} else {
		memset(segment->base + offset, 0, length);
	}
}

bool simhca_context_wipe(struct simhca_context *context, const struct simhca_mem_ref *where,
			 uint64_t bytes, uint64_t *wiped)
{
	uint64_t left = bytes - *wiped, some = left < WIPED_AT_A_TIME ? left : WIPED_AT_A_TIME;

	if (atomic_load(&context->dead) || is_own(where->segment))
		return true;
	wipe(find_segment(context, where->segment), where->offset + *wiped, some);
	*wiped += some;
	return *wiped == bytes;
}

void simhca_context_free(struct simhca_context *context, const struct simhca_mem_ref *where,
			 uint64_t bytes)
{
	struct simhca_segment *segment = find_segment(context, where->segment);
	uint64_t size = round_up(bytes ? bytes : 1, SIMHCA_CONTEXT_UNIT);
	struct simhca_hole **link, *hole, *next;

	/* The client may outlive its device, and then completes from these rings what is left in
	 * them. */
	if (atomic_load(&context->dead))
		return;
	link = &segment->holes;
	if (!is_own(where->segment))
		wipe(segment, where->offset, size);
	hole = calloc(1, sizeof(*hole));
	if (!hole)
		return; /* lost until the context goes */
	hole->offset = where->offset;
	hole->length = size;
	while (*link && (*link)->offset + (*link)->length < hole->offset)
		link = &(*link)->next;
	next = *link;
	if (next && next->offset + next->length == hole->offset) { /* grows the one before */
		next->length += size;
		free(hole);
		hole = next;
		next = hole->next;
	} else {
		hole->next = next;
		*link = hole;
	}
	if (next && hole->offset + hole->length == next->offset) { /* meets the one behind */
		hole->length += next->length;
		hole->next = next->next;
		free(next);
	}
	if (is_own(where->segment))
		retire(context, segment);
}

int simhca_context_give_back(struct simhca_context *context, struct simhca_rest *rest)
{
	if (!rest->bytes)
		return 0;
	if (!simhca_context_wipe(context, &rest->ref, rest->bytes, &rest->wiped))
		return -ERESTART;
	simhca_context_free(context, &rest->ref, rest->bytes);
	rest->bytes = 0;
	return 0;
}

static void drop(struct simhca_context *context, struct simhca_segment *segment)
{
	while (segment->holes) {
		struct simhca_hole *hole = segment->holes;

		segment->holes = hole->next;
		free(hole);
	}
	if (segment->base)
		simhca_release(context->device->fabric, segment->base, segment->size, segment->fd);
}

void simhca_context_drop_segments(struct simhca_context *context)
{
	for (uint32_t i = 0; i < context->segments; i++)
		drop(context, &context->segment[i]);
	for (uint32_t i = 0; i < context->own_slots; i++)
		drop(context, &context->own_segment[i]);
	free(context->own_segment);
	context->own_segment = NULL;
	context->own_slots = 0;
}

int simhca_context_segment(const struct simhca_context *context, uint32_t number, uint64_t *size)
{
	const struct simhca_segment *segment = find_segment(context, number);

	if (!segment)
		return -1;
	*size = segment->size;
	return segment->fd;
}
