/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Holds the lock of this process's address space for writing, for good. It takes a file that does
 * not answer (slow_fs.c): a page of it that is being read stays locked, and mapping the file anew,
 * opened with O_SYNC, waits for that page with the lock held.
 */
#ifndef HOLD_LOCK_H
#define HOLD_LOCK_H

#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

struct slow_file {
	int direct;
	volatile char *page;
	void *target; /* a mapping whose own lock is held, too */
};

/* First, while it can still be opened. */
static inline bool slow_file_open(struct slow_file *file, const char *path, void *target)
{
	int fd = open(path, O_RDONLY);

	file->direct = open(path, O_RDONLY | O_SYNC);
	file->page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
	file->target = target;
	return fd >= 0 && file->direct >= 0 && file->page != MAP_FAILED;
}

static void *read_slow_page(void *arg)
{
	(void)*((struct slow_file *)arg)->page;
	return NULL;
}

static void *map_slow_page(void *arg)
{
	const struct slow_file *file = arg;

	return mmap(file->target, 4096, PROT_READ, MAP_PRIVATE | (file->target ? MAP_FIXED : 0),
		    file->direct, 0);
}

/* From here on there is no memory that is not there already. */
static inline bool hold_lock(struct slow_file *file)
{
	pthread_t threads[2];

	if (pthread_create(&threads[0], NULL, read_slow_page, file))
		return false;
	usleep(200000);
	if (pthread_create(&threads[1], NULL, map_slow_page, file))
		return false;
	usleep(200000);
	return true;
}

#endif
