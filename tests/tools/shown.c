/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What a program sees of the device by system calls alone: it is linked statically, or with musl. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/types.h>
#include <pthread.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/rdma_user_cm.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define DEVICE "/dev/infiniband/uverbs0"
#define THREADS 8
#define ROUNDS 200
#define NETLINK 16
#define RDMA 20

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
	printf("netlink %s\n", result(socket(NETLINK, SOCK_RAW, RDMA)));
	return 0;
}

static void *open_often(void *argument)
{
	for (int i = 0; i < ROUNDS; i++) {
		int fd = open(DEVICE, O_RDWR | O_CLOEXEC);
		struct stat st;

		if (fd < 0 || fstat(fd, &st) || !S_ISCHR(st.st_mode))
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

/* Signals, hundreds a second, that interrupt nothing. */
static int open_under_signals(void)
{
	catch_alarms(SA_RESTART, 1000, 1000);
	for (int i = 0; i < 4; i++)
		if (open_often(NULL)) {
			puts("failed");
			return 1;
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
	catch_alarms(0, 200000, 0);
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
