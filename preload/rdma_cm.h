/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* write() to an open /dev/infiniband/rdma_cm: a command of librdmacm. */
#ifndef SIMHCA_PRELOAD_RDMA_CM_H
#define SIMHCA_PRELOAD_RDMA_CM_H

#include <sys/types.h>

#include "caller.h"

/*
 * fd is the device's descriptor in this process, buf an address of the caller's. Returns what
 * write() would, or a negative errno. GET_EVENT waits as the descriptor says if the caller is this
 * process, and is EAGAIN for another, which then waits until fd is readable.
 */
ssize_t rdma_cm_write(struct caller *caller, int fd, const void *buf, size_t size);

#endif
