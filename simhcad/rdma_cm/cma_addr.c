/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Addresses: IPv4, IPv6 and AF_IB, and the devices that have them. */
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <string.h>

#include "cma.h"
#include "device/netif.h"

bool cma_addr_is_zero(const union cma_addr *addr)
{
	static const union simhca_gid zero;

	switch (addr->sa.sa_family) {
	case AF_INET:
		return !addr->in.sin_addr.s_addr;
	case AF_INET6:
		return IN6_IS_ADDR_UNSPECIFIED(&addr->in6.sin6_addr);
	case AF_IB:
		return !memcmp(&addr->ib.gid, &zero, sizeof(zero));
	default:
		return true;
	}
}

bool cma_addr_is_loopback(const union cma_addr *addr)
{
	switch (addr->sa.sa_family) {
	case AF_INET:
		return ntohl(addr->in.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
	case AF_INET6:
	case AF_IB: /* both have 16 bytes at the same place */
		return IN6_IS_ADDR_LOOPBACK(&addr->in6.sin6_addr);
	default:
		return false;
	}
}

bool cma_addr_is_any(const union cma_addr *addr)
{
	return cma_addr_is_zero(addr) || cma_addr_is_loopback(addr);
}

bool cma_addr_is_link_local(const union cma_addr *addr)
{
	return addr->sa.sa_family == AF_INET6 && (IN6_IS_ADDR_LINKLOCAL(&addr->in6.sin6_addr) ||
						  IN6_IS_ADDR_MC_LINKLOCAL(&addr->in6.sin6_addr));
}

bool cma_addr_is_mapped(const union cma_addr *addr)
{
	return addr->sa.sa_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&addr->in6.sin6_addr);
}

bool cma_addr_is_multicast(const union cma_addr *addr)
{
	if (addr->sa.sa_family == AF_INET)
		return IN_MULTICAST(ntohl(addr->in.sin_addr.s_addr));
	return addr->in6.sin6_addr.s6_addr[0] == 0xff;
}

bool cma_addr_equal(const union cma_addr *a, const union cma_addr *b)
{
	if (a->sa.sa_family != b->sa.sa_family)
		return false;
	if (a->sa.sa_family == AF_INET)
		return a->in.sin_addr.s_addr == b->in.sin_addr.s_addr;
	return !memcmp(&a->in6.sin6_addr, &b->in6.sin6_addr, sizeof(a->in6.sin6_addr));
}

uint16_t cma_addr_port(const union cma_addr *addr)
{
	switch (addr->sa.sa_family) {
	case AF_INET:
	case AF_INET6:
		return ntohs(addr->in.sin_port);
	case AF_IB:
		return (uint16_t)(be64toh(addr->ib.sid) & be64toh(addr->ib.sid_mask));
	default:
		return 0;
	}
}

void cma_addr_set_port(union cma_addr *addr, uint16_t port)
{
	if (addr->sa.sa_family == AF_IB) {
		uint64_t sid = be64toh(addr->ib.sid);

		addr->ib.sid = htobe64((sid & ~UINT64_C(0xffff)) | port);
		addr->ib.sid_mask = UINT64_MAX;
	} else {
		addr->in.sin_port = htons(port);
	}
}

size_t cma_addr_size(const union cma_addr *addr)
{
	switch (addr->sa.sa_family) {
	case AF_INET:
		return sizeof(addr->in);
	case AF_INET6:
		return sizeof(addr->in6);
	case AF_IB:
		return sizeof(addr->ib);
	default:
		return 0;
	}
}

void cma_addr_gid(const union cma_addr *addr, union simhca_gid *gid)
{
	memset(gid, 0, sizeof(*gid));
	if (addr->sa.sa_family == AF_INET) {
		gid->raw[10] = gid->raw[11] = 0xff;
		memcpy(gid->raw + 12, &addr->in.sin_addr, 4);
	} else {
		memcpy(gid->raw, &addr->in6.sin6_addr, sizeof(gid->raw));
	}
}

void cma_addr_from_ip(union cma_addr *addr, uint8_t version, const uint8_t ip[16], uint16_t port)
{
	memset(addr, 0, sizeof(*addr));
	if (version == 4) {
		addr->sa.sa_family = AF_INET;
		memcpy(&addr->in.sin_addr, ip + 12, 4);
	} else {
		addr->sa.sa_family = AF_INET6;
		memcpy(&addr->in6.sin6_addr, ip, 16);
	}
	addr->in.sin_port = htons(port);
}

const char *cma_addr_print(const union cma_addr *addr, char text[CMA_ADDR_TEXT])
{
	char ip[INET6_ADDRSTRLEN] = "";
	unsigned int port = cma_addr_port(addr);

	if (addr->sa.sa_family == AF_INET) {
		inet_ntop(AF_INET, &addr->in.sin_addr, ip, sizeof(ip));
		snprintf(text, CMA_ADDR_TEXT, "%s:%u", ip, port);
	} else if (addr->sa.sa_family) {
		inet_ntop(AF_INET6, &addr->in6.sin6_addr, ip, sizeof(ip));
		snprintf(text, CMA_ADDR_TEXT, "[%s]:%u", ip, port);
	} else {
		snprintf(text, CMA_ADDR_TEXT, "no address");
	}
	return text;
}

const char *cma_ps_name(uint16_t ps)
{
	switch (ps) {
	case RDMA_PS_TCP:
		return "TCP";
	case RDMA_PS_UDP:
		return "UDP";
	case RDMA_PS_IPOIB:
		return "IPOIB";
	default:
		return "IB";
	}
}

static bool is_active(const struct device *device)
{
	return simhca_device_memory(device->model)->port.state == IBV_PORT_ACTIVE;
}

/* The entry of a GID in a device's table, or -1. */
static int find_gid(const struct device *device, const union simhca_gid *gid)
{
	if (gid_is_empty(gid))
		return -1;
	for (int i = 0; i < SIMHCA_GID_ENTRIES; i++)
		if (!memcmp(&device->gids[i].gid, gid, sizeof(*gid)))
			return i;
	return -1;
}

/* On InfiniBand the port has no IP address: that of the interface stands for it, as IPoIB's. */
static bool interface_has(const struct device *device, const union simhca_gid *gid)
{
	struct interface interface;

	if (!netif_get(device->daemon->netif, device->options->settings.netdev, &interface))
		return false;
	for (unsigned int i = 0; i < interface.num_addresses; i++)
		if (!memcmp(&interface.addresses[i], gid->raw, sizeof(gid->raw)))
			return true;
	return false;
}

/* Its interface's first address of a family, mapped into IPv6; false: it has none. */
static bool address_of_interface(const struct device *device, int family, union simhca_gid *gid)
{
	struct interface interface;

	if (!netif_get(device->daemon->netif, device->options->settings.netdev, &interface))
		return false;
	for (unsigned int i = 0; i < interface.num_addresses; i++) {
		const struct in6_addr *address = &interface.addresses[i];

		if (IN6_IS_ADDR_V4MAPPED(address) != (family == AF_INET))
			continue;
		memcpy(gid->raw, address, sizeof(gid->raw));
		return true;
	}
	return false;
}

void cma_addr_of_source(const struct device *device, uint8_t sgid_index, const union cma_addr *dst,
			union cma_addr *src)
{
	const int family = dst->sa.sa_family;
	union cma_addr loopback = { .in6 = { .sin6_addr = IN6ADDR_LOOPBACK_INIT } };
	union simhca_gid gid = device->gids[sgid_index].gid;

	if (family == AF_INET) {
		memset(&loopback, 0, sizeof(loopback));
		loopback.in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	}
	loopback.sa.sa_family = (sa_family_t)family;
	/* A GID of InfiniBand is no IP address. */
	if (cma_addr_is_any(dst) || (family != AF_IB && device->options->settings.infiniband &&
				     !address_of_interface(device, family, &gid)))
		cma_addr_gid(&loopback, &gid);
	if (family == AF_INET)
		memcpy(&src->in.sin_addr, gid.raw + 12, 4);
	else
		memcpy(&src->in6.sin6_addr, gid.raw, 16);
}

/* The first device that has the address; of those with a wire alone, if that is asked for. */
static struct device *find_device(struct cma *cma, const union cma_addr *addr, bool has_wire,
				  uint8_t *sgid_index)
{
	union simhca_gid gid;

	if (cma_addr_is_mapped(addr))
		return NULL;
	cma_addr_gid(addr, &gid);
	for (unsigned int i = 0; i < cma->daemon->num_devices; i++) {
		struct device *device = &cma->daemon->devices[i];
		int index = find_gid(device, &gid);

		if (has_wire && !device->options->settings.wire)
			continue;
		if (index < 0 && device->options->settings.infiniband &&
		    interface_has(device, &gid))
			index = 0;
		if (index < 0)
			continue;
		*sgid_index = (uint8_t)index;
		return device;
	}
	return NULL;
}

struct device *cma_addr_device(struct cma *cma, const union cma_addr *addr, uint8_t *sgid_index)
{
	return find_device(cma, addr, false, sgid_index);
}

struct device *cma_wire_device(struct cma *cma, const union cma_addr *addr, uint8_t *sgid_index)
{
	return find_device(cma, addr, true, sgid_index);
}

static bool fits_family(const union simhca_gid *gid, int family)
{
	bool mapped = IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)(const void *)gid);

	return !gid_is_empty(gid) && (family == AF_INET ? mapped : !mapped);
}

/* The GID to speak with an address elsewhere: link-local to link-local, and no other. */
static bool find_scope(const struct device *device, const union cma_addr *addr, uint8_t *sgid_index)
{
	bool link_local =
		addr->sa.sa_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&addr->in6.sin6_addr);

	for (int i = 0; i < SIMHCA_GID_ENTRIES; i++) {
		const union simhca_gid *gid = &device->gids[i].gid;

		if (!fits_family(gid, addr->sa.sa_family) ||
		    IN6_IS_ADDR_LINKLOCAL((const struct in6_addr *)(const void *)gid) != link_local)
			continue;
		*sgid_index = (uint8_t)i;
		return true;
	}
	return false;
}

struct device *cma_interface_device(struct cma *cma, const union cma_addr *addr,
				    uint8_t *sgid_index)
{
	union simhca_gid gid;

	cma_addr_gid(addr, &gid);
	for (unsigned int i = 0; i < cma->daemon->num_devices; i++) {
		struct device *device = &cma->daemon->devices[i];

		if (!device->options->settings.infiniband &&
		    netif_has_address(cma->daemon->netif, device->options->settings.netdev,
				      gid.raw) &&
		    find_scope(device, addr, sgid_index))
			return device;
	}
	return NULL;
}

bool cma_has_wire(struct cma *cma)
{
	for (unsigned int i = 0; i < cma->daemon->num_devices; i++)
		if (cma->daemon->devices[i].options->settings.wire &&
		    is_active(&cma->daemon->devices[i]))
			return true;
	return false;
}

struct device *cma_any_device(struct cma *cma, const union cma_addr *addr, uint8_t *sgid_index)
{
	for (unsigned int i = 0; i < cma->daemon->num_devices; i++) {
		struct device *device = &cma->daemon->devices[i];

		if (!is_active(device))
			continue;
		*sgid_index = 0;
		if (device->options->settings.wire && find_scope(device, addr, sgid_index))
			return device;
		for (int gid = 0; gid < SIMHCA_GID_ENTRIES; gid++) {
			if (fits_family(&device->gids[gid].gid, addr->sa.sa_family) &&
			    !device->options->settings.infiniband) {
				*sgid_index = (uint8_t)gid;
				break;
			}
		}
		return device;
	}
	return NULL;
}
