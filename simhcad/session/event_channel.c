/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>
#include <utlist.h>

#include "core/lock.h"
#include "event_pipe.h"

#define COUNTS_PER_CALL 64 /* that event_set_end() frees */

void event_raise_completion(struct event_set *set, uint64_t channel, uint64_t cq)
{
	struct event_key key = { .element = cq };
	struct event_pipe *pipe;

	pthread_mutex_lock(&set->lock);
	HASH_FIND(hh, set->channels, &channel, sizeof(channel), pipe);
	if (pipe)
		event_pipe_raise(pipe, &key);
	pthread_mutex_unlock(&set->lock);
}

void event_raise_async(struct event_set *set, uint64_t inode, uint64_t element, uint32_t type)
{
	struct event_key key = { .element = element, .type = type };
	struct event_pipe *pipe;

	pthread_mutex_lock(&set->lock);
	DL_FOREACH (set->async, pipe) {
		if (event_is_of_device(type)) {
			event_pipe_raise(pipe, &key);
		} else if (event_pipe_is_for(pipe, inode)) {
			event_pipe_raise(pipe, &key);
			break;
		}
	}
	pthread_mutex_unlock(&set->lock);
}

int event_add_channel(struct event_set *set, pid_t reader)
{
	int client;
	struct event_pipe *pipe = event_pipe_create(set, COMPLETION_SIZE, &client);

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
	struct event_pipe *pipe = event_pipe_create(set, ASYNC_SIZE, client);

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
	if (pipe && reader > 0 && pipe->reader == reader && event_count_of(pipe, &key))
		fd = pipe->fd;
	pthread_mutex_unlock(&set->lock);
	return fd;
}

bool event_all_read(struct event_set *set, uint64_t inode)
{
	struct event_pipe *pipe;
	bool read;

	pthread_mutex_lock(&set->lock);
	HASH_FIND(hh, set->channels, &inode, sizeof(inode), pipe);
	read = pipe && !pipe->queue && !event_pipe_unread(pipe);
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
		event_count_forget(pipe, pipe->counts);
	if (!pipe->counts) {
		event_pipe_unlink(pipe);
		event_pipe_free(pipe);
	}
	return true;
}
