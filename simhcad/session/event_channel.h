/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Completion channels and asynchronous events: pipes from the device to a client, whose records
 * are those of the kernel's uverbs (8 and 16 bytes).
 *
 * Each is a pair of stream sockets that goes one way. A pipe of the kernel's would not do: who
 * reads it into a page that nobody serves holds its lock meanwhile, for which a writer waits.
 * Sending to a socket never waits for who reads there. The reader's lock is needed for taking
 * records back alone, and that is a chore's (chores.h).
 *
 * The daemon holds its own end only, and always says that it does not want to wait. So has the
 * client that of its asynchronous events, and programs that raise events by themselves those of
 * their peers' channels: whatever they do with it harms those who read there. A pipe that the
 * client has closed is dropped. A record that does not fit is kept, as a count per element, so that
 * a client which never reads costs memory for its objects only; records of one element keep their
 * place in the order of the first of them. The event loop delivers them when there is room.
 *
 * Engine threads raise events, the main thread does everything else. One lock per event set.
 *
 * Memory order. An event is raised after its completion was published (libsimhca/proto/cq.c),
 * and the program reads it by a system call on the same pipe: the kernel's lock of its queue orders
 * the two, so who has read an event sees the completion, on whatever core. A record that has to
 * wait is put into the pipe by the main thread, which took the count from the engine under the
 * set's lock: the same holds, one step further. Going to sleep needs no order of ours: the program
 * sleeps in the kernel, on a pipe that has a record or has none.
 *
 * That a record which found no room is not forgotten: who counts it has, under the set's lock,
 * either found others that wait, or told the event loop (in_wakeup) to watch for room. The loop
 * stops watching only under that lock, when nothing waits. It clears in_wakeup before it watches,
 * so a pipe that is full again by then is told of again. tests/promela/channel.pml is a model of
 * it.
 */
#ifndef SIMHCAD_EVENT_CHANNEL_H
#define SIMHCAD_EVENT_CHANNEL_H

#include <ev.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct event_pipe;

/* By which engine threads tell the event loop that a pipe is full. One per loop. */
struct event_wakeup {
	struct ev_loop *loop;
	int epoll; /* all pipes: for room, and for their end alone, which libev cannot */
	ev_io io;
	ev_async async;
	pthread_mutex_t lock;
	struct event_pipe *full; /* to be watched for room */
};

/* false: no descriptor, and the log says so. */
bool event_wakeup_init(struct event_wakeup *wakeup, struct ev_loop *loop);
void event_wakeup_destroy(struct event_wakeup *wakeup);

/* The pipes of one context. */
struct event_set {
	struct event_wakeup *wakeup;
	pthread_mutex_t lock;
	struct event_pipe *channels; /* hash by inode */
	struct event_pipe *async;    /* list, the oldest first */
	unsigned int descriptors;    /* that it holds; main thread */
};

void event_set_init(struct event_set *set, struct event_wakeup *wakeup);
/*
 * Frees a part of the set, for which no engine raises events any more. True: call it again. False: all
 * is freed. Main thread.
 */
bool event_set_end(struct event_set *set);

/*
 * These return a client's end that the caller closes, or -errno. *end is the daemon's, to be passed
 * on: the client says through it that the device has gone.
 */
int event_add_channel(struct event_set *set, pid_t reader);
int event_add_async(struct event_set *set, int *end);
/*
 * The same in two steps, for a process that gets the daemon's end before it asks for its own. What
 * the first returns is not to be closed; without it the second makes a new pipe.
 */
int event_reserve_async(struct event_set *set, pid_t pid, int *end);
int event_take_async(struct event_set *set, pid_t pid);

bool event_has_channel(struct event_set *set, uint64_t inode);
/*
 * For a CQ whose driver does not bring the client's end when it destroys it: keeps a copy of that, once
 * for all such CQs of the channel, each of which lets it go. Meanwhile nobody is told that the client
 * has closed it. Main thread. 0 or -errno: EBADF: there is no such channel.
 */
int event_keep(struct event_set *set, int end, uint64_t *inode);
void event_let_go(struct event_set *set, uint64_t inode);
/* It; -1: none is kept. It is not to be closed. */
int event_kept(struct event_set *set, uint64_t inode);
/*
 * The device's end of a channel, for a program that raises the events of a CQ by itself; -1: there
 * is no such channel, or another process than that has made it. It is not to be closed.
 */
int event_lend(struct event_set *set, uint64_t inode, uint64_t cq, pid_t reader);
/* Whether the client has read all that the channel had. False, too, if there is none. */
bool event_all_read(struct event_set *set, uint64_t inode);

/* From any thread. */
void event_raise_completion(struct event_set *set, uint64_t channel, uint64_t cq);
/* An object's goes to its pipe, by inode, or to the first for 0; the device's to all of them. */
void event_raise_async(struct event_set *set, uint64_t pipe, uint64_t element, uint32_t type);

/*
 * The element is gone: forgets it, and takes back its events that the client has not read, among
 * them so many that others than the daemon have raised, as they say. For that the client has
 * brought a descriptor of its end; without one all count as read. start and
 * finish are the main thread's. read may sleep, and is needed if start says so; then the pipe
 * takes no other purge until finish, and what is raised waits.
 */
struct event_purge {
	uint64_t element;
	uint32_t delivered, written; /* events */
	struct event_pipe *pipe;     /* that is read; NULL: none, or it has gone */
	int fd;			     /* of the client's end; the caller's */
	char *records;
	size_t size, room; /* bytes */
};
bool event_purge_start(struct event_purge *purge, struct event_set *set, bool completions,
		       uint64_t inode, uint64_t element, uint32_t events_raised, int fd);
void event_purge_read(struct event_purge *purge);
/* Returns how many the client did read. */
uint32_t event_purge_finish(struct event_purge *purge);
/* Main thread: whether one is under way in the channel, or in the asynchronous pipe. */
bool event_is_purging(const struct event_set *set, uint64_t channel, uint64_t async);

#endif
