/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Connections to the daemon: each is a Unix socket, connected to one that the daemon has bound to a
 * name in the tree.
 *
 * No table says which descriptors are ours. The kernel knows: the peer of a connection has the name
 * that the daemon bound, and keeps it through dup(), fork(), execve() and SCM_RIGHTS and after
 * the daemon has died. All that counts is the end of that name, .../tree/<node>, since the
 * directory before it may look different from another mount namespace.
 */
#ifndef SIMHCA_PRELOAD_DAEMON_H
#define SIMHCA_PRELOAD_DAEMON_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

struct daemon_peer {
	char text[sizeof(struct sockaddr_un) + 1];
};

/*
 * Where in the tree the peer of fd is, e.g. dev/infiniband/uverbs0: the peer's name after the last
 * "/tree/". NULL: it is not in a tree. Preserves errno.
 */
const char *daemon_peer(int fd, struct daemon_peer *peer);

/*
 * Connect to a node. type: SOCK_CLOEXEC and SOCK_NONBLOCK, or 0. A new descriptor, or -1 and errno:
 * ECONNREFUSED or ENOENT if nobody listens. Changes errno in any case.
 */
int daemon_connect(const char *node, int type);

#endif
