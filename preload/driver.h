/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * The kernel's interface as drivers of real hardware use it (libefa): write commands, and mmap() of
 * the device at offsets that the answers name. The daemon does what a kernel driver would.
 */
#ifndef SIMHCA_PRELOAD_DRIVER_H
#define SIMHCA_PRELOAD_DRIVER_H

#include <stdint.h>
#include <sys/types.h>

#include "simhca-abi.h"

/* Memory of the program's. */
struct driver_part {
	void *data; /* NULL: none */
	size_t size;
};

struct driver_write {
	uint32_t command;
	struct driver_part in[SIMHCA_UVERBS_PARTS], out[SIMHCA_UVERBS_PARTS];
	int fd; /* that goes along; -1: none */
};

/* Fills in out; 0 or a positive errno. */
int driver_write(int fd, const struct driver_write *write);

/* As mmap(). */
void *driver_map(void *addr, size_t size, int prot, int flags, int fd, off_t offset);

#endif
