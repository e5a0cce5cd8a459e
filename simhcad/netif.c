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
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "netif.h"

#define RETRY 1.0 /* seconds until the caches are filled anew after an error */

struct netif {
	struct ev_loop *loop;
	void (*changed)(void *arg);
	void *arg;
	struct nl_cache_mngr *manager;
	struct nl_cache *links, *addresses; /* owned by the manager */
	ev_io io;
	ev_timer retry;
};

static void stop(struct netif *netif)
{
	if (netif->manager) {
		ev_io_stop(netif->loop, &netif->io);
		nl_cache_mngr_free(netif->manager);
	}
	netif->manager = NULL;
}

static void on_netlink(struct ev_loop *loop, ev_io *io, int events);

/* Fills the caches and listens. 0 or a libnl error. */
static int start(struct netif *netif)
{
	int ret = nl_cache_mngr_alloc(NULL, NETLINK_ROUTE, NL_AUTO_PROVIDE, &netif->manager);

	if (ret < 0) {
		netif->manager = NULL;
		return ret;
	}
	ev_io_init(&netif->io, on_netlink, nl_cache_mngr_get_fd(netif->manager), EV_READ);
	netif->io.data = netif;
	ret = nl_cache_mngr_add(netif->manager, "route/link", NULL, NULL, &netif->links);
	if (ret >= 0)
		ret = nl_cache_mngr_add(netif->manager, "route/addr", NULL, NULL,
					&netif->addresses);
	if (ret < 0) {
		stop(netif);
		return ret;
	}
	ev_io_start(netif->loop, &netif->io);
	return 0;
}

static void on_retry(struct ev_loop *loop, ev_timer *timer, int events)
{
	struct netif *netif = timer->data;
	int ret;

	stop(netif);
	ret = start(netif);
	if (ret < 0) {
		log_warning("network interfaces: %s; trying again", nl_geterror(ret));
		ev_timer_set(timer, RETRY, 0);
		ev_timer_start(loop, timer);
		return;
	}
	netif->changed(netif->arg);
}

static void on_netlink(struct ev_loop *loop, ev_io *io, int events)
{
	struct netif *netif = io->data;
	int ret = nl_cache_mngr_data_ready(netif->manager);

	if (ret >= 0) {
		netif->changed(netif->arg);
		return;
	}
	if (ret == -NLE_AGAIN || ret == -NLE_INTR)
		return;
	/* Messages were lost, or are not understood: look at everything again, in a while. */
	log_debug("network interfaces: %s", nl_geterror(ret));
	ev_io_stop(loop, io);
	ev_timer_set(&netif->retry, RETRY, 0);
	ev_timer_start(loop, &netif->retry);
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
	ev_timer_init(&netif->retry, on_retry, RETRY, 0);
	netif->retry.data = netif;
	ret = start(netif);
	if (ret < 0) {
		log_warning("network interfaces cannot be followed (netlink: %s)",
			    nl_geterror(ret));
		free(netif);
		return NULL;
	}
	return netif;
}

void netif_close(struct netif *netif)
{
	if (!netif)
		return;
	ev_timer_stop(netif->loop, &netif->retry);
	stop(netif);
	free(netif);
}

/*
 * The kernel tells of one link several times, once for each address family that has something to
 * say of it, and libnl keeps them all. The link itself is the one of no family.
 */
static struct rtnl_link *find_link(struct netif *netif, const char *name)
{
	for (struct nl_object *object = nl_cache_get_first(netif->links); object;
	     object = nl_cache_get_next(object)) {
		struct rtnl_link *link = (struct rtnl_link *)object;

		if (rtnl_link_get_family(link) == AF_UNSPEC &&
		    !strcmp(rtnl_link_get_name(link) ? rtnl_link_get_name(link) : "", name))
			return link;
	}
	return NULL;
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

/* Without netlink the only interface that we know something of is the one that is always there. */
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
	link = netif->manager ? find_link(netif, name) : NULL;
	if (!link)
		return false;
	describe_link(link, interface);
	add_addresses(netif, interface, AF_INET);
	add_addresses(netif, interface, AF_INET6);
	return true;
}

bool netif_has_address(struct netif *netif, const uint8_t address[16])
{
	if (!netif || !netif->manager)
		return false;
	for (struct nl_object *object = nl_cache_get_first(netif->addresses); object;
	     object = nl_cache_get_next(object)) {
		struct in6_addr has;

		if (address_of((struct rtnl_addr *)object, &has) &&
		    !memcmp(&has, address, sizeof(has)))
			return true;
	}
	return false;
}
