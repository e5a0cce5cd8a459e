/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "descriptors.h"

#define PART 4 /* of the program's descriptors, one for the fast path */

static struct shca_mutex lock;
static struct shca_chain list;
static uint64_t count; /* that are open, or about to be */

static struct shca_descriptors *to_descriptors(struct shca_chain *link)
{
	return SHCA_CONTAINER(struct shca_descriptors, link, link);
}

static uint32_t number_of(const struct shca_descriptors *all)
{
	return all->pid ? 2 : 1;
}

static bool identify(struct shca_descriptors *all, int which)
{
	struct stat file;

	if (fstat(all->fd[which], &file))
		return false;
	all->file[which].dev = file.st_dev;
	all->file[which].ino = file.st_ino;
	return true;
}

/* But for what has a number of theirs by now. */
static void close_all(const struct shca_descriptors *all)
{
	struct stat file;

	for (int i = 0; i < 2; i++)
		if (all->fd[i] >= 0 && !fstat(all->fd[i], &file) &&
		    all->file[i].dev == file.st_dev && all->file[i].ino == file.st_ino)
			simhca_call_close(all->fd[i]);
}

/* What a child inherits is its parent's, whose QPs it cannot use. */
static void take_lock(void)
{
	struct shca_chain *link;

	if (!shca_mutex_lock(&lock))
		return;
	for (link = shca_chain_next(&list); link; link = shca_chain_next(link))
		close_all(to_descriptors(link));
	atomic_store(&list.next, NULL);
	count = 0;
}

bool shca_descriptors_reserve(uint32_t number)
{
	struct rlimit limit;
	bool there_is_room;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return false;
	take_lock();
	there_is_room = count + number <= limit.rlim_cur / PART;
	if (there_is_room)
		count += number;
	shca_mutex_unlock(&lock);
	return there_is_room;
}

void shca_descriptors_give_back(uint32_t number)
{
	take_lock();
	count -= number;
	shca_mutex_unlock(&lock);
}

static struct shca_descriptors *add(struct shca_descriptors *all)
{
	take_lock();
	all->process = shca_process();
	all->users = 1;
	shca_chain_add(&list, &all->link);
	shca_mutex_unlock(&lock);
	return all;
}

/* NULL: none yet. The latest comes first: a number may have been that of another process. */
static struct shca_descriptors *find(uint64_t pid, uint64_t dev, uint64_t ino)
{
	struct shca_descriptors *found = NULL;
	struct shca_chain *link;

	take_lock();
	for (link = shca_chain_next(&list); link && !found; link = shca_chain_next(link)) {
		struct shca_descriptors *all = to_descriptors(link);

		if (pid ? all->pid == pid
			: !all->pid && all->file[0].dev == dev && all->file[0].ino == ino)
			found = all;
	}
	if (found)
		found->users++;
	shca_mutex_unlock(&lock);
	return found;
}

void shca_descriptors_put(struct shca_descriptors *all)
{
	bool last;

	if (!all)
		return;
	take_lock();
	last = all->process == shca_process() && !--all->users;
	if (last) {
		shca_chain_remove(&all->link);
		count -= number_of(all);
	}
	shca_mutex_unlock(&lock);
	if (!last)
		return;
	close_all(all);
	free(all);
}

/* ------------------------------------------------------------------------------ a process */

static int open_of(uint64_t pid, const char *name, int flags)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	return simhca_call_move_fd(simhca_call_open(path, flags | O_CLOEXEC));
}

/* Not under the lock: it can take as long as that process likes. */
static bool read_secret(const struct shca_descriptors *all,
			const struct simhca_find_peer_reply *found, struct simhca_secret *secret)
{
	return simhca_call_pread(all->fd[SHCA_MEMORY], secret, sizeof(*secret),
				 (off_t)found->address) == sizeof(*secret);
}

/*
 * The memory of the process, if it is that which has the secret there. The page map comes first:
 * should the number be another's by then, it is that of an address space that has gone.
 */
static bool open_memory(struct shca_descriptors *all, const struct simhca_find_peer_reply *found,
			struct simhca_secret *secret, int *error)
{
	all->pid = found->pid;
	all->fd[SHCA_MEMORY] = -1;
	all->fd[SHCA_PAGEMAP] = open_of(found->pid, "pagemap", O_RDONLY);
	if (all->fd[SHCA_PAGEMAP] >= 0)
		all->fd[SHCA_MEMORY] = open_of(found->pid, "mem", O_RDWR);
	if (all->fd[SHCA_MEMORY] < 0 && (errno == EACCES || errno == EPERM))
		*error = errno;
	return all->fd[SHCA_PAGEMAP] >= 0 && identify(all, SHCA_PAGEMAP) &&
	       all->fd[SHCA_MEMORY] >= 0 && identify(all, SHCA_MEMORY) &&
	       read_secret(all, found, secret);
}

struct shca_descriptors *shca_descriptors_of_process(const struct simhca_find_peer_reply *found,
						     struct simhca_secret *secret, int *error)
{
	struct shca_descriptors *all = find(found->pid, 0, 0);

	*error = 0;
	/* An address space that has gone cannot be read. */
	if (all && read_secret(all, found, secret))
		return all;
	shca_descriptors_put(all);
	if (!found->pid || !shca_descriptors_reserve(2))
		return NULL;
	all = calloc(1, sizeof(*all));
	if (all && open_memory(all, found, secret, error))
		return add(all);
	if (all)
		close_all(all);
	free(all);
	shca_descriptors_give_back(2);
	return NULL;
}

/* ------------------------------------------------------------------------------ a channel */

struct shca_descriptors *shca_descriptors_of_channel(int fd)
{
	struct shca_descriptors opened, *all;

	if (fd < 0)
		return NULL;
	fd = simhca_call_move_fd(fd);
	opened = (struct shca_descriptors){ .fd = { fd, -1 } };
	all = identify(&opened, 0) ? find(0, opened.file[0].dev, opened.file[0].ino) : NULL;
	if (!all && shca_descriptors_reserve(1)) {
		all = malloc(sizeof(*all));
		if (all) {
			*all = opened;
			return add(all);
		}
		shca_descriptors_give_back(1);
	}
	simhca_call_close(fd);
	return all;
}
