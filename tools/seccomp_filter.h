/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The seccomp filter of a command whose system calls the supervisor answers (supervisor.h): those
 * that take the name of a file; the ioctls of uverbs and umad; socket() for RDMA netlink; and, of
 * descriptors whose number is in a range that the supervisor gives to devices and such sockets, the
 * few calls in which they differ from what they are. No other call is delayed.
 */
#ifndef SIMHCA_SECCOMP_FILTER_H
#define SIMHCA_SECCOMP_FILTER_H

/* The numbers that are given to open devices, first <= fd < sockets, and to sockets, fd < end. */
struct fd_range {
	unsigned int first, sockets, end;
};

/* Below this process's limit, and below select()'s. */
struct fd_range seccomp_filter_range(void);

/*
 * Puts this process, and all that it becomes and starts, under the filter. The descriptor on which
 * its calls are told, close-on-exec, or -errno: EBUSY if a filter above has one, ENOSYS or EINVAL
 * where the kernel has no such thing.
 */
int seccomp_filter_enter(const struct fd_range *range);

#endif
