/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Opening files and device nodes. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/sysmacros.h>

#include "device.h"
#include "limit.h"
#include "paths.h"
#include "real.h"
#include "simhca-calls.h"

/*
 * Who has opened a node asks at once what it is (fstat()), for which a file of the tree is read. With
 * the last descriptor gone it would seem to be something else.
 */
static int connect_device(const struct device_name *name, int flags)
{
	int fd = device_connect(name, flags);
	int one_more = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
	int error = errno;

	if (fd < 0 || one_more >= 0) {
		if (one_more >= 0)
			simhca_call_close(one_more);
		return fd;
	}
	simhca_call_close(fd);
	errno = error;
	return -1;
}

/*
 * The second half of open(): the kernel was asked first, and says ENXIO of exactly those sockets
 * that it would have opened if they were device nodes. So permissions, O_CREAT | O_EXCL,
 * O_DIRECTORY, O_PATH and names relative to any directory are right without a word about them here.
 */
static int open_device(int dirfd, const char *path, int flags)
{
	struct device_name name;
	struct device_id id;
	struct statx stx;

	if (!REAL(statx)(dirfd, path, 0, STATX_TYPE | STATX_INO, &stx) && S_ISSOCK(stx.stx_mode) &&
	    device_of_path(path, makedev(stx.stx_dev_major, stx.stx_dev_minor), stx.stx_ino, &name,
			   &id))
		return connect_device(&name, flags);
	errno = ENXIO;
	return -1;
}

/* fd is what the kernel said, saved the errno from before it was asked. */
static inline int opened(int fd, int saved, int dirfd, const char *path, int flags)
{
	if (fd >= 0 || errno != ENXIO)
		return fd;
	fd = open_device(dirfd, path, flags);
	if (fd >= 0)
		errno = saved;
	return fd;
}

/* Whether it was opened or not, path was mapped to what is in buf, or is another one. */
static inline int told(int fd, const char *path, const struct path_buf *buf)
{
	if (fd < 0 && errno == EMFILE && path == buf->text)
		limit_say_file(path);
	return fd;
}

static inline bool needs_mode(int flags)
{
	return (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE;
}

#define OPEN_MODE(mode, flags)                                                                     \
	do {                                                                                       \
		if (needs_mode(flags)) {                                                           \
			va_list args;                                                              \
			va_start(args, flags);                                                     \
			mode = va_arg(args, mode_t);                                               \
			va_end(args);                                                              \
		}                                                                                  \
	} while (0)

#define OPEN_HOOK(name)                                                                            \
	HOOK(int, name, const char *path, int flags, ...)                                          \
	{                                                                                          \
		struct path_buf buf;                                                               \
		int saved = errno;                                                                 \
		mode_t mode = 0;                                                                   \
                                                                                                   \
		OPEN_MODE(mode, flags);                                                            \
		path = paths_map(&buf, path);                                                      \
		return told(opened(REAL(name)(path, flags, mode), saved, AT_FDCWD, path, flags),   \
			    path, &buf);                                                           \
	}

#define OPENAT_HOOK(name)                                                                          \
	HOOK(int, name, int dirfd, const char *path, int flags, ...)                               \
	{                                                                                          \
		struct path_buf buf;                                                               \
		int saved = errno;                                                                 \
		mode_t mode = 0;                                                                   \
                                                                                                   \
		OPEN_MODE(mode, flags);                                                            \
		path = paths_map(&buf, path);                                                      \
		return told(opened(REAL(name)(dirfd, path, flags, mode), saved, dirfd, path,       \
				   flags),                                                         \
			    path, &buf);                                                           \
	}

/* What _FORTIFY_SOURCE makes of an open() without a mode. */
#define OPEN_2_HOOK(name)                                                                          \
	HOOK(int, name, const char *path, int flags)                                               \
	{                                                                                          \
		struct path_buf buf;                                                               \
		int saved = errno;                                                                 \
                                                                                                   \
		path = paths_map(&buf, path);                                                      \
		return told(opened(REAL(name)(path, flags), saved, AT_FDCWD, path, flags), path,   \
			    &buf);                                                                 \
	}

#define OPENAT_2_HOOK(name)                                                                        \
	HOOK(int, name, int dirfd, const char *path, int flags)                                    \
	{                                                                                          \
		struct path_buf buf;                                                               \
		int saved = errno;                                                                 \
                                                                                                   \
		path = paths_map(&buf, path);                                                      \
		return told(opened(REAL(name)(dirfd, path, flags), saved, dirfd, path, flags),     \
			    path, &buf);                                                           \
	}

#define FOPEN_HOOK(name)                                                                           \
	HOOK(FILE *, name, const char *path, const char *mode)                                     \
	{                                                                                          \
		struct path_buf buf;                                                               \
		FILE *file;                                                                        \
                                                                                                   \
		path = paths_map(&buf, path);                                                      \
		file = REAL(name)(path, mode);                                                     \
		told(file ? 0 : -1, path, &buf);                                                   \
		return file;                                                                       \
	}

#define FREOPEN_HOOK(name)                                                                         \
	HOOK(FILE *, name, const char *path, const char *mode, FILE *stream)                       \
	{                                                                                          \
		struct path_buf buf;                                                               \
                                                                                                   \
		return REAL(name)(paths_map(&buf, path), mode, stream);                            \
	}

OPEN_HOOK(open)
OPEN_HOOK(open64)
OPENAT_HOOK(openat)
OPENAT_HOOK(openat64)
OPEN_2_HOOK(__open_2)
OPEN_2_HOOK(__open64_2)
OPENAT_2_HOOK(__openat_2)
OPENAT_2_HOOK(__openat64_2)
FOPEN_HOOK(fopen)
FOPEN_HOOK(fopen64)
FREOPEN_HOOK(freopen)
FREOPEN_HOOK(freopen64)
