/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uthash.h>
#include <utlist.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_verbs.h>

#include "event_channel.h"
#include "log.h"

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
	uint64_t inode;
	int fd;			    /* write end; constant */
	size_t record_size;	    /* bytes; constant */
	struct event_count *counts; /* hash by key */
	struct event_count *queue;  /* with records that found no room, oldest first */
	ev_io io;
	bool in_wakeup; /* linked in event_wakeup.full */
	struct event_pipe *full_prev, *full_next;
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

/* Whether an asynchronous event is about the port or device, and not about an object. */
static bool is_of_device(uint32_t type)
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

static void get_record(const struct event_pipe *pipe, const char *from, struct event_key *key)
{
	union event_record record = { .bytes = { 0 } };

	memset(key, 0, sizeof(*key));
	memcpy(record.bytes, from, pipe->record_size);
	key->element = record.completion.cq_handle;
	if (pipe->record_size == ASYNC_SIZE)
		key->type = record.async.event_type;
}

static struct event_count *count_of(struct event_pipe *pipe, const struct event_key *key)
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

static void forget(struct event_pipe *pipe, struct event_count *count)
{
	if (count->waiting)
		DL_DELETE(pipe->queue, count);
	HASH_DEL(pipe->counts, count);
	free(count);
}

/* ------------------------------------------------------------------------ life of a pipe */

/* Another open file description of the pipe behind fd, or -errno. */
static int reopen(int fd, int flags)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	fd = open(path, flags | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static void on_pipe(struct ev_loop *loop, ev_io *io, int events);

static void watch(struct event_pipe *pipe, int events)
{
	ev_io_stop(pipe->set->wakeup->loop, &pipe->io);
	ev_io_set(&pipe->io, pipe->fd, events);
	ev_io_start(pipe->set->wakeup->loop, &pipe->io);
}

static struct event_pipe *pipe_create(struct event_set *set, size_t record_size, int *read_end)
{
	struct event_pipe *pipe = calloc(1, sizeof(*pipe));
	struct stat st;
	int ends[2];

	if (!pipe) {
		errno = ENOMEM;
		return NULL;
	}
	if (pipe2(ends, O_CLOEXEC)) {
		free(pipe);
		return NULL;
	}
	if (fstat(ends[1], &st) || fcntl(ends[1], F_SETFL, O_NONBLOCK)) {
		close(ends[0]);
		close(ends[1]);
		free(pipe);
		return NULL;
	}
	pipe->set = set;
	set->pipes++;
	pipe->inode = st.st_ino;
	pipe->fd = ends[1];
	pipe->record_size = record_size;
	ev_init(&pipe->io, on_pipe);
	pipe->io.data = pipe;
	/* Nothing can be read from a write end, so this waits for the error alone: nobody reads. */
	watch(pipe, EV_READ);
	*read_end = ends[0];
	return pipe;
}

/* No engine can find it any more. */
static void pipe_free(struct event_pipe *pipe)
{
	struct event_wakeup *wakeup = pipe->set->wakeup;
	struct event_count *count, *next;

	pthread_mutex_lock(&wakeup->lock);
	if (pipe->in_wakeup)
		DL_DELETE2(wakeup->full, pipe, full_prev, full_next);
	pthread_mutex_unlock(&wakeup->lock);
	ev_io_stop(wakeup->loop, &pipe->io);
	pipe->set->pipes--;
	HASH_ITER (hh, pipe->counts, count, next)
		forget(pipe, count);
	close(pipe->fd);
	free(pipe);
}

/* Main thread, set locked. */
static void pipe_unlink(struct event_pipe *pipe)
{
	if (pipe->record_size == COMPLETION_SIZE)
		HASH_DEL(pipe->set->channels, pipe);
	else
		DL_DELETE(pipe->set->async, pipe);
}

/* ---------------------------------------------------------------------------- delivery */

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

/* Writes what waits. 0: nothing waits any more; EAGAIN: no room; else nobody reads. */
static int deliver(struct event_pipe *pipe)
{
	/* Up to PIPE_BUF bytes go whole or not at all, so no record is ever cut. */
	char buffer[PIPE_BUF];
	ssize_t written;
	size_t size;

	while ((size = gather(pipe, buffer, sizeof(buffer)))) {
		written = write(pipe->fd, buffer, size);
		if (written < 0 && errno == EINTR)
			continue;
		if (written < 0)
			return errno;
		take_away(pipe, (size_t)written / pipe->record_size);
	}
	return 0;
}

static bool has_reader(const struct event_pipe *pipe)
{
	struct pollfd pollfd = { .fd = pipe->fd };

	return poll(&pollfd, 1, 0) <= 0 || !(pollfd.revents & POLLERR);
}

/* Main thread: the pipe has room, or its reader is gone. */
static void on_pipe(struct ev_loop *loop, ev_io *io, int events)
{
	struct event_pipe *pipe = io->data;
	struct event_set *set = pipe->set;
	int ret = 0;

	pthread_mutex_lock(&set->lock);
	if (events & EV_WRITE)
		ret = deliver(pipe);
	else if (!has_reader(pipe))
		ret = EPIPE;
	if (ret && ret != EAGAIN)
		pipe_unlink(pipe);
	pthread_mutex_unlock(&set->lock);

	if (!ret)
		watch(pipe, EV_READ);
	else if (ret != EAGAIN)
		pipe_free(pipe);
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
		/* A reader that is gone counts as room: the write says so. */
		watch(pipe, EV_WRITE);
	}
	wakeup->full = NULL;
	pthread_mutex_unlock(&wakeup->lock);
}

/* Set locked. */
static void wait_for_room(struct event_pipe *pipe)
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

/* Set locked. */
static void raise_event(struct event_pipe *pipe, const struct event_key *key)
{
	struct event_count *count = count_of(pipe, key);
	char record[sizeof(union event_record)];
	ssize_t written = -1;

	if (!count) {
		log_error("out of memory: an event is lost");
		return;
	}
	if (!pipe->queue) {
		put_record(pipe, key, record);
		do
			written = write(pipe->fd, record, pipe->record_size);
		while (written < 0 && errno == EINTR);
		if (written > 0) {
			count->written++;
			return;
		}
		/* Nobody reads: the event loop is about to see it as well, and drops the pipe. */
		if (errno != EAGAIN)
			return;
		wait_for_room(pipe);
	}
	if (!count->waiting++)
		DL_APPEND(pipe->queue, count);
}

void event_raise_completion(struct event_set *set, uint64_t channel, uint64_t cq)
{
	struct event_key key = { .element = cq };
	struct event_pipe *pipe;

	pthread_mutex_lock(&set->lock);
	HASH_FIND(hh, set->channels, &channel, sizeof(channel), pipe);
	if (pipe)
		raise_event(pipe, &key);
	pthread_mutex_unlock(&set->lock);
}

/*
 * An object tells which pipe is its process's: another may hold the same context, to which the
 * element means nothing. When that one is closed nobody is left to hear of it.
 */
static bool is_for(const struct event_pipe *pipe, uint64_t inode)
{
	return !inode || pipe->inode == inode;
}

void event_raise_async(struct event_set *set, uint64_t inode, uint64_t element, uint32_t type)
{
	struct event_key key = { .element = element, .type = type };
	struct event_pipe *pipe;

	pthread_mutex_lock(&set->lock);
	DL_FOREACH (set->async, pipe) {
		if (is_of_device(type)) {
			raise_event(pipe, &key);
		} else if (is_for(pipe, inode)) {
			raise_event(pipe, &key);
			break;
		}
	}
	pthread_mutex_unlock(&set->lock);
}

/* ------------------------------------------------------------------------------- purging */

/* What an element's keys have in common: in a completion channel there is one, with type 0. */
static bool is_about(const struct event_pipe *pipe, const struct event_key *key, uint64_t element)
{
	return key->element == element &&
	       (pipe->record_size == COMPLETION_SIZE || !is_of_device(key->type));
}

/*
 * What is in the pipe, unread; *size bytes. NULL: nothing or no way to get at it. No more than fits
 * in there: a client can write to its own pipe as fast as it is read.
 */
static char *drain(struct event_pipe *pipe, size_t *size)
{
	int fd = reopen(pipe->fd, O_RDONLY | O_NONBLOCK);
	int room = fcntl(pipe->fd, F_GETPIPE_SZ);
	char *all = fd >= 0 && room > 0 ? malloc((size_t)room) : NULL;

	*size = 0;
	while (all && *size < (size_t)room) {
		ssize_t length = read(fd, all + *size, (size_t)room - *size);

		if (length < 0 && errno == EINTR)
			continue;
		if (length <= 0)
			break;
		*size += (size_t)length;
	}
	if (fd >= 0)
		close(fd);
	return all;
}

/* Back into the pipe, from which they were just taken: there is room, unless the client fills it.
 */
static void put_back(struct event_pipe *pipe, const char *records, size_t size)
{
	for (size_t at = 0; at < size;) {
		size_t some = size - at < PIPE_BUF ? size - at : PIPE_BUF;
		ssize_t written = write(pipe->fd, records + at, some);

		if (written < 0 && errno == EINTR)
			continue;
		if (written < 0) {
			if (errno == EAGAIN)
				log_warning(
					"a client writes to its own event pipe: events are lost");
			return;
		}
		at += (size_t)written;
	}
}

/* Set locked. Returns how many records about element the client has read. */
static uint32_t purge(struct event_pipe *pipe, uint64_t element)
{
	struct event_count *count, *next;
	size_t size, kept = 0;
	uint32_t written = 0, unread = 0;
	char *records;

	HASH_ITER (hh, pipe->counts, count, next) {
		if (!is_about(pipe, &count->key, element))
			continue;
		written += count->written;
		forget(pipe, count);
	}
	if (!written)
		return 0;

	records = drain(pipe, &size);
	for (size_t at = 0; at + pipe->record_size <= size; at += pipe->record_size) {
		struct event_key key;

		get_record(pipe, records + at, &key);
		if (is_about(pipe, &key, element)) {
			unread++;
		} else {
			memmove(records + kept, records + at, pipe->record_size);
			kept += pipe->record_size;
		}
	}
	put_back(pipe, records, kept);
	free(records);
	/* A client that writes to its own pipe could have made up records. */
	return unread < written ? written - unread : 0;
}

uint32_t event_purge_completions(struct event_set *set, uint64_t channel, uint64_t cq)
{
	struct event_pipe *pipe;
	uint32_t delivered = 0;

	pthread_mutex_lock(&set->lock);
	HASH_FIND(hh, set->channels, &channel, sizeof(channel), pipe);
	if (pipe)
		delivered = purge(pipe, cq);
	pthread_mutex_unlock(&set->lock);
	return delivered;
}

uint32_t event_purge_async(struct event_set *set, uint64_t inode, uint64_t element)
{
	uint32_t delivered = 0;
	struct event_pipe *pipe;

	pthread_mutex_lock(&set->lock);
	/* All of them: the first one was another while an older one was still open. */
	DL_FOREACH (set->async, pipe)
		if (is_for(pipe, inode))
			delivered += purge(pipe, element);
	pthread_mutex_unlock(&set->lock);
	return delivered;
}

/* ---------------------------------------------------------------------- sets and wake-up */

int event_add_channel(struct event_set *set)
{
	int read_end;
	struct event_pipe *pipe = pipe_create(set, COMPLETION_SIZE, &read_end);

	if (!pipe)
		return -errno;
	pthread_mutex_lock(&set->lock);
	HASH_ADD(hh, set->channels, inode, sizeof(pipe->inode), pipe);
	pthread_mutex_unlock(&set->lock);
	return read_end;
}

int event_add_async(struct event_set *set)
{
	int read_end;
	struct event_pipe *pipe = pipe_create(set, ASYNC_SIZE, &read_end);

	if (!pipe)
		return -errno;
	pthread_mutex_lock(&set->lock);
	DL_APPEND(set->async, pipe);
	pthread_mutex_unlock(&set->lock);
	return read_end;
}

int event_first_async(struct event_set *set, int *write_end)
{
	int read_end = -1;

	/* Only this thread links and unlinks pipes: no lock is needed to look. */
	if (!set->async)
		read_end = event_add_async(set);
	else
		read_end = reopen(set->async->fd, O_RDONLY);
	if (read_end < 0)
		return read_end;
	*write_end = reopen(set->async->fd, O_WRONLY | O_NONBLOCK);
	if (*write_end < 0) {
		close(read_end);
		return *write_end;
	}
	return read_end;
}

bool event_has_channel(struct event_set *set, uint64_t inode)
{
	struct event_pipe *pipe;

	HASH_FIND(hh, set->channels, &inode, sizeof(inode), pipe);
	return pipe;
}

void event_set_init(struct event_set *set, struct event_wakeup *wakeup)
{
	set->wakeup = wakeup;
	pthread_mutex_init(&set->lock, NULL);
	set->channels = NULL;
	set->async = NULL;
	set->pipes = 0;
}

void event_set_destroy(struct event_set *set)
{
	struct event_pipe *pipe, *next;

	HASH_ITER (hh, set->channels, pipe, next) {
		HASH_DEL(set->channels, pipe);
		pipe_free(pipe);
	}
	DL_FOREACH_SAFE (set->async, pipe, next) {
		DL_DELETE(set->async, pipe);
		pipe_free(pipe);
	}
	pthread_mutex_destroy(&set->lock);
}

void event_wakeup_init(struct event_wakeup *wakeup, struct ev_loop *loop)
{
	wakeup->loop = loop;
	wakeup->full = NULL;
	pthread_mutex_init(&wakeup->lock, NULL);
	ev_async_init(&wakeup->async, on_full);
	wakeup->async.data = wakeup;
	ev_async_start(loop, &wakeup->async);
}

void event_wakeup_destroy(struct event_wakeup *wakeup)
{
	ev_async_stop(wakeup->loop, &wakeup->async);
	pthread_mutex_destroy(&wakeup->lock);
}
