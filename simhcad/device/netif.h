/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The host's network interfaces and their addresses, followed as they change (libnl-route). */
#ifndef SIMHCAD_NETIF_H
#define SIMHCAD_NETIF_H

#include <ev.h>

#include "gid_table.h"

struct netif;

/*
 * changed is called from the event loop, after something did. NULL: what is wrong was logged; the
 * daemon can do without (in a sandbox without netlink), with interfaces that never change.
 */
struct netif *netif_open(struct ev_loop *loop, void (*changed)(void *arg), void *arg);
void netif_close(struct netif *netif);

/* False: there is no interface of this name. netif may be NULL. */
bool netif_get(struct netif *netif, const char *name, struct interface *interface);
/* Whether the interface of this name, NULL: any, has this address, IPv4 ones mapped into IPv6. */
bool netif_has_address(struct netif *netif, const char *name, const uint8_t address[16]);
/* Whether a host on that interface is found by ARP or NDP; false: nobody can say. */
bool netif_asks_neighbours(struct netif *netif, uint32_t index);

#endif
