/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The stat family: the real call comes first, and only a socket is looked at twice. */
#include <fcntl.h>
#include <sys/sysmacros.h>

#include "device.h"
#include "paths.h"
#include "real.h"

static int stat_fd(int ret, int fd, struct stat *st)
{
	struct device_name name;
	struct device_id id;

	if (!ret && S_ISSOCK(st->st_mode) && device_of_fd(fd, &name) && device_identify(&name, &id))
		device_show_stat(&id, st);
	return ret;
}

static int stat_path(int ret, int dirfd, const char *path, struct stat *st)
{
	struct device_name name;
	struct device_id id;

	if (ret || !S_ISSOCK(st->st_mode))
		return ret;
	if (!path || !path[0]) /* AT_EMPTY_PATH */
		return stat_fd(ret, dirfd, st);
	if (device_of_path(path, st->st_dev, st->st_ino, &name, &id))
		device_show_stat(&id, st);
	return ret;
}

#define STAT_HOOK(name)                                                                            \
	HOOK(int, name, const char *path, struct stat *st)                                         \
	{                                                                                          \
		struct path_buf buf;                                                               \
                                                                                                   \
		path = paths_map(&buf, path);                                                      \
		return stat_path(REAL(name)(path, st), AT_FDCWD, path, st);                        \
	}

#define FSTAT_HOOK(name)                                                                           \
	HOOK(int, name, int fd, struct stat *st)                                                   \
	{                                                                                          \
		return stat_fd(REAL(name)(fd, st), fd, st);                                        \
	}

#define FSTATAT_HOOK(name)                                                                         \
	HOOK(int, name, int dirfd, const char *path, struct stat *st, int flags)                   \
	{                                                                                          \
		struct path_buf buf;                                                               \
                                                                                                   \
		path = paths_map(&buf, path);                                                      \
		return stat_path(REAL(name)(dirfd, path, st, flags), dirfd, path, st);             \
	}

/* The names of the same functions in programs that were linked before glibc 2.33. */
#define XSTAT_HOOK(name)                                                                           \
	HOOK(int, name, int version, const char *path, struct stat *st)                            \
	{                                                                                          \
		struct path_buf buf;                                                               \
                                                                                                   \
		path = paths_map(&buf, path);                                                      \
		return stat_path(REAL(name)(version, path, st), AT_FDCWD, path, st);               \
	}

#define FXSTAT_HOOK(name)                                                                          \
	HOOK(int, name, int version, int fd, struct stat *st)                                      \
	{                                                                                          \
		return stat_fd(REAL(name)(version, fd, st), fd, st);                               \
	}

#define FXSTATAT_HOOK(name)                                                                        \
	HOOK(int, name, int version, int dirfd, const char *path, struct stat *st, int flags)      \
	{                                                                                          \
		struct path_buf buf;                                                               \
                                                                                                   \
		path = paths_map(&buf, path);                                                      \
		return stat_path(REAL(name)(version, dirfd, path, st, flags), dirfd, path, st);    \
	}

STAT_HOOK(stat)
STAT_HOOK(stat64)
STAT_HOOK(lstat)
STAT_HOOK(lstat64)
FSTAT_HOOK(fstat)
FSTAT_HOOK(fstat64)
FSTATAT_HOOK(fstatat)
FSTATAT_HOOK(fstatat64)
XSTAT_HOOK(__xstat)
XSTAT_HOOK(__xstat64)
XSTAT_HOOK(__lxstat)
XSTAT_HOOK(__lxstat64)
FXSTAT_HOOK(__fxstat)
FXSTAT_HOOK(__fxstat64)
FXSTATAT_HOOK(__fxstatat)
FXSTATAT_HOOK(__fxstatat64)

HOOK(int, statx, int dirfd, const char *path, int flags, unsigned int mask, struct statx *stx)
{
	struct device_name name;
	struct device_id id;
	struct path_buf buf;
	bool found;
	int ret;

	path = paths_map(&buf, path);
	ret = REAL(statx)(dirfd, path, flags, mask, stx);
	if (ret || !S_ISSOCK(stx->stx_mode))
		return ret;

	if (!path || !path[0])
		found = device_of_fd(dirfd, &name) && device_identify(&name, &id);
	else
		found = device_of_path(path, makedev(stx->stx_dev_major, stx->stx_dev_minor),
				       stx->stx_ino, &name, &id);
	if (found)
		device_show_statx(&id, stx);
	return ret;
}
