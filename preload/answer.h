/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * Requests on an open /dev/infiniband/rdma_cm, with sockets for their answers that are kept from
 * one request to the next (simhca-abi-rdma-cm.h).
 */
#ifndef SIMHCA_PRELOAD_ANSWER_H
#define SIMHCA_PRELOAD_ANSWER_H

#include <stddef.h>
#include <sys/uio.h>

#include "simhca-abi.h"
#include "simhca-abi-rdma-cm.h"

/*
 * request goes in front of the parts, of which there are two at most. Returns the length of the
 * answer, which begins with struct simhca_ucma_reply, or a negative errno: EIO when the daemon has
 * gone. Waits for the daemon only, and for it whatever signals come: it answers at once, or has
 * died.
 */
int answer_request(int device_fd, int command, struct simhca_ucma_request *request,
		   const struct iovec *parts, size_t num_parts, void *body, size_t size);

#endif
