/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* UDP sockets as the wire needs them: their addresses, their options, and the groups they join. */
#ifndef SIMHCAD_WIRE_SOCKET_H
#define SIMHCAD_WIRE_SOCKET_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "simhca-abi.h"

struct wire_peers;

/* The address of a GID's host, with a UDP port of this host's byte order: its length. */
socklen_t wire_socket_address(const union simhca_gid *gid, uint32_t ifindex, uint16_t port,
			      struct sockaddr_storage *storage);
/* The reverse. False: it is of no family of IP. */
bool wire_socket_gid(const struct sockaddr_storage *storage, union simhca_gid *gid, uint16_t *port);

/*
 * A socket at the port of RoCE v2, of an address of that interface or, joined there, of a group, which
 * takes what `peers` may send. runs: the kernel puts datagrams of one flow together, and cuts up what
 * is sent. -1 and errno.
 */
int wire_socket_receives(const union simhca_gid *gid, uint32_t ifindex, bool runs,
			 const struct wire_peers *peers);
/* One to send from, at that port, which takes nothing. -1 and errno. */
int wire_socket_sends(const union simhca_gid *gid, uint32_t ifindex, uint16_t port, bool runs);
/* Whether the kernel cuts up what is sent, and puts together what comes: Linux 5.0. */
bool wire_socket_has_runs(void);

#endif
