/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The device nodes /dev/infiniband/uverbsN, rdma_cm, umadN and issmN, and their open descriptors.
 *
 * In the tree the node is the socket on which the daemon listens; an open descriptor is a
 * connection to it (daemon.h). Both are shown as the character device that they stand for.
 */
#ifndef SIMHCA_PRELOAD_DEVICE_H
#define SIMHCA_PRELOAD_DEVICE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

struct device_name {
	char text[16]; /* "uverbs0", "rdma_cm", "umad0", "issm0" */
};

static inline bool device_is_rdma_cm(const struct device_name *name)
{
	return name->text[0] == 'r';
}

/* umadN, and issmN, which is open and no more */
static inline bool device_is_umad(const struct device_name *name)
{
	return name->text[0] == 'u' ? name->text[1] == 'm' : name->text[0] == 'i';
}

/* Whether what is written to it are commands. */
static inline bool device_has_write(const struct device_name *name)
{
	return device_is_rdma_cm(name) || device_is_umad(name);
}

extern atomic_bool device_seen_calls, device_seen_umad;

/* False: this program has not come across a descriptor of rdma_cm or umad yet. */
static inline bool device_has_calls(void)
{
	return atomic_load_explicit(&device_seen_calls, memory_order_relaxed);
}

static inline bool device_has_umad(void)
{
	return atomic_load_explicit(&device_seen_umad, memory_order_relaxed);
}

/* What stat() says of the node. */
struct device_id {
	dev_t dev;
	ino_t ino;
	dev_t rdev;
	mode_t mode;
};

/* All preserve errno unless they say otherwise. */

/* Is fd an open device, and which? */
bool device_of_fd(int fd, struct device_name *name);

/* The identity of the node of that name, from the tree. */
bool device_identify(const struct device_name *name, struct device_id *id);

/*
 * Is the socket (dev, ino), which was found under the name path, a node of the tree? By its
 * identity, so that it does not matter from which directory the name was relative.
 */
bool device_of_path(const char *path, dev_t dev, ino_t ino, struct device_name *name,
		    struct device_id *id);

/* What stat() has said of the socket, as it is said of the node that it stands for. */
void device_show_stat(const struct device_id *id, struct stat *st);
void device_show_statx(const struct device_id *id, struct statx *stx);

/* open() of a node: a new descriptor, or -1 and errno, which is ENXIO if no daemon listens. */
int device_connect(const struct device_name *name, int flags);

#endif
