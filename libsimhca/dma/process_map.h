/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#ifndef LIBSIMHCA_PROCESS_MAP_H
#define LIBSIMHCA_PROCESS_MAP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "simhca-abi.h"

struct simhca_mapping {
	uint64_t start, end;
	uint64_t offset; /* of start, in its file */
	uint64_t inode;	 /* of the file; 0: it has none */
	uint32_t major, minor;
	bool readable, writable, executable, shared;
};

/*
 * Visits the mappings of a process that [addr, addr + length) touches, by ascending addresses, until the
 * visitor says false; it may change the one that it is at. False: nobody can say what is mapped. pid 0 is this
 * process. Waits for who holds the locks of that address space, which can be for good.
 */
bool simhca_process_mappings(pid_t pid, uint64_t addr, uint64_t length,
			     bool (*visit)(const struct simhca_mapping *mapping, void *arg),
			     void *arg);

/*
 * Whether [addr, addr + length) of a process is mapped and readable, and writable if asked; also
 * true if nobody can say. It waits likewise. Of this process (pid 0) pages behind the end of a file are not there, nor is
 * memory of a device.
 */
bool simhca_process_has(pid_t pid, uint64_t addr, uint64_t length, bool writable);

/* Whether memory has to be writable for a region of this access: as in the kernel, for a window's sake as well. */
static inline bool simhca_needs_writable(uint32_t access)
{
	return access & (SIMHCA_ACCESS_LOCAL_WRITE | SIMHCA_ACCESS_MW_BIND);
}

#endif
