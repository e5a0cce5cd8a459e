/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * One system call of a supervised program, and what is said to it. A name that leads into the device
 * tree by the preload library's rules (paths.h) is looked up there, with the tree as the root that
 * `..` does not leave; an open device is told from other descriptors as there (device.h). Everything
 * else the kernel does, as if nobody had asked: that is no decision about what the program may do.
 *
 * Only programs of our own user are served. What they pass is read once, from their memory, while
 * the call is known to wait.
 */
#ifndef SIMHCA_SUPERVISED_H
#define SIMHCA_SUPERVISED_H

#include <linux/seccomp.h>
#include <stdint.h>

#include "seccomp_filter.h"

struct supervised_tally {
	unsigned long looked; /* names that led into the tree */
	unsigned long opened; /* devices, and sockets for RDMA netlink */
};

struct supervised {
	int listener;
	struct fd_range range; /* for devices' descriptors */
	struct supervised_tally *tally;
};

enum supervised_outcome {
	CALL_CONTINUES, /* in the kernel */
	CALL_ANSWERED,	/* by *value */
	CALL_ENDED, /* its thread has gone, or was answered already: there is nothing to respond to */
	CALL_WAITS /* until *fd, the outcome's owner's, is readable; then it is asked again */
};

/* *value: what the call returns, or a negative errno. */
enum supervised_outcome supervised_call(const struct supervised *supervised,
					const struct seccomp_notif *notif, int64_t *value, int *fd);

/* Whether a signal waits for this thread, which it is to see before it waits on. */
int supervised_is_signalled(uint32_t pid);

#endif
