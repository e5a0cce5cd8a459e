/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Taking back the events of an object that goes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <utlist.h>

#include "dma/file_kind.h"
#include "event_pipe.h"

/* What an element's keys have in common: in a completion channel there is one, with type 0. */
static bool is_about(const struct event_pipe *pipe, const struct event_key *key, uint64_t element)
{
	return key->element == element &&
	       (pipe->record_size == COMPLETION_SIZE || !event_is_of_device(key->type));
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
		event_count_forget(pipe, count);
	}
	purge->delivered += written;
	if (!written || pipe->purge || !is_end_of(pipe, purge->fd))
		return;
	unread = event_pipe_unread(pipe);
	/* SIZE_MAX: nobody can say. */
	purge->records = unread && unread != SIZE_MAX ? malloc(unread) : NULL;
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
			if (event_pipe_is_for(pipe, inode))
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

		event_get_record(pipe, records + at, &key);
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

		if (event_pipe_put(pipe, records + at, left < PIECE ? left : PIECE) == EAGAIN) {
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

		event_get_record(pipe, purge->records + at, &key);
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
		if (event_pipe_deliver(pipe))
			event_pipe_wait_for_room(pipe);
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
		if (event_pipe_is_for(pipe, async) && pipe->purge)
			return true;
	return false;
}
