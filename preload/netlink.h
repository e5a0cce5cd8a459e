/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * RDMA netlink sockets: connections to the daemon, which speaks netlink on them. What differs from
 * a netlink socket is the addresses, and those are translated here.
 */
#ifndef SIMHCA_PRELOAD_NETLINK_H
#define SIMHCA_PRELOAD_NETLINK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

/* Is fd one? Preserves errno. */
bool netlink_of_fd(int fd);

/*
 * socket(AF_NETLINK, type, NETLINK_RDMA). A new descriptor, or -1 and errno: EPROTONOSUPPORT, as of
 * a kernel without RDMA, if no daemon listens.
 */
int netlink_open(int type);

/*
 * bind() of one, to a netlink address: as the call. Port id 0 asks for a free one, that of the process
 * if it can be had.
 */
int netlink_bind(int fd, const struct sockaddr *addr, socklen_t len, pid_t process);

/* setsockopt() of SOL_NETLINK: 0 or a positive errno. */
int netlink_set_option(int name, socklen_t len);

/* The port id that it is bound to; 0: none. Preserves errno. */
uint32_t netlink_port(int fd);

/* A netlink address in place of what is in addr; *len as in getsockname(). */
void netlink_put_address(uint32_t port, struct sockaddr *addr, socklen_t *len, socklen_t room);

#endif
