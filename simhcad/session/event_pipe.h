/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What the files of event_channel.h share: a pipe of events. */
#ifndef SIMHCAD_EVENT_PIPE_H
#define SIMHCAD_EVENT_PIPE_H

#include <rdma/ib_user_verbs.h>
#include <uthash.h>

#include "event_channel.h"

/* What a record is about. type is 0 in a completion channel. */
struct event_key {
	uint64_t element;
	uint32_t type;
	uint32_t reserved; /* 0: keys are compared as bytes */
};

struct event_count {
	struct event_key key;
	uint32_t written;		 /* records that went into the pipe */
	uint64_t waiting;		 /* records that found no room */
	struct event_count *prev, *next; /* in the pipe's queue while waiting > 0 */
	UT_hash_handle hh;
};

struct event_pipe {
	struct event_set *set;
	uint64_t inode;		    /* of the client's end */
	pid_t reader;		    /* who has made it, of a completion channel */
	int fd;			    /* the daemon's end; constant */
	size_t record_size;	    /* bytes; constant */
	struct event_count *counts; /* hash by key */
	struct event_count *queue;  /* with records that found no room, oldest first */
	struct event_purge *purge;  /* takes records back just now: meanwhile all others wait */
	bool in_wakeup;		    /* linked in event_wakeup.full */
	struct event_pipe *full_prev, *full_next;
	int spare;	      /* the client's end, until somebody asks for it; else -1 */
	pid_t spare_of;	      /* who will */
	int kept;	      /* a copy of the client's end, for CQs of drivers; else -1 */
	unsigned int keepers; /* those CQs */
	struct event_pipe *prev, *next; /* in event_set.async */
	UT_hash_handle hh;		/* in event_set.channels */
};

/* A record of either kind; of a completion channel only the first 8 bytes exist. */
union event_record {
	struct ib_uverbs_comp_event_desc completion;
	struct ib_uverbs_async_event_desc async;
	char bytes[16];
};
#define COMPLETION_SIZE sizeof(struct ib_uverbs_comp_event_desc)
#define ASYNC_SIZE sizeof(struct ib_uverbs_async_event_desc)
_Static_assert(sizeof(union event_record) == 16, "two kinds of records, of 8 and 16 bytes");

/* Bytes that go in one piece or not at all, however small the kernel is told to make its buffers.
 */
#define PIECE 2048
_Static_assert(PIECE % ASYNC_SIZE == 0, "no record is ever cut");

/* Whether an asynchronous event is about the port or device, and not about an object. */
bool event_is_of_device(uint32_t type);
void event_get_record(const struct event_pipe *pipe, const char *from, struct event_key *key);
/* NULL: out of memory. */
struct event_count *event_count_of(struct event_pipe *pipe, const struct event_key *key);
void event_count_forget(struct event_pipe *pipe, struct event_count *count);

struct event_pipe *event_pipe_create(struct event_set *set, size_t record_size, int *client);
/* No engine can find it any more. */
void event_pipe_free(struct event_pipe *pipe);
/* Main thread, set locked. */
void event_pipe_unlink(struct event_pipe *pipe);

/* Up to PIECE bytes. 0; EAGAIN: no room; else nobody reads. */
int event_pipe_put(const struct event_pipe *pipe, const char *records, size_t size);
/* Writes what waits. 0: nothing waits any more; EAGAIN: no room; else nobody reads. */
int event_pipe_deliver(struct event_pipe *pipe);
/* Bytes of memory that is taken by what the client has not read: no less than what it can read. SIZE_MAX: unknown. */
size_t event_pipe_unread(const struct event_pipe *pipe);
/* Set locked. */
void event_pipe_wait_for_room(struct event_pipe *pipe);
void event_pipe_raise(struct event_pipe *pipe, const struct event_key *key);

/*
 * An object tells which pipe is its process's: another may hold the same context, to which the
 * element means nothing. When that one is closed nobody is left to hear of it.
 */
static inline bool event_pipe_is_for(const struct event_pipe *pipe, uint64_t inode)
{
	return !inode || pipe->inode == inode;
}

#endif
