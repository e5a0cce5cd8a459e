/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/paths.h"
#include "supervisor.h"
#include "tool.h"

#define WAITERS 256	 /* calls that wait for an event at once; more get EAGAIN */
#define LOOK_MS 50	 /* after signals for those that wait */
#define RESTARTS 512	 /* the kernel's ERESTARTSYS: after the signal the call begins anew */
#define FDS_OF_TOOL 4096 /* descriptors below this are closed in a process that stays */

struct waiter {
	struct seccomp_notif notif;
	int fd; /* readable when it is worth asking again */
};

struct supervisor {
	struct supervised supervised;
	struct supervised_tally tally;
	int ends[2]; /* by which the listener comes: ours, the command's */
	int stop;    /* eventfd */
	bool started;
	pthread_t thread;
	struct seccomp_notif *notif; /* of the kernel's size */
	struct seccomp_notif_resp *response;
	struct seccomp_notif_sizes sizes;
	struct waiter waiters[WAITERS];
	unsigned int num_waiters;
};

/* ------------------------------------------------------------------------- the listener's way */

union control {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(sizeof(int))];
};

static int send_listener(int socket, int listener)
{
	union control control = { .bytes = { 0 } };
	char byte = 0;
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);

	cmsg->cmsg_level = SOL_SOCKET;
	cmsg->cmsg_type = SCM_RIGHTS;
	cmsg->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(cmsg), &listener, sizeof(int));
	return sendmsg(socket, &msg, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* -1: the command did not come to it. */
static int receive_listener(int socket)
{
	union control control;
	char byte;
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	struct cmsghdr *cmsg;
	int listener;

	if (recvmsg(socket, &msg, MSG_CMSG_CLOEXEC) <= 0)
		return -1;
	cmsg = CMSG_FIRSTHDR(&msg);
	if (!cmsg || cmsg->cmsg_type != SCM_RIGHTS)
		return -1;
	memcpy(&listener, CMSG_DATA(cmsg), sizeof(int));
	return listener;
}

/* ------------------------------------------------------------------------------------ answers */

static void respond(struct supervisor *supervisor, uint64_t id, int64_t value, bool continues)
{
	struct seccomp_notif_resp *response = supervisor->response;

	memset(response, 0, supervisor->sizes.seccomp_notif_resp);
	response->id = id;
	if (continues)
		response->flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
	else if (value < 0)
		response->error = (int32_t)value;
	else
		response->val = value;
	/* It fails for a thread that has ended meanwhile. */
	ioctl(supervisor->supervised.listener, SECCOMP_IOCTL_NOTIF_SEND, response);
}

/* Carries out a call. False: it waits until *fd, which is the caller's to close, is readable. */
static bool serve_call(struct supervisor *supervisor, const struct seccomp_notif *notif, int *fd)
{
	int64_t value;

	switch (supervised_call(&supervisor->supervised, notif, &value, fd)) {
	case CALL_CONTINUES:
		respond(supervisor, notif->id, 0, true);
		break;
	case CALL_ANSWERED:
		respond(supervisor, notif->id, value, false);
		break;
	case CALL_ENDED:
		break;
	case CALL_WAITS:
		return false;
	}
	return true;
}

static void receive_call(struct supervisor *supervisor)
{
	struct waiter *waiter = &supervisor->waiters[supervisor->num_waiters];
	int fd;

	memset(supervisor->notif, 0, supervisor->sizes.seccomp_notif);
	if (ioctl(supervisor->supervised.listener, SECCOMP_IOCTL_NOTIF_RECV, supervisor->notif) ||
	    serve_call(supervisor, supervisor->notif, &fd))
		return;
	if (supervisor->num_waiters == WAITERS) {
		respond(supervisor, supervisor->notif->id, -EAGAIN, false);
		close(fd);
		return;
	}
	*waiter = (struct waiter){ .notif = *supervisor->notif, .fd = fd };
	supervisor->num_waiters++;
}

/* Tries a call that waits once more. True: it waits no longer. */
static bool serve_waiter(struct supervisor *supervisor, struct waiter *waiter, bool is_readable)
{
	uint64_t id = waiter->notif.id;
	int fd;

	if (ioctl(supervisor->supervised.listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &id))
		return true;
	if (is_readable) {
		if (serve_call(supervisor, &waiter->notif, &fd))
			return true;
		close(fd); /* it still waits for what waiter->fd is for */
		return false;
	}
	if (!supervised_is_signalled(waiter->notif.pid))
		return false;
	respond(supervisor, id, -RESTARTS, false);
	return true;
}

static void serve_waiters(struct supervisor *supervisor, const struct pollfd *fds)
{
	unsigned int kept = 0;

	for (unsigned int i = 0; i < supervisor->num_waiters; i++) {
		struct waiter waiter = supervisor->waiters[i];

		if (serve_waiter(supervisor, &waiter, fds[i].revents))
			close(waiter.fd);
		else
			supervisor->waiters[kept++] = waiter;
	}
	supervisor->num_waiters = kept;
}

/* Until nobody is under the filter any more, or it is to stop. */
static void serve(struct supervisor *supervisor)
{
	struct pollfd fds[2 + WAITERS];

	for (;;) {
		unsigned int waiters = supervisor->num_waiters;

		fds[0] = (struct pollfd){ .fd = supervisor->supervised.listener, .events = POLLIN };
		fds[1] = (struct pollfd){ .fd = supervisor->stop, .events = POLLIN };
		for (unsigned int i = 0; i < waiters; i++)
			fds[2 + i] = (struct pollfd){ .fd = supervisor->waiters[i].fd,
						      .events = POLLIN };
		if (poll(fds, 2 + waiters, waiters ? LOOK_MS : -1) < 0 && errno != EINTR)
			return;
		serve_waiters(supervisor, fds + 2);
		if (fds[0].revents & POLLIN)
			receive_call(supervisor);
		else if (fds[0].revents || fds[1].revents)
			return;
	}
}

static void *run_thread(void *argument)
{
	struct supervisor *supervisor = argument;

	supervisor->supervised.listener = receive_listener(supervisor->ends[0]);
	if (supervisor->supervised.listener >= 0)
		serve(supervisor);
	return NULL;
}

/* --------------------------------------------------------------------------------------- life */

static void free_supervisor(struct supervisor *supervisor)
{
	const int fds[] = { supervisor->ends[0], supervisor->ends[1], supervisor->stop,
			    supervisor->supervised.listener };

	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		if (fds[i] >= 0)
			close(fds[i]);
	for (unsigned int i = 0; i < supervisor->num_waiters; i++)
		close(supervisor->waiters[i].fd);
	free(supervisor->notif);
	free(supervisor->response);
	free(supervisor);
}

/*
 * The calls on an open device are answered by a copy of its descriptor. docker's profile, which allows all else that
 * we need, keeps that for containers that may debug.
 */
static void check_copying(int fd)
{
	int pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);
	int copy = pidfd < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, pidfd, fd, 0);

	if (copy < 0)
		complain("--show seccomp: %s: %s: the device's files can be seen, and "
			 "calls on an "
			 "open device fail; docker run --cap-add SYS_PTRACE allows it",
			 pidfd < 0 ? "pidfd_open" : "pidfd_getfd", strerror(errno));
	if (copy >= 0)
		close(copy);
	if (pidfd >= 0)
		close(pidfd);
}

struct supervisor *supervisor_new(const char *dir)
{
	struct supervisor *supervisor = calloc(1, sizeof(*supervisor));

	if (!supervisor) {
		complain("out of memory");
		return NULL;
	}
	supervisor->ends[0] = supervisor->ends[1] = supervisor->supervised.listener = -1;
	supervisor->supervised.tally = &supervisor->tally;
	supervisor->supervised.range = seccomp_filter_range();
	supervisor->stop = eventfd(0, EFD_CLOEXEC);
	if (supervisor->stop < 0 ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, supervisor->ends) ||
	    syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &supervisor->sizes)) {
		complain("--show seccomp: %s; --show preload serves programs that are linked "
			 "dynamically",
			 strerror(errno));
		free_supervisor(supervisor);
		return NULL;
	}
	if (supervisor->sizes.seccomp_notif < sizeof(*supervisor->notif))
		supervisor->sizes.seccomp_notif = sizeof(*supervisor->notif);
	if (supervisor->sizes.seccomp_notif_resp < sizeof(*supervisor->response))
		supervisor->sizes.seccomp_notif_resp = sizeof(*supervisor->response);
	supervisor->notif = malloc(supervisor->sizes.seccomp_notif);
	supervisor->response = malloc(supervisor->sizes.seccomp_notif_resp);
	if (!supervisor->notif || !supervisor->response) {
		complain("out of memory");
		free_supervisor(supervisor);
		return NULL;
	}
	check_copying(supervisor->stop);
	paths_use(dir);
	return supervisor;
}

int supervisor_enter(struct supervisor *supervisor)
{
	int listener = seccomp_filter_enter(&supervisor->supervised.range);
	int ret = listener < 0 ? listener : send_listener(supervisor->ends[1], listener);

	if (listener >= 0)
		close(listener);
	return ret;
}

int supervisor_start(struct supervisor *supervisor)
{
	int error;

	/* Without this end a command that fails is the end of the thread's waiting. */
	close(supervisor->ends[1]);
	supervisor->ends[1] = -1;
	error = pthread_create(&supervisor->thread, NULL, run_thread, supervisor);
	supervisor->started = !error;
	if (error) {
		/* With the listener that has come, or comes: the command is not to wait for it. */
		close(supervisor->ends[0]);
		supervisor->ends[0] = -1;
	}
	return -error;
}

static bool is_needed(const struct supervisor *supervisor)
{
	struct pollfd pfd = { .fd = supervisor->supervised.listener };

	return pfd.fd >= 0 && poll(&pfd, 1, 0) == 0;
}

static bool is_ours(const struct supervisor *supervisor, int fd)
{
	bool ours = fd == supervisor->supervised.listener || fd == supervisor->stop;

	for (unsigned int i = 0; i < supervisor->num_waiters; i++)
		ours |= fd == supervisor->waiters[i].fd;
	return ours;
}

/* A process of its own, away from our terminal and our output, for whose end others may wait. */
static void __attribute__((noreturn)) stay(struct supervisor *supervisor)
{
	int null;

	setsid();
	for (int fd = 0; fd < FDS_OF_TOOL; fd++)
		if (!is_ours(supervisor, fd))
			close(fd);
	null = open("/dev/null", O_RDWR);
	while (null >= 0 && null < STDERR_FILENO)
		null = dup(null);
	serve(supervisor);
	_exit(0);
}

void supervisor_end(struct supervisor *supervisor, struct supervised_tally *tally)
{
	const uint64_t one = 1;
	uint64_t value;

	if (supervisor->started) {
		if (write(supervisor->stop, &one, sizeof(one)) < 0)
			complain("eventfd: %s", strerror(errno));
		pthread_join(supervisor->thread, NULL);
		if (read(supervisor->stop, &value, sizeof(value)) < 0)
			complain("eventfd: %s", strerror(errno));
		if (is_needed(supervisor) && !fork())
			stay(supervisor);
	}
	*tally = supervisor->tally;
	free_supervisor(supervisor);
}
