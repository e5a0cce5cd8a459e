/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Which names lead into the device tree.
 *
 * The daemon keeps a directory `tree` in its runtime directory, which has the RDMA part of /sys and
 * /dev under their usual names: <runtime directory>/tree/sys/class/infiniband/... . A name that
 * begins with one of those directories is mapped to its place in the tree. Without a tree every
 * name stays as it is, so that a program sees what the host has.
 *
 * The runtime directory is $SIMHCA_RUNTIME_DIR (an absolute path), else the first of
 * $XDG_RUNTIME_DIR/simhca, /run/simhca and our own /tmp/simhca-UID that has a tree. The environment
 * is that of the program's start.
 */
#ifndef SIMHCA_PRELOAD_PATHS_H
#define SIMHCA_PRELOAD_PATHS_H

#include <stdbool.h>
#include <stddef.h>

/*
 * On the stack of each hook, also in signal handlers, hence not PATH_MAX. A mapped name that does
 * not fit fails with ENAMETOOLONG.
 */
struct path_buf {
	char text[1024];
};

/*
 * In a program of another libc than glibc this library is in the way of nobody, but shows no device:
 * musl has no dlvsym() and other types behind some of the functions.
 */
bool paths_of_this_libc(void);

/* The tree's path, or NULL when there is none. Preserves errno. */
const char *paths_tree(void);

/* From now on the tree is that of this runtime directory. Before there are other threads. */
void paths_use(const char *runtime_dir);

/* Write "<tree>/<what fmt says>" into buf. False: there is no tree, or it does not fit. */
__attribute__((format(printf, 2, 3))) bool paths_in_tree(struct path_buf *buf, const char *fmt,
							 ...);

const char *paths_map_absolute(struct path_buf *buf, const char *path);

/*
 * The name to use in place of path: path itself or what was written into buf. NULL is passed
 * through, what to say about it is libc's business.
 */
static inline const char *paths_map(struct path_buf *buf, const char *path)
{
	if (!path || path[0] != '/')
		return path;
	/* Most names end here: /usr, /etc, /home ... */
	if (path[1] != 's' && path[1] != 'd' && path[1] != 'p' && path[1] != '/' && path[1] != '.')
		return path;
	return paths_map_absolute(buf, path);
}

/* Turn an absolute path inside the tree into the name that programs know, in place. */
void paths_unmap(char *path);

/* Read a file of the tree without the newline at its end. Bytes read, or -errno; preserves errno. */
__attribute__((format(printf, 3, 4))) int paths_read(char *text, size_t size, const char *fmt, ...);

#endif
