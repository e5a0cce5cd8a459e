/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <net/if.h>
#include <linux/if_addr.h>
#include <linux/rtnetlink.h>
#include <netlink/cache.h>
#include <netlink/errno.h>
#include <netlink/netlink.h>
#include <netlink/route/addr.h>
#include <netlink/route/link.h>
#include <netlink/socket.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/log.h"
#include "netif.h"

#define INTERVAL 0.1 /* seconds between two looks; the first change is looked at at once */
#define RETRY 1.0    /* seconds until it is tried again, after an error */
#define MESSAGES 256 /* that are taken before others have their turn */

/*
 * The kernel tells of changes on one socket, and what there is is asked for on another. Of a notice
 * nothing is read: it says that there is something to ask for, and so does one that was lost.
 */
struct netif {
	struct ev_loop *loop;
	void (*changed)(void *arg);
	void *arg;
	struct nl_sock *notices, *questions;
	struct nl_cache *links, *addresses; /* what there was when it was last asked for */
	ev_io io;
	ev_timer timer; /* runs when it was looked at lately: the next look has to wait for it */
	bool outdated;	/* there was a notice since */
	bool failing;	/* the last look failed, and that was logged */
};

/* A socket that is connected to the kernel. 0 or a libnl error. */
static int open_socket(struct nl_sock **socket)
{
	int ret;

	*socket = nl_socket_alloc();
	if (!*socket)
		return -NLE_NOMEM;
	/* Of two answers on one socket the first has been taken whole, or thrown away. */
	nl_socket_disable_seq_check(*socket);
	ret = nl_connect(*socket, NETLINK_ROUTE);
	if (ret >= 0)
		return 0;
	nl_socket_free(*socket);
	*socket = NULL;
	return ret;
}

/* Takes what waits there. Whether there was anything; an error is that something was lost. */
static bool drain(struct nl_sock *socket)
{
	unsigned int messages = 0;
	char byte;

	while (messages < MESSAGES &&
	       (recv(nl_socket_get_fd(socket), &byte, sizeof(byte), MSG_DONTWAIT) >= 0 ||
		errno != EAGAIN))
		messages++;
	return messages;
}

/*
 * 0 or a libnl error: then what was known before stays, and the rest of the answer is in the way of
 * the next one.
 */
static int ask(struct netif *netif)
{
	struct nl_cache *links, *addresses;
	int ret;

	drain(netif->questions);
	ret = rtnl_link_alloc_cache(netif->questions, AF_UNSPEC, &links);
	if (ret < 0)
		return ret;
	ret = rtnl_addr_alloc_cache(netif->questions, &addresses);
	if (ret < 0) {
		nl_cache_free(links);
		return ret;
	}
	nl_cache_free(netif->links);
	nl_cache_free(netif->addresses);
	netif->links = links;
	netif->addresses = addresses;
	return 0;
}

static void look(struct netif *netif)
{
	int ret = ask(netif);

	if (ret < 0 && !netif->failing)
		log_warning("network interfaces: %s; trying again", nl_geterror(ret));
	netif->failing = ret < 0;
	netif->outdated = netif->failing;
	ev_timer_set(&netif->timer, netif->failing ? RETRY : INTERVAL, 0);
	ev_timer_start(netif->loop, &netif->timer);
	if (!netif->failing)
		netif->changed(netif->arg);
}

static void on_timer(struct ev_loop *loop, ev_timer *timer, int events)
{
	struct netif *netif = timer->data;

	if (netif->outdated)
		look(netif);
}

static void on_notice(struct ev_loop *loop, ev_io *io, int events)
{
	struct netif *netif = io->data;

	netif->outdated |= drain(netif->notices);
	if (netif->outdated && !ev_is_active(&netif->timer))
		look(netif);
}

static void free_all(struct netif *netif)
{
	nl_cache_free(netif->links);
	nl_cache_free(netif->addresses);
	nl_socket_free(netif->notices);
	nl_socket_free(netif->questions);
	free(netif);
}

/* Notices first, that no change between the two is missed. 0 or a libnl error. */
static int start(struct netif *netif)
{
	int ret = open_socket(&netif->notices);

	if (!ret)
		ret = nl_socket_add_memberships(netif->notices, RTNLGRP_LINK, RTNLGRP_IPV4_IFADDR,
						RTNLGRP_IPV6_IFADDR, 0);
	if (!ret)
		ret = open_socket(&netif->questions);
	return ret ? ret : ask(netif);
}

struct netif *netif_open(struct ev_loop *loop, void (*changed)(void *arg), void *arg)
{
	struct netif *netif = calloc(1, sizeof(*netif));
	int ret;

	if (!netif)
		return NULL;
	netif->loop = loop;
	netif->changed = changed;
	netif->arg = arg;
	ret = start(netif);
	if (ret < 0) {
		log_warning("network interfaces cannot be followed (netlink: %s)",
			    nl_geterror(ret));
		free_all(netif);
		return NULL;
	}
	ev_timer_init(&netif->timer, on_timer, INTERVAL, 0);
	netif->timer.data = netif;
	ev_io_init(&netif->io, on_notice, nl_socket_get_fd(netif->notices), EV_READ);
	netif->io.data = netif;
	ev_io_start(loop, &netif->io);
	return netif;
}

void netif_close(struct netif *netif)
{
	if (!netif)
		return;
	ev_timer_stop(netif->loop, &netif->timer);
	ev_io_stop(netif->loop, &netif->io);
	free_all(netif);
}

static void describe_link(struct rtnl_link *link, struct interface *interface)
{
	unsigned int flags = rtnl_link_get_flags(link);
	struct nl_addr *mac = rtnl_link_get_addr(link);

	interface->index = (uint32_t)rtnl_link_get_ifindex(link);
	interface->mtu = rtnl_link_get_mtu(link);
	interface->up = flags & IFF_UP && (flags & IFF_LOOPBACK || flags & IFF_RUNNING);
	if (!(flags & IFF_LOOPBACK) && mac && nl_addr_get_len(mac) == sizeof(interface->mac)) {
		memcpy(interface->mac, nl_addr_get_binary_addr(mac), sizeof(interface->mac));
		interface->has_mac = true;
	}
}

/* In the way of a GID: IPv4 mapped into IPv6. */
static bool address_of(struct rtnl_addr *addr, struct in6_addr *address)
{
	struct nl_addr *local = rtnl_addr_get_local(addr);
	int family = rtnl_addr_get_family(addr);

	memset(address, 0, sizeof(*address));
	if (!local)
		return false;
	if (family == AF_INET && nl_addr_get_len(local) == 4) {
		address->s6_addr[10] = address->s6_addr[11] = 0xff;
		memcpy(address->s6_addr + 12, nl_addr_get_binary_addr(local), 4);
		return true;
	}
	if (family != AF_INET6 || nl_addr_get_len(local) != sizeof(*address))
		return false;
	memcpy(address, nl_addr_get_binary_addr(local), sizeof(*address));
	return true;
}

static void add_address(struct interface *interface, const struct in6_addr *address)
{
	if (interface->num_addresses < INTERFACE_ADDRESSES)
		interface->addresses[interface->num_addresses++] = *address;
}

/* One pass for each family, so that IPv4 comes first. */
static void add_addresses(struct netif *netif, struct interface *interface, int family)
{
	for (struct nl_object *object = nl_cache_get_first(netif->addresses); object;
	     object = nl_cache_get_next(object)) {
		struct rtnl_addr *addr = (struct rtnl_addr *)object;
		struct in6_addr address;

		if (rtnl_addr_get_ifindex(addr) != (int)interface->index ||
		    rtnl_addr_get_family(addr) != family || !address_of(addr, &address))
			continue;
		if (family == AF_INET) {
			add_address(interface, &address);
			continue;
		}
		/* Not yet usable, or never. */
		if (rtnl_addr_get_flags(addr) & (IFA_F_TENTATIVE | IFA_F_DADFAILED))
			continue;
		if (rtnl_addr_get_scope(addr) == RT_SCOPE_UNIVERSE)
			add_address(interface, &address);
		else if (rtnl_addr_get_scope(addr) == RT_SCOPE_LINK &&
			 IN6_IS_ADDR_UNSPECIFIED(&interface->link_local))
			interface->link_local = address;
	}
}

/* Without netlink only the index of an interface is known, and of lo, which always exists, its address. */
static bool guess(const char *name, struct interface *interface)
{
	static const uint8_t loopback[] = { 127, 0, 0, 1 };

	interface->index = if_nametoindex(name);
	interface->up = true;
	if (strcmp(name, "lo"))
		return interface->index;
	if (!interface->index)
		interface->index = 1;
	interface->addresses[0].s6_addr[10] = interface->addresses[0].s6_addr[11] = 0xff;
	memcpy(interface->addresses[0].s6_addr + 12, loopback, sizeof(loopback));
	interface->num_addresses = 1;
	return true;
}

bool netif_get(struct netif *netif, const char *name, struct interface *interface)
{
	struct rtnl_link *link;

	memset(interface, 0, sizeof(*interface));
	if (!netif)
		return guess(name, interface);
	link = rtnl_link_get_by_name(netif->links, name);
	if (!link)
		return false;
	describe_link(link, interface);
	rtnl_link_put(link);
	add_addresses(netif, interface, AF_INET);
	add_addresses(netif, interface, AF_INET6);
	return true;
}

bool netif_has_address(struct netif *netif, const char *name, const uint8_t address[16])
{
	const int index = netif && name ? rtnl_link_name2i(netif->links, name) : 0;

	if (!netif || (name && !index))
		return false;
	for (struct nl_object *object = nl_cache_get_first(netif->addresses); object;
	     object = nl_cache_get_next(object)) {
		struct rtnl_addr *addr = (struct rtnl_addr *)object;
		struct in6_addr has;

		if ((!index || rtnl_addr_get_ifindex(addr) == index) && address_of(addr, &has) &&
		    !memcmp(&has, address, sizeof(has)))
			return true;
	}
	return false;
}

bool netif_asks_neighbours(struct netif *netif, uint32_t index)
{
	struct rtnl_link *link = netif ? rtnl_link_get(netif->links, (int)index) : NULL;
	bool asks = link && !(rtnl_link_get_flags(link) & (IFF_LOOPBACK | IFF_NOARP));

	rtnl_link_put(link);
	return asks;
}
