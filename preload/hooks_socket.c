/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Netlink sockets. A program's socket for RDMA netlink is a connection to the daemon, and the calls
 * here are those in which the two differ; in all others they do not. Sockets of other kinds cost
 * a look at what the call has said anyway.
 */
#include <errno.h>
#include <linux/netlink.h>
#include <unistd.h>

#include "netlink.h"
#include "paths.h"
#include "real.h"

/* With a tree the host's own RDMA devices, if it has any, are not shown: here, as in /sys. */
HOOK(int, socket, int domain, int type, int protocol)
{
	if (domain == AF_NETLINK && protocol == NETLINK_RDMA && paths_tree())
		return netlink_open(type);
	return REAL(socket)(domain, type, protocol);
}

HOOK(int, bind, int fd, const struct sockaddr *addr, socklen_t len)
{
	if (addr && len >= sizeof(addr->sa_family) && addr->sa_family == AF_NETLINK &&
	    netlink_of_fd(fd))
		return netlink_bind(fd, addr, len, getpid());
	return REAL(bind)(fd, addr, len);
}

/* Whether an address that a call has returned is that of a socket that stands for a netlink socket.
 */
static bool is_disguised(int fd, const struct sockaddr *addr, socklen_t room, socklen_t len)
{
	return room >= sizeof(addr->sa_family) && len >= sizeof(addr->sa_family) &&
	       addr->sa_family == AF_UNIX && netlink_of_fd(fd);
}

HOOK(int, getsockname, int fd, struct sockaddr *addr, socklen_t *len)
{
	socklen_t room = addr && len ? *len : 0;
	int ret = REAL(getsockname)(fd, addr, len);

	if (!ret && room && is_disguised(fd, addr, room, *len))
		netlink_put_address(netlink_port(fd), addr, len, room);
	return ret;
}

HOOK(int, setsockopt, int fd, int level, int name, const void *value, socklen_t len)
{
	int error;

	if (level != SOL_NETLINK || !netlink_of_fd(fd))
		return REAL(setsockopt)(fd, level, name, value, len);
	error = netlink_set_option(name, value ? len : 0);
	if (error)
		errno = error;
	return error ? -1 : 0;
}

/*
 * What is sent needs no hook: a connected Unix socket of this type takes no notice of the address.
 * What is received comes from the kernel, whose port id is 0.
 */
static ssize_t received(ssize_t ret, int fd, struct sockaddr *addr, socklen_t *len, socklen_t room)
{
	if (ret >= 0 && room && is_disguised(fd, addr, room, *len))
		netlink_put_address(0, addr, len, room);
	return ret;
}

HOOK(ssize_t, recvfrom, int fd, void *buf, size_t size, int flags, struct sockaddr *addr,
     socklen_t *len)
{
	socklen_t room = addr && len ? *len : 0;

	return received(REAL(recvfrom)(fd, buf, size, flags, addr, len), fd, addr, len, room);
}

/* What _FORTIFY_SOURCE makes of it. */
HOOK(ssize_t, __recvfrom_chk, int fd, void *buf, size_t size, size_t buf_size, int flags,
     struct sockaddr *addr, socklen_t *len)
{
	socklen_t room = addr && len ? *len : 0;

	return received(REAL(__recvfrom_chk)(fd, buf, size, buf_size, flags, addr, len), fd, addr,
			len, room);
}

/*
 * Without a name, which is added: the kernel says how long it would have been, and qemu-user writes
 * as much of one, however little room there is for it.
 */
static ssize_t recvmsg_unnamed(int fd, struct msghdr *msg, int flags)
{
	struct msghdr unnamed = *msg;
	ssize_t ret;

	unnamed.msg_name = NULL;
	unnamed.msg_namelen = 0;
	ret = REAL(recvmsg)(fd, &unnamed, flags);
	if (ret < 0)
		return ret;
	msg->msg_controllen = unnamed.msg_controllen;
	msg->msg_flags = unnamed.msg_flags;
	netlink_put_address(0, msg->msg_name, &msg->msg_namelen, msg->msg_namelen);
	return ret;
}

HOOK(ssize_t, recvmsg, int fd, struct msghdr *msg, int flags)
{
	socklen_t room = msg && msg->msg_name ? msg->msg_namelen : 0;
	ssize_t ret;

	/* Other sockets' addresses are longer, so they are not looked at. */
	if (room && room <= sizeof(struct sockaddr_nl) && netlink_of_fd(fd))
		return recvmsg_unnamed(fd, msg, flags);
	ret = REAL(recvmsg)(fd, msg, flags);
	return room ? received(ret, fd, msg->msg_name, &msg->msg_namelen, room) : ret;
}
