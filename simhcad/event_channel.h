/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Completion channels and asynchronous events: pipes from the device to a client, whose records
 * are those of the kernel's uverbs (8 and 16 bytes).
 *
 * The client holds the read end, the daemon the write end, in an open file description of its
 * own, which is non-blocking whatever the client does. A pipe that the client has closed is
 * dropped. A record that does not fit is kept, as a count per element, so that a client which
 * never reads costs memory for its objects only; records of one element keep their place in the
 * order of the first of them. The event loop delivers them when there is room.
 *
 * Engine threads raise events, the main thread does everything else. One lock per event set.
 *
 * Memory order. An event is raised after its completion was published (libsimhca/cq.c), and the
 * program reads it by a system call on the same pipe: the kernel's lock of the pipe orders the two,
 * so who has read an event sees the completion, on whatever core. A record that has to wait is put
 * into the pipe by the main thread, which took the count from the engine under the set's lock: the
 * same holds, one step further. Going to sleep needs no order of ours: the program sleeps in the
 * kernel, on a pipe that has a record or has none.
 *
 * That a record which found no room is not forgotten: who counts it has, under the set's lock,
 * either found others that wait, or told the event loop (in_wakeup) to watch for room. The loop
 * stops watching only under that lock, when nothing waits. It clears in_wakeup before it watches,
 * so a pipe that is full again by then is told of again. tests/promela/channel.pml is a model of it.
 */
#ifndef SIMHCAD_EVENT_CHANNEL_H
#define SIMHCAD_EVENT_CHANNEL_H

#include <ev.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct event_pipe;

/* By which engine threads tell the event loop that a pipe is full. One per loop. */
struct event_wakeup {
	struct ev_loop *loop;
	ev_async async;
	pthread_mutex_t lock;
	struct event_pipe *full; /* to be watched for room */
};

void event_wakeup_init(struct event_wakeup *wakeup, struct ev_loop *loop);
void event_wakeup_destroy(struct event_wakeup *wakeup);

/* The pipes of one context. */
struct event_set {
	struct event_wakeup *wakeup;
	pthread_mutex_t lock;
	struct event_pipe *channels; /* hash by inode */
	struct event_pipe *async;    /* list, the oldest first */
	unsigned int pipes;	     /* of both kinds; main thread */
};

void event_set_init(struct event_set *set, struct event_wakeup *wakeup);
/* No engine raises events for it any more. */
void event_set_destroy(struct event_set *set);

/* These return a read end that the caller closes, or -errno. */
int event_add_channel(struct event_set *set);
int event_add_async(struct event_set *set);
/*
 * The first asynchronous pipe, made anew if there is none any more: its read end and a write
 * end, each in an open file description of its own.
 */
int event_first_async(struct event_set *set, int *write_end);

bool event_has_channel(struct event_set *set, uint64_t inode);

/* From any thread. */
void event_raise_completion(struct event_set *set, uint64_t channel, uint64_t cq);
/* An object's goes to its pipe, by inode, or to the first for 0; the device's to all of them. */
void event_raise_async(struct event_set *set, uint64_t pipe, uint64_t element, uint32_t type);

/*
 * The element is gone: take back its events that the client has not read, and forget it. Returns
 * how many the client did read.
 */
uint32_t event_purge_completions(struct event_set *set, uint64_t channel, uint64_t cq);
uint32_t event_purge_async(struct event_set *set, uint64_t pipe, uint64_t element);

#endif
