/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uthash.h>
#include <utlist.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_verbs.h>

#include "base/log.h"
#include "core/lock.h"
#include "dma/file_kind.h"
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
#define READY 64	   /* pipes that are looked at between other things */
#define COUNTS_PER_CALL 64 /* that event_set_end() frees */

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

static struct event_pipe *pipe_create(struct event_set *set, size_t record_size, int *client)
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

/* No engine can find it any more. */
static void pipe_free(struct event_pipe *pipe)
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
		forget(pipe, count);
	/* Nothing but our own bytes waits in either, so closing them closes no file of a stranger.
	 */
	close(pipe->fd);
	if (pipe->spare >= 0)
		close(pipe->spare);
	if (pipe->kept >= 0)
		close(pipe->kept);
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

/* Up to PIECE bytes. 0; EAGAIN: no room; else nobody reads. */
static int put(const struct event_pipe *pipe, const char *records, size_t size)
{
	return send(pipe->fd, records, size, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? errno : 0;
}

/* Writes what waits. 0: nothing waits any more; EAGAIN: no room; else nobody reads. */
static int deliver(struct event_pipe *pipe)
{
	char buffer[PIECE];
	size_t size;

	while ((size = gather(pipe, buffer, sizeof(buffer)))) {
		int error = put(pipe, buffer, size);

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
		ret = deliver(pipe);
	if (ret && ret != EAGAIN)
		pipe_unlink(pipe);
	pthread_mutex_unlock(&set->lock);

	if (!ret)
		watch(pipe, EPOLL_CTL_MOD, 0);
	else if (ret != EAGAIN)
		pipe_free(pipe);
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

	if (!count) {
		log_error("out of memory: an event is lost");
		return;
	}
	if (!pipe->queue && !pipe->purge) {
		int error;

		put_record(pipe, key, record);
		error = put(pipe, record, pipe->record_size);
		if (!error) {
			count->written++;
			return;
		}
		/* Nobody reads: the event loop is about to see it as well, and drops the pipe. */
		if (error != EAGAIN)
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

/* Bytes of memory that is taken by what the client has not read: no less than what it can read. */
static size_t unread_bytes(const struct event_pipe *pipe)
{
	int bytes = 0;

	return !ioctl(pipe->fd, SIOCOUTQ, &bytes) && bytes > 0 ? (size_t)bytes : 0;
}

/* By the inode: a socket's cookie cannot be asked for under qemu-user. */
static bool is_end_of(const struct event_pipe *pipe, int fd)
{
	struct stat st;

	return simhca_file_kind(fd) == SIMHCA_FILE_UNIX_SOCKET && !fstat(fd, &st) &&
	       st.st_ino == pipe->inode;
}

/* Set locked. */
static void purge_pipe(struct event_purge *purge, struct event_pipe *pipe, uint32_t events_raised)
{
	struct event_count *count, *next;
	uint32_t written = events_raised;
	size_t unread;

	HASH_ITER (hh, pipe->counts, count, next) {
		if (!is_about(pipe, &count->key, purge->element))
			continue;
		written += count->written;
		forget(pipe, count);
	}
	purge->delivered += written;
	if (!written || pipe->purge || !is_end_of(pipe, purge->fd))
		return;
	unread = unread_bytes(pipe);
	purge->records = unread ? malloc(unread) : NULL;
	if (!purge->records)
		return;
	/* Others write meanwhile: what is read ends with a whole record. */
	purge->room = unread - unread % pipe->record_size;
	purge->written = written;
	purge->pipe = pipe;
	pipe->purge = purge;
}

bool event_purge_start(struct event_purge *purge, struct event_set *set, bool completions,
		       uint64_t inode, uint64_t element, uint32_t events_raised, int fd)
{
	struct event_pipe *pipe;

	*purge = (struct event_purge){ .element = element, .fd = fd };
	pthread_mutex_lock(&set->lock);
	if (completions) {
		HASH_FIND(hh, set->channels, &inode, sizeof(inode), pipe);
		if (pipe)
			purge_pipe(purge, pipe, events_raised);
	} else {
		/* All of them: the first one was another while an older one was still open. */
		DL_FOREACH (set->async, pipe)
			if (is_for(pipe, inode))
				purge_pipe(purge, pipe, 0);
	}
	pthread_mutex_unlock(&set->lock);
	return purge->pipe;
}

/* No more than was in there at first: a client can write to its own pipe as fast as it is read. */
void event_purge_read(struct event_purge *purge)
{
	while (purge->size < purge->room) {
		ssize_t length = recv(purge->fd, purge->records + purge->size,
				      purge->room - purge->size, MSG_DONTWAIT);

		if (length < 0 && errno == EINTR)
			continue;
		if (length <= 0)
			break;
		purge->size += (size_t)length;
	}
}

/* Found no room, as if for the first time. Nobody made up one of an element that is known. */
static void let_wait(struct event_pipe *pipe, const char *records, size_t size)
{
	for (size_t at = 0; at < size; at += pipe->record_size) {
		struct event_count *count;
		struct event_key key;

		get_record(pipe, records + at, &key);
		HASH_FIND(hh, pipe->counts, &key, sizeof(key), count);
		if (!count)
			continue;
		count->written--; /* below 0, if others have written it: it counts with theirs */
		if (!count->waiting++)
			DL_APPEND(pipe->queue, count);
	}
}

/* Back into the pipe, from which they were just taken: there is room, unless others filled it. */
static void put_back(struct event_pipe *pipe, const char *records, size_t size)
{
	for (size_t at = 0; at < size; at += PIECE) {
		size_t left = size - at;

		if (put(pipe, records + at, left < PIECE ? left : PIECE) == EAGAIN) {
			let_wait(pipe, records + at, left);
			return;
		}
	}
}

/* Takes the records about the element out of what was read; returns how many. */
static uint32_t sort_out(struct event_purge *purge)
{
	const struct event_pipe *pipe = purge->pipe;
	size_t kept = 0;
	uint32_t unread = 0;

	for (size_t at = 0; at + pipe->record_size <= purge->size; at += pipe->record_size) {
		struct event_key key;

		get_record(pipe, purge->records + at, &key);
		if (is_about(pipe, &key, purge->element)) {
			unread++;
		} else {
			memmove(purge->records + kept, purge->records + at, pipe->record_size);
			kept += pipe->record_size;
		}
	}
	purge->size = kept;
	return unread;
}

uint32_t event_purge_finish(struct event_purge *purge)
{
	struct event_pipe *pipe = purge->pipe;
	uint32_t unread;

	if (pipe) {
		pthread_mutex_lock(&pipe->set->lock);
		unread = sort_out(purge);
		/* A client that writes to its own pipe could have made up records. */
		purge->delivered -= unread < purge->written ? unread : purge->written;
		put_back(pipe, purge->records, purge->size);
		pipe->purge = NULL;
		if (deliver(pipe))
			wait_for_room(pipe);
		pthread_mutex_unlock(&pipe->set->lock);
		purge->pipe = NULL;
	}
	free(purge->records);
	purge->records = NULL;
	return purge->delivered;
}

bool event_is_purging(const struct event_set *set, uint64_t channel, uint64_t async)
{
	const struct event_pipe *pipe;

	HASH_FIND(hh, set->channels, &channel, sizeof(channel), pipe);
	if (pipe && pipe->purge)
		return true;
	DL_FOREACH (set->async, pipe)
		if (is_for(pipe, async) && pipe->purge)
			return true;
	return false;
}

/* ---------------------------------------------------------------------- sets and wake-up */

int event_add_channel(struct event_set *set, pid_t reader)
{
	int client;
	struct event_pipe *pipe = pipe_create(set, COMPLETION_SIZE, &client);

	if (!pipe)
		return -errno;
	pipe->reader = reader;
	pthread_mutex_lock(&set->lock);
	HASH_ADD(hh, set->channels, inode, sizeof(pipe->inode), pipe);
	pthread_mutex_unlock(&set->lock);
	return client;
}

static struct event_pipe *add_async(struct event_set *set, int *client)
{
	struct event_pipe *pipe = pipe_create(set, ASYNC_SIZE, client);

	if (!pipe)
		return NULL;
	pthread_mutex_lock(&set->lock);
	DL_APPEND(set->async, pipe);
	pthread_mutex_unlock(&set->lock);
	return pipe;
}

int event_add_async(struct event_set *set, int *end)
{
	int client;
	struct event_pipe *pipe = add_async(set, &client);

	if (!pipe)
		return -errno;
	*end = pipe->fd;
	return client;
}

int event_reserve_async(struct event_set *set, pid_t pid, int *end)
{
	int client;
	struct event_pipe *pipe = add_async(set, &client);

	if (!pipe)
		return -errno;
	pipe->spare = client;
	pipe->spare_of = pid;
	set->descriptors++;
	*end = pipe->fd;
	return client;
}

int event_take_async(struct event_set *set, pid_t pid)
{
	struct event_pipe *pipe;
	int client, end;

	/* Only this thread links and unlinks pipes: no lock is needed to look. */
	DL_FOREACH (set->async, pipe) {
		if (pipe->spare < 0 || pipe->spare_of != pid)
			continue;
		client = pipe->spare;
		pipe->spare = -1;
		set->descriptors--;
		return client;
	}
	return event_add_async(set, &end);
}

bool event_has_channel(struct event_set *set, uint64_t inode)
{
	struct event_pipe *pipe;

	HASH_FIND(hh, set->channels, &inode, sizeof(inode), pipe);
	return pipe;
}

/* The channel; NULL: there is none. */
static struct event_pipe *find_channel(struct event_set *set, uint64_t inode)
{
	struct event_pipe *pipe;

	pthread_mutex_lock(&set->lock);
	HASH_FIND(hh, set->channels, &inode, sizeof(inode), pipe);
	pthread_mutex_unlock(&set->lock);
	return pipe;
}

int event_keep(struct event_set *set, int end, uint64_t *inode)
{
	struct event_pipe *pipe;
	struct stat st;

	if (fstat(end, &st))
		return -errno;
	pipe = find_channel(set, st.st_ino);
	if (!pipe || !S_ISSOCK(st.st_mode))
		return -EBADF;
	if (pipe->kept < 0) {
		pipe->kept = fcntl(end, F_DUPFD_CLOEXEC, 0);
		if (pipe->kept < 0)
			return -errno;
		set->descriptors++;
	}
	pipe->keepers++;
	*inode = pipe->inode;
	return 0;
}

void event_let_go(struct event_set *set, uint64_t inode)
{
	struct event_pipe *pipe = find_channel(set, inode);

	if (!pipe || !pipe->keepers || --pipe->keepers)
		return;
	close(pipe->kept);
	pipe->kept = -1;
	set->descriptors--;
}

int event_kept(struct event_set *set, uint64_t inode)
{
	const struct event_pipe *pipe = find_channel(set, inode);

	return pipe ? pipe->kept : -1;
}

int event_lend(struct event_set *set, uint64_t inode, uint64_t cq, pid_t reader)
{
	struct event_key key = { .element = cq };
	struct event_pipe *pipe;
	int fd = -1;

	pthread_mutex_lock(&set->lock);
	HASH_FIND(hh, set->channels, &inode, sizeof(inode), pipe);
	/* What can be in there from now on is known. */
	if (pipe && reader > 0 && pipe->reader == reader && count_of(pipe, &key))
		fd = pipe->fd;
	pthread_mutex_unlock(&set->lock);
	return fd;
}

bool event_all_read(struct event_set *set, uint64_t inode)
{
	struct event_pipe *pipe;
	int unread = 0;
	bool read;

	pthread_mutex_lock(&set->lock);
	HASH_FIND(hh, set->channels, &inode, sizeof(inode), pipe);
	read = pipe && !pipe->queue && !ioctl(pipe->fd, SIOCOUTQ, &unread) && !unread;
	pthread_mutex_unlock(&set->lock);
	return read;
}

void event_set_init(struct event_set *set, struct event_wakeup *wakeup)
{
	set->wakeup = wakeup;
	simhca_mutex_init(&set->lock, SIMHCA_LOCK_CHANNELS);
	set->channels = NULL;
	set->async = NULL;
	set->descriptors = 0;
}

bool event_set_end(struct event_set *set)
{
	struct event_pipe *pipe = set->channels ? set->channels : set->async;

	if (!pipe) {
		pthread_mutex_destroy(&set->lock);
		return false;
	}
	for (int i = 0; i < COUNTS_PER_CALL && pipe->counts; i++)
		forget(pipe, pipe->counts);
	if (!pipe->counts) {
		pipe_unlink(pipe);
		pipe_free(pipe);
	}
	return true;
}

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
