/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "daemon.h"
#include "paths.h"
#include "real.h"
#include "simhca-calls.h"

#define TREE "/tree/"

const char *daemon_peer(int fd, struct daemon_peer *peer)
{
	/* One byte more than an address has, for a path need not end with a NUL. */
	union {
		struct sockaddr_un un;
		char bytes[sizeof(struct sockaddr_un) + 1];
	} addr = { .un.sun_family = AF_UNSPEC };
	socklen_t len = sizeof(addr.un);
	const char *node = NULL;
	int saved = errno;

	if (getpeername(fd, (struct sockaddr *)&addr.un, &len)) {
		errno = saved;
		return NULL;
	}
	if (addr.un.sun_family != AF_UNIX || len <= offsetof(struct sockaddr_un, sun_path) ||
	    len > sizeof(addr.un) || !addr.un.sun_path[0])
		return NULL;
	addr.bytes[len] = '\0';
	strcpy(peer->text, addr.un.sun_path);
	/* The next one may begin with the slash that this one ends with. */
	for (const char *at = peer->text; (at = strstr(at, TREE)); at++)
		node = at + sizeof(TREE) - 1;
	return node;
}

int daemon_connect(const char *node, int type)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	struct path_buf buf;
	int fd, ret, saved;

	if (!paths_in_tree(&buf, "%s", node)) {
		errno = ENOENT;
		return -1;
	}
	/* The daemon could not have bound a longer name either. */
	if (strlen(buf.text) >= sizeof(addr.sun_path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	strcpy(addr.sun_path, buf.text);

	fd = REAL(socket)(AF_UNIX, SOCK_SEQPACKET | (type & SOCK_CLOEXEC), 0);
	if (fd < 0)
		return -1;
	/* Non-blocking comes after this, or a full backlog would fail what never fails. */
	do
		ret = simhca_call_connect(fd, (struct sockaddr *)&addr, sizeof(addr));
	while (ret && errno == EINTR);
	if (!ret && (type & SOCK_NONBLOCK))
		ret = fcntl(fd, F_SETFL, O_RDWR | O_NONBLOCK);
	if (!ret)
		return fd;
	saved = errno;
	simhca_call_close(fd);
	errno = saved;
	return -1;
}
