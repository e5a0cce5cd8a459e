/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Whose call it is that is answered: this process's own, in the preload library, or that of another
 * process, in the supervisor of simhca run. Of another process all addresses and descriptors are
 * numbers, and what is behind them is fetched and brought by the functions here.
 */
#ifndef SIMHCA_PRELOAD_CALLER_H
#define SIMHCA_PRELOAD_CALLER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct caller {
	pid_t pid; /* 0: this process, and then there are no functions */
	/* Takes fd to the caller's table, and closes it here: its number there, or -errno. */
	int (*give)(struct caller *caller, int fd);
	/* A copy of the caller's descriptor, to be closed, or -errno. */
	int (*borrow)(struct caller *caller, int fd);
};

static inline bool caller_is_other(const struct caller *caller)
{
	return caller->pid;
}

/*
 * Copy from and to the caller's memory: 0, or -EFAULT where it is not there. In this process, if the
 * system call that finds out is forbidden, it is a signal after all.
 */
int caller_read(const struct caller *caller, void *to, const void *from, size_t size);
int caller_write(const struct caller *caller, void *to, const void *from, size_t size);

#endif
