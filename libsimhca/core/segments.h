/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The memory of a context, which its program maps as well: segments, out of which queues get theirs.
 * A segment may be one queue's alone, so that a peer of its owner can map that and nothing else.
 * Control functions only.
 */
#ifndef LIBSIMHCA_SEGMENTS_H
#define LIBSIMHCA_SEGMENTS_H

#include "simhca-abi.h"

#define SIMHCA_CONTEXT_UNIT 128u /* bytes: what is given out never shares a cache line */

/* A file for so many bytes of memory, all zero, whose size nobody changes; or -errno. */
int simhca_memory_file(const char *name, uint64_t size);
/* The same, and maps it: 0 or errno. */
int simhca_memory_file_mapped(const char *name, uint64_t size, int *fd, void **base);

/* A free run of a segment. */
struct simhca_hole {
	uint64_t offset, length;
	struct simhca_hole *next;
};

struct simhca_segment {
	int fd;
	char *base;
	uint64_t size;
	uint32_t number;	   /* by which clients know it */
	struct simhca_hole *holes; /* by offset, never adjacent */
};

/* One more segment of that many bytes; and when the context ends, none. */
int simhca_context_add_segment(struct simhca_context *context, uint64_t size,
			       struct simhca_why *why);
void simhca_context_drop_segments(struct simhca_context *context);
/* Zeroed memory in the context's segments; *where and the address in this process. NULL: why says.
 */
void *simhca_context_alloc(struct simhca_context *context, uint64_t bytes,
			   struct simhca_mem_ref *where, struct simhca_why *why);
/*
 * The same in one that has room for so many bytes in such pieces. A segment for this queue alone
 * goes with the last of them.
 */
void *simhca_context_alloc_in(struct simhca_context *context, uint32_t segment, uint64_t bytes,
			      struct simhca_mem_ref *where);
/*
 * Whether descriptors that a device has for its programs, `most` of them, leave one more for a program:
 * it has half of them at most, rounded up, so that of a single one somebody has something. most 0: no limit.
 */
static inline bool simhca_may_have_descriptor(uint32_t most, uint32_t of_all, uint32_t of_program)
{
	return !most || (of_all < most && of_program < (most + 1) / 2);
}
/* Its number; 0: there is none such to be had. */
uint32_t simhca_context_own_segment(struct simhca_context *context, uint64_t bytes);
/*
 * A queue that is being made, of so many bytes: in which segment all of it shall lie. Where programs
 * may come (fast) it gets one for itself, *own, if there is one to be had; else *own is 0. 0 or
 * -errno, and why says.
 */
int simhca_context_place(struct simhca_context *context, uint64_t bytes, bool fast, uint32_t *own,
			 uint32_t *segment, struct simhca_why *why);
/*
 * So that who maps such a segment has nothing of it any more: a file of its size, all zero, or
 * -errno; and that file takes the place of the one that the segment has, at the same addresses. 0
 * or -errno, and then it has the one that it had. The client has to map it anew.
 */
int simhca_context_spare_file(const struct simhca_context *context, uint32_t number);
int simhca_context_replace_file(struct simhca_context *context, uint32_t number, int fd);
/*
 * Such a file for a queue that is in use, mapped beside what the queue has, so that it can be
 * filled first. 0 or -errno, and why says; a context has few at a time. It takes the place of the
 * other file, or is dropped.
 */
struct simhca_spare {
	char *base; /* NULL: there is none */
	uint64_t size;
	int fd;
};
int simhca_context_make_spare(struct simhca_context *context, uint32_t number,
			      struct simhca_spare *spare, struct simhca_why *why);
int simhca_context_use_spare(struct simhca_context *context, uint32_t number,
			     struct simhca_spare *spare);
void simhca_context_drop_spare(struct simhca_context *context, struct simhca_spare *spare);
/* So that what is large can be given back without taking long: a part of it more. True: all. */
bool simhca_context_wipe(struct simhca_context *context, const struct simhca_mem_ref *where,
			 uint64_t bytes, uint64_t *wiped);
/* Memory that its queue has no use for any more, and that is given back bit by bit. */
struct simhca_rest {
	struct simhca_mem_ref ref;
	uint64_t bytes; /* 0: nothing */
	uint64_t wiped;
};
/* A part of it; 0: nothing is left of it. Else -ERESTART. */
int simhca_context_give_back(struct simhca_context *context, struct simhca_rest *rest);
void simhca_context_free(struct simhca_context *context, const struct simhca_mem_ref *where,
			 uint64_t bytes);

#endif
