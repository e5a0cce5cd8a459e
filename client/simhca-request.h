/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A command of simhca-abi-cmd.h and its answer, as a program sees them: the provider and the
 * preload library are built with this.
 */
#ifndef SIMHCA_REQUEST_H
#define SIMHCA_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

#include "simhca-abi.h"

#define SIMHCA_REQUEST_PARTS 3

struct simhca_request {
	int device_fd;
	uint64_t
		connection; /* simhca_connection() that it had when it was opened; 0: that is not known */
	int command;
	const struct iovec *parts; /* what follows the header */
	size_t num_parts;
	const int *fds; /* that go with it */
	unsigned int num_fds;
	void *body; /* where the answer's goes, what there is room for of it */
	size_t size;
	int *reply_fds; /* close-on-exec; of those that come more than these are closed */
	unsigned int max_reply_fds;
	/* Where the answer is to be, and which it is; NULL: on a socket. It has no descriptors. */
	struct simhca_answer_slot *slot;
	uint32_t slot_number;
	bool keep; /* the socket for the answer, until simhca_request_forget() or the process's end
		    */
};

struct simhca_answer {
	struct simhca_reply_hdr hdr; /* its message ends with a NUL */
	size_t size;		     /* bytes of the body */
	unsigned int num_fds;
	bool fds_lost; /* the process had no room for some */
};

/*
 * Waits for the daemon only, and for it whatever signals come: it answers at once, or has died. 0
 * when there is an answer, whatever status it has; else errno: ENOTCONN when the daemon has gone,
 * EBADF when device_fd is not that connection by now, EPROTO for what is no answer.
 */
int simhca_request(const struct simhca_request *request, struct simhca_answer *answer);

/*
 * Sends it without an answer, for a program that has no descriptor left for the socket. It waits a
 * moment for the daemon to read it, which carries out nothing of a connection that has ended by
 * then. errno is left as it is.
 */
void simhca_tell(const struct simhca_request *request);

/*
 * A text for SAY, of size bytes, NUL included: that the program is at its limit. what is in front
 * of it, "its memory cannot be mapped".
 */
void simhca_say_limit(char *text, size_t size, const char *what);

/* Closes what is kept for this device, which is still open. */
void simhca_request_forget(int device_fd);

#endif
