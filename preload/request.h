/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Commands of simhca-abi-cmd.h that this library sends itself, rather than the provider. */
#ifndef SIMHCA_PRELOAD_REQUEST_H
#define SIMHCA_PRELOAD_REQUEST_H

#include <stddef.h>

/*
 * Send a command without arguments on an open device, and return the descriptor that the answer
 * brings, close-on-exec; or a negative errno: the daemon's, or EIO when it is gone.
 */
int request_fd(int device_fd, int command);

/*
 * Send a command with what follows its header, and take the answer's body, size bytes at most.
 * Returns its length, or a negative errno as above. Waits for the daemon only, and for it
 * whatever signals come: it answers at once, or has died.
 */
struct iovec;
int request_bytes(int device_fd, int command, const struct iovec *parts, size_t num_parts,
		  void *body, size_t size);

#endif
