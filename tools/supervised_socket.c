/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * RDMA netlink of a supervised program: its socket is a connection to the daemon, and what is said here
 * is that in which the two differ, as in the preload library. What it sends needs no answer: the
 * kernel takes no notice of the address.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "preload/netlink.h"
#include "supervised_socket.h"

#define MOST_PARTS 1024 /* of a message, as in the kernel */
#define MOST_BYTES                                                                                 \
	(128u << 10) /* that are received at once; no datagram of the daemon has as many */

static enum supervised_outcome open_socket(struct call *call)
{
	int type = (int)call->notif->data.args[1];
	struct thread thread;
	int fd;

	if (!call_is_served(call, &thread))
		return CALL_CONTINUES;
	fd = netlink_open(type | SOCK_CLOEXEC);
	if (fd < 0)
		return call_answer(call, -errno);
	__atomic_fetch_add(&call->supervised->tally->opened, 1, __ATOMIC_RELAXED);
	return call_answer_with_fd(call, fd, CALL_FD_SOCKET, 0, type & SOCK_CLOEXEC);
}

static enum supervised_outcome bind_socket(struct call *call, int fd)
{
	const __u64 *args = call->notif->data.args;
	struct sockaddr_nl name = { .nl_family = AF_NETLINK };
	socklen_t size = (socklen_t)args[2] < sizeof(name) ? (socklen_t)args[2] : sizeof(name);
	struct thread thread;

	if (!call_read(call, &name, args[1], size))
		return call_answer(call, -EFAULT);
	if (!call_is_served(call, &thread))
		return CALL_CONTINUES;
	/* The preload library in the program binds it to the name that stands for a port. */
	if (name.nl_family == AF_UNIX)
		return CALL_CONTINUES;
	if (name.nl_family != AF_NETLINK)
		return call_answer(call, -EINVAL);
	return call_answer(call, netlink_bind(fd, (struct sockaddr *)&name, size, thread.process)
					 ? -errno
					 : 0);
}

/* An address, and how long it is, as the caller's two arguments say where: 0 or -errno. */
static int put_address(const struct call *call, uint32_t port, uint64_t to, uint64_t length)
{
	struct sockaddr_nl name;
	socklen_t room, size;
	int ret;

	if (!call_read(call, &room, length, sizeof(room)))
		return -EFAULT;
	if ((int)room < 0)
		return -EINVAL;
	netlink_put_address(port, (struct sockaddr *)&name, &size, sizeof(name));
	ret = caller_write(&call->caller, (void *)(uintptr_t)to, &name, room < size ? room : size);
	return ret ? ret
		   : caller_write(&call->caller, (void *)(uintptr_t)length, &size, sizeof(size));
}

/* ------------------------------------------------------------------------------- what is received */

/* Into the caller's parts, one after the other: what there was room for, or -errno. */
static ssize_t scatter(const struct call *call, const struct msghdr *msg, const char *bytes,
		       size_t length)
{
	size_t done = 0;

	for (size_t i = 0; i < msg->msg_iovlen && done < length; i++) {
		struct iovec part;
		size_t some;
		int ret;

		if (!call_read(call, &part, (uintptr_t)(msg->msg_iov + i), sizeof(part)))
			return -EFAULT;
		some = part.iov_len < length - done ? part.iov_len : length - done;
		ret = caller_write(&call->caller, part.iov_base, bytes + done, some);
		if (ret)
			return ret;
		done += some;
	}
	return (ssize_t)done;
}

/* The next datagram, which stays, into bytes: its length, or -errno. */
static ssize_t look(int fd, char *bytes)
{
	ssize_t length = recv(fd, bytes, MOST_BYTES, MSG_PEEK | MSG_DONTWAIT);

	return length < 0 ? -errno : length;
}

static void drop(int fd)
{
	char byte;

	recv(fd, &byte, sizeof(byte), MSG_DONTWAIT);
}

static bool would_wait(int fd, int flags)
{
	return !(flags & MSG_DONTWAIT) && !(fcntl(fd, F_GETFL) & O_NONBLOCK);
}

/*
 * fd is closed. Either the caller has a struct msghdr, whose copy msg is, or msg->msg_iov is NULL and the
 * arguments are recvfrom()'s.
 */
static enum supervised_outcome receive(struct call *call, int fd, struct msghdr *msg, int flags)
{
	const __u64 *args = call->notif->data.args;
	char *bytes = malloc(MOST_BYTES);
	ssize_t length = bytes ? look(fd, bytes) : -ENOMEM, copied = 0;
	int ret = 0;

	if (length == -EAGAIN && would_wait(fd, flags)) {
		free(bytes);
		return call_wait(call, fd);
	}
	if (length >= 0 && msg->msg_iov) {
		copied = scatter(call, msg, bytes, (size_t)length);
	} else if (length >= 0) {
		copied = (size_t)length < args[2] ? length : (ssize_t)args[2];
		ret = caller_write(&call->caller, (void *)(uintptr_t)args[1], bytes,
				   (size_t)copied);
	}
	free(bytes);
	if (length >= 0 && copied >= 0 && !ret && !msg->msg_iov && args[4])
		ret = put_address(call, 0, args[4], args[5]);
	if (length < 0 || copied < 0 || ret) {
		close(fd);
		return call_answer(call, length < 0 ? length : copied < 0 ? copied : ret);
	}
	if (!(flags & MSG_PEEK))
		drop(fd);
	close(fd);
	msg->msg_flags = copied < length ? MSG_TRUNC : 0;
	return call_answer(call, flags & MSG_TRUNC ? length : copied);
}

static enum supervised_outcome receive_message(struct call *call, int fd)
{
	const __u64 *args = call->notif->data.args;
	enum supervised_outcome outcome;
	struct sockaddr_nl name;
	struct msghdr msg;
	int ret = 0;

	if (!call_read(call, &msg, args[1], sizeof(msg)) || !msg.msg_iov)
		ret = -EFAULT;
	else if (msg.msg_iovlen > MOST_PARTS)
		ret = -EMSGSIZE;
	if (ret) {
		close(fd);
		return call_answer(call, ret);
	}
	outcome = receive(call, fd, &msg, (int)args[2]);
	if (outcome != CALL_ANSWERED || call->value < 0)
		return outcome;
	msg.msg_controllen = 0;
	if (msg.msg_name) {
		socklen_t room = msg.msg_namelen;

		netlink_put_address(0, (struct sockaddr *)&name, &msg.msg_namelen, sizeof(name));
		ret = caller_write(&call->caller, msg.msg_name, &name,
				   room < sizeof(name) ? room : sizeof(name));
	}
	if (!ret)
		ret = caller_write(&call->caller, (void *)(uintptr_t)args[1], &msg, sizeof(msg));
	return call_answer(call, ret ? ret : call->value);
}

/* --------------------------------------------------------------------------------------- the call */

static enum supervised_outcome dispatch(struct call *call, int fd)
{
	const __u64 *args = call->notif->data.args;
	struct msghdr unnamed = { .msg_iov = NULL };
	enum supervised_outcome outcome;

	switch (call->notif->data.nr) {
	case SYS_recvmsg:
		return receive_message(call, fd);
	case SYS_recvfrom:
		return receive(call, fd, &unnamed, (int)args[3]);
	case SYS_bind:
		outcome = bind_socket(call, fd);
		break;
	case SYS_getsockname:
		outcome = call_answer(call, put_address(call, netlink_port(fd), args[1], args[2]));
		break;
	default: /* setsockopt() */
		outcome =
			(int)args[1] == SOL_NETLINK
				? call_answer(call,
					      -netlink_set_option((int)args[2],
								  args[3] ? (socklen_t)args[4] : 0))
				: CALL_CONTINUES;
	}
	close(fd);
	return outcome;
}

enum supervised_outcome supervised_socket_call(struct call *call)
{
	int fd;

	if (call->notif->data.nr == SYS_socket)
		return open_socket(call);
	fd = call_borrow(&call->caller, (int)call->notif->data.args[0]);
	if (fd < 0)
		return CALL_CONTINUES;
	if (netlink_of_fd(fd))
		return dispatch(call, fd);
	close(fd);
	return CALL_CONTINUES;
}
