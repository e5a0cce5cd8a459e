/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * How pages of a process are brought in, and looked for. Nothing here changes a byte of them.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "dma/dma.h"
#include "dma/process_map.h"
#include "page_in.h"
#include "page_map.h"

#define BATCH 512u /* pages of one system call */

/* ----------------------------------------------------------------- bringing pages in */

/* Reads a byte of each page, which faults it in for reading. */
static int touch(const struct simhca_mm *mm, uint64_t addr, unsigned int pages)
{
	struct iovec remote[BATCH];
	char bytes[BATCH];
	struct iovec local = { .iov_base = bytes, .iov_len = pages };
	ssize_t got;

	for (unsigned int i = 0; i < pages; i++)
		remote[i] = (struct iovec){
			.iov_base = (void *)(uintptr_t)(addr + i * SIMHCA_PAGE_BYTES), .iov_len = 1
		};
	got = process_vm_readv(mm->pid, &local, 1, remote, pages, 0);
	if (got < 0)
		return errno;
	return (size_t)got == pages ? 0 : EFAULT;
}

/*
 * The kernel's way to write into another process is to get hold of its pages for writing first, as
 * a store of that process would, and then to copy. From a source that is not readable there is
 * nothing to copy; the first half is what we want. It always ends with EFAULT, so it cannot tell
 * whether there was something to get hold of; the caller looks.
 */
static void touch_for_write(const struct simhca_mm *mm, uint64_t addr, uint64_t length)
{
	struct iovec remote = { .iov_base = (void *)(uintptr_t)addr, .iov_len = length };
	struct iovec local = { .iov_len = length };
	void *unreadable = mmap(NULL, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ssize_t ignored;

	if (unreadable == MAP_FAILED)
		return;
	local.iov_base = unreadable;
	ignored = process_vm_writev(mm->pid, &local, 1, &remote, 1, 0);
	(void)ignored;
	munmap(unreadable, length);
}

static int page_in_batch(struct simhca_mm *mm, uint64_t addr, unsigned int pages, bool write)
{
	uint64_t length = pages * SIMHCA_PAGE_BYTES;
	int error;

	switch (mm->kind) {
	case SIMHCA_MM_AGENT:
		if (!mm->agent)
			return EPERM;
		return simhca_agent_ask(mm->agent,
					write ? SIMHCA_AGENT_PAGE_IN_WRITE : SIMHCA_AGENT_PAGE_IN,
					addr, length);
	case SIMHCA_MM_OWN:
	case SIMHCA_MM_PROCESS_VM:
		if (write)
			touch_for_write(mm, addr, length);
		error = touch(mm, addr, pages);
		if (!error && write && !simhca_process_has(mm->pid, addr, length, true)) {
			/* Nothing can be asked of a process that has ended meanwhile. */
			error = touch(mm, addr, pages);
			if (!error)
				error = EACCES;
		}
		return error;
	case SIMHCA_MM_NULL:
		break;
	}
	return EINVAL;
}

int simhca_page_in(struct simhca_mm *mm, uint64_t addr, uint64_t pages, bool write)
{
	int error = 0;

	while (pages && !error) {
		unsigned int batch = pages < BATCH ? (unsigned int)pages : BATCH;

		if (!simhca_mm_is_there(mm))
			return ESRCH;
		error = page_in_batch(mm, addr, batch, write);
		addr += batch * SIMHCA_PAGE_BYTES;
		pages -= batch;
	}
	return error;
}

/* ------------------------------------------------------------------- looking for them */

#define PAGEMAP_THERE (UINT64_C(3) << 62) /* in memory, or swapped out: its contents exist */

uint64_t simhca_pages_resident(struct simhca_mm *mm, uint64_t addr, unsigned int pages)
{
	uint64_t entry[64], there = 0;
	char path[64];
	ssize_t got;
	int fd;

	if (mm->kind == SIMHCA_MM_AGENT) {
		if (!mm->agent || simhca_agent_ask(mm->agent, SIMHCA_AGENT_RESIDENT, addr,
						   pages * SIMHCA_PAGE_BYTES))
			return 0;
		return pages == 64 ? UINT64_MAX : (UINT64_C(1) << pages) - 1;
	}
	snprintf(path, sizeof(path), "/proc/%d/pagemap", (int)mm->pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	got = pread(fd, entry, pages * sizeof(entry[0]),
		    (off_t)((addr >> SIMHCA_PAGE_SHIFT) * sizeof(entry[0])));
	close(fd);
	for (ssize_t i = 0; i < got / (ssize_t)sizeof(entry[0]); i++)
		if (entry[i] & PAGEMAP_THERE)
			there |= UINT64_C(1) << i;
	return there;
}
