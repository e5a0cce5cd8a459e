/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#include "dma/process_map.h"
#include "moved.h"
#include "shared_files.h"
#include "simhca-calls.h"

#define LINK 80u /* bytes of the name of a link in /proc */

/* The one file that a range of memory shows. */
struct shown {
	struct simhca_mapping first; /* mapping of the range; its end is 0 before there is one */
	uint64_t at;		     /* until here the range is as wanted */
	uint64_t from;		     /* of the range */
	uint64_t offset;	     /* in the file, of the range's first byte */
};

/* Visits a mapping. */
static bool is_the_same(const struct simhca_mapping *mapping, void *arg)
{
	struct shown *shown = arg;
	const struct simhca_mapping *first = &shown->first;

	if (mapping->start > shown->at || !mapping->shared || !mapping->inode)
		return false;
	if (!first->end) {
		shown->first = *mapping;
		shown->offset = mapping->offset + (shown->from - mapping->start);
	} else if (mapping->inode != first->inode || mapping->major != first->major ||
		   mapping->minor != first->minor ||
		   mapping->offset != shown->offset + (mapping->start - shown->from)) {
		return false;
	}
	shown->at = mapping->end;
	return true;
}

static bool find_file(uint64_t addr, uint64_t length, struct shown *shown)
{
	*shown = (struct shown){ .at = addr, .from = addr };
	return simhca_process_mappings(0, addr, length, is_the_same, shown) &&
	       shown->at >= addr + length;
}

/* Whether a descriptor, which may be of a path only, is one of the file, and the file lies in memory. */
static bool is_file(int fd, const struct simhca_mapping *mapping)
{
	struct stat file;
	struct statfs fs;

	return fd >= 0 && !fstat(fd, &file) && file.st_ino == mapping->inode &&
	       file.st_dev == makedev(mapping->major, mapping->minor) && S_ISREG(file.st_mode) &&
	       !fstatfs(fd, &fs) && (fs.f_type == TMPFS_MAGIC || fs.f_type == HUGETLBFS_MAGIC);
}

/* Of the table of descriptors of this thread, which may be another one than its process's. */
static void path_of(int fd, char path[LINK])
{
	snprintf(path, LINK, "/proc/thread-self/fd/%d", fd);
}

/* To open the wrong file, or close it, may have effects; to open its path has none. */
static int open_if_it_is(const char *path, const struct simhca_mapping *mapping, bool writable)
{
	int file = simhca_call_open(path, O_PATH | O_CLOEXEC);
	char link[LINK];
	int fd = -1;

	path_of(file, link);
	if (is_file(file, mapping))
		fd = simhca_call_open(link,
				      (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NONBLOCK);
	if (file >= 0)
		simhca_call_close(file);
	return fd;
}

/* What the kernel has of the mapping: a link to its file. */
static void link_of(const struct simhca_mapping *mapping, char link[LINK])
{
	snprintf(link, LINK, "/proc/self/map_files/%" PRIx64 "-%" PRIx64, mapping->start,
		 mapping->end);
}

static int open_by_name(const struct simhca_mapping *mapping, bool writable)
{
	char link[LINK], name[512];
	ssize_t length;

	link_of(mapping, link);
	length = readlink(link, name, sizeof(name) - 1);
	if (length <= 0)
		return -1;
	name[length] = '\0';
	return open_if_it_is(name, mapping, writable);
}

/* Whoever has locks of the file, by fcntl(): to another open file those of this process conflict as well. */
static bool has_locks(int fd)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	return !fcntl(fd, F_OFD_GETLK, &lock) && lock.l_type != F_UNLCK;
}

/* In the kernel's list, which has those of this process in any case. True if it cannot be read. */
static bool may_have_locks(const struct simhca_mapping *mapping)
{
	SIMHCA_NOT_CANCELLED;
	FILE *locks = fopen("/proc/locks", "re");
	char line[256], file[LINK];
	bool found = false;

	if (!locks)
		return true;
	snprintf(file, sizeof(file), " %02" PRIx32 ":%02" PRIx32 ":%" PRIu64 " ", mapping->major,
		 mapping->minor, mapping->inode);
	while (!found && fgets(line, sizeof(line), locks))
		found = strstr(line, file);
	found |= ferror(locks);
	fclose(locks);
	return found;
}

/*
 * A descriptor that the program has of the file, or -1. *locks, if it is asked for: whether somebody has locks of the
 * file, and the program a descriptor; or none can be seen.
 */
static int look_for_descriptor(const struct simhca_mapping *mapping, bool *locks)
{
	SIMHCA_NOT_CANCELLED;
	DIR *all = opendir("/proc/thread-self/fd");
	const struct dirent *entry;
	int found = -1;

	if (locks)
		*locks = !all;
	while (all && (found < 0 || (locks && !*locks)) && (entry = readdir(all))) {
		int fd = entry->d_name[0] == '.' ? -1 : atoi(entry->d_name);

		if (!is_file(fd, mapping))
			continue;
		found = fd;
		if (locks)
			*locks = has_locks(fd);
	}
	if (all)
		closedir(all);
	return found;
}

/*
 * Locks of the program's would end with any descriptor of the file that it closes, so that is not even opened. To look at
 * all descriptors takes a program that has many of them long.
 */
static bool has_locks_to_lose(const struct simhca_mapping *mapping)
{
	bool locks;

	if (!may_have_locks(mapping))
		return false;
	look_for_descriptor(mapping, &locks);
	return locks;
}

/* An open file of our own, as the program may close its descriptor. */
static int open_by_descriptor(int fd, const struct simhca_mapping *mapping, bool writable)
{
	char path[LINK];

	if (fd < 0)
		return -1;
	path_of(fd, path);
	return open_if_it_is(path, mapping, writable);
}

/* Whatever has become of its name and descriptors; this takes CAP_CHECKPOINT_RESTORE. */
static int open_by_mapping(const struct simhca_mapping *mapping, bool writable)
{
	char link[LINK];

	link_of(mapping, link);
	return open_if_it_is(link, mapping, writable);
}

static int open_file(const struct simhca_mapping *mapping, bool writable)
{
	int fd;

	if (has_locks_to_lose(mapping))
		return -1;
	fd = open_by_name(mapping, writable);
	if (fd < 0)
		fd = open_by_mapping(mapping, writable);
	return fd < 0 ? open_by_descriptor(look_for_descriptor(mapping, NULL), mapping, writable)
		      : fd;
}

/* What memory was moved to goes with its last region, while others of the same memory stay. */
static bool is_moved_memory(int fd)
{
	static const char begins[] = "/memfd:" SHCA_MOVED_NAME;
	char link[LINK], name[sizeof(begins)] = "";

	path_of(fd, link);
	return readlink(link, name, sizeof(name) - 1) > 0 && !strcmp(name, begins);
}

static bool may_share(const struct shca_context *ctx, const struct simhca_reg_mr_req *req)
{
	return ctx->dev->moves_memory && !ctx->no_fastpath && !req->null_mr && !req->unmapped &&
	       req->length && req->addr + req->length > req->addr &&
	       shca_may_lie_in_file(req->access);
}

int shca_shared_file_register(struct shca_context *ctx, const struct simhca_reg_mr_req *req,
			      struct simhca_reg_mr_reply *reply)
{
	const bool writable = req->access & SIMHCA_ACCESS_LOCAL_WRITE;
	struct simhca_reg_dmabuf_mr_req of_file = {
		.length = req->length,
		.iova = req->iova,
		.addr = req->addr,
		.pd = req->pd,
		.access = req->access,
		.is_there = 1,
	};
	struct shown shown;
	int fd, err;

	if (!may_share(ctx, req) || !find_file(req->addr, req->length, &shown))
		return SHCA_STAYS;
	fd = open_file(&shown.first, writable);
	if (fd < 0)
		return SHCA_STAYS;
	of_file.offset = shown.offset;
	err = is_moved_memory(fd) ? SHCA_STAYS : shca_register_in_file(ctx, &of_file, fd, reply);
	simhca_call_close(fd);
	return err;
}
