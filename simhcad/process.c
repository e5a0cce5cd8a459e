/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <uthash.h>
#include <utlist.h>

#include "log.h"
#include "process.h"

struct process {
	struct process_table *table;
	pid_t pid;
	int fd; /* pidfd */
	ev_io io;
	struct process_use *uses;
	UT_hash_handle hh;
};

static void process_free(struct process *process)
{
	HASH_DEL(process->table->by_pid, process);
	ev_io_stop(process->table->loop, &process->io);
	close(process->fd);
	free(process);
}

static void use_free(struct process_use *use)
{
	if (use->process)
		DL_DELETE2(use->process->uses, use, peer_prev, peer_next);
	DL_DELETE(*use->owner, use);
	free(use);
}

static void on_exit_of_process(struct ev_loop *loop, ev_io *io, int events)
{
	struct process *process = io->data;
	struct process_use *use, *next;

	log_debug("process %d has ended", (int)process->pid);
	DL_FOREACH_SAFE2(process->uses, use, next, peer_next)
	{
		simhca_mm_gone(use->mm);
		use_free(use);
	}
	process_free(process);
}

static struct process *find_or_watch(struct process_table *table, pid_t pid)
{
	struct process *process;

	HASH_FIND(hh, table->by_pid, &pid, sizeof(pid), process);
	if (process || pid <= 0)
		return process;
	process = calloc(1, sizeof(*process));
	if (!process) {
		errno = ENOMEM;
		return NULL;
	}
	process->fd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (process->fd < 0) {
		free(process);
		return NULL;
	}
	process->table = table;
	process->pid = pid;
	HASH_ADD(hh, table->by_pid, pid, sizeof(process->pid), process);
	ev_io_init(&process->io, on_exit_of_process, process->fd, EV_READ);
	process->io.data = process;
	ev_io_start(table->loop, &process->io);
	return process;
}

struct simhca_mm *process_memory(struct process_table *table, struct process_use **owner,
				 struct simhca_context *context, pid_t pid)
{
	struct process_use *use;

	DL_FOREACH (*owner, use)
		if (use->pid == pid)
			return use->mm;

	use = calloc(1, sizeof(*use));
	if (!use)
		return NULL;
	use->pid = pid;
	use->owner = owner;
	use->mm = simhca_context_mm(context, pid);
	if (!use->mm) {
		free(use);
		return NULL;
	}
	use->process = find_or_watch(table, pid);
	if (!use->process && pid > 0)
		log_warning("process %d: cannot watch for its end: %m", (int)pid);
	if (use->process)
		DL_APPEND2(use->process->uses, use, peer_prev, peer_next);
	DL_APPEND(*owner, use);
	return use->mm;
}

void process_release(struct process_table *table, struct process_use **owner)
{
	struct process_use *use, *next;

	DL_FOREACH_SAFE (*owner, use, next) {
		struct process *process = use->process;

		use_free(use);
		if (process && !process->uses)
			process_free(process);
	}
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
	comm[strcspn(comm, "\n")] = '\0';
}
