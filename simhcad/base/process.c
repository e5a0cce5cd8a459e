/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <uthash.h>
#include <utlist.h>

#include "core/proc_stat.h"
#include "log.h"
#include "printable.h"
#include "process.h"

struct process {
	struct process_table *table;
	pid_t pid;
	int fd;	     /* pidfd */
	int pagemap; /* of /proc/PID/pagemap, or -1 */
	int mem;     /* of /proc/PID/mem, or -1 */
	bool reachable;
	ev_io io;
	struct process_use *uses;
	UT_hash_handle hh;
};

static void process_free(struct process *process)
{
	HASH_DEL(process->table->by_pid, process);
	ev_io_stop(process->table->loop, &process->io);
	close(process->fd);
	if (process->pagemap >= 0)
		close(process->pagemap);
	if (process->mem >= 0)
		close(process->mem);
	free(process);
}

static void use_free(struct process_use *use)
{
	if (use->process)
		DL_DELETE2(use->process->uses, use, peer_prev, peer_next);
	DL_DELETE(*use->owner, use);
	free(use);
}

static void process_ended(struct process *process)
{
	struct process_use *use, *next;

	log_debug("process %d has ended", (int)process->pid);
	DL_FOREACH_SAFE2(process->uses, use, next, peer_next)
	{
		simhca_mm_gone(use->mm);
		simhca_context_process_gone(use->context, use->pid);
		use_free(use);
	}
	process_free(process);
}

static void on_exit_of_process(struct ev_loop *loop, ev_io *io, int events)
{
	process_ended(io->data);
}

static bool has_ended(int pidfd)
{
	struct pollfd pollfd = { .fd = pidfd, .events = POLLIN };

	return poll(&pollfd, 1, 0) == 1;
}

static struct process *find_alive(struct process_table *table, pid_t pid)
{
	struct process *process;

	HASH_FIND(hh, table->by_pid, &pid, sizeof(pid), process);
	if (process && has_ended(process->fd)) {
		process_ended(process);
		return NULL;
	}
	return process;
}

static struct process *watch(struct process_table *table, pid_t pid, int pidfd)
{
	struct process *process = calloc(1, sizeof(*process));

	if (!process) {
		errno = ENOMEM;
		return NULL;
	}
	process->table = table;
	process->pid = pid;
	process->fd = pidfd;
	process->pagemap = process->mem = -1;
	HASH_ADD(hh, table->by_pid, pid, sizeof(process->pid), process);
	ev_io_init(&process->io, on_exit_of_process, process->fd, EV_READ);
	process->io.data = process;
	ev_io_start(table->loop, &process->io);
	return process;
}

/* ------------------------------------------------------------------------ looking at one */

void process_look_start(struct process_look *look, pid_t pid, int pidfd)
{
	look->pid = pid;
	look->pidfd = pidfd >= 0 ? pidfd : (int)syscall(SYS_pidfd_open, pid, 0);
	look->blind = look->pidfd < 0 && errno == ENOSYS;
	look->pagemap = look->mem = -1;
	look->reachable = false;
}

/* -1 also if it says that the address space is gone: a sandbox that always does is not believed. */
static int open_of(pid_t pid, const char *name, int flags)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	fd = open(path, flags | O_CLOEXEC);
	if (fd >= 0 && !pread(fd, path, 1, 0)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

void process_look_do(struct process_look *look)
{
	look->pagemap = open_of(look->pid, "pagemap", O_RDONLY);
	look->mem = open_of(look->pid, "mem", O_RDWR);
	look->reachable = simhca_process_reachable(look->pid);
}

void process_look_drop(struct process_look *look)
{
	if (look->pidfd >= 0)
		close(look->pidfd);
	if (look->pagemap >= 0)
		close(look->pagemap);
	if (look->mem >= 0)
		close(look->mem);
	look->pidfd = look->pagemap = look->mem = -1;
}

bool process_look_finish(struct process_table *table, struct process_look *look)
{
	struct process *process = find_alive(table, look->pid);

	/* If it lives now, then its number was its own when that was opened. */
	if (look->pidfd < 0 || has_ended(look->pidfd)) {
		process_look_drop(look);
		return look->blind;
	}
	if (!process) {
		process = watch(table, look->pid, look->pidfd);
		if (process)
			look->pidfd = -1; /* it has that now */
	}
	if (process && process->pagemap < 0) {
		process->pagemap = look->pagemap;
		process->mem = look->mem;
		process->reachable = look->reachable;
		look->pagemap = look->mem = -1;
	}
	process_look_drop(look);
	return process;
}

void process_forget_unused(struct process_table *table, pid_t pid)
{
	struct process *process;

	HASH_FIND(hh, table->by_pid, &pid, sizeof(pid), process);
	if (process && !process->uses)
		process_free(process);
}

bool process_is_known(struct process_table *table, pid_t pid, bool *reachable)
{
	const struct process *process = find_alive(table, pid);

	*reachable = process && process->reachable;
	return process;
}

/* ------------------------------------------------------------------------------- their use */

bool process_is_used(const struct process_use *list, pid_t pid)
{
	const struct process_use *use;

	DL_FOREACH (list, use)
		if (use->pid == pid)
			return true;
	return false;
}

/* False: this kernel has no pidfds. */
static bool processes_can_be_watched(void)
{
	int pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);

	if (pidfd >= 0)
		close(pidfd);
	return pidfd >= 0 || errno != ENOSYS;
}

struct simhca_mm *process_memory(struct process_table *table, struct process_use **owner,
				 struct simhca_context *context, pid_t pid)
{
	struct process_use *use;
	struct process *process;

	/* First: of one that has ended, nothing is used any more. */
	process = pid > 0 ? find_alive(table, pid) : NULL;
	DL_FOREACH (*owner, use)
		if (use->pid == pid)
			return use->mm;
	/* It lived when it was looked at. Nobody would see when its number is another's. */
	if (pid > 0 && !process && processes_can_be_watched()) {
		errno = ESRCH;
		return NULL;
	}

	use = calloc(1, sizeof(*use));
	if (!use) {
		errno = ENOMEM;
		return NULL;
	}
	use->pid = pid;
	use->context = context;
	use->owner = owner;
	simhca_context_drop_gone(context);
	use->mm = simhca_context_mm(context, pid);
	if (!use->mm) {
		free(use);
		errno = ENOMEM;
		return NULL;
	}
	use->process = process;
	if (!use->process && pid > 0)
		log_warning("process %d: cannot watch for its end", (int)pid);
	else if (use->process && use->process->pagemap < 0 && use->process->reachable)
		log_warning("process %d: /proc/%d/pagemap does not tell whether it is there",
			    (int)pid, (int)pid);
	if (use->process)
		simhca_mm_known_by(use->mm, use->process->pagemap, use->process->mem);
	if (use->process)
		DL_APPEND2(use->process->uses, use, peer_prev, peer_next);
	DL_APPEND(*owner, use);
	return use->mm;
}

void process_release(struct process_use *use)
{
	struct process *process = use->process;

	use_free(use);
	if (process && !process->uses)
		process_free(process);
}

long long process_cpu(pid_t pid)
{
	unsigned long long user, system;
	char path[64], text[SIMHCA_PROC_STAT];
	const char *state;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	state = simhca_proc_stat(path, text);
	/* The state is field 3, the time in user mode 14, that in the kernel 15. */
	if (!state || sscanf(state, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &user,
			     &system) != 2)
		return -1;
	return (long long)(user + system);
}

void process_name(pid_t pid, char comm[16])
{
	char path[64];
	ssize_t length;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	length = fd < 0 ? 0 : read(fd, comm, 15);
	if (fd >= 0)
		close(fd);
	comm[length > 0 ? length : 0] = '\0';
	/* The kernel ends it with a newline; others are its own. */
	if (length > 0 && comm[length - 1] == '\n')
		comm[length - 1] = '\0';
	make_ascii(comm);
}
