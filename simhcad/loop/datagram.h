/* SPDX-License-Identifier: GPL-2.0-only OR Linux-OpenIB */
/*
 * A datagram of a client: its bytes, who sent it, and the descriptors that came with it, each of
 * which can be any file at all (releaser.h).
 */
#ifndef SIMHCAD_DATAGRAM_H
#define SIMHCAD_DATAGRAM_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "releaser.h"
#include "simhca-device.h"

/* What the kernel passes with one message (SCM_MAX_FD). */
#define DATAGRAM_KERNEL_FDS 253u

struct sender {
	bool known; /* false: not a datagram, but the end of the connection */
	pid_t pid;  /* 0: cannot be seen from here */
	uid_t uid;
	/* Names the process, as its number does only while it lives. -1: the kernel cannot (before
	   Linux 6.5), or was not asked. */
	int pidfd;
	bool gone; /* it has ended, and its number may be another's */
};

/*
 * Has the kernel pass pidfds of senders on this connection, if it can, or does without. They are
 * the receiver's. A datagram has one if that was so when it is received.
 */
void datagram_ask_for_pidfds(int socket, bool ask);

/*
 * Takes one from the owner's connection, which has SO_PASSCRED, without waiting: bytes to iov,
 * descriptors to fds, *num_fds of at most max_fds, further ones are closed. Its length, or -errno.
 * *truncated: it was longer.
 */
ssize_t datagram_receive(int socket, struct releaser *releaser, const struct owner *owner,
			 struct iovec *iov, size_t iov_count, struct sender *sender, int *fds,
			 unsigned int max_fds, unsigned int *num_fds, bool *truncated);

/*
 * Answers a request on this socket (answers.h), without waiting. kept: its number from now on, 0 if
 * it has none. status: 0 or -errno, and then why->text goes along instead of the body and the
 * descriptors.
 */
struct datagram_answer {
	const void *body;
	size_t body_size;
	const int *fds;
	unsigned int num_fds;
};
void datagram_answer(int fd, uint32_t kept, int status, const struct datagram_answer *answer,
		     const struct simhca_why *why);
/* What the answer consists of, without descriptors. iov points to hdr and to the answer's body. */
void datagram_reply(struct simhca_reply_hdr *hdr, uint32_t kept, int status,
		    const struct datagram_answer *answer, const struct simhca_why *why,
		    struct iovec iov[2]);

/* The last process has closed its last descriptor: nobody waits for what is still to be read. */
bool datagram_has_hung_up(int socket);
/*
 * Closes a connection that was accepted from a client, here and now: nothing more comes in, and
 * what waits in its queue is taken out first. One whose queue is long is the releaser's.
 */
void datagram_close(int socket, struct releaser *releaser, const struct owner *owner);

#endif
