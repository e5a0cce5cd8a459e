/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Directories. Those of the tree are plain ones, so only their names need a hand. */
#include <errno.h>
#include <fcntl.h>
#include <sys/sysmacros.h>

#include "device.h"
#include "limit.h"
#include "paths.h"
#include "real.h"

HOOK(DIR *, opendir, const char *path)
{
	struct path_buf buf;
	DIR *dir;

	path = paths_map(&buf, path);
	dir = REAL(opendir)(path);
	if (!dir && errno == EMFILE && path == buf.text)
		limit_say_file(path);
	return dir;
}

/*
 * `find -type c` believes the type in the directory entry and never asks stat(). Only an entry for
 * a socket costs more than a comparison.
 */
static struct dirent *show_entry(DIR *dir, struct dirent *entry)
{
	struct device_name name;
	struct device_id id;

	if (entry && entry->d_type == DT_SOCK) {
		struct statx stx;

		if (!REAL(statx)(dirfd(dir), entry->d_name, AT_SYMLINK_NOFOLLOW,
				 STATX_TYPE | STATX_INO, &stx) &&
		    device_of_path(entry->d_name, makedev(stx.stx_dev_major, stx.stx_dev_minor),
				   stx.stx_ino, &name, &id))
			entry->d_type = DT_CHR;
	}
	return entry;
}

HOOK(struct dirent *, readdir, DIR *dir)
{
	return show_entry(dir, REAL(readdir)(dir));
}

HOOK(struct dirent *, readdir64, DIR *dir)
{
	return show_entry(dir, REAL(readdir64)(dir));
}

HOOK(int, scandir, const char *path, struct dirent ***list, dirent_filter_fn *filter,
     dirent_compare_fn *compare)
{
	struct path_buf buf;

	return REAL(scandir)(paths_map(&buf, path), list, filter, compare);
}

HOOK(int, scandir64, const char *path, struct dirent ***list, dirent_filter_fn *filter,
     dirent_compare_fn *compare)
{
	struct path_buf buf;

	return REAL(scandir64)(paths_map(&buf, path), list, filter, compare);
}

HOOK(int, chdir, const char *path)
{
	struct path_buf buf;

	return REAL(chdir)(paths_map(&buf, path));
}
