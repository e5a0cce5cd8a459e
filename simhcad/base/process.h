/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Client processes, whose memory the device reaches.
 *
 * A number names a process only while it lives. So each is known by a pidfd, if possible that which
 * came with its command, and its address space by descriptors of /proc/PID/pagemap and
 * /proc/PID/mem, opened while that pidfd said that the process lives: the model asks the one
 * whether the number still stands for that address space, and reaches its bytes by the other. When
 * a process has ended, which is seen through the pidfd, its address space is declared gone wherever
 * it is used.
 *
 * Looking at a process can take long: it may hold the locks of its address space. So that is a part
 * which any thread can do.
 */
#ifndef SIMHCAD_PROCESS_H
#define SIMHCAD_PROCESS_H

#include <ev.h>
#include <stdbool.h>
#include <sys/types.h>

struct process;

struct process_table {
	struct ev_loop *loop;
	struct process *by_pid; /* hash */
};

/* One context's use of one process's memory. */
struct process_use {
	pid_t pid;
	struct simhca_context *context;
	struct simhca_mm *mm;
	struct process *process;		   /* NULL: the kernel offers no way to watch it */
	struct process_use **owner;		   /* the context's list, in which it is linked */
	struct process_use *prev, *next;	   /* there */
	struct process_use *peer_prev, *peer_next; /* in the process's list */
};

/* What there is to know of a process before its memory is used. */
struct process_look {
	pid_t pid;
	int pidfd;	/* -1: there is none */
	int mem;	/* /proc/PID/mem; -1: cannot be opened */
	int pagemap;	/* /proc/PID/pagemap; -1: cannot be opened */
	bool reachable; /* by process_vm_readv() */
	bool blind;	/* this kernel has no pidfds (before Linux 5.3) */
};
/* Main thread. Takes over pidfd, or opens one if it is -1. */
void process_look_start(struct process_look *look, pid_t pid, int pidfd);
/* Any thread; may sleep. */
void process_look_do(struct process_look *look);
/* Main thread. False: it has ended. */
bool process_look_finish(struct process_table *table, struct process_look *look);
void process_look_drop(struct process_look *look);
/* Lets go of one that nobody uses after all, if there is one. */
void process_forget_unused(struct process_table *table, pid_t pid);

/* Whether the process has been looked at, and lives; *reachable is what was seen then. */
bool process_is_known(struct process_table *table, pid_t pid, bool *reachable);

/* Whether it is among those in a context's list. */
bool process_is_used(const struct process_use *list, pid_t pid);

/*
 * The memory of process pid for context, whose list is *owner. pid 0 stands for a process that
 * cannot be seen from here. NULL and errno: ENOMEM, or ESRCH: it has ended, though process_is_known() has just known it.
 */
struct simhca_mm *process_memory(struct process_table *table, struct process_use **owner,
				 struct simhca_context *context, pid_t pid);
/* The context does not use this process any more. */
void process_release(struct process_use *use);

/* CPU time of all its threads so far, in clock ticks; -1: it cannot be seen. */
long long process_cpu(pid_t pid);
/* The name of a process, "" if it cannot be seen. */
void process_name(pid_t pid, char comm[16]);

#endif
