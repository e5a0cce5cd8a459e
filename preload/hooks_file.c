/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What else takes a file's name: access, links, extended attributes, watches. */
#include "paths.h"
#include "real.h"

HOOK(int, access, const char *path, int mode)
{
	struct path_buf buf;

	return REAL(access)(paths_map(&buf, path), mode);
}

HOOK(int, euidaccess, const char *path, int mode)
{
	struct path_buf buf;

	return REAL(euidaccess)(paths_map(&buf, path), mode);
}

HOOK(int, eaccess, const char *path, int mode)
{
	struct path_buf buf;

	return REAL(eaccess)(paths_map(&buf, path), mode);
}

HOOK(int, faccessat, int dirfd, const char *path, int mode, int flags)
{
	struct path_buf buf;

	return REAL(faccessat)(dirfd, paths_map(&buf, path), mode, flags);
}

/* The links of the tree are relative, so what they say is true under both names. */

HOOK(ssize_t, readlink, const char *path, char *text, size_t size)
{
	struct path_buf buf;

	return REAL(readlink)(paths_map(&buf, path), text, size);
}

HOOK(ssize_t, readlinkat, int dirfd, const char *path, char *text, size_t size)
{
	struct path_buf buf;

	return REAL(readlinkat)(dirfd, paths_map(&buf, path), text, size);
}

HOOK(ssize_t, __readlink_chk, const char *path, char *text, size_t size, size_t room)
{
	struct path_buf buf;

	return REAL(__readlink_chk)(paths_map(&buf, path), text, size, room);
}

HOOK(ssize_t, __readlinkat_chk, int dirfd, const char *path, char *text, size_t size, size_t room)
{
	struct path_buf buf;

	return REAL(__readlinkat_chk)(dirfd, paths_map(&buf, path), text, size, room);
}

/*
 * The answer is the name that the program knows, if it asked by such a name or from a working
 * directory in the tree. Whoever asks for the tree's own name gets what they asked for.
 */
static char *resolved_name(char *resolved, const char *asked, const char *mapped)
{
	if (resolved && (mapped != asked || asked[0] != '/'))
		paths_unmap(resolved);
	return resolved;
}

HOOK(char *, realpath, const char *path, char *resolved)
{
	struct path_buf buf;
	const char *mapped = paths_map(&buf, path);

	return resolved_name(REAL(realpath)(mapped, resolved), path, mapped);
}

HOOK(char *, __realpath_chk, const char *path, char *resolved, size_t room)
{
	struct path_buf buf;
	const char *mapped = paths_map(&buf, path);

	return resolved_name(REAL(__realpath_chk)(mapped, resolved, room), path, mapped);
}

HOOK(char *, canonicalize_file_name, const char *path)
{
	struct path_buf buf;
	const char *mapped = paths_map(&buf, path);

	return resolved_name(REAL(canonicalize_file_name)(mapped), path, mapped);
}

HOOK(ssize_t, getxattr, const char *path, const char *name, void *value, size_t size)
{
	struct path_buf buf;

	return REAL(getxattr)(paths_map(&buf, path), name, value, size);
}

HOOK(ssize_t, lgetxattr, const char *path, const char *name, void *value, size_t size)
{
	struct path_buf buf;

	return REAL(lgetxattr)(paths_map(&buf, path), name, value, size);
}

HOOK(ssize_t, listxattr, const char *path, char *list, size_t size)
{
	struct path_buf buf;

	return REAL(listxattr)(paths_map(&buf, path), list, size);
}

HOOK(ssize_t, llistxattr, const char *path, char *list, size_t size)
{
	struct path_buf buf;

	return REAL(llistxattr)(paths_map(&buf, path), list, size);
}

HOOK(int, inotify_add_watch, int fd, const char *path, uint32_t mask)
{
	struct path_buf buf;

	return REAL(inotify_add_watch)(fd, paths_map(&buf, path), mask);
}
