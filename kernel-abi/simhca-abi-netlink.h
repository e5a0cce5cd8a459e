/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * RDMA netlink between the preload library and the daemon: a connection for each netlink socket,
 * AF_UNIX SOCK_SEQPACKET, whose datagrams are netlink's and nothing else.
 *
 * A netlink socket has an address, its port id, that no other socket of the network namespace has,
 * and answers carry it. The kernel keeps it here as it does there: the client binds its end of the
 * connection to an abstract name that says it, and the daemon reads that.
 */
#ifndef SIMHCA_ABI_NETLINK_H
#define SIMHCA_ABI_NETLINK_H

#define SIMHCA_NETLINK_NODE "netlink/rdma"    /* where the daemon listens, in the device tree */
#define SIMHCA_NETLINK_NAME "simhca-netlink/" /* after the NUL that makes a name abstract */
#define SIMHCA_NETLINK_PORT SIMHCA_NETLINK_NAME "%u"

#endif
