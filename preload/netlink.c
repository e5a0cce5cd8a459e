/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <linux/netlink.h>
#include <sys/un.h>

#include "daemon.h"
#include "netlink.h"
#include "paths.h"
#include "real.h"
#include "simhca-abi-netlink.h"

#define PORTS 4096 /* that are tried, from -4096 on, when the first choice is taken */

bool netlink_of_fd(int fd)
{
	struct daemon_peer peer;
	const char *node = paths_of_this_libc() ? daemon_peer(fd, &peer) : NULL;

	return node && !strcmp(node, SIMHCA_NETLINK_NODE);
}

int netlink_open(int type)
{
	int saved = errno;
	int fd;

	if ((type & 0xf) != SOCK_RAW && (type & 0xf) != SOCK_DGRAM) {
		errno = ESOCKTNOSUPPORT;
		return -1;
	}
	fd = daemon_connect(SIMHCA_NETLINK_NODE, type);
	if (fd >= 0)
		errno = saved;
	else if (errno != EMFILE && errno != ENFILE && errno != ENOMEM && errno != ENOBUFS)
		errno = EPROTONOSUPPORT;
	return fd;
}

static int bind_port(int fd, uint32_t port)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	int length =
		snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, SIMHCA_NETLINK_PORT, port);

	return REAL(bind)(fd, (struct sockaddr *)&name,
			  (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1) +
				  (socklen_t)length);
}

/* As the kernel chooses: the process's id, or else any that is no process's. */
static int bind_any(int fd, pid_t process)
{
	int ret = bind_port(fd, (uint32_t)process);

	for (uint32_t i = 0; ret && errno == EADDRINUSE && i < PORTS; i++)
		ret = bind_port(fd, (uint32_t)-4096 - i);
	return ret;
}

int netlink_bind(int fd, const struct sockaddr *addr, socklen_t len, pid_t process)
{
	uint32_t bound = netlink_port(fd);
	int saved = errno;
	struct sockaddr_nl name;
	int ret;

	if (len < sizeof(name)) {
		errno = EINVAL;
		return -1;
	}
	memcpy(&name, addr, sizeof(name));
	/*
	 * Multicast groups can be joined; nothing is ever sent to them. Once a socket has a port
	 * id, it can only be bound to that: so are groups joined later.
	 */
	if (bound && name.nl_pid != bound && name.nl_pid) {
		errno = EINVAL;
		return -1;
	}
	if (bound)
		return 0;
	ret = name.nl_pid ? bind_port(fd, name.nl_pid) : bind_any(fd, process);
	if (!ret)
		errno = saved;
	return ret;
}

/* The options change what a kernel sends by itself: nothing here. Some are asked for and are so. */
int netlink_set_option(int name, socklen_t len)
{
	switch (name) {
	case NETLINK_ADD_MEMBERSHIP:
	case NETLINK_DROP_MEMBERSHIP:
	case NETLINK_BROADCAST_ERROR:
	case NETLINK_NO_ENOBUFS:
	case NETLINK_CAP_ACK:
	case NETLINK_EXT_ACK:
	case NETLINK_GET_STRICT_CHK:
		return len >= sizeof(int) ? 0 : EINVAL;
	default:
		return ENOPROTOOPT;
	}
}

/* Not by sscanf(): its name in newer glibcs is one that musl has not. */
static uint32_t port_of(const char *name)
{
	uint32_t port = 0;

	if (strncmp(name, SIMHCA_NETLINK_NAME, strlen(SIMHCA_NETLINK_NAME)))
		return 0;
	for (name += strlen(SIMHCA_NETLINK_NAME); *name >= '0' && *name <= '9'; name++)
		port = port * 10 + (uint32_t)(*name - '0');
	return port;
}

uint32_t netlink_port(int fd)
{
	struct sockaddr_un name = { .sun_family = AF_UNSPEC };
	socklen_t size = sizeof(name) - 1; /* so that it ends with a NUL */
	int saved = errno;
	uint32_t port = 0;

	if (!REAL(getsockname)(fd, (struct sockaddr *)&name, &size) &&
	    size > offsetof(struct sockaddr_un, sun_path) + 1)
		port = port_of(name.sun_path + 1);
	errno = saved;
	return port;
}

void netlink_put_address(uint32_t port, struct sockaddr *addr, socklen_t *len, socklen_t room)
{
	struct sockaddr_nl name = { .nl_family = AF_NETLINK, .nl_pid = port };

	memcpy(addr, &name, room < sizeof(name) ? room : sizeof(name));
	*len = sizeof(name);
}
