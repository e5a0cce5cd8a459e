/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/* Commands of simhca-abi-cmd.h that this library sends itself, rather than the provider. */
#ifndef SIMHCA_PRELOAD_REQUEST_H
#define SIMHCA_PRELOAD_REQUEST_H

#include "simhca-request.h"

/*
 * Send a command without arguments on an open device, and return the descriptor that the answer
 * brings, close-on-exec; or a negative errno: the daemon's, or EIO when it is gone. If this process
 * has no descriptor left for it, that is told of what.
 */
int request_fd(int device_fd, int command, enum simhca_say what);

/* What has become of a request: the length of its answer's body, or a negative errno as above. */
int request_result(int err, const struct simhca_answer *answer);

#endif
