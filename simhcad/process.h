/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Client processes, whose memory the device reaches: each is watched through a pidfd, and when it
 * has ended its address space is declared gone wherever it is used, before its pid can name
 * another process.
 */
#ifndef SIMHCAD_PROCESS_H
#define SIMHCAD_PROCESS_H

#include <ev.h>
#include <sys/types.h>

#include "simhca.h"

struct process;

struct process_table {
	struct ev_loop *loop;
	struct process *by_pid; /* hash */
};

/* One context's use of one process's memory. */
struct process_use {
	pid_t pid;
	struct simhca_mm *mm;
	struct process *process;		   /* NULL: the kernel offers no way to watch it */
	struct process_use **owner;		   /* the context's list, in which it is linked */
	struct process_use *prev, *next;	   /* there */
	struct process_use *peer_prev, *peer_next; /* in the process's list */
};

/*
 * The memory of process pid for context, whose list is *owner. pid 0 stands for a process that
 * cannot be seen from here. NULL: out of memory.
 */
struct simhca_mm *process_memory(struct process_table *table, struct process_use **owner,
				 struct simhca_context *context, pid_t pid);
/* The context does not use any process any more. */
void process_release(struct process_table *table, struct process_use **owner);

/* The name of a process, "" if it cannot be seen. */
void process_name(pid_t pid, char comm[16]);

#endif
