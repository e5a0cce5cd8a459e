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
 * Receives one from the owner's connection, which has SO_PASSCRED, without waiting: its bytes to
 * iov, and its descriptors to fds, *num_fds of them; those beyond max_fds are closed. Returns its
 * length, or -errno. *truncated: it was longer than iov, and the rest is lost.
 */
ssize_t datagram_receive(int socket, struct releaser *releaser, const struct owner *owner,
			 struct iovec *iov, size_t iov_count, struct sender *sender, int *fds,
			 unsigned int max_fds, unsigned int *num_fds, bool *truncated);

/*
 * Whether a datagram is a command of our ABI, of `least` bytes; length: 0 if it was truncated. 0, or
 * -error (not a command) or -EPROTONOSUPPORT. from: what has sent it.
 */
int datagram_check(const struct simhca_cmd_hdr *hdr, size_t length, size_t least, int error,
		   const char *from, struct simhca_why *why);

/*
 * Answers a request on this socket (answers.h), without waiting. kept: the number by which further
 * requests name the socket; 0: it is not kept. status: 0; or -errno, and then the answer is why->text,
 * without the body and the descriptors.
 */
struct datagram_answer {
	const void *body;
	size_t body_size;
	const int *fds;
	unsigned int num_fds;
};
void datagram_answer(int fd, uint32_t kept, int status, const struct datagram_answer *answer,
		     const struct simhca_why *why);
/* The same answer as bytes, for who sends it another way, without descriptors: iov points to hdr and the body. */
void datagram_reply(struct simhca_reply_hdr *hdr, uint32_t kept, int status,
		    const struct datagram_answer *answer, const struct simhca_why *why,
		    struct iovec iov[2]);

/*
 * The last process has closed its last descriptor: nobody waits for answers any more. Who has only said that
 * it sends nothing further (shutdown(SHUT_WR)) waits for them: its connection ends when all that it sent
 * has been read.
 */
bool datagram_has_hung_up(int socket);
/*
 * Closes a connection that was accepted from a client, here and now: nothing more comes in, and
 * what waits in its queue is taken out first. One whose queue is long is the releaser's.
 */
void datagram_close(int socket, struct releaser *releaser, const struct owner *owner);

#endif
