/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#define _GNU_SOURCE
/* What a program sees of the device by system calls alone: it is linked statically, or with musl. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/openat2.h>
#include <linux/types.h>
#include <pthread.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_mad.h>
#include <rdma/rdma_user_cm.h>
#include <rdma/rdma_netlink.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define DEVICE "/dev/infiniband/uverbs0"
#define THREADS 8
#define ROUNDS 200

static const char *result(long ret)
{
	return ret < 0 ? strerror(errno) : "ok";
}

/* The GIDs of the device, by the method that libibverbs calls. */
static int query_gids(int fd)
{
	struct ib_uverbs_gid_entry entries[64];
	uint64_t size = sizeof(entries[0]), flags = 0, count = 0;
	struct {
		struct ib_uverbs_ioctl_hdr hdr;
		struct ib_uverbs_attr attrs[4];
	} call = {
		.hdr = { .length = sizeof(call),
			 .object_id = UVERBS_OBJECT_DEVICE,
			 .method_id = UVERBS_METHOD_QUERY_GID_TABLE,
			 .num_attrs = 4 },
		.attrs = {
			{ .attr_id = UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE,
			  .len = sizeof(size),
			  .data = size },
			{ .attr_id = UVERBS_ATTR_QUERY_GID_TABLE_FLAGS,
			  .len = sizeof(uint32_t),
			  .data = flags },
			{ .attr_id = UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES,
			  .len = sizeof(entries),
			  .data = (uintptr_t)entries },
			{ .attr_id = UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES,
			  .len = sizeof(count),
			  .data = (uintptr_t)&count },
		},
	};

	return ioctl(fd, RDMA_VERBS_IOCTL, &call) ? -1 : (int)count;
}

static int list(void)
{
	DIR *dir = opendir("/sys/class/infiniband");
	struct dirent *entry;
	struct stat st;
	char text[256];
	ssize_t length;
	int fd, beside;

	while (dir && (entry = readdir(dir)))
		if (entry->d_name[0] != '.')
			printf("entry %s\n", entry->d_name);
	length = readlink("/sys/class/infiniband/simhca0", text, sizeof(text));
	printf("link %.*s\n", length < 0 ? 0 : (int)length, text);
	printf("access %s\n", result(access(DEVICE, R_OK | W_OK)));
	printf("no such %s\n", result(access("/dev/infiniband/uverbs9", F_OK)));
	fd = open(DEVICE, O_RDWR | O_CLOEXEC);
	printf("open %s\n", result(fd));
	printf("fstat %s\n", !fstat(fd, &st) && S_ISCHR(st.st_mode) && major(st.st_rdev) == 231
				     ? "device"
				     : "something else");
	printf("stat %s\n",
	       !stat(DEVICE, &st) && S_ISCHR(st.st_mode) ? "device" : "something else");
	printf("gids %d\n", query_gids(fd));
	fd = open("/dev/infiniband", O_RDONLY | O_DIRECTORY);
	beside = openat(fd, "uverbs0", O_RDWR);
	printf("relative %s\n", result(beside));
	beside = open("/sys/class/infiniband/../../../etc/passwd", O_RDONLY);
	printf("out of the tree %s\n", result(beside));
	printf("netlink %s\n", result(socket(AF_NETLINK, SOCK_RAW, NETLINK_RDMA)));
	return 0;
}

/* Names that are relative to a directory of the host's, and to one of ours. */
static int use_directories(void)
{
	const struct open_how how = { .flags = O_PATH | O_DIRECTORY };
	int root = open("/", O_PATH | O_DIRECTORY);
	int class = open("/sys/class", O_RDONLY | O_DIRECTORY);
	int devices = (int)syscall(SYS_openat2, class, "infiniband", &how, sizeof(how));
	char text[256];
	struct stat st;
	int fd;

	printf("openat2 %s\n", result(devices));
	printf("from / %s\n", result(faccessat(root, "sys/class/infiniband/simhca0", F_OK, 0)));
	fd = openat(devices, "simhca0/node_type", O_RDONLY);
	printf("read %zd\n", read(fd, text, sizeof(text)));
	printf("readlinkat %zd\n", readlinkat(devices, "simhca0", text, sizeof(text)));
	printf("faccessat %s\n", result(faccessat(devices, "simhca0/ports", X_OK, 0)));
	printf("fstatat %s\n", result(fstatat(class, "infiniband/simhca0/ports/1", &st, 0)));
	printf("not there %s\n", result(faccessat(class, "infiniband/mlx5_9", F_OK, 0)));
	fd = open("/dev", O_PATH | O_DIRECTORY);
	printf("node %s\n", result(openat(fd, "infiniband/uverbs0", O_RDWR)));
	printf("chdir %s\n", result(chdir("/sys/class")));
	printf("below it %s\n", result(access("infiniband/simhca0", F_OK)));
	return 0;
}

static const char *kind(int fd)
{
	struct stat st;

	return fd < 0		     ? strerror(errno)
	       : fstat(fd, &st)	     ? "no descriptor"
	       : S_ISCHR(st.st_mode) ? "device"
				     : "something else";
}

static int use_copies(void)
{
	int fd = open(DEVICE, O_RDWR | O_CLOEXEC), copy = dup(fd);

	printf("dup %s\n", kind(copy));
	printf("not inherited %d\n", fcntl(fd, F_GETFD) & FD_CLOEXEC);
	printf("inherited %d\n", fcntl(copy, F_GETFD) & FD_CLOEXEC);
	copy = fcntl(fd, F_DUPFD_CLOEXEC, copy + 2);
	printf("F_DUPFD_CLOEXEC %s %d\n", kind(copy), fcntl(copy, F_GETFD) & FD_CLOEXEC);
	copy = dup3(fd, 700, O_CLOEXEC);
	printf("gids of dup3 %d\n", query_gids(copy));
	printf("of a file %d\n", dup(open("/dev/null", O_RDWR)) < 100);
	return 0;
}

static volatile sig_atomic_t signals;

static void on_signal(int number)
{
	signals++;
}

static void catch_alarms(int flags, long first_us, long then_us)
{
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = flags };
	struct itimerval timer = { { 0, then_us }, { 0, first_us } };

	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &timer, NULL);
}

/* Asks for the devices, as iproute2 and Go's netlink library do. */
static int use_netlink(void)
{
	struct nlmsghdr request = {
		.nlmsg_len = sizeof(request),
		.nlmsg_type = RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_GET),
		.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP,
		.nlmsg_seq = 7,
	};
	struct sockaddr_nl kernel = { .nl_family = AF_NETLINK }, name = kernel;
	socklen_t size = sizeof(name);
	char head[16], rest[4096];
	struct iovec parts[] = { { head, sizeof(head) }, { rest, sizeof(rest) } };
	struct msghdr msg = { .msg_name = &name, .msg_iov = parts, .msg_iovlen = 2 };
	struct nlmsghdr answer;
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_RDMA), on = 1;

	printf("option %s\n",
	       result(setsockopt(fd, SOL_NETLINK, NETLINK_EXT_ACK, &on, sizeof(on))));
	printf("no option %s\n", result(setsockopt(fd, SOL_NETLINK, 99, &on, sizeof(on))));
	printf("bind %s\n", result(bind(fd, (struct sockaddr *)&kernel, sizeof(kernel))));
	printf("bound %s\n", getsockname(fd, (struct sockaddr *)&name, &size) ? strerror(errno)
			     : name.nl_family == AF_NETLINK && size == sizeof(name) &&
					     name.nl_pid == (unsigned int)getpid()
				     ? "to the process"
				     : "elsewhere");
	printf("nothing yet %s\n", result(recv(fd, rest, sizeof(rest), MSG_DONTWAIT)));
	printf("sent %zd\n", sendto(fd, &request, sizeof(request), 0, (struct sockaddr *)&kernel,
				    sizeof(kernel)));
	printf("looked %s\n", result(recv(fd, &answer, sizeof(answer), MSG_PEEK)));
	name.nl_pid = 1;
	msg.msg_namelen = sizeof(name);
	printf("received %s\n", recvmsg(fd, &msg, 0) > (ssize_t)sizeof(head) ? "ok" : "too little");
	printf("from %u of %u\n", name.nl_pid, msg.msg_namelen);
	printf("the same %d\n", !memcmp(head, &answer, sizeof(answer)) && answer.nlmsg_seq == 7);
	size = sizeof(name);
	printf("end %zd\n",
	       recvfrom(fd, &answer, sizeof(answer), MSG_TRUNC, (struct sockaddr *)&name, &size));
	printf("done %d\n", answer.nlmsg_type == NLMSG_DONE);
	/* Nothing more comes: a signal ends it. */
	catch_alarms(0, 200000, 200000);
	printf("%s\n", result(recv(fd, rest, sizeof(rest), 0)));
	return 0;
}

/* Addresses and lengths that are wrong are the program's own error, and nothing to the supervisor. */
static int tell_lies(void)
{
	char bytes[64] = "";
	void *nowhere = (void *)64;
	struct sockaddr_nl name = { .nl_family = AF_NETLINK };
	struct iovec part = { nowhere, 4096 };
	struct msghdr msg = { .msg_iov = &part, .msg_iovlen = 1 };
	struct nlmsghdr request = {
		.nlmsg_len = sizeof(request),
		.nlmsg_type = RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_GET),
		.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP,
	};
	int socket_fd = socket(AF_NETLINK, SOCK_RAW, NETLINK_RDMA);
	int umad = open("/dev/infiniband/umad0", O_RDWR | O_NONBLOCK);
	int uverbs = open(DEVICE, O_RDWR);
	int cm = open("/dev/infiniband/rdma_cm", O_RDWR);
	socklen_t size = (socklen_t)-1;

	printf("bind %s\n", result(bind(socket_fd, nowhere, sizeof(name))));
	printf("short %s\n", result(bind(socket_fd, (struct sockaddr *)&name, 3)));
	printf("getsockname %s\n", result(getsockname(socket_fd, (struct sockaddr *)&name, &size)));
	printf("send %s\n", result(send(socket_fd, &request, sizeof(request), 0)));
	printf("recvmsg %s\n", result(syscall(SYS_recvmsg, socket_fd, nowhere, 0)));
	printf("parts %s\n", result(recvmsg(socket_fd, &msg, 0)));
	msg.msg_iovlen = 1 << 20;
	printf("many %s\n", result(recvmsg(socket_fd, &msg, 0)));
	printf("recvfrom %s\n",
	       result(syscall(SYS_recvfrom, socket_fd, nowhere, 4096, 0, NULL, NULL)));
	printf("still there %d\n", recv(socket_fd, bytes, sizeof(bytes), 0) == sizeof(bytes));
	printf("umad ioctl %s\n", result(ioctl(umad, IB_USER_MAD_REGISTER_AGENT2, nowhere)));
	printf("umad write %s\n", result(syscall(SYS_write, umad, nowhere, 320)));
	printf("umad long %s\n", result(syscall(SYS_write, umad, nowhere, 1ul << 40)));
	printf("umad read %s\n", result(syscall(SYS_read, umad, nowhere, 320)));
	printf("uverbs ioctl %s\n", result(ioctl(uverbs, RDMA_VERBS_IOCTL, nowhere)));
	printf("other ioctl %s\n", result(ioctl(uverbs, IB_USER_MAD_ENABLE_PKEY)));
	printf("rdma_cm write %s\n", result(syscall(SYS_write, cm, nowhere, 32)));
	printf("open %s\n", result(syscall(SYS_openat, AT_FDCWD, nowhere, O_RDONLY)));
	printf("afterwards %s\n", result(open(DEVICE, O_RDWR)));
	return 0;
}

extern char **environ;

/* The ways to start others: each of them sees the device, also in a session of its own. */
static int start_others(const char *self)
{
	char *const argv[] = { (char *)self, "one", NULL };
	pid_t child;

	child = vfork();
	if (!child) {
		execv(self, argv);
		_exit(1);
	}
	waitpid(child, NULL, 0);
	if (!posix_spawn(&child, self, NULL, NULL, argv, environ))
		waitpid(child, NULL, 0);
	child = fork();
	if (!child) {
		setsid();
		execve(self, argv, (char *[]){ NULL });
		_exit(1);
	}
	waitpid(child, NULL, 0);
	return 0;
}

static bool signals_interrupt;

static void *open_often(void *argument)
{
	for (int i = 0; i < ROUNDS; i++) {
		struct stat st;
		int fd, failed;

		do
			fd = open(DEVICE, O_RDWR | O_CLOEXEC);
		while (fd < 0 && errno == EINTR && signals_interrupt);
		do
			failed = fstat(fd, &st);
		while (failed && errno == EINTR && signals_interrupt);
		if (failed || !S_ISCHR(st.st_mode))
			return "failed";
		close(fd);
	}
	return argument;
}

static int use_threads(void)
{
	pthread_t threads[THREADS];
	void *failed = NULL;

	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, open_often, NULL);
	for (int i = 0; i < THREADS; i++) {
		void *value;

		pthread_join(threads[i], &value);
		failed = failed ? failed : value;
	}
	puts(failed ? "failed" : "ok");
	return failed != NULL;
}

/* Signals, hundreds a second, that interrupt nothing unless their handler has asked for it. */
static int open_under_signals(void)
{
	for (int i = 0; i < 4; i++) {
		signals_interrupt = i % 2;
		catch_alarms(signals_interrupt ? 0 : SA_RESTART, 1000, 1000);
		if (open_often(NULL)) {
			puts("failed");
			return 1;
		}
	}
	puts(signals ? "ok" : "no signal came");
	return 0;
}

/* A wait for an event that never comes ends by a signal, as in the kernel. */
static int wait_for_event(void)
{
	struct {
		struct rdma_ucm_cmd_hdr hdr;
		struct rdma_ucm_get_event cmd;
	} command = { .hdr = { .cmd = RDMA_USER_CM_CMD_GET_EVENT, .in = sizeof(command.cmd) } };
	struct rdma_ucm_event_resp event;
	int fd = open("/dev/infiniband/rdma_cm", O_RDWR | O_CLOEXEC);

	command.hdr.out = sizeof(event);
	command.cmd.response = (uintptr_t)&event;
	catch_alarms(0, 200000, 200000);
	printf("%s\n", result(write(fd, &command, sizeof(command))));
	fcntl(fd, F_SETFL, O_NONBLOCK);
	printf("%s\n", result(write(fd, &command, sizeof(command))));
	return 0;
}

/* Opens a file for each line of its input. */
static int on_request(void)
{
	char line[16];

	signal(SIGTERM, SIG_IGN);
	do {
		int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

		puts(result(fd));
		fflush(stdout);
		close(fd);
	} while (read(0, line, sizeof(line)) > 0);
	return 0;
}

/* How long an open() and close() of a file that is not ours takes, in nanoseconds. */
static int measure(long count)
{
	struct timespec start, end;

	clock_gettime(CLOCK_MONOTONIC, &start);
	for (long i = 0; i < count; i++)
		close(open("/dev/null", O_RDWR | O_CLOEXEC));
	clock_gettime(CLOCK_MONOTONIC, &end);
	printf("%ld ns\n",
	       ((end.tv_sec - start.tv_sec) * 1000000000 + end.tv_nsec - start.tv_nsec) / count);
	return 0;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "list";

	if (!strcmp(what, "threads"))
		return use_threads();
	if (!strcmp(what, "signals"))
		return open_under_signals();
	if (!strcmp(what, "event"))
		return wait_for_event();
	if (!strcmp(what, "requests"))
		return on_request();
	if (!strcmp(what, "directories"))
		return use_directories();
	if (!strcmp(what, "copies"))
		return use_copies();
	if (!strcmp(what, "netlink"))
		return use_netlink();
	if (!strcmp(what, "lies"))
		return tell_lies();
	if (!strcmp(what, "others"))
		return start_others(argv[0]);
	if (!strcmp(what, "one")) {
		puts(kind(open(DEVICE, O_RDWR)));
		return 0;
	}
	if (!strcmp(what, "measure"))
		return measure(argc > 2 ? atol(argv[2]) : 100000);
	if (!strcmp(what, "fork")) {
		if (!fork())
			execl(argv[0], argv[0], "list", NULL);
		wait(NULL);
		return 0;
	}
	return list();
}
