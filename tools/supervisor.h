/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Shows the device to a command, and to all that it starts, by answering some of its system calls
 * (seccomp user notification): it need not be linked dynamically, nor keep its environment.
 *
 * A thread answers while the command runs; a process does afterwards, as long as there are programs
 * that it has left behind. Without either their calls fail with ENOSYS.
 */
#ifndef SIMHCA_SUPERVISOR_H
#define SIMHCA_SUPERVISOR_H

#include "supervised.h"

struct supervisor;

/* For commands with the device of that runtime directory; NULL after a complaint. */
struct supervisor *supervisor_new(const char *dir);

/* In the child that is to be the command: 0, or -errno as of seccomp_filter_enter(). */
int supervisor_enter(struct supervisor *supervisor);

/* In the parent, after fork(): 0 or -errno. */
int supervisor_start(struct supervisor *supervisor);

/* When the command has ended: stops the thread, and leaves a process if one is needed. */
void supervisor_end(struct supervisor *supervisor, struct supervised_tally *tally);

#endif
