/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "supervised_call.h"

static bool look_at_thread(uint32_t pid, struct thread *thread)
{
	char path[64], line[256];
	unsigned int number, user;
	unsigned long long set;
	FILE *file;

	*thread = (struct thread){ .process = 0, .user = (uid_t)-1 };
	snprintf(path, sizeof(path), "/proc/%u/status", (unsigned int)pid);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "Tgid: %u", &number) == 1)
			thread->process = (pid_t)number;
		else if (sscanf(line, "Uid: %*u %u", &user) == 1)
			thread->user = user;
		else if (sscanf(line, "SigPnd: %llx", &set) == 1 ||
			 sscanf(line, "ShdPnd: %llx", &set) == 1)
			thread->pending |= set;
		else if (sscanf(line, "SigBlk: %llx", &set) == 1 ||
			 sscanf(line, "SigIgn: %llx", &set) == 1)
			thread->held |= set;
	}
	if (file)
		fclose(file);
	return thread->process;
}

int supervised_is_signalled(uint32_t pid)
{
	struct thread thread;

	return look_at_thread(pid, &thread) && (thread.pending & ~thread.held);
}

/* Whether the call still waits, so that its thread is not another one of the same number. */
static bool still_waits(const struct call *call)
{
	uint64_t id = call->notif->id;

	return !ioctl(call->supervised->listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &id);
}

bool call_is_served(const struct call *call, struct thread *thread)
{
	return look_at_thread(call->notif->pid, thread) && thread->user == geteuid() &&
	       still_waits(call);
}

/* number: where to put it, -1: the lowest. What ADDFD returns, or -errno. */
static int add_fd(const struct call *call, int fd, int number, bool is_answer, bool close_on_exec)
{
	struct seccomp_notif_addfd add = {
		.id = call->notif->id,
		.srcfd = (uint32_t)fd,
		.newfd = number < 0 ? 0 : (uint32_t)number,
		.flags = (number < 0 ? 0 : (uint32_t)SECCOMP_ADDFD_FLAG_SETFD) |
			 (is_answer ? (uint32_t)SECCOMP_ADDFD_FLAG_SEND : 0),
		.newfd_flags = close_on_exec ? O_CLOEXEC : 0,
	};
	int ret = ioctl(call->supervised->listener, SECCOMP_IOCTL_NOTIF_ADDFD, &add);

	return ret < 0 ? -errno : ret;
}

int call_give(struct caller *caller, int fd)
{
	int number = add_fd((struct call *)caller, fd, -1, false, true);

	close(fd);
	return number;
}

int call_borrow(struct caller *caller, int fd)
{
	const struct call *call = (struct call *)caller;
	struct thread thread;
	int pidfd, copy;

	if (!call_is_served(call, &thread))
		return -ESRCH;
	pidfd = (int)syscall(SYS_pidfd_open, thread.process, 0);
	if (pidfd < 0)
		return -errno;
	copy = (int)syscall(SYS_pidfd_getfd, pidfd, fd, 0);
	if (copy < 0)
		copy = -errno;
	close(pidfd);
	return copy;
}

bool call_read(const struct call *call, void *to, uint64_t from, size_t size)
{
	return !caller_read(&call->caller, to, (const void *)(uintptr_t)from, size);
}

enum supervised_outcome call_answer_with(struct call *call, uint64_t to, const void *from,
					 size_t size, int64_t value)
{
	int ret = caller_write(&call->caller, (void *)(uintptr_t)to, from, size);

	call->value = ret ? ret : value;
	return CALL_ANSWERED;
}

enum supervised_outcome call_answer(struct call *call, int64_t value)
{
	call->value = value;
	return CALL_ANSWERED;
}

enum supervised_outcome call_wait(struct call *call, int fd)
{
	call->wait_fd = fd;
	return CALL_WAITS;
}

static bool has_number(const struct call *call, unsigned int fd)
{
	char path[64];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%u/fd/%u", (unsigned int)call->notif->pid, fd);
	return !lstat(path, &st);
}

enum supervised_outcome call_answer_with_fd(struct call *call, int fd, enum call_fd kind,
					    unsigned int least, bool close_on_exec)
{
	const struct fd_range *range = &call->supervised->range;
	unsigned int number = kind == CALL_FD_DEVICE ? range->first : range->sockets;
	unsigned int end = kind == CALL_FD_DEVICE ? range->sockets : range->end;
	int ret = -EBADF;

	for (number = number < least ? least : number; kind != CALL_FD_FILE && number < end;
	     number++) {
		if (has_number(call, number))
			continue;
		ret = add_fd(call, fd, (int)number, true, close_on_exec);
		break;
	}
	/* There is no room, or the program has lowered its limit since. */
	if (ret == -EBADF && !least)
		ret = add_fd(call, fd, -1, true, close_on_exec);
	close(fd);
	if (ret == -EBADF && least) /* the kernel finds a number that is large enough */
		return CALL_CONTINUES;
	if (ret >= 0 || ret == -ENOENT)
		return CALL_ENDED;
	return call_answer(call, ret);
}
