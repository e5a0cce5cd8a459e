/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Stands for a host with RDMA devices of its own, for programs with this library behind the one
 * that is tested: its kernel opens a socket for RDMA netlink, which here is /dev/zero.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <sys/socket.h>

int socket(int domain, int type, int protocol)
{
	int (*next)(int, int, int) = (int (*)(int, int, int))dlsym(RTLD_NEXT, "socket");

	if (domain == AF_NETLINK && protocol == NETLINK_RDMA)
		return open("/dev/zero", O_RDWR);
	return next(domain, type, protocol);
}
