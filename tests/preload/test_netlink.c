/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* A socket for RDMA netlink is the daemon's, and looks like a netlink socket where programs look.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <linux/netlink.h>
#include <unistd.h>
#include <cmocka.h>

#include "fake_daemon.h"
#include "simhca-abi-netlink.h"

static const char *runtime_dir;
static pid_t server;

/* Sends each datagram back, of one connection after another; "who" is answered with the peer's
 * name. */
static void echo(int listener)
{
	for (;;) {
		int client = accept(listener, NULL, NULL);
		char bytes[256];
		ssize_t length;

		while ((length = recv(client, bytes, sizeof(bytes), 0)) > 0) {
			struct sockaddr_un name = { .sun_family = AF_UNSPEC };
			socklen_t size = sizeof(name);

			if (length == 3 && !memcmp(bytes, "who", 3)) {
				getpeername(client, (struct sockaddr *)&name, &size);
				length = (ssize_t)size -
					 (ssize_t)offsetof(struct sockaddr_un, sun_path);
				memcpy(bytes, name.sun_path, (size_t)length);
			}
			send(client, bytes, (size_t)length, MSG_NOSIGNAL);
		}
		close(client);
	}
}

static void node_path(struct sockaddr_un *addr)
{
	addr->sun_family = AF_UNIX;
	snprintf(addr->sun_path, sizeof(addr->sun_path), "%s/tree/" SIMHCA_NETLINK_NODE,
		 runtime_dir);
}

static int start(void **state)
{
	int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct sockaddr_un addr;

	fake_write(runtime_dir, "netlink/directory", "");
	node_path(&addr);
	assert_int_equal(bind(listener, (struct sockaddr *)&addr, sizeof(addr)), 0);
	assert_int_equal(listen(listener, 16), 0);
	server = fork();
	if (!server) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		echo(listener);
	}
	close(listener);
	return 0;
}

static int end(void **state)
{
	struct sockaddr_un addr;

	if (server)
		fake_daemon_stop(server);
	server = 0;
	node_path(&addr);
	unlink(addr.sun_path);
	return 0;
}

static int rdma_socket(int type)
{
	int fd = socket(AF_NETLINK, type, NETLINK_RDMA);

	assert_true(fd >= 0);
	return fd;
}

static int bind_to(int fd, uint32_t port, uint32_t groups)
{
	struct sockaddr_nl addr = { .nl_family = AF_NETLINK, .nl_pid = port, .nl_groups = groups };

	return bind(fd, (struct sockaddr *)&addr, sizeof(addr));
}

/* What getsockname() says, which must be a netlink address. */
static uint32_t port_of(int fd)
{
	struct sockaddr_nl addr;
	socklen_t size = sizeof(addr);

	memset(&addr, 0xff, sizeof(addr));
	assert_int_equal(getsockname(fd, (struct sockaddr *)&addr, &size), 0);
	assert_int_equal(size, sizeof(addr));
	assert_int_equal(addr.nl_family, AF_NETLINK);
	return addr.nl_pid;
}

/* To the kernel, as libmnl and libnl do. */
static void say(int fd, const char *text)
{
	struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };

	assert_int_equal(sendto(fd, text, strlen(text), 0, (struct sockaddr *)&kernel,
				sizeof(kernel)),
			 strlen(text));
}

/* From the kernel. */
static size_t hear(int fd, char *text, size_t room)
{
	struct sockaddr_nl from;
	struct iovec iov = { text, room };
	struct msghdr msg = {
		.msg_name = &from, .msg_namelen = sizeof(from), .msg_iov = &iov, .msg_iovlen = 1
	};
	ssize_t length;

	memset(&from, 0xff, sizeof(from));
	length = recvmsg(fd, &msg, 0);
	assert_true(length >= 0);
	assert_int_equal(msg.msg_namelen, sizeof(from));
	assert_int_equal(from.nl_family, AF_NETLINK);
	assert_int_equal(from.nl_pid, 0);
	assert_int_equal(from.nl_groups, 0);
	return (size_t)length;
}

static void expect_echo(int fd)
{
	char text[32];

	say(fd, "a question");
	assert_int_equal(hear(fd, text, sizeof(text)), 10);
	assert_memory_equal(text, "a question", 10);
}

/* ---------------------------------------------------------------------------------- tests */

static void test_socket(void **state)
{
	int fd;

	errno = 77;
	fd = rdma_socket(SOCK_RAW);
	assert_int_equal(errno, 77);
	assert_int_equal(fcntl(fd, F_GETFD), 0);
	assert_false(fcntl(fd, F_GETFL) & O_NONBLOCK);
	expect_echo(fd);
	close(fd);
	fd = rdma_socket(SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
	assert_int_equal(recv(fd, &fd, sizeof(fd), 0), -1);
	assert_int_equal(errno, EAGAIN);
	close(fd);
	assert_int_equal(socket(AF_NETLINK, SOCK_STREAM, NETLINK_RDMA), -1);
	assert_int_equal(errno, ESOCKTNOSUPPORT);
}

static void test_recvfrom(void **state)
{
	int fd = rdma_socket(SOCK_RAW);
	struct sockaddr_nl from;
	socklen_t size = sizeof(from);
	char text[4];

	say(fd, "a question");
	memset(&from, 0xff, sizeof(from));
	/* The whole length of a datagram that does not fit is known, as libnl asks for it. */
	assert_int_equal(recvfrom(fd, text, sizeof(text), MSG_PEEK | MSG_TRUNC,
				  (struct sockaddr *)&from, &size),
			 10);
	assert_int_equal(size, sizeof(from));
	assert_int_equal(from.nl_family, AF_NETLINK);
	assert_int_equal(from.nl_pid, 0);
	/* A program may have less room for the address, or none. */
	size = 4;
	memset(&from, 0xff, sizeof(from));
	assert_int_equal(
		recvfrom(fd, text, sizeof(text), MSG_PEEK, (struct sockaddr *)&from, &size), 4);
	assert_int_equal(size, sizeof(from));
	assert_int_equal(from.nl_family, AF_NETLINK);
	assert_int_equal(from.nl_pid, UINT32_MAX);
	assert_int_equal(recvfrom(fd, text, sizeof(text), 0, NULL, NULL), 4);
	close(fd);
}

/* The rest of what recvmsg() says is the kernel's, however much room there is for the address. */
static void test_recvmsg(void **state)
{
	struct sockaddr_storage from;
	char text[4], control[64];
	struct iovec iov = { text, sizeof(text) };
	const socklen_t rooms[] = { 4, sizeof(struct sockaddr_nl), sizeof(from) };
	int fd = rdma_socket(SOCK_RAW);

	for (size_t i = 0; i < sizeof(rooms) / sizeof(rooms[0]); i++) {
		struct msghdr msg = { .msg_name = &from,
				      .msg_namelen = rooms[i],
				      .msg_iov = &iov,
				      .msg_iovlen = 1,
				      .msg_control = control,
				      .msg_controllen = sizeof(control) };

		say(fd, "a question");
		memset(&from, 0xff, sizeof(from));
		assert_int_equal(recvmsg(fd, &msg, 0), sizeof(text));
		assert_int_equal(msg.msg_flags, MSG_TRUNC);
		assert_int_equal(msg.msg_controllen, 0);
		assert_ptr_equal(msg.msg_name, &from);
		assert_int_equal(msg.msg_namelen, sizeof(struct sockaddr_nl));
		assert_int_equal(from.ss_family, AF_NETLINK);
	}
	close(fd);
}

/* No two sockets have the same port id, and the daemon knows it. */
static void test_port(void **state)
{
	int first = rdma_socket(SOCK_RAW), second = rdma_socket(SOCK_RAW);
	struct sockaddr_nl short_name = { 0 };
	char name[64] = "", expected[64];
	size_t length;

	assert_int_equal(port_of(first), 0);
	assert_int_equal(bind_to(first, 0, 0), 0);
	assert_int_equal(port_of(first), getpid());
	assert_int_equal(bind_to(second, (uint32_t)getpid(), 0), -1);
	assert_int_equal(errno, EADDRINUSE);
	errno = 77;
	assert_int_equal(bind_to(second, 0, 0), 0);
	assert_int_equal(errno, 77);
	assert_true((int32_t)port_of(second) < 0);
	close(second);
	second = rdma_socket(SOCK_RAW);
	assert_int_equal(bind_to(second, 0xabcd1234, 0), 0);
	assert_int_equal(port_of(second), 0xabcd1234);
	/* It stays what it is: groups are joined with it, another is refused. */
	assert_int_equal(bind_to(second, 0xabcd1234, 1), 0);
	assert_int_equal(bind_to(second, 0, 8), 0);
	assert_int_equal(bind_to(second, 5, 0), -1);
	assert_int_equal(errno, EINVAL);
	short_name.nl_family = AF_NETLINK;
	assert_int_equal(bind(second, (struct sockaddr *)&short_name, 4), -1);
	assert_int_equal(errno, EINVAL);

	close(first);
	say(second, "who");
	length = hear(second, name, sizeof(name));
	sprintf(expected, SIMHCA_NETLINK_PORT, 0xabcd1234);
	assert_int_equal(length, 1 + strlen(expected));
	assert_memory_equal(name + 1, expected, strlen(expected));
	close(second);
}

static void test_options(void **state)
{
	int fd = rdma_socket(SOCK_RAW), on = 1, size = 1 << 16;

	assert_int_equal(setsockopt(fd, SOL_NETLINK, NETLINK_CAP_ACK, &on, sizeof(on)), 0);
	assert_int_equal(setsockopt(fd, SOL_NETLINK, NETLINK_EXT_ACK, &on, sizeof(on)), 0);
	assert_int_equal(setsockopt(fd, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &on, sizeof(on)), 0);
	assert_int_equal(setsockopt(fd, SOL_NETLINK, NETLINK_CAP_ACK, &on, 1), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(setsockopt(fd, SOL_NETLINK, NETLINK_PKTINFO, &on, sizeof(on)), -1);
	assert_int_equal(errno, ENOPROTOOPT);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size)), 0);
	close(fd);
}

static void test_dup_and_fork(void **state)
{
	int fd = rdma_socket(SOCK_RAW), copy = dup(fd), status;
	pid_t child;

	assert_int_equal(bind_to(fd, 0, 0), 0);
	close(fd);
	assert_int_equal(port_of(copy), getpid());
	expect_echo(copy);
	child = fork();
	if (!child) {
		expect_echo(copy);
		_exit(port_of(copy) != (uint32_t)getppid());
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	/* The number is another file's now. */
	assert_int_equal(dup2(STDERR_FILENO, copy), copy);
	assert_int_equal(bind_to(copy, 0, 0), -1);
	assert_int_equal(errno, ENOTSOCK);
	close(copy);
}

/* The program is not killed by a daemon that dies, and does not wait for it. */
static void test_daemon_dies(void **state)
{
	int fd = rdma_socket(SOCK_RAW);
	char text[8];

	expect_echo(fd);
	fake_daemon_stop(server);
	server = 0;
	assert_int_equal(send(fd, "x", 1, 0), -1);
	assert_int_equal(recv(fd, text, sizeof(text), 0), 0);
	close(fd);
	/* Its socket's name is still there. */
	assert_int_equal(socket(AF_NETLINK, SOCK_RAW, NETLINK_RDMA), -1);
	assert_int_equal(errno, EPROTONOSUPPORT);
}

/* A daemon without the socket, an older one's tree: no kernel with RDMA. libibverbs looks at sysfs
 * then. */
static void test_no_daemon(void **state)
{
	assert_int_equal(socket(AF_NETLINK, SOCK_RAW, NETLINK_RDMA), -1);
	assert_int_equal(errno, EPROTONOSUPPORT);
}

static void test_no_descriptors(void **state)
{
	struct rlimit before, few;
	int fds[64], count = 0;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	few = before;
	few.rlim_cur = sizeof(fds) / sizeof(fds[0]);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	while ((fds[count] = dup(0)) >= 0)
		count++;
	assert_int_equal(socket(AF_NETLINK, SOCK_RAW, NETLINK_RDMA), -1);
	assert_int_equal(errno, EMFILE);
	while (count)
		close(fds[--count]);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

static void test_other_netlink(void **state)
{
	int fd = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE), on = 1, domain;
	socklen_t size = sizeof(domain);

	assert_true(fd >= 0);
	assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size), 0);
	assert_int_equal(domain, AF_NETLINK);
	assert_int_equal(bind_to(fd, 0x7abcdef0, 0), 0);
	assert_int_equal(port_of(fd), 0x7abcdef0);
	assert_int_equal(setsockopt(fd, SOL_NETLINK, NETLINK_PKTINFO, &on, sizeof(on)), 0);
	close(fd);
}

/* Unix sockets keep their own addresses, whatever they are called. */
static void test_other_unix(void **state)
{
	int from = socket(AF_UNIX, SOCK_DGRAM, 0), to = socket(AF_UNIX, SOCK_DGRAM, 0);
	struct sockaddr_un name = { .sun_family = AF_UNIX }, seen;
	socklen_t size = sizeof(seen);
	char byte;

	snprintf(name.sun_path, sizeof(name.sun_path), "%s/other", runtime_dir);
	assert_int_equal(bind(to, (struct sockaddr *)&name, sizeof(name)), 0);
	assert_int_equal(sendto(from, "x", 1, 0, (struct sockaddr *)&name, sizeof(name)), 1);
	snprintf(name.sun_path, sizeof(name.sun_path), "%s/another", runtime_dir);
	assert_int_equal(bind(from, (struct sockaddr *)&name, sizeof(name)), 0);
	assert_int_equal(recvfrom(to, &byte, 1, 0, (struct sockaddr *)&seen, &size), 1);
	assert_int_equal(seen.sun_family, AF_UNIX);
	size = sizeof(seen);
	assert_int_equal(getsockname(from, (struct sockaddr *)&seen, &size), 0);
	assert_string_equal(seen.sun_path, name.sun_path);
	/* And a netlink address is not one for them. */
	assert_int_equal(bind_to(to, 0, 0), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(recvmsg(-1, NULL, 0), -1);
	assert_int_equal(errno, EBADF);
	close(from);
	close(to);
}

int main(int argc, char **argv)
{
#define NETLINK_TEST(name) cmocka_unit_test_setup_teardown(name, start, end)
	const struct CMUnitTest tests[] = {
		NETLINK_TEST(test_socket),	   NETLINK_TEST(test_recvfrom),
		NETLINK_TEST(test_recvmsg),	   NETLINK_TEST(test_port),
		NETLINK_TEST(test_options),	   NETLINK_TEST(test_dup_and_fork),
		NETLINK_TEST(test_daemon_dies),	   NETLINK_TEST(test_no_descriptors),
		cmocka_unit_test(test_no_daemon),  cmocka_unit_test(test_other_netlink),
		cmocka_unit_test(test_other_unix),
	};
	int ret;

	fake_reexec(argv, getenv("SIMHCA_PRELOAD"));
	runtime_dir = getenv("SIMHCA_RUNTIME_DIR");
	ret = cmocka_run_group_tests(tests, NULL, NULL);
	fake_remove(runtime_dir);
	return ret;
}
