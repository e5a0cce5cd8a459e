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

struct daemon;
struct nl_server;

/* NULL: what is wrong was logged. */
struct nl_server *nl_server_open(struct daemon *daemon);
void nl_server_close(struct nl_server *server); /* may be NULL */

#endif
