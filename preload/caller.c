/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "caller.h"

int caller_read(const struct caller *caller, void *to, const void *from, size_t size)
{
	struct iovec here = { to, size }, there = { (void *)(uintptr_t)from, size };
	pid_t pid = caller_is_other(caller) ? caller->pid : getpid();
	ssize_t copied = process_vm_readv(pid, &here, 1, &there, 1, 0);

	if (copied < 0 && errno != EFAULT && !caller_is_other(caller))
		memcpy(to, from, size);
	else if (copied != (ssize_t)size)
		return -EFAULT;
	return 0;
}

int caller_write(const struct caller *caller, void *to, const void *from, size_t size)
{
	struct iovec here = { (void *)(uintptr_t)from, size }, there = { to, size };

	if (!caller_is_other(caller))
		memcpy(to, from, size);
	else if (process_vm_writev(caller->pid, &here, 1, &there, 1, 0) != (ssize_t)size)
		return -EFAULT;
	return 0;
}
