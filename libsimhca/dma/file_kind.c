/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "file_kind.h"

/*
 * A file of that name can be made in a mount namespace of one's own, but the kernel alone writes
 * what is in fdinfo, and asks no file system for it.
 */
static bool has_exporter(int fd)
{
	char path[40], line[256];
	bool found = false;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	file = fopen(path, "re");
	if (!file)
		return false;
	while (!found && fgets(line, sizeof(line), file))
		found = !strncmp(line, "exp_name:", strlen("exp_name:"));
	fclose(file);
	return found;
}

enum simhca_file_kind simhca_file_kind(int fd)
{
	char path[40], target[40];
	socklen_t size = sizeof(int);
	ssize_t length;
	int domain, type;

	/*
	 * Read from the socket without its lock; fails at once on what is no socket. Of a datagram
	 * socket whose peer has gone, send() empties the queue, and closes what was in there.
	 */
	if (!getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size))
		return domain == AF_UNIX && !getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) &&
				       type != SOCK_DGRAM
			       ? SIMHCA_FILE_UNIX_SOCKET
			       : SIMHCA_FILE_OTHER;
	/* Only files that lie in memory have seals; the kernel tells them by their operations. */
	if (fcntl(fd, F_GET_SEALS) >= 0)
		return SIMHCA_FILE_MEMORY;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	length = readlink(path, target, sizeof(target) - 1);
	if (length < 0)
		return SIMHCA_FILE_OTHER;
	target[length] = '\0';
	/* No path begins like this. */
	if (!strcmp(target, "anon_inode:[userfaultfd]"))
		return SIMHCA_FILE_USERFAULTFD;
	if (!strncmp(target, "/dmabuf:", strlen("/dmabuf:")) && has_exporter(fd))
		return SIMHCA_FILE_DMABUF;
	return SIMHCA_FILE_OTHER;
}

/* False if it cannot be told. */
static bool kernel_overcommits(void)
{
	int fd = open("/proc/sys/vm/overcommit_memory", O_RDONLY | O_CLOEXEC);
	char mode = '2';

	if (fd < 0)
		return false;
	if (read(fd, &mode, 1) != 1)
		mode = '2';
	close(fd);
	return mode != '2';
}

bool simhca_file_has_ordinary_pages(int fd)
{
	struct statfs fs;

	return !fstatfs(fd, &fs) && fs.f_type == TMPFS_MAGIC;
}

bool simhca_file_never_fails(int fd)
{
	int seals = fcntl(fd, F_GET_SEALS);

	/* Files of a tmpfs that is mounted, which has a size, can have no such seal. */
	return seals >= 0 && (seals & F_SEAL_SHRINK) && simhca_file_has_ordinary_pages(fd) &&
	       kernel_overcommits();
}
