/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The runtime directory: where a daemon and its clients meet. One daemon a directory, held by
 * flock() on `lock`, which stays when the daemon ends; everything else goes.
 *
 *	lock      held as long as the daemon serves
 *	pid       its process id, as text
 *	control   AF_UNIX SOCK_SEQPACKET socket for tools (admin.h)
 *	tree/     the device tree (device_tree.h)
 */
#ifndef SIMHCAD_RUNDIR_H
#define SIMHCAD_RUNDIR_H

#include <limits.h>

struct rundir {
	char path[PATH_MAX]; /* absolute */
	int fd;
	int lock_fd;
};

/*
 * wanted: the --runtime-dir option or NULL. Makes and locks the directory, removes what a daemon
 * that died has left. -1: what is wrong was logged.
 */
int rundir_open(struct rundir *rundir, const char *wanted);
int rundir_write_pid(const struct rundir *rundir);
/* Removes everything but the lock, then lets it go. */
void rundir_close(struct rundir *rundir);

#endif
