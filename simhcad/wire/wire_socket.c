/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <string.h>
#include <unistd.h>

#include "core/av.h"
#include "link/wire/wire.h"
#include "wire_peers.h"
#include "wire_socket.h"

#define BUFFER_BYTES (4 << 20) /* of a socket, if we may */

socklen_t wire_socket_address(const union simhca_gid *gid, uint32_t ifindex, uint16_t port,
			      struct sockaddr_storage *storage)
{
	struct sockaddr_in6 *ipv6 = (struct sockaddr_in6 *)storage;
	struct sockaddr_in *ipv4 = (struct sockaddr_in *)storage;

	memset(storage, 0, sizeof(*storage));
	if (simhca_gid_is_ipv4(gid)) {
		ipv4->sin_family = AF_INET;
		ipv4->sin_port = htons(port);
		memcpy(&ipv4->sin_addr, gid->raw + 12, sizeof(ipv4->sin_addr));
		return sizeof(*ipv4);
	}
	ipv6->sin6_family = AF_INET6;
	ipv6->sin6_port = htons(port);
	memcpy(&ipv6->sin6_addr, gid->raw, sizeof(ipv6->sin6_addr));
	if (IN6_IS_ADDR_LINKLOCAL(&ipv6->sin6_addr) || IN6_IS_ADDR_MC_LINKLOCAL(&ipv6->sin6_addr))
		ipv6->sin6_scope_id = ifindex;
	return sizeof(*ipv6);
}

bool wire_socket_gid(const struct sockaddr_storage *storage, union simhca_gid *gid, uint16_t *port)
{
	const struct sockaddr_in6 *ipv6 = (const struct sockaddr_in6 *)storage;
	const struct sockaddr_in *ipv4 = (const struct sockaddr_in *)storage;

	memset(gid, 0, sizeof(*gid));
	switch (storage->ss_family) {
	case AF_INET:
		memset(gid->raw + 10, 0xff, 2);
		memcpy(gid->raw + 12, &ipv4->sin_addr, sizeof(ipv4->sin_addr));
		*port = ntohs(ipv4->sin_port);
		return true;
	case AF_INET6:
		memcpy(gid->raw, &ipv6->sin6_addr, sizeof(ipv6->sin6_addr));
		*port = ntohs(ipv6->sin6_port);
		return true;
	default:
		return false;
	}
}

static int set(int fd, int level, int option, int value)
{
	return setsockopt(fd, level, option, &value, sizeof(value));
}

/*
 * The ICRC covers all of the IP header that does not change on the way: so DF is set, and with it
 * an unconnected socket's identification is 0. UDP's own checksum is left to the ICRC, unless runs
 * are sent: the kernel cuts up nothing that has none.
 */
static int set_options(int fd, bool ipv4, bool runs)
{
	if (set(fd, SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES))
		set(fd, SOL_SOCKET, SO_RCVBUF, BUFFER_BYTES);
	if (set(fd, SOL_SOCKET, SO_SNDBUFFORCE, BUFFER_BYTES))
		set(fd, SOL_SOCKET, SO_SNDBUF, BUFFER_BYTES);
	if (runs && set(fd, SOL_UDP, UDP_GRO, 1))
		return -1;
	if (ipv4)
		return set(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO) ||
		       set(fd, IPPROTO_IP, IP_RECVTOS, 1) || set(fd, IPPROTO_IP, IP_RECVTTL, 1) ||
		       (!runs && set(fd, SOL_SOCKET, SO_NO_CHECK, 1));
	return set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1) ||
	       set(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO) ||
	       set(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, 1) ||
	       set(fd, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 1) ||
	       (!runs && set(fd, IPPROTO_UDP, UDP_NO_CHECK6_TX, 1)) ||
	       set(fd, IPPROTO_UDP, UDP_NO_CHECK6_RX, 1);
}

/*
 * What goes to a group leaves by the interface that has the address; its members here get it by
 * another way.
 */
static int set_multicast(int fd, const union simhca_gid *gid, uint32_t ifindex)
{
	const struct ip_mreqn by = { .imr_ifindex = (int)ifindex };

	if (!simhca_gid_is_ipv4(gid))
		return set(fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, (int)ifindex) ||
		       set(fd, IPPROTO_IPV6, IPV6_MULTICAST_LOOP, 0);
	return setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &by, sizeof(by)) ||
	       set(fd, IPPROTO_IP, IP_MULTICAST_LOOP, 0);
}

static int join(int fd, const union simhca_gid *gid, uint32_t ifindex)
{
	struct ipv6_mreq ipv6 = { .ipv6mr_interface = ifindex };
	struct ip_mreqn ipv4 = { .imr_ifindex = (int)ifindex };

	memcpy(&ipv4.imr_multiaddr, gid->raw + 12, sizeof(ipv4.imr_multiaddr));
	memcpy(&ipv6.ipv6mr_multiaddr, gid->raw, sizeof(ipv6.ipv6mr_multiaddr));
	if (simhca_gid_is_ipv4(gid))
		return set(fd, IPPROTO_IP, IP_MULTICAST_ALL, 0) ||
		       setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &ipv4, sizeof(ipv4));
	return set(fd, IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0) ||
	       setsockopt(fd, IPPROTO_IPV6, IPV6_JOIN_GROUP, &ipv6, sizeof(ipv6));
}

static bool bind_to(int fd, const union simhca_gid *gid, uint32_t ifindex, uint16_t port)
{
	struct sockaddr_storage address;
	socklen_t length = wire_socket_address(gid, ifindex, port, &address);

	/* Other daemons can be members of a group as well. */
	if (simhca_gid_is_group(gid))
		return !set(fd, SOL_SOCKET, SO_REUSEADDR, 1) &&
		       !bind(fd, (void *)&address, length) && !join(fd, gid, ifindex);
	return !set_multicast(fd, gid, ifindex) && !bind(fd, (void *)&address, length);
}

/* Before it is bound, so that nothing is ever taken. */
static bool take_nothing(int fd)
{
	struct sock_filter none = BPF_STMT(BPF_RET | BPF_K, 0);
	const struct sock_fprog program = { .len = 1, .filter = &none };

	return !setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program));
}

/* peers: who may send to it; NULL: nobody. */
static int open_socket(const union simhca_gid *gid, uint32_t ifindex, uint16_t port, bool runs,
		       const struct wire_peers *peers)
{
	bool ipv4 = simhca_gid_is_ipv4(gid);
	int fd = socket(ipv4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int error;

	if (fd >= 0 && !set_options(fd, ipv4, runs) &&
	    (peers ? !wire_peers_filter(peers, fd, ipv4) : take_nothing(fd)) &&
	    bind_to(fd, gid, ifindex, port))
		return fd;
	error = errno;
	if (fd >= 0)
		close(fd);
	errno = error;
	return -1;
}

int wire_socket_receives(const union simhca_gid *gid, uint32_t ifindex, bool runs,
			 const struct wire_peers *peers)
{
	return open_socket(gid, ifindex, SIMHCA_WIRE_PORT, runs, peers);
}

int wire_socket_sends(const union simhca_gid *gid, uint32_t ifindex, uint16_t port, bool runs)
{
	return open_socket(gid, ifindex, port, runs, NULL);
}

bool wire_socket_has_runs(void)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool has = fd >= 0 && !set(fd, SOL_UDP, UDP_SEGMENT, 0) && !set(fd, SOL_UDP, UDP_GRO, 1);

	if (fd >= 0)
		close(fd);
	return has;
}
