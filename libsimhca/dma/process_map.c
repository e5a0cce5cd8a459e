/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What a process has mapped at an address, by /proc/PID/maps. Since Linux 6.11 the kernel can be
 * asked for the mapping that an address is in, which costs the same whatever else is mapped. Before
 * that the file has to be read up to there, so that registering many regions, each in a mapping of
 * its own, takes a time that grows with the square of their number.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "process_map.h"
#include "simhca-calls.h"
#include "simhca-madvise.h"

/* PROCMAP_QUERY of linux/fs.h; the header of the build may be older. */
struct map_query {
	uint64_t size; /* of this struct */
	uint64_t
		flags; /* MAP_OR_NEXT: the mapping that covers addr or is the next one, or ENOENT */
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
#define MAP_OR_NEXT 0x10u
#define MAP_IS_READABLE 1u
#define MAP_IS_WRITABLE 2u
#define MAP_IS_EXECUTABLE 4u
#define MAP_IS_SHARED 8u

struct visitor {
	bool (*visit)(const struct simhca_mapping *mapping, void *arg);
	void *arg;
};

/* False: the kernel cannot be asked, and nothing was visited. */
static bool ask(int fd, uint64_t at, uint64_t end, const struct visitor *visitor)
{
	const uint64_t begin = at;

	while (at < end) {
		struct map_query query = { .size = sizeof(query),
					   .flags = MAP_OR_NEXT,
					   .addr = at };
		struct simhca_mapping mapping;

		/* Emulators and sandboxes have errors of their own for what they do not know. */
		if (ioctl(fd, MAP_QUERY, &query))
			return errno == ENOENT || at != begin;
		mapping = (struct simhca_mapping){
			.start = query.start,
			.end = query.end,
			.offset = query.offset,
			.inode = query.inode,
			.major = query.major,
			.minor = query.minor,
			.readable = query.rights & MAP_IS_READABLE,
			.writable = query.rights & MAP_IS_WRITABLE,
			.executable = query.rights & MAP_IS_EXECUTABLE,
			.shared = query.rights & MAP_IS_SHARED,
		};
		if (mapping.start >= end || !visitor->visit(&mapping, visitor->arg))
			return true;
		at = mapping.end;
	}
	return true;
}

/* Takes the descriptor. */
static bool read_lines(int fd, uint64_t at, uint64_t end, const struct visitor *visitor)
{
	SIMHCA_NOT_CANCELLED;
	struct simhca_mapping mapping;
	char line[512], rights[5];
	FILE *maps = fdopen(fd, "r");

	if (!maps) {
		simhca_call_close(fd);
		return false;
	}
	while (fgets(line, sizeof(line), maps)) {
		if (sscanf(line,
			   "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %" SCNx32 ":%" SCNx32
			   " %" SCNu64,
			   &mapping.start, &mapping.end, rights, &mapping.offset, &mapping.major,
			   &mapping.minor, &mapping.inode) != 7)
			continue; /* the rest of a long line */
		if (mapping.end <= at)
			continue;
		mapping.readable = rights[0] == 'r';
		mapping.writable = rights[1] == 'w';
		mapping.executable = rights[2] == 'x';
		mapping.shared = rights[3] == 's';
		if (mapping.start >= end || !visitor->visit(&mapping, visitor->arg))
			break;
	}
	fclose(maps);
	return true;
}

static int open_map(pid_t pid)
{
	char path[64] = "/proc/self/maps";

	if (pid)
		snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	return simhca_call_open(path, O_RDONLY | O_CLOEXEC);
}

bool simhca_process_mappings(pid_t pid, uint64_t addr, uint64_t length,
			     bool (*visit)(const struct simhca_mapping *mapping, void *arg),
			     void *arg)
{
	const struct visitor visitor = { visit, arg };
	int fd = open_map(pid);

	if (fd < 0)
		return false;
	if (!ask(fd, addr, addr + length, &visitor))
		return read_lines(fd, addr, addr + length, &visitor);
	simhca_call_close(fd);
	return true;
}

struct wanted {
	uint64_t at, end; /* up to `at` all is as wanted */
	bool writable, ours;
};

/*
 * Whether this process has a page there that the kernel could pin. Behind the end of a file that is mapped there is
 * none, and of a device's registers there is none either; to read those can change what the device does, so both calls
 * refuse to. madvise() is forbidden by no filter of system calls. Its EINVAL is for memory of a device, and before
 * Linux 5.14 for any; then process_vm_readv() knows.
 */
static bool has_page(uint64_t at)
{
	const uint64_t bytes = (uint64_t)sysconf(_SC_PAGESIZE);
	const struct iovec page = { (void *)(uintptr_t)at, 1 };
	struct iovec copy = { (char[1]){ 0 }, 1 };
	const int saved = errno;
	bool has = !madvise((void *)(uintptr_t)(at & ~(bytes - 1)), bytes, MADV_POPULATE_READ);

	if (!has && errno == EINVAL)
		has = process_vm_readv(getpid(), &copy, 1, &page, 1, 0) == 1;
	has = has || errno != EFAULT;
	errno = saved;
	return has;
}

static bool is_wanted(const struct simhca_mapping *mapping, void *arg)
{
	struct wanted *wanted = arg;
	uint64_t end;

	if (mapping->start > wanted->at || !mapping->readable ||
	    (wanted->writable && !mapping->writable))
		return false;
	end = mapping->end < wanted->end ? mapping->end : wanted->end;
	/*
	 * If pages are missing behind the end of a file, or are a device's, the last one is such. Others show when
	 * they are used.
	 */
	if (wanted->ours && mapping->inode && !has_page(end - 1))
		return false;
	wanted->at = end;
	return true;
}

bool simhca_process_has(pid_t pid, uint64_t addr, uint64_t length, bool writable)
{
	struct wanted wanted = { addr, addr + length, writable, !pid };

	/* Not ours to look at: a bad page shows when it is used. */
	return !length || !simhca_process_mappings(pid, addr, length, is_wanted, &wanted) ||
	       wanted.at >= addr + length;
}
