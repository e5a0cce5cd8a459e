/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

#include "device.h"
#include "paths.h"
#include "real.h"

#define NODE_DIRECTORY "/dev/infiniband/"
#define NODE_SUFFIX "/tree" NODE_DIRECTORY

/* "uverbs" and a number, and nothing after it. */
static bool parse_name(const char *text, struct device_name *name)
{
	static const char prefix[] = "uverbs";
	size_t digits;

	if (strncmp(text, prefix, sizeof(prefix) - 1))
		return false;
	digits = strspn(text + sizeof(prefix) - 1, "0123456789");
	if (!digits || text[sizeof(prefix) - 1 + digits] ||
	    sizeof(prefix) + digits > sizeof(name->text))
		return false;
	memcpy(name->text, text, sizeof(prefix) + digits);
	return true;
}

bool device_of_fd(int fd, struct device_name *name)
{
	/* One byte more than an address has, for a path need not end with a NUL. */
	union {
		struct sockaddr_un un;
		char bytes[sizeof(struct sockaddr_un) + 1];
	} addr = { .un.sun_family = AF_UNSPEC };
	socklen_t len = sizeof(addr.un);
	int saved = errno;
	const char *base;
	size_t directory;

	if (getpeername(fd, (struct sockaddr *)&addr.un, &len)) {
		errno = saved;
		return false;
	}
	if (addr.un.sun_family != AF_UNIX || len <= offsetof(struct sockaddr_un, sun_path) ||
	    len > sizeof(addr.un) || !addr.un.sun_path[0])
		return false;
	addr.bytes[len] = '\0';

	base = strrchr(addr.un.sun_path, '/');
	if (!base++)
		return false;
	directory = (size_t)(base - addr.un.sun_path);
	return directory >= sizeof(NODE_SUFFIX) - 1 &&
	       !memcmp(base - (sizeof(NODE_SUFFIX) - 1), NODE_SUFFIX, sizeof(NODE_SUFFIX) - 1) &&
	       parse_name(base, name);
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

	if (paths_read(text, sizeof(text), "sys/class/infiniband_verbs/%s/dev", name->text) < 0)
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

int device_connect(const struct device_name *name, int flags)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	struct path_buf buf;
	int saved = errno;
	int fd, ret;

	if (!paths_in_tree(&buf, "dev/infiniband/%s", name->text)) {
		errno = ENXIO;
		return -1;
	}
	/* The daemon could not have bound a longer name either. */
	if (strlen(buf.text) >= sizeof(addr.sun_path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	strcpy(addr.sun_path, buf.text);

	fd = REAL(socket)(AF_UNIX, SOCK_SEQPACKET | (flags & O_CLOEXEC ? SOCK_CLOEXEC : 0), 0);
	if (fd < 0)
		return -1;
	/* O_NONBLOCK comes after this, or a full backlog would fail what open() never fails. */
	do
		ret = connect(fd, (struct sockaddr *)&addr, sizeof(addr));
	while (ret && errno == EINTR);
	if (!ret && (flags & O_NONBLOCK))
		ret = fcntl(fd, F_SETFL, O_RDWR | O_NONBLOCK);
	if (ret) {
		/*
		 * Nobody listens, or the file is gone since it was looked up: what the kernel says
		 * of a node without a driver behind it.
		 */
		saved = errno == ECONNREFUSED || errno == ENOENT ? ENXIO : errno;
		close(fd);
		fd = -1;
	}
	errno = saved;
	return fd;
}
