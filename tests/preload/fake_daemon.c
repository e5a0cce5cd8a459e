/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fake_daemon.h"
#include "simhca-abi.h"

static void check(bool ok, const char *what)
{
	if (!ok) {
		perror(what);
		exit(99);
	}
}

const char *fake_runtime_dir(void)
{
	static char path[] = "/tmp/simhca-preload-XXXXXX";

	check(mkdtemp(path), "mkdtemp");
	return path;
}

void fake_remove(const char *runtime_dir)
{
	pid_t rm = fork();

	if (!rm) {
		unsetenv("LD_PRELOAD");
		execlp("rm", "rm", "-rf", runtime_dir, (char *)NULL);
		_exit(127);
	}
	waitpid(rm, NULL, 0);
}

/* Write the path of the tree's name into path, and make the directories that lead there. */
static void make_parents(const char *runtime_dir, const char *name, char *path, size_t size)
{
	snprintf(path, size, "%s/tree/%s", runtime_dir, name);
	for (char *slash = path + strlen(runtime_dir) + 1; (slash = strchr(slash, '/')); slash++) {
		*slash = '\0';
		check(!mkdir(path, 0755) || errno == EEXIST, path);
		*slash = '/';
	}
}

void fake_write(const char *runtime_dir, const char *name, const char *text)
{
	char path[512];
	FILE *file;

	make_parents(runtime_dir, name, path, sizeof(path));
	file = fopen(path, "w");
	check(file, path);
	fprintf(file, "%s\n", text);
	fclose(file);
}

/* Write a file of the device. */
static void write_attr(const char *runtime_dir, const char *device, const char *name,
		       const char *text)
{
	char path[256];

	check(snprintf(path, sizeof(path), "sys/class/infiniband/%s/%s", device, name) <
		      (int)sizeof(path),
	      name);
	fake_write(runtime_dir, path, text);
}

void fake_tree(const char *runtime_dir, const char *device)
{
	static const char *const gids[] = {
		"fe80:0000:0000:0000:0200:00ff:fe00:0001",
		"fe80:0000:0000:0000:0200:00ff:fe00:0001",
		"0000:0000:0000:0000:0000:0000:0000:0000",
		"0000:0000:0000:0000:0000:0000:0000:0000",
	};
	static const char *const types[] = { "IB/RoCE v1", "RoCE v2", "", "" };
	char path[512], dev[32];

	snprintf(dev, sizeof(dev), "%d:%d", FAKE_MAJOR, FAKE_MINOR);
	fake_write(runtime_dir, "sys/class/infiniband_verbs/abi_version", "6");
	fake_write(runtime_dir, "sys/class/infiniband_verbs/uverbs0/ibdev", device);
	fake_write(runtime_dir, "sys/class/infiniband_verbs/uverbs0/dev", dev);
	fake_write(runtime_dir, "sys/class/infiniband_verbs/uverbs0/abi_version", "1");
	fake_write(runtime_dir, "sys/class/misc/rdma_cm/abi_version", "4");

	write_attr(runtime_dir, device, "node_type", "1: CA");
	write_attr(runtime_dir, device, "node_guid", "0200:00ff:fe00:0001");
	write_attr(runtime_dir, device, "ports/1/link_layer", "Ethernet");
	for (size_t i = 0; i < sizeof(gids) / sizeof(*gids); i++) {
		snprintf(path, sizeof(path), "ports/1/gids/%zu", i);
		write_attr(runtime_dir, device, path, gids[i]);
		snprintf(path, sizeof(path), "ports/1/gid_attrs/types/%zu", i);
		write_attr(runtime_dir, device, path, types[i]);
		snprintf(path, sizeof(path), "ports/1/gid_attrs/ndevs/%zu", i);
		write_attr(runtime_dir, device, path, *types[i] ? "lo" : "");
	}

	snprintf(path, sizeof(path), "%s/tree/sys/class/infiniband/%s/subsystem", runtime_dir,
		 device);
	check(!symlink("../../infiniband", path), path);
	make_parents(runtime_dir, "dev/infiniband/", path, sizeof(path));
}

static volatile sig_atomic_t refusing;

/* SIGUSR1: from now on every command fails with EMFILE. */
static void refuse(int signal)
{
	refusing = 1;
}

int fake_listen(const char *runtime_dir)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	signal(SIGUSR1, refuse);
	check(snprintf(addr.sun_path, sizeof(addr.sun_path), "%s/tree/dev/infiniband/uverbs0",
		       runtime_dir) < (int)sizeof(addr.sun_path),
	      "runtime directory's name");
	check(!bind(listener, (struct sockaddr *)&addr, sizeof(addr)), addr.sun_path);
	check(!chmod(addr.sun_path, 0666), addr.sun_path);
	check(!listen(listener, 16), "listen");
	return listener;
}

static int take_fd(struct msghdr *msg)
{
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(msg);
	int fd = -1;

	if (cmsg && cmsg->cmsg_type == SCM_RIGHTS)
		memcpy(&fd, CMSG_DATA(cmsg), sizeof(fd));
	return fd;
}

static int record_pipe(const char *record)
{
	int ends[2];

	check(!pipe(ends), "pipe");
	check(write(ends[1], record, strlen(record)) > 0, "write");
	close(ends[1]);
	return ends[0];
}

/* False: the client has gone. */
static bool serve_one(int client)
{
	char control[CMSG_SPACE(sizeof(int))] __attribute__((aligned(8)));
	struct simhca_reply_hdr reply = { .magic = SIMHCA_CMD_MAGIC, .length = sizeof(reply) };
	struct simhca_cmd_hdr cmd;
	struct iovec iov = { &cmd, sizeof(cmd) };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control,
			      .msg_controllen = sizeof(control) };
	ssize_t len = recvmsg(client, &msg, MSG_CMSG_CLOEXEC);
	int reply_socket, fd = -1;

	if (len <= 0)
		return false;
	reply_socket = take_fd(&msg);
	/* What follows the header belongs to commands that it does not have. */
	if (len != sizeof(cmd) || cmd.magic != SIMHCA_CMD_MAGIC || cmd.length < sizeof(cmd) ||
	    cmd.version != SIMHCA_ABI_VERSION)
		reply.status = EPROTO;
	else if (refusing)
		reply.status = EMFILE;
	else if (cmd.command == SIMHCA_CMD_CREATE_CHANNEL)
		fd = record_pipe(FAKE_CHANNEL_RECORD);
	else if (cmd.command == SIMHCA_CMD_ALLOC_ASYNC_FD)
		fd = record_pipe(FAKE_ASYNC_RECORD);
	else
		reply.status = EOPNOTSUPP;

	iov = (struct iovec){ &reply, sizeof(reply) };
	msg.msg_control = fd < 0 ? NULL : control;
	msg.msg_controllen = fd < 0 ? 0 : sizeof(control);
	if (fd >= 0) {
		CMSG_FIRSTHDR(&msg)->cmsg_level = SOL_SOCKET;
		CMSG_FIRSTHDR(&msg)->cmsg_type = SCM_RIGHTS;
		CMSG_FIRSTHDR(&msg)->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(CMSG_FIRSTHDR(&msg)), &fd, sizeof(fd));
	}
	sendmsg(reply_socket, &msg, MSG_NOSIGNAL);
	close(reply_socket);
	if (fd >= 0)
		close(fd);
	return true;
}

void fake_serve(int listener)
{
	struct pollfd fds[64] = { { .fd = listener, .events = POLLIN } };
	nfds_t count = 1;

	for (;;) {
		if (poll(fds, count, -1) < 0) {
			check(errno == EINTR, "poll");
			continue;
		}
		for (nfds_t i = count - 1; i > 0; i--)
			if (fds[i].revents && !serve_one(fds[i].fd)) {
				close(fds[i].fd);
				fds[i] = fds[--count];
			}
		if (fds[0].revents && count < 64) {
			fds[count].fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
			fds[count].revents = 0;
			fds[count++].events = POLLIN;
		}
	}
}

pid_t fake_daemon_start(const char *runtime_dir)
{
	int listener = fake_listen(runtime_dir);
	pid_t daemon = fork();

	check(daemon >= 0, "fork");
	if (!daemon) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		fake_serve(listener);
	}
	close(listener);
	return daemon;
}

void fake_daemon_stop(pid_t daemon)
{
	kill(daemon, SIGKILL);
	waitpid(daemon, NULL, 0);
}

void fake_reexec(char **argv, const char *preload)
{
	const char *runtime_dir;

	if (getenv("SIMHCA_RUNTIME_DIR"))
		return;
	runtime_dir = fake_runtime_dir();
	fake_tree(runtime_dir, FAKE_DEVICE);
	setenv("SIMHCA_RUNTIME_DIR", runtime_dir, 1);
	if (preload)
		setenv("LD_PRELOAD", preload, 1);
	execv("/proc/self/exe", argv);
	check(false, "execv");
}
