/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * RDMA netlink: the socket <runtime directory>/tree/netlink/rdma. Under the preload library a
 * program's socket(AF_NETLINK, .., NETLINK_RDMA) is a connection to it; each datagram, either way,
 * is one of netlink's.
 *
 * A client that does not read its answers gets no more of them, and nothing more is read from it,
 * until it does. When there are too many clients the one that was silent for longest is
 * disconnected.
 */
#ifndef SIMHCAD_NL_SERVER_H
#define SIMHCAD_NL_SERVER_H

#include "loop/listener.h"

struct daemon;
struct nl_client;

#define NL_SERVER_CLIENTS 1024

struct nl_server {
	struct daemon *daemon;
	struct listener listener;
	struct nl_client *clients; /* utlist; who was silent for longest comes first */
	unsigned int num_clients;
};

/* -1: what is wrong was logged. */
int nl_server_open(struct nl_server *server, struct daemon *daemon);
/* May be called for one that was never opened, all zero. */
void nl_server_close(struct nl_server *server);

#endif
