/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The calls of rdma/ib_user_mad.h on an open umadN or issmN: what the kernel's would return, or -errno. */
#ifndef SIMHCA_PRELOAD_UMAD_H
#define SIMHCA_PRELOAD_UMAD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "caller.h"

/* Whether it is one of these ioctls, on whatever file. */
bool umad_is_ioctl(unsigned long request);
/* fd is the descriptor in this process, the addresses are the caller's. */
int umad_ioctl(struct caller *caller, int fd, unsigned long request, void *arg);
ssize_t umad_write(struct caller *caller, int fd, const void *buf, size_t size);
/* For another process it does not wait: -EAGAIN. */
ssize_t umad_read(struct caller *caller, int fd, void *buf, size_t size);

#endif
