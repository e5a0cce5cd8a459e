/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * No verb is a cancellation point (pthreads(7)): a thread that ended in one would leave a lock
 * held, a descriptor open, or a step of the fast path for others to wait for. So what runs in a
 * program's verbs makes system calls past the C library's functions, which are cancellation points.
 * Where a verb has to wait for a thread or a condition, it is not cancelled meanwhile.
 *
 * All return what the C library's function would, and set errno.
 */
#ifndef SIMHCA_CALLS_H
#define SIMHCA_CALLS_H

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* An offset is one argument, and so is a time. */
static_assert(sizeof(long) == 8, "a system of 64 bits");

static inline int simhca_call_open(const char *path, int flags)
{
	return (int)syscall(SYS_openat, (long)AT_FDCWD, path, (long)flags, 0l);
}

static inline int simhca_call_close(int fd)
{
	return (int)syscall(SYS_close, (long)fd);
}

/*
 * The numbers below are the program's: it may count on the next one that is free, and where it
 * closes what it does not know (closefrom(3)) its own files have these numbers from then on.
 */
#define SIMHCA_LOWEST_FD 256

/*
 * Instead of fd, which it closes: the same with a number that is not the program's; or fd, where
 * the program may have no more, or no number as high. errno stays.
 */
static inline int simhca_call_move_fd(int fd)
{
	int before = errno;
	int moved = fd < 0 || fd >= SIMHCA_LOWEST_FD ? -1
						     : fcntl(fd, F_DUPFD_CLOEXEC, SIMHCA_LOWEST_FD);

	if (moved >= 0)
		simhca_call_close(fd);
	errno = before;
	return moved >= 0 ? moved : fd;
}

static inline ssize_t simhca_call_read(int fd, void *to, size_t bytes)
{
	return syscall(SYS_read, (long)fd, to, bytes);
}

static inline ssize_t simhca_call_write(int fd, const void *from, size_t bytes)
{
	return syscall(SYS_write, (long)fd, from, bytes);
}

static inline ssize_t simhca_call_pread(int fd, void *to, size_t bytes, off_t at)
{
	return syscall(SYS_pread64, (long)fd, to, bytes, at);
}

static inline ssize_t simhca_call_pwrite(int fd, const void *from, size_t bytes, off_t at)
{
	return syscall(SYS_pwrite64, (long)fd, from, bytes, at);
}

static inline ssize_t simhca_call_preadv(int fd, const struct iovec *to, int count, off_t at)
{
	return syscall(SYS_preadv, (long)fd, to, (long)count, at, 0l);
}

static inline ssize_t simhca_call_pwritev(int fd, const struct iovec *from, int count, off_t at)
{
	return syscall(SYS_pwritev, (long)fd, from, (long)count, at, 0l);
}

static inline int simhca_call_connect(int fd, const struct sockaddr *to, socklen_t bytes)
{
	return (int)syscall(SYS_connect, (long)fd, to, (long)bytes);
}

static inline ssize_t simhca_call_send(int fd, const void *from, size_t bytes, int flags)
{
	return syscall(SYS_sendto, (long)fd, from, bytes, (long)flags, NULL, 0l);
}

static inline ssize_t simhca_call_recv(int fd, void *to, size_t bytes, int flags)
{
	return syscall(SYS_recvfrom, (long)fd, to, bytes, (long)flags, NULL, NULL);
}

static inline ssize_t simhca_call_sendmsg(int fd, const struct msghdr *msg, int flags)
{
	return syscall(SYS_sendmsg, (long)fd, msg, (long)flags);
}

static inline ssize_t simhca_call_recvmsg(int fd, struct msghdr *msg, int flags)
{
	return syscall(SYS_recvmsg, (long)fd, msg, (long)flags);
}

/* -1 ms: without end */
static inline int simhca_call_poll(struct pollfd *fds, nfds_t count, int ms)
{
	struct timespec time = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000l };

	return (int)syscall(SYS_ppoll, fds, count, ms < 0 ? NULL : &time, NULL, 0l);
}

static inline ssize_t simhca_call_getrandom(void *to, size_t bytes)
{
	return syscall(SYS_getrandom, to, bytes, 0l);
}

static inline int simhca_cancel_disable(void)
{
	int state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	return state;
}

static inline void simhca_cancel_restore(const int *state)
{
	int unused;

	pthread_setcancelstate(*state, &unused);
}

/* A declaration: the thread is not cancelled until the end of the block. */
#define SIMHCA_NOT_CANCELLED                                                                       \
	__attribute__((cleanup(simhca_cancel_restore), unused)) const int simhca_cancel_state =    \
		simhca_cancel_disable()

#endif
