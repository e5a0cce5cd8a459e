/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The GID table of a port, made from the addresses of its network interface.
 *
 * Entry 0 is link-local: the interface's own link-local address where it has one, else from its
 * MAC address, else (the loopback interface) from the node GUID. The others are the IPv4
 * addresses, mapped into IPv6, then the global IPv6 addresses; an address keeps its entry as long
 * as it exists. The last entry always stays empty. On InfiniBand there is entry 0 alone, made
 * from the GUID; so it is on EFA, or with a wire made of the first address that other networks reach.
 */
#ifndef SIMHCAD_GID_TABLE_H
#define SIMHCAD_GID_TABLE_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#include "simhca-abi.h"

#define INTERFACE_ADDRESSES 64 /* that are looked at; most find no room in the table anyway */

/* What we want to know of a network interface. */
struct interface {
	uint32_t index;
	bool up; /* can carry packets */
	uint32_t mtu;
	bool has_mac;
	uint8_t mac[6];
	struct in6_addr link_local;			/* all zero: none */
	struct in6_addr addresses[INTERFACE_ADDRESSES]; /* IPv4 ones mapped, and first */
	unsigned int num_addresses;
};

struct gid_source {
	const struct interface *interface; /* NULL: it does not exist */
	uint64_t guid;			   /* host order */
	bool infiniband;		   /* or EFA without a wire: one entry, from the GUID */
	bool single;	/* EFA with a wire: one entry, the first global address */
	bool guid_only; /* entry 0 from the GUID, as another device has the interface's own */
};

/* Brings the table up to date; returns whether it changed. */
bool gid_table_update(struct simhca_gid_entry gids[SIMHCA_GID_ENTRIES],
		      const struct gid_source *source);

#define GID_TEXT 40 /* bytes */
/* As sysfs writes it: all digits. */
void gid_print(const union simhca_gid *gid, char text[GID_TEXT]);
bool gid_is_empty(const union simhca_gid *gid);

#endif
