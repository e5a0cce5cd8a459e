/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Whether a process has memory at an address, by /proc/PID/maps. Since Linux 6.11 the kernel can be
 * asked for the mapping that an address is in, which costs the same whatever else is mapped. Before
 * that the file has to be read up to there, so that registering many regions, each in a mapping of
 * its own, takes a time that grows with the square of their number.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "process_map.h"
#include "simhca-calls.h"

/* PROCMAP_QUERY of linux/fs.h; the header of the build may be older. */
struct map_query {
	uint64_t size;	/* of this struct */
	uint64_t flags; /* 0: the mapping that covers addr, or ENOENT */
	uint64_t addr;
	uint64_t start, end;
	uint64_t rights;
	uint64_t page_size, offset, inode;
	uint32_t major, minor;
	uint32_t name_size, build_id_size; /* 0: not asked for */
	uint64_t name, build_id;
};
_Static_assert(sizeof(struct map_query) == 104, "the kernel's struct procmap_query");
#define MAP_QUERY _IOWR('f', 17, struct map_query)
#define MAP_READABLE 1u
#define MAP_WRITABLE 2u

/* Whether [at, end) is mapped: 0 or EFAULT; ENOTTY: the kernel cannot be asked. */
static int ask(int fd, uint64_t at, uint64_t end, bool writable)
{
	const uint64_t needed = MAP_READABLE | (writable ? MAP_WRITABLE : 0);

	while (at < end) {
		struct map_query query = { .size = sizeof(query), .addr = at };

		/* Emulators and sandboxes have errors of their own for what they do not know. */
		if (ioctl(fd, MAP_QUERY, &query))
			return errno == ENOENT ? EFAULT : ENOTTY;
		if ((query.rights & needed) != needed)
			return EFAULT;
		at = query.end;
	}
	return 0;
}

/* Takes the descriptor. */
static int read_lines(int fd, uint64_t at, uint64_t end, bool writable)
{
	SIMHCA_NOT_CANCELLED;
	uint64_t from, to;
	char line[512], rights[5];
	FILE *maps = fdopen(fd, "r");

	if (!maps) {
		simhca_call_close(fd);
		return 0;
	}
	while (at < end && fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s", &from, &to, rights) != 3)
			continue; /* the rest of a long line */
		if (to <= at)
			continue;
		if (from > at || rights[0] != 'r' || (writable && rights[1] != 'w'))
			break;
		at = to;
	}
	fclose(maps);
	return at >= end ? 0 : EFAULT;
}

static int open_map(pid_t pid)
{
	char path[64] = "/proc/self/maps";

	if (pid)
		snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	return simhca_call_open(path, O_RDONLY | O_CLOEXEC);
}

bool simhca_process_has(pid_t pid, uint64_t addr, uint64_t length, bool writable)
{
	uint64_t end = addr + length;
	int fd = length ? open_map(pid) : -1, error;

	if (fd < 0)
		return true; /* not ours to look at: a bad page shows when it is used */
	error = ask(fd, addr, end, writable);
	if (error == ENOTTY)
		error = read_lines(fd, addr, end, writable);
	else
		simhca_call_close(fd);
	return !error;
}
