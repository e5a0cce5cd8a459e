/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* The calls of rdma/ib_user_mad.h on an open umadN or issmN: what the kernel's would return, and errno. */
#ifndef SIMHCA_PRELOAD_UMAD_H
#define SIMHCA_PRELOAD_UMAD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Whether it is one of these ioctls, on whatever file. */
bool umad_is_ioctl(unsigned long request);
int umad_ioctl(int fd, unsigned long request, void *arg);
ssize_t umad_write(int fd, const void *buf, size_t size);
ssize_t umad_read(int fd, void *buf, size_t size);

#endif
