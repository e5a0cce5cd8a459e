/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#ifndef LIBSIMHCA_PROCESS_MAP_H
#define LIBSIMHCA_PROCESS_MAP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Whether [addr, addr + length) of a process is mapped and readable, and writable if asked; also
 * true if nobody can say. pid 0 is this process. Waits for who holds the locks of that address
 * space, which can be for good.
 */
bool simhca_process_has(pid_t pid, uint64_t addr, uint64_t length, bool writable);

#endif
