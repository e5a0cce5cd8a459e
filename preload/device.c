/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "daemon.h"
#include "device.h"
#include "paths.h"
#include "real.h"

#define NODE_DIRECTORY "dev/infiniband/"

atomic_bool device_seen_calls, device_seen_umad;

/* Relaxed, here and where it is read: whoever is handed the descriptor learns of it otherwise. */
static void remember(const struct device_name *name)
{
	if (device_has_write(name))
		atomic_store_explicit(&device_seen_calls, true, memory_order_relaxed);
	if (device_is_umad(name))
		atomic_store_explicit(&device_seen_umad, true, memory_order_relaxed);
}

/* "rdma_cm", or "uverbs" or the like and a number, and nothing after it. */
static bool parse_name(const char *text, struct device_name *name)
{
	static const char *const prefixes[] = { "uverbs", "umad", "issm" };
	static const char rdma_cm[] = "rdma_cm";
	size_t length = 0, digits;

	if (!strcmp(text, rdma_cm)) {
		memcpy(name->text, rdma_cm, sizeof(rdma_cm));
		return true;
	}
	for (size_t i = 0; i < sizeof(prefixes) / sizeof(*prefixes); i++)
		if (!strncmp(text, prefixes[i], strlen(prefixes[i])))
			length = strlen(prefixes[i]);
	digits = length ? strspn(text + length, "0123456789") : 0;
	if (!digits || text[length + digits] || length + digits >= sizeof(name->text))
		return false;
	memcpy(name->text, text, length + digits + 1);
	return true;
}

bool device_of_fd(int fd, struct device_name *name)
{
	struct daemon_peer peer;
	const char *node = paths_of_this_libc() ? daemon_peer(fd, &peer) : NULL;

	if (!node || strncmp(node, NODE_DIRECTORY, sizeof(NODE_DIRECTORY) - 1) ||
	    !parse_name(node + sizeof(NODE_DIRECTORY) - 1, name))
		return false;
	remember(name);
	return true;
}

/* The number at the beginning of text, which moves behind it; false: none. */
static bool parse_number(const char **text, unsigned int *number)
{
	const char *digit = *text;

	for (*number = 0; *digit >= '0' && *digit <= '9'; digit++)
		*number = *number * 10 + (unsigned int)(*digit - '0');
	if (digit == *text)
		return false;
	*text = digit;
	return true;
}

static bool read_rdev(const struct device_name *name, dev_t *rdev)
{
	unsigned int major_number, minor_number;
	const char *rest;
	char text[32];

	if (paths_read(text, sizeof(text), "sys/class/%s/%s/dev",
		       device_is_rdma_cm(name) ? "misc"
		       : device_is_umad(name)  ? "infiniband_mad"
					       : "infiniband_verbs",
		       name->text) < 0)
		return false;
	rest = text;
	if (!parse_number(&rest, &major_number) || *rest++ != ':' ||
	    !parse_number(&rest, &minor_number))
		return false;
	*rdev = makedev(major_number, minor_number);
	return true;
}

bool device_identify(const struct device_name *name, struct device_id *id)
{
	struct path_buf buf;
	struct statx stx;
	int saved = errno;
	bool found;

	found = paths_in_tree(&buf, "dev/infiniband/%s", name->text) &&
		!REAL(statx)(AT_FDCWD, buf.text, AT_SYMLINK_NOFOLLOW, STATX_TYPE | STATX_INO,
			     &stx) &&
		S_ISSOCK(stx.stx_mode) && read_rdev(name, &id->rdev);
	if (found) {
		id->dev = makedev(stx.stx_dev_major, stx.stx_dev_minor);
		id->ino = stx.stx_ino;
		/* MADs are root's. */
		id->mode = S_IFCHR | (device_is_umad(name) ? 0600 : 0666);
	}
	errno = saved;
	return found;
}

bool device_of_path(const char *path, dev_t dev, ino_t ino, struct device_name *name,
		    struct device_id *id)
{
	const char *slash = strrchr(path, '/');

	return parse_name(slash ? slash + 1 : path, name) && device_identify(name, id) &&
	       id->dev == dev && id->ino == ino;
}

void device_show_stat(const struct device_id *id, struct stat *st)
{
	st->st_dev = id->dev;
	st->st_ino = id->ino;
	st->st_mode = id->mode;
	st->st_rdev = id->rdev;
}

void device_show_statx(const struct device_id *id, struct statx *stx)
{
	stx->stx_dev_major = major(id->dev);
	stx->stx_dev_minor = minor(id->dev);
	stx->stx_ino = id->ino;
	stx->stx_mode = (uint16_t)id->mode;
	stx->stx_rdev_major = major(id->rdev);
	stx->stx_rdev_minor = minor(id->rdev);
}

int device_connect(const struct device_name *name, int flags)
{
	char node[sizeof(NODE_DIRECTORY) + sizeof(name->text)];
	int saved = errno;
	int fd;

	sprintf(node, NODE_DIRECTORY "%s", name->text);
	fd = daemon_connect(node, (flags & O_CLOEXEC ? SOCK_CLOEXEC : 0) |
					  (flags & O_NONBLOCK ? SOCK_NONBLOCK : 0));
	if (fd >= 0) {
		remember(name);
		errno = saved;
	} else if (errno == ECONNREFUSED || errno == ENOENT) {
		/*
		 * Nobody listens, or the file is gone since it was looked up: what the kernel says
		 * of a node without a driver behind it.
		 */
		errno = ENXIO;
	}
	return fd;
}
