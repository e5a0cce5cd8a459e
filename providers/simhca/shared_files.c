/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "command.h"
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

/* Whether a descriptor is one of the file, and the file lies in memory. */
static bool is_file(int fd, const struct simhca_mapping *mapping)
{
	struct stat file;

	return fd >= 0 && !fstat(fd, &file) && file.st_ino == mapping->inode &&
	       file.st_dev == makedev(mapping->major, mapping->minor) &&
	       fcntl(fd, F_GET_SEALS) >= 0;
}

static int open_if_it_is(const char *path, const struct simhca_mapping *mapping, bool writable)
{
	int fd = simhca_call_open(path, (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NONBLOCK);

	if (is_file(fd, mapping))
		return fd;
	if (fd >= 0)
		simhca_call_close(fd);
	return -1;
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

/* By a descriptor that the program has of it: an open file of its own, as the program may close that. */
static int open_by_descriptor(const struct simhca_mapping *mapping, bool writable)
{
	SIMHCA_NOT_CANCELLED;
	DIR *all = opendir("/proc/self/fd");
	const struct dirent *one;
	char path[40];
	int fd = -1;

	if (!all)
		return -1;
	while (fd < 0 && (one = readdir(all))) {
		if (!is_file(one->d_name[0] == '.' ? -1 : atoi(one->d_name), mapping))
			continue;
		snprintf(path, sizeof(path), "/proc/self/fd/%d", atoi(one->d_name));
		fd = open_if_it_is(path, mapping, writable);
	}
	closedir(all);
	return fd;
}

/* Whatever has become of its name and descriptors; this takes CAP_CHECKPOINT_RESTORE. */
static int open_by_mapping(const struct simhca_mapping *mapping, bool writable)
{
	char link[LINK];

	link_of(mapping, link);
	return open_if_it_is(link, mapping, writable);
}

/* What memory was moved to goes with its last region, while others of the same memory stay. */
static bool is_moved_memory(int fd)
{
	static const char begins[] = "/memfd:" SHCA_MOVED_NAME;
	char link[40], name[sizeof(begins)] = "";

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
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
	fd = open_by_name(&shown.first, writable);
	if (fd < 0)
		fd = open_by_descriptor(&shown.first, writable);
	if (fd < 0)
		fd = open_by_mapping(&shown.first, writable);
	if (fd < 0)
		return SHCA_STAYS;
	of_file.offset = shown.offset;
	err = is_moved_memory(fd) ? SHCA_STAYS : shca_register_in_file(ctx, &of_file, fd, reply);
	simhca_call_close(fd);
	return err;
}
