/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Programs: processes that share what one of them may have, so that a thousand children have no
 * more than their parent.
 *
 * What was started beside the daemon is a program, with all that descends from it: the ancestors of
 * a process are followed until one is an ancestor of the daemon as well, and the last before it
 * stands for the program. A process that is asked for once, when it connects, cannot change that
 * afterwards. It can before, by having its parent end: then it is a program of its own, as is one
 * whose ancestors cannot be seen. What a process cannot leave are its control group and its user,
 * and these are mostly everybody's.
 */
#ifndef SIMHCAD_PROGRAM_H
#define SIMHCAD_PROGRAM_H

#include <stdint.h>
#include <sys/types.h>

#include "tally.h"

#define PROGRAM_ANCESTORS 64
#define PROGRAMS_KNOWN 256

struct programs {
	struct {
		pid_t pid;
		uint64_t started;      /* the kernel's ticks: it tells who has the number */
	} ancestor[PROGRAM_ANCESTORS]; /* of the daemon */
	unsigned int count;
	/*
	 * Of processes that were asked for, by pid: one look at /proc tells whether it still holds.
	 */
	struct {
		pid_t pid, program;
		uint64_t started;
	} known[PROGRAMS_KNOWN];
	struct tally leasing; /* processes: how many leases of the daemon each has (admin.h) */
	unsigned int leases;  /* in all */
};

/* Whose something is. */
struct owner {
	pid_t process; /* 0: cannot be seen from here */
	pid_t program; /* the process that stands for it */
};

/* Before whoever started the daemon has heard that it is ready. */
void programs_init(struct programs *programs);
/* Of who has connected. */
struct owner program_peer(struct programs *programs, int socket);
/* The process has a lease more, or one less. */
void program_lease(struct programs *programs, pid_t process);
void program_lease_ends(struct programs *programs, pid_t process);
/* The `simhca run`, by its lease, that a process was started by; 0: none. */
pid_t program_run_of(const struct programs *programs, pid_t process);

#endif
