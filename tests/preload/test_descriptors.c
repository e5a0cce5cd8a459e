/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* An open device is a character device, through whatever way its descriptor came here. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "fake_daemon.h"

#define NODE "/dev/infiniband/uverbs0"

static const char *runtime_dir;
static pid_t server;

static int start(void **state)
{
	server = fake_daemon_start(runtime_dir);
	return 0;
}

static int end(void **state)
{
	char path[256];

	if (server)
		fake_daemon_stop(server);
	server = 0;
	snprintf(path, sizeof(path), "%s/tree" NODE, runtime_dir);
	unlink(path);
	return 0;
}

static void assert_is_device(const struct stat *st)
{
	assert_int_equal(st->st_mode, S_IFCHR | 0666);
	assert_int_equal(major(st->st_rdev), FAKE_MAJOR);
	assert_int_equal(minor(st->st_rdev), FAKE_MINOR);
}

static void assert_fd_is_device(int fd)
{
	struct stat st, path_st;
	struct statx stx;

	assert_int_equal(fstat(fd, &st), 0);
	assert_is_device(&st);
	assert_int_equal(stat(NODE, &path_st), 0);
	assert_is_device(&path_st);
	assert_int_equal(st.st_ino, path_st.st_ino);
	assert_int_equal(st.st_dev, path_st.st_dev);
	assert_int_equal(fstatat(fd, "", &st, AT_EMPTY_PATH), 0);
	assert_is_device(&st);
	assert_int_equal(statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &stx), 0);
	assert_int_equal(stx.stx_mode, S_IFCHR | 0666);
	assert_int_equal(stx.stx_rdev_major, FAKE_MAJOR);
	assert_int_equal(stx.stx_rdev_minor, FAKE_MINOR);
	assert_int_equal(stx.stx_ino, path_st.st_ino);
}

static int open_node(int flags)
{
	int fd = open(NODE, flags);

	assert_true(fd >= 0);
	return fd;
}

static void test_open(void **state)
{
	int fd;

	errno = 77;
	fd = open_node(O_RDWR);
	assert_int_equal(errno, 77);
	assert_fd_is_device(fd);
	assert_int_equal(fcntl(fd, F_GETFD), 0);
	assert_false(fcntl(fd, F_GETFL) & O_NONBLOCK);
	close(fd);
}

static void test_open_flags(void **state)
{
	int fd = open_node(O_RDWR | O_CLOEXEC | O_NONBLOCK);

	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
	close(fd);
	assert_int_equal(open(NODE, O_RDWR | O_CREAT | O_EXCL, 0600), -1);
	assert_int_equal(errno, EEXIST);
	assert_int_equal(open(NODE, O_RDONLY | O_DIRECTORY), -1);
	assert_int_equal(errno, ENOTDIR);
	assert_int_equal(open(NODE "1", O_RDWR), -1);
	assert_int_equal(errno, ENOENT);
}

/* openat() and the relative names that opendir() and chdir() lead to. */
static void test_open_relative(void **state)
{
	int dir = open("/dev/infiniband", O_RDONLY | O_DIRECTORY);
	struct stat st;
	int fd;

	assert_true(dir >= 0);
	fd = openat(dir, "uverbs0", O_RDWR);
	assert_true(fd >= 0);
	assert_fd_is_device(fd);
	close(fd);
	assert_int_equal(fstatat(dir, "uverbs0", &st, AT_SYMLINK_NOFOLLOW), 0);
	assert_is_device(&st);
	close(dir);

	assert_int_equal(chdir("/dev/infiniband"), 0);
	fd = open("uverbs0", O_RDWR);
	assert_true(fd >= 0);
	assert_fd_is_device(fd);
	close(fd);
	assert_int_equal(lstat("./uverbs0", &st), 0);
	assert_is_device(&st);
	assert_int_equal(chdir("/"), 0);
}

static void test_dup(void **state)
{
	int fd = open_node(O_RDWR);
	int copy = dup(fd);

	close(fd);
	assert_fd_is_device(copy);
	assert_int_equal(dup2(copy, 100), 100);
	close(copy);
	assert_fd_is_device(100);
	close(100);
}

/* A number that was the device's and is now another file's is that other file. */
static void test_reused_number(void **state)
{
	int fd = open_node(O_RDWR);
	struct stat st;

	assert_int_equal(dup2(STDERR_FILENO, fd), fd);
	assert_int_equal(fstat(fd, &st), 0);
	assert_true(st.st_rdev != makedev(FAKE_MAJOR, FAKE_MINOR));
	close(fd);
	assert_int_equal(fstat(fd, &st), -1);
	assert_int_equal(errno, EBADF);
}

static void test_fork(void **state)
{
	int fd = open_node(O_RDWR);
	int status;
	pid_t child = fork();

	if (!child) {
		struct stat st;

		_exit(fstat(fd, &st) || !S_ISCHR(st.st_mode));
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	close(fd);
}

static void test_scm_rights(void **state)
{
	char control[CMSG_SPACE(sizeof(int))] __attribute__((aligned(8))) = { 0 };
	char byte = 0;
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control,
			      .msg_controllen = sizeof(control) };
	int fd = open_node(O_RDWR);
	int ends[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	CMSG_FIRSTHDR(&msg)->cmsg_level = SOL_SOCKET;
	CMSG_FIRSTHDR(&msg)->cmsg_type = SCM_RIGHTS;
	CMSG_FIRSTHDR(&msg)->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(CMSG_FIRSTHDR(&msg)), &fd, sizeof(int));
	assert_int_equal(sendmsg(ends[0], &msg, 0), 1);
	close(fd);
	assert_int_equal(recvmsg(ends[1], &msg, 0), 1);
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(int));
	assert_fd_is_device(fd);
	close(fd);
	close(ends[0]);
	close(ends[1]);
}

static void test_other_sockets_are_sockets(void **state)
{
	struct stat st;
	int ends[2], fd;

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
	assert_int_equal(fstat(ends[0], &st), 0);
	assert_true(S_ISSOCK(st.st_mode));
	close(ends[0]);
	close(ends[1]);
	fd = socket(AF_INET, SOCK_DGRAM, 0);
	errno = 77;
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(errno, 77);
	assert_true(S_ISSOCK(st.st_mode));
	close(fd);
}

static void test_daemon_dies(void **state)
{
	int fd = open_node(O_RDWR);

	fake_daemon_stop(server);
	server = 0;
	assert_fd_is_device(fd);
	close(fd);
	/* The node is still there, but nothing behind it. */
	assert_int_equal(open(NODE, O_RDWR), -1);
	assert_int_equal(errno, ENXIO);
}

int main(int argc, char **argv)
{
#define DEVICE_TEST(name) cmocka_unit_test_setup_teardown(name, start, end)
	const struct CMUnitTest tests[] = {
		DEVICE_TEST(test_open),
		DEVICE_TEST(test_open_flags),
		DEVICE_TEST(test_open_relative),
		DEVICE_TEST(test_dup),
		DEVICE_TEST(test_reused_number),
		DEVICE_TEST(test_fork),
		DEVICE_TEST(test_scm_rights),
		DEVICE_TEST(test_daemon_dies),
		cmocka_unit_test(test_other_sockets_are_sockets),
	};
	int ret;

	fake_reexec(argv, getenv("SIMHCA_PRELOAD"));
	runtime_dir = getenv("SIMHCA_RUNTIME_DIR");
	ret = cmocka_run_group_tests(tests, NULL, NULL);
	fake_remove(runtime_dir);
	return ret;
}
