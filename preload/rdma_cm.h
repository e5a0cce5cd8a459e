/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
#ifndef SIMHCA_PRELOAD_RDMA_CM_H
#define SIMHCA_PRELOAD_RDMA_CM_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Commands have certain lengths, by which most writes are told without a system call. */
bool rdma_cm_may_be_command(size_t size);
/* A write() to an open rdma_cm. */
ssize_t rdma_cm_write(int fd, const void *buf, size_t size);

#endif
