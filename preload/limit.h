/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What this process cannot open because it has no descriptor left, told to the device for `simhca
 * explain`, the first few times: by a device that is open, or by a thread with descriptors of its own.
 */
#ifndef SIMHCA_PRELOAD_LIMIT_H
#define SIMHCA_PRELOAD_LIMIT_H

#include "simhca-abi.h"

/* Both leave errno as it is. device_fd: the open device that it is about. */
void limit_say(int device_fd, enum simhca_say what);
/* A file of the tree, by its name there; also if this process has no device open. */
void limit_say_file(const char *path);

/* Tells the daemon that a verb answered here was refused with that error: the first few of a process. */
void limit_say_refused(int device_fd, enum simhca_say what, int error, const char *text);

#endif
