/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* What libibverbs asks of an open uverbsN by itself, past the provider: RDMA_VERBS_IOCTL. */
#ifndef SIMHCA_PRELOAD_UVERBS_H
#define SIMHCA_PRELOAD_UVERBS_H

#include "caller.h"
#include "device.h"

/*
 * fd is the device's descriptor in this process, argument the ioctl's, an address of the caller's.
 * Returns 0 or a positive errno.
 */
int uverbs_ioctl(struct caller *caller, int fd, const struct device_name *device,
		 const void *argument);

#endif
