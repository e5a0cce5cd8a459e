/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "ready.h"

void ready_notify(const char *state)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	size_t length;
	int fd;

	if (!path || (path[0] != '/' && path[0] != '@'))
		return;
	length = strlen(path);
	if (length >= sizeof(addr.sun_path)) {
		log_warning("NOTIFY_SOCKET %s: the name is too long", path);
		return;
	}
	memcpy(addr.sun_path, path, length);
	if (path[0] == '@')
		addr.sun_path[0] = '\0'; /* the abstract namespace */
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 ||
	    sendto(fd, state, strlen(state), MSG_NOSIGNAL | MSG_DONTWAIT, (struct sockaddr *)&addr,
		   (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length)) < 0)
		log_warning("NOTIFY_SOCKET %s: %m", path);
	if (fd >= 0)
		close(fd);
}

void ready_write(int fd)
{
	ssize_t written;

	do
		written = write(fd, "\n", 1);
	while (written < 0 && errno == EINTR);
	if (written < 0)
		log_warning("--ready-fd %d: %m", fd);
	close(fd);
}

int background_start(void)
{
	int ends[2];
	pid_t child;
	ssize_t length;
	char byte;
	int status;

	if (pipe2(ends, O_CLOEXEC))
		return -1;
	child = fork();
	if (child < 0)
		return -1;
	if (!child) {
		close(ends[0]);
		/*
		 * A process group of its own is out of reach of the terminal's keys and of its
		 * end; a session of its own is none of use (Documentation/architecture.md,
		 * "Engines"). What is said before background_ready() is said on a terminal, too,
		 * that stops who writes in the background (stty tostop).
		 */
		setpgid(0, 0);
		signal(SIGTTOU, SIG_IGN);
		return ends[1];
	}

	close(ends[1]);
	do
		length = read(ends[0], &byte, 1);
	while (length < 0 && errno == EINTR);
	if (length == 1)
		_exit(0);
	/* The pipe was closed without a byte: the child has ended or is about to. */
	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			_exit(1);
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

void background_ready(int fd)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (chdir("/"))
		log_warning("chdir(\"/\"): %m");
	if (null >= 0) {
		dup2(null, STDIN_FILENO);
		dup2(null, STDOUT_FILENO);
		dup2(null, STDERR_FILENO);
		if (null > STDERR_FILENO)
			close(null);
	}
	if (write(fd, "\n", 1) < 0)
		log_warning("telling the parent process: %m");
	close(fd);
}
