/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * System calls that a step makes, without the C library's functions, which are cancellation points
 * (pthreads(7)): a thread that ended there would never leave the step, and who waits for that would
 * wait in vain.
 */
#ifndef LIBSIMHCA_STEP_CALLS_H
#define LIBSIMHCA_STEP_CALLS_H

#include <assert.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* An offset is one argument. */
static_assert(sizeof(long) == 8, "a system of 64 bits");

static inline ssize_t simhca_call_pread(int fd, void *to, size_t bytes, off_t at)
{
	return syscall(SYS_pread64, fd, to, bytes, at);
}

static inline ssize_t simhca_call_pwrite(int fd, const void *from, size_t bytes, off_t at)
{
	return syscall(SYS_pwrite64, fd, from, bytes, at);
}

static inline ssize_t simhca_call_preadv(int fd, const struct iovec *to, int count, off_t at)
{
	return syscall(SYS_preadv, fd, to, (long)count, at, 0l);
}

static inline ssize_t simhca_call_pwritev(int fd, const struct iovec *from, int count, off_t at)
{
	return syscall(SYS_pwritev, fd, from, (long)count, at, 0l);
}

static inline ssize_t simhca_call_send(int fd, const void *from, size_t bytes, int flags)
{
	return syscall(SYS_sendto, fd, from, bytes, (long)flags, NULL, 0l);
}

#endif
