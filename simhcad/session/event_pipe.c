/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* A pipe of events: its records, how they get into it, and what happens when it is full. */
#include <errno.h>
#include <infiniband/verbs.h>
#include <linux/sockios.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utlist.h>

#include "base/log.h"
#include "core/lock.h"
#include "event_pipe.h"

#define READY 64 /* pipes that are looked at between other things */

/* --------------------------------------------------------------------------------- records */

bool event_is_of_device(uint32_t type)
{
	switch (type) {
	case IBV_EVENT_DEVICE_FATAL:
	case IBV_EVENT_PORT_ACTIVE:
	case IBV_EVENT_PORT_ERR:
	case IBV_EVENT_LID_CHANGE:
	case IBV_EVENT_PKEY_CHANGE:
	case IBV_EVENT_SM_CHANGE:
	case IBV_EVENT_CLIENT_REREGISTER:
	case IBV_EVENT_GID_CHANGE:
		return true;
	default:
		return false;
	}
}

static void put_record(const struct event_pipe *pipe, const struct event_key *key, char *to)
{
	union event_record record = { .bytes = { 0 } };

	if (pipe->record_size == COMPLETION_SIZE) {
		record.completion.cq_handle = key->element;
	} else {
		record.async.element = key->element;
		record.async.event_type = key->type;
	}
	memcpy(to, record.bytes, pipe->record_size);
}

void event_get_record(const struct event_pipe *pipe, const char *from, struct event_key *key)
{
	union event_record record = { .bytes = { 0 } };

	memset(key, 0, sizeof(*key));
	memcpy(record.bytes, from, pipe->record_size);
	key->element = record.completion.cq_handle;
	if (pipe->record_size == ASYNC_SIZE)
		key->type = record.async.event_type;
}

struct event_count *event_count_of(struct event_pipe *pipe, const struct event_key *key)
{
	struct event_count *count;

	HASH_FIND(hh, pipe->counts, key, sizeof(*key), count);
	if (count)
		return count;
	count = calloc(1, sizeof(*count));
	if (!count)
		return NULL;
	count->key = *key;
	HASH_ADD(hh, pipe->counts, key, sizeof(count->key), count);
	return count;
}

void event_count_forget(struct event_pipe *pipe, struct event_count *count)
{
	if (count->waiting)
		DL_DELETE(pipe->queue, count);
	HASH_DEL(pipe->counts, count);
	free(count);
}

/* --------------------------------------------------------------------------- life of a pipe */

/* What epoll tells unasked is that the client's end is closed. */
static void watch(struct event_pipe *pipe, int op, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.ptr = pipe };

	if (epoll_ctl(pipe->set->wakeup->epoll, op, pipe->fd, &event) && op != EPOLL_CTL_DEL)
		log_error("events for descriptor %d: epoll: %m", pipe->fd);
}

/*
 * Makes a pair of sockets like the kernel's file, which cannot be written: its poll() does not say
 * that it could be, for its buffer is full of what nobody reads, and write() fails.
 */
static void make_one_way(int fd, int client)
{
	int least = 1;

	setsockopt(client, SOL_SOCKET, SO_SNDBUF, &least, sizeof(least));
	while (send(client, "", 1, MSG_DONTWAIT) > 0)
		;
	shutdown(fd, SHUT_RD);
}

struct event_pipe *event_pipe_create(struct event_set *set, size_t record_size, int *client)
{
	struct event_pipe *pipe = calloc(1, sizeof(*pipe));
	struct stat st;
	int ends[2];

	if (!pipe) {
		errno = ENOMEM;
		return NULL;
	}
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends)) {
		free(pipe);
		return NULL;
	}
	if (fstat(ends[1], &st)) {
		close(ends[0]);
		close(ends[1]);
		free(pipe);
		return NULL;
	}
	pipe->inode = st.st_ino;
	make_one_way(ends[0], ends[1]);
	pipe->set = set;
	set->descriptors++;
	pipe->fd = ends[0];
	pipe->spare = pipe->kept = -1;
	pipe->record_size = record_size;
	watch(pipe, EPOLL_CTL_ADD, 0);
	*client = ends[1];
	return pipe;
}

void event_pipe_free(struct event_pipe *pipe)
{
	struct event_wakeup *wakeup = pipe->set->wakeup;
	struct event_count *count, *next;

	pthread_mutex_lock(&wakeup->lock);
	if (pipe->in_wakeup)
		DL_DELETE2(wakeup->full, pipe, full_prev, full_next);
	pthread_mutex_unlock(&wakeup->lock);
	if (pipe->purge)
		pipe->purge->pipe = NULL;
	/* Closing is not enough: a client may have this end as well. */
	watch(pipe, EPOLL_CTL_DEL, 0);
	pipe->set->descriptors -= 1 + (pipe->spare >= 0) + (pipe->kept >= 0);
	HASH_ITER (hh, pipe->counts, count, next)
		event_count_forget(pipe, count);
	/* Nothing but our own bytes waits in either, so closing them closes no file of a stranger.
	 */
	close(pipe->fd);
	if (pipe->spare >= 0)
		close(pipe->spare);
	if (pipe->kept >= 0)
		close(pipe->kept);
	free(pipe);
}

void event_pipe_unlink(struct event_pipe *pipe)
{
	if (pipe->record_size == COMPLETION_SIZE)
		HASH_DEL(pipe->set->channels, pipe);
	else
		DL_DELETE(pipe->set->async, pipe);
}

/* --------------------------------------------------------------------------------- delivery */

/* Fills buffer with the oldest records that wait; returns the bytes. Does not take them away. */
static size_t gather(const struct event_pipe *pipe, char *buffer, size_t size)
{
	size_t used = 0;
	const struct event_count *count;

	DL_FOREACH (pipe->queue, count) {
		for (uint64_t i = 0; i < count->waiting; i++) {
			if (used + pipe->record_size > size)
				return used;
			put_record(pipe, &count->key, buffer + used);
			used += pipe->record_size;
		}
	}
	return used;
}

static void take_away(struct event_pipe *pipe, size_t records)
{
	while (records) {
		struct event_count *count = pipe->queue;
		uint64_t some = records < count->waiting ? records : count->waiting;

		count->waiting -= some;
		count->written += (uint32_t)some;
		records -= some;
		if (!count->waiting)
			DL_DELETE(pipe->queue, count);
	}
}

int event_pipe_put(const struct event_pipe *pipe, const char *records, size_t size)
{
	return send(pipe->fd, records, size, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? errno : 0;
}

int event_pipe_deliver(struct event_pipe *pipe)
{
	char buffer[PIECE];
	size_t size;

	while ((size = gather(pipe, buffer, sizeof(buffer)))) {
		int error = event_pipe_put(pipe, buffer, size);

		if (error)
			return error;
		take_away(pipe, size / pipe->record_size);
	}
	return 0;
}

/* The pipe has room, or its reader is gone. */
static void on_pipe(struct event_pipe *pipe, uint32_t events)
{
	struct event_set *set = pipe->set;
	int ret = events & (EPOLLHUP | EPOLLERR) ? EPIPE : 0;

	pthread_mutex_lock(&set->lock);
	if (!ret && !pipe->purge)
		ret = event_pipe_deliver(pipe);
	if (ret && ret != EAGAIN)
		event_pipe_unlink(pipe);
	pthread_mutex_unlock(&set->lock);

	if (!ret)
		watch(pipe, EPOLL_CTL_MOD, 0);
	else if (ret != EAGAIN)
		event_pipe_free(pipe);
}

/* Main thread. */
static void on_ready(struct ev_loop *loop, ev_io *io, int events)
{
	struct event_wakeup *wakeup = io->data;
	struct epoll_event ready[READY];
	int count = epoll_wait(wakeup->epoll, ready, READY, 0);

	for (int i = 0; i < count; i++)
		on_pipe(ready[i].data.ptr, ready[i].events);
}

/* Main thread: pipes that engines found full are watched for room. */
static void on_full(struct ev_loop *loop, ev_async *async, int events)
{
	struct event_wakeup *wakeup = async->data;
	struct event_pipe *pipe, *next;

	pthread_mutex_lock(&wakeup->lock);
	DL_FOREACH_SAFE2(wakeup->full, pipe, next, full_next)
	{
		pipe->in_wakeup = false;
		watch(pipe, EPOLL_CTL_MOD, EPOLLOUT);
	}
	wakeup->full = NULL;
	pthread_mutex_unlock(&wakeup->lock);
}

void event_pipe_wait_for_room(struct event_pipe *pipe)
{
	struct event_wakeup *wakeup = pipe->set->wakeup;
	bool wake = false;

	pthread_mutex_lock(&wakeup->lock);
	if (!pipe->in_wakeup) {
		pipe->in_wakeup = true;
		DL_APPEND2(wakeup->full, pipe, full_prev, full_next);
		wake = true;
	}
	pthread_mutex_unlock(&wakeup->lock);
	if (wake)
		ev_async_send(wakeup->loop, &wakeup->async);
}

void event_pipe_raise(struct event_pipe *pipe, const struct event_key *key)
{
	struct event_count *count = event_count_of(pipe, key);
	char record[sizeof(union event_record)];

	if (!count) {
		log_error("out of memory: an event is lost");
		return;
	}
	if (!pipe->queue && !pipe->purge) {
		int error;

		put_record(pipe, key, record);
		error = event_pipe_put(pipe, record, pipe->record_size);
		if (!error) {
			count->written++;
			return;
		}
		/* Nobody reads: the event loop is about to see it as well, and drops the pipe. */
		if (error != EAGAIN)
			return;
		event_pipe_wait_for_room(pipe);
	}
	if (!count->waiting++)
		DL_APPEND(pipe->queue, count);
}

size_t event_pipe_unread(const struct event_pipe *pipe)
{
	int bytes = 0;

	if (ioctl(pipe->fd, SIOCOUTQ, &bytes) || bytes < 0)
		return SIZE_MAX;
	return (size_t)bytes;
}

/* ---------------------------------------------------------------------------------- wake-up */

bool event_wakeup_init(struct event_wakeup *wakeup, struct ev_loop *loop)
{
	wakeup->loop = loop;
	wakeup->full = NULL;
	wakeup->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (wakeup->epoll < 0) {
		log_error("a descriptor to watch event pipes: %m");
		return false;
	}
	simhca_mutex_init(&wakeup->lock, SIMHCA_LOCK_WAKEUP);
	ev_async_init(&wakeup->async, on_full);
	wakeup->async.data = wakeup;
	ev_async_start(loop, &wakeup->async);
	ev_io_init(&wakeup->io, on_ready, wakeup->epoll, EV_READ);
	wakeup->io.data = wakeup;
	ev_io_start(loop, &wakeup->io);
	return true;
}

void event_wakeup_destroy(struct event_wakeup *wakeup)
{
	ev_io_stop(wakeup->loop, &wakeup->io);
	ev_async_stop(wakeup->loop, &wakeup->async);
	pthread_mutex_destroy(&wakeup->lock);
	close(wakeup->epoll);
}
