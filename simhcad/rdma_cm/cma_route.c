/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Routes: whether the kernel has one for packets to an address, and the address that they leave from. */
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cma.h"
#include "link/wire/wire.h"

/* 0, or bind()'s -errno. */
static int choose(int fd, const struct cma_id *id)
{
	const struct device *device = id->device;
	const int on = 1;
	union cma_addr src = id->src;
	const char *interface;
	uint8_t index;

	/* A link-local address without a scope is one of the first device's link. */
	if (!device && cma_addr_is_link_local(&id->dst) && !id->dst.in6.sin6_scope_id)
		device = cma_any_device(id->file->cma, &id->dst, &index);
	interface = device ? device->options->settings.netdev : "";
	setsockopt(fd, SOL_SOCKET, SO_BROADCAST, &on, sizeof(on));
	if (id->dst.sa.sa_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
	/* Kernels before 5.7 have that for root alone; then the source address decides. */
	setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, interface, (socklen_t)strlen(interface));
	cma_addr_set_port(&src, 0);
	if (cma_addr_is_zero(&src))
		return 0;
	return bind(fd, &src.sa, (socklen_t)cma_addr_size(&src)) ? -errno : 0;
}

int cma_route_socket(const struct cma_id *id, const char **failed)
{
	union cma_addr dst = id->dst;
	int fd = socket(dst.sa.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int ret;

	*failed = "socket()";
	if (fd < 0)
		return -errno;
	*failed = "bind()";
	ret = choose(fd, id);
	if (!ret) {
		cma_addr_set_port(&dst, SIMHCA_WIRE_PORT);
		ret = connect(fd, &dst.sa, (socklen_t)cma_addr_size(&dst)) ? -errno : 0;
		/* EAGAIN: the socket gets no port, and no route is looked for. */
		*failed = ret == -EAGAIN ? "connect()" : NULL;
	}
	if (!ret)
		return fd;
	close(fd);
	return ret;
}

int cma_route(const struct cma_id *id, union cma_addr *src, const char **failed)
{
	socklen_t size = sizeof(*src);
	int fd = cma_route_socket(id, failed);
	int ret = 0;

	memset(src, 0, sizeof(*src));
	if (fd < 0)
		return fd;
	if (getsockname(fd, &src->sa, &size))
		ret = -errno;
	cma_addr_set_port(src, cma_addr_port(&id->src));
	close(fd);
	return ret;
}
