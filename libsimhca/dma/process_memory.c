/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The memory of another process, by two descriptors that the kernel keeps with the address space,
 * not with the number:
 *
 *   /proc/PID/mem      moves small pieces. It moves nothing once the address space is gone.
 *   /proc/PID/pagemap  says whether that is so, at the price of a system call; process_vm, which is
 *                      the faster one for large pieces, goes by the number.
 *
 * /proc/PID/mem does not mind mprotect(), nor does a NIC that has pinned the pages: so do regions
 * that were checked at registration (struct simhca_seg's pinned), large pieces of them too.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "dma.h"
#include "simhca-device.h"

/* bytes; it goes page by page, and more than one page is quicker by process_vm */
#define SMALL_PIECE 4096u

bool simhca_process_has_ended(pid_t pid)
{
	struct pollfd pollfd = { .fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN };
	bool ended;

	if (pollfd.fd < 0)
		return errno == ESRCH;
	ended = poll(&pollfd, 1, 0) == 1;
	close(pollfd.fd);
	return ended;
}

static void is_gone(struct simhca_mm *mm)
{
	atomic_store_explicit(&mm->gone, true, memory_order_release);
	simhca_mm_ended(mm);
}

/* Less than an entry of the page map is EINVAL, as long as there is a page map. */
bool simhca_mm_is_there(struct simhca_mm *mm)
{
	char byte;

	if (simhca_mm_known_gone(mm))
		return false;
	if (mm->pagemap < 0 || pread(mm->pagemap, &byte, sizeof(byte), 0))
		return true;
	is_gone(mm);
	return false;
}

static int by_mem(struct simhca_mm *mm, bool write, const struct iovec *remote, char *ours)
{
	size_t done = 0;

	while (done < remote->iov_len) {
		off_t at = (off_t)((uintptr_t)remote->iov_base + done);
		ssize_t moved = write ? pwrite(mm->mem, ours + done, remote->iov_len - done, at)
				      : pread(mm->mem, ours + done, remote->iov_len - done, at);

		if (!moved) {
			is_gone(mm);
			return ESRCH;
		}
		if (moved < 0)
			return EFAULT; /* EIO, here */
		done += (size_t)moved;
	}
	return 0;
}

/* Where the next n bytes of a list are, which lie in one piece; the place in the list moves on. */
static char *next_piece(const struct iovec **list, size_t *done, size_t n)
{
	char *at = (char *)(*list)->iov_base + *done;

	*done += n;
	if (*done == (*list)->iov_len) {
		(*list)++;
		*done = 0;
	}
	return at;
}

static int all_by_mem(struct simhca_mm *mm, bool write, const struct iovec *remote,
		      const struct iovec *local, size_t length)
{
	size_t there = 0, here = 0;
	int error = 0;

	while (length && !error) {
		size_t left = remote->iov_len - there, room = local->iov_len - here;
		struct iovec piece = { .iov_len = left < room ? left : room };
		char *ours = next_piece(&local, &here, piece.iov_len);

		piece.iov_base = next_piece(&remote, &there, piece.iov_len);
		error = by_mem(mm, write, &piece, ours);
		length -= piece.iov_len;
	}
	return error;
}

static int by_process_vm(pid_t pid, bool write, const struct iovec *remote, unsigned int count,
			 const struct iovec *local, unsigned int locals, size_t length)
{
	ssize_t moved;

	moved = write ? process_vm_writev(pid, local, locals, remote, count, 0)
		      : process_vm_readv(pid, local, locals, remote, count, 0);
	if (moved < 0)
		return errno;
	/* The kernel stops without an errno at a bad page that is not the first. */
	return (size_t)moved == length ? 0 : EFAULT;
}

int simhca_process_copy(struct simhca_mm *mm, bool pinned, bool write, const struct iovec *remote,
			unsigned int count, const struct iovec *local, unsigned int locals,
			size_t length)
{
	bool has_mem = pinned && mm->mem >= 0;
	int error;

	if (has_mem && count == 1 && locals == 1 && length <= SMALL_PIECE) {
		error = by_mem(mm, write, remote, local->iov_base);
		/* Pages that a userfaultfd serves are waited for by process_vm alone. */
		if (error != EFAULT)
			return error;
	}
	if (write && !simhca_mm_is_there(mm))
		return ESRCH;
	error = by_process_vm(mm->pid, write, remote, count, local, locals, length);
	/* Afterwards: what was read of another's is not used. */
	if (!write && !simhca_mm_is_there(mm))
		return ESRCH;
	if (has_mem && (error == EFAULT || error == EPERM))
		error = all_by_mem(mm, write, remote, local, length);
	return error;
}

static void keep(int *kept, int fd)
{
	if (*kept < 0 && fd >= 0)
		*kept = fcntl(fd, F_DUPFD_CLOEXEC, 0);
}

void simhca_mm_known_by(struct simhca_mm *mm, int pagemap, int mem)
{
	if (mm->kind != SIMHCA_MM_PROCESS_VM)
		return;
	keep(&mm->pagemap, pagemap);
	keep(&mm->mem, mem);
}

bool simhca_process_reachable(pid_t pid)
{
	char byte;
	struct iovec local = { .iov_base = &byte, .iov_len = 1 };
	struct iovec remote = { .iov_base = NULL, .iov_len = 1 };

	/* Page 0 is not mapped: EFAULT means that the kernel would have let us look. */
	return process_vm_readv(pid, &local, 1, &remote, 1, 0) == 1 || errno == EFAULT;
}
