/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Who may talk to us by the wire: addresses and networks, as --wire-peers has them. */
#ifndef SIMHCAD_WIRE_PEERS_H
#define SIMHCAD_WIRE_PEERS_H

#include <stdbool.h>

#include "simhca-abi.h"

#define WIRE_PEERS_MOST 64

struct wire_peers {
	unsigned int count; /* 0: everybody */
	struct wire_net {
		union simhca_gid gid;
		unsigned int bits; /* of the GID that count; those of IPv4 begin at 96 */
	} net[WIRE_PEERS_MOST];
};

/* "10.0.0.0/8,fd00::1"; NULL: everybody. -1: it makes no sense. */
int wire_peers_parse(const char *text, struct wire_peers *peers);

/*
 * Has the kernel drop on a socket what comes from others; it counts that as the socket's drops.
 * -1 and errno.
 */
int wire_peers_filter(const struct wire_peers *peers, int fd, bool ipv4);

#endif
