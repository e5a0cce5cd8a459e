/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * What this process cannot open because it has no descriptor left, told to the device for `simhca
 * explain`, the first few times. A device that is open is all that it takes; a process that has none
 * tells nothing.
 */
#ifndef SIMHCA_PRELOAD_LIMIT_H
#define SIMHCA_PRELOAD_LIMIT_H

#include "simhca-abi.h"

/* Both leave errno as it is. device_fd: the open device that it is about. */
void limit_say(int device_fd, enum simhca_say what);
/* A file of the tree, by its name there; any open device of this process's will do. */
void limit_say_file(const char *path);

#endif
